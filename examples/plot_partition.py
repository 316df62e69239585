"""
Which rows belong together: a partition with its credible ball
==============================================================

A posterior over mixtures is also a posterior over partitions of the rows into clusters. This
example finds the partition with the smallest expected loss, the credible ball around it, and for
each pair of rows the probability that they are in the same cluster. It also shows why clusters
should not be counted: their number follows the number of components that the mixture may have,
while the partition remains nearly the same.

The last picture is saved as ``partition.png`` in the working directory.
"""

# %%
# One measurement of 178 wines
# ----------------------------
# The wines are of three cultivars, which the mixture does not see. We look at one column only, so
# that groups overlap and the grouping is uncertain. ``strategy="parameters"`` draws from the
# posterior of the mixture, which contains this uncertainty.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from skpmd import GaussianMixturePMD

wine = load_wine(as_frame=True)
X = wine.data[["flavanoids"]].sort_values("flavanoids", kind="stable")
cultivar = wine.target[X.index].to_numpy()
x = X["flavanoids"].to_numpy()


def fitted(n_components):
    return GaussianMixturePMD(
        n_components,
        strategy="parameters",
        n_particles=300,
        weight_concentration_prior=0.5,
        random_state=0,
    ).fit(X)


mixture = fitted(4)

# %%
# The partition of smallest expected loss
# ---------------------------------------
# The loss is the variation of information between a partition and the true one, in nats. It is 0
# where the two are equal, and at most log n. The partitions within ``radius`` of the best one form
# the credible ball, which holds 90 % of the posterior. In this ball ``upper`` has the fewest
# clusters and ``lower`` has the most: they show what else the grouping may be. This column does not
# separate all of the cultivars: the best partition has fewer clusters than there are cultivars.

partition = mixture.optimal_partition(X, loss="vi", level=0.9)
print(
    f"expected loss {partition.expected_loss:.2f}, "
    f"radius of the ball {partition.radius:.2f}, "
    f"largest possible loss {np.log(len(x)):.2f}"
)
partitions = {
    "cultivars": cultivar,
    "fewest": partition.upper,
    "best": partition.labels,
    "most": partition.lower,
}
for name, labels in partitions.items():
    print(f"{name:<10} sizes {np.sort(np.bincount(labels))[::-1]}")


COLOURS = ("#0072b2", "#e69f00", "#7a1f5c", "k", "#009e73", "#56b4e9")


def draw_strips(axes, partitions):
    """A strip of rows a partition, its clusters coloured by their means."""
    height = np.random.default_rng(0).uniform(-0.3, 0.3, len(x))
    for place, labels in enumerate(partitions.values()):
        means = np.bincount(labels, x) / np.bincount(labels)
        rank = np.argsort(np.argsort(means))
        axes.scatter(
            x,
            place + height,
            c=[COLOURS[cluster] for cluster in rank[labels]],
            s=12,
        )
    axes.set_yticks(range(len(partitions)), partitions)
    axes.invert_yaxis()
    axes.set_xlabel("flavanoids")


plt.rcParams.update({"font.size": 14})
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
draw_strips(axes, partitions)
axes.set_title("Cultivars, and three partitions\nin the 90 % ball")

# %%
# Pairs of rows
# -------------
# ``co_clustering`` returns the probability that two rows are in the same cluster, for each pair. It
# needs no labels. The wines are sorted, so that clusters are blocks along the diagonal, and the
# rows between blocks are the uncertain ones.

figure, axes = plt.subplots(figsize=(5, 4.2), layout="constrained")
image = axes.imshow(
    mixture.co_clustering(X), vmin=0.0, vmax=1.0, cmap="Blues"
)
figure.colorbar(image, ax=axes, label="probability of the same cluster")
axes.set(xlabel="wine, by flavanoids", ylabel="wine, by flavanoids")

# %%
# Why not to count clusters
# -------------------------
# We compare mixtures of two, four and six components. In each draw from the posterior the rows are
# assigned to components, and the components with at least one row are counted. Most draws have
# about as many clusters as they may have: a group can be cut once more, or lose a few rows to a
# small cluster, at little loss of probability. The place of the cut differs from draw to draw, and
# so the cut is not in the partition that is best on average. The last column of the table is the
# adjusted Rand index between this partition and the best one of four components: 1 if they are
# equal.


def cluster_counts(mixture):
    """How many clusters each draw from the posterior has."""
    weights, means, stds = np.split(
        mixture.posterior_.particles[:, None], 3, axis=2
    )
    scores = np.log(weights) + norm.logpdf(x[:, None], means, stds)
    # A draw from each distribution.
    noise = np.random.default_rng(0).gumbel(size=scores.shape)
    labels = (scores + noise).argmax(axis=2)
    return np.array([len(np.unique(draw)) for draw in labels])


mixtures = {2: fitted(2), 4: mixture, 6: fitted(6)}
best = {
    K: one.optimal_partition(X, loss="vi").labels
    for K, one in mixtures.items()
}
counts = {K: cluster_counts(one) for K, one in mixtures.items()}
print("components   clusters in a draw   best partition   Rand index")
for K in mixtures:
    sizes = " + ".join(
        str(size) for size in np.sort(np.bincount(best[K]))[::-1]
    )
    agreement = adjusted_rand_score(best[4], best[K])
    print(f"{K:10d}{counts[K].mean():21.1f}{sizes:>17}{agreement:13.2f}")

# %%
# The evidence does not decide between the three mixtures either: their log evidences differ by a
# nat or so. What can be said about the number of groups is in :doc:`../inside/mixture`.

for K, one in mixtures.items():
    print(f"{K} components: log evidence {one.log_evidence_:.1f}")

# sphinx_gallery_thumbnail_number = 3
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 4.6), layout="constrained"
)
draw_strips(left, best)
left.set(title="best partition", ylabel="components")
looks = ((-0.27, "0.8"), (0.0, "0.5"), (0.27, "0.15"))
for (shift, grey), (K, count) in zip(looks, counts.items(), strict=True):
    share = np.bincount(count, minlength=7)[1:] / len(count)
    right.bar(np.arange(1, 7) + shift, share, 0.27, color=grey, label=K)
right.set(
    title="number of clusters",
    xlabel="clusters in a draw",
    ylabel="share of draws",
)
right.set_xticks(range(1, 7))
right.legend(title="components", frameon=False)

path = Path("partition.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")
