"""The paper's scale: logistic regression on 1.6 million deformed images of eights and sixes.

The features are those of `deformed_digits`. Each method fits in a process of its own,
warm, on one thread, with X in memory as float32; the row tells its CPU
seconds, the peak of its resident memory over what it held before the fit (X included), and its
log loss on the 1,932 test images. The Laplace approximation (Newton's method in float64 to
convergence, prior N(0, 1) on every coordinate) is exact at this number of rows and stands for
the posterior. Errors of means are in its sds, errors of sds are relative.

``--quick``: 30,000 generated rows of 50 features, with the same comparisons.
"""

import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit

from ..harness.datasets import generated
from ..harness.deformed_digits import DeformedDigits, deformed_digits
from ..harness.memory import resident
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.worker import alone
from ..peers.laplace import laplace
from ..peers.references import log_loss

METHODS = ("laplace", "skpmd", "LogisticRegression", "SGDClassifier")
N_ROWS = 1_600_000
SEED = 0


def run(config):
    """Make the data where they are missing, then fit each method in a fresh process."""
    with tempfile.TemporaryDirectory() as scratch:
        if config.quick:
            data = _generated(Path(scratch))
        else:
            data = deformed_digits(config.data, config.out / "generated", N_ROWS)
        arrays = Path(scratch) / "arrays.npz"
        np.savez(arrays, y=data.y, X_test=data.X_test, y_test=data.y_test)
        answers = {}
        for method in METHODS:
            print(f"{method} ...", flush=True)
            job = {
                "method": method,
                "features": str(data.path),
                "arrays": str(arrays),
                "seed": SEED,
            }
            answers[method] = alone(fit_from_file, job)
        return [_row(method, answers, len(data.y)) for method in METHODS]


def _generated(folder):
    """Write the stand-in's features to a file, as `deformed_digits` does."""
    made = generated()
    path = folder / "features.npy"
    np.save(path, made.X.astype(np.float32))
    return DeformedDigits(path, made.y.astype(np.int8), made.X_test, made.y_test)


def fit_from_file(job):
    """Warm up on a few rows, load the features into memory, fit, answer."""
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
    return {
        "mean": mean.tolist(),
        "sd": None if sd is None else sd.tolist(),
        "cpu": clock.cpu,
        # A peak from before the fit (imports, loading) is no memory of the fit.
        "peak_mb": peak - before if peak > peak_before else 0.0,
        "warned": ",".join(sorted({warning.category.__name__ for warning in caught})) or None,
        "log_loss": log_loss(probability(arrays["X_test"]), arrays["y_test"]),
        **details,
    }


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
    posterior, diagnostics = model.posterior_, model.diagnostics_
    details = {"ess": diagnostics["ess"], "k_hat": diagnostics["pareto_k"]}
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


def _row(method, answers, n_rows):
    exact, answer = answers["laplace"], answers[method]
    mean, sd = np.array(exact["mean"]), np.array(exact["sd"])
    row = {
        "method": method,
        "rows": n_rows,
        "cpu": answer["cpu"],
        "peak_mb_over_X": answer["peak_mb"],
        "log_loss": answer["log_loss"],
        "max_mean_error": float(np.abs((np.array(answer["mean"]) - mean) / sd).max()),
        "max_sd_error": None,
        "ess": answer.get("ess"),
        "k_hat": answer.get("k_hat"),
        "warned": answer["warned"],
    }
    if answer["sd"] is not None:
        row["max_sd_error"] = float(np.abs(np.array(answer["sd"]) / sd - 1.0).max())
    return row


def gates(rows):
    """Agreement with the Laplace approximation and memory; CPU and log loss are for reading."""
    row = next(row for row in rows if row["method"] == "skpmd")
    return [
        Gate("max mean error, sd", row["max_mean_error"], 0.2),
        Gate("max sd error", row["max_sd_error"], 0.1),
        Gate("peak memory over X, MB", row["peak_mb_over_X"], 300.0),
    ]


def plot(rows):
    """CPU seconds, memory and log loss of the four methods, side by side."""
    plt = pyplot()
    columns = {
        "cpu": "CPU seconds",
        "peak_mb_over_X": "peak memory over X, MB",
        "log_loss": "test log loss",
    }
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained", sharey=True)
    for axes, (key, label) in zip(panels, columns.items(), strict=True):
        bars = axes.barh([row["method"] for row in rows], [row[key] for row in rows])
        axes.bar_label(bars, fmt="%.3g", padding=2)
        axes.margins(x=0.2)
        axes.set_xlabel(label)
    panels[0].invert_yaxis()
    return figure
