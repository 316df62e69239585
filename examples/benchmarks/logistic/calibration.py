"""Predictive probabilities against scikit-learn's LogisticRegression at its best C.

Both see the training part alone, standardised by it. `LogisticRegressionCV` chooses C from a grid
by its own five-fold cross-validated log loss. Ours has its posterior mode at the same C, and
averages over the posterior, as wide as it is (``bayes``: temperature 1) or colder (``tuned``:
temperature T and ``prior_scale = sqrt(C T)``, with the T among 1, 0.1 and 0.01 that predicts a
fifth of the training part best from the rest, there by importance sampling alone,
``moves="never"``). Where classes are nearly separable an average over a wide posterior is
under-confident, and T repairs it at the price of standard deviations that are no longer those of
the model. All else is as it is by default. Data are predicted by stratified folds, each from the
rest; of adult, the standard test part. Two kinds of rows:

* ``fold``: one fit of each.
* ``all``: log loss and expected calibration error over all predicted rows together (the error of
  the confidence in the predicted class, 15 bins of equal width; with few rows in a bin it is
  biased upwards, for both alike), ours less theirs, and the standard error of the difference by a
  jackknife over some ten groups: folds, or parts of a fold where there are fewer.

The gates ask that ``tuned`` is not worse by more than two standard errors. On vowel ``evidence``
stands for ``prior_scale="evidence"``, which needs no folds; it is not gated.

``--quick``: scikit-learn's wine table.
"""

import warnings

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..harness import datasets
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock

FOLDS = {"keel_vowel": 5, "keel_texture": 3, "adult": None}  # None: the standard split
BY_EVIDENCE = ("keel_vowel", "wine")
GRID = np.logspace(-3, 5, 17)  # of C
TEMPERATURES = (1.0, 0.1, 0.01)
BINS = 15
GROUPS = 10
MAX_STANDARD_ERRORS = 2.0


def run(config):
    """Predict every data set by both."""
    folds = {"wine": 5} if config.quick else FOLDS
    rows = []
    for name, n_folds in folds.items():
        data = _wine() if config.quick else datasets.load(name, config.data)
        rows += _compare(data, n_folds)
        print(f"{name} done", flush=True)
    return rows


def _wine():
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return datasets.Dataset("wine", X, y)


def _compare(data, n_folds):
    """Return the rows of one data set."""
    settings = ("bayes", "tuned", *(["evidence"] if data.name in BY_EVIDENCE else []))
    found, rows = [], []
    for fold, (train, test) in enumerate(_parts(data, n_folds)):
        penalised, C = _penalised(*train)
        theirs = penalised.predict_proba(test[0])
        temperature = _best_temperature(*train, C)
        fits = {
            "bayes": _averaged(*train, C**0.5),
            "evidence": _averaged(*train, "evidence") if "evidence" in settings else None,
        }
        fits["tuned"] = fits["bayes"]
        if temperature != 1.0:
            fits["tuned"] = _averaged(*train, (C * temperature) ** 0.5, temperature)
        for setting in settings:
            model, numbers = fits[setting]
            ours = model.predict_proba(test[0])
            found.append((setting, fold, test[1], ours, theirs))
            case = {"kind": "fold", "data": data.name, "setting": setting, "fold": fold, "C": C}
            losses = {
                "log_loss": log_loss(ours, test[1]),
                "log_loss_sklearn": log_loss(theirs, test[1]),
            }
            rows.append({**case, **numbers, **losses})
        print(f"{data.name}, fold {fold} done", flush=True)
    for setting in settings:
        own = [part[1:] for part in found if part[0] == setting]
        rows.append({"kind": "all", "data": data.name, "setting": setting, **_summary(own)})
    return rows


def _parts(data, n_folds):
    """Yield (X, y) of training and (X, y) of test rows."""
    if n_folds is None:
        yield (data.X, data.y), (data.X_test, data.y_test)
        return
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    for train, test in folds.split(data.X, data.y):
        yield (data.X[train], data.y[train]), (data.X[test], data.y[test])


def _penalised(X, y):
    """LogisticRegression at its best C, and that C."""
    from sklearn.linear_model import LogisticRegressionCV

    model = LogisticRegressionCV(
        Cs=GRID,
        cv=StratifiedKFold(5, shuffle=True, random_state=1),
        scoring="neg_log_loss",
        solver="newton-cholesky",
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    return pipeline, float(model.C_)


def _best_temperature(X, y, C):
    """The temperature under which a fifth of the rows is predicted best from the others."""
    parts = train_test_split(X, y, test_size=0.2, stratify=y, random_state=2)
    losses = {}
    for temperature in TEMPERATURES:
        scale = (C * temperature) ** 0.5
        model, _ = _averaged(parts[0], parts[2], scale, temperature, moves="never")
        losses[temperature] = log_loss(model.predict_proba(parts[1]), parts[3])
    return min(losses, key=losses.get)


def _averaged(X, y, prior_scale, temperature=1.0, **params):
    """Ours, and a few numbers about the fit."""
    from skpmd import BayesianLogisticRegressionPMD

    model = BayesianLogisticRegressionPMD(
        prior_scale=prior_scale, temperature=temperature, random_state=0, **params
    )
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    return pipeline, {
        "prior_scale": float(model.prior_scale_),
        "temperature": temperature,
        "ess": float(model.diagnostics_["ess"]),
        "r_hat": model.diagnostics_["r_hat"],
        "cpu": clock.cpu,
        "warned": ",".join(sorted({warning.category.__name__ for warning in caught})) or None,
    }


def log_loss(probability, y):
    """Mean negative log probability of the labels 0, 1, ..."""
    chosen = probability[np.arange(len(y)), y]
    return float(-np.mean(np.log(np.maximum(chosen, 1e-300))))


def calibration_error(probability, y):
    """Average over bins, by their rows, of |share of right answers - mean confidence|."""
    confidence = probability.max(axis=1)
    right = probability.argmax(axis=1) == y
    number = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(number, right - confidence, BINS)).sum() / len(y))


def _summary(parts):
    """Scores of ours and theirs, their differences and the standard errors of those."""
    per_fold = max(1, GROUPS // len(parts))
    groups = [per_fold * fold + np.arange(len(y)) % per_fold for fold, y, _, _ in parts]
    groups = np.concatenate(groups)
    y, ours, theirs = (np.concatenate([part[k] for part in parts]) for k in (1, 2, 3))
    row = {"rows": len(y)}
    for label, score in (("log_loss", log_loss), ("ece", calibration_error)):
        row[label], row[f"{label}_sklearn"] = score(ours, y), score(theirs, y)
        row[f"{label}_difference"] = row[label] - row[f"{label}_sklearn"]
        left = [groups != group for group in np.unique(groups)]
        without = [score(ours[keep], y[keep]) - score(theirs[keep], y[keep]) for keep in left]
        row[f"{label}_se"] = float(np.sqrt((len(left) - 1) * np.var(without)))
    return row


def gates(rows):
    """Differences in standard errors."""
    found = []
    for row in rows:
        if row["kind"] == "all" and row["setting"] == "tuned":
            for label, name in (("log_loss", "log loss"), ("ece", "calibration error")):
                excess = row[f"{label}_difference"] / row[f"{label}_se"]
                name = f"{row['data']}, {name} less sklearn's, standard errors"
                found.append(Gate(name, excess, MAX_STANDARD_ERRORS))
    return found


def plot(rows):
    """Differences of both scores with two standard errors, as shares of sklearn's score."""
    plt = pyplot()
    own = [row for row in rows if row["kind"] == "all"]
    names = [f"{row['data'].removeprefix('keel_')}, {row['setting']}" for row in own]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", sharey=True)
    for panel, label in zip(axes, ("log_loss", "ece"), strict=True):
        base = np.array([row[f"{label}_sklearn"] for row in own])
        gap = np.array([row[f"{label}_difference"] for row in own]) / base
        error = 2.0 * np.array([row[f"{label}_se"] for row in own]) / base
        panel.errorbar(
            100.0 * gap, range(len(own)), xerr=100.0 * error, fmt="o", capsize=3,
            label="skpmd, with two standard errors",
        )  # fmt: skip
        panel.axvline(0.0, color="grey", linewidth=0.8, label="LogisticRegression at its best C")
        title = {"log_loss": "log loss", "ece": "expected calibration error"}[label]
        panel.set(xlabel=f"{title}, % above sklearn's")
    axes[0].set_yticks(range(len(own)), names)
    axes[0].margins(y=0.1)
    axes[0].invert_yaxis()
    legend_above(figure, axes, ncols=2)
    return figure
