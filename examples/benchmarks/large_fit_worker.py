"""One fit on features in a file, in a process of its own, so that its peak memory is its own.

Started by the ``mnist8m`` study as ``python -m examples.benchmarks.large_fit_worker``; the job
comes as JSON on standard input, the answer goes out as JSON on standard output.
"""

import json
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit

from .baselines.laplace import laplace
from .baselines.references import log_loss
from .timing import cpu_clock


def resident(field):
    """Memory of this process in MB: 'VmRSS' now, 'VmHWM' at its peak (nan where not Linux).

    ``ru_maxrss`` will not do: a new process starts with the peak of the one that made it.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    for line in status.read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024.0
    return float("nan")


def fit_laplace(X, y, seed):
    """Newton's method; the plug-in probability at the mode."""
    approximation = laplace(X, y)
    mode = approximation.mode
    return mode, approximation.std(), lambda rows: expit(rows @ mode[:-1] + mode[-1]), {}


def fit_pmd(X, y, seed):
    """Defaults; the probability averaged over the posterior."""
    from skpmd import BayesianLogisticRegressionPMD

    model = BayesianLogisticRegressionPMD(
        prior_scale=1.0, intercept_prior_scale=1.0, random_state=seed
    ).fit(X, y)
    posterior, certificate = model.posterior_, model.diagnostics_
    details = {"ess": certificate["ess"], "k_hat": certificate["pareto_k"]}
    details = {key: None if value is None else float(value) for key, value in details.items()}
    return posterior.mean(), posterior.std(), lambda rows: model.predict_proba(rows)[:, 1], details


def fit_sklearn(X, y, seed, *, method):
    """Fit a point estimate: L2 penalty of the same strength, no penalty on the intercept."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    if method == "LogisticRegression":
        model = LogisticRegression(C=1.0, max_iter=1000)
    else:
        model = SGDClassifier(loss="log_loss", alpha=1.0 / len(X), random_state=seed)
    model.fit(X, y)
    mean = np.concatenate([model.coef_[0], model.intercept_])
    return (
        mean,
        None,
        lambda rows: model.predict_proba(rows)[:, 1],
        {"n_iter": int(np.max(model.n_iter_))},
    )


FITS = {
    "laplace": fit_laplace,
    "skpmd": fit_pmd,
    "LogisticRegression": partial(fit_sklearn, method="LogisticRegression"),
    "SGDClassifier": partial(fit_sklearn, method="SGDClassifier"),
}


def main():
    """Warm up on a few rows, load the features into memory, fit, answer."""
    job = json.load(sys.stdin)
    with np.load(job["arrays"]) as archive:
        arrays = dict(archive)
    y = arrays["y"]
    # Copies, so that no page of the file counts as memory of the fit.
    few = np.array(np.load(job["features"], mmap_mode="r")[:200])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FITS[job["method"]](few, y[:200], 0)
    X = np.load(job["features"])
    before, peak_before = resident("VmRSS"), resident("VmHWM")
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        mean, sd, probability, details = FITS[job["method"]](X, y, job["seed"])
    peak = resident("VmHWM")
    answer = {
        "mean": mean.tolist(),
        "sd": None if sd is None else sd.tolist(),
        "cpu": clock.cpu,
        # A peak from before the fit (imports, loading) is no memory of the fit.
        "peak_mb": peak - before if peak > peak_before else 0.0,
        "warned": ",".join(sorted({warning.category.__name__ for warning in caught})) or None,
        "log_loss": log_loss(probability(arrays["X_test"]), arrays["y_test"]),
        **details,
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
