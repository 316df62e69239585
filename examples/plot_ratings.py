"""
Ratings: classes that have an order
===================================

"good" is between "fair" and "excellent", but nobody knows how far from either. A regression of the
numbers 1 to 5 assumes equal steps, and a classifier forgets the order.
``BayesianOrdinalClassifierPMD`` learns where the steps are. You see how to give the order, what
coefficients and cutpoints mean, and probabilities of ratings with intervals.

The picture is saved as ``ratings.png`` in the working directory.
"""

# %%
# Guests and hotels
# -----------------
# The ratings are generated: what a guest feels is a number, of which only the step is written down.
# It rises with the size of the room and falls with the walk to the station. The price has no effect
# beyond these. "poor" is rare.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpmd import BayesianOrdinalClassifierPMD

steps = ["poor", "fair", "good", "excellent"]
rng = np.random.default_rng(0)
n = 400
size, walk = rng.uniform(10.0, 30.0, n), rng.uniform(1.0, 25.0, n)
hotels = pd.DataFrame({"size": size, "walk": walk, "price": 3.0 * size + rng.normal(40.0, 15.0, n)})
feeling = 0.15 * (size - 20.0) - 0.08 * (walk - 13.0) + rng.logistic(size=n)
ratings = np.array(steps)[np.digitize(feeling, [-3.0, -1.0, 1.5])]
print({step: int((ratings == step).sum()) for step in steps})

# %%
# A fit
# -----
# ``categories`` has the labels from the lowest to the highest. (Of a column of pandas with an
# ordered dtype they are known without it.) The probability of a step, or of one below it, is the
# logistic function of its cutpoint minus the linear predictor, so that a positive coefficient makes
# higher steps more probable.

model = BayesianOrdinalClassifierPMD(categories=steps, random_state=0).fit(hotels, ratings)
table = pd.DataFrame(model.posterior_.summary(level=0.9)).set_index("name")
print(table[["mean", "std", "lower", "upper"]].round(2))
for k, cutpoint in enumerate(model.cutpoints_):
    print(f"between {steps[k]} and {steps[k + 1]}: {cutpoint:.1f}")

# %%
# The cutpoints are not one unit apart: "good" covers more of what a guest may feel than "fair"
# does, and the two outer steps have no end. The exponential of a coefficient is a ratio of odds,
# the same for every step: it is the factor of the odds of a higher rating when the column rises by
# one.
#
# Probabilities with intervals
# ----------------------------
# ``predict_proba`` has a column for each step, in their order.

walks = np.linspace(1.0, 25.0, 49)
rows = pd.DataFrame({"size": 20.0, "walk": walks, "price": 100.0})
probability, interval = model.predict_proba(rows, return_interval=0.9)
figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
for k, step in enumerate(model.classes_):
    ax.fill_between(walks, interval[:, k, 0], interval[:, k, 1], alpha=0.3, linewidth=0)
    ax.plot(walks, probability[:, k], label=step)
ax.set(title="A room of 20 m², with 90 % bands", xlabel="walk (minutes)", ylabel="probability")
ax.set(xlim=(1, 25), ylim=(0, 0.75))
ax.legend(frameon=False, ncols=4, loc="upper center")
path = Path("ratings.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")

# %%
# What depends on the order is a sum of columns, such as the probability of "good" or better:

near = pd.DataFrame({"size": [12.0, 28.0], "walk": 5.0, "price": 100.0})
print("good or better:", model.predict_proba(near)[:, steps.index("good") :].sum(axis=1).round(2))
