"""A prior by name, as the two functions of one, and the support that a posterior has from it.

By name are distributions of SciPy, or an earlier posterior.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from skpmd._base.options import coordinates_named, posterior_of_prior
from skpmd._base.results import Shown
from skpmd.engine import mirror
from skpmd.engine.edges import edges, without_errors
from skpmd.posterior import Posterior
from skpmd.proposals import fitted_density
from skpmd.proposals.fitted_density import FittedDensity

_LINE_ENDS, _ROUNDING = 1e6, 1e-6  # Where the distribution function of anything on the line ends.


class PriorFunctions(NamedTuple):
    """What a model needs of a prior."""

    log_prior: Any  # Of particles (m, d), -inf off the support; (m,).
    sample_prior: Any  # Of a generator and m; (m, d).
    names: list | None = None  # Of the coordinates, where they are known.
    # Whether the one is known to draw from the other, so that nobody need check.
    agree: bool = False
    support: tuple | None = None  # Lower and upper edges of the coordinates, where known.
    density: FittedDensity | None = None  # What stands for an earlier posterior.

    @property
    def pareto_k(self):
        """k-hat of an earlier posterior over its density; None where unknown."""
        return None if self.density is None else self.density.pareto_k


def prior_functions(prior, log_prior, sample_prior, names=None):
    """The functions of a prior that is given in one of two ways; ValueError if by none or both.

    Parameters
    ----------
    prior : dict, Posterior, estimator or None
        A dict of names to frozen distributions of `scipy.stats`, independent of each other; or an
        earlier posterior.
    log_prior, sample_prior : callable or None
        The functions themselves.
    names : list of str, optional
        Of the coordinates, to find them in an earlier posterior by.
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
        return functions if names is None else functions._replace(names=names)
    posterior = posterior_of_prior(prior)
    if not isinstance(posterior, Posterior):
        raise TypeError(
            "prior must be a dict of distributions of scipy.stats, a Posterior or a fitted "
            f"estimator that has one, got {type(posterior).__name__}."
        )
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
    )


def _of_distributions(prior):
    """The functions of independent distributions, one after another."""
    parts = [_part(name, distribution) for name, distribution in prior.items()]
    if not parts:
        raise ValueError("prior holds no distribution: give one or more.")
    ends = np.cumsum([len(part.names) for part in parts])[:-1]

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
    return PriorFunctions(log_prior, sample_prior, names, agree=True, support=support)


class _Part(NamedTuple):
    names: list  # Of its coordinates.
    log_density: Any  # Of points (m, k); (m,).
    sample: Any  # Of a generator and m; (m, k).
    support: tuple  # Lower and upper edges, (k,) each.


def _part(name, distribution):
    """The coordinates of one distribution; TypeError where it is no continuous one."""
    if not isinstance(name, str):
        raise TypeError(f"prior has the key {name!r}: keys are the names of parameters, str.")
    if isinstance(distribution, _many_dimensional()):
        d = np.size(distribution.rvs(random_state=np.random.default_rng(0)))
        return _Part(
            _names(name, (d,)),
            lambda x: distribution.logpdf(x).reshape(len(x)),
            lambda rng, m: distribution.rvs(size=m, random_state=rng).reshape(m, d),
            (np.full(d, -np.inf), np.full(d, np.inf)),
        )
    is_family = isinstance(distribution, stats.rv_continuous)  # Without its parameters.
    if is_family or not (hasattr(distribution, "logpdf") and hasattr(distribution, "support")):
        raise TypeError(
            f"prior[{name!r}] must be a continuous distribution of scipy.stats with its parameters "
            "(a frozen one, such as scipy.stats.norm(0, 1)), or a multivariate normal or t; got "
            f"{distribution!r}."
        )
    shape = np.broadcast_shapes(*(np.shape(edge) for edge in distribution.support()))
    size = int(np.prod(shape))
    draw = _drawing(distribution)
    with np.errstate(all="ignore"):
        if not np.isfinite(draw(np.random.default_rng(0), (1, *shape))).all():
            raise ValueError(f"prior[{name!r}] draws nan or infinite numbers: {distribution!r}.")

    if hasattr(distribution, "cdf") and (distribution.cdf(_LINE_ENDS) > 1.0 + _ROUNDING).any():
        raise ValueError(
            f"prior[{name!r}] is a distribution on a circle, whose density has no end on the line: "
            f"{distribution!r}. Give one on an interval, such as scipy.stats.vonmises_line."
        )
    lower, upper = (np.broadcast_to(edge, shape) for edge in distribution.support())
    inside = np.nextafter(lower, upper), np.nextafter(upper, lower)

    def log_density(x):
        values = distribution.logpdf(x.reshape(len(x), *shape)).reshape(len(x), size)
        return np.where(np.isnan(values), -np.inf, values).sum(axis=1)

    return _Part(
        _names(name, shape),
        log_density,
        # A draw that has been rounded to an edge may have no density there.
        lambda rng, m: np.clip(draw(rng, (m, *shape)), *inside).reshape(m, size),
        (lower.ravel(), upper.ravel()),
    )


def _drawing(distribution):
    """``draw(rng, size)`` of a distribution of SciPy, frozen or of its newer kind."""
    if hasattr(distribution, "rvs"):
        return lambda rng, size: np.asarray(distribution.rvs(size=size, random_state=rng))
    # The newer kind puts its own shape behind that of the sample.
    return lambda rng, size: np.asarray(distribution.sample(size[:1], rng=rng))


def _names(name, shape):
    """Names of the entries of an array, as exports and summaries have them."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, place))}]" for place in np.ndindex(*shape)]


def _many_dimensional():
    """Classes of frozen distributions over vectors that have no edges."""
    return type(stats.multivariate_normal([0.0])), type(stats.multivariate_t([0.0]))


# ------------------------------------------------------------------- support
def shown_of(prior, given, found=None):
    """`Shown` particles, with what is known of their support.

    ``prior`` is the `PriorCheck` and ``given`` the `PriorFunctions`. ``found`` are edges of the
    likelihood, where they are known.
    """
    log_prior = given.log_prior if prior.has_more_edges else None
    support = prior.support if found is None else found
    return Shown(names=given.names, support=support, log_prior=log_prior)


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
