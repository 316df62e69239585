"""
Censored survival: how long do pumps last?
==========================================

.. index:: survival, survival analysis, censoring, censored data, Weibull, time to event
   single: reliability; of machines
   single: hazard; of failing
   single: churn; time until

"Most of my pumps still run. How long do pumps of either make last, and do old ones fail more
often than young ones?"
"""

# %%
# The pumps are generated. Each was built in at another time, and of those that run we know only
# that they have lasted until now: their lifetimes are censored.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

from skpmd import ParticleMirrorDescent

rng = np.random.default_rng(0)
pumps = pd.DataFrame({"make": rng.choice(["A", "B"], 200)})
scale = np.where(pumps.make == "A", 4.5, 7.0)
life = stats.weibull_min.rvs(1.8, scale=scale, random_state=rng)
age = rng.uniform(0.5, 6.0, 200)
pumps["failed"], years = life < age, np.minimum(life, age)
print(pumps.groupby("make").failed.agg(["size", "sum"]))

# %%
# A Weibull distribution has a hazard that rises with age where its shape is above 1. A pump that
# failed counts by the density of its lifetime, and one that runs by the probability of lasting
# longer: that is all that censoring asks for.

of_scale = stats.lognorm(1, scale=5)
prior = {
    "shape": stats.lognorm(0.7),
    "scale_A": of_scale,
    "scale_B": of_scale,
}


def lifetime(theta, X):
    shape, scale_a, scale_b = (theta[name][:, None] for name in prior)
    return stats.weibull_min(
        shape, scale=np.where(X["make"] == "A", scale_a, scale_b)
    )


def log_likelihood(theta, X, y):
    of_pump = lifetime(theta, X)
    return np.where(X["failed"], of_pump.logpdf(y), of_pump.logsf(y))


model = ParticleMirrorDescent(
    distribution=lifetime,
    log_likelihood_pointwise=log_likelihood,
    prior=prior,
    random_state=0,
).fit(pumps, years)
posterior = model.posterior_
table = pd.DataFrame(posterior.summary(level=0.9)).set_index("name")
print(
    table[["mean", "lower", "upper"]].assign(truth=[1.8, 4.5, 7.0]).round(2)
)

# %%
# Answers are functions of the parameters. That the shape is above 1 means that old pumps fail
# more often.

longer = posterior.derive(
    lambda theta: theta["scale_B"] / theta["scale_A"]
).interval(level=0.9)
low, high = longer
print(
    f"pumps of make B last {low:.1f} to {high:.1f} times as long "
    "(90 % interval)"
)
rising = posterior.expectation(lambda theta: theta["shape"] > 1.0)
print(f"the hazard rises with age with a probability of {rising:.3f}")

# %%
# The picture: the share of pumps that still run, with 90 % bands, and the truth (dashed).

grid = pd.DataFrame(
    {
        "make": np.repeat(["A", "B"], 101),
        "years": [*np.linspace(0, 10, 101)] * 2,
    }
)
runs = posterior.derive(lambda theta: lifetime(theta, grid).sf(grid.years))
grid = grid.assign(
    mean=runs.mean(),
    low=runs.interval(0.9)[:, 0],
    high=runs.interval(0.9)[:, 1],
)
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for (make, of_make), colour, scale in zip(
    grid.groupby("make"), "br", (4.5, 7.0), strict=True
):
    ax.fill_between(
        "years",
        "low",
        "high",
        data=of_make,
        color=colour,
        alpha=0.2,
        linewidth=0,
    )
    ax.plot(
        "years", "mean", data=of_make, color=colour, label=f"make {make}"
    )
    ax.plot(
        of_make.years,
        stats.weibull_min.sf(of_make.years, 1.8, scale=scale),
        f"{colour}--",
    )
ax.axvline(6.0, color="0.7", linewidth=1, label="oldest pump")
ax.set(
    xlabel="age (years)",
    ylabel="share that still runs",
    xlim=(0, 10),
    ylim=(0, 1),
)
ax.legend(frameon=False)

# %%
# **How far to trust it.** ``check()`` has no objection. Beyond the oldest pump the form of the
# Weibull distribution decides, which no diagnostic can judge. Pumps must not have been taken away
# because they were about to fail.

print(
    "objections:",
    posterior.check(),
    f"effective draws: {posterior.ess:.0f}",
)

# %%
# **When to use something else.** Without a form of the hazard there are Kaplan-Meier curves and
# Cox regression (lifelines, scikit-survival). Failures that recur are :doc:`counts with exposure
# <plot_claims>`. More models of your own: :doc:`/user_guide/custom`.
