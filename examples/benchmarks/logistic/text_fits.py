"""The fits of the study ``text``: classifiers, and one fit in a process of its own."""

import warnings

import numpy as np
from scipy.sparse import load_npz

from ..harness.memory import resident
from ..harness.timing import cpu_clock

INTERCEPT_SCALE = 10.0


def make(method, C, temperature=1.0):
    """The classifier that a method names; for all of them the mode is that of this C.

    ``temperature`` divides the log likelihood, so that the prior has to narrow with it to leave
    the mode where it is.
    """
    from sklearn.linear_model import LogisticRegression

    from skpmd import BayesianLogisticRegressionPMD

    if method.startswith("LogisticRegression"):
        # The default stops early on such data, which is a penalty of its own.
        tol = 1e-8 if method.endswith("converged") else 1e-4
        return LogisticRegression(C=C, max_iter=2000, tol=tol)
    return BayesianLogisticRegressionPMD(
        prior_scale=float(np.sqrt(C * temperature)),
        intercept_prior_scale=INTERCEPT_SCALE,
        scale=None,
        temperature=temperature,
        covariance_type=method,
        random_state=0,
    )


def fit_from_files(job):
    """Warm up on a few rows, load, fit, predict; moments and predictions go to a file."""
    y = np.load(job["folder"] + "/y.npy")
    every = len(y) // 200  # rows may come in order of their labels
    few = load_npz(job["folder"] + "/X.npz")[::every, :50]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(job["method"], 1.0).fit(few, y[::every]).predict_proba(few)
    del few
    X, X_test = (load_npz(f"{job['folder']}/{name}.npz") for name in ("X", "X_test"))
    before, peak_before = resident("VmRSS"), resident("VmHWM")
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        model = make(job["method"], job["C"], job["temperature"]).fit(X, y)
    with cpu_clock() as predicting:
        probability = model.predict_proba(X_test)
    peak = resident("VmHWM")
    moments = {}
    if hasattr(model, "posterior_"):
        moments = {"mean": model.posterior_.mean(), "sd": model.posterior_.std()}
    np.savez(job["folder"] + "/answer.npz", probability=probability, **moments)
    return {
        "cpu": clock.cpu,
        "cpu_predict": predicting.cpu,
        # Loading X left this behind: a peak from before the fit is no memory of the fit.
        "peak_mb_over_X": peak - before if peak > peak_before else 0.0,
        "inference": getattr(model, "diagnostics_", {}).get("method"),
        "warned": bool(caught),
    }
