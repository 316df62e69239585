"""One fit on sparse features, in a process of its own, so that its peak memory is its own.

Started by the ``text`` study as ``python -m examples.benchmarks.text_worker``; the job comes as
JSON on standard input, the answer goes out as JSON on standard output.
"""

import json
import sys
import warnings

import numpy as np
from scipy.sparse import load_npz

from .large_fit_worker import resident
from .timing import cpu_clock

INTERCEPT_SCALE = 10.0


def make(method, scale):
    """The classifier that a method names, its prior of this scale."""
    from sklearn.linear_model import LogisticRegression

    from skpmd import BayesianLogisticRegressionPMD

    if method == "LogisticRegression":
        return LogisticRegression(C=scale**2, max_iter=1000)
    return BayesianLogisticRegressionPMD(
        prior_scale=scale,
        intercept_prior_scale=INTERCEPT_SCALE,
        covariance_type=method,
        random_state=0,
    )


def main():
    """Warm up on a few rows, load, fit, predict; moments and predictions go to a file."""
    job = json.load(sys.stdin)
    y = np.load(job["folder"] + "/y.npy")
    few = load_npz(job["folder"] + "/X.npz")[:200, :50]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(job["method"], 1.0).fit(few, y[:200]).predict_proba(few)
    del few
    X, X_test = (load_npz(f"{job['folder']}/{name}.npz") for name in ("X", "X_test"))
    before, peak_before = resident("VmRSS"), resident("VmHWM")
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        model = make(job["method"], job["scale"]).fit(X, y)
    with cpu_clock() as predicting:
        probability = model.predict_proba(X_test)
    peak = resident("VmHWM")
    moments = {}
    if hasattr(model, "posterior_"):
        moments = {"mean": model.posterior_.mean(), "sd": model.posterior_.std()}
    np.savez(job["folder"] + "/answer.npz", probability=probability, **moments)
    answer = {
        "cpu": clock.cpu,
        "cpu_predict": predicting.cpu,
        # Loading X left this behind: a peak from before the fit is no memory of the fit.
        "peak_mb_over_X": peak - before if peak > peak_before else 0.0,
        "path": getattr(model, "diagnostics_", {}).get("path"),
        "warned": bool(caught),
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
