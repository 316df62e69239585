"""What rejuvenations have cost: a running estimate of the error that they left in the means.

A rejuvenation replaces q by a density g with nearly the same moments. In coordinates in which q is
standard, log g - log q is, to third order, a linear form with the noise of the mean, a quadratic
form with the noise of the covariance, and a cubic form with the third cumulants T that g has lost.
Later steps move the mean by m and shrink the variance to rho, and the three then push the mean by
(in present standard deviations)

    sqrt(rho) ( e + W m + (T : (m m' + (rho - 1) I)) / 2 ).

Where the data obey the model, m has variance 1 - rho, and the expected square for a coordinate is

    rho ( c0 + c1 (1 - rho) + c2 (1 - rho)^2 ),  c0 = 1 / ESS,  c1 = (d + 1) / ESS,
                                                 c2 = sum_jk T_ijk^2 / 2.

It is a polynomial in the present variance, so that the sum over all rejuvenations is three numbers
for each coordinate. A step with coefficient a multiplies the past, and with it these errors, by
1 - a.

Coordinates here are what ``model.monitored`` makes of theta, linearly.
"""

import numpy as np
from scipy.special import ndtr, ndtri

from skpmd.engine.diagnostics import MAX_K, pareto_k
from skpmd.engine.particles import effective_sample_size, weights, whitened

NO_ERROR = np.zeros((1, 3))  # This is the account before the first rejuvenation.
UNKNOWN_ERROR = np.full((1, 3), np.nan)  # And this one where nobody has kept it.
_NO_WEIGHT = 1e-30  # A smaller weight is none.
_MAX_SCORED = 1000  # Third cumulants are averaged over so many particles, against all.
# Particles that have collapsed, or are 1e300 apart, have variances whose powers are numbers.
_MIN_VARIANCE, _MAX_VARIANCE, _MAX_TERM = 1e-90, 1e100, 1e6
_TAIL = 0.05  # The largest error exceeds the estimate with this probability.
_N_PROBES = 8  # The Hessian is differenced along so many random directions.
# Old particles speak of the new mean if so many are effective, beyond so many standard errors.
_MIN_ESS, _MAX_NOISE = 8.0, 3.0
_EDGE = 0.25  # q has an edge where it has less than this share of what a normal has beyond.
_BOUND = 3.0  # Of so many of its standard errors a variance may be wrong.
_RARE = 1e-3  # Data that obey the model make a longer move with this probability.
HIGHER = 1.6  # This factor is for orders above the third; it was set on pima in ten parts.


def add(error_terms, variance, c0=0.0, c1=0.0, c2=0.0):
    """Count the errors of one rejuvenation in, at which the coordinates had these variances.

    ``error_terms``, of shape (r, 3) or (1, 3), holds the coefficients of the polynomial so far;
    what is returned has the shape (r, 3). The variances of q have the shape (r,), and so have c0,
    c1 and c2, of the text of this module, unless they are floats.
    """
    c0, c1, c2 = (np.minimum(np.broadcast_to(c, variance.shape), _MAX_TERM) for c in (c0, c1, c2))
    own = np.stack([c0 + c1 + c2, -c1 - 2.0 * c2, c2], axis=1)
    return error_terms + own / np.clip(variance, _MIN_VARIANCE, _MAX_VARIANCE)[:, None] ** [1, 2, 3]


def fade(error_terms, a):
    """What a step of coefficient a leaves of the errors."""
    return error_terms * (1.0 - a) ** 2


def squared_error(error_terms, variance):
    """Expected squared errors of the means, in present variances, shape (r,)."""
    powers = np.clip(variance, _MIN_VARIANCE, _MAX_VARIANCE)[:, None] ** [1, 2, 3]
    return np.maximum((error_terms * powers).sum(axis=1), 0.0)


def largest(squared):
    """Bound on the largest of normal errors of these variances, with 95 % probability."""
    if np.isnan(squared).any():
        return np.nan
    sd = np.sqrt(squared[squared > 0.0])
    if not sd.size:
        return 0.0
    low, high = 0.0, 40.0 * sd.max()
    for _ in range(50):
        middle = 0.5 * (low + high)
        exceeds = 2.0 * ndtr(-middle / sd).sum() > _TAIL
        low, high = (middle, high) if exceeds else (low, middle)
    return float(high)


class RejuvenationErrors:
    """Observer of steps that keeps account of what rejuvenations lose.

    ``monitored`` is that of the model, and ``terms``, of shape (r, 3) or (1, 3), holds the
    coefficients so far of the polynomial above.
    """

    def __init__(self, monitored, terms=NO_ERROR):
        self.monitored, self.terms = monitored, terms

    def segment(self, a):
        """Take note of a segment of coefficient a."""
        self.terms = fade(self.terms, a)

    def rejuvenated(self, theta, estimate, shrinkage):
        """Take note of draws from the density estimate of particles theta."""
        self.terms = of_rejuvenation(self.terms, theta, estimate, shrinkage, self.monitored)

    def errors(self, particles):
        """Estimates of the largest error of a mean, in sds; see `errors_of`."""
        return errors_of(self.terms, particles, self.monitored)


def errors_of(terms, particles, monitored):
    """Estimates of the largest error of a mean, in sds: of rejuvenations, and with the particles'.

    The second adds the Monte Carlo error of the particles as they stand.
    """
    squared = squared_error(terms, _moments(particles, monitored)[1])
    noise = 1.0 / effective_sample_size(particles.log_ratio)
    return largest(squared), largest(squared + noise)


def of_rejuvenation(error_terms, theta, estimate, shrinkage, monitored):
    """Coefficients after a rejuvenation of particles (with a weight) from their density estimate.

    Kernels of width h keep (1 - h^2)^(3/2) of the third cumulants; without shrinkage they keep all,
    but widen q by 1 + h^2 instead.
    """
    factor = monitored(estimate.covariance_factor.T).T
    variance = (factor**2).sum(axis=1)
    ess = effective_sample_size(estimate.log_weights)
    h = min(estimate.bandwidth, 1.0)
    share, widening = (1.0 - (1.0 - h**2) ** 1.5, 0.0) if shrinkage else (0.0, estimate.bandwidth)
    white = whitened(theta, estimate.mean, estimate.covariance_factor)
    cubic = _third_cumulants(white, estimate.log_weights)
    cubic = np.einsum("ij,jk,ik->i", factor, cubic, factor)
    c2 = share**2 * np.maximum(cubic / np.maximum(variance, _MIN_VARIANCE), 0.0)
    terms = 1.0 / ess, (theta.shape[1] + 1) / ess + widening**4, c2
    return add(error_terms, variance, *(HIGHER**2 * term for term in terms))


def of_gain(error_terms, theta, weights, gain, monitored):
    """Coefficients after log q was raised by known amounts at its weighted particles.

    To first order their covariance with theta is the error of the mean, and that with the products
    of two standardised coordinates the error of the covariance.
    """
    centred = theta - weights @ theta
    cov = (centred.T * weights) @ centred
    seen = monitored(centred)
    variance = np.maximum(weights @ seen**2, _MIN_VARIANCE)
    signed = weights * (gain - weights @ gain)
    product = (seen.T * signed) @ centred
    # The trace of product cov^-1 product is the square of its rows in standard coordinates.
    rows = np.einsum("ij,ji->i", product, np.linalg.pinv(cov) @ product.T)
    return add(error_terms, variance, (signed @ seen) ** 2 / variance, rows / variance)


def of_curvature(error_terms, model, batches, gaussian, b, rng):
    """Coefficients after data have been taken into a Gaussian that knows no third cumulants.

    Those of the posterior are the derivatives of its Hessian. Differences of it across random
    displacements v of the Gaussian itself give M with E[M V M'] = sum_jk T_ijk T_ljk in natural
    parameters, V the covariance, which multiplies on both sides to give errors of the mean.
    """
    mean, chol = gaussian
    seen = model.monitored(chol @ chol.T).T
    squared = np.zeros(len(seen))
    for noise in rng.standard_normal((_N_PROBES, len(mean))):
        move = chol @ noise
        ahead, behind = (
            model.gaussian_target(mean + side * move, None, batches, b)[1] for side in (1, -1)
        )
        squared += ((0.5 * seen @ (ahead - behind) @ chol) ** 2).sum(axis=1)
    variance = (model.monitored(chol.T) ** 2).sum(axis=0)
    return add(error_terms, variance, c2=0.5 * HIGHER**2 * squared / _N_PROBES / variance)


def of_conflict(error_terms, before, stayed, after, monitored):
    """Coefficients after a step has gone where the old particles, or the model, would not have it.

    Estimates of the third order end a few standard deviations out. But the old particles with their
    weights by the step know q exactly. Where enough of them remain, and their weights have no heavy
    tail, their mean shows what the rejuvenation has lost, beyond the noise of the two. So does one
    of them where far fewer lie beyond the new mean than a normal q would have there: q has an edge
    then, and the density in its place has none. And a mean that has moved further than data that
    obey the model would move it is where the two need not be alike: all that is beyond counts.

    ``before`` is q, ``stayed`` the same particles after the step, and ``after`` the fresh ones.
    Coefficients have the shapes of `add`.
    """
    (start, spread), (seen, _), (end, narrow) = (
        _moments(c, monitored) for c in (before, stayed, after)
    )
    old, ess, noise = (effective_sample_size(one.log_ratio) for one in (before, stayed, after))
    moved = np.abs(end - start)
    # Data that obey the model take away the variance that they give to the mean. The variance of
    # the old particles is known to a share of sqrt(2 / ess) only.
    expected = np.sqrt(np.maximum(spread - narrow, 0.0) + _BOUND * np.sqrt(2.0 / old) * spread)
    usual = -ndtri(0.5 * _RARE / len(moved))
    squared = np.maximum(moved - usual * expected, 0.0) ** 2 / narrow
    gap = (seen - end) ** 2 / narrow
    if ess >= _MIN_ESS and not pareto_k(stayed.log_ratio) > MAX_K:
        beyond_noise = gap - _MAX_NOISE**2 * (1.0 / ess + 1.0 / noise)
        squared = np.maximum(squared, beyond_noise)
    return add(
        error_terms,
        narrow,
        np.where(_edges(before, start, end, moved / np.sqrt(spread), monitored), gap, squared),
    )


def _edges(before, start, end, moved, monitored):
    """Where q has far less beyond ``end`` than a normal has ``moved`` sds out."""
    particles = effective_sample_size(before.log_ratio)
    beyond = (monitored(before.theta) - end) * np.sign(end - start) > 0.0
    found, expected = weights(before.log_ratio) @ beyond, ndtr(-moved)
    return particles * found + 1.0 < _EDGE * particles * expected


def _moments(particles, monitored):
    w, seen = weights(particles.log_ratio), monitored(particles.theta)
    mean = w @ seen
    return mean, np.maximum(w @ (seen - mean) ** 2, _MIN_VARIANCE)


def _third_cumulants(white, log_weights):
    """Half the sum over j, k of T_ijk T_ljk of standardised weighted particles, shape (d, d).

    Over pairs of different particles, so that noise does not count as skewness; the terms beside
    the square have no expectation and take most of the noise away.
    """
    m, d = white.shape
    scored = np.arange(0, m, -(-m // _MAX_SCORED))
    w = np.exp(log_weights)
    # What has no weight may be as far away as its squares have no number.
    white = np.where(w[:, None] > _NO_WEIGHT, white, 0.0)
    squares = np.einsum("ij,ij->i", white, white)
    table = (white[scored] @ white.T) ** 2
    table += d - squares[scored, None] - squares
    table[np.arange(len(scored)), scored] = 0.0
    left, right = white[scored] * w[scored, None], white * w[:, None]
    pairs = w[scored].sum() - (w[scored] ** 2).sum()
    half = 0.5 * left.T @ table @ right / max(pairs, _NO_WEIGHT)
    return 0.5 * (half + half.T)
