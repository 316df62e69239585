"""The paper's scale: logistic regression on 1.6 million deformed images of eights and sixes.

The features are those of `deformed_digits`. Each method fits in a process of its own
(`large_fit_worker`), warm, on one thread, with X in memory as float32; the row tells its CPU
seconds, the peak of its resident memory over what it held before the fit (X included), and its
log loss on the 1,932 test images. The Laplace approximation (Newton's method in float64 to
convergence, prior N(0, 1) on every coordinate) is exact at this number of rows and stands for
the posterior. Errors of means are in its sds, errors of sds are relative.

``--quick``: 30,000 generated rows of 50 features, with the same comparisons.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .datasets import generated
from .deformed_digits import DeformedDigits, deformed_digits
from .study import FOLDER, Gate, pyplot

METHODS = ("laplace", "skpmd", "LogisticRegression", "SGDClassifier")
N_ROWS = 1_600_000
SEED = 0


def run(config):
    """Make the data where they are missing, then fit each method in a fresh process."""
    with tempfile.TemporaryDirectory() as scratch:
        if config.quick:
            data = _generated(Path(scratch))
        else:
            data = deformed_digits(config.data, config.out / "cache", N_ROWS)
        arrays = Path(scratch) / "arrays.npz"
        np.savez(arrays, y=data.y, X_test=data.X_test, y_test=data.y_test)
        answers = {}
        for method in METHODS:
            print(f"{method} ...", flush=True)
            answers[method] = _fit(method, data.path, arrays)
        return [_row(method, answers, len(data.y)) for method in METHODS]


def _generated(folder):
    """Write the stand-in's features to a file, as `deformed_digits` does."""
    made = generated()
    path = folder / "features.npy"
    np.save(path, made.X.astype(np.float32))
    return DeformedDigits(path, made.y.astype(np.int8), made.X_test, made.y_test)


def _fit(method, features, arrays):
    """Run one worker; threads are limited in the environment as well as in the worker."""
    job = {"method": method, "features": str(features), "arrays": str(arrays), "seed": SEED}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", f"{__package__}.large_fit_worker"],
        input=json.dumps(job),
        env={**os.environ, **threads},
        cwd=FOLDER.parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


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


def plot(rows, path):
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
    figure.savefig(path, dpi=120)
    plt.close(figure)
