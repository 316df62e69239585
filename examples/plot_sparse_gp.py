"""
A Gaussian process that learns from a stream
============================================

The function of Dai et al. (2016, appendix H.3.1), 2048 noisy points of it, taken in part by part:
one exact pass and no learning rate. Then real data, whose intervals should hold what they promise.

The picture is saved as ``sparse_gp.png`` in the working directory.
"""

# %%
# A band that tightens
# --------------------
# ``partial_fit`` learns the kernel from the first part, adds up what the rows say, and keeps
# none of them. At the end it says what one fit on all rows says.

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

figure, axes = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
stream = SparseGPRegressorPMD(n_inducing=100, random_state=0)
n_read = 0
for panel, rows in zip(axes[:3], np.split(np.arange(2048), [64, 256]), strict=True):
    stream.partial_fit(x[rows, None], y[rows])
    n_read += len(rows)
    f = stream.predict_proba(grid[:, None], target="f")
    low, high = f.interval(level=0.95).T
    panel.fill_between(grid, low, high, alpha=0.3)
    panel.plot(grid, f.mean())
    panel.plot(grid, truth(grid), "k--", linewidth=0.8)
    panel.plot(stream.inducing_[:, 0], np.full(len(stream.inducing_), -1.3), "|", markersize=8)
    error = np.sqrt(np.mean((f.mean() - truth(grid)) ** 2))
    panel.set(title=f"{n_read} points, error {error:.3f}", ylim=(-1.5, 3.5))
    print(f"{n_read:>5} points: {len(stream.inducing_)} inducing inputs, error {error:.3f}")

# %%
# Intervals that hold what they promise
# -------------------------------------
# On the diabetes data bundled with scikit-learn, a quarter of the rows held out.

X, target = load_diabetes(return_X_y=True)
train, test = train_test_split(np.arange(len(target)), random_state=0)
gp = SparseGPRegressorPMD(random_state=0).fit(X[train], target[train])
levels = np.linspace(0.1, 0.9, 9)
predictions = gp.predict_proba(X[test])
coverage = [interval_coverage(target[test], predictions, level=level) for level in levels]
score = negative_log_predictive_density(target[test], predictions)
print(f"diabetes: R2 {gp.score(X[test], target[test]):.2f}, log loss {score:.2f}")
axes[3].plot(levels, levels, "k--", linewidth=0.8)
axes[3].plot(levels, coverage, "o-")
axes[3].set(xlabel="level of the interval", ylabel="share of targets in it", title="diabetes")
figure.savefig(Path("sparse_gp.png"), dpi=120)
