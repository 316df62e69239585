"""
Mixtures: all modes, bands of a density, and a drift
====================================================

Three mixtures: the tied one of Dai et al. (2016), whose posterior has two modes; a density in one
dimension, with what is not known of it; and a stream whose clusters move.

The picture is saved as ``mixture.png`` in the working directory.
"""

# %%
# Two modes
# ---------
# Half of the rows are N(a, 2.5^2), half N(a + b, 2.5^2), drawn at a = 1, b = -2; the values a = -1,
# b = 2 explain them as well. A model of one's own, with a prior N(0, 1) on either, is a job for
# ``ParticleMirrorDescent``: the likelihood is all it needs. An optimiser would return one of the
# two modes.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from skpmd import GaussianMixturePMD, ParticleMirrorDescent


def log_likelihood(theta, X, y):
    one = norm.logpdf(X[:, 0], theta[:, :1], 2.5)
    other = norm.logpdf(X[:, 0], theta.sum(axis=1, keepdims=True), 2.5)
    return (np.logaddexp(one, other) - np.log(2)).sum(axis=1)


def log_prior(theta):
    return norm.logpdf(theta).sum(axis=1)


def sample_prior(rng, m):
    return rng.standard_normal((m, 2))


rng = np.random.default_rng(0)
X = rng.normal(np.where(rng.random(1000) < 0.5, 1.0, -1.0), 2.5)[:, None]
pmd = ParticleMirrorDescent(
    log_likelihood, log_prior, sample_prior, n_particles=1500, random_state=0
).fit(X)
theta, weights = pmd.posterior_.particles, pmd.posterior_.weights
print(f"posterior mass of the mode with a > 0: {weights @ (theta[:, 0] > 0):.2f}")

# %%
# What a density leaves open
# --------------------------
# Eighty-two values in one dimension, in the manner of the speeds of galaxies: a large group that
# may be two, and a small one on either side. Under ``strategy="parameters"`` every particle is a
# draw of all weights, means and standard deviations, and has a density of its own: a band holds
# 90 % of them at each point. The evidence compares numbers of components.

groups = ((9.7, 0.4, 7), (19.9, 0.7, 38), (22.9, 1.2, 34), (33.0, 0.9, 3))
speeds = np.concatenate([rng.normal(*group) for group in groups])[:, None]
grid = np.linspace(5.0, 40.0, 400)
mixtures = {}
for K in (2, 3, 4, 5):
    mixtures[K] = GaussianMixturePMD(
        K, strategy="parameters", n_particles=1000, weight_concentration_prior=1.0, random_state=0
    ).fit(speeds)
    print(f"{K} components: log evidence {mixtures[K].log_evidence_:.1f}")
best = max(mixtures, key=lambda K: mixtures[K].log_evidence_)
draws = mixtures[best].posterior_.particles[:, :, None]  # of equal weight
mixing, means, stds = np.split(draws, 3, axis=1)
densities = (mixing * norm.pdf(grid, means, stds)).sum(axis=1)
low, high = np.quantile(densities, [0.05, 0.95], axis=0)
predictive = np.exp(mixtures[best].score_samples(grid[:, None]))

# %%
# Clusters that move
# ------------------
# Two clusters in the plane; one of them moves to the right while rows arrive in parts. A stream
# that counts every row alike ends with a smear along the way. With ``forgetting`` a row counts less
# and less.


def part(number, n=200):
    moving = rng.random(n) < 0.5
    centre = np.where(moving[:, None], [0.3 * number - 3.0, 2.0], [0.0, -2.0])
    return centre + 0.5 * rng.standard_normal((n, 2))


streams = {
    forgetting: GaussianMixturePMD(
        2, strategy="conjugate", n_particles=4, forgetting=forgetting, random_state=0
    )
    for forgetting in (0.0, 0.005)
}
for number in range(21):
    rows = part(number)
    for stream in streams.values():
        stream.partial_fit(rows)
fresh = part(20)
for forgetting, stream in streams.items():
    print(f"forgetting {forgetting}: log density of new rows {stream.score(fresh):.2f}")

# %%
# The picture
# -----------
# Left: particles, darker where they weigh more, and the two pairs of values. Middle: predictive
# density and band. Right: the last rows, and what the two streams take for the clusters (two
# standard deviations).

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")

shade = np.clip(weights / np.quantile(weights, 0.95), 0.0, 1.0)
left.scatter(*theta.T, s=6, alpha=0.4 * shade)
left.plot([1, -1], [-2, 2], "k+", markersize=12)
left.set(title="Tied mixture: two modes", xlabel="a", ylabel="b", xlim=(-3, 3), ylim=(-4, 4))

middle.fill_between(grid, low, high, alpha=0.3)
middle.plot(grid, predictive)
middle.plot(speeds[:, 0], np.full(len(speeds), -0.005), "k|", alpha=0.4)
middle.set(title=f"{best} components: predictive density, 90 % band", xlabel="speed")

circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 80)), np.sin(np.linspace(0, 2 * np.pi, 80))])
right.plot(*fresh.T, ".", color="0.6", markersize=3)
for colour, (forgetting, stream) in zip(("C1", "C0"), streams.items(), strict=True):
    for k, (mean, covariance) in enumerate(zip(stream.means_, stream.covariances_, strict=True)):
        ellipse = mean[:, None] + 2 * np.linalg.cholesky(covariance) @ circle
        label = f"forgetting={forgetting}" if k == 0 else None
        right.plot(*ellipse, color=colour, label=label)
right.set(title="A cluster that moves to the right")
right.legend(frameon=False)

path = Path("mixture.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path}")
