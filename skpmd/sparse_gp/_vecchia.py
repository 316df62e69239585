"""A Gaussian process of M inducing inputs, in which each row is conditioned on its nearest rows.

Without inducing inputs, M = 0:

With the rows in an order, N(i) the nearest neighbours of row i among those before it,

    log p(y) = sum_i log p(y_i | y_N(i))

is the log marginal likelihood of a proper process near the exact one, and that itself where N(i)
are all rows before (Vecchia 1988; Datta et al. 2016; Katzfuss, Guinness and Lawrence 2022, who
measure distances in length scales, as is done here). It adds up over rows, at c^3 for c neighbours:
hyperparameters are particles, and minibatches are unbiased. Rows are in random order. Predictions
are conditioned on the nearest of all rows.

Rows of equal inputs and equal noise are one row with their weighted mean as target, w copies of
noise s each: the density is that of the mean, whose noise is s / w, times

    (2 pi s)^(-(w - 1) / 2) w^(-1 / 2) exp(-S / 2 s),  S the weighted sum of squares about the mean.

What is conditioned on are targets and not values of the process: where noise is much wider than the
process a prediction would need more of them than it has neighbours.

Inducing inputs are for what is smooth, and neighbours then for what they leave. With v the whitened
values at the inducing inputs (`skpmd.sparse_gp._model`) the process is v_x' v + r(x), and r has the
covariance k(x, x') - v_x' v_x'. Given v, each row is conditioned on N, its nearest rows before it,
by the covariance of r. With

    b = (R_NN + noise)^-1 R_Ni,    d = R_ii - R_iN b + noise of row i,

y_i - b' y_N is normal around (v_i - V_N b)' v with variance d: a row of a linear model of v, like
those of any process with inducing inputs. It adds to the natural parameters of q(v), and the
log-partition function of these is the log marginal likelihood. With all rows before as neighbours,
or all rows as inducing inputs, it is the exact one; without neighbours it is that of "fitc".

Snelson and Ghahramani (2007) have blocks in the place of neighbours, and Sang and Huang (2012) a
taper; with neighbours it is the full-scale approximation of Gyger, Furrer and Sigrist (2025).
"""

import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from skpmd._runtime.threads import each
from skpmd.engine.model import Batch
from skpmd.sparse_gp._blas import dsyrk, dtrsm
from skpmd.sparse_gp._covariance import in_lengths
from skpmd.sparse_gp._data import Sites
from skpmd.sparse_gp._kernels import conditional_moments, density_gradient, regression_weights
from skpmd.sparse_gp._model import (
    MIN_NOISE,
    InducingConditional,
    SparseGP,
    jittered_cholesky,
    log_normal,
)
from skpmd.sparse_gp._neighbours import (
    in_discs,
    in_leaves,
    index_of,
    nearest,
    nearest_before,
)

_LOG_TWO_PI = np.log(2.0 * np.pi)
_ROWS = 256  # A thread takes so many rows at a time.
_MAX_JOINT = 3000  # Points predicted together are conditioned on so many rows at most.
# Neighbours of a row, of a prediction, and of one where there are inducing inputs, by default.
_N_LIKELIHOOD, _N_PREDICTION, _N_BESIDE = 20, 100, 50
_AT_ONCE = 1 << 18  # Numbers that a thread holds of the neighbours of some rows: in its cache.


class Neighbourhoods(NamedTuple):
    """Some rows, and the nearest rows before each in the metric of a kernel.

    Near rows follow each other in memory and in turn, which saves half of the time where many are.
    """

    queried: np.ndarray  # (k,): Places of the rows among all.
    order: np.ndarray  # (k,): Which of them is taken when.
    sites: Sites  # The rows and their neighbours, which may be a small part of all.
    rows: np.ndarray  # (k,): Places of the rows among those, in that order.
    before: np.ndarray  # (k, c): Places of their neighbours, -1 after the last.


class RowsUnder(NamedTuple):
    """All rows under one particle."""

    scaled: np.ndarray  # (n, p): Inputs, in length scales.
    noise: np.ndarray  # (n,): Of their means.
    whitened: np.ndarray  # (n, M): v_x.


class NearConditional(NamedTuple):
    """What predictions under one particle need."""

    process: InducingConditional | None  # q(u); None without inducing inputs.
    rows: RowsUnder
    index: Any  # Of the rows, for `nearest`.


class VecchiaGP(SparseGP):
    """The process with a normal likelihood and a kernel that is fast.

    ``sites`` are all rows; ``batch.place`` of the contract says which of them a batch has, and
    ``batch.weight`` how often each of them counts in a sum. ``metric`` (p,) are the length scales
    in which neighbours are found, the same for all particles: sets that depended on the particle
    would give each a likelihood of its own.

    ``n_neighbors`` is the number of neighbours of a row and of a prediction; "auto" is 20 and 100,
    or 50 with inducing inputs. Those of a row may be further than the nearest by a share of
    ``eps``.

    It has no inducing inputs until `with_inducing` gives it some. The likelihood is that of
    neighbours alone, and so are the weights of particles: the block has no part in them.
    """

    def __init__(self, covariance, prior, sites, metric, n_neighbors="auto", eps=0.0):
        super().__init__(
            covariance, prior, sites.X[:0], "vecchia", 0.0, sites.y.shape[1], block_weighs=False
        )
        self.metric, self._eps, self._is_auto = metric, eps, n_neighbors == "auto"
        self.sites, self.middle = sites, _middle(sites.X)
        self.n_before = _N_LIKELIHOOD if self._is_auto else n_neighbors
        self.n_alone = self.n_nearest = _N_PREDICTION if self._is_auto else n_neighbors
        self._known = self._last = None

    def __getstate__(self):
        """What is pickled: not what can be made again."""
        return {**super().__getstate__(), "_known": None, "_last": None}

    def of(self, sites):
        """The same process with other rows, without inducing inputs."""
        model = self.at(sites.X[:0])
        model.sites, model._known, model.n_nearest = sites, None, self.n_alone
        model.approximation = "vecchia"
        return model

    def under(self, covariance):
        """The same rows and neighbours under another covariance."""
        model = copy.copy(self)  # Which is as `__getstate__` says.
        model.covariance, model._known = covariance, self._known
        return model

    def with_inducing(self, inducing, jitter):
        """The same process with inducing inputs (M, p)."""
        model = self.at(inducing)
        model.approximation, model.jitter, model._last = "full_scale", jitter, None
        model.n_nearest = _N_BESIDE if self._is_auto else self.n_alone
        return model

    @property
    def n_stored(self):
        """Numbers that a prediction holds for each of its rows, roughly."""
        return self.n_inducing or 2 * self.n_nearest

    def before(self, rows):
        """Places (k, n) of the nearest rows before each of some; see `nearest_before`."""
        return nearest_before(self._in_metric(), rows, self.n_before, self._eps)

    def _in_metric(self):
        return self.located(self.sites.X, self.metric)

    def located(self, X, length_scale):
        """Rows as `nearest` takes them: in length scales, and categories in discs."""
        scaled = np.ascontiguousarray(in_lengths(X - self.middle, length_scale))
        some = self.covariance.categorical
        if not len(some):
            return scaled
        return in_discs(np.delete(scaled, some, axis=1), X[:, some], length_scale[some])

    def neighbourhoods(self, rows):
        """`Neighbourhoods` of some rows, (k,); those of the last rows are remembered."""
        if self._known is None or not np.array_equal(self._known.queried, rows):
            before, scaled = self.before(rows), self._in_metric()
            order = in_leaves(scaled[rows])
            is_some = np.zeros(len(scaled) + 1, dtype=bool)
            is_some[before], is_some[rows], is_some[-1] = True, True, False
            some = np.flatnonzero(is_some)
            some = some[in_leaves(scaled[some])]
            places = np.full(len(scaled) + 1, -1)  # The last is that of no neighbour.
            places[some] = np.arange(len(some))
            self._known = Neighbourhoods(
                rows, order, self.sites.select(some), places[rows[order]], places[before[order]]
            )
        return self._known

    def log_likelihood(self, theta, batch):
        """Weighted sum of log p(y_i | y_N(i)) over some rows."""
        return np.array([batch.weight @ self.densities(one, batch.place) for one in theta])

    def gradient(self, theta, rows, weight):
        """Weighted sum of log densities of some rows, and its gradient by theta."""
        term, known = self.covariance.term(theta), self.neighbourhoods(rows)
        sites, X = known.sites, scaled_rows(term, known.sites.X, self.middle)
        noise, weight = noise_of_means(term, sites), weight[known.order]
        share, size = 1.0 / sites.weight, 3 + X.shape[1]

        def of(start):
            some, out = slice(start, start + _ROWS), np.zeros(size)
            density_gradient(
                known.rows[some], X, sites.y, noise, share, weight[some], known.before[some],
                term.amplitude, term.shape, term.apart, out,
            )  # fmt: skip
            return out

        total = sum(each(of, range(0, len(rows), _ROWS)), np.zeros(size))
        value, slope = log_density_of_copies(term, sites, known.rows)
        by_noise = total[2] + weight @ slope
        by_amplitude = total[1] + MIN_NOISE * term.amplitude * by_noise
        return total[0] + weight @ value, self.covariance.fast.assembled(
            theta, by_amplitude, by_noise, total[3:]
        )

    def densities(self, theta, queried):
        """Log p(y_i | y_N(i)) of some rows, (k,)."""
        term, known = self.covariance.term(theta), self.neighbourhoods(queried)
        sites, rows = known.sites, known.rows
        X, noise = scaled_rows(term, sites.X, self.middle), noise_of_means(term, sites)
        mean, variance = _moments(term, X[rows], X, sites.y, noise, known.before)
        of_means = log_normal(sites.y[rows], mean, variance + noise[rows])
        out = np.empty(len(rows))
        out[known.order] = log_density_of_copies(term, sites, rows)[0] + of_means
        return out

    def best_evidence(self, particles):
        """Log likelihood of all rows, of the best particle."""
        if self.n_inducing:
            return super().best_evidence(particles)
        best = particles.theta[particles.log_ratio.argmax()]
        return float(self.log_likelihood(best[None], self.all_rows())[0])

    def all_rows(self, n=None):
        """Each row once, or each of the first, as a batch."""
        n = len(self.sites.weight) if n is None else n
        return Batch(None, None, np.ones(n), place=np.arange(n))

    # ------------------------------------------------------------------ inducing inputs
    def prior_block(self, theta):
        """Zero; without inducing inputs there is no block."""
        return super().prior_block(theta) if self.n_inducing else np.empty((len(theta), 0))

    def statistics(self, theta, block, batch):
        """What the rows add, each with the places of its neighbours beside it in the batch."""
        if not self.n_inducing:
            return self.prior_block(theta)
        return super().statistics(theta, block, batch._replace(local=self.before(batch.place)))

    def _add(self, theta, conditional, batch, precision, linear, rest):
        super()._add(theta, self._under(theta), batch, precision, linear, rest)

    def _part(self, theta, known, batch):
        """What some rows add to the precision's lower triangle, the linear part and the rest."""
        places, weight, sites = batch.place, batch.weight, self.sites
        V, shift, variance = self._left(
            theta, known, known.scaled[places], known.whitened[places], batch.local
        )
        variance += known.noise[places]
        y, p = sites.y[places] - shift, weight / variance
        rest = weight @ log_density_of_copies(self.covariance.term(theta), sites, places)[0]
        rest -= 0.5 * self.n_targets * (weight @ np.log(2.0 * np.pi * variance))
        rest -= 0.5 * (p @ (y**2).sum(axis=1))
        linear = V.T @ (p[:, None] * y)
        V *= np.sqrt(p)[:, None]
        return dsyrk(1.0, V.T), linear, rest

    def _under(self, theta):
        """`RowsUnder` one particle; those of the last are remembered."""
        last, key = self._last, theta.tobytes()
        if last is None or last[0] != key:
            last = (
                key,
                RowsUnder(
                    scaled_rows(self.covariance.term(theta), self.sites.X, self.middle),
                    noise_of_means(self.covariance.term(theta), self.sites),
                    self._whitened(theta, self.sites.X),
                ),
            )
            self._last = last if self.n_inducing else None
        return last[1]

    def _whitened(self, theta, X):
        """v_x of rows, (n, M)."""
        if not self.n_inducing:
            return np.empty((len(X), 0))
        return np.ascontiguousarray(self.whitened(theta, X).T)

    def _left(self, theta, known, points, whitened, near):
        """What neighbours leave of v_x of some points, (k, M), their part of means, and variances.

        Points (k, p) are in length scales, ``whitened`` (k, M) are their v_x, and ``near`` (k, c)
        the places of their neighbours, -1 after the last.
        """
        term, y = self.covariance.term(theta), self.sites.y
        if not self.n_inducing:
            return whitened, *_moments(term, points, known.scaled, y, known.noise, near)
        out, near = whitened.copy(), np.ascontiguousarray(near)
        shift, variance = np.empty((len(points), self.n_targets)), np.empty(len(points))

        def fill(some):
            at = np.maximum(near[some], 0)
            both = np.concatenate([known.whitened[at], whitened[some, None]], axis=1)
            weights = np.empty(at.shape)
            regression_weights(
                points[some], known.scaled, both @ both.transpose(0, 2, 1), known.noise,
                near[some], term.amplitude, term.shape, term.apart, weights, variance[some],
            )  # fmt: skip
            out[some] -= (weights[:, None] @ both[:, :-1])[:, 0]
            shift[some] = (weights[:, None] @ y[at])[:, 0]

        step = max(1, _AT_ONCE // ((near.shape[1] + 1) * self.n_inducing))
        each(fill, [slice(a, a + step) for a in range(0, len(points), step)])
        return out, shift, variance

    # ------------------------------------------------------------------ one particle
    def conditional(self, theta, block):
        """What predictions under one particle need; there is no block without inducing inputs."""
        located = self.located(self.sites.X, self.covariance.term(theta).length_scale)
        process = super().conditional(theta, block) if self.n_inducing else None
        return NearConditional(process, self._under(theta), index_of(located))

    def mean(self, theta, conditional, X):
        """Means of f at the rows of X under one particle, shape (n, t), those of `predict`."""
        return self.predict(theta, conditional, X)[0]

    def predict(self, theta, conditional, X, joint=False):
        """Moments of f at the rows of X under one particle: means (n, t) and variances (n,).

        With ``joint`` the covariance, of shape (n, n), stands in place of the variances: all rows
        of X are then conditioned on the neighbours of any of them, 3000 at most.
        """
        (process, known, index), term = conditional, self.covariance.term(theta)
        near = nearest(index, self.located(X, term.length_scale), self.n_nearest)
        points, whitened = scaled_rows(term, X, self.middle), self._whitened(theta, X)
        if joint:
            V, shift, left = self._left_together(theta, known, X, whitened, places_together(near))
        else:
            V, shift, left = self._left(theta, known, points, whitened, near)
        if process is None:
            return shift, left
        half = dtrsm(1.0, process.factor, V.T)
        more = half.T @ half if joint else np.einsum("ij,ij->j", half, half)
        return V @ process.mean + shift, left + more

    def _left_together(self, theta, known, X, whitened, some):
        """As `_left`, of points given the same rows; covariances (k, k) in place of variances."""
        V, X, rows = known.whitened[some], X - self.middle, self.sites.X[some] - self.middle
        pairs = ((rows, rows), (X, rows), (X, X))
        K, cross, left = (self.covariance.cross(theta, *pair) for pair in pairs)
        if self.n_inducing:
            K -= V @ V.T
            cross -= whitened @ V.T
            left -= whitened @ whitened.T
        K[np.diag_indices_from(K)] += known.noise[some]
        weights = cho_solve((jittered_cholesky(K, 0.0), True), cross.T).T
        taken = weights @ cross.T
        left -= 0.5 * (taken + taken.T)
        return whitened - weights @ V, weights @ self.sites.y[some], left

    def left_out(self, theta, rows):
        """Means (k, t) and variances (k,) of some rows' targets, given the nearest of all others.

        The variance is that of a row's mean, noise included.
        """
        mean, variance = self.process_left_out(theta, rows)
        term = self.covariance.term(theta)
        return mean, variance + noise_of_means(term, self.sites.select(rows))

    def process_left_out(self, theta, rows):
        """As `left_out`, of the process at some rows: without their noise."""
        term = self.covariance.term(theta)
        X, noise = scaled_rows(term, self.sites.X, self.middle), noise_of_means(term, self.sites)
        located = self.located(self.sites.X, term.length_scale)
        near = nearest(index_of(located), located[rows], self.n_alone + 1)
        # A row is its own neighbour, but not always the first: rows of other noise may lie there.
        order = np.argsort(near == rows[:, None], axis=1, kind="stable")[:, : near.shape[1] - 1]
        near = np.take_along_axis(near, order, axis=1)
        return _moments(term, X[rows], X, self.sites.y, noise, near)

    def log_density_left_out(self, theta, rows):
        """Log densities of some rows' targets, (k,), given the nearest of all others."""
        return log_normal(self.sites.y[rows], *self.left_out(theta, rows))


def places_together(near):
    """Places of all points' neighbours, in order; those of many points are not all of them."""
    # Columns of all points' neighbours in turns: the nearest of each come first.
    ordered = near.T.ravel()
    return np.sort(ordered[np.sort(np.unique(ordered, return_index=True)[1])][:_MAX_JOINT])


def _middle(X):
    """What is taken from columns, (p,): of three quantiles the one that is nearest to zero.

    The middle of the range is as far away as an outlier, beside which all other rows are one; so
    may be the median, where a column says what is missing by a large number.
    """
    found = np.quantile(X, [0.1, 0.5, 0.9], axis=0)
    return np.take_along_axis(found, np.abs(found).argmin(axis=0)[None], axis=0)[0]


def scaled_rows(term, X, middle):
    """Inputs about a middle, for those far from zero would be rounded away, in length scales."""
    return np.ascontiguousarray(in_lengths(X - middle, term.length_scale))


def noise_of_copies(term, sites):
    """Noise of each copy of a row; no row is without any, or it would weigh infinitely.

    A trifle is added, where a maximum would have a kink that searches cannot see.
    """
    return term.noise + sites.noise_variance + MIN_NOISE * term.amplitude


def noise_of_means(term, sites):
    """Noise of the mean of a row's copies."""
    return noise_of_copies(term, sites) / sites.weight


def log_density_of_copies(term, sites, rows):
    """What copies of rows add to the densities of their means, and the slopes by the noise."""
    some, t = sites.select(rows), sites.y.shape[1]
    w, single = some.weight, noise_of_copies(term, some)
    value = -0.5 * (t * ((w - 1.0) * (_LOG_TWO_PI + np.log(single)) + np.log(w)))
    value -= 0.5 * some.squares / single
    slope = -0.5 * (t * (w - 1.0) - some.squares / single) / single
    return value, slope


def _moments(term, points, X, y, noise, neighbours):
    """Means (k, t) and variances (k,) of the process at points, in length scales."""
    mean, variance = np.empty((len(points), y.shape[1])), np.empty(len(points))
    points, neighbours = np.ascontiguousarray(points), np.ascontiguousarray(neighbours)

    def of(start):
        some = slice(start, start + _ROWS)
        conditional_moments(
            points[some], X, y, noise, neighbours[some], term.amplitude, term.shape, term.apart,
            mean[some], variance[some],
        )  # fmt: skip

    each(of, range(0, len(points), _ROWS))
    return mean, variance
