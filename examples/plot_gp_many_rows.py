"""
A Gaussian process on 100,000 rows
==================================

A landscape with much detail is learnt from 100,000 noisy measurements of its height. A Gaussian
process with ``approximation="vecchia"`` predicts the height at each place from the nearest rows,
and so keeps detail that a limited number of inducing inputs would blur. You see the true landscape
beside the predicted one, where the prediction is uncertain, and how much of the truth is in the
intervals.

The picture is saved as ``gp_many_rows.png`` in the working directory.
"""

# %%
# A landscape, and where it was measured
# --------------------------------------
# Heights are a sum of random waves, whose lengths vary as in a Matérn process: there are hills, and
# ripples on the hills. The standard deviation of the noise of a measurement is half of the standard
# deviation of the heights. Nothing was measured inside a circle, which we call a lake.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skpmd import SparseGPRegressorPMD
from skpmd.metrics import interval_coverage

N_ROWS = 100_000
rng = np.random.default_rng(0)
lengths = 0.06 * np.sqrt(rng.chisquare(3, 200) / 3)
frequencies, phases = (
    rng.standard_normal((2, 200)) / lengths,
    rng.uniform(0, 2 * np.pi, 200),
)


def height(X):
    return 0.1 * np.cos(X @ frequencies + phases).sum(axis=1)


def in_lake(X):
    return np.linalg.norm(X - [0.7, 0.35], axis=1) < 0.1


X = rng.uniform(0.0, 1.0, (N_ROWS + 10_000, 2))
X = X[~in_lake(X)]
y = height(X) + 0.5 * rng.standard_normal(len(X))
X, X_new, y, y_new = X[:N_ROWS], X[N_ROWS:], y[:N_ROWS], y[N_ROWS:]
print(f"{len(X):,} rows to learn from, {len(X_new):,} new ones")
print(
    "the covariance matrix of the exact process "
    f"would fill {8e-9 * len(X) ** 2:.0f} GB"
)

# %%
# The fit
# -------
# The fit finds the shape of the kernel, its length scales and the noise from the rows. The data
# were made with a noise variance of 0.25; ``kernel_`` has the noise in units of the variance of
# ``y``.

gp = SparseGPRegressorPMD(approximation="vecchia", random_state=0).fit(X, y)
print(f"heights: {gp.kernel_.k1}")
print(f"noise:   {gp.kernel_.k2}")
print(
    "variance of the noise in units of the data: "
    f"{gp.kernel_.k2.noise_level * y.var():.3f}"
)

# %%
# The landscape and its prediction
# --------------------------------
# ``target="f"`` returns the distribution of the function itself, without the noise of a
# measurement. Its standard deviation is small and about the same everywhere except in the lake,
# where it is several times as large: rows on the shore say little about the middle.

side = np.linspace(0.0, 1.0, 150)
places = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
truth = height(places)
f = gp.predict_proba(places, target="f")
lake = in_lake(places)
for name, part in (("where there are rows", ~lake), ("in the lake", lake)):
    error = np.sqrt(np.mean((f.mean() - truth)[part] ** 2))
    print(
        f"{name}: error {error:.2f}, "
        f"standard deviation {f.std()[part].mean():.2f}"
    )

plt.rcParams.update({"font.size": 16})
figure, axes = plt.subplots(1, 3, figsize=(8.4, 4.0), layout="constrained")
limits = {"extent": (0.0, 1.0, 0.0, 1.0), "origin": "lower"}
heights = {"cmap": "viridis", "vmin": truth.min(), "vmax": truth.max()}
for panel, (title, label, values, colours) in zip(
    axes,
    (
        ("truth", "height", truth, heights),
        ("prediction", "height", f.mean(), heights),
        (
            "uncertainty",
            "standard deviation",
            f.std(),
            {"cmap": "magma", "vmin": 0.0},
        ),
    ),
    strict=True,
):
    image = panel.imshow(values.reshape(150, 150), **limits, **colours)
    figure.colorbar(image, ax=panel, location="bottom", label=label)
    panel.set(title=title, xticks=[], yticks=[])

path = Path("gp_many_rows.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")

# %%
# Do the intervals hold what they promise?
# ----------------------------------------
# There are two questions. How many of the new measurements lie in their intervals, which contain
# the noise? And how much of the true landscape lies in the intervals of the function? The second
# test is the harder one, because it depends on the kernel. The share of the lake's ground may be
# farther from 90 %: errors at neighbouring places are alike, so that the whole lake says no more
# than a handful of independent places would. The left picture is a cut through the lake, which is
# grey. Where the set of nearest rows changes, the prediction has small jumps, which are visible in
# the lake.

levels = np.linspace(0.1, 0.9, 9)
new = gp.predict_proba(X_new)
coverage = {
    "new measurements": [
        interval_coverage(y_new, new, level=level) for level in levels
    ],
    "the landscape": [
        interval_coverage(truth, f, level=level) for level in levels
    ],
}
for name, shares in coverage.items():
    print(f"intervals of 90 % hold {100 * shares[-1]:.0f} % of {name}")
in_it = interval_coverage(truth[lake], f[lake], level=0.9)
print(f"and {100 * in_it:.0f} % of the lake's ground")

cut = np.column_stack([np.linspace(0.4, 1.0, 300), np.full(300, 0.35)])
on_cut = gp.predict_proba(cut, target="f")
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4.4), layout="constrained"
)
left.axvspan(0.6, 0.8, color="0.93", zorder=0)
left.fill_between(
    cut[:, 0],
    *on_cut.interval(level=0.9).T,
    alpha=0.3,
    label="90 % interval",
)
left.plot(cut[:, 0], on_cut.mean(), label="prediction")
left.plot(cut[:, 0], height(cut), "k--", linewidth=1, label="truth")
left.set(xlabel="place along the cut", ylabel="height", ylim=(-2.3, 3.7))
left.legend(frameon=False, fontsize="small", loc="upper left")
right.plot([0, 1], [0, 1], color="0.7", linewidth=1)
looks = (
    {"marker": "o"},
    {"marker": "s", "markersize": 11, "fillstyle": "none"},
)
for look, (name, shares) in zip(looks, coverage.items(), strict=True):
    right.plot(levels, shares, linestyle="none", label=name, **look)
right.set(
    xlabel="level of the interval", ylabel="share inside the interval"
)
right.legend(frameon=False, fontsize="small")
