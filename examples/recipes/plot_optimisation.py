"""
An optimisation loop: the best oven with few trials
===================================================

.. index:: Bayesian optimisation, Bayesian optimization, expected improvement
   single: acquisition function
   single: black-box optimisation
   single: design of experiments; few trials

"A trial of the oven takes a day. At which temperature is the yield highest, if I have twelve
days?"
"""

# %%
# The oven is a function with noise, which the loop sees by its trials alone. It has two humps,
# and the first four trials miss the higher one.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpmd import SparseGPRegressorPMD
from skpmd.effects import predictions

rng = np.random.default_rng(0)


def true_yield(celsius):
    humps = 25.0 * np.exp(-(((celsius - 172.0) / 12.0) ** 2))
    return 40.0 + humps + 15.0 * np.exp(-(((celsius - 125.0) / 15.0) ** 2))


def trial(celsius):
    return true_yield(celsius) + 0.5 * rng.standard_normal(
        np.shape(celsius)
    )


grid = pd.DataFrame({"celsius": np.arange(100.0, 201.0)})
X = pd.DataFrame({"celsius": [105.0, 140.0, 155.0, 195.0]})
percent = trial(X.celsius.to_numpy())

# %%
# After each trial a Gaussian process is fitted. Draws of its function say by how much a
# temperature is expected to exceed the best one so far, with zero where it is below: the expected
# improvement. The next trial is where it is largest.

for day in range(5, 13):
    gp = SparseGPRegressorPMD(random_state=0).fit(X, percent)
    function = predictions(gp, grid)
    gain = np.maximum(function.draws - gp.predict(X).max(), 0.0)
    improvement = function.weights @ gain
    there = grid.celsius[improvement.argmax()]
    X.loc[len(X)] = there
    percent = np.append(percent, trial(there))
    print(
        f"day {day}: {there:.0f} °C, {percent[-1]:.1f} %, "
        f"promised {improvement.max():.2f} more"
    )

# %%
# Each draw of the function has a highest place of its own, so that the best temperature has a
# distribution, and so has the yield there.

gp = SparseGPRegressorPMD(random_state=0).fit(X, percent)
function = predictions(gp, grid)
best = grid.celsius.to_numpy()[function.draws.argmax(axis=1)]
ends = [0.05, 0.95]
print(
    "best temperature: {:.0f} to {:.0f} °C, truly 172 °C".format(
        *np.quantile(best, ends)
    )
)
highest = np.quantile(function.draws.max(axis=1), ends)
print(
    "yield there: {:.1f} to {:.1f} %".format(*highest),
    f"truly {true_yield(172.0):.1f} %",
)

# %%
# The picture: trials by their day, and the band of the function after the last one.

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.fill_between(
    grid.celsius,
    *function.interval(0.9).T,
    alpha=0.3,
    linewidth=0,
    label="90 % band",
)
ax.plot(grid.celsius, function.mean, label="mean")
ax.plot(
    grid.celsius,
    true_yield(grid.celsius),
    "k--",
    linewidth=1,
    label="truth",
)
ax.plot(X.celsius, percent, "ko", markersize=4, label="trials, by day")
for day, (x, y) in enumerate(zip(X.celsius, percent, strict=True), start=1):
    ax.annotate(day, (x, y), xytext=(4, 4), textcoords="offset points")
ax.set(xlabel="temperature (°C)", ylabel="yield (%)", xlim=(100, 200))
ax.legend(frameon=False, loc="upper left")

# %%
# **How far to trust it.** The band has the truth where trials are, and with so few of them the
# kernel decides between them: a peak that is narrower than gaps of trials is missed without a
# sign. The loop may end when little is promised.

# %%
# **When to use something else.** Trials that take seconds need no such care: try a grid. Many
# settings, constraints or several ovens at once are for BoTorch or Optuna. The process:
# :doc:`/user_guide/sparse_gp`.
