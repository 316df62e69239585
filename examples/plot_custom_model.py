"""
A model of your own, and a check of it
======================================

How many sit-ups does a man do, given his waist? The data are twenty men of a fitness club. A
distribution of SciPy and a prior make a model of counts, which ``ParticleMirrorDescent`` fits from
values of the likelihood alone. A posterior predictive check shows that the first model is wrong:
its counts vary too little. We then change the distribution, and the second model gives intervals,
predictions and the probability of an event.
"""

# %%
# Data
# ----
# Linnerud's data come with scikit-learn. The waist is in inches.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats
from sklearn.datasets import load_linnerud

from skpmd import ParticleMirrorDescent
from skpmd.plot import PosteriorPredictiveCheckDisplay

data = load_linnerud(as_frame=True)
waist, situps = data.target[["Waist"]], data.data["Situps"]
print(
    f"{len(situps)} men, {situps.min():.0f} to {situps.max():.0f} sit-ups"
)

# %%
# A first model
# -------------
# The textbook model of counts is a Poisson distribution. Its mean :math:`\mu` depends on the waist
# by :math:`\log \mu = a + b\,(\text{waist} - 35)`. The function gets many values of each
# parameter at once, and the data frame. The mean has a row for each particle and a column for each
# man.


def mean(theta, X):
    a, b = theta["a"][:, None], theta["b"][:, None]
    return np.exp(a + b * (X["Waist"].to_numpy() - 35.0))


def poisson_counts(theta, X):
    return stats.poisson(mean(theta, X))


# %%
# The prior is a dict of SciPy distributions. We expect about a hundred sit-ups at 35 inches, give
# or take a factor of three, and a change by up to a factor of two or so for each inch.

prior = {"a": stats.norm(np.log(100.0), 1.0), "b": stats.norm(0.0, 0.5)}
poisson = ParticleMirrorDescent(
    distribution=poisson_counts, prior=prior, random_state=0
)
poisson.fit(waist, situps)

# %%
# A second model
# --------------
# The negative binomial distribution has a further parameter :math:`r`, and the variance
# :math:`\mu + \mu^2 / r`. The prior gets one more entry.


def overdispersed_counts(theta, X):
    mu, r = mean(theta, X), theta["r"][:, None]
    return stats.nbinom(r, r / (r + mu))


negative_binomial = ParticleMirrorDescent(
    distribution=overdispersed_counts,
    prior=prior | {"r": stats.halfnorm(scale=10.0)},
    random_state=0,
).fit(waist, situps)
models = {"Poisson": poisson, "negative binomial": negative_binomial}

# %%
# Which model explains the data?
# ------------------------------
# A posterior predictive check draws data sets of twenty men from a fitted model. If the model is
# right, the observed data set looks like the drawn ones. We compare their standard deviations.

plt.rcParams.update({"font.size": 14})
figure, axes = plt.subplots(
    2, 1, figsize=(7, 7), layout="constrained", sharex=True
)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    check = PosteriorPredictiveCheckDisplay.from_estimator(
        model,
        waist,
        situps,
        statistic="std",
        n_draws=1000,
        name="std of sit-ups",
        ax=ax,
    )
    ax.set_title(f"{name} model", pad=48)
    ax.label_outer()
    low, high = model.predict_interval(waist, level=0.9).T
    n_inside = np.sum((low <= situps) & (situps <= high))
    print(name)
    print(
        "    share of drawn data sets with a larger standard deviation: "
        f"{check.p_value:.3f}"
    )
    print(
        f"    men inside their 90 % intervals: {n_inside} of {len(situps)}"
    )
    print(f"    log evidence: {model.log_evidence_:.1f}")

# %%
# Men of the same waist differ by far more than Poisson counts do. None of the data sets drawn from
# the Poisson model varies as much as the observed one, and most men are outside their intervals.
# These checks do not speak against the second model. The log evidence, which compares the two
# models without drawing anything, agrees.
#
# No ``ConvergenceWarning`` came with the wrong model, and none should: the fit found its posterior.
# Diagnostics judge the computation, and checks judge the model.
#
# What the wrong model costs
# --------------------------
# The posterior of the wrong model is too sure of everything. ``predict_interval`` returns intervals
# of a new count, and with ``target="mean"`` intervals of the mean. Draws give the probability of
# any event. Below, ``b`` is shown as the factor by which the mean changes with each inch.

new = pd.DataFrame({"Waist": [38.0]})
for name, model in models.items():
    factor = np.exp(model.posterior_["b"].interval(level=0.9))
    mean_count = model.predict_interval(new, level=0.9, target="mean")[0]
    count, interval = model.predict(new, return_interval=0.9)
    hundred = np.mean(model.sample_y(new, n_samples=4000) >= 100)
    print(f"{name}, 90 % intervals")
    print(f"    factor for each inch: {factor[0]:.2f} to {factor[1]:.2f}")
    print(
        f"    mean at 38 inches: {mean_count[0]:.0f} to {mean_count[1]:.0f}"
    )
    print(
        "    a man of 38 inches: "
        f"{interval[0, 0]:.0f} to {interval[0, 1]:.0f}"
    )
    print(f"    probability that he does a hundred or more: {hundred:.2f}")

# %%
# The picture
# -----------
# The picture shows 90 % intervals of a new man's sit-ups under either model, and the twenty men. A
# darker point stands for two men with the same numbers.

grid = pd.DataFrame({"Waist": np.linspace(30.0, 47.0, 69)})
with plt.rc_context({"font.size": 15}):
    figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
    for colour, alpha, name in (
        ("C0", 0.4, "negative binomial"),
        ("C1", 0.8, "Poisson"),
    ):
        low, high = models[name].predict_interval(grid, level=0.9).T
        ax.fill_between(
            grid["Waist"],
            low,
            high,
            color=colour,
            alpha=alpha,
            linewidth=0,
            label=name,
        )
    ax.plot(
        waist["Waist"],
        situps,
        "ko",
        markersize=9,
        markeredgewidth=0,
        alpha=0.6,
        label="observed",
    )
    ax.set(
        title="90 % intervals of a new count",
        xlabel="waist (inches)",
        ylabel="sit-ups",
    )
    ax.set(xlim=(30, 47), ylim=(0, None))
    ax.legend(frameon=False)

# sphinx_gallery_thumbnail_number = 2
