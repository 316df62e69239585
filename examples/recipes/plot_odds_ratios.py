"""
Odds ratios: which patients get an infection?
=============================================

.. index:: odds ratio, relative risk, risk ratio, risk difference, risk factor, adjusted odds ratio

"By what factor does each of these raise the odds of an infection after an operation, the others
being equal, and how many more infections of 100 patients are that?"
"""

# %%
# The patients are generated, so that the true odds ratios are known: 1.5 for ten years, 2 for
# diabetes, 0.5 for an antibiotic, and 1 for a private room. Diabetics are older.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpmd import BayesianLogisticRegressionPMD
from skpmd.effects import avg_comparisons, comparisons
from skpmd.plot import EffectsDisplay

rng = np.random.default_rng(0)
n = 1500
patients = pd.DataFrame({"age": rng.uniform(30.0, 90.0, n)})
patients["diabetes"] = rng.random(n) < patients.age / 300.0
patients["antibiotic"] = rng.random(n) < 0.6
patients["private_room"] = rng.random(n) < 0.2
odds = (
    0.15
    * 1.5 ** (patients.age / 10.0 - 6.0)
    * 2.0**patients.diabetes
    * 0.5**patients.antibiotic
)
infection = np.where(rng.random(n) < odds / (1.0 + odds), "yes", "no")
print(
    f"{np.mean(infection == 'yes'):.0%} of {n} patients have an infection"
)

# %%
# An odds ratio of logistic regression is the same for all patients, so that one row is enough.
# Columns of yes and no are compared at yes, and the age is raised by ten years. The odds are
# those of the second class in the order of the alphabet, here of "yes", which the table calls the
# group: with "ill" and "well" they would be those of being well.

model = BayesianLogisticRegressionPMD(random_state=0).fit(
    patients, infection
)
changes = {
    "age": 10.0,
    "diabetes": None,
    "antibiotic": None,
    "private_room": None,
}
ratios = comparisons(model, patients[:1], changes, comparison="odds_ratio")
table = pd.DataFrame(ratios.summary(0.9)).set_index("term")
table["truth"] = [1.5, 2.0, 0.5, 1.0]
shown = ["group", "contrast", "estimate", "lower", "upper", "truth"]
print(table[shown].round(2))

# %%
# A doubling of odds is much for those of a high risk and little for others. The average over
# these patients says how many infections more, or fewer, there are in 100:

risks = avg_comparisons(model, patients, changes)
for name, mean, (low, high) in zip(
    changes, 100 * risks.mean, 100 * risks.interval(0.9), strict=True
):
    print(
        f"{name:<13}{mean:5.1f} of 100 patients, "
        f"90 % interval {low:5.1f} to {high:5.1f}"
    )

# %%
# The picture: thick lines are 50 % intervals, thin ones 90 %.

figure, axes = plt.subplots(2, 1, figsize=(8, 6), layout="constrained")
EffectsDisplay.from_effects(ratios, ax=axes[0])
EffectsDisplay.from_effects(risks, ax=axes[1])
for ax, title in zip(
    axes, ("Odds ratios", "Differences of risks"), strict=True
):
    ax.set(title=title)

# %%
# **How far to trust it.** ``check()`` has no objection. The ratios are of patients who are alike
# in the other columns of this table: what is not in it, such as the length of the operation, may
# be behind any of them.

print(
    "objections:",
    model.posterior_.check(),
    f"effective draws: {model.posterior_.ess:.0f}",
)

# %%
# **When to use something else.** Patients of several hospitals are :doc:`groups
# </user_guide/groups>`. A case-control study has odds ratios, and no risks. Of a question about
# cause, more is in :doc:`effects </user_guide/effects>`.
