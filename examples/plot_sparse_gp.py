"""
A Gaussian process that learns from a stream
============================================

A function is learnt from 2048 noisy points, which ``partial_fit`` takes in three parts. The band of
the function tightens from part to part, without a learning rate and without a second pass over the
data. The last picture compares, on real data, the level of intervals with the share of new targets
that they hold.

The first picture is saved as ``sparse_gp.png`` in the working directory.
"""

# %%
# A band that tightens
# --------------------
# The function is taken from Dai et al. (2016, appendix H.3.1). ``partial_fit`` learns the kernel
# from the first part and adds up what the rows say about the values at the inducing inputs. At each
# x a band holds the function with a probability of 95 %, given the points so far. The dashed line
# is the true function, the ticks below are the inducing inputs, and the picture shows the middle of
# the range of x. The error that is printed is over the whole range, from -1 to 1.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from skpmd import SparseGPRegressorPMD
from skpmd.metrics import interval_coverage, negative_log_predictive_density

rng = np.random.default_rng(0)


def truth(x):
    wave = np.sin(3.53 * np.pi * x) + np.cos(7.7 * np.pi * x)
    return 3.0 * x**2 + wave * np.exp(-1.6 * np.pi * np.abs(x))


x = rng.uniform(-1.0, 1.0, 2048)
y = truth(x) + 0.1 * rng.standard_normal(2048)
grid = np.linspace(-1.0, 1.0, 400)

plt.rcParams.update({"font.size": 14})
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
stream = SparseGPRegressorPMD(n_inducing=100, random_state=0)
n_read = 0
for colour, height, rows in zip(
    ("#9ecae1", "#f28e2b", "#08306b"),
    (-1.3, -1.45, -1.6),
    np.split(np.arange(2048), [64, 256]),
    strict=True,
):
    stream.partial_fit(x[rows, None], y[rows])
    n_read += len(rows)
    f = stream.predict_proba(grid[:, None], target="f")
    axes.fill_between(
        grid,
        *f.interval(level=0.95).T,
        color=colour,
        label=f"{n_read} points",
    )
    places = stream.inducing_[:, 0]
    axes.plot(
        places,
        np.full(len(places), height),
        "|",
        color=colour,
        markersize=8,
    )
    error = np.sqrt(np.mean((f.mean() - truth(grid)) ** 2))
    print(
        f"{n_read:>5} points: {len(places)} inducing inputs, "
        f"RMS error {error:.3f}"
    )
axes.plot(grid, truth(grid), "w--", linewidth=1)
axes.set(
    title="95 % bands",
    xlabel="x",
    ylabel="f(x)",
    xlim=(-0.6, 0.6),
    ylim=(-1.8, 2.6),
)
axes.legend(frameon=False, loc="upper left", fontsize="small")
figure.savefig(Path("sparse_gp.png"), dpi=120)

# %%
# Intervals that hold what they promise
# -------------------------------------
# A quarter of the rows of the diabetes data, which come with scikit-learn, is held out. For points
# on the dashed line, the intervals hold exactly the promised share of the targets. The grey band is
# two standard errors of such a share to either side. All points are within it: this test, with so
# few rows, finds nothing wrong with the intervals.

X, target = load_diabetes(return_X_y=True)
train, test = train_test_split(np.arange(len(target)), random_state=0)
gp = SparseGPRegressorPMD(random_state=0).fit(X[train], target[train])
levels = np.linspace(0.1, 0.9, 9)
predictions = gp.predict_proba(X[test])
coverage = [
    interval_coverage(target[test], predictions, level=level)
    for level in levels
]
score = negative_log_predictive_density(target[test], predictions)
print(
    f"diabetes: R2 {gp.score(X[test], target[test]):.2f}, "
    f"log loss {score:.2f} nats"
)

figure, axes = plt.subplots(figsize=(5, 4.2), layout="constrained")
error = np.sqrt(levels * (1.0 - levels) / len(test))
axes.fill_between(
    levels, levels - 2 * error, levels + 2 * error, color="0.9"
)
axes.plot(levels, levels, "k--", linewidth=0.8)
axes.plot(levels, coverage, "o-")
axes.set(
    title="Diabetes",
    xlabel="level of the interval",
    ylabel="share of targets in it",
)
