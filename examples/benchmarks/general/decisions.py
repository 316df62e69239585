"""Decisions by expected utility, beside thresholds: the gain out of sample where errors cost.

The tumours of scikit-learn's ``load_breast_cancer``: a malignant one that is sent home costs 10, a
benign one that is not costs 1, and the utility is minus the cost. Ten splits, half of the rows (or
a tenth: ``share``) for training; utilities are means over the rows of the test part, and then over
splits, ``se`` is the standard error of the difference from ours, split by split.

* ``ours``: `BayesDecisionClassifier` around `BayesianLogisticRegressionPMD` by default;
* ``ours, most probable``: its ``predict``;
* ``ours, tuned`` and ``penalised, tuned``: `TunedThresholdClassifierCV`, which chooses a threshold
  by the same utility on five folds, around the same and around `LogisticRegression`;
* ``penalised, most probable``, ``penalised, expected utility``: the latter by its probabilities.

Features are standardised. ``--quick``: three splits.
"""

import numpy as np

from ..harness.study import Gate, pyplot

SPLITS, QUICK_SPLITS = 10, 3
UTILITY = np.array([[0.0, -1.0], [-10.0, 0.0]])  # Of calling it malignant (class 0), or benign.
SHARES = 0.5, 0.1
OURS = "ours"


def run(config):
    """Mean utilities of each method, and their differences from ours."""
    n_splits = QUICK_SPLITS if config.quick else SPLITS
    rows = []
    for share in SHARES:
        found = [split(share, seed) for seed in range(n_splits)]
        for name in found[0]:
            gained = np.array([one[name] for one in found])
            lost = np.array([one[OURS] for one in found]) - gained
            error = lost.std(ddof=1) / np.sqrt(len(lost))
            rows.append({
                "share": share, "method": name, "utility": gained.mean(),
                "ours_more": lost.mean(), "se": error,
            })  # fmt: skip
    return rows


def split(share, seed):
    """Mean utility of each method on one split, {method: utility}."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from skpmd import BayesianLogisticRegressionPMD
    from skpmd.decision import BayesDecisionClassifier

    X, y = load_breast_cancer(return_X_y=True)
    X, new, y, truth = train_test_split(X, y, train_size=share, random_state=seed, stratify=y)

    def utility(y_true, actions):
        return UTILITY[actions, y_true].mean()

    def scaled(model):
        return make_pipeline(StandardScaler(), model)

    def tuned(model):
        scorer = make_scorer(utility)
        return TunedThresholdClassifierCV(model, scoring=scorer, cv=5, random_state=seed)

    bayes = scaled(BayesianLogisticRegressionPMD(random_state=seed))
    penalised = scaled(LogisticRegression())
    methods = {
        OURS: BayesDecisionClassifier(bayes, UTILITY),
        "ours, most probable": bayes,
        "ours, tuned": tuned(bayes),
        "penalised, tuned": tuned(penalised),
        "penalised, most probable": penalised,
        "penalised, expected utility": BayesDecisionClassifier(penalised, UTILITY),
    }
    return {name: utility(truth, one.fit(X, y).predict(new)) for name, one in methods.items()}


def gates(rows):
    """Ours is ahead of the most probable class and of tuned thresholds, on half of the rows."""
    return [
        Gate(f"share {row['share']}: utility more than of {row['method']}", row["ours_more"], 0.0,
             ">=")
        for row in rows
        if "tuned" in row["method"] or row["method"] == "ours, most probable"
    ]  # fmt: skip


def plot(rows):
    """Utility of each method minus that of ours, with two standard errors."""
    plt = pyplot()
    shares = sorted({row["share"] for row in rows}, reverse=True)
    figure, axes = plt.subplots(1, len(shares), figsize=(8, 3.0), layout="constrained", sharey=True)
    for axis, share in zip(axes, shares, strict=True):
        some = [row for row in rows if row["share"] == share and row["method"] != OURS]
        gained = [-row["ours_more"] for row in some]
        names = [row["method"] for row in some]
        axis.errorbar(gained, names, xerr=[2.0 * row["se"] for row in some], fmt="o")
        axis.axvline(0.0, color="k", lw=0.8)
        axis.margins(y=0.15)
        axis.locator_params(axis="x", nbins=4)
        axis.set(title=f"{share:.0%} of the rows for training")
    axes[0].invert_yaxis()
    figure.supxlabel("utility minus ours, per row, with two standard errors", fontsize="medium")
    return figure
