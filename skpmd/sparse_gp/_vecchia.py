"""A Gaussian process in which each row is conditioned on its nearest rows before it.

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
"""

import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from skpmd._rows.rows import distinct
from skpmd._runtime.threads import each
from skpmd.engine.model import Batch
from skpmd.sparse_gp._covariance import in_lengths
from skpmd.sparse_gp._kernels import conditional_moments, density_gradient
from skpmd.sparse_gp._model import MIN_NOISE, Process, jittered_cholesky, log_normal
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
_N_LIKELIHOOD, _N_PREDICTION = 20, 100  # Neighbours of a row and of a prediction, by default.


class Sites(NamedTuple):
    """Rows of distinct inputs, or of different noise at one, in the order of the likelihood."""

    X: np.ndarray  # (n, p): Inputs.
    y: np.ndarray  # (n, t): Weighted means of the targets.
    noise_variance: np.ndarray  # (n,): Of each copy, beside the kernel's.
    weight: np.ndarray  # (n,): How many copies there are.
    squares: np.ndarray  # (n,): Weighted sums of squares about the means, of all targets.

    def select(self, places):
        """Some of the rows."""
        return Sites(*(column[places] for column in self))

    def merged(self):
        """The distinct rows, sorted, and the place of the first of each.

        The squares of rows that become one are joined by those of their means about the new one.
        """
        first, which = distinct(np.column_stack([self.noise_variance, self.X]))
        n, w = len(first), self.weight
        total = np.bincount(which, w, n)
        mean = np.stack([np.bincount(which, w * column, n) / total for column in self.y.T], axis=1)
        within = self.squares + w * ((self.y - mean[which]) ** 2).sum(axis=1)
        squares = np.bincount(which, within, n)
        return Sites(self.X[first], mean, self.noise_variance[first], total, squares), first


class Neighbourhoods(NamedTuple):
    """Some rows, and the nearest rows before each in the metric of a kernel.

    Near rows follow each other in memory and in turn, which saves half of the time where many are.
    """

    queried: np.ndarray  # (k,): Places of the rows among all.
    order: np.ndarray  # (k,): Which of them is taken when.
    sites: Sites  # The rows and their neighbours, which may be a small part of all.
    rows: np.ndarray  # (k,): Places of the rows among those, in that order.
    before: np.ndarray  # (k, c): Places of their neighbours, -1 after the last.


class NeighbourConditional(NamedTuple):
    """What predictions under one particle need."""

    index: Any  # Of the rows, for `nearest`.
    scaled: np.ndarray  # (n, p): The rows in length scales.
    noise: np.ndarray  # (n,): Of the rows' means.


class VecchiaGP(Process):
    """The process with a normal likelihood and a kernel that is fast.

    ``sites`` are all rows; ``batch.place`` of the contract says which of them a batch has, and
    ``batch.weight`` how often each of them counts in a sum. ``metric`` (p,) are the length scales
    in which neighbours are found, the same for all particles: sets that depended on the particle
    would give each a likelihood of its own.

    ``n_neighbors`` is the number of neighbours of a row and of a prediction; "auto" is 20 and 100.
    Those of a row may be further than the nearest by a share of ``eps``.
    """

    approximation = "vecchia"

    def __init__(self, covariance, prior, sites, metric, n_neighbors="auto", eps=0.0):
        self.covariance, self.prior, self.metric, self._eps = covariance, prior, metric, eps
        self.sites, self.middle = sites, 0.5 * (sites.X.min(axis=0) + sites.X.max(axis=0))
        auto = n_neighbors == "auto"
        self.n_before = _N_LIKELIHOOD if auto else n_neighbors
        self.n_nearest = _N_PREDICTION if auto else n_neighbors
        self._known = None

    def __getstate__(self):
        """What is pickled: not what can be made again."""
        return {**vars(self), "_known": None}

    def of(self, sites):
        """The same process with other rows."""
        model = copy.copy(self)
        model.sites, model._known = sites, None
        return model

    def under(self, covariance):
        """The same rows and neighbours under another covariance."""
        model = copy.copy(self)
        model.covariance, model._known = covariance, self._known
        return model

    @property
    def n_targets(self):
        """How many targets a row has."""
        return self.sites.y.shape[1]

    @property
    def n_stored(self):
        """Numbers that a prediction holds for each of its rows, roughly."""
        return 2 * self.n_nearest

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

    # ------------------------------------------------------------------ one particle
    def conditional(self, theta, block):
        """What predictions under one particle need; there is no block."""
        term = self.covariance.term(theta)
        X = self.sites.X
        return NeighbourConditional(
            index_of(self.located(X, term.length_scale)),
            scaled_rows(term, X, self.middle),
            noise_of_means(term, self.sites),
        )

    def mean(self, theta, conditional, X):
        """Means of f at the rows of X under one particle, shape (n, t), those of `predict`."""
        return self.predict(theta, conditional, X)[0]

    def predict(self, theta, conditional, X, joint=False):
        """Moments of f at the rows of X under one particle: means (n, t) and variances (n,).

        With ``joint`` the covariance, of shape (n, n), stands in place of the variances: all rows
        of X are then conditioned on the neighbours of any of them, 3000 at most.
        """
        term = self.covariance.term(theta)
        near = nearest(conditional.index, self.located(X, term.length_scale), self.n_nearest)
        if not joint:
            points, (_, rows, noise) = scaled_rows(term, X, self.middle), conditional
            return _moments(term, points, rows, self.sites.y, noise, near)
        some = places_together(near)
        weights, left = weights_together(
            self.covariance, theta, X - self.middle, self.sites.X[some] - self.middle,
            conditional.noise[some],
        )  # fmt: skip
        return weights @ self.sites.y[some], left

    def best_evidence(self, particles):
        """Log likelihood of all rows, of the best particle."""
        best = particles.theta[particles.log_ratio.argmax()]
        return float(self.log_likelihood(best[None], self.all_rows())[0])

    def all_rows(self):
        """Each row once, as a batch."""
        n = len(self.sites.weight)
        return Batch(None, None, np.ones(n), place=np.arange(n))

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
        near = nearest(index_of(located), located[rows], self.n_nearest + 1)
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


def weights_together(covariance, theta, points, rows, noise, explained=None):
    """Weights (k, n) of rows' targets in the means of points, and covariances (k, k) of these.

    ``explained`` are values (k, M) of the points and (n, M) of the rows, whose products are what is
    taken from covariances.
    """
    K, cross = covariance.cross(theta, rows, rows), covariance.cross(theta, points, rows)
    left = covariance.cross(theta, points, points)
    if explained is not None:
        of_points, of_rows = explained
        K -= of_rows @ of_rows.T
        cross -= of_points @ of_rows.T
        left -= of_points @ of_points.T
    K[np.diag_indices_from(K)] += noise
    weights = cho_solve((jittered_cholesky(K, 0.0), True), cross.T).T
    taken = weights @ cross.T
    return weights, left - 0.5 * (taken + taken.T)


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
