"""
Approximations of a Gaussian process: inducing inputs, neighbours, both
=======================================================================

Beyond a thousand rows a Gaussian process is approximated, and each approximation has its own kind
of error. Here a function of three columns is learnt from 4000 of its values with noise, and the
kernel is known. The pictures show the error of the predicted function on a slice, with inducing
inputs, with nearest neighbours and with both. By default ``fit`` compares the three approximations
and takes the one that predicts best.

The picture is saved as ``gp_approximations.png`` in the working directory.
"""

# %%
# A draw of a process
# -------------------
# A sum of random waves has an RBF covariance, to a good approximation (Rahimi and Recht 2007), and
# can be evaluated at any point. On the slice the third column is 0.5.

import textwrap
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skpmd import SparseGPRegressorPMD

rng = np.random.default_rng(0)
frequencies, phases = (
    rng.standard_normal((3, 2000)) / 0.25,
    rng.uniform(0.0, 2.0 * np.pi, 2000),
)


def truth(X):
    return np.cos(X @ frequencies + phases).sum(axis=1) / np.sqrt(1000.0)


X = rng.uniform(0.0, 1.0, (4000, 3))
y = truth(X) + 0.05 * rng.standard_normal(len(X))
side = np.linspace(0.0, 1.0, 60)
across, along = np.meshgrid(side, side)
points = np.column_stack(
    [across.ravel(), along.ravel(), np.full(across.size, 0.5)]
)
f = truth(points)

plt.rcParams.update({"font.size": 15})
names = {"xlabel": "column 1", "ylabel": "column 2"}
limits = {"extent": (0.0, 1.0, 0.0, 1.0), "origin": "lower"}
figure, axes = plt.subplots(figsize=(4.6, 3.8), layout="constrained")
image = axes.imshow(f.reshape(across.shape), **limits)
axes.set(
    title="the function on a slice", xticks=[0, 1], yticks=[0, 1], **names
)
figure.colorbar(image, ax=axes, label="f")

# %%
# The same rows under each approximation
# --------------------------------------
# A few inducing inputs blur detail that is finer than the distance between them. With a few
# neighbours the prediction uses only the nearest rows, and jumps where the set of neighbours
# changes. If neighbours predict the residuals of the inducing inputs, both errors are smaller. The
# warning that ``fit`` gives where there are too few inducing inputs is shown as text.

kernel = RBF(0.25) + WhiteKernel(0.05**2)
how = {
    "inducing inputs": {"approximation": "fitc", "n_inducing": 150},
    "neighbours": {"approximation": "vecchia", "n_neighbors": 15},
    "both": {
        "approximation": "full_scale",
        "n_inducing": 150,
        "n_neighbors": 15,
    },
}
# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(1, 3, figsize=(8, 4.6), layout="constrained")
for panel, (name, params) in zip(axes, how.items(), strict=True):
    gp = SparseGPRegressorPMD(
        kernel, optimizer=None, random_state=0, **params
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        gp.fit(X, y)
    off = gp.predict(points) - f
    error = np.sqrt(np.mean(off**2))
    image = panel.imshow(
        off.reshape(across.shape),
        cmap="coolwarm",
        vmin=-0.15,
        vmax=0.15,
        **limits,
    )
    panel.set(
        title=f"{name}\nRMS error {error:.3f}",
        xticks=[0, 1],
        yticks=[],
        **names,
    )
    print(f"{name}: RMS error {error:.3f}")
    for warning in caught:
        print(textwrap.fill(str(warning.message), 70))
axes[0].set_yticks([0, 1])
for panel in axes[1:]:
    panel.set_ylabel("")
figure.colorbar(
    image,
    ax=axes,
    location="bottom",
    aspect=40,
    extend="both",
    label="prediction less truth",
)
figure.savefig(Path("gp_approximations.png"), dpi=120)
