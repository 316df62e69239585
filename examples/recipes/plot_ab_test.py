"""
A/B test: is the new page better, and by how much?
==================================================

.. index:: A/B test, AB test, split test, conversion rate, lift, uplift, two proportions
   single: experiment; which variant wins

"Of those who saw the new page more have bought. Is it better, by how much, and what do we lose if
we switch and are wrong?"
"""

# %%
# The table is what a shop counts: visitors and purchases by page and device, where phones buy
# less and have seen the new page more often.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpmd import BayesianGLMRegressorPMD
from skpmd.effects import avg_comparisons, avg_predictions

shop = pd.DataFrame(
    {
        "page": ["old", "old", "new", "new"],
        "device": ["desktop", "phone", "desktop", "phone"],
        "visitors": [2400, 1600, 1500, 2500],
        "purchases": [124, 41, 92, 85],
    }
)
print(shop)

# %%
# Purchases are successes of ``visitors`` trials. Both pages are compared among the same visitors,
# whose devices are those of all: with ``visitors=1`` a prediction is the probability of one
# visitor.

X = pd.DataFrame(
    {
        "new": shop.page == "new",
        "phone": shop.device == "phone",
        "visitors": shop.visitors,
    }
).astype(float)
model = BayesianGLMRegressorPMD(
    "binomial", trials="visitors", random_state=0
)
model.fit(X, shop.purchases)
one, share = X.assign(visitors=1.0), shop.visitors
gain = avg_comparisons(model, one, "new", sample_weight=share)
lift = avg_comparisons(
    model, one, "new", sample_weight=share, comparison="ratio"
)
table = pd.DataFrame(
    gain.summary(0.9) | {"contrast": ["new - old"]},
    index=["purchases a visitor"],
)
print(table.drop(columns="term").round(4).T)

# %%
# The answer in words, for a visitor of the shop. The expected loss is the average over what is
# still possible, with zero where the new page is better.

low, high = 100.0 * lift.interval(0.9)[0] - 100.0
loss = gain.weights @ np.maximum(-gain.draws[:, 0], 0.0)
print(
    "the new page is better with a probability of "
    f"{gain.summary()['p_positive'][0]:.3f}"
)
print(f"purchases change by {low:+.0f} % to {high:+.0f} % (90 % interval)")
print(
    "expected loss by switching: "
    f"{10_000 * loss:.2f} purchases in 10,000 visitors"
)

# %%
# The picture: what is known of either conversion rate, and of their difference.

both = {
    page: avg_predictions(
        model, one.assign(new=new), sample_weight=share
    ).draws[:, 0]
    for page, new in (("old page", 0.0), ("new page", 1.0))
}
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for name, draws in both.items():
    axes[0].hist(
        100.0 * draws, 20, weights=gain.weights, alpha=0.6, label=name
    )
axes[1].hist(
    100.0 * gain.draws[:, 0],
    20,
    weights=gain.weights,
    color="C2",
    alpha=0.6,
)
axes[1].axvline(0.0, color="k", linestyle="--", linewidth=1)
axes[0].set(
    title="Either page", xlabel="purchases of 100 visitors", yticks=[]
)
axes[1].set(
    title="Difference, new minus old",
    xlabel="purchases of 100 visitors",
    yticks=[],
)
axes[0].legend(frameon=False)

# %%
# **How far to trust it.** ``check()`` has no objection. Visitors must have been sent to a page by
# chance, and their number fixed before: whoever looks each day, and stops on the first one of a
# high probability, switches too often.

print(
    "objections:",
    model.posterior_.check(),
    f"effective draws: {model.posterior_.ess:.0f}",
)

# %%
# **When to use something else.** With two pages and no other column two beta distributions are
# the exact answer. Several shops or days with rates of their own are :doc:`groups
# </user_guide/groups>`; whether to stop is a :doc:`decision </user_guide/decisions>`.
