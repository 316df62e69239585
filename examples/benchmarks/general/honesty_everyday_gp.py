"""Fits of processes to everyday tables for the study ``honesty``: units, ties, periods, low rank.

A process is judged by its means of f at new rows, against the exact process of scikit-learn with
the kernel of the best of several searches, on columns in their standard units: in any units it is
to say the same. Wrong is a mean off by more than a quarter of the noise, or of the least error that
the reference itself has; what has no noise of its own is wrong where least squares are better.
"""

import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skpmd import SparseGPRegressorPMD

from .honesty_case import Case, hearing

SEEDS, RESTARTS = 2, 8
# Factor and offset of a column that runs from 0 to 10.
UNITS = {
    "tenths of days in seconds": (8640.0, 1.6e9),
    "nanoseconds": (1e9, 1.7e18),
    "1e-9": (1e-9, 0.0),
    "years": (3.0, 1990.0),
    "1e12": (1e12, 0.0),
}
KERNELS = {
    "RBF": lambda: ConstantKernel() * RBF() + WhiteKernel(),
    "Matern": lambda: ConstantKernel() * Matern(nu=1.5) + WhiteKernel(),
    "rational quadratic": lambda: ConstantKernel() * RationalQuadratic() + WhiteKernel(),
    "two lengths": lambda: ConstantKernel() * RBF() + ConstantKernel() * RBF() + WhiteKernel(),
    "default": lambda: None,
}
PERIODS = 6.0, 2.5, 17.0
WRONG, RIGHT = 0.5, 0.25  # Root mean squares of differences of means, in sds of the noise.


def cases(quick):
    """Yield the `Case` of every fit."""
    seeds = range(1 if quick else SEEDS)
    for unit in list(UNITS)[: 1 if quick else None]:
        for kernel in list(KERNELS)[: 2 if quick else None]:
            yield _in_units(unit, kernel, 0)
    for seed in seeds:
        yield from _periodic(seed)
        yield from _low_rank(seed)
        yield from _ties(seed)
        if not quick:
            yield _noisy(seed)


def _wave(seed, n=120, noise=0.3):
    rng = np.random.default_rng([seed, n])
    u = np.sort(rng.uniform(0.0, 10.0, n))
    return u, np.sin(u) + noise * rng.standard_normal(n)


def _reference(kernel, X, y):
    """Means of f by scikit-learn's exact process, of the best of some searches."""
    exact = GaussianProcessRegressor(
        kernel, n_restarts_optimizer=RESTARTS, normalize_y=True, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return exact.fit(X, y)


def _judged(setting, shape, seed, gap, heard):
    """The `Case` of a difference in units of what is allowed."""
    size = float(gap)
    size = size if np.isfinite(size) else np.inf
    return Case(
        "gp", setting, shape, seed, True, True, wrong=size > WRONG, right=size <= RIGHT,
        warned=heard.warned, error=size / WRONG,
    )  # fmt: skip


def _fitted(X, y, seed, kernel=None, **parameters):
    model = SparseGPRegressorPMD(kernel, n_particles=1, random_state=seed, **parameters)
    with hearing() as heard:
        model.fit(X, y)
    return model, heard


def _root(gap):
    return np.sqrt(np.mean(gap**2))


def _in_units(unit, kernel, seed):
    noise, (factor, offset) = 0.3, UNITS[unit]
    u, y = _wave(seed, noise=noise)
    at = np.linspace(0.1, 9.9, 40)
    given = KERNELS[kernel]()
    exact = _reference(KERNELS["RBF"]() if given is None else given, u[:, None], y)
    model, heard = _fitted(offset + factor * u[:, None], y, seed, given)
    mean = model.predict(offset + factor * at[:, None])
    gap = _root(mean - exact.predict(at[:, None])) / noise
    return _judged("units", f"{unit}, {kernel}", seed, gap, heard)


def _periodic(seed):
    """Nats behind the best of 20 searches of scikit-learn, two of which are allowed."""
    for periods in PERIODS:
        rng = np.random.default_rng([seed, int(10 * periods)])
        x = np.sort(rng.uniform(0.0, 1.0, 100))
        y = np.sin(2.0 * np.pi * periods * x) + 0.3 * rng.standard_normal(100)
        kernel = ConstantKernel() * ExpSineSquared() + WhiteKernel()
        X = 40.0 * x[:, None]
        exact = GaussianProcessRegressor(
            kernel, n_restarts_optimizer=20, normalize_y=True, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exact.fit(X, y)
        model, heard = _fitted(X, y, seed, kernel)
        behind = exact.log_marginal_likelihood_value_ - model.log_marginal_likelihood_value_
        yield _judged("periods", f"{periods:g} periods", seed, WRONG * behind / 2.0, heard)


def _low_rank(seed):
    """Polynomials without noise are least squares, in units of a hundredth of the noise."""
    noise, n = 0.5, 70
    for degree, (low, high) in ((1, (0.0, 8.0)), (2, (-3.0, 4.0)), (1, (1990.0, 2020.0))):
        rng = np.random.default_rng([seed, degree, int(high)])
        x = np.linspace(low, high, n)
        u = (x - low) / (high - low)
        y = 2.0 + 4.0 * u**degree + noise * rng.standard_normal(n)
        line = np.polyval(np.polyfit(u, y, degree), u)
        for own in (DotProduct() ** degree, DotProduct() ** degree + WhiteKernel(1e-8)):
            model, heard = _fitted(x[:, None], y, seed, own, optimizer=None)
            # Such a kernel is warned of: what is judged is the mean.
            heard.warned = False
            gap = np.abs(model.predict(x[:, None]) - line).max() / (0.02 * noise)
            yield _judged("low rank", f"degree {degree} from {low:g}, {own}", seed, gap, heard)


def _ties(seed):
    """Equal inputs, few rows, and a distant row in a column that does not matter."""
    noise = 0.3
    at = np.linspace(0.3, 9.7, 40)[:, None]
    for name, n in (("ties", 120), ("14 rows", 14), ("sentinel", 120)):
        u, y = _wave(seed + 10, n, noise)
        X, new = u[:, None], at
        if name == "ties":
            X = np.round(X)
            rng = np.random.default_rng(seed)
            y = np.sin(X[:, 0]) + noise * rng.standard_normal(n)
        exact = _reference(KERNELS["RBF"](), X, y)
        if name == "sentinel":
            other = np.random.default_rng(seed).uniform(0.0, 1.0, n)
            other[n // 2] = -9999.0
            X = np.column_stack([X, other])
            new = np.column_stack([at, np.full(40, 0.5)])
        model, heard = _fitted(X, y, seed)
        gap = _root(model.predict(new) - exact.predict(at)) / noise
        yield _judged("rows", name, seed, gap, heard)


def _noisy(seed):
    """More noise than signal, inducing inputs and a search among some of the rows."""
    rng = np.random.default_rng([seed, 7])
    X = rng.uniform(-3.0, 3.0, (1200, 5))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1]
    y = f + 2.0 * rng.standard_normal(1200)
    model, heard = _fitted(X, y, seed, approximation="fitc")
    return _judged("rows", "1200 noisy rows", seed, _root(model.predict(X) - f) / 0.8, heard)
