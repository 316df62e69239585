"""Progress of a fit: a tqdm bar where tqdm is installed, a line per step elsewhere."""

from contextlib import contextmanager
from time import perf_counter

from skpmd.engine.loop import n_steps, silent

_SECONDS = 1.0  # Between two lines.


class _Silent:
    def update(self, n, text):
        pass


class _Lines:
    def __init__(self, total, name):
        self.total, self.name, self.done = total, name, 0

    def update(self, n, text):
        self.done += n
        of_total = "" if self.total is None else f"/{self.total}"
        print(f"{self.name} {self.done}{of_total}: {text}")


class _Bar:
    def __init__(self, bar):
        self.bar = bar

    def update(self, n, text):
        self.bar.set_postfix_str(text)
        self.bar.update(n)


class ReportedBatches(list):
    """Batches that print how far a pass over them has come, a line a second at most.

    They are for a method whose steps may take minutes each on many rows.
    """

    def __init__(self, batches, verbose):
        super().__init__(batches)
        self._verbose, self._passes, self._last = verbose, 0, perf_counter()

    def __iter__(self):
        """Yield the batches."""
        self._passes += 1
        for done, batch in enumerate(super().__iter__()):
            if self._verbose and perf_counter() > self._last + _SECONDS:
                self._last = perf_counter()
                share = done / len(self)
                write_line(f"pass {self._passes} over the rows: {share:.0%}", self._verbose)
            yield batch


@contextmanager
def progress(total, verbose, name="mirror steps"):
    """Context that yields an object with ``update(n, text)``; silent at ``verbose=0``."""
    if not verbose:
        yield _Silent()
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield _Lines(total, name)
        return
    with tqdm(total=total, desc=name) as bar:
        yield _Bar(bar)


def write_line(text, verbose):
    """Print a line that belongs to no step."""
    if verbose:
        print(text)


def describe(info):
    """One line on a step."""
    line = f"ess={info.ess:.0f}/{info.n_particles}, rejuvenations={info.rejuvenations}"
    known = {name: value for name, value in info.extra.items() if value == value}  # No nan.
    return ", ".join([line, *(f"{name}={value:.5g}" for name, value in known.items())])


@contextmanager
def bar_of_steps(options, rows, verbose, full_batch=None, every=1):
    """Context that yields what `run` reports its steps to; one of ``every`` so many is shown."""
    total = n_steps(options, rows, full_batch)
    with bar_of_rounds(verbose, total, "mirror steps", every) as report:
        yield report


@contextmanager
def bar_of_rounds(verbose, total=None, name="rounds", every=1):
    """Context that yields what a method reports its steps to; their number may be unknown."""
    if not verbose:
        yield silent
        return
    done = 0
    with progress(total, verbose, name) as bar:

        def report(info):
            nonlocal done
            done += 1
            if done % every == 0:
                bar.update(every, describe(info))

        yield report


@contextmanager
def bar_of_tempering(verbose):
    """Context that yields what tempered SMC reports its segments to, in percent of the way."""
    done = 0
    with progress(100, verbose, "tempering, % of the way") as bar:

        def report(info):
            nonlocal done
            now = int(100 * info.extra["power"])
            bar.update(now - done, f"acceptance={info.extra['acceptance']:.2f}")
            done = now

        yield report
