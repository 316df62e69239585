"""
Quickstart: a posterior instead of a point
==========================================

The breast-cancer data of scikit-learn have 30 measurements of each of 569 tumours, which are
malignant or benign. We fit the default estimator at the end of a usual pipeline and get what a
point estimate does not have: an interval for each predicted probability and for each coefficient.
Then we see whether the probabilities are right as often as they say, what the diagnostics say about
the fit, and what changes where rows come in groups.

The last picture is saved as ``quickstart.png`` in the working directory.
"""

# %%
# Data with gaps
# --------------
# The measurements are complete. We remove one in a hundred at random, because real tables have
# gaps, and hold half of the rows out.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import beta
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    StratifiedKFold,
    cross_val_predict,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianGLMRegressorPMD, BayesianLogisticRegressionPMD

data = load_breast_cancer()
X, y = data.data.copy(), data.target
X[np.random.default_rng(0).random(X.shape) < 0.01] = np.nan
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)
print(f"{np.isnan(X).sum()} of {X.size} measurements are missing")
print(f"classes: {', '.join(data.target_names)}")

# %%
# A fit
# -----
# The estimator is the last step of a pipeline. Gaps are filled with medians, and columns are
# standardised, so that coefficients can be compared with each other. Nothing has to be tuned.

model = make_pipeline(
    SimpleImputer(strategy="median"),
    StandardScaler(),
    BayesianLogisticRegressionPMD(random_state=0),
)
model.fit(X_train, y_train)
print(f"accuracy on the test rows: {model.score(X_test, y_test):.3f}")

# %%
# Probabilities with intervals
# ----------------------------
# ``predict_proba`` averages over the posterior. Its intervals say how uncertain each probability
# remains, given the rows of the fit. Most intervals are narrow. The picture shows the intervals of
# the ten test tumours with probabilities nearest to 0.5: these intervals cover much of the range
# from 0 to 1. (The intervals do not take into account that gaps were filled by medians.)

probability, interval = model.predict_proba(X_test, return_interval=0.9)
benign, ends = probability[:, 1], interval[:, 1]
width = ends[:, 1] - ends[:, 0]
doubtful = np.argsort(np.abs(benign - 0.5))[:10]
doubtful = doubtful[np.argsort(benign[doubtful])]
print(
    f"median width of an interval, all test tumours: {np.median(width):.3f}"
)
print(
    "median width of an interval, "
    f"these ten:        {np.median(width[doubtful]):.3f}"
)

with plt.rc_context({"font.size": 15}):
    figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
    for place, row in enumerate(doubtful):
        colour = ("C3", "C2")[y_test[row]]
        ax.plot(
            ends[row], [place, place], color=colour, linewidth=4, alpha=0.5
        )
        ax.plot(
            benign[row],
            place,
            ("X", "o")[y_test[row]],
            color=colour,
            markersize=11,
        )
    ax.plot([], [], "o", color="C2", markersize=11, label="is benign")
    ax.plot([], [], "X", color="C3", markersize=11, label="is malignant")
    ax.axvline(0.5, color="0.7", linewidth=1, zorder=0)
    ax.set(
        title="Ten doubtful tumours, 90 % intervals",
        xlabel="P(benign)",
        yticks=[],
    )
    ax.set(xlim=(0, 1), ylim=(-0.7, 11.2))
    ax.legend(loc="upper center", ncols=2, frameon=False)

# %%
# Coefficients with intervals
# ---------------------------
# ``posterior_`` holds weighted draws of the coefficients, called particles. ``summary()`` returns a
# table for pandas, with a row for each coefficient. Here are the twelve coefficients that are
# farthest from 0, in posterior standard deviations. A coefficient is the change of the log odds of
# "benign" for one standard deviation of its column. The intercept, which comes last, is left out.

posterior = model[-1].posterior_
table = posterior.summary(level=0.9)
mean, low, high = (table[key][:-1] for key in ("mean", "lower", "upper"))
order = np.argsort(-np.abs(mean) / table["std"][:-1])
print(f"{'coefficient':<24}{'mean':>6}   90 % interval   P(> 0)")
for j in order[:12]:
    print(
        f"{data.feature_names[j]:<24}{mean[j]:6.2f}   [{low[j]:5.2f}, "
        f"{high[j]:5.2f}]"
        f"   {table['p_positive'][j]:.2f}"
    )
print(f"intervals without 0: {np.sum(low * high > 0)} of {len(mean)}")

# %%
# Many columns are strongly correlated, and one measurement of size can stand in for another. The
# data therefore say little about single coefficients, and much about most probabilities, which
# depend on sums over all coefficients.
#
# Reliability
# -----------
# Of the tumours with a probability of 0.8, four in five should be benign. We check this with
# probabilities from five-fold cross-validation, in which each of the 569 tumours is left out once.

folds = StratifiedKFold(5, shuffle=True, random_state=0)
held_out = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
held_out = held_out[:, 1]
bins = np.digitize(held_out, [0.1, 0.3, 0.5, 0.7, 0.9])
n_rows = np.bincount(bins)
n_benign = np.bincount(bins, weights=y)
predicted = np.bincount(bins, weights=held_out) / n_rows
observed = n_benign / n_rows
print("predicted   observed   rows")
for numbers in zip(predicted, observed, n_rows, strict=True):
    print("{:9.2f}{:11.2f}{:7d}".format(*numbers))

# %%
# In each of the four bins in the middle the observed share is farther from one half than the
# predicted one: these probabilities are somewhat too cautious. With a larger ``prior_scale`` they
# would be less cautious.
#
# Diagnostics
# -----------
# How far can these numbers be trusted? The effective sample size (ESS) is the number of draws of
# equal weight that would be as good; Pareto k-hat should be below 0.7. Where such a number is bad,
# ``fit`` warns, and ``check()`` returns a sentence about it. Here it returns none.

print(f"method: {model[-1].diagnostics_['method']}")
print(f"ESS {posterior.ess:.0f} of {len(posterior.particles)} particles")
print(f"Pareto k-hat {posterior.pareto_k:.2f}")
print(
    f"log evidence {posterior.log_evidence:.2f} "
    f"± {posterior.log_evidence_se:.2f}"
)
print(f"findings: {'; '.join(posterior.check()) or 'none'}")

# %%
# Groups
# ------
# Pupils come in schools, and those of one school are alike for reasons that no column has. Here are
# points of 200 simulated pupils in 14 schools of 3 to 29. ``groups`` gives each school an effect of
# its own, from a population whose spread is learned: effects of schools with few pupils are pulled
# to zero, and their intervals are wide.

rng = np.random.default_rng(1)
school = rng.choice(14, 200, p=np.arange(2, 16) / np.arange(2, 16).sum())
pupils = pd.DataFrame({"hours": rng.uniform(0, 10, 200)})
pupils["school"] = [f"school {j}" for j in school]
truth = rng.normal(0.0, 5.0, 14)
points = 40.0 + 3.0 * pupils["hours"] + truth[school]
points = points + rng.normal(0.0, 10.0, 200)

grouped = BayesianGLMRegressorPMD(groups=["school"], random_state=0).fit(
    pupils, points
)
found = grouped.posterior_
rows = zip(found.names, found.mean(), found.std(), strict=True)
for name, value, sd in rows:
    print(f"{name:<12}{value:6.2f} ± {sd:.2f}")
effects = pd.DataFrame(grouped.group_effects_.summary(0.9))
effects = effects.sort_values("mean")
raw = (points - 3.0 * pupils["hours"]).groupby(pupils["school"]).mean()
n_pupils = pupils["school"].value_counts()

# %%
# The picture
# -----------
# Coefficients of the table; effects of schools, with crosses for averages of their pupils alone;
# reliability, where bars are 90 % intervals of the share, given the rows of the bin, and beside
# each point is the number of these rows; and each test tumour's probability with its own interval,
# where ticks above and below are the true classes.

plt.rcParams.update({"font.size": 13})
figure, axes = plt.subplots(2, 2, figsize=(14, 10), layout="constrained")
top, of_schools, middle, bottom = axes.ravel()

shown = order[:12][::-1]
rows = np.arange(len(shown))
top.hlines(rows, low[shown], high[shown], color="C0", linewidth=2)
top.plot(mean[shown], rows, "o")
top.axvline(0.0, color="0.7", linewidth=1)
top.set_yticks(rows, data.feature_names[shown])
top.set(
    title="Coefficients, 90 % intervals",
    xlabel="log odds of benign per sd of the column",
)

rows = np.arange(len(effects))
of_schools.hlines(
    rows, effects["lower"], effects["upper"], color="C0", linewidth=2
)
of_schools.plot(effects["mean"], rows, "o", label="with groups")
alone = raw[effects["group"]] - raw.mean()
of_schools.plot(
    alone, rows, "x", color="0.5", label="average of the school alone"
)
of_schools.axvline(0.0, color="0.7", linewidth=1)
of_schools.set_yticks(
    rows, [f"{name} ({n_pupils[name]} pupils)" for name in effects["group"]]
)
of_schools.set(
    title="Effects of schools, 90 % intervals",
    xlabel="points",
    ylim=(-0.7, 15.2),
)
of_schools.legend(
    loc="upper center",
    ncols=2,
    frameon=False,
    columnspacing=1.0,
    handletextpad=0.2,
)

middle.plot([0, 1], [0, 1], color="0.7", linewidth=1)
middle.vlines(
    predicted,
    *beta.ppf([[0.05], [0.95]], n_benign + 0.5, n_rows - n_benign + 0.5),
)
middle.plot(predicted, observed, "o")
for x, share, n in zip(predicted, observed, n_rows, strict=True):
    sides = (
        {"ha": "left", "va": "top"}
        if x < 0.9
        else {"ha": "right", "va": "bottom"}
    )
    middle.annotate(f"  {n}  ", (x, share), color="0.4", **sides)
middle.set_ylim(-0.1, 1.1)
middle.set(
    title="Reliability (rows in each bin)", xlabel="predicted P(benign)"
)
middle.set_ylabel("observed share benign")

rank = np.argsort(benign)
place = np.arange(len(rank))
bottom.fill_between(
    place, *ends[rank].T, alpha=0.3, linewidth=0, label="90 % interval"
)
bottom.plot(place, benign[rank], label="averaged probability")
for value, height, colour in ((1, 1.06, "C2"), (0, -0.06, "C3")):
    at = place[y_test[rank] == value]
    bottom.plot(at, np.full(len(at), height), "|", color=colour)
bottom.text(0, 1.06, "benign", color="C2", va="center")
bottom.text(
    place[-1], -0.06, "malignant", color="C3", ha="right", va="center"
)
bottom.set(
    title="Test tumours", xlabel="rank of the tumour", ylabel="P(benign)"
)
bottom.legend(loc="center right", frameon=False, handlelength=1.0)

path = Path("quickstart.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")

# sphinx_gallery_thumbnail_number = 1
