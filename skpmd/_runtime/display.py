"""Listeners that show how far a `Call` has come: bars of tqdm where it is installed, or lines."""

from time import perf_counter

from numba.core.event import Listener, install_listener

_SECONDS = 1.0  # Between two lines, and until a part of a stream shows anything.
_UNNAMED = "other work"  # What no phase names; it is shown where it lasts.
_DELAY = 0.5  # Seconds until a phase inside another has a bar.


def display_clock():
    """Seconds since some moment."""
    return perf_counter()


def listeners_of(of_fit):
    """Who listens to a verbose call: of many short parts of a stream nothing is shown."""
    delay = 0.0 if of_fit else _SECONDS
    try:
        from tqdm import tqdm
    except ImportError:
        return [Lines(delay)]
    return [Bars(tqdm, delay)]


def hearing_of_kernels(listeners):
    """Context in which listeners hear that kernels are compiled, for nothing else happens then."""
    return install_listener("numba:compile", _Compiling(listeners))


class _Compiling(Listener):
    """Says it once: further kernels follow."""

    def __init__(self, listeners):
        self._listeners = list(listeners)

    def on_start(self, event):
        while self._listeners:
            self._listeners.pop().write("compiling kernels, which later processes read from disk")

    def on_end(self, event):
        pass


class Lines:
    """Progress in lines, one a second at most, and one at the end of each outer phase."""

    def __init__(self, delay):
        self.delay, self.phases, self.last = delay, [], display_clock()

    def open(self, name, total):
        """A further phase."""
        self.phases.append(_Lined(self, name, total))
        return self.phases[-1]

    def write(self, text):
        """Print a line that belongs to no step."""
        self.last = display_clock()
        print(text)

    def show(self):
        """Print how far all open phases have come, if a second has gone by."""
        if display_clock() >= self.last + _SECONDS:
            self.write(" | ".join(one.described() for one in self.phases))


class _Lined:
    def __init__(self, lines, name, total):
        self.lines, self.name, self.total = lines, name or _UNNAMED, total
        self.start, self.done, self.text = display_clock(), 0, ""
        self.first = None  # When the first steps had been made, and how many they were.

    def advance(self, n, text):
        self.done, self.text = self.done + n, text or self.text
        self.first = self.first or (display_clock(), self.done)
        self.lines.show()

    def tick(self):
        self.lines.show()

    def close(self):
        self.lines.phases.remove(self)
        seconds = display_clock() - self.start
        delay = self.lines.delay if self.name != _UNNAMED else _SECONDS
        if not self.lines.phases and seconds >= delay:
            steps = f"{self.done} in " if self.done else ""
            self.lines.write(f"{self.name}: {steps}{seconds:.1f} s{self._rest()}")

    def described(self):
        """The share and the time left where the number of steps is known, else the time so far.

        The first steps are no measure of those to come: kernels may be compiled in them.
        """
        seconds = display_clock() - self.start
        steps = f" {self.done}" if self.done else ""
        if self.total and self.done:
            steps = f" {self.done}/{self.total} ({self.done / self.total:.0%})"
        since, before = self.first or (0.0, 0)
        if not self.total or self.done == before:
            return f"{self.name}{steps}, {seconds:.0f} s so far{self._rest()}"
        left = (display_clock() - since) * max(0, self.total - self.done) / (self.done - before)
        return f"{self.name}{steps}, {left:.0f} s left{self._rest()}"

    def _rest(self):
        return f": {self.text}" if self.text else ""


class Bars:
    """Progress in bars of tqdm: one for each outer phase, and for inner ones that last."""

    def __init__(self, tqdm, delay):
        self.tqdm, self.delay, self.phases = tqdm, delay, []

    def open(self, name, total):
        """A further phase."""
        self.phases.append(_Barred(self, name, total))
        return self.phases[-1]

    def write(self, text):
        """Print a line that belongs to no step."""
        self.tqdm.write(text)


class _Barred:
    def __init__(self, bars, name, total):
        self._bars, self._name, self._total = bars, name or _UNNAMED, total
        self._start, self._done, self._bar = display_clock(), 0, None
        self._is_outer = bool(name) and not bars.phases
        self._show("")

    def advance(self, n, text):
        self._done += n
        self._show(text)

    def tick(self):
        self._show("")

    def close(self):
        self._bars.phases.remove(self)
        if self._bar is not None:
            self._bar.update(self._done - self._bar.n)
            self._bar.close()

    def _show(self, text):
        """The bar as it is now; it is made when there is something to show."""
        seconds = display_clock() - self._start
        if self._bar is None:
            if seconds < (self._bars.delay if self._is_outer else _DELAY):
                return
            # The time left is by the mean speed, which does not know of calls without a step.
            self._bar = self._bars.tqdm(
                total=self._total, desc=self._name, leave=self._is_outer, smoothing=0.0, miniters=0
            )
            self._bar.start_t -= seconds
        if text:
            self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(self._done - self._bar.n)
