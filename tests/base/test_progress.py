"""Progress as it is shown: lines with the share and the time left, or bars of tqdm."""

import sys

import pytest

from skpmd._base.steps import ReportedBatches, bar_of_rounds
from skpmd._runtime.call import Call, during, phase, tick
from skpmd._runtime.display import Bars, Lines, listeners_of
from skpmd.engine.loop import silent
from skpmd.engine.mirror import StepInfo


@pytest.fixture
def seconds(monkeypatch):
    """A clock that a test sets."""
    now = [0.0]
    monkeypatch.setattr("skpmd._runtime.display.display_clock", lambda: now[0])
    return now


def test_lines_state_the_share_and_the_time_left(seconds, capsys):
    with during(Call(listeners=[Lines(0.0)])):
        with phase("mirror steps", 40) as advance:
            for _ in range(10):
                seconds[0] += 0.5
                advance(text="ess=3")
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 6  # One a second, and one at the end.
    assert out[1] == "mirror steps 4/40 (10%), 18 s left: ess=3"
    assert out[-1] == "mirror steps: 10 in 5.0 s: ess=3"


def test_phases_inside_others_stand_beside_them(seconds, capsys):
    with during(Call(listeners=[Lines(0.0)])):
        with phase("rounds"):
            with phase("pass over the rows", 4) as advance:
                seconds[0] = 2.0
                advance()
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "rounds, 2 s so far | pass over the rows 1/4 (25%), 2 s so far"
    assert out[1:] == ["rounds: 2.0 s"]


def test_ticks_show_that_work_goes_on(seconds, capsys):
    with during(Call(listeners=[Lines(0.0)])):
        for _ in range(5):
            seconds[0] += 0.9
            tick()
    assert capsys.readouterr().out.splitlines() == [
        "other work, 1 s so far", "other work, 3 s so far", "other work: 3.6 s"
    ]  # fmt: skip


def test_short_parts_of_a_stream_show_nothing(seconds, capsys):
    for length, lines in ((0.5, 0), (2.0, 1)):
        with during(Call(listeners=[Lines(1.0)])), phase("step of a stream"):
            seconds[0] += length
        assert len(capsys.readouterr().out.splitlines()) == lines


class Tqdm:
    """What of tqdm the bars use, and what they have done with it."""

    made: list = []
    written: list = []

    def __init__(self, total, desc, leave, smoothing, miniters):
        self.total, self.desc, self.leave, self.n, self.start_t, self.text = (
            total, desc, leave, 0, 0.0, ""
        )  # fmt: skip
        self.updates, self.is_closed = 0, False
        Tqdm.made.append(self)

    def update(self, n):
        self.n, self.updates = self.n + n, self.updates + 1

    def set_postfix_str(self, text, refresh):
        self.text = text

    def close(self):
        self.is_closed = True

    @classmethod
    def write(cls, text):
        cls.written.append(text)


def test_bars_are_made_where_a_phase_lasts(seconds):
    Tqdm.made.clear()
    with during(Call(listeners=[Bars(Tqdm, 0.0)])):
        with phase("mirror steps", 40) as advance:
            advance(3, "ess=3")
            with phase("short"):
                tick()
            with phase("long", 2) as inner:
                seconds[0] = 0.7
                inner()
    outer, inner = Tqdm.made
    assert (outer.desc, outer.total, outer.n, outer.leave) == ("mirror steps", 40, 3, True)
    assert (inner.desc, inner.n, inner.leave) == ("long", 1, False)
    assert inner.start_t == pytest.approx(-0.7)  # The time left counts from the phase's own start.
    assert outer.text == "ess=3" and outer.is_closed and inner.is_closed


def test_tqdm_is_used_where_it_is_and_lines_elsewhere(monkeypatch):
    pytest.importorskip("tqdm")
    assert isinstance(listeners_of(True)[0], Bars)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert isinstance(listeners_of(True)[0], Lines)


def test_a_real_bar_counts_and_tells_the_time_left(capsys):
    pytest.importorskip("tqdm")
    with during(Call(listeners=listeners_of(True))), phase("mirror steps", 4) as advance:
        advance(2, "ess=3")
        advance(2)
    err = capsys.readouterr().err
    assert "mirror steps: 100%" in err and "4/4" in err


def test_batches_report_their_passes(seconds, capsys):
    with during(Call(listeners=[Lines(0.0)])), phase("fit"):
        for _ in ReportedBatches([1, 2, 3, 4]):
            seconds[0] += 1.0
    out = capsys.readouterr().out
    assert "pass over the rows 2/4 (50%), 2 s left" in out


@pytest.mark.parametrize("every, shown", [(1, 5), (2, 4)])
def test_one_of_so_many_steps_is_shown(every, shown):
    heard = []

    class Listener:
        def open(self, name, total):
            return self

        def advance(self, n, text):
            heard.append((n, text))

        def close(self):
            pass

    info = StepInfo(
        1.0, 1.0, 1.0, 0, False, 0, 0.1, 7.0, 9, extra={"power": 0.5, "nan": float("nan")}
    )
    with during(Call(listeners=[Listener()])), bar_of_rounds(5, every=every) as report:
        for _ in range(5):
            report(info)
    assert sum(n for n, _ in heard) == shown
    assert heard[0] == (every, "ess=7/9, rejuvenations=0, power=0.5")
    assert silent(info) is None
