"""
Yesterday's posterior as today's prior
======================================

Rows that come later do not require a new fit of all rows. Give the posterior of the first fit as
the ``prior`` of the second, and the second ends where one fit of all rows would have ended. This
example does so in three parts, with and without the rows of the earlier parts, and compares means,
intervals and the evidence with the fit of all rows. It also shows where this works less well.
"""

# %%
# Three parts of one table
# ------------------------
# The rows of the breast cancer data come in three parts, in a random order. Columns must mean the
# same in all parts, so one ``StandardScaler`` is fitted to the first part and then frozen. A scaler
# that is fitted to each part anew would change the units of the coefficients, and a prior in other
# units is wrong.

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import gaussian_kde, norm
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD

table, y = load_breast_cancer(return_X_y=True, as_frame=True)
order = np.random.default_rng(0).permutation(len(y))
table, y = table.iloc[order], y.iloc[order]
parts = np.split(np.arange(len(y)), [100, 250])
scaler = (
    StandardScaler()
    .set_output(transform="pandas")
    .fit(table.iloc[parts[0]])
)
everything = FrozenEstimator(scaler).transform(table)
columns = ["mean radius", "mean texture", "mean smoothness"]
X = everything[columns]

# %%
# A chain of fits
# ---------------
# The first fit starts from the default prior, a normal distribution for each coefficient. Each
# later fit gets its own rows and the posterior of the fit before it. A posterior holds the rows of
# its fit and passes them on, as long as they take no more memory than its particles.
# ``posterior_.rows = None`` leaves the rows out, for example because others must not see them. A
# density that is fitted to the particles then takes their place.


def chained(parts, with_rows):
    """Fits of one part after the other, the last posterior as the prior."""
    fits, prior = [], "normal"
    for rows in parts:
        model = BayesianLogisticRegressionPMD(prior=prior, random_state=0)
        fits.append(model.fit(X.iloc[rows], y.iloc[rows]))
        prior = model.posterior_
        if not with_rows:
            prior.rows = None
    return fits


def largest_gap(one, other):
    """Largest difference of means, in posterior standard deviations."""
    return (np.abs(one.coef_ - other.coef_) / other.coef_std_).max()


# The scaler has made the units of the prior: ``scale=None`` leaves them.
whole = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X, y)
chain = chained(parts, with_rows=False)
for name, fits in (
    ("with rows", chained(parts, with_rows=True)),
    ("without rows", chain),
):
    print(
        f"{name}: largest gap {largest_gap(fits[-1], whole):.3f} "
        "standard deviations"
    )
    print(
        "  log evidence, sum of the parts: "
        f"{sum(one.log_evidence_ for one in fits):.2f}"
    )
print(f"log evidence, all rows: {whole.log_evidence_:.2f}")

# %%
# With the rows, the last fit of the chain is the same as the fit of all rows, up to rounding.
# Without the rows, means agree within a small part of a posterior standard deviation, and the
# widths of 90 % intervals agree within a few per cent. By the chain rule the log evidences of the
# three parts add up to the log evidence of all rows.

last = chain[-1]
ratio = np.diff(last.posterior_.interval(0.9)) / np.diff(
    whole.posterior_.interval(0.9)
)
print(
    "widths of intervals, "
    f"ratio:          {ratio.min():.3f} to {ratio.max():.3f}"
)
shift = np.abs(last.predict_proba(X) - whole.predict_proba(X)).max()
print(f"largest gap of a probability:        {shift:.4f}")

# %%
# ``prior_pareto_k`` says how well the density stands for the earlier posterior: below 0.7 its tails
# are wide enough for averages over its draws.

k_hats = [one.diagnostics_["prior_pareto_k"] for one in chain[1:]]
print(
    "Pareto k-hat of the earlier posterior:",
    ", ".join(f"{k:.2f}" for k in k_hats),
)

# %%
# Without rows, where the early rows are of another kind
# ------------------------------------------------------
# The rows of the original table are not in a random order: the first ones are mostly of malignant
# tumours. Their posterior is far from the posterior of all rows, and there the density of its
# particles is hardly known. The result is a large gap, and a warning. After several small steps of
# this kind the means may be wrong without a warning: pass the rows on, or give parts that are
# alike, and a large part first.

own = np.argsort(order)
early, late = own[:60], own[60:]
print(f"share of benign tumours, early: {y.iloc[early].mean():.2f}")
print(f"share of benign tumours, late:  {y.iloc[late].mean():.2f}")


def second_without_rows(first, X, y):
    """Fit with a posterior's density as the prior, and its warnings."""
    first.posterior_.rows = None
    second = BayesianLogisticRegressionPMD(
        prior=first.posterior_, random_state=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        second.fit(X, y)
    return second, [str(one.message) for one in caught]


first = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(
    X.iloc[early], y.iloc[early]
)
second, messages = second_without_rows(first, X.iloc[late], y.iloc[late])
print(f"largest gap: {largest_gap(second, whole):.3f} standard deviations")
for message in messages:
    print(textwrap.fill(message, 70))

# %%
# Without rows, and with many coefficients
# ----------------------------------------
# With all thirty columns the density is a rough approximation of the posterior, and a warning says
# so where it is too rough. Where there are many rows, and more than a dozen coefficients,
# posteriors hold a summary of the rows.

early, late = slice(0, 200), slice(200, None)
first = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(
    everything[early], y[early]
)
joint = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(
    everything, y
)
second, messages = second_without_rows(first, everything[late], y[late])
print(f"largest gap: {largest_gap(second, joint):.3f} standard deviations")
for message in messages:
    print(textwrap.fill(message, 70))

# %%
# The picture
# -----------
# Left: densities of the coefficient of texture, for the prior, after each part, and for the fit of
# all rows, whose curve lies on the curve of the last fit of the chain. Right: 90 % intervals of all
# coefficients.

plt.rcParams.update({"font.size": 13})
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 4.4), layout="constrained"
)

grid = np.linspace(-3.0, 2.5, 400)
left.plot(grid, norm.pdf(grid), color="0.7", linewidth=2, label="prior")
seen = 0
for rows, one, colour in zip(
    parts, chain, ("#9ecae1", "#4292c6", "#08519c"), strict=True
):
    texture, seen = (
        one.posterior_.names.index("mean texture"),
        seen + len(rows),
    )
    density = gaussian_kde(
        one.posterior_.particles[:, texture], weights=one.posterior_.weights
    )
    left.fill_between(
        grid, density(grid), color=colour, alpha=0.3, linewidth=0
    )
    left.plot(
        grid,
        density(grid),
        color=colour,
        linewidth=2,
        label=f"after {seen} rows",
    )
density = gaussian_kde(
    whole.posterior_.particles[:, texture], weights=whole.posterior_.weights
)
left.plot(grid, density(grid), "C1--", linewidth=2, label="one fit of all")
left.set(
    title="Posterior becomes prior",
    xlabel="coefficient of texture",
    ylabel="density",
)
left.set(xlim=(-3, 2.5), ylim=(0, None), yticks=[])
left.legend(frameon=False, loc="upper right", handlelength=1.2)

names = [name.removeprefix("mean ") for name in whole.posterior_.names]
place = np.arange(len(names))
fits = (
    (chain[0], "#9ecae1", "first part"),
    (last, "#08519c", "chain of three"),
    (whole, "C1", "one fit of all"),
)
for shift, (one, colour, label) in zip(
    (0.25, 0.0, -0.25), fits, strict=True
):
    low, high = one.posterior_.interval(0.9).T
    right.hlines(
        place + shift, low, high, color=colour, linewidth=4, label=label
    )
    right.plot(
        one.posterior_.mean(),
        place + shift,
        "o",
        color=colour,
        markersize=8,
    )
right.axvline(0.0, color="0.8", zorder=0)
right.set(
    yticks=place,
    yticklabels=names,
    title="90 % intervals",
    xlabel="coefficient",
)
right.set_ylim(-0.5, len(names) + 0.9)
right.legend(frameon=False, loc="upper left")
plt.show()
