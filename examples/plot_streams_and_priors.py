"""
Logistic regression: streams, sparse signals, ten classes
=========================================================

This example shows three things that one estimator can do. It learns from data that come in parts,
and ends where one fit on all rows ends. Under a horseshoe prior it finds the few columns that
matter among many that do not. And it predicts probabilities of ten classes, averaged over the
posterior, which we compare with the probabilities of ``LogisticRegression``.

The picture of the sparse signal is saved as ``streams_and_priors.png`` in the working directory.
"""

# %%
# Data in parts
# -------------
# Two thousand generated rows come in ten parts. Each call of ``partial_fit`` updates the posterior
# with one part; the first rows are retained only until the stream knows enough. At the end the
# posterior should agree with one fit on all rows. In the picture, lines are means, with a standard
# deviation to either side; dots at the end are the fit on all rows, and grey lines are the true
# coefficients.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD

rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 4))
slopes = np.array([1.5, -1.0, 0.5, 0.0])
y = (X @ slopes + rng.logistic(size=2000) > 0).astype(int)

stream = BayesianLogisticRegressionPMD(random_state=0)
rows_seen, means, stds = [], [], []
for part in np.array_split(np.arange(2000), 10):
    stream.partial_fit(X[part], y[part], classes=[0, 1])
    rows_seen.append(part[-1] + 1)
    means.append(stream.coef_[0])
    stds.append(stream.coef_std_[0])
means, stds = np.array(means), np.array(stds)

whole = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
gap = np.abs(stream.coef_ - whole.coef_).max() / whole.coef_std_.min()
print("errors of means, in posterior standard deviations")
print(f"  gap to the fit on all rows: at most {gap:.3f}")
print(
    f"  error by the stream itself: {stream.diagnostics_['mean_error']:.3f}"
)

plt.rcParams.update({"font.size": 14})
figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
for j in range(4):
    axes.fill_between(
        rows_seen,
        means[:, j] - stds[:, j],
        means[:, j] + stds[:, j],
        alpha=0.3,
        linewidth=0,
    )
    axes.plot(rows_seen, means[:, j])
    axes.errorbar(
        2080,
        whole.coef_[0, j],
        yerr=whole.coef_std_[0, j],
        fmt="o",
        color=f"C{j}",
    )
    axes.axhline(slopes[j], color="0.7", linewidth=1, zorder=0)
    above = slopes[j] > 0.0
    height, side = (
        slopes[j] + (0.03 if above else -0.1),
        "bottom" if above else "top",
    )
    axes.text(
        2000, height, f"column {j}", color=f"C{j}", ha="right", va=side
    )
axes.set(
    title="partial_fit in ten parts, and fit",
    xlabel="rows seen",
    ylabel="coefficient",
)

# %%
# A sparse signal
# ---------------
# Of thirty columns four matter, and there are 200 rows. A normal prior treats all columns alike.
# The horseshoe learns from the data how much to shrink all coefficients together and each one by
# itself: intervals of columns that do not matter shrink towards zero, and the others stay or get a
# little wider. The table has the mean width of the 90 % intervals of the 26 columns that do not
# matter, and the log score of leave-one-out, where higher is better.

X_sparse = rng.standard_normal((200, 30))
truth = np.zeros(30)
truth[:4] = [3.0, -2.0, 1.5, 1.0]
y_sparse = (X_sparse @ truth + rng.logistic(size=200) > 0).astype(int)


def loo(classifier):
    """Leave-one-out log score, by harmonic means over posterior draws."""
    table = classifier.pointwise_log_likelihood(
        X_sparse, y_sparse, n_draws=2000
    )
    return (np.log(len(table)) - logsumexp(-table, axis=0)).sum()


intervals = {}
print("prior       diagnostics           width   leave-one-out")
for prior in ("normal", "horseshoe"):
    classifier = BayesianLogisticRegressionPMD(prior=prior, random_state=0)
    classifier.fit(X_sparse, y_sparse)
    intervals[prior] = classifier.posterior_.interval(level=0.9)[:30]
    k, r_hat = (
        classifier.diagnostics_["pareto_k"],
        classifier.diagnostics_["r_hat"],
    )
    diagnostics = (
        f"Pareto k-hat {k:.2f}"
        if r_hat is None
        else f"split R-hat {r_hat:.3f}"
    )
    width = np.diff(intervals[prior][4:]).mean()
    print(
        f"{prior:<12}{diagnostics:<20}{width:7.2f}{loo(classifier):16.1f}"
    )

# %%
# The leave-one-out score needs no second fit: the draws of the posterior given all rows are
# reweighted by :math:`1 / p(y_n \mid x_n, \theta)`. Where a few draws carry most of the weight,
# ``skpmd.model_comparison.loo`` smooths the weights, and says which rows it cannot estimate well.
#
# The picture shows the 90 % intervals under the two priors, and the true coefficients.

# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
place = np.arange(30)
for shift, (prior, ends) in zip(
    (-0.2, 0.2), intervals.items(), strict=True
):
    axes.vlines(
        place + shift,
        *ends.T,
        color=f"C{int(shift > 0)}",
        linewidth=2.5,
        label=prior,
    )
axes.plot(place, truth, "k_", markersize=9, label="truth")
axes.set(
    title="4 of 30 columns matter",
    xlabel="column",
    ylabel="coefficient, 90 % interval",
)
axes.legend(frameon=False)
path = Path("streams_and_priors.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")

# %%
# Ten classes
# -----------
# The data are handwritten digits with ten principal components, and 400 rows to learn from. The
# model has 110 coefficients. Importance sampling fails for this posterior, so the particles move
# along its gradient (HMC); no parameter has to be set for this. ``LogisticRegression`` with C equal
# to the squared prior scale is the mode of the same posterior.

images, digits = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    images, digits, train_size=400, stratify=digits, random_state=0
)
scale = make_pipeline(PCA(10, random_state=0), StandardScaler()).fit(
    X_train
)
X_train, X_test = scale.transform(X_train), scale.transform(X_test)

print("log loss on the test rows")
print("prior scale   averaged   LogisticRegression")
probabilities = {}
for prior_scale in (1.0, 3.0):
    averaged = BayesianLogisticRegressionPMD(
        prior_scale=prior_scale, random_state=0
    )
    point = LogisticRegression(C=prior_scale**2, max_iter=1000)
    for name, candidate in (
        ("averaged", averaged),
        ("LogisticRegression", point),
    ):
        probabilities[name] = candidate.fit(X_train, y_train).predict_proba(
            X_test
        )
    losses = [log_loss(y_test, proba) for proba in probabilities.values()]
    print(f"{prior_scale:11g}   {losses[0]:8.3f}   {losses[1]:18.3f}")
print(f"inference method: {averaged.diagnostics_['method']}")

# %%
# At scale 1 the prior makes the probabilities of both models too cautious, and averaging adds to
# this: the point estimate has the lower loss. At scale 3 the two losses are level. Averaging also
# gives an interval for each probability (``predict_proba_interval``). The picture shows how often
# the most probable class is right, at scale 3; bars are two standard errors to either side.

figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
axes.plot([0.3, 1], [0.3, 1], color="0.7", linewidth=1)
for shift, (name, proba) in zip(
    (-0.004, 0.004), probabilities.items(), strict=True
):
    confidence, correct = proba.max(axis=1), proba.argmax(axis=1) == y_test
    bins = np.digitize(confidence, [0.5, 0.65, 0.8, 0.95])
    count = np.bincount(bins)
    x, share = (
        np.bincount(bins, values) / count
        for values in (confidence, correct)
    )
    error = 2 * np.sqrt(share * (1 - share) / count)
    axes.errorbar(x + shift, share, yerr=error, fmt="o", label=name)
axes.set(
    title="Digits: reliability", xlabel="probability of the predicted class"
)
axes.set_ylabel("share of correct predictions")
axes.legend(frameon=False)
