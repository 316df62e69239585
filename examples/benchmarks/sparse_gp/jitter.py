"""What the jitter of a sparse GP costs: the exact process, with every row an inducing input.

Against scikit-learn's `GaussianProcessRegressor` with the same kernel: largest error of a
predictive mean, in predictive standard deviations, largest relative error of a standard deviation,
at 500 places, and the error of the log marginal likelihood. 300 rows of one generated column, whose
covariance matrix is singular to rounding, and scikit-learn's diabetes table. No ``--data``.
"""

import numpy as np
from sklearn.datasets import load_diabetes

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot

JITTERS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
DEFAULT = 1e-14


def run(config):
    """Compare on both data sets with every jitter."""
    return [row for name, data in _data().items() for row in _compare(name, *data)]


def _data():
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (300, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    table, target = load_diabetes(return_X_y=True)
    table, target = table / table.std(axis=0), (target - target.mean()) / target.std()
    return {
        "one column": (X, y, 1.0 * RBF(1.0) + WhiteKernel(0.01)),
        "diabetes": (table, target, 1.0 * RBF(np.full(10, 3.0)) + WhiteKernel(0.5)),
    }


def _compare(name, X, y, kernel):
    from sklearn.gaussian_process import GaussianProcessRegressor

    from skpmd import SparseGPRegressorPMD

    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    rng = np.random.default_rng(1)
    places = rng.uniform(X.min(axis=0), X.max(axis=0), (500, X.shape[1]))
    mean, std = exact.predict(places, return_std=True)
    for jitter in JITTERS:
        model = SparseGPRegressorPMD(
            kernel, optimizer=None, normalize_y=False, n_inducing=len(y), jitter=jitter
        ).fit(X, y)
        found, spread = model.predict(places, return_std=True)
        evidence = model.log_marginal_likelihood_value_ - exact.log_marginal_likelihood_value_
        yield {
            "data": name,
            "jitter": jitter,
            "mean_error": float(np.abs((found - mean) / std).max()),
            "sd_error": float(np.abs(spread / std - 1.0).max()),
            "evidence_error": float(abs(evidence)),
        }


def gates(rows):
    """Errors at 1e-10, to which exactness is held, and at the default."""
    found = []
    for jitter in (1e-10, DEFAULT):
        own = [row for row in rows if row["jitter"] == jitter]
        worst = max(max(row["mean_error"], row["sd_error"]) for row in own)
        found.append(Gate(f"largest error at jitter {jitter:g}", worst, 1e-6))
    return found


def plot(rows):
    """Errors of means against the jitter."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(4.5, 3.5), layout="constrained")
    names = dict.fromkeys(row["data"] for row in rows)
    for name, style in zip(names, ("o-", "s--"), strict=True):
        own = [row for row in rows if row["data"] == name]
        errors = [row["mean_error"] for row in own]
        axes.plot([row["jitter"] for row in own], errors, style, mfc="none", label=name)
    axes.set(xscale="log", yscale="log", xlabel="jitter")
    axes.set(ylabel="largest error of a mean, sds")
    legend_above(figure, [axes], ncols=2)
    return figure
