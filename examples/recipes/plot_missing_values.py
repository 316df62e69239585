"""
Missing values: a regression with gaps
======================================

.. index:: missing values, missing data, imputation, multiple imputation, gaps in a table, NaN

"A third of my patients have no BMI. How does the disease go with the BMI, and how sure is that
with so many gaps?"
"""

# %%
# The patients are those of scikit-learn, of whom all values are known. We take the BMI of many
# away, and more often where the disease got worse, so that the rows without gaps are no fair
# sample.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.datasets import load_diabetes

from skpmd import BayesianGLMRegressorPMD, GaussianMixturePMD

rng = np.random.default_rng(0)
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X = X[["age", "bmi", "bp"]]
is_missing = rng.random(len(X)) < expit((y - 200.0) / 40.0)
gaps = X.assign(bmi=X.bmi.mask(is_missing))
print(f"{is_missing.mean():.0%} of {len(X)} patients have no BMI")

# %%
# A mixture of normal distributions says what a BMI may be, given all else that is known of the
# patient, the disease included. Twenty complete tables are drawn, of which each has a mixture
# fitted to rows that are weighted at random (the Bayesian bootstrap): so tables also differ by
# what is not known of the mixture. Each table has its regression, and draws of all posteriors are
# put together.


def slope(table, y):
    model = BayesianGLMRegressorPMD(random_state=0).fit(table, y)
    return model.posterior_["bmi"]


known, others = gaps.assign(disease=y), ["age", "bp", "disease"]
slopes = []
for seed in range(20):
    weight = rng.exponential(size=np.sum(~is_missing))
    mixture = GaussianMixturePMD(random_state=0).fit(
        known[~is_missing], sample_weight=weight
    )
    density = mixture.conditional(others, known.loc[is_missing, others])
    table = gaps.copy()
    drawn = density.sample(random_state=seed)[0, :, 0]
    table.loc[is_missing, "bmi"] = drawn
    slopes.append(slope(table, y).sample(200, random_state=seed))

# %%
# Two ways are more common. Means in the place of gaps are far too sure and too small, and rows
# without gaps are those of patients who fare better.

without_gaps = slope(X[~is_missing], y[~is_missing])
intervals = {
    "gaps drawn 20 times": np.quantile(slopes, [0.05, 0.95]),
    "means in the gaps": slope(gaps.fillna(gaps.mean()), y).interval(0.9),
    "rows without gaps": without_gaps.interval(0.9),
    "all values (not known)": slope(X, y).interval(0.9),
}
for name, (low, high) in intervals.items():
    print(f"{name:23} {low:5.1f} to {high:4.1f} points for one kg/m²")

# %%
# The picture: 90 % intervals of the slope.

figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
for place, ends in enumerate(reversed(intervals.values())):
    ax.plot(
        ends, [place, place], linewidth=6, color="C0" if place else "0.6"
    )
ax.set_yticks(range(len(intervals)), reversed(intervals))
ax.set(
    xlabel="points of the disease's progression for one kg/m² of BMI",
    ylim=(-0.6, 3.6),
)

# %%
# **How far to trust it.** Draws of gaps are right where the chance of a gap depends on what is
# known of the patient, as it does here; no table says whether it does. None of the fits has
# warned. Columns should be near to normal, or have a mixture of more components.

# %%
# **When to use something else.** If gaps are few, :class:`~sklearn.impute.SimpleImputer` in a
# pipeline is enough; for categories there is MICE (statsmodels, miceforest). Predictions of
# columns from others are in :doc:`/user_guide/mixture`.
