"""Gaussian process classification beside scikit-learn's exact process and GPyTorch's SVGP.

`SparseGPClassifierPMD` and `GaussianProcessClassifier`, both by defaults but for the latter's
kernel: its own has no free hyperparameter, so it gets a constant times an RBF kernel with one
length scale, or (``scales``) one for each column, found by its optimizer, which starts from the
same length as ours and, once more, at random; it approximates by Laplace's method. SVGP has the CPU
seconds that ours took on the split, for fit and prediction, with each of three rates of Adam and of
64 and 256 inducing points: the best by the log loss of the *test part* is taken, more than a user
could know; three classes have its softmax likelihood. Log loss, expected calibration error (15 bins
of the largest probability) and CPU seconds of fit and prediction, with one thread of BLAS, on sets
that come with scikit-learn: breast cancer, iris, wine, and the digits 3 and 8. Columns are
standardised; three splits, 30 % are held out. No ``--data``.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from ..harness.datasets import standardised
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock

SPLITS, BINS = 3, 15
OURS, THEIRS, SVGP = "SparseGPClassifierPMD", "GaussianProcessClassifier", "SVGP"
SCALES = "GaussianProcessClassifier, scales"
RATES, SIZES = (0.01, 0.05, 0.2), (64, 256)
MIN_AHEAD = 0.75  # Share of the sets on which ours has a smaller log loss than SVGP.
MAX_LOSS = 0.005  # By which ours may be worse, of log loss and of calibration error.


def run(config):
    """Both on every set, and the mean over the splits."""
    _warm()
    return [row for name, data in _data(config.quick).items() for row in _compare(name, *data)]


def _data(quick):
    X, y = load_digits(return_X_y=True)
    some = np.isin(y, (3, 8))
    sets = {"iris": load_iris(return_X_y=True), "wine": load_wine(return_X_y=True)}
    if quick:
        return sets
    sets["breast cancer"] = load_breast_cancer(return_X_y=True)
    return {**sets, "digits 3 and 8": (X[some], y[some])}


def _warm():
    """Compile, or load, the kernels."""
    X, y = load_iris(return_X_y=True)
    _ours().set_params(n_subset=20, n_inducing=20).fit(X[::5], y[::5]).predict_proba(X[:1])
    for n_classes in (2, 3):
        some = y < n_classes
        list(_svgp(X[some], y[some], n_classes, X[:3], y[:3], 0.1))


def _ours(n_columns=None):
    from skpmd import SparseGPClassifierPMD

    return SparseGPClassifierPMD(random_state=0)


def _theirs(n_columns, n_scales=1):
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    scales = np.full(n_scales, np.sqrt(n_columns))
    return GaussianProcessClassifier(
        ConstantKernel(1.0) * RBF(scales), n_restarts_optimizer=1, random_state=0
    )


def _with_scales(n_columns):
    return _theirs(n_columns, n_columns)


def _compare(name, X, y):
    found = {OURS: [], THEIRS: [], SCALES: [], SVGP: []}
    for split in range(SPLITS):
        parts = train_test_split(X, y, test_size=0.3, random_state=split, stratify=y)
        train, test = standardised(*parts[:2])
        classes, codes = np.unique(parts[2], return_inverse=True)
        held_out = np.searchsorted(classes, parts[3])
        for method, make in ((OURS, _ours), (THEIRS, _theirs), (SCALES, _with_scales)):
            with cpu_clock() as clock:
                proba = make(X.shape[1]).fit(train, parts[2]).predict_proba(test)
            found[method].append((*_scores(proba, held_out), clock.cpu))
        budget = found[OURS][-1][-1]
        runs = list(_svgp(train, codes, len(classes), test, held_out, budget))
        found[SVGP].append(min(runs))
    for method, scores in found.items():
        log_loss, calibration, error, cpu = np.mean(scores, axis=0)
        yield {
            "data": name, "n": len(parts[2]), "method": method, "log_loss": float(log_loss),
            "calibration_error": float(calibration), "error_rate": float(error), "cpu": float(cpu),
        }  # fmt: skip


def _svgp(train, codes, n_classes, test, held_out, budget):
    """Scores and CPU of every setting."""
    from ..peers import svgp_classifier

    for rate in RATES:
        for M in SIZES:
            proba, cpu = svgp_classifier.train(
                train, codes, n_classes, n_inducing=min(M, len(train)), learning_rate=rate,
                cpu_budget=budget,
            )  # fmt: skip
            yield (*_scores(proba(test), held_out), cpu)


def _scores(proba, codes):
    """Log loss, expected calibration error, and error rate."""
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == codes
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right - confidence, BINS)
    log_loss = -np.log(np.maximum(proba[np.arange(len(codes)), codes], 1e-300)).mean()
    return log_loss, np.abs(gaps).sum() / len(codes), 1.0 - right.mean()


def gates(rows):
    """Losses of log loss and of calibration error, on each set."""
    found = []
    for name in dict.fromkeys(row["data"] for row in rows):
        of = {row["method"]: row for row in rows if row["data"] == name}
        for score in ("log_loss", "calibration_error"):
            for other in (THEIRS, SCALES):
                gap = of[OURS][score] - of[other][score]
                found.append(Gate(f"{name}: {score} beside {other}", gap, MAX_LOSS))
    names = dict.fromkeys(row["data"] for row in rows)
    losses = {(row["data"], row["method"]): row["log_loss"] for row in rows}
    ahead = np.mean([losses[name, OURS] < losses[name, SVGP] for name in names])
    return [*found, Gate(f"share of sets ahead of {SVGP} at equal CPU", ahead, MIN_AHEAD, ">=")]


def plot(rows):
    """Log loss and calibration error of all, on each set."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained", sharey=True)
    names = list(dict.fromkeys(row["data"] for row in rows))
    known = [m for m in (OURS, THEIRS, SCALES, SVGP) if any(r["method"] == m for r in rows)]
    height = 0.8 / len(known)
    labels = {"log_loss": "log loss, nats", "calibration_error": "expected calibration error"}
    for one, (score, label) in zip(axes, labels.items(), strict=True):
        for place, method in enumerate(known):
            values = [row[score] for row in rows if row["method"] == method]
            at = np.arange(len(names)) + height * (place - (len(known) - 1) / 2)
            one.barh(at, values, 0.9 * height, label=method)
        one.set(xlabel=label, yticks=range(len(names)), yticklabels=names)
    axes[0].invert_yaxis()
    legend_above(figure, axes, ncols=2 if SCALES in known else 3)
    return figure
