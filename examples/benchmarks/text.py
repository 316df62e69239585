"""Text: thousands of sparse columns, a Gaussian without correlations, and what that loses.

Counts of words become TF-IDF rows of length one (`TfidfTransformer(sublinear_tf=True)`), as CSR.
Three comparisons, each fit in a process of its own (`text_worker`), warm, on one thread:

* ``words``: two groups by their 500 most frequent words, where a full covariance fits.
  ``diag`` is held against ``full`` (the default route): gaps of the means in sds, ratios of the
  sds, and gaps of the predicted probabilities.
* ``binary``: the same groups by all words.
* ``classes``: all groups by all words.

In the latter two LogisticRegression stands beside ``diag``, each at the scale (C = scale^2) that
three-fold cross-validation on the training part prefers by log loss, and at the other's. Tests are
on later posts than the training part, so that a calibration that holds on held-out parts of the
latter need not hold there: ``ece_cv`` is the error on those parts, ``ece`` on the test. Both are
the expected calibration error of the most probable class, 15 bins.

``newsgroups20.npz`` holds counts as CSR, ``newsgroups20.meta.npz`` the ``labels`` and ``is_train``.
``--quick``: generated text of four groups and 3,000 words.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, load_npz, save_npz

from .study import FOLDER, Gate, pyplot
from .text_worker import make

PAIR = (8, 9)  # rec.motorcycles and rec.sport.baseball
N_WORDS = 500
GRID = tuple(float(np.sqrt(C)) for C in (3, 10, 30, 100, 300))
FOLDS, BINS = 3, 15


class Text(NamedTuple):
    """TF-IDF rows and labels of a training and a test part."""

    X: csr_matrix
    y: np.ndarray
    X_test: csr_matrix
    y_test: np.ndarray


def run(config):
    """Words, binary, classes."""
    counts, y, is_train = _generated() if config.quick else _newsgroups(config.data)
    pair = PAIR if not config.quick else (0, 1)
    two = np.isin(y, pair)
    columns = np.argsort(-np.asarray(counts.sum(axis=0)).ravel(), kind="stable")[:N_WORDS]
    few = _text(counts[two][:, np.sort(columns)], y[two], is_train[two])
    rows = _words(few)
    print("words done", flush=True)
    for kind, keep in (("binary", two), ("classes", np.ones(len(y), dtype=bool))):
        rows += _compare(kind, _text(counts[keep], y[keep], is_train[keep]))
        print(f"{kind} done", flush=True)
    return rows


def _newsgroups(folder):
    if folder is None:
        raise SystemExit("newsgroups20 is read from a folder: pass --data DIR, or use --quick.")
    counts = load_npz(Path(folder) / "newsgroups20.npz").tocsr().astype(np.float64)
    with np.load(Path(folder) / "newsgroups20.meta.npz") as archive:
        return counts, archive["labels"].astype(int), archive["is_train"].astype(bool)


def _generated(n=2000, n_words=3000, n_groups=4, seed=0):
    """Words by Zipf's law, each group with frequencies of its own."""
    rng = np.random.default_rng(seed)
    base = -np.log(np.arange(10.0, n_words + 10.0))
    p = np.exp(base + rng.normal(0.0, 0.5, (n_groups, n_words)))
    p /= p.sum(axis=1, keepdims=True)
    y = rng.integers(n_groups, size=n)
    counts = np.stack([rng.multinomial(60, p[group]) for group in y])
    return csr_matrix(counts.astype(np.float64)), y, np.arange(n) < n // 2


def _text(counts, y, is_train):
    from sklearn.feature_extraction.text import TfidfTransformer

    weighting = TfidfTransformer(sublinear_tf=True).fit(counts[is_train])
    X, X_test = (weighting.transform(counts[part]).tocsr() for part in (is_train, ~is_train))
    codes = np.unique(y, return_inverse=True)[1]
    return Text(X, codes[is_train], X_test, codes[~is_train])


def _fit(text, method, scale):
    """Run one worker; (answer, arrays)."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        save_npz(f"{folder}/X.npz", text.X, compressed=False)
        save_npz(f"{folder}/X_test.npz", text.X_test, compressed=False)
        np.save(f"{folder}/y.npy", text.y)
        done = subprocess.run(
            [sys.executable, "-m", f"{__package__}.text_worker"],
            input=json.dumps({"folder": folder, "method": method, "scale": scale}),
            env={**os.environ, **threads},
            cwd=FOLDER.parents[1],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        with np.load(f"{folder}/answer.npz") as archive:
            return json.loads(done.stdout), dict(archive)


def _words(text):
    """A row for each scale: what dropping correlations changes, where they can be had."""
    rows = []
    for scale in GRID[:3]:
        full, exact = _fit(text, "full", scale)
        diag, found = _fit(text, "diag", scale)
        ratio = found["sd"] / exact["sd"]
        gap = np.abs(found["mean"] - exact["mean"]) / exact["sd"]
        probability_gap = (found["probability"] - exact["probability"])[:, 0]
        rows.append(
            {
                "kind": "words",
                "scale": scale,
                "max_mean_gap": float(gap.max()),
                "rms_mean_gap": float(np.sqrt((gap**2).mean())),
                "median_sd_ratio": float(np.median(ratio)),
                "min_sd_ratio": float(ratio.min()),
                "rms_probability_gap": float(np.sqrt((probability_gap**2).mean())),
                "log_loss_full": scores(exact["probability"], text.y_test)["log_loss"],
                "log_loss_diag": scores(found["probability"], text.y_test)["log_loss"],
                "cpu_full": full["cpu"],
                "cpu_diag": diag["cpu"],
                "path_full": full["path"],
            }
        )
    return rows


def _compare(kind, text):
    """Rows of both methods at both scales that cross-validation prefers."""
    methods = ("LogisticRegression", "diag")
    held_out = {
        method: {scale: _validate(text, method, scale) for scale in GRID} for method in methods
    }
    best = {
        method: min(by_scale, key=lambda scale: by_scale[scale]["log_loss"])
        for method, by_scale in held_out.items()
    }
    rows = []
    for method in methods:
        for scale in sorted(set(best.values())):
            answer, arrays = _fit(text, method, scale)
            rows.append(
                {
                    "kind": kind,
                    "method": method,
                    "scale": scale,
                    "is_best": scale == best[method],
                    "rows": text.X.shape[0],
                    "X_mb": _megabytes(text.X),
                    **scores(arrays["probability"], text.y_test),
                    "log_loss_cv": held_out[method][scale]["log_loss"],
                    "ece_cv": held_out[method][scale]["ece"],
                    **answer,
                }
            )
    return rows


def _validate(text, method, scale):
    """Scores on held-out parts of the training part, all parts together."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    probability = cross_val_predict(
        make(method, scale), text.X, text.y, cv=folds, method="predict_proba"
    )
    return scores(probability, text.y)


def scores(probability, y):
    """Accuracy, log loss and expected calibration error of the most probable class."""
    confidence, right = probability.max(axis=1), probability.argmax(axis=1) == y
    bin_of = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bin_of, confidence - right, minlength=BINS)
    of_label = np.maximum(probability[np.arange(len(y)), y], np.finfo(float).tiny)
    return {
        "accuracy": float(right.mean()),
        "log_loss": float(-np.log(of_label).mean()),
        "ece": float(np.abs(gaps).sum() / len(y)),
    }


def _megabytes(X):
    return (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20


def gates(rows):
    """Memory in proportion to the data, calibration beside LogisticRegression at its best C."""
    found = []
    for kind in ("binary", "classes"):
        best = {row["method"]: row for row in rows if row["kind"] == kind and row["is_best"]}
        ours, theirs = best["diag"], best["LogisticRegression"]
        found.append(Gate(f"{kind}, peak memory over X, MB", ours["peak_mb_over_X"], 200.0))
        for score, label in (("log_loss", "log loss"), ("ece", "calibration error")):
            for key, part in ((f"{score}_cv", "held out"), (score, "test")):
                name = f"{kind}, {label} {part}, over LogisticRegression's"
                found.append(Gate(name, ours[key] - theirs[key], 0.01))
    return found


def plot(rows, path):
    """Log loss and calibration errors of the comparisons, side by side."""
    plt = pyplot()
    figure, panels = plt.subplots(2, 3, figsize=(11, 5), layout="constrained")
    columns = {"log_loss": "test log loss", "ece": "test ECE", "ece_cv": "held-out ECE"}
    for line, kind in zip(panels, ("binary", "classes"), strict=True):
        own = [row for row in rows if row["kind"] == kind]
        labels = [f"{row['method']}, {row['scale']:.3g}" + " *" * row["is_best"] for row in own]
        for axes, (key, label) in zip(line, columns.items(), strict=True):
            bars = axes.barh(labels, [row[key] for row in own])
            axes.bar_label(bars, fmt="%.3g", padding=2)
            axes.margins(x=0.2)
            axes.set_xlabel(f"{kind}: {label}")
            axes.invert_yaxis()
            axes.tick_params(labelleft=axes is line[0])
    figure.savefig(path, dpi=120)
    plt.close(figure)
