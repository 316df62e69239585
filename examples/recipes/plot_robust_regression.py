"""
Robust regression: a line in spite of outliers
==============================================

.. index:: outliers, robust regression, Student t errors, heavy tails, failed sensor

"Some readings of my sensor are plainly wrong, and I do not want to pick them by hand. What is the
line through the others, and which readings are the odd ones?"
"""

# %%
# Sixty readings lie around a line of slope 0.5 with a standard deviation of 0.4 volts. The six
# hottest ones have failed.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpmd import BayesianGLMRegressorPMD
from skpmd.model_comparison import compare, loo

rng = np.random.default_rng(0)
X = pd.DataFrame({"celsius": np.sort(rng.uniform(0.0, 10.0, 60))})
volts = 2.0 + 0.5 * X.celsius + 0.4 * rng.standard_normal(60)
volts[54:] -= 6.0

# %%
# Student's t distribution has tails whose weight, ``nu``, is learned from the readings: from one
# to three they are heavy, and from thirty on errors are as good as normal.

models = {
    family: BayesianGLMRegressorPMD(family, random_state=0).fit(X, volts)
    for family in ("normal", "student_t")
}
for family, model in models.items():
    slope, sigma = (
        model.posterior_[name].interval(0.9)
        for name in ("celsius", "sigma")
    )
    print(
        f"{family:9} slope {slope.round(2)} volts a degree, "
        f"sigma {sigma.round(2)} volts"
    )

# %%
# Under normal errors the slope of 0.5 is outside of its interval. Was Student's family needed?
# The leave-one-out scores are apart by far more than a standard error. The odd readings are those
# that are least probable, given all others:

scores = {family: loo(model, X, volts) for family, model in models.items()}
table = pd.DataFrame(compare(scores)).set_index("name")
print(table[["elpd", "difference", "difference_se"]])
odd = np.sort(np.argsort(scores["student_t"].pointwise)[:6])
print("the six most surprising readings:", odd)

# %%
# The picture: lines with 90 % bands.

grid = pd.DataFrame({"celsius": np.linspace(0.0, 10.0, 101)})
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for colour, (family, model) in zip(
    ("C1", "C0"), models.items(), strict=True
):
    band = model.predict_interval(grid, level=0.9, target="mean")
    ax.fill_between(
        grid.celsius, *band.T, color=colour, alpha=0.35, linewidth=0
    )
    ax.plot(
        grid.celsius,
        model.predict(grid),
        color=colour,
        label=f"{family} errors",
    )
ax.plot(grid.celsius, 2.0 + 0.5 * grid.celsius, "k--", label="truth")
ax.plot(X.celsius, volts, "k.", markersize=8, alpha=0.6)
ax.plot(
    X.celsius[odd],
    volts[odd],
    "o",
    color="C3",
    mfc="none",
    markersize=12,
    label="odd ones",
)
ax.set(xlabel="temperature (°C)", ylabel="reading (V)", xlim=(0, 10))
ax.legend(frameon=False)

# %%
# **How far to trust it.** ``check()`` has no objection. Where failures are many and lie on a line
# of their own, the posterior has a mode through these, too: fit again with another
# ``random_state``.

posterior = models["student_t"].posterior_
print(
    "objections:",
    posterior.check(),
    f"effective draws: {posterior.ess:.0f}",
)

# %%
# **When to use something else.** Outliers in columns of ``X`` are not made harmless by this. A
# curve with outliers is ``SparseGPRegressorPMD(likelihood="student_t")``; for a line alone,
# without an interval, there is ``HuberRegressor``. More: :doc:`/user_guide/linear`.
