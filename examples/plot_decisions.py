"""
Decisions with costs: no threshold to tune
==========================================

Sending a patient with a malignant tumour home costs far more than operating on a benign one.
Predicting the most probable class ignores this: the threshold is 0.5 whatever is at stake. You
learn here to predict the action with the smallest expected cost with ``BayesDecisionClassifier``,
and to let the classifier abstain where another examination costs less than the expected cost of
either action. You also see how much this gains on tumours that the fit has not seen.

The picture is saved as ``decisions.png`` in the working directory.
"""

# %%
# Utilities in place of a threshold
# ---------------------------------
# A utility is a cost with a minus sign. The table has a row for each action and a column for each
# true class, both in the order of ``classes_``: here 0 is malignant and 1 is benign. Operating on a
# benign tumour costs 1, sending a malignant one home costs 10, and another examination costs 0.3 in
# either case (``abstain``). There are 150 tumours to learn from.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD
from skpmd.decision import BayesDecisionClassifier

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=150, stratify=y, random_state=0
)


def utilities(cost_of_missed):
    return np.array([[0.0, -1.0], [-cost_of_missed, 0.0]])


model = make_pipeline(
    StandardScaler(), BayesianLogisticRegressionPMD(random_state=0)
)
decision = BayesDecisionClassifier(
    model, utilities(10.0), abstain=-0.3
).fit(X_train, y_train)
names = {0: "operate", 1: "send home", -1: "examine again"}
actions = decision.predict(X_test)
print("action          malignant   benign")
for action, name in names.items():
    counts = [
        int(((actions == action) & (y_test == c)).sum()) for c in (0, 1)
    ]
    print(f"{name:<14}{counts[0]:11d}{counts[1]:9d}")

# %%
# The classifier needs only the utilities, and no threshold. Let p be the probability that a tumour
# is malignant. The expected cost of sending it home is 10 p, and the expected cost of an operation
# is 1 - p, so that the two are equal at p = 1 / 11. The picture shows each test tumour at its p, on
# a scale that spreads the probabilities near 0 and near 1. The tumours between the dashed lines are
# examined again, because 0.3 is less than either expected cost. The solid line is the threshold of
# the most probable class, 0.5, which does not depend on costs. Tumours with a p below 0.0001 or
# above 0.9999 lie outside of the picture.

proba = decision.predict_proba(X_test)[:, 0]
place = np.argsort(np.argsort(proba))
plt.rcParams["font.size"] = 13
figure, axes = plt.subplots(figsize=(7, 5.2), layout="constrained")
for colour, (action, name) in zip(
    ("C1", "C0", "0.5"), names.items(), strict=True
):
    chosen = actions == action
    axes.plot(
        place[chosen],
        proba[chosen],
        "o",
        color=colour,
        markersize=5,
        label=name,
    )
missed = (actions == 1) & (y_test == 0)
axes.plot(
    place[missed],
    proba[missed],
    "kx",
    markersize=11,
    label="malignant, but sent home",
)
for edge in (0.3 / 10.0, 1.0 - 0.3):
    axes.axhline(edge, color="0.6", linestyle="--", linewidth=1)
axes.axhline(0.5, color="0.6", linewidth=1)
ticks = [
    0.0001,
    0.001,
    0.01,
    0.03,
    0.1,
    0.3,
    0.5,
    0.7,
    0.9,
    0.99,
    0.999,
    0.9999,
]
axes.set(yscale="logit", ylim=(0.0001, 0.9999))
axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
axes.minorticks_off()
axes.set(xlabel="rank of the test tumour", ylabel="P(malignant)")
axes.legend(frameon=False, loc="upper left", markerscale=1.4)

# %%
# What the costs gain
# -------------------
# Now the cost of a missed tumour goes from 1 to 100, in ten splits into 150 tumours for the fit and
# 419 for the test. A change of ``utility`` or ``abstain`` needs no new fit: ``set_params`` is
# enough. ``score`` is the mean utility, so that minus the score is the mean cost. With
# ``utility=None`` the most probable class is predicted.

costs = np.geomspace(1.0, 100.0, 7)
splits = list(
    StratifiedShuffleSplit(
        10, train_size=150, random_state=0, test_size=419
    ).split(X, y)
)
paid = {
    "threshold 0.5": [],
    "by costs": [],
    "by costs, or examine again": [],
}
again = []
fitted = []
for train, test in splits:
    decision = BayesDecisionClassifier(model).fit(X[train], y[train])
    fitted.append(decision)
    classes = decision.predict(X[test])
    paid["threshold 0.5"].append(
        [-utilities(cost)[classes, y[test]].mean() for cost in costs]
    )
    for name, abstain in (
        ("by costs", None),
        ("by costs, or examine again", -0.3),
    ):
        scores = []
        for cost in costs:
            decision.set_params(utility=utilities(cost), abstain=abstain)
            scores.append(decision.score(X[test], y[test]))
        paid[name].append(-np.array(scores))
    decision.set_params(utility=utilities(10.0))
    again.append((decision.predict(X[test]) == -1).mean())
means = {name: np.mean(rows, axis=0) for name, rows in paid.items()}
print("cost of a miss   " + "   ".join(means))
for cost, *row in zip(costs, *means.values(), strict=True):
    line = "   ".join(
        f"{value:{len(name)}.3f}"
        for name, value in zip(means, row, strict=True)
    )
    print(f"{cost:14.1f}   {line}")
share = 100 * np.mean(again)
print(
    "examined again, at a cost of 10 for a missed one: "
    f"{share:.0f} % of the tumours"
)

# %%
# Where both errors cost the same, the threshold by costs is 0.5, and there is nothing to gain
# except by examining again. The more the costs differ, the larger the gain is.
#
# A threshold that is tuned
# -------------------------
# ``TunedThresholdClassifierCV`` finds a threshold by cross-validation on the rows of the fit. Each
# table of utilities needs a threshold of its own, and new fits. Here we put it around
# ``LogisticRegression``, which is the mode of the same posterior, and compare it with decisions by
# costs. Differences are from the last line, with their standard errors over the splits. Splits
# share rows, so that these errors are rather too small.

point = make_pipeline(StandardScaler(), LogisticRegression())


def mean_utility(y_true, y_pred, cost):
    return utilities(cost)[y_pred, y_true].mean()


for cost in (10.0, 100.0):
    scorer = make_scorer(mean_utility, cost=cost)
    candidates = {
        "LogisticRegression, threshold 0.5": point,
        "the same, threshold tuned": TunedThresholdClassifierCV(
            point, scoring=scorer
        ),
        "the same, by costs": BayesDecisionClassifier(
            point, utilities(cost)
        ),
    }
    rows = {
        name: []
        for name in (*candidates, "averaged probabilities, by costs")
    }
    for averaged, (train, test) in zip(fitted, splits, strict=True):
        averaged.set_params(utility=utilities(cost), abstain=None)
        fits = [one.fit(X[train], y[train]) for one in candidates.values()]
        for row, one in zip(rows.values(), [*fits, averaged], strict=True):
            row.append(-mean_utility(y[test], one.predict(X[test]), cost))
    print(f"mean cost, at {cost:.0f} for a missed tumour")
    for name, row in rows.items():
        gap = np.array(row) - rows["averaged probabilities, by costs"]
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        print(
            f"  {name:<36}{np.mean(row):.3f}   difference "
            f"{gap.mean():+.3f} ± {error:.3f}"
        )

# %%
# At a cost of 10 a tuned threshold is hardly worse. At 100 it is worse, because few of the 150 rows
# say where such a small threshold should be. The gain comes from minimising the expected cost: with
# the probabilities of ``LogisticRegression`` this is as good here, to within the errors, and
# ``BayesDecisionClassifier`` takes any classifier with ``predict_proba``.
#
# The picture
# -----------
# The picture shows the mean cost of a test tumour, on a logarithmic scale, against the cost of
# sending a malignant one home. Bands are two standard errors of the mean over the ten splits.

# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(figsize=(7, 4.9), layout="constrained")
for colour, (name, rows) in zip(
    ("0.4", "C0", "C1"), paid.items(), strict=True
):
    error = 2 * np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
    axes.fill_between(
        costs,
        means[name] - error,
        means[name] + error,
        color=colour,
        alpha=0.2,
    )
    axes.plot(
        costs, means[name], "o-", color=colour, linewidth=2.5, label=name
    )
axes.set(xscale="log", yscale="log", title="Decisions on test tumours")
axes.set_xticks([1, 10, 100], ["1", "10", "100"])
axes.set_yticks([0.03, 0.1, 0.3, 1, 3], ["0.03", "0.1", "0.3", "1", "3"])
axes.set(
    xlabel="cost of a missed tumour (false alarm: 1)", ylabel="mean cost"
)
axes.legend(frameon=False)

path = Path("decisions.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")
