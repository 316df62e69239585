"""One endless stream, in a process of its own, so that its peak memory is its own.

Started by the ``stream`` study as ``python -m examples.benchmarks.stream_worker``; the job comes as
JSON on standard input, the answer goes out as JSON on standard output. Each chunk is generated when
it is asked for, from its number, and forgotten; the exact answer comes from Newton's method over
the chunks generated anew.
"""

import json
import sys
import warnings

import numpy as np
from scipy.special import expit

from .large_fit_worker import resident
from .timing import cpu_clock

_NEWTON_STEPS = 4  # from the streamed mean: the last moves by less than 1e-9 sd


def chunk(job, number):
    """Correlated columns and labels from a logistic model, all from the number of the chunk."""
    d = job["columns"]
    fixed = np.random.default_rng(job["seed"])
    mixing = np.eye(d) + 0.2 * fixed.standard_normal((d, d))
    coef = fixed.normal(0.0, 0.5, d)
    rng = np.random.default_rng([job["seed"], number])
    X = (rng.standard_normal((job["rows"], d)) @ mixing).astype(np.float32)
    y = (rng.random(job["rows"]) < expit(X @ coef - 0.5)).astype(np.int64)
    return X, y


def newton(job, theta):
    """Mode and standard deviations of the Laplace approximation, prior N(0, 1) throughout."""
    for _ in range(_NEWTON_STEPS):
        gradient, hessian = -theta, np.eye(len(theta))
        for number in range(job["chunks"]):
            X, y = chunk(job, number)
            X = np.column_stack([X.astype(np.float64), np.ones(len(X))])
            probability = expit(X @ theta)
            gradient = gradient + X.T @ (y - probability)
            hessian += (X.T * (probability * (1.0 - probability))) @ X
        theta = theta + np.linalg.solve(hessian, gradient)
    return theta, np.sqrt(np.diag(np.linalg.inv(hessian)))


def main():
    """Warm up, stream, look at the memory, compare."""
    from skpmd import BayesianLogisticRegressionPMD

    job = json.load(sys.stdin)
    params = {"prior_scale": 1.0, "intercept_prior_scale": 1.0, "random_state": job["seed"]}
    X, y = chunk(job, 0)
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        BayesianLogisticRegressionPMD(**params).partial_fit(X[:1000], y[:1000], classes=[0, 1])
        caught.clear()
        before, peaks = resident("VmRSS"), []
        model = BayesianLogisticRegressionPMD(**params)
        for number in range(job["chunks"]):
            caught.clear()
            model.partial_fit(*chunk(job, number), classes=[0, 1])
            peaks.append(resident("VmHWM"))
    mean, sd = model.posterior_.mean(), model.posterior_.std()
    mode, exact = newton(job, mean)
    answer = {
        "rows": job["chunks"] * job["rows"],
        "max_mean_error": float(np.abs((mean - mode) / exact).max()),
        "max_sd_error": float(np.abs(sd / exact - 1.0).max()),
        "estimate": model.diagnostics_["mean_error"],
        "redraws": int(model.history_["rejuvenations"].sum()),
        "cpu": clock.cpu,
        "peak_mb": peaks[-1] - before,
        "growth_mb": peaks[-1] - peaks[len(peaks) // 5],
        "warned": bool(caught),
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
