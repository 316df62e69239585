"""
Rare events: probabilities that are right
=========================================

.. index:: rare events, class imbalance, imbalanced classes, calibration, calibrated probabilities
   single: fraud; rare events
   single: oversampling, SMOTE

"Two in a hundred machines fail within a year. How probable is it for each of mine, and which
should we inspect?"
"""

# %%
# The machines are generated: their age and their temperature matter. 4,000 are known, and 20,000
# are those of next year.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import beta

from skpmd import BayesianLogisticRegressionPMD
from skpmd.decision import BayesDecisionClassifier

rng = np.random.default_rng(0)


def machines(n):
    X = pd.DataFrame(
        {
            "years": rng.uniform(0.0, 15.0, n),
            "celsius": rng.normal(60.0, 10.0, n),
        }
    )
    return X, rng.random(n) < expit(
        -5.7 + 0.15 * X.years + 0.08 * (X.celsius - 60.0)
    )


(X, failed), (X_new, failed_new) = machines(4000), machines(20_000)
print(f"{failed.sum()} of {len(X)} machines have failed")

# %%
# Nothing is to be done about rare events: no class weights and no copies of rows, for these
# change what is said to be probable. To see it, one model gets weights that balance the classes.
# An inspection costs 300 €, and a failure without one 10,000 €. From probabilities that are right
# the best action follows, without a threshold to tune.

utility = [
    [0.0, -10_000.0],
    [-300.0, -300.0],
]  # Wait or inspect; a machine that runs or fails.
models = {
    name: BayesDecisionClassifier(
        BayesianLogisticRegressionPMD(class_weight=weight, random_state=0),
        utility,
        actions=["wait", "inspect"],
    ).fit(X, failed)
    for name, weight in (
        ("rows as they are", None),
        ("balanced classes", "balanced"),
    )
}
probability = {
    name: model.predict_proba(X_new)[:, 1] for name, model in models.items()
}
for name, model in models.items():
    n_inspected = np.sum(model.predict(X_new) == "inspect")
    cost = -model.score(X_new, failed_new)
    print(
        f"{name}: {probability[name].sum():.0f} failures expected, "
        f"{failed_new.sum()} seen;"
    )
    print(f"    {n_inspected} inspections, {cost:.0f} € for each machine")

# %%
# Each probability has an interval, which says how well it is known:

new = pd.DataFrame({"years": [1.0, 14.0], "celsius": [50.0, 80.0]})
model = models["rows as they are"].estimator_
ends = 100.0 * model.predict_proba_interval(new)[:, 1]
print(
    new.assign(lower=ends[:, 0], upper=ends[:, 1]).round(1),
    "in per cent, 90 % intervals",
)

# %%
# The picture: shares of failures among next year's machines, with 90 % intervals of the shares,
# where the probability was about as on the axis below. On the line probabilities are right.

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
ax.plot([1e-3, 1], [1e-3, 1], "k--", linewidth=1)
for mark, (name, p) in zip("os", probability.items(), strict=True):
    bins = pd.DataFrame({"p": p, "failed": failed_new}).groupby(
        pd.qcut(p, 8), observed=True
    )
    n, k, mean = bins.failed.size(), bins.failed.sum(), bins.p.mean()
    (line,) = ax.loglog(mean, k / n, mark, label=name)
    ax.vlines(
        mean,
        *beta.ppf([[0.05], [0.95]], k + 0.5, n - k + 0.5),
        color=line.get_color(),
    )
ax.set(
    xlabel="predicted probability of a failure", ylabel="share that failed"
)
ax.legend(frameon=False)

# %%
# **How far to trust it.** ``check()`` has no objection, and the shares are what was predicted.
# With sixty failures the intervals are wide: events count, not rows.

print(
    "objections:",
    model.posterior_.check(),
    f"effective draws: {model.posterior_.ess:.0f}",
)

# %%
# **When to use something else.** With thousands of events and columns that interact, boosted
# trees rank better; calibrate them. Where failures were collected, and others sampled, as in a
# case-control study, the intercept is not that of the population. More:
# :doc:`/user_guide/logistic` and :doc:`/user_guide/decisions`.
