"""
Ordered ratings: what makes guests content?
===========================================

.. index:: Likert scale, rating, ordinal regression, ordered logit, proportional odds, survey

"Guests rate hotels as poor, fair, good or excellent. What moves the ratings, and how probable is
each of them for a given room?"
"""

# %%
# The ratings are generated: what a guest feels is a number, of which only the step is written
# down. It rises with the size of the room and falls with the walk to the station. The price has
# no effect.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpmd import BayesianOrdinalClassifierPMD
from skpmd.effects import avg_comparisons

steps = ["poor", "fair", "good", "excellent"]
rng = np.random.default_rng(0)
hotels = pd.DataFrame(
    {
        "size": rng.uniform(10.0, 30.0, 400),
        "walk": rng.uniform(1.0, 25.0, 400),
    }
)
hotels["price"] = 3.0 * hotels["size"] + rng.normal(40.0, 15.0, 400)
feeling = (
    0.15 * (hotels["size"] - 20.0)
    - 0.08 * (hotels.walk - 13.0)
    + rng.logistic(size=400)
)
rating = pd.cut(feeling, [-np.inf, -3.0, -1.0, 1.5, np.inf], labels=steps)
print(rating.value_counts(sort=False).to_dict())

# %%
# The order is that of the labels of the column; for an array of words ``categories=steps`` gives
# it. The exponential of a coefficient is the factor of the odds of a higher rating, whichever it
# is, when the column rises by one.

model = BayesianOrdinalClassifierPMD(random_state=0).fit(hotels, rating)
for name in hotels:
    low, high = np.exp(model.posterior_[name].interval(0.9))
    print(
        f"odds of a higher rating, {name:<5} + 1: "
        f"factor {low:.2f} to {high:.2f}"
    )
longer = avg_comparisons(model, hotels, {"walk": 10.0})
for step, (low, high) in zip(
    steps, 100.0 * longer.interval(0.9), strict=True
):
    print(
        f"ten minutes more to walk, of 100 guests rate it {step}: "
        f"{low:+.0f} to {high:+.0f}"
    )

# %%
# The picture: the probability of each rating along one column, with 90 % bands.

rows = pd.DataFrame(
    {"size": 20.0, "walk": np.linspace(1.0, 25.0, 49), "price": 100.0}
)
probability, interval = model.predict_proba(rows, return_interval=0.9)
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for k, step in enumerate(model.classes_):
    ax.fill_between(rows.walk, *interval[:, k].T, alpha=0.3, linewidth=0)
    ax.plot(rows.walk, probability[:, k], label=step)
ax.set(
    title="A room of 20 m²",
    xlabel="walk to the station (minutes)",
    ylabel="probability",
)
ax.set(xlim=(1, 25), ylim=(0, 0.75))
ax.legend(frameon=False, ncols=4, loc="upper center")

# %%
# **How far to trust it.** ``check()`` has no objection. That one factor holds for all steps is an
# assumption; a :class:`~skpmd.BayesianLogisticRegressionPMD` of the same rows has none, and
# :func:`skpmd.model_comparison.loo` says which of the two predicts better.

print(
    "objections:",
    model.posterior_.check(),
    f"effective draws: {model.posterior_.ess:.0f}",
)

# %%
# **When to use something else.** Columns that move some steps only ask for multinomial
# regression. Several ratings by one guest are :doc:`groups </user_guide/groups>`. More:
# :doc:`/user_guide/linear`.
