"""
Outliers: a regression that doubts its data
===========================================

A sensor that measures well most of the time, and now and then something else, ruins a regression
with normal errors: the line is pulled, the scatter is overstated, and all intervals are wrong. With
``family="student_t"`` errors have heavy tails, whose weight is learnt from the data. You see what
this changes, and how a comparison tells that it was needed.

The picture is saved as ``robust_regression.png`` in the working directory.
"""

# %%
# Readings
# --------
# Sixty readings lie around a line of slope one half, with a standard deviation of 0.4. The six
# hottest ones have failed.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpmd import BayesianGLMRegressorPMD
from skpmd.model_comparison import compare, loo

rng = np.random.default_rng(0)
X = pd.DataFrame({"temperature": np.sort(rng.uniform(0.0, 10.0, 60))})
y = 2.0 + 0.5 * X["temperature"] + 0.4 * rng.standard_normal(60)
y[54:] -= 6.0

# %%
# Two families
# ------------
# The only difference is a word. The posterior of the second one has a further coordinate, the
# degrees of freedom ``nu``: around one to three the tails are heavy, and from thirty on errors are
# as good as normal.

models = {
    family: BayesianGLMRegressorPMD(family, random_state=0).fit(X, y)
    for family in ("normal", "student_t")
}
for family, model in models.items():
    table = pd.DataFrame(model.posterior_.summary(level=0.9)).set_index("name")
    print(family)
    print(table[["mean", "std", "lower", "upper"]].round(2))

# %%
# Under normal errors the slope of one half is outside its interval, and the standard deviation is
# several times as large as that of the good readings. Student's errors find both the line and the
# scatter, and say that a part of the readings are outliers, without being given which ones, or that
# there are any.
#
# Was it needed?
# --------------
# The leave-one-out score of the model with heavy tails is better by far more than a standard error.
# If there were no outliers, the two would be about equal: ``nu`` would be large.

scores = {family: loo(model, X, y) for family, model in models.items()}
print(pd.DataFrame(compare(scores)).set_index("name")[["elpd", "difference", "difference_se"]])

# %%
# The picture
# -----------
# The bands are 90 % intervals of the line itself. ``predict_interval`` without ``target`` has those
# of a new reading. With heavy tails a new reading may be far off, and its mean may not even exist,
# so quantiles are the better summary.

grid = pd.DataFrame({"temperature": np.linspace(0.0, 10.0, 101)})
figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
for colour, (family, model) in zip(("C1", "C0"), models.items(), strict=True):
    low, high = model.predict_interval(grid, level=0.9, target="mean").T
    ax.fill_between(grid["temperature"], low, high, color=colour, alpha=0.35, linewidth=0)
    ax.plot(grid["temperature"], model.predict(grid), color=colour, label=family)
ax.plot(grid["temperature"], 2.0 + 0.5 * grid["temperature"], "k--", label="truth")
ax.plot(X["temperature"], y, "k.", markersize=9, alpha=0.6)
ax.set(title="The line with 90 % bands", xlabel="temperature", ylabel="reading", xlim=(0, 10))
ax.legend(frameon=False)
path = Path("robust_regression.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")

# %%
# Which readings are outliers? Those that the model finds improbable, given all others. The log
# density of a left-out reading is what the comparison has added up:

surprising = np.argsort(scores["student_t"].pointwise)[:6]
print("the six most surprising readings:", np.sort(surprising))
