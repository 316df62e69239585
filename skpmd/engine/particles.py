"""Particles drawn from a known density, the log ratio they carry, and their weights.

Where all particles carry a whole model each, likelihood weights fall on one of them. Stacking
weights maximise the log score of the mixture on rows that no particle has been fitted to (Yao et
al. 2018). They are no posterior weights.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import solve_triangular
from scipy.special import softmax

_MIN_WEIGHT = 1e-300  # By stacking no weight becomes zero.
_DECAY = 0.6  # Step sizes of moves are adapted with gain t^-0.6 (Robbins and Monro 1951).


class Particles(NamedTuple):
    """Particles of one density q, held by importance ratios to the density they came from.

    The particles were drawn from a density pi (the prior, a proposal or the kernel density
    estimate of the last rejuvenation), and q is known up to a constant through
    ``log_ratio = log q - log pi``. The ratio is never renormalised: after reweighting its
    log mean exponential is the log evidence.
    """

    # (m, d): Particle positions (xi of the paper's section 3.1 where a conjugate block is
    # present).
    theta: np.ndarray
    # (m,): r, the log ratio of q to pi, up to one constant. ``-inf`` marks a particle outside q.
    log_ratio: np.ndarray
    log_pi: np.ndarray  # (m,): Log density, normalised, from which each particle was drawn.
    log_prior: np.ndarray  # (m,): Log prior density at each particle, evaluated once per position.
    # (m, k): Natural parameters of q(zeta | xi), one row per particle; k = 0 for a plain model. A
    # model may have any other object in its place.
    block: np.ndarray


class Rejuvenated(NamedTuple):
    """What a strategy of rejuvenation hands back to the step.

    A strategy is a callable ``(particles, model, settings, rng, *, n_particles, defensive,
    observer)``; one with the attribute ``follows`` is called after each segment instead, with
    ``done``, the share of the step that has been taken.
    """

    particles: Particles  # Fresh particles of q.
    bandwidth: float = np.nan  # Of a kernel density estimate, nan of other strategies.
    # (m,): That of the step's rows at the fresh particles, where it has been taken already.
    log_likelihood: np.ndarray | None = None
    record: dict = {}  # What the history keeps of it.


def draw_prior(model, n_particles, rng):
    """Particles at q = prior: positions from the prior, pi = prior, r = 0."""
    theta = np.ascontiguousarray(model.sample_prior(rng, n_particles), dtype=np.float64)
    log_prior = model.log_prior(theta)
    if not np.isfinite(log_prior).all():
        raise ValueError(
            "sample_prior draws parameters where log_prior is not finite: the two must describe "
            "one and the same density."
        )
    fixed = np.ptp(theta, axis=0) == 0.0
    if fixed.any():
        j = int(np.flatnonzero(fixed)[0])
        raise ValueError(
            f"All {len(theta)} draws of sample_prior have theta[:, {j}] = {theta[0, j]:g}, and "
            "particles never leave it: draw it from the prior with the generator that "
            "sample_prior is given, or leave it out of theta."
        )
    return Particles(theta, np.zeros(len(theta)), log_prior, log_prior, model.prior_block(theta))


def log_weights(log_ratio):
    """Normalise log ratios to log weights that sum to one in probability.

    The largest goes first: a sum next to a number of 1e16 has lost what the weights differ by.
    """
    relative = log_ratio - np.max(log_ratio)
    return relative - log_sum_exp(relative)


def equal_log_weights(m):
    """Log weights of m particles of equal weight."""
    return np.full(m, -np.log(m))


def weights(log_ratio):
    """Normalised weights, linear scale."""
    return np.exp(log_weights(log_ratio))


def moments(theta, log_ratio):
    """Weighted mean of shape (d,) and covariance of shape (d, d) of weighted particles."""
    w = weights(log_ratio)
    mean = w @ theta
    centred = theta - mean
    return mean, (centred * w[:, None]).T @ centred


def deviations(weights, values):
    """Weighted standard deviations of columns of values (m, d), also of squares past the largest.

    Powers of two are taken out first, which changes no digit. Values without weight may be of any
    size.
    """
    centred = values - weights @ values
    centred[weights < np.finfo(np.float64).tiny] = 0.0
    _, exponent = np.frexp(np.abs(centred.T * np.sqrt(weights)).max(axis=-1))
    return np.ldexp(np.sqrt(weights @ np.ldexp(centred, -exponent) ** 2), exponent)


def whitened(theta, mean, chol):
    """Points u = chol^-1 (theta - mean), (m, d), of a lower triangular Cholesky factor."""
    return solve_triangular(chol, (theta - mean).T, lower=True).T


def squared_distances(points, centres):
    """Squared Euclidean distances of shape (n, m), by one matrix product.

    Both are centred first: what cancels is then as small as it can be. The squares of the norms are
    two more columns of the product, which saves two passes through the table.
    """
    middle = centres.mean(axis=0)
    points, centres = points - middle, centres - middle
    left = [points, np.einsum("ij,ij->i", points, points), np.ones(len(points))]
    right = [-2.0 * centres, np.ones(len(centres)), np.einsum("ij,ij->i", centres, centres)]
    table = np.column_stack(left) @ np.column_stack(right).T
    return np.maximum(table, 0.0, out=table)


@njit(cache=True, no_cfunc_wrapper=True)
def log_sum_exp(values):
    """Log of the sum of exponentials of a vector, stable; -inf where nothing is finite."""
    top = -np.inf
    for value in values:
        top = max(top, value)
    if top == -np.inf or top == np.inf:
        return top
    total = 0.0
    for value in values:
        total += np.exp(value - top)
    return top + np.log(total)


@njit(cache=True, no_cfunc_wrapper=True)
def effective_sample_size(log_ratio):
    """Kish's effective sample size of unnormalised log weights, 0 where all are -inf."""
    top = -np.inf
    for value in log_ratio:
        top = max(top, value)
    if top == -np.inf:
        return 0.0
    first = 0.0
    second = 0.0
    for value in log_ratio:
        weight = np.exp(value - top)
        first += weight
        second += weight * weight
    return first * first / second


def equally_weighted(model, theta):
    """Particles of one weight, whose density is not known: moved by Markov chains, or averaged."""
    m = len(theta)
    unknown, block = np.full(m, np.nan), np.empty((m, 0))
    return Particles(theta, np.zeros(m), unknown, model.log_prior(theta), block)


# ------------------------------------------------------------------- resampling
# Which ancestors new particles descend from. Unbiased schemes all: E[number of copies of particle
# i] = n * w_i (Douc, Cappe and Moulines 2005). Noise is drawn in NumPy and handed to the kernel, so
# that the answer depends on the generator only.


def systematic(weights, n, rng):
    """One uniform, n equally spaced points."""
    return _invert(weights, (np.arange(n) + rng.random()) / n)


def stratified(weights, n, rng):
    """One uniform in each of n equal strata."""
    return _invert(weights, (np.arange(n) + rng.random(n)) / n)


def multinomial(weights, n, rng):
    """Independent draws."""
    return _invert(weights, np.sort(rng.random(n)))


def residual(weights, n, rng):
    """floor(n w_i) copies of each, the rest multinomial on the remainders."""
    expected = n * weights
    copies = np.floor(expected * (1.0 + 1e-12)).astype(np.int64)  # 0.9999999999999999 is 1.
    rest = n - copies.sum()
    ancestors = np.repeat(np.arange(len(weights)), copies)
    if rest > 0:
        remainder = np.maximum(expected - copies, 0.0)
        extra = multinomial(remainder / remainder.sum(), rest, rng)
        ancestors = np.sort(np.concatenate([ancestors, extra]))
    return ancestors


SCHEMES = {
    "systematic": systematic,
    "stratified": stratified,
    "residual": residual,
    "multinomial": multinomial,
}


def resample(scheme, weights, n, rng):
    """Draw n ancestors by the named scheme: their indices in ascending order, shape (n,), int64.

    The weights, of shape (m,), are normalised; n need not equal m.
    """
    return SCHEMES[scheme](weights, n, rng)


def random_draws(weights, n, rng):
    """Systematic ancestors in random order, shape (n,), int64: each of them is a fair draw.

    Particles are visited in random order: of a Sobol sequence, whose order they may have, every
    fourth point lies in the same part of the space.
    """
    order = rng.permutation(len(weights))
    return rng.permutation(order[systematic(weights[order], n, rng)])


@njit(cache=True, no_cfunc_wrapper=True)
def _invert(weights, points):
    """Invert the cumulative weights at ascending points in [0, 1)."""
    ancestors = np.empty(len(points), np.int64)
    total = 0.0
    last = 0  # This is the last particle alive: rounding must not carry a draw past it.
    for i in range(len(weights)):
        total += weights[i]
        if weights[i] > 0.0:
            last = i
    index = 0
    cumulative = weights[0] / total
    for j in range(len(points)):
        while points[j] >= cumulative and index < last:
            index += 1
            cumulative += weights[index] / total
        ancestors[j] = index
    return ancestors


# ------------------------------------------------------------------- Metropolis decisions
def acceptance(log_ratio):
    """Acceptance probabilities given log acceptance ratios; nan is refused."""
    return np.exp(np.minimum(0.0, np.where(np.isnan(log_ratio), -np.inf, log_ratio)))


def accepted(log_ratio, rng):
    """Which proposals of log acceptance ratios (m,) are accepted, a mask, and `acceptance`."""
    chance = acceptance(log_ratio)
    return rng.random(len(chance)) < chance, chance


def select(taken, new, old):
    """Arrays of the accepted proposals, and of the old states elsewhere."""
    return (
        np.where(taken.reshape(-1, *[1] * (before.ndim - 1)), after, before)
        for after, before in zip(new, old, strict=True)
    )


def adapted_step(log_step, chance, target, t):
    """Log step size after move t = 0, 1, ... of a mean acceptance probability."""
    return log_step + (chance - target) * (t + 1.0) ** -_DECAY


# ------------------------------------------------------------------- stacking
def stacked(
    log_density, weight, log_start=None, *, max_iter=200, tol=0.0, prior_rows=0.0, dtype=np.float32
):  # fmt: skip
    """Log weights of the best mixture by expectation-maximisation.

    Each weight is multiplied by its mean responsibility, until the mean log score gains less than
    ``tol``. ``log_start`` and the log weights returned have the shape (c,) and a sum of exp 1; by
    default all are equal at the start.

    ``log_density``, of shape (n, c), is that of rows under each particle, or component of one, that
    does not know them, and ``weight``, (n,), is how often each row counts. ``prior_rows`` speak for
    the weights at the start: with some, none becomes zero.

    The densities have the given dtype. Responsibilities need no more than float32, and the products
    are bound by memory; but the score then has a noise of 1e-8, at which weights may still be on
    their way.
    """
    largest = log_density.max(axis=1, keepdims=True)
    density = (log_density - largest).astype(dtype, copy=False)
    np.exp(density, out=density)
    start = np.exp(equal_log_weights(log_density.shape[1]) if log_start is None else log_start)
    weights, total, last = start, weight.sum(), -np.inf
    for _ in range(max_iter):
        mixed = np.maximum(density @ weights.astype(dtype), 1e-30)
        score = weight @ np.log(mixed.astype(np.float64)) / total
        if score - last < tol:
            break
        gain = density.T @ (weight / mixed).astype(dtype)
        weights = (weights * gain + prior_rows * start) / (total + prior_rows)
        weights, last = weights / weights.sum(), score
    return np.log(np.maximum(weights, _MIN_WEIGHT))


def stacking_step(log_weights, log_density, weight, n_before):
    """Log weights (m,) after new rows that no particle has been fitted to yet.

    w <- (1 - g) w + g * mean responsibility of each particle for the rows, g the share of these
    rows among all that have been scored. To first order that is a mirror step on the log score of
    the mixture.

    The log weights before have a sum of exp 1 and come from ``n_before`` weighted rows.
    ``log_density``, of shape (m, n), is that of the new rows under each particle, and ``weight``,
    (n,), is how often each row counts.
    """
    total = weight.sum()
    gamma = total / (n_before + total)
    joint = log_weights[:, None] + log_density
    responsibility = softmax(joint, axis=0) @ weight / total
    responsibility = np.maximum(responsibility, _MIN_WEIGHT)
    return np.log((1.0 - gamma) * np.exp(log_weights) + gamma * responsibility)
