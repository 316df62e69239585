"""A kernel by the likelihood of rows given their neighbours: its best, and its posterior."""

from operator import itemgetter

import numpy as np

from skpmd._base.progress import write_line
from skpmd.engine.edges import Unbounded, edges
from skpmd.engine.fitted_proposals import fitted_proposals
from skpmd.engine.from_values import is_thin
from skpmd.engine.importance_rounds import importance_rounds
from skpmd.engine.loop import Outcome
from skpmd.engine.model import Batch
from skpmd.sparse_gp._exact_evidence import (
    IMPOSSIBLE,
    best_of,
    descended,
    starts_around,
    with_other_noise,
)
from skpmd.sparse_gp._vecchia import VecchiaGP

# Rounds of a search: the rows whose density it maximises, which it takes from so many of all, and
# its evaluations. In each the neighbours are those in the length scales that the round before has
# found. The first search starts from several places, on few rows, and the best of its ends goes on;
# the last needs many, for where tails are heavy a few rows decide the density of some thousands.
_FIRST = 1000, 50_000, 30
_ROUNDS = (2000, 50_000, 30), (4000, 200_000, 25), (8000, None, 15), (30_000, None, 12)
_CONVERGED = 1e-3  # Rounds on the same rows end when no log hyperparameter moves by more.
_STARTS, _SPREAD = 64, 0.3  # Searches for the posterior start from so many places around the best.
_WITHIN = 1e-3  # They lie inside the bounds by this share of their distance.
_MIN_SHARE, _MIN_ESS, _MIN_DRAWS = 0.05, 100.0, 400


def best_kernel(parameters, covariances, sites, sample, rng, start=None):
    """The covariance and hyperparameters of the largest likelihood of minibatches of rows.

    There may be several covariances, with the same hyperparameters (d,): one of them is chosen.
    ``start`` (d,) are those of an earlier fit; without it searches begin at the kernel's own, at
    others around it and at short length scales.
    """
    covariance, optimizer = covariances[0], parameters.optimizer
    if optimizer is None or not covariance.kernel.n_dims:
        return covariance, covariance.kernel.theta
    if callable(optimizer):
        kernel, (n_rows, n_all, _) = covariance.kernel, _ROUNDS[-1]
        batch = _Batch(parameters, covariance, sites, kernel.theta, n_rows, rng)
        theta, _ = optimizer(batch.objective, kernel.theta, bounds=kernel.bounds)
        return covariance, np.asarray(theta, dtype=np.float64)
    theta = start
    if start is None:
        covariance, theta = _first(parameters, covariances, sites, sample, rng)
    for n_rows, n_all, n_evaluations in _ROUNDS:
        some = _first_of(sites, n_all)
        before, batch = theta, _Batch(parameters, covariance, some, theta, n_rows, rng)
        write_line(f"kernel: search by the likelihood of {batch.n_rows} rows", parameters.verbose)
        theta = batch.search(theta, n_evaluations)
        if batch.is_all and np.abs(theta - before).max() < _CONVERGED:
            break
    return covariance, theta


def _first(parameters, covariances, sites, sample, rng):
    """The best end of searches from several places on few rows; its covariance comes first.

    All covariances but the first are searched from where that has ended.
    """
    covariance, (n_rows, n_all, n_evaluations) = covariances[0], _FIRST
    sites = _first_of(sites, n_all)
    kernel = covariance.kernel
    batch = _Batch(parameters, covariance, sites, kernel.theta, n_rows, rng)
    first = best_of(batch.value, with_other_noise(covariance, kernel.theta, sample))
    starts = starts_around(covariance, first, parameters.n_restarts_optimizer, rng)
    if len(starts) == len(covariances) == 1:
        return covariance, first
    # All are compared on the same rows: a bad end must not win by those of its search.
    rows = some_rows(len(sites.weight), _ROUNDS[0][0], rng)

    def ended(covariance, start):
        write_line(f"kernel: search by the likelihood of {n_rows} rows", parameters.verbose)
        batch = _Batch(parameters, covariance, sites, start, n_rows, rng)
        end = batch.search(start, n_evaluations)
        value = _Batch(parameters, covariance, sites, end, 0, rng, rows).value(end)
        return value, (covariance, end)

    ends = [ended(covariance, start) for start in starts]
    best = max(ends, key=itemgetter(0))
    others = [ended(other, best[1][1]) for other in covariances[1:]]
    return max([best, *others], key=itemgetter(0))[1]


def _first_of(sites, n):
    """The first of the rows, which are in random order: neighbours come before a row."""
    return sites if n is None or len(sites.weight) <= n else sites.select(slice(n))


class _Batch:
    """Some rows, with their neighbours in the length scales of ``metric_of``."""

    def __init__(self, parameters, covariance, sites, metric_of, n_rows, rng, rows=None):
        n = len(sites.weight)
        self._rows = some_rows(n, n_rows, rng) if rows is None else rows
        self._weight = np.ones(len(self._rows))
        # Per row, the first step of a search has a sensible length.
        self._unit = 1.0 / sites.weight[self._rows].sum()
        self.n_rows, self.is_all = len(self._rows), len(self._rows) == n
        metric = covariance.term(metric_of).length_scale
        self._model = VecchiaGP(covariance, None, sites, metric, parameters.n_neighbors)
        self._bounds = covariance.kernel.bounds

    def value(self, theta):
        """Log density of a row, on average."""
        batch = Batch(self._rows[:, None], None, self._weight)
        return float(self._model.log_likelihood(theta[None], batch)[0] * self._unit)

    def objective(self, theta, eval_gradient=True):
        """What a search minimises, as `GaussianProcessRegressor` hands it to an optimizer."""
        value, slope = self._model.gradient(np.asarray(theta), self._rows, self._weight)
        value, slope = -value * self._unit, -slope * self._unit
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            value, slope = IMPOSSIBLE, np.zeros(len(slope))
        return (value, slope) if eval_gradient else value

    def search(self, theta, n_evaluations):
        """The end of a search from theta."""
        low, high = self._bounds.T
        start = np.clip(theta, low, high)
        return descended(self.objective, start, self._bounds, n_evaluations)[0]


def some_rows(n, n_some, rng):
    """Places of some of n rows, in order; all of them, without randomness, if they are no more."""
    if n <= n_some:
        return np.arange(n)
    return np.sort(rng.choice(n, n_some, replace=False))


def states_of_kernels(model, rows, theta, n, rng):
    """States of importance reweighting of hyperparameters, for `skpmd.engine.loop.drive`.

    The density is that of ``rows`` (k,) and the prior. Proposals are fitted to it around its best
    hyperparameters ``theta`` (d,), and then along ridges if their weights fail.
    """
    batches = [Batch(rows[:, None], None, np.ones(len(rows)))]
    free = Unbounded(model, *edges(model.log_prior, model.sample_prior(rng, _STARTS)))
    draws = free.outward(_around(model, theta, rng))

    def log_joint(points):
        with np.errstate(all="ignore"):
            values = free.log_prior(points) + free.log_likelihood(points, batches[0])
        return np.where(np.isfinite(values), values, -np.inf)

    def of_theta(points):
        found = [model.gradient(one, rows, batches[0].weight) for one in points]
        by_prior = [_slope(model.log_prior, one) for one in points]
        values, slopes = zip(*found, strict=True)
        return np.array(values) + model.log_prior(points), np.array(slopes) + np.array(by_prior)

    values = log_joint(draws)
    seen = values - free.log_prior(draws)
    best = None
    for found in fitted_proposals(log_joint, draws, values, seen, rng, free.gradient(of_theta)):
        where = " along a ridge" if found.along_ridge else ""
        notes = {"method": f"importance reweighting of proposals fitted to the likelihood{where}"}
        for last in importance_rounds(
            free, batches, found.components, found.shares, max(n, _MIN_DRAWS), 1.0, rng,
            _MIN_SHARE, _MIN_ESS,
        ):  # fmt: skip
            best = Outcome(
                free.restored(last.particles), last.infos, True, pair=last.pair, notes=notes
            )
            yield best
        if not is_thin(best.particles):
            return


def _around(model, theta, rng):
    """Theta and places around it, inside the bounds of the kernel."""
    low, high = model.covariance.kernel.bounds.T
    inside = _WITHIN * (high - low)
    near = theta + _SPREAD * rng.standard_normal((_STARTS, len(theta)))
    near[0] = theta
    return np.clip(near, low + inside, high - inside)


def _slope(log_prior, theta, step=1e-5):
    """Gradient of a prior at one point, by differences of coordinates; 0 where it has none."""
    steps = step * np.eye(len(theta))
    with np.errstate(all="ignore"):
        ahead, behind = log_prior(theta + steps), log_prior(theta - steps)
        slope = (ahead - behind) / (2.0 * step)
    return np.where(np.isfinite(slope), slope, 0.0)
