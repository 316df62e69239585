"""
A change point: when did it start?
==================================

.. index:: change point, changepoint, breakpoint, structural break, regime change, before and after
   single: step; in a time series

"Calls to our hotline have become more. When did that begin, and by how much have they grown?"
"""

# %%
# Two years of weekly calls are generated. From week 61 on there are 13 calls in place of 8.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit

from skpmd import ParticleMirrorDescent

weeks = pd.DataFrame({"week": np.arange(104.0)})
calls = np.random.default_rng(0).poisson(
    np.where(weeks.week < 61.0, 8.0, 13.0)
)

# %%
# Calls are Poisson counts around a rate, which goes from one value to another within some two
# weeks of the change. Before we see the calls, the change may be in any week. A sudden step is
# another line, and takes longer to fit, for its likelihood has jumps.

prior = {
    "before": stats.gamma(2, scale=5),
    "after": stats.gamma(2, scale=5),
    "change": stats.uniform(0, 104),
}


def counts(theta, X):
    before, after, change = (theta[name][:, None] for name in prior)
    return stats.poisson(
        before
        + (after - before) * expit(2 * (X["week"].to_numpy() - change))
    )


model = ParticleMirrorDescent(
    distribution=counts, prior=prior, random_state=0
).fit(weeks, calls)
posterior = model.posterior_
table = pd.DataFrame(posterior.summary(level=0.9)).set_index("name")
print(
    table[["mean", "lower", "upper"]]
    .assign(truth=[8.0, 13.0, 61.0])
    .round(1)
)
growth = posterior.derive(
    lambda theta: 100 * (theta["after"] / theta["before"] - 1)
)
print(
    "calls have grown by {:.0f} to {:.0f} % (90 % interval)".format(
        *growth.interval(0.9)
    )
)

# %%
# The picture: calls with the band of their rate, and when the change was.

figure, (top, bottom) = plt.subplots(
    2,
    1,
    figsize=(8, 5.5),
    sharex=True,
    layout="constrained",
    height_ratios=[2, 1],
)
band = model.predict_interval(weeks, level=0.9, target="mean")
top.fill_between(
    weeks.week, *band.T, alpha=0.4, linewidth=0, label="rate, 90 % band"
)
top.plot(weeks.week, calls, "k.", label="calls")
top.set(ylabel="calls in a week", ylim=(0, None))
top.legend(frameon=False, loc="upper left")
change = posterior["change"]
bottom.hist(change.draws, np.arange(105.0), weights=change.weights)
bottom.set(
    xlabel="week",
    ylabel="probability that the\nchange was then",
    xlim=(0, 104),
)

# %%
# **How far to trust it.** ``check()`` has no objection. The model has one change, and finds one
# in calls that have none: so a model without it is fitted, too. The difference of log evidences
# is the logarithm of how many times as probable a change makes these calls.


def steady(theta, X):
    return stats.poisson(theta["rate"][:, None])


without = ParticleMirrorDescent(
    distribution=steady,
    prior={"rate": stats.gamma(2, scale=5)},
    random_state=0,
).fit(weeks, calls)
print(
    "objections:",
    posterior.check(),
    f"effective draws: {posterior.ess:.0f}",
)
print(
    "difference of log evidences: "
    f"{model.log_evidence_ - without.log_evidence_:.1f}"
)

# %%
# **When to use something else.** An unknown number of changes in a long series is for ruptures or
# Prophet. A slow drift is a :doc:`forecast <plot_forecast>`. Models of your own:
# :doc:`/user_guide/custom`.
