"""A density fitted to weighted particles, to stand for a posterior where its data are gone.

It is what a posterior is as the prior of a further fit. It is a mixture of skew normals, or up to
five coordinates the particles' kernel density estimate, if that is nearer (kernels fail above:
their number grows exponentially with the coordinates). Both have the mean and the covariance of the
particles. Where values of the posterior density are known, a polynomial takes up what that leaves
of them: a skewness of .1, which places of 4000 particles hardly show, is a nat at four standard
deviations.

A wide normal component is added: what few particles have seen must not be all but impossible to
those who learn from further data. With Student tails in its place a likelihood that rises without
end, as of separable classes, would pull the next posterior out of the density: means of five
coefficients were .9 standard deviations off, and are .04.
"""

from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.linalg import lu_factor

from skpmd.engine import kde, polynomial
from skpmd.engine.diagnostics import MAX_K, heavy_tail, pareto_k
from skpmd.engine.edges import Unbounded
from skpmd.engine.importance import (
    Proposal,
    draw,
    log_density_and_gradient,
    most_skewed,
    skewed_by,
)
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

_WITHIN = 0.99  # Share of the weight within `FittedDensity.radius`.
_N_NORMALISE = 1 << 14  # Draws that a correction is normalised by.
_MAX_SHIFT = 0.05  # A correction that moves a mean or an sd by more is none, in sds.
_TIMES, _MIN_DRAWS = 4, 1000  # Times as many draws are made under a correction, or so many.
_MAX_KERNELS = 5  # Kernels stand for a density of up to so many coordinates.
# The wide component's mass is smaller where values of the density are known: with 1e-3 a posterior
# four standard deviations away was .5 of its own off, and is .01.
_DEFENSIVE_SHARE, _DEFENSIVE_SHARE_BY_VALUES, _DEFENSIVE_FACTOR = 1e-3, 1e-6, 1.5
_MAX_COMPONENTS, _MAX_EM, _EM_TOL = 8, 200, 1e-5
_MIN_POINTS = 2.0  # Each component has so many effective particles for each coordinate.
_MAX_KURTOSIS = 2.5  # A marginal with less (a normal one has 3) may be of several modes.
_JITTER = 1e-9  # Of covariances of components, in units of the whole.
# Skewness is measured on other particles than those that chose its axes, and counts from so many of
# its standard errors on.
_MIN_ERRORS = 3.0
_MAX_SKEWED = 200  # With more coordinates, finding skewed axes takes long.


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
    """The `FittedDensity` of weighted particles, always the same for the same ones.

    Particles (m, d) must vary in each direction; their ``log_weights`` (m,) are up to a constant.
    ``log_joint`` (m,) is the log of the density that they are distributed by, up to a constant,
    where it is known: k-hat tells how well the fitted density covers it. ``support`` are two arrays
    (d,) of edges, infinite where there are none, and ``free`` takes coordinates to those in which
    the density is fitted, as `Unbounded` does it, where they have no edges.
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
    found = [_defended(mean, chol, share, *skew_normals(theta, log_weights, mean, chol))]
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


# ------------------------------------------------------------------- mixtures of skew normals
def skew_normals(theta, log_weights, mean, chol):
    """Components (a `Proposal` each) of the mixture that has the largest BIC, and their shares.

    ``theta`` (m, d) are particles with ``log_weights`` (m,), ``mean`` and ``chol`` their moments.
    Expectation maximisation fits normals, with covariances of their own or one for all, which many
    coordinates have particles for; the Bayesian information criterion says how many there are and
    which of the two they have. Each is then made skew by the sinh-arcsinh map where its particles
    are. The result is always the same for the same particles.
    """
    white = whitened(theta, mean, chol)
    w, ess = weights(log_weights), effective_sample_size(log_weights)
    starts = _starting_points(theta, w, white)
    best, best_score = None, -np.inf
    for K in range(1, _MAX_COMPONENTS + 1):
        label = _labels(starts, w, K)
        found = [_candidate(white, w, ess, label, tied) for tied in (False, True)[: min(K, 2)]]
        top = max((one for one in found if one is not None), key=lambda one: one[0], default=None)
        if top is None or top[0] <= best_score:
            break
        best_score, best = top[0], top[1:]
    parts, shares = best
    moved = [p._replace(mean=mean + chol @ p.mean, factor=chol @ p.factor) for p in parts]
    return moved, shares


def _starting_points(theta, w, white):
    """Points that show clusters: coordinates with flat marginals, if there are any."""
    centred = theta - w @ theta
    scaled = centred / np.sqrt(w @ centred**2)
    flat = w @ scaled**4 < _MAX_KURTOSIS
    return scaled[:, flat] if flat.any() else white


def _labels(points, w, K):
    """Labels of K clusters of weighted points, (m,), by k-means on draws of equal weight."""
    if K == 1:
        return np.zeros(len(w), dtype=int)
    rng = np.random.default_rng(0)
    centres, _ = kmeans2(points[systematic(w, len(w), rng)], K, minit="++", rng=rng)
    return ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)


def _candidate(white, w, ess, label, tied):
    """BIC, components and shares of a mixture; None where a component has too few particles."""
    K, d = label.max() + 1, white.shape[1]
    responsibility = _responsibilities(white, w, ess, np.eye(K)[label], tied)
    if responsibility is None:
        return None
    normals = _normals(white, w, responsibility, tied)
    parts = [
        _skewed(white, w * column, ess, *normal)
        for column, normal in zip(responsibility.T, normals, strict=True)
    ]
    shares = w @ responsibility
    n_numbers = K - 1 + K * d + (1 if tied else K) * d * (d + 1) / 2
    n_numbers += sum(len(part.axes) for part in parts)
    terms = np.array([component_log_density(part, white) for part in parts]).T + np.log(shares)
    score = ess * (w @ np.logaddexp.reduce(terms, axis=1)) - 0.5 * n_numbers * np.log(ess)
    return score, parts, shares


def _responsibilities(white, w, ess, responsibility, tied):
    """Responsibilities (m, K) of normals by expectation maximisation; None as of a candidate."""
    d, last = white.shape[1], -np.inf
    for _ in range(_MAX_EM if responsibility.shape[1] > 1 else 0):
        shares = w @ responsibility
        if shares.min() * ess <= _MIN_POINTS * d:
            return None
        normals = _normals(white, w, responsibility, tied)
        terms = [component_log_density(Proposal(*normal), white) for normal in normals]
        terms = np.array(terms).T + np.log(shares)
        total = np.logaddexp.reduce(terms, axis=1)
        responsibility, mean_log = np.exp(terms - total[:, None]), w @ total
        if mean_log - last < _EM_TOL:
            break
        last = mean_log
    return responsibility


def _normals(white, w, responsibility, tied):
    """Means and Cholesky factors of weighted points, one for each column of responsibilities."""
    K, d = responsibility.shape[1], white.shape[1]
    shares, covariances = w @ responsibility, np.empty((K, d, d))
    means = (w[:, None] * responsibility).T @ white / shares[:, None]
    for k in range(K):
        centred = white - means[k]
        covariances[k] = (centred.T * (w * responsibility[:, k] / shares[k])) @ centred
    if tied:
        covariances[:] = np.tensordot(shares / shares.sum(), covariances, axes=1)
    chols = np.linalg.cholesky(covariances + _JITTER * np.eye(d))
    return list(zip(means, chols, strict=True))


def _skewed(white, w, ess, mean, chol):
    """A normal that is made skew along axes where one half of weighted points and the other are."""
    if len(mean) > _MAX_SKEWED:
        return Proposal(mean, chol)
    inner = whitened(white, mean, chol)
    splits = [slice(0, None, 2), slice(1, None, 2)]
    if any(not w[half].sum() > 0.0 for half in splits):  # One point may have all the weight.
        return Proposal(mean, chol)
    first, second = ((inner[half], w[half] / w[half].sum()) for half in splits)
    rotation = most_skewed(first[0], first[1][:, None])
    skewness = second[1] @ (second[0] @ rotation) ** 3
    error = np.sqrt(15.0 / max(0.5 * ess * w.sum(), 1.0))
    axes = np.flatnonzero(np.abs(skewness) > _MIN_ERRORS * error)
    return skewed_by(mean, chol @ rotation, axes, skewness[axes])
