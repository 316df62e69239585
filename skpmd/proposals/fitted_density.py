"""A density fitted to weighted particles, to stand for a posterior where its data are gone.

It is what a posterior is as the prior of a further fit. It is a mixture of skew normals
(`skpmd.proposals.skew_mixture`), or up to five coordinates the particles' kernel density estimate,
if that is nearer (kernels fail above: their number grows exponentially with the coordinates). Both
have the mean and the covariance of the particles. Where values of the posterior density are known,
a polynomial takes up what that leaves of them: a skewness of .1, which places of 4000 particles
hardly show, is a nat at four standard deviations.

A wide normal component is added: what few particles have seen must not be all but impossible to
those who learn from further data. With Student tails in its place a likelihood that rises without
end, as of separable classes, would pull the next posterior out of the density: means of five
coefficients were .9 standard deviations off, and are .04.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_factor

from skpmd.engine import kde, polynomial
from skpmd.engine.diagnostics import MAX_K, heavy_tail, pareto_k
from skpmd.engine.edges import Unbounded
from skpmd.engine.importance import Proposal, draw, log_density_and_gradient
from skpmd.engine.importance import log_density as component_log_density
from skpmd.engine.kde import KDE
from skpmd.engine.particles import (
    effective_sample_size,
    log_sum_exp,
    moments,
    systematic,
    weights,
    whitened,
)
from skpmd.engine.polynomial import Polynomial
from skpmd.proposals import skew_mixture

_WITHIN = 0.99  # Share of the weight within `FittedDensity.radius`.
_N_NORMALISE = 1 << 14  # Draws that a correction is normalised by.
_MAX_SHIFT = 0.05  # A correction that moves a mean or an sd by more is none, in sds.
_TIMES, _MIN_DRAWS = 4, 1000  # Times as many draws are made under a correction, or so many.
_MAX_KERNELS = 5  # Kernels stand for a density of up to so many coordinates.
# The wide component's mass is smaller where values of the density are known: with 1e-3 a posterior
# four standard deviations away was .5 of its own off, and is .01.
_DEFENSIVE_SHARE, _DEFENSIVE_SHARE_BY_VALUES, _DEFENSIVE_FACTOR = 1e-3, 1e-6, 1.5


class FittedDensity(NamedTuple):
    """A normalised density of d coordinates.

    `fit` makes it, and `log_density`, `gradient` and `sample` of this module take it.

    Attributes
    ----------
    mean : ndarray of shape (d,)
        Mean of the particles.
    chol : ndarray of shape (d, d)
        Cholesky factor of their covariance.
    kernels : KDE or None
        The kernel density estimate; None where there are components.
    components : tuple of Proposal
        Components in place of kernels if there are none, and a wide one in any case.
    lus : tuple
        LU decompositions of their factors, as `scipy.linalg.lu_factor` has them.
    shares : ndarray of shape (k,)
        Of all kernels, if there are any, and of the components; they add up to 1.
    pareto_k : float or None
        k-hat of the posterior's weights over this density; None where its values are not known.
    misfit : float
        Spread of what it lacks of the log density, in nats; where values are not known, that of
        what a covariance of so few particles errs by.
    misses_a_tail : bool
        Whether the weights have a tail that averages would show.
    free : Unbounded or None
        What takes coordinates with edges, or in other units, to those that all of this is of; None
        where they are the same.
    radius : float
        Within it, in whitened coordinates, is 0.99 of the weight.
    correction : tuple of Polynomial and float, or None
        Correction of the log density, by values, and what it adds to the log of the integral, in
        nats; None where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd.proposals import fitted_density
    >>> rng = np.random.default_rng(0)
    >>> density = fitted_density.fit(rng.normal(size=(500, 2)), np.zeros(500))
    >>> theta = fitted_density.sample(density, 3, rng)
    >>> theta.shape, fitted_density.log_density(density, theta).shape
    ((3, 2), (3,))
    """

    mean: np.ndarray
    chol: np.ndarray
    kernels: KDE | None
    components: tuple
    lus: tuple
    shares: np.ndarray
    pareto_k: float | None = None
    misfit: float = 0.0
    misses_a_tail: bool = False
    free: object = None
    radius: float = np.inf
    correction: tuple[Polynomial, float] | None = None


def fit(theta, log_weights, log_joint=None, support=None, free=None):
    """Fit a density to weighted particles.

    Parameters
    ----------
    theta : ndarray of shape (m, d)
        Positions; in each direction they must vary.
    log_weights : ndarray of shape (m,)
        Log weights up to a constant.
    log_joint : ndarray of shape (m,), optional
        Log of the density that they are distributed by, up to a constant, where it is known: k-hat
        tells how well the fitted density covers it.
    support : tuple of two ndarray of shape (d,), optional
        Lower and upper edges of the coordinates, infinite where there are none.
    free : optional
        What takes coordinates to those in which the density is fitted, as `Unbounded` does it,
        where they have no edges.

    Returns
    -------
    FittedDensity
        Always the same for the same particles.
    """
    d = theta.shape[1]
    if support is not None and np.isfinite(support).any():
        free = Unbounded(None, *support)
    if free is not None:
        theta = free.outward(theta)
        log_joint = None if log_joint is None else log_joint + free.log_jacobian(theta)
    mean, cov = moments(theta, log_weights)
    chol = kde.cholesky(cov)
    share = _DEFENSIVE_SHARE if log_joint is None else _DEFENSIVE_SHARE_BY_VALUES
    length = np.linalg.norm(whitened(theta, mean, chol), axis=1)
    order = np.argsort(length)
    place = np.searchsorted(np.cumsum(weights(log_weights)[order]), _WITHIN)
    known = {"free": free, "radius": length[order[min(place, len(order) - 1)]]}
    found = [_defended(mean, chol, share, *skew_mixture.fit(theta, log_weights, mean, chol))]
    if d <= _MAX_KERNELS:
        kernels = kde.fit(theta, log_weights)
        found.append(_defended(mean, chol, share, (), np.ones(1), kernels))
    if log_joint is None:
        noise = d / np.sqrt(2.0 * effective_sample_size(log_weights))
        return found[-1]._replace(misfit=float(noise), **known)
    found += [
        one for one in (_corrected(one, theta, log_weights, log_joint) for one in found) if one
    ]
    density = min(found, key=lambda one: _misfit(one, theta, log_weights, log_joint))
    k, is_heavy = _coverage(density, theta, log_weights, log_joint)
    misfit = float(np.sqrt(_misfit(density, theta, log_weights, log_joint, 1.0)))
    return density._replace(pareto_k=k, misfit=misfit, misses_a_tail=is_heavy, **known)


def _defended(mean, chol, share, components, shares, kernels=None):
    """A `FittedDensity` of kernels or components, and the wide one with its share."""
    components = (*components, Proposal(mean, _DEFENSIVE_FACTOR * chol))
    shares = np.append((1.0 - share) * shares, share)
    lus = tuple(lu_factor(component.factor) for component in components)
    return FittedDensity(mean, chol, kernels, components, lus, shares)


def _corrected(density, theta, log_weights, log_joint):
    """A density with what it lacks of the log joint density; None where nothing can be said."""
    gap = log_joint - log_density(density, theta)
    gap -= weights(log_weights) @ gap
    correction = polynomial.fit(theta, log_weights, gap, density.mean, density.chol)
    if correction is None:
        return None
    draws = _draws(density, _N_NORMALISE, np.random.default_rng(0))
    log_ratio = polynomial.value(correction, draws)
    mean, cov = moments(draws, log_ratio)
    sd = np.linalg.norm(density.chol, axis=1)
    shift = np.abs(mean - density.mean) / sd
    if shift.max() > _MAX_SHIFT or np.abs(np.sqrt(np.diag(cov)) / sd - 1.0).max() > _MAX_SHIFT:
        return None  # Between the particles it is not what it is at them.
    log_mean = log_sum_exp(log_ratio) - np.log(len(draws))
    return density._replace(correction=(correction, log_mean))


def _misfit(density, theta, log_weights, log_joint, power=0.5):
    """Mean square of what a density lacks of the log joint density, in nats.

    Weights are taken to a power: flattened ones look at the tails too.
    """
    w = weights(power * log_weights)
    seen = w > 0.0
    w, gap = w[seen], log_joint[seen] - log_density(density, theta[seen])
    return w @ (gap - w @ gap) ** 2


def share_beyond(density, theta, log_weights):
    """Weight of those of other particles that are where the fitted ones hardly come."""
    theta = theta if density.free is None else density.free.outward(theta)
    u = whitened(theta, density.mean, density.chol)
    return float(weights(log_weights)[np.linalg.norm(u, axis=1) > density.radius].sum())


def log_density(density, theta):
    """Log density, normalised, at each row of theta, shape (n,); -inf beyond edges."""
    free = density.free
    if free is None:
        return _log_density(density, theta)
    out, inside = np.full(len(theta), -np.inf), free.within(theta)
    u = free.outward(theta[inside])
    out[inside] = _log_density(density, u) - free.log_jacobian(u)
    return out


def _log_density(density, theta):
    log = np.logaddexp.reduce(_log_terms(density, theta), axis=0)
    if density.correction is None:
        return log
    correction, log_normaliser = density.correction
    return log + polynomial.value(correction, theta) - log_normaliser


def gradient(density, theta):
    """Gradient of the log density at each row of theta, (n, d), where coordinates have no edges."""
    terms, slopes = [], []
    if density.kernels is not None:
        terms.append(kde.log_density(density.kernels, theta))
        slopes.append(kde.gradient(density.kernels, theta))
    for component, lu in zip(density.components, density.lus, strict=True):
        value, slope = log_density_and_gradient(component, theta, lu)
        terms.append(value)
        slopes.append(slope)
    terms = np.array(terms) + np.log(density.shares)[:, None]
    terms -= np.logaddexp.reduce(terms, axis=0)
    slope = np.einsum("kn,knd->nd", np.exp(terms), np.array(slopes))
    if density.correction is not None:
        slope += polynomial.gradient(density.correction[0], theta)
    return slope


def sample(density, n, rng):
    """Draw n points with a `numpy.random.Generator`, shape (n, d).

    Under a correction they are some of several times as many draws without it, by their weights.
    """
    if density.correction is None:
        theta = _draws(density, n, rng)
    else:
        many = _draws(density, max(_TIMES * n, _MIN_DRAWS), rng)
        w = weights(polynomial.value(density.correction[0], many))
        theta = rng.permutation(many[systematic(w, n, rng)])
    return theta if density.free is None else density.free.inward(theta)


def _draws(density, n, rng):
    """Draws without the correction, in coordinates without edges."""
    counts = rng.multinomial(n, density.shares)
    parts = []
    if density.kernels is not None:
        parts.append(kde.sample(density.kernels, counts[0], "multinomial", rng)[0])
    last = counts[len(parts) :]
    for component, count in zip(density.components, last, strict=True):
        parts.append(draw(component, count + count % 2, rng)[:count])
    return rng.permutation(np.concatenate(parts))


def _log_terms(density, theta):
    """Log of what kernels and components add to the density, a row each."""
    terms = [] if density.kernels is None else [kde.log_density(density.kernels, theta)]
    for component, lu in zip(density.components, density.lus, strict=True):
        terms.append(component_log_density(component, theta, lu))
    return np.array(terms) + np.log(density.shares)[:, None]


def _coverage(density, theta, log_weights, log_joint):
    """k-hat of the weights that the posterior would have over draws, and whether that is much.

    The particles are distributed by the posterior p and not by the density g. Where p / g has a
    Pareto tail of shape k under g, its tail under p is that of shape k / (1 - k): so k is had from
    the particles by the inverse of that.
    """
    chosen = np.unique(systematic(weights(log_weights), len(theta), np.random.default_rng(0)))
    log_ratio = log_joint[chosen] - log_density(density, theta[chosen])
    under_posterior = pareto_k(log_ratio)
    k = under_posterior / (1.0 + under_posterior) if under_posterior > 0.0 else under_posterior
    return k, k > MAX_K and heavy_tail(log_ratio, under_posterior)
