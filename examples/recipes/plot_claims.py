"""
Counts with exposure: claims in a year
======================================

.. index:: exposure, offset, rate ratio, incidence rate, count data, overdispersion
   single: Poisson regression; with exposure
   single: negative binomial regression

"Policies were insured for different times. How many claims in a year does each kind have, and how
many times as many do sports cars have?"
"""

# %%
# The policies are generated. Young drivers and sports cars have more claims, and drivers who are
# alike in the table differ: their rates have a gamma distribution.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from skpmd import BayesianGLMRegressorPMD
from skpmd.effects import avg_comparisons
from skpmd.wrappers import predict_interval

rng = np.random.default_rng(0)
n = 2000
policies = pd.DataFrame(
    {
        "age": rng.integers(18, 81, n).astype(float),
        "car": rng.choice(["family", "sports"], n, p=[0.8, 0.2]),
        "years": rng.uniform(1 / 12, 2.0, n),
    }
)


def true_rate(rows):
    return (0.35 + 0.9 * np.exp((18.0 - rows.age) / 8.0)) * np.where(
        rows.car == "sports", 2, 1
    )


claims = rng.poisson(
    true_rate(policies) * policies.years * rng.gamma(1.2, 1 / 1.2, n)
)
print("policies with 0, 1, 2, ... claims:", *np.bincount(claims))

# %%
# ``exposure`` names the column of the time, which has no coefficient: counts are proportional to
# it. The transformers let it pass. A spline bends the rate with age.

columns = make_column_transformer(
    (SplineTransformer(4, include_bias=False), ["age"]),
    (OneHotEncoder(drop="first", sparse_output=False), ["car"]),
    ("passthrough", ["years"]),
    verbose_feature_names_out=False,
).set_output(transform="pandas")
glm = BayesianGLMRegressorPMD(
    "negative_binomial", exposure="years", random_state=0
)
model = make_pipeline(columns, glm).fit(policies, claims)
a_year = policies.assign(years=1.0)
ratio = avg_comparisons(model, a_year, "car", comparison="ratio")
low, high = ratio.interval(0.9)[0]
print(
    f"sports cars: {ratio.mean[0]:.2f} times the claims, "
    f"90 % interval {low:.2f} to {high:.2f}"
)
low, high = glm.posterior_["shape"].interval(0.9)
print(
    "shape of what drivers differ by: "
    f"{low:.1f} to {high:.1f}, and truly 1.2"
)

# %%
# The picture: rates with 90 % bands, and the true rates (dashed).

rows = pd.DataFrame({"age": np.arange(18.0, 81.0), "years": 1.0})
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for colour, car in (("C1", "sports"), ("C0", "family")):
    of_car = rows.assign(car=car)
    band = predict_interval(model, of_car, level=0.9, target="mean")
    ax.fill_between(rows.age, *band.T, color=colour, alpha=0.3, linewidth=0)
    ax.plot(
        rows.age, model.predict(of_car), color=colour, label=f"{car} cars"
    )
    ax.plot(rows.age, true_rate(of_car), color=colour, linestyle="--")
ax.set(
    xlabel="age of the driver (years)",
    ylabel="claims in a year",
    xlim=(18, 80),
    ylim=(0, None),
)
ax.legend(frameon=False)

# %%
# **How far to trust it.** ``check()`` has no objection, and the counts that it expects are those
# there are. A Poisson model would agree on rates, with intervals that are too narrow.

print(
    "objections:",
    glm.posterior_.check(),
    f"effective draws: {glm.posterior_.ess:.0f}",
)
many = model.predict_proba(policies).sf(3).sum()
print(
    "policies with more than three claims: "
    f"{many:.0f} expected, {np.sum(claims > 3)} seen"
)

# %%
# **When to use something else.** For rates alone, of very many policies, ``PoissonRegressor`` or
# boosted trees are quicker. All about exposure, families and scores: :doc:`/user_guide/linear`.
