"""A mixture from a memory map, in a process of its own, so that its peak memory is its own.

Started by the ``mixture_stream`` study as ``python -m examples.benchmarks.mixture_stream_worker``;
the job comes as JSON on standard input, the answer goes out as JSON on standard output.
"""

import json
import sys
import threading

import numpy as np
from scipy.special import logsumexp

from .large_fit_worker import resident
from .timing import cpu_clock

_COLUMNS, _COMPONENTS = 10, 8
_CALL = 100_000


def write(path, n):
    """Write rows of the mixture to a file, a call's worth at a time."""
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, _COLUMNS))
    for number, start in enumerate(range(0, n, _CALL)):
        stop = min(start + _CALL, n)
        rows[start:stop] = drawn(number)[: stop - start]
    rows.flush()


def drawn(number):
    """Rows of a call, from its number."""
    means, factors = truth()
    rng = np.random.default_rng([1, number])
    labels = rng.integers(_COMPONENTS, size=_CALL)
    noise = rng.standard_normal((_CALL, _COLUMNS))
    return means[labels] + np.einsum("nij,nj->ni", factors[labels], noise)


def truth():
    """Means, and Cholesky factors of the covariances, of components of equal weight."""
    rng = np.random.default_rng(0)
    means = 3.0 * rng.standard_normal((_COMPONENTS, _COLUMNS))
    skew = np.tril(0.3 * rng.standard_normal((_COMPONENTS, _COLUMNS, _COLUMNS)), -1)
    return means, skew + np.eye(_COLUMNS)


def log_density(X):
    """True log density of rows."""
    table = np.empty((len(X), _COMPONENTS))
    for k, (mean, factor) in enumerate(zip(*truth(), strict=True)):
        z = np.linalg.solve(factor, (X - mean).T)
        table[:, k] = -0.5 * (z**2).sum(axis=0)  # the factor's determinant is one
    constant = 0.5 * _COLUMNS * np.log(2.0 * np.pi) + np.log(_COMPONENTS)
    return logsumexp(table, axis=1) - constant


class Peak(threading.Thread):
    """Watch the memory of this process that is no page of a file (nan where not Linux)."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self._stopped = 0.0, threading.Event()

    def run(self):
        while not self._stopped.wait(0.01):
            self.peak = max(self.peak, resident("RssAnon"))

    def stop(self):
        """Return the peak, in MB."""
        self._stopped.set()
        self.join()
        return self.peak


def main():
    """Stream the file that stands in the job."""
    from skpmd import GaussianMixturePMD

    job = json.load(sys.stdin)
    rows = np.load(job["path"], mmap_mode="r")
    options = {"strategy": "conjugate", "random_state": 0}
    GaussianMixturePMD(2, **options).partial_fit(drawn(0)[:1000])  # compiles
    before, watch, times = resident("RssAnon"), Peak(), []
    watch.start()
    model = GaussianMixturePMD(2 * _COMPONENTS, **options)
    for start in range(0, len(rows), _CALL):
        with cpu_clock() as clock:
            model.partial_fit(rows[start : start + _CALL])
        times.append(clock.cpu)
    peak = watch.stop() - before
    X = drawn(-(-len(rows) // _CALL))[:10_000]
    later = np.array(times[1:])  # the first call finds the starts
    half = len(later) // 2
    answer = {
        "rows": len(rows),
        "cpu": sum(times),
        "cpu_per_million": float(later.mean()) / _CALL * 1e6,
        "second_half_over_first": float(later[half:].mean() / later[:half].mean()),
        "peak_mb": peak,
        "below_truth": float(np.mean(log_density(X)) - model.score(X)),
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
