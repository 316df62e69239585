"""Whether ``sample_prior`` draws from the density that ``log_prior`` gives, without any data.

Metropolis steps under ``log_prior`` leave draws of that density as they are distributed, whatever
the proposals. So their statistics, before and after, differ by chance alone if the two agree: an
exact null. The statistics are bounded, so that heavy tails do no harm: ranks among other draws, the
squares and products of these, and ranks of ``log_prior`` itself.

A constant factor of the density is invisible to Metropolis steps. Bridge sampling between the draws
and a Student density fitted to others of them estimates it (Meng and Wong, Statistica Sinica 1996).
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata, t

from skpmd._runtime.call import phase
from skpmd.engine import metropolis
from skpmd.engine.edges import NotANumberError, Unbounded, edges
from skpmd.engine.importance import Proposal, draw, log_density
from skpmd.engine.loop import is_ctrl_c
from skpmd.engine.particles import log_sum_exp

# So many draws are moved, the fewer where there are many coordinates; as many others give ranks,
# scales and the Student density.
_N_DRAWS, _N_DRAWS_OF_MANY, _MANY = 4000, 1000, 20
_STEPS_PER_COORDINATE, _MIN_STEPS, _MAX_STEPS = 5, 12, 60
_DISTINCT = 0.9  # A coordinate with a smaller share of distinct draws is one of whole numbers.
_KEPT = 500  # So many impossible proposals of each step tell of edges.
_SIZES = np.array([0.1, 0.5, 2.0])  # Of proposals, in distances between quartiles.
_MAX_PRODUCTS = 100  # Products are of so many coordinates, at most.
_FALSE_ALARMS = 1e-5  # The probability of one, over all statistics.
_DF, _JITTER, _ITERATIONS = 5.0, 1e-9, 50
_MAX_ERROR = 0.1  # A constant is known from this standard error on, in nats.
_MIN_GAP, _ERRORS = 0.02, 5.0  # It is wrong where it is off by more nats and standard errors.


class PriorCheck(NamedTuple):
    """What is wrong with a prior that is given twice."""

    mismatch: str = ""  # In words; empty where the draws agree with the density.
    log_integral: float = 0.0  # Log of what the density integrates to, 0 where that may be 1.
    # Lower and upper edges of the coordinates, (d,) each, infinite where there are none.
    support: tuple | None = None
    # Whether there are points between these edges where the density is zero.
    has_more_edges: bool = False


@phase("check of the prior")
def check_prior(model, rng):
    """The `PriorCheck` of a model; draws come from a generator of their own.

    ``rng`` is left as it is, so that a fit is the same with the check and without it.
    """
    rng = rng.spawn(1)[0]
    others = model.sample_prior(rng, _N_DRAWS)
    draws = model.sample_prior(rng, _N_DRAWS)
    m = _N_DRAWS if others.shape[1] <= _MANY else _N_DRAWS_OF_MANY
    try:
        found, impossible = _checked(model, others[:m], draws[:m], rng)
        lower, upper = edges(_log_prior_of(model), others[:m])
        between = ((impossible > lower) & (impossible < upper)).all(axis=1).any()
        return found._replace(support=(lower, upper), has_more_edges=bool(between))
    except _NoValuesError:
        return PriorCheck()


class _NoValuesError(Exception):
    """A density has raised: beyond its support it may, and the fit says whether it does inside."""


def _log_prior_of(model):
    """The log prior as a function that is -inf without a number, and raises one error for all."""

    def log_prior(theta):
        try:
            return model.log_prior(theta)
        except NotANumberError as error:
            return np.where(error.values < np.inf, error.values, -np.inf)
        except Exception as error:
            if is_ctrl_c(error):
                raise
            raise _NoValuesError from error

    return log_prior


def _checked(model, others, draws, rng):
    """The `PriorCheck` without its edges, and points (k, d) where the density is zero."""
    log_prior, (m, d), nowhere = _log_prior_of(model), draws.shape, draws[:0]
    with np.errstate(all="ignore"):
        of_others, of_draws = log_prior(others), log_prior(draws)
        outside = (~np.isfinite([of_others, of_draws])).sum()
        if outside:
            return PriorCheck(f"at {outside} of {2 * m} draws log_prior is not finite"), nowhere
        continuous = np.array([len(np.unique(column)) > _DISTINCT * m for column in others.T])
        if not continuous.any():
            return PriorCheck(), nowhere
        known = np.sort(_columns(others, of_others), axis=1)
        *moved, impossible = _moved(log_prior, draws, of_draws, others, continuous, rng)
        mismatch = _difference(_ranks(known, draws, of_draws), _ranks(known, *moved))
        if mismatch or not continuous.all() or d > _MANY:
            return PriorCheck(mismatch), impossible
        log_integral = _log_integral(log_prior, model, others, draws, rng)
        return PriorCheck(log_integral=log_integral), impossible


def _columns(theta, log_prior):
    return np.column_stack([theta, log_prior]).T


def _ranks(known, theta, log_prior):
    """Ranks (m, d + 1) of coordinates and of the log prior among sorted ones (d + 1, n).

    They are between -1/2 and 1/2; those of ties are the mean of the first and the last.
    """
    below = [
        np.searchsorted(own, column) + np.searchsorted(own, column, side="right")
        for own, column in zip(known, _columns(theta, log_prior), strict=True)
    ]
    return np.array(below).T / (2.0 * known.shape[1]) - 0.5


def _moved(log_prior, theta, values, others, continuous, rng):
    """Draws and their log prior after Metropolis steps, each of one coordinate of each draw.

    The third part is some of those proposals, (k, d), that were impossible.
    """
    impossible, m, columns = [theta[:0]], len(theta), np.flatnonzero(continuous)
    low, high = np.quantile(others, [0.25, 0.75], axis=0)
    n_steps = int(np.clip(_STEPS_PER_COORDINATE * len(columns), _MIN_STEPS, _MAX_STEPS))
    for _ in range(n_steps):
        at = rng.choice(columns, size=m)
        size = rng.choice(_SIZES, size=m) * (high - low)[at]
        proposed = theta.copy()
        proposed[np.arange(m), at] += size * rng.standard_normal(m)
        of_proposed = log_prior(proposed)
        impossible.append(proposed[of_proposed == -np.inf][:_KEPT])
        taken, _ = metropolis.accept(of_proposed - values, rng)
        theta, values = metropolis.select(taken, (proposed, of_proposed), (theta, values))
    return theta, values, np.concatenate(impossible)


def _difference(before, after):
    """Which statistic differs most, in words, if it does beyond chance; else an empty string."""
    d = before.shape[1] - 1
    first, last = before[:, :d][:, :_MAX_PRODUCTS], after[:, :d][:, :_MAX_PRODUCTS]
    pairs = np.triu_indices(first.shape[1])
    of_means = _in_errors((after - before).mean(axis=0), ((after - before) ** 2).mean(axis=0))
    m = len(before)
    product = (last.T @ last - first.T @ first) / m
    square = (last**2).T @ last**2 + (first**2).T @ first**2
    square = (square - 2.0 * (last * first).T @ (last * first)) / m
    of_products = _in_errors(product[pairs], square[pairs])
    z = np.sqrt(m) * np.abs(np.concatenate([of_means, of_products]))
    # Half of the false alarms are those of locations and spreads, however many pairs there are.
    single = np.append(np.ones(d + 1, dtype=bool), pairs[0] == pairs[1])
    n_alike = np.where(single, single.sum(), max(1, (~single).sum()))
    excess = z / norm.isf(0.25 * _FALSE_ALARMS / n_alike)
    worst = int(excess.argmax())
    if excess[worst] < 1.0:
        return ""
    return (
        f"{_named(worst, d, pairs)} moves by {z[worst]:.0f} standard errors when its draws take "
        "Metropolis steps under log_prior"
    )


def _in_errors(mean, square):
    """Means of differences in units of their sd; 0 where nothing has moved."""
    variance = np.maximum(square - mean**2, 0.0)
    return np.divide(mean, np.sqrt(variance), out=np.zeros_like(mean), where=variance > 1e-12)


def _named(which, d, pairs):
    if which < d:
        return f"the location of theta[:, {which}]"
    if which == d:
        return "log_prior itself"
    i, j = (int(side[which - d - 1]) for side in pairs)
    return f"the spread of theta[:, {i}]" if i == j else f"the relation of coordinates {i} and {j}"


def _log_integral(log_prior, model, others, draws, rng):
    """Log of what a density integrates to, 0 where nothing speaks against an integral of 1.

    All is done in coordinates without edges.
    """
    free = Unbounded(model, *edges(log_prior, others))
    u, student = free.outward(draws), _student(free.outward(others))
    ratios = [
        log_prior(free.inward(points)) + free.log_jacobian(points) - log_density(student, points)
        for points in (u, draw(student, len(u), rng))
    ]
    constant, error = _bridge(*ratios)
    wrong = error < _MAX_ERROR and abs(constant) > _MIN_GAP + _ERRORS * error
    return constant if wrong else 0.0


def _student(draws):
    """A Student density with the quartiles and the rank correlations of draws."""
    low, centre, high = np.quantile(draws, [0.25, 0.5, 0.75], axis=0)
    scores = norm.ppf((rankdata(draws, axis=0) - 0.5) / len(draws))
    correlation = np.atleast_2d(np.corrcoef(scores.T)) + _JITTER * np.eye(len(centre))
    scale = (high - low) / (2.0 * t.ppf(0.75, _DF))
    return Proposal(centre, scale[:, None] * np.linalg.cholesky(correlation), _DF)


def _bridge(of_draws, of_artificial):
    """Log integral of a density and its standard error, from log ratios to a normalised one.

    The ratios are at as many draws of either density.
    """
    m, constant = len(of_draws), 0.0
    for _ in range(_ITERATIONS):
        # Shares of the density in an even mixture of both, and of the normalised one.
        above = -np.logaddexp(0.0, constant - of_artificial)
        below = -np.logaddexp(0.0, of_draws - constant)
        change = log_sum_exp(above) - log_sum_exp(below)
        constant += change
        if abs(change) < 1e-6 or not np.isfinite(constant):
            break
    squared = [np.exp(2.0 * (np.log(side.std()) - np.log(side.mean()))) for side in
               (np.exp(above), np.exp(below))]  # fmt: skip
    return float(constant), float(np.sqrt(sum(squared) / m))
