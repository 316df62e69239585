"""The journal of a fit: what has been done, so that a fit that was cut off need not do it again.

A fit is a sequence of pieces of work, each determined by what came before. `once` hands back the
result of a piece, and `loop` the state of a piece that has states on the way; both note it in the
journal of the call, if that has one, together with the state of the random generators. A fit that
goes on from a journal runs the same code from its beginning: pieces that are done hand back what
they found, loops go on from their last state, and what is short is done anew. So a method need not
know where it was left. Pieces follow each other in one order. What is noted within a piece, or
within an iteration of a loop, is dropped once that has a result.

Threads of a fit note nothing, but for searches that `branched` sends on branches of the journal.
Who writes the journal to a file, and when, is the business of its ``writer``, which has ``due()``
and ``write(entries)``.
"""

import copy
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock, get_ident
from typing import NamedTuple

SEEDS = "seeds of random numbers"  # An entry that no work has gone into.


class Entry:
    """A piece of work: its name, its result or state, generators then, branches of what is open.

    It ``has_ended`` where entries after it follow it, and do not belong to an iteration of it.
    """

    def __init__(
        self, name, is_known=False, value=None, generators=(), has_ended=False, branches=()
    ):
        self.name, self.is_known, self.value = name, is_known, value
        self.generators, self.has_ended, self.branches = generators, has_ended, list(branches)


class _Root(NamedTuple):
    writer: object
    lock: object
    entries: list
    flags: dict  # Whether the journal is closed.


class Journal:
    """Entries in the order in which their pieces began; used by the thread that has made it."""

    def __init__(self, writer, entries=(), root=None):
        self.entries = list(entries)
        self._root = root or _Root(writer, RLock(), self.entries, {"closed": False})
        self._next, self._thread, self._is_behind = 0, get_ident(), False

    def notes(self):
        """Whether a piece that begins now is noted."""
        return self.is_open() and not self._is_behind and get_ident() == self._thread

    def is_open(self):
        """Whether what is done is noted."""
        return not self._root.flags["closed"]

    def open(self, name):
        """The place of the next entry; one of another name, and all after it, is dropped."""
        with self._root.lock:
            place, self._next = self._next, self._next + 1
            if place < len(self.entries) and self.entries[place].name != name:
                del self.entries[place:]
            if place == len(self.entries):
                self.entries.append(Entry(name))
            return place

    def note(self, place, value, generators, in_place=False):
        """Note the result or state of an entry, and drop what came within it.

        A state that changes ``in_place`` is copied, and so only where it is written at once: until
        then no other piece is noted, for it would belong to a later state.
        """
        root = self._root
        if root.flags["closed"] or get_ident() != self._thread:
            return
        is_due = root.writer.due()
        if in_place and not is_due:
            self._is_behind = True
            return
        with root.lock:
            value = copy.deepcopy(value) if in_place else value
            before, states = self.entries[place], tuple(map(_state_of, generators))
            stop = place + 1 if before.has_ended else None
            entry = Entry(before.name, True, value, states, before.has_ended)
            self.entries[place:stop] = [entry]
            self._next, self._is_behind = place + 1, False
            if is_due:
                root.writer.write(root.entries)

    def end(self, place):
        """Note pieces again, after a loop whose last states may not have been noted."""
        self._is_behind = False
        if place < len(self.entries):
            self.entries[place].has_ended = True

    def close(self):
        """Note nothing more: what follows is not what an uninterrupted fit would do.

        What has been noted so far is written.
        """
        with self._root.lock:
            if not self._root.flags["closed"]:
                self._root.flags["closed"] = True
                self._root.writer.write(self._root.entries)

    def branch(self, place, name):
        """A journal for one of several pieces that may be done at the same time."""
        with self._root.lock:
            branches = self.entries[place].branches
            for known, entries in branches:
                if known == name:
                    return _Branch(entries, self._root)
            branches.append((name, []))
            return _Branch(branches[-1][1], self._root)


class _Branch(Journal):
    """Part of another journal, used by the thread that makes it."""

    def __init__(self, entries, root):
        super().__init__(None, (), root)
        self.entries = entries


_journal = ContextVar("journal of a fit by skpmd", default=None)
_is_noted = ContextVar("whether pieces of a fit by skpmd are noted", default=False)


@contextmanager
def on_journal(journal):
    """Context of a call with a journal, or of a branch."""
    tokens = _journal.set(journal), _is_noted.set(True)
    try:
        yield
    finally:
        _is_noted.reset(tokens[1])
        _journal.reset(tokens[0])


@contextmanager
def unnoted():
    """Context of what is short beside what it is part of, or in no order: it is not noted."""
    token = _is_noted.set(False)
    try:
        yield
    finally:
        _is_noted.reset(token)


def close_journal():
    """Note nothing more in this call."""
    journal = _journal.get()
    if journal is not None:
        journal.close()


def _current():
    journal = _journal.get() if _is_noted.get() else None
    return journal if journal is not None and journal.notes() else None


def once(name, work, *generators):
    """The result of ``work()``, or what the journal has of it.

    ``generators`` are the random generators that the work draws from. The result is made of arrays,
    numbers and records of them, and nobody changes it.
    """
    journal = _current()
    if journal is None:
        return work()
    place = journal.open(name)
    entry = journal.entries[place]
    if entry.is_known:
        _restore(generators, entry.generators)
        return entry.value
    value = work()
    journal.note(place, value, generators)
    return value


class Loop:
    """A piece of work with states on the way; ``state`` is the last one noted, or None."""

    def __init__(self, journal=None, name="", generators=(), in_place=False):
        self._journal, self._generators, self._in_place = journal, generators, in_place
        self.state = None
        if journal is not None:
            self._place = journal.open(name)
            entry = journal.entries[self._place]
            if entry.is_known:
                _restore(generators, entry.generators)
                self.state = copy.deepcopy(entry.value) if in_place else entry.value

    def reached(self, state):
        """Note a state: all that the iterations after it need."""
        if self._journal is not None:
            self._journal.note(self._place, state, self._generators, self._in_place)

    def end(self):
        """Say that no piece within an iteration follows: others are noted again."""
        if self._journal is not None and self._in_place:
            self._journal.end(self._place)


def loop(name, *generators, in_place=False):
    """The `Loop` that begins now, ``in_place`` if its states are changed by what follows."""
    return Loop(_current(), name, generators, in_place)


def branched(function, items):
    """A function and items for `skpmd.engine.threads.each`, each of which has its own branch."""
    journal, items = _current(), list(items)
    if journal is None:
        return function, items
    place = journal.open("branches")

    def on_branch(pair):
        name, item = pair
        with on_journal(journal.branch(place, name)):
            return function(item)

    return on_branch, list(enumerate(items))


def _state_of(generator):
    seeds = generator.bit_generator.seed_seq
    return generator.bit_generator.state, getattr(seeds, "n_children_spawned", 0)


def _restore(generators, states):
    for generator, (state, n_spawned) in zip(generators, states, strict=True):
        generator.bit_generator.state = state
        missing = n_spawned - getattr(generator.bit_generator.seed_seq, "n_children_spawned", 0)
        if missing > 0:  # Generators that the work has spawned are counted.
            generator.spawn(missing)
