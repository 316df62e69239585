"""
Mixtures: two modes, a density with its band, clusters that move
================================================================

The posterior of a mixture says more than one set of parameters does. The first example is the tied
mixture of Dai et al. (2016): its posterior has two modes, and both are found. The second is a
density in one dimension, with a band that shows how well the density is known, and with what the
evidence says about the number of components. In the third a cluster moves while rows arrive in
parts, and ``half_life`` lets the mixture follow it.

The picture of the density is saved as ``mixture.png`` in the working directory.
"""

# %%
# Two modes
# ---------
# Half of the rows are drawn from :math:`N(a, 2.5^2)` and half from :math:`N(a + b, 2.5^2)`, with
# :math:`a = 1` and :math:`b = -2`; the values :math:`a = -1` and :math:`b = 2` explain the rows
# equally well. The prior of :math:`a` and of :math:`b` is :math:`N(0, 1)`. Such a model of your own
# is fitted by ``ParticleMirrorDescent``, which needs values of the likelihood and of the prior. An
# optimiser would return one of the two modes. In the picture particles with larger weights are
# darker, and crosses are the two pairs of values.

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
    log_likelihood,
    log_prior,
    sample_prior,
    n_particles=1500,
    random_state=0,
).fit(X)
theta, weights = pmd.posterior_.particles, pmd.posterior_.weights
print(
    "posterior mass of the mode with a > 0: "
    f"{weights @ (theta[:, 0] > 0):.2f}"
)

plt.rcParams.update({"font.size": 14})
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
shade = np.clip(weights / np.quantile(weights, 0.95), 0.0, 1.0)
axes.scatter(*theta.T, s=6, alpha=0.4 * shade)
axes.plot([1, -1], [-2, 2], "k+", markersize=12)
axes.set(
    title="Tied mixture: two modes",
    xlabel="a",
    ylabel="b",
    xlim=(-3, 3),
    ylim=(-4, 4),
)

# %%
# A density and its uncertainty
# -----------------------------
# The data are eighty-two values in one dimension that resemble the speeds of galaxies: a large
# group that may be two groups, and a small group on either side. With ``strategy="parameters"``
# every particle is a draw of all weights, means and standard deviations, and has a density of its
# own. The evidence compares numbers of components.

groups = ((9.7, 0.4, 7), (19.9, 0.7, 38), (22.9, 1.2, 34), (33.0, 0.9, 3))
speeds = np.concatenate([rng.normal(*group) for group in groups])[:, None]
grid = np.linspace(5.0, 40.0, 400)
mixtures = {}
for K in (2, 3, 4, 5, 6):
    mixtures[K] = GaussianMixturePMD(
        K,
        strategy="parameters",
        n_particles=1000,
        weight_concentration_prior=1.0,
        random_state=0,
    ).fit(speeds)
    error = mixtures[K].posterior_.log_evidence_se
    print(
        f"{K} components: "
        f"log evidence {mixtures[K].log_evidence_:.1f} ± {error:.1f}"
    )

# %%
# Two and three components are too few. Between four, five and six the evidence does not decide:
# each further component adds about half a nat. A component that is not needed costs little, because
# its weight can be small. The picture shows the density with four components. The band holds 90 %
# of the densities of particles at each point, the line is their average, and the ticks below are
# the eighty-two values.

shown = mixtures[4]
draws = shown.posterior_.particles[:, :, None]  # of equal weight
mixing, means, stds = np.split(draws, 3, axis=1)
densities = (mixing * norm.pdf(grid, means, stds)).sum(axis=1)
low, high = np.quantile(densities, [0.05, 0.95], axis=0)
predictive = np.exp(shown.score_samples(grid[:, None]))

# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
axes.fill_between(grid, low, high, alpha=0.3, label="90 % band")
axes.plot(grid, predictive, label="average")
axes.plot(speeds[:, 0], np.full(len(speeds), -0.008), "k|", alpha=0.4)
axes.set(
    title="A density, 4 components",
    xlabel="speed (1000 km/s)",
    ylabel="density",
)
axes.legend(frameon=False)
path = Path("mixture.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")

# %%
# Clusters that move
# ------------------
# There are two clusters in the plane, and one of them moves to the right while rows arrive in
# parts. A stream that counts every row alike ends with a cluster that is spread along the whole
# path. With a ``half_life`` a row counts less and less. The picture shows the newest rows, and the
# clusters of the two streams as ellipses of two standard deviations.


def part(number, n=200):
    moving = rng.random(n) < 0.5
    centre = np.where(
        moving[:, None], [0.3 * number - 3.0, 2.0], [0.0, -2.0]
    )
    return centre + 0.5 * rng.standard_normal((n, 2))


streams = {
    half_life: GaussianMixturePMD(
        2,
        strategy="conjugate",
        n_particles=4,
        half_life=half_life,
        random_state=0,
    )
    for half_life in (None, 140)
}
for number in range(21):
    rows = part(number)
    for stream in streams.values():
        stream.partial_fit(rows)
fresh = part(20)
for half_life, stream in streams.items():
    print(
        f"half_life={half_life}: "
        f"mean log density of new rows {stream.score(fresh):.2f}"
    )

figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
angles = np.linspace(0, 2 * np.pi, 80)
circle = np.stack([np.cos(angles), np.sin(angles)])
axes.plot(*fresh.T, ".", color="0.6", markersize=3)
for colour, (half_life, stream) in zip(
    ("C1", "C0"), streams.items(), strict=True
):
    for k, (mean, covariance) in enumerate(
        zip(stream.means_, stream.covariances_, strict=True)
    ):
        ellipse = (
            mean[:, None] + 2 * np.linalg.cholesky(covariance) @ circle
        )
        label = f"half_life={half_life}" if k == 0 else None
        axes.plot(*ellipse, color=colour, label=label)
axes.set(title="A cluster that moves to the right", aspect="equal")
axes.set(xlabel="first column", ylabel="second column")
axes.legend(frameon=False, loc="center left", fontsize="small")
