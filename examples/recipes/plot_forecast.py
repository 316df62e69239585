"""
A forecast: the next two years with intervals
=============================================

.. index:: forecast, time series, seasonality, trend, prediction interval, extrapolation

"I have the electricity demand of each month. What will it be in the next two years, and how high
may it go?"
"""

# %%
# Eight years are generated: a rise with bends, high winters, and noise. The last two are held
# back.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    WhiteKernel,
)

from skpmd import SparseGPRegressorPMD

rng = np.random.default_rng(0)
X = pd.DataFrame({"years": np.arange(96) / 12.0})  # Since January 2018.
t = X.years
demand = (
    50.0 + 1.2 * t + 1.5 * np.sin(1.1 * t) + 0.8 * rng.standard_normal(96)
)
demand += 6.0 * np.cos(2.0 * np.pi * t) + 2.0 * np.cos(4.0 * np.pi * t)
is_past = t < 6.0

# %%
# The kernel says what is believed of the future: a season that repeats each year, a trend, bends
# about it, and noise. How strong each is, and how far bends reach, is learned; predictions
# average over several answers.

season = ConstantKernel() * ExpSineSquared(
    periodicity=1.0, periodicity_bounds="fixed"
)
bends = ConstantKernel() * RBF()
model = SparseGPRegressorPMD(
    season + DotProduct() + bends + WhiteKernel(), random_state=0
)
model.fit(X[is_past], demand[is_past])
distribution = model.predict_proba(X)
low, high = distribution.interval(0.9).T
print(f"December 2025: {low[-1]:.1f} to {high[-1]:.1f} GWh (90 % interval)")
print(
    "probability of more than 68 GWh there: "
    f"{distribution.sf(68.0)[-1]:.2f}"
)

# %%
# The most of a whole winter is no question about single months: draws have all months together.

winter = (t >= 6.75) & (t < 7.25)
most = model.sample_y(X[winter], n_samples=2000, random_state=0).max(axis=0)
low_most, high_most = np.quantile(most, [0.05, 0.95])
print(
    "highest month of winter 2024/25: "
    f"{low_most:.1f} to {high_most:.1f} GWh"
)
print(f"it was {demand[winter].max():.1f} GWh")

# %%
# The picture: the band is to hold nine of ten months.

year = 2018.0 + t
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.fill_between(year, low, high, alpha=0.3, linewidth=0, label="90 % band")
ax.plot(year, distribution.mean(), label="mean")
ax.plot(year[is_past], demand[is_past], "k.", label="known months")
ax.plot(
    year[~is_past],
    demand[~is_past],
    "o",
    color="C3",
    mfc="none",
    label="months held back",
)
ax.axvline(2024.0, ymax=0.87, color="k", linestyle="--", linewidth=1)
ax.set(xlabel="year", ylabel="demand (GWh in a month)", xlim=(2018, 2026))
ax.legend(frameon=False, ncols=4, loc="upper left")
ax.set_ylim(top=76)

# %%
# **How far to trust it.** Count the months that were held back. Beyond the data the kernel
# decides: without the trend the mean would return to the average of the past. ``check()`` has
# what the fit warned of, such as a kernel at a bound: here it is empty.

inside = (low <= demand) & (demand <= high)
print(
    f"{inside[~is_past].sum()} of {np.sum(~is_past)} months are in the band"
)
print(model.posterior_.check())

# %%
# **When to use something else.** Thousands of series, holidays and prices are for boosted trees
# on lags, or statsforecast; a trend that jumps is a :doc:`change point <plot_change_point>`.
# Kernels and their cost: :doc:`/user_guide/sparse_gp`.
