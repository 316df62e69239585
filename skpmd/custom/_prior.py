"""The prior of a user's model: its functions, the support it has, and whether they agree.

A prior may be given by name, as distributions of SciPy or an earlier posterior, or as two
functions. Then it is checked without any data whether ``sample_prior`` draws from the density that
``log_prior`` gives.

Metropolis steps under ``log_prior`` leave draws of that density as they are distributed, whatever
the proposals. So their statistics, before and after, differ by chance alone if the two agree: an
exact null. The statistics are bounded, so that heavy tails do no harm: ranks among other draws, the
squares and products of these, and ranks of ``log_prior`` itself.

A constant factor of the density is invisible to Metropolis steps. Bridge sampling between the draws
and a Student density fitted to others of them estimates it (Meng and Wong, Statistica Sinica 1996).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from skpmd._base.merging import check_equal, refuse_copies
from skpmd._base.options import coordinates_named, posterior_of_prior
from skpmd._base.results import Shown
from skpmd._export import Variable
from skpmd._runtime.call import phase
from skpmd.custom._distributions import part_of
from skpmd.engine import mirror
from skpmd.engine.edges import NoValuesError, Unbounded, edges, of_numbers, without_errors
from skpmd.engine.importance import Proposal, draw, log_density
from skpmd.engine.particles import accepted, log_sum_exp, select
from skpmd.posterior import Posterior
from skpmd.proposals import fitted_density
from skpmd.proposals.density_product import Shard
from skpmd.proposals.fitted_density import FittedDensity

# So many draws are moved, the fewer where there are many coordinates; as many others give ranks,
# scales and the Student density.
_N_DRAWS, _N_DRAWS_OF_MANY, _MANY = 4000, 1000, 20
_STEPS_PER_COORDINATE, _MIN_STEPS, _MAX_STEPS = 5, 12, 60
_DISTINCT = 0.9  # A coordinate with a smaller share of distinct draws is one of whole numbers.
_MAX_IMPOSSIBLE = 500  # So many impossible proposals of each step tell of edges.
_SIZES = np.array([0.1, 0.5, 2.0])  # Of proposals, in distances between quartiles.
_MAX_PRODUCTS = 100  # Products are of so many coordinates, at most.
_FALSE_ALARMS = 1e-5  # The probability of one, over all statistics.
_DF, _JITTER, _ITERATIONS = 5.0, 1e-9, 50
_MAX_ERROR = 0.1  # A constant is known from this standard error on, in nats.
_MIN_GAP, _ERRORS = 0.02, 5.0  # It is wrong where it is off by more nats and standard errors.
# Log priors of shards may differ by so much, beside a constant: they are the user's own functions,
# which may have been pickled.
_SAME = 1e-6
_COMPARED = 200  # Particles of each shard that they are compared at.


class PriorFunctions(NamedTuple):
    """What a model needs of a prior."""

    log_prior: Any  # Of particles (m, d), -inf off the support; (m,).
    sample_prior: Any  # Of a generator and m; (m, d).
    names: list | None = None  # Of the coordinates, where they are known.
    # Whether the one is known to draw from the other, so that nobody need check.
    agree: bool = False
    support: tuple | None = None  # Lower and upper edges of the coordinates, where known.
    density: FittedDensity | None = None  # What stands for an earlier posterior.
    variables: dict | None = None  # Parameters that functions take parts of theta by.
    coords: Any = None  # Labels along the axes of these.

    @property
    def pareto_k(self):
        """k-hat of an earlier posterior over its density; None where unknown."""
        return None if self.density is None else self.density.pareto_k


def prior_functions(prior, log_prior, sample_prior, names=None):
    """The functions of a prior that is given in one of two ways; ValueError if by none or both.

    ``prior`` is a dict of names to frozen distributions of `scipy.stats`, independent of each
    other, or an earlier posterior; the other way are the functions themselves. ``names`` are those
    of coordinates, to find them in an earlier posterior by.
    """
    given = log_prior is not None, sample_prior is not None
    if prior is None:
        if not all(given):
            missing = "log_prior" if not given[0] else "sample_prior"
            raise ValueError(
                f"{missing} is not given: give log_prior and sample_prior, or prior in their place."
            )
        return PriorFunctions(log_prior, sample_prior, names)
    if any(given):
        both = "log_prior" if given[0] else "sample_prior"
        raise ValueError(f"prior and {both} are both given: set one of them to None.")
    if isinstance(prior, Mapping):
        functions = _of_distributions(prior)
        return functions if names is None else _renamed(functions, names)
    posterior = posterior_of_prior(prior)
    if not isinstance(posterior, Posterior):
        raise TypeError(
            "prior must be a dict of distributions of scipy.stats, a Posterior or a fitted "
            f"estimator that has one, got {type(posterior).__name__}."
        )
    variables, coords = (posterior.variables, posterior.coords) if names is None else (None, None)
    names = list(posterior.names) if names is None else names
    places = coordinates_named(posterior, names)
    density, support = posterior.fitted_density(places), posterior.support
    return PriorFunctions(
        log_prior=partial(fitted_density.log_density, density),
        sample_prior=lambda rng, m: fitted_density.sample(density, m, rng),
        names=names,
        agree=True,
        support=None if support is None else tuple(edge[places] for edge in support),
        density=density,
        variables=variables or {name: Variable(np.array(j)) for j, name in enumerate(names)},
        coords=coords,
    )


def _renamed(functions, names):
    """The functions with other names of coordinates; parameters keep theirs."""
    coords = {
        one.dims[0]: [names[j] for j in one.columns if j < len(names)]
        for one in functions.variables.values()
        if len(one.dims) == 1
    }
    return functions._replace(names=names, coords=coords)


def _of_distributions(prior):
    """The functions of independent distributions, one after another."""
    parts = [part_of(name, distribution) for name, distribution in prior.items()]
    if not parts:
        raise ValueError("prior holds no distribution: give one or more.")
    ends = np.cumsum([len(part.names) for part in parts])[:-1]
    variables, last = {}, 0
    for name, part in zip(prior, parts, strict=True):
        first, last = last, last + len(part.names)
        dims = tuple(f"{name}_dim_{k}" for k in range(len(part.shape)))  # As ArviZ has them.
        variables[name] = Variable(np.arange(first, last).reshape(part.shape), dims)

    def log_prior(theta):
        pieces = np.split(theta, ends, axis=1)
        with np.errstate(all="ignore"):
            return sum(part.log_density(x) for part, x in zip(parts, pieces, strict=True))

    def sample_prior(rng, m):
        return np.concatenate([part.sample(rng, m) for part in parts], axis=1)

    names = [name for part in parts for name in part.names]
    if len(set(names)) < len(names):
        raise ValueError(f"prior names a coordinate twice: {names}.")
    lower, upper = zip(*(part.support for part in parts), strict=True)
    support = np.concatenate(lower), np.concatenate(upper)
    return PriorFunctions(
        log_prior, sample_prior, names, agree=True, support=support, variables=variables
    )


# ------------------------------------------------------------------- support
def shown_of(prior, given, found=None):
    """`Shown` particles, with what is known of their support.

    ``prior`` is the `PriorCheck` and ``given`` the `PriorFunctions`. ``found`` are edges of the
    likelihood, where they are known.
    """
    log_prior = given.log_prior if prior.has_more_edges else None
    support = prior.support if found is None else found
    return Shown(
        names=given.names, variables=given.variables, coords=given.coords, support=support,
        log_prior=log_prior,
    )  # fmt: skip


def edges_given_rows(model, batches, outcome, support):
    """Edges of the posterior, (d,) each: the prior's, and what the likelihood adds to them.

    It is asked only where particles show that it has an edge, because some within the prior are
    impossible, or where the fit has found edges. None where there is nothing to add, or no time.
    """
    particles = outcome.particles
    if outcome.support is not None:
        return _within(outcome.support, support)
    theta, dead = particles.theta, particles.log_ratio == -np.inf
    if outcome.ended_early or not (dead & (particles.log_prior > -np.inf)).any():
        return None

    log_joint = partial(mirror.log_joint, model, batches, 1.0)
    found = edges(without_errors(log_joint), np.unique(theta[~dead], axis=0))
    return _within(found, support)


def _within(found, support):
    if support is None:
        return found
    return np.maximum(found[0], support[0]), np.minimum(found[1], support[1])


# ------------------------------------------------------------------- a prior that is given twice
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
        lower, upper = edges(of_numbers(model.log_prior), others[:m])
        between = ((impossible > lower) & (impossible < upper)).all(axis=1).any()
        return found._replace(support=(lower, upper), has_more_edges=bool(between))
    except NoValuesError:
        return PriorCheck()


def _checked(model, others, draws, rng):
    """The `PriorCheck` without its edges, and points (k, d) where the density is zero."""
    log_prior, (m, d), nowhere = of_numbers(model.log_prior), draws.shape, draws[:0]
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
        impossible.append(proposed[of_proposed == -np.inf][:_MAX_IMPOSSIBLE])
        taken, _ = accepted(of_proposed - values, rng)
        theta, values = select(taken, (proposed, of_proposed), (theta, values))
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
    excess = z / stats.norm.isf(0.25 * _FALSE_ALARMS / n_alike)
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
    scores = stats.norm.ppf((stats.rankdata(draws, axis=0) - 0.5) / len(draws))
    correlation = np.atleast_2d(np.corrcoef(scores.T)) + _JITTER * np.eye(len(centre))
    scale = (high - low) / (2.0 * stats.t.ppf(0.75, _DF))
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


# ------------------------------------------------------------------- priors of shards
def shards_of(models, posteriors):
    """A `Shard` for each posterior; ``models`` give their priors, which have to be the same."""
    refuse_copies([one.particles for one in posteriors])
    check_equal("The length of theta", [one.particles.shape[1] for one in posteriors])
    log_priors = [without_errors(model.log_prior) for model in models]
    for k, posterior in enumerate(posteriors):
        theta = np.concatenate([one.particles[:_COMPARED] for one in (posteriors[0], posterior)])
        first, own = log_priors[0](theta), log_priors[k](theta)
        with np.errstate(invalid="ignore"):  # Beyond an edge both are -inf.
            apart = np.ptp(own - first)
        size = 1.0 + np.abs(first[np.isfinite(first)]).max(initial=0.0)
        if not apart <= _SAME * size:
            raise ValueError(
                f"the prior of estimators[{k}] is not that of estimators[0]: at particles of both, "
                f"differences of their log densities vary by {apart:.3g}. Fit all shards under one."
            )
    densities = [posterior.fitted_density() for posterior in posteriors]
    return [Shard(*both) for both in zip(densities, log_priors, strict=True)]
