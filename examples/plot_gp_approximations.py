"""
Inducing inputs, neighbours, and both
=====================================

One draw of a Gaussian process in three columns, 4000 noisy values of it, and its kernel given. The
picture shows how far the predicted function is off on a slice, under three approximations.

The picture is saved as ``gp_approximations.png`` in the working directory.
"""

# %%
# A draw of a process
# -------------------
# A sum of random waves has an RBF covariance, near enough (Rahimi and Recht 2007), and can be taken
# anywhere.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skpmd import SparseGPRegressorPMD

rng = np.random.default_rng(0)
frequencies, phases = rng.standard_normal((3, 2000)) / 0.25, rng.uniform(0.0, 2.0 * np.pi, 2000)


def truth(X):
    return np.cos(X @ frequencies + phases).sum(axis=1) / np.sqrt(1000.0)


X = rng.uniform(0.0, 1.0, (4000, 3))
y = truth(X) + 0.05 * rng.standard_normal(len(X))
side = np.linspace(0.0, 1.0, 60)
across, along = np.meshgrid(side, side)
points = np.column_stack([across.ravel(), along.ravel(), np.full(across.size, 0.5)])
f = truth(points)

# %%
# The same rows under each
# ------------------------
# Few inducing inputs blur what is finer than their distance. Few neighbours see no further than
# the nearest rows, and the prediction jumps where the set of them changes. Neighbours for what the
# inducing inputs leave have neither fault.

kernel = RBF(0.25) + WhiteKernel(0.05**2)
how = {
    "inducing inputs": {"approximation": "fitc", "n_inducing": 150},
    "neighbours": {"approximation": "vecchia", "n_neighbors": 15},
    "both": {"approximation": "full_scale", "n_inducing": 150, "n_neighbors": 15},
}
figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained", sharey=True)
colours = {"cmap": "coolwarm", "vmin": -0.15, "vmax": 0.15}
limits = {"extent": (0.0, 1.0, 0.0, 1.0), "origin": "lower"}
axes[0].imshow(f.reshape(across.shape), cmap="viridis", **limits)
axes[0].set(title="the function")
for panel, (name, params) in zip(axes[1:], how.items(), strict=True):
    gp = SparseGPRegressorPMD(kernel, optimizer=None, random_state=0, **params).fit(X, y)
    off = gp.predict(points) - f
    error = np.sqrt(np.mean(off**2))
    image = panel.imshow(
        off.reshape(across.shape), cmap="coolwarm", vmin=-0.15, vmax=0.15, **limits
    )
    panel.set(title=f"{name}: error {error:.3f}")
    print(f"{name}: error {error:.3f}")
figure.colorbar(image, ax=axes[1:], label="off by")
figure.savefig(Path("gp_approximations.png"), dpi=120)
