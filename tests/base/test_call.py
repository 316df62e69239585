"""The call of a fit: who hears what, and when which work ends."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from skpmd._runtime.call import (
    Call,
    OutOfTime,
    best_in_time,
    counted,
    current,
    during,
    out_of_time,
    phase,
    share_of_time,
    tick,
    untimed,
    write,
)
from skpmd._runtime.threads import each, in_order, threads
from skpmd.engine.loop import Outcome, drive


class Listener:
    """Notes what it hears."""

    def __init__(self, heard=None, name="", total=None):
        self.heard, self.name, self.total = [] if heard is None else heard, name, total

    def open(self, name, total):
        self.heard.append(("open", name, total))
        return Listener(self.heard, name, total)

    def advance(self, n, text):
        self.heard.append(("advance", self.name, n, text))

    def tick(self):
        self.heard.append(("tick", self.name))

    def close(self):
        self.heard.append(("close", self.name))

    def write(self, text):
        self.heard.append(("write", text))


@pytest.fixture
def seconds(monkeypatch):
    """A clock that a test sets."""
    now = [0.0]
    monkeypatch.setattr("skpmd._runtime.call.clock", lambda: now[0])
    return now


def states(seconds, n, work=True):
    """A method of n states of a second each."""
    for k in range(n):
        if work:
            tick()
        seconds[0] += 1.0
        yield Outcome(k, [k])


@pytest.mark.parametrize("max_time, last", [(0.5, 0), (1.0, 0), (1.5, 1), (3.5, 3)])
def test_the_first_complete_state_after_the_deadline_is_the_last(seconds, max_time, last):
    reported = []
    call = Call(max_time)
    with during(call):
        outcome = drive(states(seconds, 10), reported.append)
    assert outcome.particles == last and outcome.out_of_time and outcome.ended_early
    assert outcome.infos == reported == list(range(last + 1))
    (text,) = call.ended
    assert text == f"the fit after {last + 1} step{'s' if last else ''}" and not call.ends


@pytest.mark.parametrize("n, work", [(1, True), (5, False)])
def test_what_has_nothing_left_to_do_is_complete(seconds, n, work):
    """Time has run out, and no work is refused."""
    call = Call(0.5)
    with during(call):
        outcome = drive(states(seconds, n, work))
    assert outcome.particles == n - 1 and not outcome.out_of_time and not call.ended


def test_a_method_within_a_method_ends_the_outer_one(seconds):
    def outer():
        yield Outcome("outer", [])
        seconds[0] = 9.0
        yield Outcome("late", [])
        drive(states(seconds, 3))
        yield Outcome("never", [])

    with during(Call(5.0)):
        assert drive(outer()).particles == "late"


def test_work_before_a_state_goes_on(seconds):
    def slow():
        for _ in range(100):
            seconds[0] += 1.0
            tick()
        yield Outcome("first", [])

    with during(Call(5.0)):
        outcome = drive(slow())
    assert outcome.particles == "first" and not outcome.out_of_time


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_threads_refuse_further_items(n_jobs):
    call, done = Call(1.0), []
    with during(call), threads(n_jobs):
        call.ends = True
        with pytest.raises(OutOfTime):
            each(lambda one: done.append(one), range(20))
        with pytest.raises(OutOfTime):
            list(in_order(lambda one: done.append(one), range(20)))
    assert not done


def test_a_search_ends_with_its_best_place(seconds):
    """The minimum of a parabola, by a method that would go on for ever."""
    evaluated = []

    def objective(x):
        seconds[0] += 1.0
        evaluated.append(np.array(x))
        return float((x - 3.0) @ (x - 3.0)), 2.0 * (x - 3.0)

    def search(timed):
        end = minimize(timed, np.zeros(2), jac=True, method="L-BFGS-B")
        return end.x, end.fun

    call = Call(1.5)
    with during(call):
        place, value = best_in_time(search, objective, "the search")
    assert len(evaluated) == 2 and call.ended == ["the search"]
    values = [float((one - 3.0) @ (one - 3.0)) for one in evaluated]
    assert value == min(values)
    np.testing.assert_array_equal(place, evaluated[int(np.argmin(values))])
    place, value = best_in_time(search, objective, "the search")  # Without a limit.
    assert value < 1e-10


def test_a_search_has_one_evaluation_at_least(seconds):
    call = Call(1.0)
    seconds[0] = 5.0
    with during(call):
        assert best_in_time(lambda f: f(np.ones(1)), lambda x: float(x[0]), "it") == 1.0
        assert not call.ended
        place, value = best_in_time(lambda f: (f([2.0]), f([1.0])), lambda x: x[0], "it")
    assert (place, value) == ([2.0], 2.0) and call.ended == ["it"]


def test_the_best_place_need_not_be_the_last(seconds):
    def objective(x):
        seconds[0] += 1.0
        return abs(x[0] - 1.0)

    def search(timed):
        return [timed([float(k)]) for k in range(10)]

    with during(Call(3.5)):
        place, value = best_in_time(search, objective, "it")
    assert (place, value) == ([1.0], 0.0) and seconds[0] == 4.0


def test_a_share_of_the_time_and_no_time_at_all(seconds):
    call = Call(10.0)
    with during(call):
        seconds[0] = 2.0
        with share_of_time(0.5):
            seconds[0] = 5.9
            assert not out_of_time("a")
            seconds[0] = 6.0
            assert out_of_time("a")
        assert not out_of_time("b")
        seconds[0] = 10.0
        with untimed():
            assert not out_of_time("c")
        assert out_of_time("d")
    assert call.ended == ["a", "d"]
    with share_of_time(0.5):  # Without a limit.
        assert not out_of_time("e")


def test_a_call_counts_time_whatever_an_interrupted_one_has_left(seconds):
    """Ctrl-C may come between the end of a block and what its context does then."""
    uncounted = untimed()
    uncounted.__enter__()
    try:
        with during(Call(1.0)):
            seconds[0] = 2.0
            assert out_of_time("then")
    finally:
        uncounted.__exit__(None, None, None)


def test_threads_do_not_disturb_the_deadline_of_others(seconds):
    call = Call(1.0)

    def work(_):
        with untimed():
            return out_of_time("never")

    seconds[0] = 2.0
    with during(call), threads(4):
        assert not any(each(work, range(50)))
        assert out_of_time("then")


def test_phases_are_heard_in_their_order():
    listener = Listener()
    with during(Call(listeners=[listener])):
        write("a line")
        with phase("outer", 2) as advance:
            advance(text="one")
            assert list(counted([5, 6], "inner")) == [5, 6]
            tick()
            advance(1)
    assert listener.heard == [
        ("write", "a line"), ("open", "outer", 2), ("advance", "outer", 1, "one"),
        ("open", "inner", None), ("advance", "inner", 1, ""), ("advance", "inner", 1, ""),
        ("close", "inner"), ("tick", "outer"), ("advance", "outer", 1, ""), ("close", "outer"),
    ]  # fmt: skip


def test_work_without_a_phase_is_shown_too():
    listener = Listener()
    with during(Call(listeners=[listener])):
        tick()
        tick()
        with phase("named"):
            pass
        tick()
    assert listener.heard == [
        ("open", None, None), ("tick", None), ("tick", None), ("close", None),
        ("open", "named", None), ("close", "named"),
        ("open", None, None), ("tick", None), ("close", None),
    ]  # fmt: skip


def test_a_phase_that_a_generator_leaves_open_is_closed():
    listener, call = Listener(), None
    call = Call(listeners=[listener])
    with during(call):
        with phase("outer"):
            items = counted(itertools.count(), "endless")
            next(items)
        items.close()
    assert [one[1] for one in listener.heard if one[0] == "close"] == ["endless", "outer"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_phases_are_closed_after_an_error(error):
    listener = Listener()
    with pytest.raises(error), during(Call(listeners=[listener])):
        with phase("outer"), phase("inner"):
            raise error
    assert [one for one in listener.heard if one[0] == "close"] == [
        ("close", "inner"), ("close", "outer")
    ]  # fmt: skip
    assert current().deadline is None and not current().hears()


def test_other_threads_are_not_heard():
    listener = Listener()
    with during(Call(listeners=[listener])), threads(3), phase("outer"):
        each(lambda _: list(counted(range(3), "inner")), range(30))
    names = {one[1] for one in listener.heard}
    assert names <= {"outer", "inner"}
    opened = [one for one in listener.heard if one[0] == "open"]
    closed = [one for one in listener.heard if one[0] == "close"]
    assert len(opened) == len(closed)
