"""Predictive distributions of linear models: for each row a mixture, over particles, of a family.

Only coefficients and the design are stored, and means are computed for a few rows at a time, so
that memory grows with the number of rows and with that of particles but not with their product.
Each row is treated by itself, in tiles of one shape: no bit depends on what stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skpmd._base.utils import (
    as_floats,
    as_generator,
    check_level,
    check_n_draws,
    check_probabilities,
    fill_docstrings,
    weighted_quantile,
)
from skpmd._runtime.threads import each
from skpmd._typing import Array, ArrayLike, RandomState
from skpmd.linear._family_distributions import FAMILIES, LINKS, Parameters
from skpmd.linear._quantiles import parameters_of, quantile, ranked_scores

LANES = 64  # Rows of a tile: of 4,000 particles it has 2 MB.
_TEXTS = {
    "<y>": """
        Parameters
        ----------
        y : float or array-like of shape (n,) or (..., n)
            Targets, of binomial numbers of successes; a single number is used for all rows.

        Returns
        -------
        ndarray of shape (n,) or that of y
        """,
    "<errors>": """
        Raises
        ------
        ValueError
            If y has another number of rows, or holds nan.
        """,
}


class FamilyMixture:
    """Distributions of n rows, each a mixture, over m weighted particles, of one family.

    Methods have the names, shapes and rules of those of `skpmd.predictive.NormalMixture`, with
    ``log_pmf`` and ``pmf`` in the place of densities for counts. Indexing selects rows. Conversion
    to an array gives means and standard deviations, shape (n, 2).

    Parameters
    ----------
    family : {"normal", "student_t", "poisson", "negative_binomial", "gamma", "binomial", "beta"}
        Distribution of a target with mean mu: the normal with standard deviation sigma; Student's t
        with location mu, scale sigma and nu degrees of freedom; negative binomial counts of
        variance mu + mu^2 / shape; the gamma distribution of variance mu^2 / shape; numbers of
        successes, with probability mu each; Beta(mu kappa, (1 - mu) kappa).
    coefficients : array-like of shape (m, w)
        Coefficients of each particle, that of the intercept among them.
    design : array-like or sparse matrix of shape (n, w)
        Columns of each row, with ones for the intercept. It is not copied.
    dispersion : array-like of shape (m, k), default=None
        Of each particle sigma; sigma and nu; shape; or kappa. Nothing for poisson and binomial.
    weights : array-like of shape (m,), default=None
        Probabilities of the particles, which add up to 1; equal by default.
    link : {"identity", "log", "logit", "probit", "cloglog"}, default="identity"
        Function of mu that is the linear predictor, ``offset + design @ coefficients``.
    offset : array-like of shape (n,), default=None
        What the linear predictor of each row has besides.
    trials : array-like of shape (n,), default=None
        Of binomial only, and needed there: trials of each row.

    Attributes
    ----------
    coefficients, dispersion, weights : ndarray of shape (m, w), (m, k) and (m,)
        Particles of weight above 0, with weights divided by their sum.

    Raises
    ------
    ValueError
        If a name is unknown, shapes do not match, a number is nan or infinite, a dispersion is not
        above 0, weights are no probabilities, or trials are missing or are no counts.

    Examples
    --------
    >>> from skpmd.linear._family_mixture import FamilyMixture
    >>> counts = FamilyMixture("poisson", [[0.0], [1.0]], [[1.0], [2.0]], link="log")
    >>> counts.mean().round(2), counts.std().round(2)
    (array([1.86, 4.19]), array([1.61, 3.79]))
    >>> counts.interval(level=0.9)
    array([[ 0.,  5.],
           [ 0., 11.]])
    >>> counts.pmf(0).round(3)
    array([0.217, 0.184])
    """

    def __init__(
        self,
        family: str,
        coefficients: ArrayLike,
        design: Any,
        *,
        dispersion: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        link: str = "identity",
        offset: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> None:
        for name, value, known in (("family", family, FAMILIES), ("link", link, LINKS)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}.")
        self.family, self.link = family, link
        self.coefficients = _finite("coefficients", coefficients)
        self.design = design.tocsr() if issparse(design) else _finite("design", design)
        if self.coefficients.ndim != 2 or self.design.shape[1:] != self.coefficients.shape[1:]:
            raise ValueError(
                "coefficients and design must have shapes (m, w) and (n, w), got "
                f"{self.coefficients.shape} and {self.design.shape}."
            )
        m, n = len(self.coefficients), self.design.shape[0]
        names = FAMILIES[family].dispersion
        dispersion = np.empty((m, 0)) if dispersion is None else dispersion
        self.dispersion = _finite("dispersion", dispersion, (m, len(names)))
        if not (self.dispersion > 0.0).all():
            raise ValueError(f"dispersion must be above 0, got {self.dispersion.min()}.")
        self.weights = _finite("weights", np.full(m, 1.0 / m) if weights is None else weights, (m,))
        if (self.weights < 0.0).any() or not np.isclose(self.weights.sum(), 1.0):
            raise ValueError(
                f"weights must be probabilities which add up to 1 over the {m} particles: divide "
                f"them by their sum, {self.weights.sum()}."
            )
        self.offset = np.zeros(n) if offset is None else _finite("offset", offset, (n,))
        if (trials is None) != (family != "binomial"):
            raise ValueError(f"trials are for binomial, and needed there, got family={family!r}.")
        self.trials = None if trials is None else _finite("trials", trials, (n,))
        if trials is not None and ((self.trials < 0) | (self.trials % 1 != 0)).any():
            raise ValueError(f"trials must be integers of at least 0, got {self.trials}.")
        alive = self.weights > 0.0
        self.coefficients, self.dispersion = self.coefficients[alive], self.dispersion[alive]
        self.weights = self.weights[alive] / self.weights[alive].sum()

    @classmethod
    def from_means(cls, family: str, mu: ArrayLike, **options: Any) -> FamilyMixture:
        """Distributions from the means of each particle and row, for few rows.

        Parameters
        ----------
        family : str
            Its name.
        mu : array-like of shape (m, n)
            Means; of student_t locations, of binomial probabilities.
        **options : dict
            ``dispersion``, ``weights`` and ``trials`` as in the constructor.

        Returns
        -------
        FamilyMixture
            Distributions of n rows, which take memory of n^2.
        """
        mu = as_floats("mu", mu)
        return cls(family, mu, np.eye(mu.shape[-1]), **options)

    @classmethod
    def joined(cls, parts: Sequence[FamilyMixture]) -> FamilyMixture:
        """Join the rows of several distributions into one.

        Parameters
        ----------
        parts : sequence of FamilyMixture
            At least one distribution; all must have the same particles.

        Returns
        -------
        FamilyMixture
            Rows of all parts, in this order.

        Raises
        ------
        ValueError
            If families, links or particles differ.
        """
        first, whole = parts[0], copy(parts[0])
        for other in parts[1:]:
            same = (first.family, first.link) == (other.family, other.link) and all(
                np.array_equal(getattr(first, name), getattr(other, name))
                for name in ("coefficients", "dispersion", "weights")
            )
            if not same:
                raise ValueError(f"parts must have the same particles, got {first} and {other}.")
        designs = [one.design for one in parts]
        if any(map(issparse, designs)):
            from scipy.sparse import vstack

            whole.design = vstack(designs, format="csr")
        else:
            whole.design = np.concatenate(designs)
        whole.offset = np.concatenate([one.offset for one in parts])
        if first.trials is not None:
            whole.trials = np.concatenate([one.trials for one in parts])
        return whole

    # ------------------------------------------------------------------ an array of rows
    @property
    def shape(self) -> tuple[int, int]:
        """(n, 2), the shape of the array of means and standard deviations."""
        return len(self), 2

    @property
    def is_count(self) -> bool:
        """Whether targets are counts, which have probabilities in the place of densities."""
        return FAMILIES[self.family].kind == "count"

    def __len__(self):
        return self.design.shape[0]

    def __getitem__(self, rows):
        """The distributions of some rows: an integer, a slice, a mask or integers."""
        rows = np.atleast_1d(np.arange(len(self))[rows])
        if rows.ndim > 1:
            raise IndexError(f"rows must be picked by an index of one axis, got {rows.ndim} axes.")
        part = copy(self)
        part.design, part.offset = self.design[rows], self.offset[rows]
        part.trials = None if self.trials is None else self.trials[rows]
        return part

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("a FamilyMixture is no array: leave copy=False out.")
        table = np.column_stack([self.mean(), self.std()])
        return table if dtype is None else table.astype(dtype)

    def __repr__(self):
        return f"FamilyMixture({self.family!r}, {len(self)} rows, {len(self.weights)} particles)"

    # ------------------------------------------------------------------ moments
    def mean(self) -> Array:
        """Means, shape (n,); of student_t the averages of locations, even where nu <= 1.

        Returns
        -------
        ndarray of shape (n,)
            Values in the units of y.
        """
        family = FAMILIES[self.family]
        return self._by_tiles(
            lambda *tile: _average(family.mean(p := self._parameters(*tile)), p)
        )

    def var(self) -> Array:
        """Variances, shape (n,): within particles and between them.

        Returns
        -------
        ndarray of shape (n,)
            Variances in squared units of y: infinite if any particle of student_t has nu <= 2.
        """
        family = FAMILIES[self.family]

        def variances(eta, rows):
            p = self._parameters(eta, rows)
            mean = family.mean(p)
            between = (mean - _average(mean, p)[:, None]) ** 2
            return _average(between + family.variance(p), p)

        return self._by_tiles(variances)

    def std(self) -> Array:
        """Standard deviations, shape (n,), the square roots of `var`.

        Returns
        -------
        ndarray of shape (n,)
            Values in the units of y.
        """
        return np.sqrt(self.var())

    # ------------------------------------------------------------------ density and probabilities
    def log_pdf(self, y: ArrayLike) -> Array:
        """Log density of row i at y_i, of families that have one.

        <y>
            Log densities, in nats, per unit of y.

        Raises
        ------
        ValueError
            If the family is one of counts, y has another number of rows, or it holds nan.
        """
        self._check_kind(of_counts=False)
        return self._at(y, self._log_density)

    def pdf(self, y: ArrayLike) -> Array:
        """Density of row i at y_i, the exponential of `log_pdf`.

        <y>
            Densities, per unit of y.
        """
        return np.exp(self.log_pdf(y))

    def log_pmf(self, y: ArrayLike) -> Array:
        """Log probability of the count y_i in row i; -inf of what is no count.

        <y>
            Log probabilities, in nats.

        Raises
        ------
        ValueError
            If the family has a density, y has another number of rows, or it holds nan.
        """
        self._check_kind(of_counts=True)
        return self._at(y, self._log_density)

    def pmf(self, y: ArrayLike) -> Array:
        """Probability of the count y_i in row i, the exponential of `log_pmf`.

        <y>
            Probabilities.
        """
        return np.exp(self.log_pmf(y))

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of values up to y_i in row i.

        <y>
            Probabilities.

        <errors>
        """
        return self._at(y, partial(self._side, upper=False))

    def sf(self, y: ArrayLike) -> Array:
        """Probability of values above y_i in row i, accurate also in the upper tail.

        <y>
            Probabilities.

        <errors>
        """
        return self._at(y, partial(self._side, upper=True))

    surv = sf  # its name in skpro

    # ------------------------------------------------------------------ quantiles
    def ppf(self, q: ArrayLike) -> Array:
        """Quantiles, the least values whose `cdf` is q or more.

        Of counts they are exact. Of continuous families 256 particles, more in tails, that are
        chosen for each row stand for all if there are more: quantiles are then off by a few 1e-4 in
        probability, and otherwise by less than 1e-8.

        Parameters
        ----------
        q : float or array-like of shape (j,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (n,) or (n, j)
            Quantiles. A probability above 0.5 is used as 1 - q.

        Raises
        ------
        ValueError
            If q has more than one axis, or a number outside of [0, 1].
        """
        q = check_probabilities("q", q)
        if q.ndim > 1:
            raise ValueError(f"q must be a number or have shape (j,), got {q.shape}.")
        tails = [(one, False) if one <= 0.5 else (1.0 - one, True) for one in q.ravel().tolist()]
        found = self._by_tiles(partial(self._quantiles, tails=tails))
        return found[0] if q.ndim == 0 else found.T

    quantile = ppf

    def interval(self, level: float = 0.9) -> Array:
        """Central intervals, shape (n, 2): lower and upper end, quantiles as `ppf` finds them.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Probability of each interval; those of counts hold that or more.

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends, in the units of y.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        tail = check_level(level)[0]
        return self._by_tiles(partial(self._quantiles, tails=[(tail, False), (tail, True)])).T

    def interval_of_mean(self, level: float = 0.9) -> Array:
        """Central intervals, shape (n, 2), of the mean, over the particles; without noise of y.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Posterior probability of each interval.

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends, in the units of y; of student_t those of locations.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        tails, family = check_level(level), FAMILIES[self.family]

        def ends(eta, rows):
            means = family.mean(self._parameters(eta, rows))
            return weighted_quantile(means.T, self.weights, tails)

        return self._by_tiles(ends).T

    # ------------------------------------------------------------------ draws
    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """Draws, shape (n_samples, n).

        Parameters
        ----------
        n_samples : int, default=1
            Draws of each row, independent of those of other rows.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_samples, n)
            Draws, in the units of y.

        Raises
        ------
        ValueError
            If ``n_samples`` is not an integer of at least 0.
        """
        n_samples = check_n_draws("n_samples", n_samples, least=0)
        rng, out = as_generator(random_state), np.empty((n_samples, len(self)))
        for start in range(0, len(self), LANES):
            rows, eta = self._tile(start)
            picked = rng.choice(len(self.weights), (len(eta), n_samples), p=self.weights)
            p = parameters_of(self._parameters(eta, rows), picked)
            out[:, rows] = FAMILIES[self.family].draw(p, rng).T
        return out

    # ------------------------------------------------------------------ scores
    def energy(self, y: ArrayLike | None = None) -> Array:
        """E|Y - y_i| in row i, or without y, E|Y - Y'| of two independent draws; shape (n,).

        Parameters
        ----------
        y : float or array-like of shape (n,) or (..., n), default=None
            Targets; a single number is used for all rows.

        Returns
        -------
        ndarray of shape (n,) or that of y
            Mean distances, in the units of y, as accurate as `crps`.

        <errors>
        """
        if y is None:
            return self._at(0.0, partial(self._scores, shares=(0.0, 1.0)))
        return self._at(y, partial(self._scores, shares=(1.0, 0.5)))

    def crps(self, y: ArrayLike) -> Array:
        """Continuous ranked probability score of row i at y_i, in the units of y; less is better.

        It is the integral of the squared difference of the cdf and of a step at y_i; of counts the
        sum over all of them, or an integral where they spread over more than 400. Up to 256
        particles stand for all, as in `ppf`: scores are off by some 1e-4 of themselves, and by 1e-6
        where there are no more particles. Particles of student_t with nu below 0.6 have tails that
        are cut off.

        <y>
            Scores.

        <errors>
        """
        return self._at(y, partial(self._scores, shares=(1.0, 0.0)))

    # ------------------------------------------------------------------ skpro
    def to_skpro(self, index: Any = None, columns: Any = None) -> Any:
        """Convert to a distribution object of skpro, of shape (n, 1), which asks this one.

        Parameters
        ----------
        index, columns : pandas.Index, default=None
            Names of the n rows and of the one column, as in the data frame of the targets; numbers
            by default.

        Returns
        -------
        skpro.distributions.base.BaseDistribution
            Distributions of the rows.

        Raises
        ------
        ImportError
            If skpro is not installed (``pip install skpmd[skpro]``).
        """
        index = range(len(self)) if index is None else index
        return _skpro_class()(self, index, [0] if columns is None else columns)

    # ------------------------------------------------------------------ parts of the above
    def _tile(self, start):
        """Rows of the tile that starts there, and their linear predictors (r, m)."""
        rows = slice(start, start + LANES)
        some = self.design[rows]
        tile = np.zeros((LANES, self.design.shape[1]))  # Sums of a product depend on its shape.
        tile[: some.shape[0]] = some.toarray() if issparse(some) else some
        eta = (tile @ self.coefficients.T)[: some.shape[0]]
        return rows, eta + self.offset[rows, None]

    def _parameters(self, eta, rows):
        """`Parameters` of all particles."""
        mean, rest = LINKS[self.link]
        return Parameters(
            mean(eta),
            rest(eta) if FAMILIES[self.family].needs_rest else None,
            tuple(self.dispersion.T),
            None if self.trials is None else self.trials[rows, None],
            self.weights,
        )

    def _by_tiles(self, function):
        """Results (..., n) of a function of the linear predictors of a tile and of its rows."""

        def one(start):
            with np.errstate(all="ignore"):
                rows, eta = self._tile(start)
                return function(eta, rows)

        return np.concatenate(each(one, range(0, max(len(self), 1), LANES)), axis=-1)

    def _at(self, y, function):
        """Values of a function of parameters and of targets (r,), for each row of y."""
        y, n = as_floats("y", y), len(self)
        if y.ndim and y.shape[-1] != n:
            raise ValueError(
                f"y must be a number or have as many values as there are rows, shape ({n},) or "
                f"(..., {n}), got {y.shape}."
            )
        if np.isnan(y).any():
            raise ValueError("y must not hold nan: leave rows without a value out.")
        y = y if y.ndim else np.full(n, y)
        table = y.reshape(prod(y.shape[:-1]), n)

        def values(eta, rows):
            p = self._parameters(eta, rows)
            found = [function(p, one[rows]) for one in table]
            return np.reshape(found, (len(table), len(eta)))

        return self._by_tiles(values).reshape(y.shape)

    def _check_kind(self, of_counts):
        if of_counts != self.is_count:
            has, name = ("probabilities", "log_pmf") if self.is_count else ("a density", "log_pdf")
            raise ValueError(f"{self.family} has {has}: ask for {name} or {name[4:]}.")

    def _log_density(self, p, y):
        family = FAMILIES[self.family]
        inside = np.isfinite(y) & (y >= family.least) & (y <= np.ravel(family.largest(p)))
        inside &= (y % 1.0 == 0.0) | (not self.is_count)
        terms = family.log_density(np.where(inside, y, 0.5 * (not self.is_count))[:, None], p)
        top = terms.max(axis=1)
        terms = np.exp(terms - np.where(np.isfinite(top), top, 0.0)[:, None])
        found = np.where(top < np.inf, np.log(_average(terms, p)), 0.0) + top
        return np.where(inside, found, -np.inf)

    def _side(self, p, y, upper):
        """Probabilities above y, or up to it."""
        family = FAMILIES[self.family]
        y = np.floor(y) if self.is_count else y
        low = (y < family.least) | (y == -np.inf)
        high = y >= np.ravel(family.largest(p))
        some = np.where(low | high | ~np.isfinite(y), 0.5 * (not self.is_count), y)[:, None]
        found = _average(family.above(some, p) if upper else family.below(some, p), p)
        return np.select([low, high], [float(upper), float(not upper)], np.minimum(found, 1.0))

    def _scores(self, p, y, shares):
        """A sum of the score and of E|Y - Y'|, with such shares."""
        return np.dot(shares, ranked_scores(FAMILIES[self.family], p, y))

    def _quantiles(self, eta, rows, tails):
        """Values (j, r) with such probabilities below them, or above."""
        family, p = FAMILIES[self.family], self._parameters(eta, rows)
        out = np.empty((len(tails), len(eta)))
        for j, (tail, upper) in enumerate(tails):
            if tail == 0.0:
                out[j] = np.ravel(family.largest(p)) if upper else family.least
            else:
                out[j] = quantile(family, p, tail, upper)
        return out


fill_docstrings(_TEXTS, *vars(FamilyMixture).values())


def _average(terms, p):
    """Averages (r,) over particles of terms (r, m)."""
    return np.einsum("ij,j->i", terms, p.weights)


def _finite(name, values, shape=None):
    """An array of finite numbers, of that shape if one is given."""
    values = as_floats(name, values)
    if shape is not None and values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite, got nan or infinite values.")
    return values


@cache
def _skpro_class():
    """A distribution of skpro that asks a `FamilyMixture`; made when asked for, as skpro is extra.

    Its parameter is that object: a subset of its rows, or a copy by parameters, asks a part of it.
    """
    try:
        from skpro.distributions.base import BaseDistribution
    except ImportError as error:
        raise ImportError(
            "to_skpro needs skpro 2.12 or newer: pip install skpmd[skpro]."
        ) from error

    class SkproFamilyMixture(BaseDistribution):
        _tags = {
            "capabilities:approx": ["pdfnorm"],
            "capabilities:exact": ["mean", "var", "energy", "pdf", "log_pdf", "pmf", "log_pmf",
                                   "cdf", "ppf"],
            "broadcast_init": "off",
        }  # fmt: skip

        def __init__(self, mixture, index=None, columns=None):
            self.mixture = mixture
            super().__init__(index=index, columns=columns)
            self.set_tags(
                **{"distr:measuretype": "discrete" if mixture.is_count else "continuous"}
            )

        def _column(self, values):
            return values[0] if self.ndim == 0 else np.reshape(values, self.shape)

        def _mean(self):
            return self._column(self.mixture.mean())

        def _var(self):
            return self._column(self.mixture.var())

        def _of(self, name, x):
            return self._column(getattr(self.mixture, name)(np.ravel(x)))

        def _pdf(self, x):
            return self._of("pdf", x)

        def _log_pdf(self, x):
            return self._of("log_pdf", x)

        def _pmf(self, x):
            return self._of("pmf", x)

        def _log_pmf(self, x):
            return self._of("log_pmf", x)

        def _cdf(self, x):
            return self._of("cdf", x)

        def _energy_x(self, x):
            return self._of("energy", x)

        def _energy_self(self):
            return self._column(self.mixture.energy())

        def _ppf(self, p):
            # Each row has its own probability, though mostly all have the same.
            p, found = np.ravel(p), np.empty(len(self.mixture))
            for one in np.unique(p):
                found[p == one] = self.mixture[p == one].ppf(one)
            return self._column(found)

        def _iloc(self, rowidx=None, colidx=None):
            rows = slice(None) if rowidx is None else rowidx
            columns = self.columns if colidx is None else self.columns[colidx]
            return type(self)(self.mixture[rows], self.index[rows], columns)

        def _iat(self, rowidx=None, colidx=None):
            return type(self)(self.mixture[rowidx])

        def __reduce__(self):
            return _skpro_object, (self.mixture, self.index, self.columns)

    return SkproFamilyMixture


def _skpro_object(*parameters):
    """A distribution out of a pickle."""
    return _skpro_class()(*parameters)
