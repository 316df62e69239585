"""Gaussian process regression on ten thousand to a million rows: CPU and memory.

Eight normal columns, the sum of their sines, and noise of a tenth: generated, no ``--data``. Each
fit and the predictions of 4,000 rows have a process of their own with one thread; its peak memory
contains Python, the libraries and the rows, 72 bytes each. RMSE is that of the predictions from the
function without noise. All sizes by default, and the second one by neighbours too.

``--quick``: two and four thousand rows.
"""

import numpy as np

from ..harness.memory import resident
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.worker import alone

SIZES, QUICK_SIZES = (10_000, 36_000, 100_000, 1_000_000), (2000, 4000)
N_COLUMNS, NOISE, N_PREDICTED = 8, 0.1, 4000
FIT_CPU, PREDICT_CPU, PEAK_MB, GROWTH = 10.0, 2.0, 2000.0, 1.5


def run(config):
    """All sizes, one after the other."""
    sizes = QUICK_SIZES if config.quick else SIZES
    jobs = [{"rows": n, "seed": 0, "approximation": "auto"} for n in sizes]
    jobs.insert(2, {**jobs[1], "approximation": "vecchia"})
    return [alone(fit, job) for job in jobs]


def fit(job):
    """One fit, its predictions, and what both cost."""
    from skpmd import SparseGPRegressorPMD

    rng = np.random.default_rng(job["seed"])
    X = rng.standard_normal((job["rows"] + N_PREDICTED, N_COLUMNS))
    truth = np.sin(X).sum(axis=1)
    y = truth + NOISE * rng.standard_normal(len(truth))
    few = slice(0, 1200)  # What there is to compile, or to load, is outside of the clock.
    SparseGPRegressorPMD(random_state=0, n_restarts_optimizer=0).fit(X[few], y[few]).predict(X[:2])
    model = SparseGPRegressorPMD(approximation=job["approximation"], random_state=0)
    with cpu_clock() as clock:
        model.fit(X[N_PREDICTED:], y[N_PREDICTED:])
    with cpu_clock() as predicting:
        mean = model.predict(X[:N_PREDICTED])
    error = float(np.sqrt(np.mean((mean - truth[:N_PREDICTED]) ** 2)))
    return {
        "rows": job["rows"], "approximation": job["approximation"],
        "taken": model.approximation_, "cpu": clock.cpu,
        "predict_cpu": predicting.cpu, "peak_mb": resident("VmHWM"), "rmse": error,
    }  # fmt: skip


def gates(rows):
    """The costs of the middle size, memory, and growth of the time with the rows."""
    by_default = [row for row in rows if row["approximation"] == "auto"]
    last, before = by_default[-1], by_default[-2]
    growth = last["cpu"] / before["cpu"] * before["rows"] / last["rows"]
    middle = [row for row in rows if row["rows"] == by_default[1]["rows"]]
    found = [
        gate
        for row in middle
        for gate in (
            Gate(f"{row['rows']} rows, {row['approximation']}: CPU of the fit",
                 row["cpu"], FIT_CPU),
            Gate(f"{row['rows']} rows, {row['approximation']}: CPU of 4,000 predictions",
                 row["predict_cpu"], PREDICT_CPU),
        )
    ]  # fmt: skip
    return [
        *found,
        Gate("peak memory, MB", max(row["peak_mb"] for row in rows), PEAK_MB),
        Gate("growth of the time over that of the rows, at the end", growth, GROWTH),
    ]  # fmt: skip


def plot(rows):
    """CPU seconds and peak memory by rows."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.3), layout="constrained")
    rows = [row for row in rows if row["approximation"] == "auto"]
    n, peaks = [row["rows"] for row in rows], [row["peak_mb"] for row in rows]
    left.loglog(n, [row["cpu"] for row in rows], "o-", label="fit")
    left.loglog(n, [row["predict_cpu"] for row in rows], "s-", label="4,000 predictions")
    left.set(xlabel="rows", ylabel="CPU seconds")
    plain_ticks(left.yaxis)
    right.semilogx(n, peaks, "D-", color="C2", label="both")
    right.set(xlabel="rows", ylabel="peak memory, MB", ylim=(0.0, 1.1 * max(peaks)))
    legend_above(figure, (left, right), ncols=3)
    return figure
