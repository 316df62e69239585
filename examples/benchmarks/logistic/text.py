"""Text: thousands of sparse columns, a Gaussian without correlations, and what that loses.

Counts of words become TF-IDF rows of length one (`TfidfTransformer(sublinear_tf=True)`), as CSR.
Three comparisons, each fit in a process of its own, warm, on one thread:

* ``words``: two groups by their 500 most frequent words, where a full covariance fits.
  ``diag`` is held against ``full`` (the default method): gaps of the means in sds, ratios of the
  sds, and gaps of the predicted probabilities.
* ``binary``: the same groups by all words.
* ``classes``: all groups by all words.

In the latter two LogisticRegression stands beside ``diag``. For both the mode is that of C:
``prior_scale = sqrt(C * temperature)``. Each is held against its counterpart:

* ``LogisticRegression``, as it comes, and ``..., converged`` (``tol=1e-8``): as it comes it stops
  early on such data, which is a penalty of its own;
* ``diag, T = 1``: averages over the posterior of this prior and these data;
* ``diag, any T``: the temperature is chosen along with C;
* ``..., calibrated``: at temperature 1, all log odds times one number that held-out rows choose, as
  in ``CalibratedClassifierCV(method="temperature", ensemble=False)``.

All choices are those of three-fold cross-validation on the training part, by log loss. Tests are
on later posts than the training part, so that a calibration that holds on held-out parts of the
latter need not hold there: ``ece_cv`` is the error on those parts, ``ece`` on the test. Both are
the expected calibration error of the most probable class, 15 bins. ``cpu`` and memory are those of
one fit on the training part.

``newsgroups20.npz`` holds counts as CSR, ``newsgroups20.meta.npz`` the ``labels`` and ``is_train``.
``--quick``: generated text of four groups and 3,000 words.
"""

import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix, load_npz, save_npz

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.worker import alone
from .text_fits import fit_from_files, make

PAIR = (8, 9)  # rec.motorcycles and rec.sport.baseball
N_WORDS = 500
STRENGTHS = {
    "words": (10.0, 30.0),
    "binary": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0),
    "classes": (1.0, 3.0, 10.0, 30.0, 100.0),
}
QUICK = (1.0, 10.0, 100.0)
COLD, MIN_COLD = (0.1, 0.01, 0.001), 10.0  # colder is only more sure: no help to a small C
FOLDS, BINS = 3, 15
PLAIN, CONVERGED, WARM, TUNED = (
    "LogisticRegression",
    "LogisticRegression, converged",
    "diag, T = 1",
    "diag, any T",
)
SHARP = {PLAIN: "LogisticRegression, calibrated", WARM: "diag, calibrated"}
AGAINST = ((TUNED, PLAIN), (SHARP[WARM], SHARP[PLAIN]))


class Text(NamedTuple):
    """TF-IDF rows and labels of a training and a test part."""

    X: csr_matrix
    y: np.ndarray
    X_test: csr_matrix
    y_test: np.ndarray


class Trial(NamedTuple):
    """A classifier's settings and its probabilities on held-out rows."""

    method: str
    C: float
    temperature: float
    held_out: np.ndarray


def run(config):
    """Words, binary, classes."""
    counts, y, is_train = _generated() if config.quick else _newsgroups(config.data)
    pair = PAIR if not config.quick else (0, 1)
    two = np.isin(y, pair)
    columns = np.argsort(-np.asarray(counts.sum(axis=0)).ravel(), kind="stable")[:N_WORDS]
    few = _text(counts[two][:, np.sort(columns)], y[two], is_train[two])
    rows = _words(few, STRENGTHS["words"][: 1 if config.quick else None])
    print("words done", flush=True)
    for kind, keep in (("binary", two), ("classes", np.ones(len(y), dtype=bool))):
        strengths = QUICK if config.quick else STRENGTHS[kind]
        rows += _compare(kind, _text(counts[keep], y[keep], is_train[keep]), strengths)
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


def _fit(text, method, C, temperature=1.0):
    """One fit in a process of its own; (answer, arrays)."""
    with tempfile.TemporaryDirectory() as folder:
        save_npz(f"{folder}/X.npz", text.X, compressed=False)
        save_npz(f"{folder}/X_test.npz", text.X_test, compressed=False)
        np.save(f"{folder}/y.npy", text.y)
        job = {"folder": folder, "method": method, "C": C, "temperature": temperature}
        answer = alone(fit_from_files, job)
        with np.load(f"{folder}/answer.npz") as archive:
            return answer, dict(archive)


def _words(text, strengths):
    """A row for each C: what dropping correlations changes, where they can be had."""
    rows = []
    for C in strengths:
        full, exact = _fit(text, "full", C)
        diag, found = _fit(text, "diag", C)
        ratio = found["sd"] / exact["sd"]
        gap = np.abs(found["mean"] - exact["mean"]) / exact["sd"]
        probability_gap = (found["probability"] - exact["probability"])[:, 0]
        rows.append(
            {
                "kind": "words",
                "C": C,
                "max_mean_gap": float(gap.max()),
                "rms_mean_gap": float(np.sqrt((gap**2).mean())),
                "median_sd_ratio": float(np.median(ratio)),
                "min_sd_ratio": float(ratio.min()),
                "rms_probability_gap": float(np.sqrt((probability_gap**2).mean())),
                "log_loss_full": scores(exact["probability"], text.y_test)["log_loss"],
                "log_loss_diag": scores(found["probability"], text.y_test)["log_loss"],
                "cpu_full": full["cpu"],
                "cpu_diag": diag["cpu"],
                "inference_full": full["inference"],
            }
        )
    return rows


def _compare(kind, text, strengths):
    """A row of each way to probabilities, each at the settings that cross-validation prefers."""
    plain, converged = (
        [_trial(text, method, C) for C in strengths] for method in (PLAIN, CONVERGED)
    )
    warm = [_trial(text, "diag", C) for C in strengths]
    cold = [
        _trial(text, "diag", C, temperature)
        for C in strengths
        for temperature in COLD
        if C >= MIN_COLD
    ]
    ways = {PLAIN: plain, CONVERGED: converged, WARM: warm, TUNED: warm + cold}
    rows = [_row(kind, text, name, trials) for name, trials in ways.items()]
    return rows + [_row(kind, text, SHARP[name], ways[name], sharpen=True) for name in SHARP]


def _row(kind, text, name, trials, sharpen=False):
    """Scores of the trial with the best held-out log loss, and what its fit to all rows takes."""
    candidates = [_sharpened(text, trial) if sharpen else trial.held_out for trial in trials]
    held_out = [scores(probability, text.y) for probability in candidates]
    best = min(range(len(trials)), key=lambda i: held_out[i]["log_loss"])
    trial = trials[best]
    answer, arrays = _fit(text, trial.method, trial.C, trial.temperature)
    power = best_power(trial.held_out, text.y) if sharpen else 1.0
    return {
        "kind": kind,
        "method": name,
        "C": trial.C,
        "temperature": trial.temperature,
        "power": power,
        "rows": text.X.shape[0],
        "X_mb": _megabytes(text.X),
        **scores(to_power(arrays["probability"], power), text.y_test),
        "log_loss_cv": held_out[best]["log_loss"],
        "ece_cv": held_out[best]["ece"],
        **answer,
    }


def _folds(text):
    from sklearn.model_selection import StratifiedKFold

    return list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(text.X, text.y))


def _trial(text, method, C, temperature=1.0):
    """Fit to each two of three parts of the training rows, predict the third."""
    from sklearn.model_selection import cross_val_predict

    model = make(method, C, temperature)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # settings at the edges; the row says whether its fit did
        held_out = cross_val_predict(model, text.X, text.y, cv=_folds(text), method="predict_proba")
    return Trial(method, C, temperature, held_out)


def _sharpened(text, trial):
    """Held-out probabilities to the power that suits the held-out rows of the other parts."""
    sharp = np.empty_like(trial.held_out)
    for others, part in _folds(text):
        power = best_power(trial.held_out[others], text.y[others])
        sharp[part] = to_power(trial.held_out[part], power)
    return sharp


def to_power(probability, power):
    """Probabilities proportional to a power of these: log odds times that number."""
    logs = power * np.log(np.maximum(probability, np.finfo(float).tiny))
    sharp = np.exp(logs - logs.max(axis=1, keepdims=True))
    return sharp / sharp.sum(axis=1, keepdims=True)


def best_power(probability, y):
    """The power of least log loss, which is convex in it."""

    def loss(log_power):
        return scores(to_power(probability, np.exp(log_power)), y)["log_loss"]

    return float(np.exp(minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded").x))


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
    """Memory in proportion to the data; calibration and log loss beside LogisticRegression's."""
    found = []
    for kind in ("binary", "classes"):
        by_name = {row["method"]: row for row in rows if row["kind"] == kind}
        peak = max(by_name[name]["peak_mb_over_X"] for name in (WARM, TUNED, SHARP[WARM]))
        found.append(Gate(f"{kind}, peak memory over X, MB", peak, 200.0))
        for ours, theirs in AGAINST:
            for score, label in (("log_loss", "log loss"), ("ece", "calibration error")):
                for key, part in ((f"{score}_cv", "held out"), (score, "test")):
                    name = f"{kind}, {label} {part}, {ours} over {theirs}"
                    found.append(Gate(name, by_name[ours][key] - by_name[theirs][key], 0.01))
    return found


def plot(rows):
    """Log losses and calibration errors of the comparisons, side by side."""
    plt = pyplot()
    figure, panels = plt.subplots(2, 4, figsize=(15, 6), layout="constrained")
    columns = {
        "log_loss_cv": "held-out log loss, nats",
        "log_loss": "test log loss, nats",
        "ece_cv": "held-out calibration error",
        "ece": "test calibration error",
    }
    for line, kind in zip(panels, ("binary", "classes"), strict=True):
        own = [row for row in rows if row["kind"] == kind]
        for axes, (key, label) in zip(line, columns.items(), strict=True):
            for color, name in (("C0", "LogisticRegression"), ("C1", "diag")):
                some = {i: row[key] for i, row in enumerate(own) if row["method"].startswith(name)}
                bars = axes.barh(list(some), list(some.values()), color=color, label=name)
                axes.bar_label(bars, fmt="{:#.3g}", padding=2)
            axes.set_yticks(range(len(own)), [_label(row) for row in own])
            axes.margins(x=0.35)
            axes.locator_params(axis="x", nbins=4)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set(title=kind, xlabel=label)
            axes.invert_yaxis()
            axes.tick_params(labelleft=axes is line[0])
    legend_above(figure, panels[0, :1], ncols=2)
    return figure


def _label(row):
    chosen = f"C = {row['C']:g}"
    if row["method"] == TUNED:
        chosen += f", T = {row['temperature']:g}"
    return f"{row['method']} ({chosen})"
