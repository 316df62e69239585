"""What estimators report of their steps to whoever listens to the call."""

from contextlib import contextmanager

from skpmd._rows.rows import are_in_memory
from skpmd._runtime.call import phase
from skpmd.engine.loop import n_steps
from skpmd.engine.sums import are_elsewhere


class ReportedBatches:
    """Batches that show how far a pass over them has come, for passes that may take minutes."""

    def __init__(self, batches):
        self._batches = batches
        self.are_in_memory = are_in_memory(batches)
        if are_elsewhere(batches):  # Of those no pass is seen here.
            self.total = batches.total

    def __len__(self):
        return len(self._batches)

    def __iter__(self):
        """Yield the batches."""
        with phase("pass over the rows", len(self)) as advance:
            for batch in self._batches:
                yield batch
                advance()


def describe(info):
    """One line on a step."""
    values = {"change": getattr(info, "change", None), **getattr(info, "extra", {})}
    known = {name: one for name, one in values.items() if one is not None and one == one}  # No nan.
    line = [f"{name}={value:.5g}" for name, value in known.items()]
    if hasattr(info, "ess"):
        line = [
            f"ess={info.ess:.0f}/{info.n_particles}", f"rejuvenations={info.rejuvenations}", *line
        ]  # fmt: skip
    return ", ".join(line)


@contextmanager
def bar_of_steps(options, rows, full_batch=None, every=1):
    """Context that yields what `run` reports its steps to; one of ``every`` so many is shown."""
    with bar_of_rounds(n_steps(options, rows, full_batch), "mirror steps", every) as report:
        yield report


@contextmanager
def bar_of_rounds(total=None, name="rounds", every=1):
    """Context that yields what a method reports its steps to; their number may be unknown."""
    done = 0
    with phase(name, total) as advance:

        def report(info):
            nonlocal done
            done += 1
            if done % every == 0:
                advance(every, describe(info))

        yield report


@contextmanager
def bar_of_tempering():
    """Context that yields what tempered SMC reports its segments to, in percent of the way."""
    done = 0
    with phase("tempering, % of the way", 100) as advance:

        def report(info):
            nonlocal done
            now = int(100 * info.extra["power"])
            advance(now - done, f"acceptance={info.extra['acceptance']:.2f}")
            done = now

        yield report
