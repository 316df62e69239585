"""A call of the user: its phases, how far each has come, and whether its time is over.

An estimator makes a `Call` of each of them. Whatever runs within its context (`during`) says what
it does without knowing who listens: `phase` names a part of the work and counts its steps, `tick`
says that it goes on. Time is up to three functions: `out_of_time` is for searches, which end with
the best place so far; `share_of_time` leaves them a part of the time only; and `drive`
(`skpmd.engine.loop`) ends a method at its first complete state after the deadline, for a `tick`
then refuses further work. Without such a context nothing of this does anything.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from threading import get_ident
from time import perf_counter

import numpy as np


def clock():
    """Seconds since some moment."""
    return perf_counter()


class OutOfTime(Exception):
    """Time is over and there is a complete state: the next piece of work is not started."""


class _SearchEnds(Exception):
    """Time is over and a search has a best place."""


class Call:
    """What a call may take and who hears of it; used by the thread that has made it.

    ``listeners`` have ``open(name, total)``, which returns an object with ``advance(n, text)``,
    ``tick()`` and ``close()``; and ``write(text)``. The name is None of what no phase names.
    """

    def __init__(self, max_time=None, listeners=()):
        self.deadline = None if max_time is None else clock() + max_time
        self.ended = []  # What the deadline has ended, in words.
        self._by = f"max_time={max_time}"
        self.ends = False  # Whether the next piece of work is not to be started.
        self.has_state = False  # Whether there is a complete state.
        self._listeners, self._phases, self._thread = listeners, [], get_ident()
        self._unnamed = None  # A phase of what no phase names.

    def is_over(self):
        """Whether time is over, and it counts here."""
        return self.deadline is not None and _counts.get() and clock() >= self.deadline

    def account(self):
        """Who has ended what, in words, a tuple; empty where nothing has been ended."""
        return (self._by, *self.ended) if self.ended else ()

    def note_end(self, what):
        """Note what the deadline has ended, in words."""
        if what not in self.ended:
            self.ended.append(what)

    def hears(self):
        """Whether anybody listens to this thread."""
        return bool(self._listeners) and get_ident() == self._thread

    def open(self, name, total):
        """A further phase, inside those that are open."""
        self.close(self._unnamed)
        one = [listener.open(name, total) for listener in self._listeners]
        self._phases.append(one)
        return one

    def close(self, phase):
        """Close a phase, and what a generator has left open inside it."""
        while any(one is phase for one in self._phases):
            for listened in self._phases.pop():
                listened.close()

    def close_all(self):
        """Close what is open."""
        if self._phases:
            self.close(self._phases[0])

    def show(self):
        """Show that work goes on."""
        if self.hears():
            if not self._phases:
                self._unnamed = self.open(None, None)
            for listened in self._phases[-1]:
                listened.tick()

    def write(self, text):
        """Show a line that belongs to no step."""
        if self.hears():
            for listener in self._listeners:
                listener.write(text)


_IDLE = Call()
_call = ContextVar("call of skpmd", default=_IDLE)
_counts = ContextVar("whether time counts in a fit by skpmd", default=True)


@contextmanager
def during(call):
    """Context of a call, in which time counts.

    Ctrl-C may come before a context has taken back what it has set: an interrupted call may have
    left time uncounted, or its own call.
    """
    token, counts = _call.set(call), _counts.set(True)
    try:
        yield
    finally:
        _counts.reset(counts)
        _call.reset(token)
        call.close_all()


def current():
    """The call that runs."""
    return _call.get()


def tick(long=False):
    """Say that work goes on; raises `OutOfTime` where it is not to.

    In ``long`` work, of which a part is worth nothing, that is so from the deadline on where there
    is a complete state.
    """
    call = _call.get()
    if call is not _IDLE:
        if call.ends or (long and call.has_state and call.is_over()):
            raise OutOfTime
        call.show()


def show_work():
    """The same where work cannot be ended: in waiting for other threads."""
    _call.get().show()


def write(text):
    """Show a line that belongs to no step."""
    _call.get().write(text)


@contextmanager
def phase(name, total=None):
    """Context that yields ``advance(n=1, text="")``, to be called after n steps of ``total``."""
    call = _call.get()
    if not call.hears():
        yield _unheard
        return
    listened = call.open(name, total)

    def advance(n=1, text=""):
        if call.hears():
            for one in listened:
                one.advance(n, text)

    try:
        yield advance
    finally:
        call.close(listened)


def _unheard(n=1, text=""):
    pass


def counted(items, name, total=None):
    """The items one by one, as steps of a phase."""
    with phase(name, total) as advance:
        for item in items:
            yield item
            advance()


def out_of_time(what):
    """Whether time is over; the caller is then to end ``what``, a few words that name it."""
    call = _call.get()
    if not call.is_over():
        return False
    call.note_end(what)
    return True


@contextmanager
def share_of_time(share):
    """Context with this share of the time that is left, for what comes before a first state."""
    call = _call.get()
    before = call.deadline
    if before is None or call.is_over():
        yield
        return
    now = clock()
    call.deadline = now + share * (before - now)
    try:
        yield
    finally:
        call.deadline = before


@contextmanager
def untimed():
    """Context in which time does not count: for what is of no use if it is not whole."""
    token = _counts.set(False)  # For this thread: others have contexts of their own.
    try:
        yield
    finally:
        _counts.reset(token)


def best_in_time(search, objective, what, total=None):
    """``search(objective)``, or the best (place, value) of the objective where time ends it.

    The objective takes a place first, and returns a value to be minimised, or a value and more. It
    is evaluated once at least. ``what`` names the search, of ``total`` evaluations at most.
    """
    best = None
    with phase("evaluations", total) as advance:

        def timed(place, *args, **options):
            nonlocal best
            tick()
            if best is not None and out_of_time(what):
                raise _SearchEnds
            outcome = objective(place, *args, **options)
            value = float(outcome[0] if isinstance(outcome, tuple) else outcome)
            if best is None or value < best[1]:
                best = np.array(place, dtype=np.float64), value
            advance()
            return outcome

        try:
            return search(timed)
        except _SearchEnds:
            return best
