"""Predictive distributions of linear models: for each row a mixture, over particles, of a family.

Only coefficients and the design are stored, and means are computed for a few rows at a time, so
that memory grows with the number of rows and with that of particles but not with their product.
Each row is treated by itself, in tiles of one shape: no bit depends on what stands beside it.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from math import prod
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse, vstack

from skpmd._base.mean_draws import MeanDraws, some_particles
from skpmd._base.utils import (
    as_floats,
    as_generator,
    check_level,
    check_n_draws,
    fill_docstrings,
    weighted_quantile,
)
from skpmd._runtime.threads import each
from skpmd._typing import Array, ArrayLike, RandomState
from skpmd.linear._families import FAMILIES
from skpmd.linear._family import FAST_MEANS, LINKS, Parameters
from skpmd.linear._quantiles import Coordinate, parameters_of, quantile, ranked_scores
from skpmd.predictive import TEXTS, PredictiveDistribution

LANES = 64  # Rows of a tile: of 4,000 particles it has 2 MB.


class FamilyMixture(PredictiveDistribution):
    """Distributions of n rows, each a mixture, over m weighted particles, of one family.

    Methods, rows and shapes are as of `skpmd.predictive.PredictiveDistribution`, with ``log_pmf``
    and ``pmf`` in the place of densities for counts. Quantiles of counts are exact integers. Of
    continuous families 256 particles, more in tails, stand for all where there are more. They are
    chosen for each row, and quantiles are off by less than 0.0005 in probability; with no more
    particles by less than 1e-8. So do 256 for scores, which are then off by less than 0.2 %, and
    otherwise by less than 0.02 %, but by up to 1 % where particles are few and so far apart that
    the cdf is a staircase; of counts that spread over more than 400 they are integrals. `energy`
    without y is right to 3 % where particles differ widely or tails are heavy, and 0.1 % elsewhere.
    Means of student_t are averages of locations, even where nu <= 1, and variances are infinite if
    any particle has nu <= 2.

    Parameters
    ----------
    family : {"normal", "student_t", "poisson", "negative_binomial", "gamma", "binomial", "beta"}
        Distribution of a target with mean mu: the normal with standard deviation sigma; Student's t
        with location mu, scale sigma and nu degrees of freedom; negative binomial counts of
        variance mu + mu^2 / shape; the gamma distribution of variance mu^2 / shape; numbers of
        successes, with probability mu each; Beta(mu precision, (1 - mu) precision).
    coefficients : array-like of shape (m, w)
        Coefficients of each particle, that of the intercept among them.
    design : array-like or sparse matrix of shape (n, w)
        Columns of each row, with ones for the intercept. It is not copied.
    dispersion : array-like of shape (m, k), default=None
        Of each particle sigma; sigma and nu; shape; or precision. Nothing for poisson and binomial.
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
    def from_means(cls, family: str, mu: ArrayLike, **options: Any) -> Self:
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

    # ------------------------------------------------------------------ an array of rows
    @property
    def is_count(self) -> bool:
        """Whether targets are counts, which have probabilities in the place of densities."""
        return self._family.kind == "count"

    @property
    def _family(self):
        return FAMILIES[self.family]()

    def __len__(self):
        return self.design.shape[0]

    def _part(self, rows):
        part = copy(self)
        part.design, part.offset = self.design[rows], self.offset[rows]
        part.trials = None if self.trials is None else self.trials[rows]
        return part

    def _joined(self, parts):
        for other in parts[1:]:
            same = (self.family, self.link) == (other.family, other.link) and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("coefficients", "dispersion", "weights")
            )
            if not same:
                raise ValueError(f"parts must have the same particles, got {self} and {other}.")
        whole, designs = copy(self), [one.design for one in parts]
        are_sparse = any(map(issparse, designs))
        whole.design = vstack(designs, format="csr") if are_sparse else np.concatenate(designs)
        whole.offset = np.concatenate([one.offset for one in parts])
        if self.trials is not None:
            whole.trials = np.concatenate([one.trials for one in parts])
        return whole

    def __repr__(self):
        return f"FamilyMixture({self.family!r}, {len(self)} rows, {len(self.weights)} particles)"

    # ------------------------------------------------------------------ moments
    def _mean(self):
        return self._by_tiles(lambda p, _: p.average(self._family.mean(p)))

    def _var(self):
        return self._by_tiles(partial(self._variances, within=self._family.variance))

    def var_of_mean(self) -> Array:
        """Variances of the mean between particles, shape (n,), which more rows of a fit remove.

        Returns
        -------
        ndarray of shape (n,)
            Variances in squared units of y.
        """
        return self._by_tiles(partial(self._variances, within=lambda p: 0.0))

    # ------------------------------------------------------------------ density or probability
    def _log_pdf(self, y):
        self._check_kind(of_counts=False)
        return self._at(y, self._log_density)

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
        tails = check_level(level)

        def ends(p, _):
            return weighted_quantile(self._family.mean(p).T, self.weights, tails)

        return self._by_tiles(ends).T

    # ------------------------------------------------------------------ draws
    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, jointly: bool = False
    ) -> Array:
        """Draws, shape (n_samples, n).

        Parameters
        ----------
        n_samples : int, default=1
            Draws of each row.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.
        jointly : bool, default=False
            Whether a draw takes one particle for all rows, so that rows are dependent as they are
            in the posterior. By default draws of a row are independent of those of others.

        <draws>
        """
        n_samples = check_n_draws("n_samples", n_samples, least=0)
        rng, chosen = as_generator(random_state), None
        if jointly:
            chosen = rng.choice(len(self.weights), (1, n_samples), p=self.weights)
        return self._drawn(n_samples, rng, chosen)

    def _drawn(self, n_samples, rng, chosen):
        """Draws of each row, from particles that are chosen for all rows, or anew if None."""
        m, out = len(self.weights), np.empty((n_samples, len(self)))
        for start in range(0, len(self), LANES):
            p, rows = self._tile(start)
            size = len(p.mu), n_samples
            own = rng.choice(m, size, p=self.weights) if chosen is None else chosen
            p = parameters_of(p, np.broadcast_to(own, size))
            out[:, rows] = self._family.draw(p, rng).T
        return out

    def _draws_of_mean(self, n_draws, by):
        """Means of y, (n or G, m, 1), under some particles, and their weights (m,)."""
        chosen, weights = some_particles(self.weights, n_draws)
        part, found = self._given(chosen, np.random.default_rng(0)), MeanDraws(by)

        def one(start):
            with np.errstate(all="ignore"):
                p, rows = part._tile(start, of_means=True)
                found.add(self._family.mean(p)[..., None], rows)

        each(one, range(0, max(len(self), 1), LANES))
        return found.whole(), weights

    def _given(self, chosen, rng):
        """The same of some particles, as often as they are chosen, of equal weight."""
        part = copy(self)
        part.coefficients, part.dispersion = self.coefficients[chosen], self.dispersion[chosen]
        part.weights = np.full(len(chosen), 1.0 / len(chosen))
        return part

    # ------------------------------------------------------------------ scores
    def _energy(self, y):
        if y is None:
            return self._at(0.0, partial(self._scores, shares=(0.0, 1.0)))
        return self._at(y, partial(self._scores, shares=(1.0, 0.5)))

    def _crps(self, y):
        return self._at(y, partial(self._scores, shares=(1.0, 0.0)))

    def _to_skpro(self, index, columns):
        from skpmd.linear._skpro_mixture import skpro_mixture

        index = range(len(self)) if index is None else index
        return skpro_mixture(self, index, [0] if columns is None else columns)

    # ------------------------------------------------------------------ tiles
    def _predictors(self, rows):
        """Linear predictors (r, m) of all particles for the rows of a tile, a slice."""
        some = self.design[rows]
        tile = np.zeros((LANES, self.design.shape[1]))  # Sums of a product depend on its shape.
        tile[: some.shape[0]] = some.toarray() if issparse(some) else some
        return (tile @ self.coefficients.T)[: some.shape[0]] + self.offset[rows, None]

    def _tile(self, start, of_means=False):
        """`Parameters` of all particles for the rows of the tile that starts there, and these.

        For means alone they are not complete, and take a third of the time.
        """
        rows, link, family = slice(start, start + LANES), LINKS[self.link], self._family
        eta = self._predictors(rows)
        rest = link.rest(eta) if family.needs_rest and not of_means else None
        trials = None if self.trials is None else self.trials[rows, None]
        mean = FAST_MEANS.get(self.link, link.mean) if of_means else link.mean
        return Parameters(mean(eta), rest, tuple(self.dispersion.T), trials, self.weights), rows

    def _by_tiles(self, function):
        """Results (..., n) of a function of the `Parameters` of a tile and of its rows."""

        def one(start):
            with np.errstate(all="ignore"):
                return function(*self._tile(start))

        return np.concatenate(each(one, range(0, max(len(self), 1), LANES)), axis=-1)

    def _at(self, y, function):
        """Values of a function of parameters and of targets (r,), for each row of y."""
        y, n = self._targets(y), len(self)
        y = y if y.ndim else np.full(n, y)
        table = y.reshape(prod(y.shape[:-1]), n)

        def values(p, rows):
            found = [function(p, one[rows]) for one in table]
            return np.reshape(found, (len(table), len(p.mu)))

        return self._by_tiles(values).reshape(y.shape)

    # ------------------------------------------------------------------ parts of the above
    def _check_kind(self, of_counts):
        if of_counts != self.is_count:
            has, name = ("probabilities", "log_pmf") if self.is_count else ("a density", "log_pdf")
            raise ValueError(f"{self.family} has {has}: ask for {name} or {name[4:]}.")

    def _log_density(self, p, y):
        family = self._family
        inside = np.isfinite(y) & (y >= family.least) & (y <= np.ravel(family.largest(p)))
        inside &= (y % 1.0 == 0.0) | (not self.is_count)
        terms = family.log_density(np.where(inside, y, 0.5 * (not self.is_count))[:, None], p)
        top = terms.max(axis=1)
        terms = np.exp(terms - np.where(np.isfinite(top), top, 0.0)[:, None])
        found = np.where(top < np.inf, np.log(p.average(terms)), 0.0) + top
        return np.where(inside, found, -np.inf)

    def _variances(self, p, _, within):
        """Variances (r,) of means between particles, with those within them."""
        mean = self._family.mean(p)
        return p.average((mean - p.average(mean)[:, None]) ** 2 + within(p))

    def _probability(self, y, upper):
        return self._at(y, partial(self._side, upper=upper))

    def _side(self, p, y, upper):
        """Probabilities above y, or up to it."""
        family = self._family
        y = np.floor(y) if self.is_count else y
        low = (y < family.least) | (y == -np.inf)
        high = y >= np.ravel(family.largest(p))
        some = np.where(low | high | ~np.isfinite(y), 0.5 * (not self.is_count), y)[:, None]
        found = p.average(family.above(some, p) if upper else family.below(some, p))
        return np.select([low, high], [float(upper), float(not upper)], np.minimum(found, 1.0))

    def _scores(self, p, y, shares):
        """A sum of the score and of E|Y - Y'|, with such shares."""
        score, own = ranked_scores(self._family, p, y)
        return shares[0] * score + shares[1] * own

    def _quantiles(self, tails):
        """Values (j, n) with such probabilities below them, or above."""
        family = self._family

        def of(p, _):
            out, coordinate = np.empty((len(tails), len(p.mu))), Coordinate(family, p)
            for j, (tail, upper) in enumerate(tails):
                if tail == 0.0:
                    out[j] = np.ravel(family.largest(p)) if upper else family.least
                else:
                    out[j] = quantile(family, p, coordinate, tail, upper)
            return out

        return self._by_tiles(of)


fill_docstrings(TEXTS, *vars(FamilyMixture).values())


def _finite(name, values, shape=None):
    """An array of finite numbers, of that shape if one is given."""
    values = as_floats(name, values)
    if shape is not None and values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite, got nan or infinite values.")
    return values
