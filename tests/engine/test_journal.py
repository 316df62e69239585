"""The journal of a fit: what is noted is not done again, and everything else is."""

import numpy as np
import pytest

from skpmd.engine.journal import Journal, branched, close_journal, loop, on_journal, once, unnoted
from skpmd.engine.threads import each, threads


class Writer:
    """Notes what it is given, and stops the work after so many writes."""

    def __init__(self, stop=None, every=1):
        self.n, self.stop, self.every, self.calls = 0, stop, every, 0

    def due(self):
        self.calls += 1
        return self.calls % self.every == 0

    def write(self, entries):
        self.n += 1
        if self.n == self.stop:
            raise StopIteration


def cut_at(stop, work, entries=(), **how):
    """The journal of work that is cut off after so many writes, and its result or None."""
    journal = Journal(Writer(stop, **how), entries)
    try:
        with on_journal(journal):
            return journal, work()
    except StopIteration:
        return journal, None


def steps(done, in_place=False):
    """Work of each kind: pieces, a loop with pieces within it, and another piece."""
    rng = np.random.default_rng(0)
    first = once("first", lambda: done.append("first") or rng.standard_normal(), rng)
    rng.standard_normal()  # Nobody notes this.
    place = loop("loop", rng, in_place=in_place)
    t, total = place.state or (0, np.zeros(1))
    while t < 5:
        within = once("within", lambda t=t: done.append(t) or rng.standard_normal(2), rng)
        t, total = t + 1, total + within.sum()
        place.reached((t, total))
    last = once("last", lambda: done.append("last") or rng.spawn(1)[0].random(), rng)
    return first, total.item(), last, rng.standard_normal(), rng.spawn(1)[0].random()


ALL = ["first", 0, 1, 2, 3, 4, "last"]


@pytest.mark.parametrize("stop", range(1, 13))
def test_a_piece_is_done_once_wherever_the_work_is_cut_off(stop):
    done = []
    expected = steps([])
    journal, found = cut_at(stop, lambda: steps(done))
    assert found is None
    assert cut_at(None, lambda: steps(done), journal.entries)[1] == expected
    assert done == ALL


def test_without_a_journal_everything_is_done():
    done = []
    assert steps(done) == steps([]) and done == ALL


def test_what_came_within_a_loop_is_dropped():
    journal, _ = cut_at(None, lambda: steps([]))
    assert [one.name for one in journal.entries] == ["first", "loop", "last"]


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_states_that_change_in_place_are_copied_where_they_are_written(stop):
    def work():
        place = loop("loop", in_place=True)
        t, values = place.state or (0, np.zeros(1))
        while t < 12:
            once("within", lambda: None)
            values += t  # In place.
            t += 1
            place.reached((t, values))
        return values.item()

    journal, found = cut_at(stop, work, every=3)
    assert found is None
    (t, values), *_ = (one.value for one in journal.entries if one.name == "loop")
    assert values == sum(range(t))
    # Pieces after a state that is not noted do not belong to the one that is.
    assert len(journal.entries) == 1
    assert cut_at(None, work, journal.entries)[1] == sum(range(12))


def test_an_entry_of_another_name_and_all_after_it_are_dropped():
    journal, _ = cut_at(None, lambda: [once(name, lambda: 0) for name in "abc"])
    _, found = cut_at(None, lambda: [once(name, lambda: 1) for name in "axc"], journal.entries)
    assert found == [0, 1, 1]


def test_a_closed_journal_notes_nothing_more():
    def work():
        once("a", lambda: 0)
        close_journal()
        once("b", lambda: 0)

    journal, _ = cut_at(None, work)
    assert [one.name for one in journal.entries] == ["a"]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_pieces_of_threads_are_noted_on_branches_alone(n_jobs):
    done = []

    def item(k):
        return once("item", lambda: done.append(k) or k)

    def work():
        with threads(n_jobs):
            plain = each(item, range(4))
            with unnoted():
                once("unnoted", lambda: None)
            return plain, each(*branched(item, range(4))), once("after", lambda: 7)

    journal, found = cut_at(None, work)
    assert found == ([0, 1, 2, 3], [0, 1, 2, 3], 7)
    assert [one.name for one in journal.entries] == ["branches", "after"]
    done.clear()
    assert cut_at(None, work, journal.entries)[1] == found
    assert sorted(done) == [0, 1, 2, 3]  # The plain ones.


@pytest.mark.parametrize("every", [1, 3, 100])
def test_pieces_after_a_loop_that_is_not_noted_are(every):
    def work():
        place = loop("loop", in_place=True)
        t = place.state or 0
        while t < 5:
            t += 1
            place.reached(t)
        place.end()
        return once("after", lambda: done.append(t) or t)

    done = []
    journal, found = cut_at(None, work, every=every)
    assert [one.name for one in journal.entries] == ["loop", "after"]
    assert cut_at(None, work, journal.entries)[1] == found == 5 and done == [5]
