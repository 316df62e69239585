"""
Claims of insurance policies: rates with intervals
==================================================

Policies are insured for different times, so that their numbers of claims are not comparable, but
their rates are. You learn here to tell ``BayesianGLMRegressorPMD`` which column is the exposure, to
decide between Poisson and negative binomial counts, and to show rates, ratios of rates and
predictions of single policies with intervals. The bend of a rate with age comes from splines.

The picture is saved as ``claims.png`` in the working directory.
"""

# %%
# Policies
# --------
# The policies are generated, so that the true rates are known. Young and old drivers have more
# claims, sports cars have twice as many, and drivers of equal age and car differ. A policy lasts
# between a month and two years.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from skpmd import BayesianGLMRegressorPMD
from skpmd.model_comparison import compare, loo


def true_rate(age, car):
    """Claims of a year."""
    bend = 0.35 + 0.9 * np.exp(-(age - 18.0) / 8.0) + 0.25 * np.exp((age - 80.0) / 15.0)
    return bend * np.where(car == "sports", 2.0, 1.0)


rng = np.random.default_rng(0)
n = 3000
policies = pd.DataFrame(
    {
        "age": rng.integers(18, 81, n).astype(float),
        "car": rng.choice(["family", "small", "sports"], n, p=[0.5, 0.4, 0.1]),
        "years": rng.uniform(1 / 12, 2.0, n),
    }
)
of_driver = rng.gamma(1.2, 1 / 1.2, n)  # What is not in the table, one on average.
claims = rng.poisson(true_rate(policies["age"], policies["car"]) * policies["years"] * of_driver)
numbers = pd.Series(claims).value_counts().sort_index()
print("policies with 0, 1, 2, ... claims:", *numbers)

# %%
# Two families
# ------------
# Transformers make splines of the age and indicators of the car, and pass ``years`` through. The
# estimator knows that this column is the exposure: it has no coefficient, and counts are
# proportional to it. Nothing is given to ``fit`` but the table and the counts.

columns = make_column_transformer(
    (SplineTransformer(n_knots=5, include_bias=False), ["age"]),
    (OneHotEncoder(drop="first", sparse_output=False), ["car"]),
    ("passthrough", ["years"]),
    verbose_feature_names_out=False,
).set_output(transform="pandas")
train, test, y_train, y_test = train_test_split(policies, claims, test_size=1000, random_state=0)
models = {
    family: make_pipeline(
        columns, BayesianGLMRegressorPMD(family, exposure="years", random_state=0)
    ).fit(train, y_train)
    for family in ("poisson", "negative_binomial")
}
scores = {
    family: loo(model[-1], model[:-1].transform(train), y_train) for family, model in models.items()
}
print(pd.DataFrame(compare(scores)).set_index("name")[["elpd", "difference", "difference_se"]])
shape = models["negative_binomial"][-1].posterior_.names.index("shape")
low, high = models["negative_binomial"][-1].posterior_.interval(level=0.9)[shape]
print(f"shape, 90 % interval: {low:.1f} to {high:.1f}; it is 1.2")

# %%
# Drivers differ, and Poisson counts deny it. The difference of the two leave-one-out scores is
# several of its standard errors. Both families agree on the rates themselves, but the intervals of
# the Poisson model are too narrow, for it takes each claim as a piece of information of its own.
#
# A ratio of rates is the exponential of a coefficient:

for family, model in models.items():
    posterior = model[-1].posterior_
    low, high = np.exp(posterior.interval(level=0.9)[posterior.names.index("b[car_sports]")])
    print(f"{family}: sports cars have {low:.2f} to {high:.2f} times the claims of family cars")

# %%
# Rates with intervals
# --------------------
# ``predict_interval`` with ``target="mean"`` has intervals of expected claims, here in a year. The
# dashed lines are the true rates.

ages = np.arange(18.0, 81.0)
figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
model = models["negative_binomial"]
for colour, car in (("C0", "family"), ("C1", "sports")):
    rows = pd.DataFrame({"age": ages, "car": car, "years": 1.0})
    low, high = model[-1].predict_interval(model[:-1].transform(rows), target="mean").T
    ax.fill_between(ages, low, high, color=colour, alpha=0.3, linewidth=0)
    ax.plot(ages, model.predict(rows), color=colour, label=f"{car} cars")
    ax.plot(ages, true_rate(ages, np.array(car)), color=colour, linestyle="--")
ax.set(title="Rates with 90 % intervals", xlabel="age", ylabel="claims in a year")
ax.set(xlim=(18, 80), ylim=(0, None))
ax.legend(frameon=False)
path = Path("claims.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")

# %%
# A single policy
# ---------------
# The number of claims of one policy is another question. Its distribution has the rate's
# uncertainty and the scatter of counts, and its quantiles are whole numbers. On policies that the
# fit has not seen we look at what matters to an insurer: policies with many claims.

new = pd.DataFrame({"age": [20.0, 45.0], "car": ["sports", "family"], "years": [1.0, 0.5]})
for family, model in models.items():
    print(family)
    print("    probability of no claim:", model.predict_proba(new).pmf(0).round(2))
    print("    claims, 95 % quantile:", model.predict_proba(new).ppf(0.95))
    expected, seen = model.predict_proba(test).sf(3).sum(), (y_test > 3).sum()
    print(f"    policies with four claims or more: {expected:.0f} expected, {seen} seen")

# %%
# Of policies with many claims, which decide on the reserves, the Poisson model expects a third of
# those that there are.
