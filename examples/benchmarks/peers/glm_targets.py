"""Posteriors of generalised linear models that NUTS is run on, in JAX; no code is shared with ours.

Columns are standardised and so is y of a real-valued family, in whose units scales are: slopes and
the intercept at the columns' means have the prior N(0, 2.5^2), sigma a half-Student-t(3, 2.5), nu
Gamma(2, rate 0.1), the inverse root of shape or precision a half-normal(1), and the probabilities
of ordered classes where all slopes are zero Dirichlet(1, ..., 1). The intercept is relative to the
link of the mean of y, or of its sum over that of exposure or trials. Positive coordinates are
logarithms, cutpoints the first one and the logarithms of the gaps.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import logit

from ..harness.glm_sets import REAL
from .jax_setup import jax, jnp
from .problem import Problem
from .targets import Target
from .whitened import laplace_target

SCALE = 2.5
_gammaln, _softplus = jax.scipy.special.gammaln, jax.nn.softplus


def target(data, is_whitened=True):
    """Return the posterior of `glm_sets.Rows` as a `targets.Target`.

    Chains move in coordinates that a Laplace approximation whitens, or in those above. Reported are
    slopes per unit of the given columns, the intercept at their means (none for ordered classes),
    and dispersions or cutpoints.
    """
    X, is_ordinal = data.columns, data.family == "ordinal"
    mean, sd = X.mean(axis=0), X.std(axis=0)
    Z, p = jnp.asarray((X - mean) / sd), X.shape[1]
    centre, unit = _place_and_unit(data)
    known, n_first = _known_part(data, centre), p if is_ordinal else p + 1
    log_density, log_prior, natural, k = _FAMILIES[data.family](data, centre, unit)

    def likelihood(theta, *_):
        eta = known + Z @ theta[:p]
        return log_density(eta if is_ordinal else eta + theta[p], theta[n_first:])

    def prior(theta):
        first = theta[:n_first]
        return -0.5 * (first @ first) / SCALE**2 + log_prior(theta[n_first:])

    def reported(theta):
        slopes, intercept = theta[..., :p] * unit / sd, centre + unit * theta[..., p:n_first]
        return np.concatenate([slopes, intercept, natural(theta[..., n_first:])], axis=-1)

    d = n_first + k
    if not is_whitened:
        return Target(lambda t: -likelihood(t) - prior(t), np.zeros(d), np.eye(d), reported)
    problem = Problem(d, None, None, lambda rng, m: np.zeros((m, d)), likelihood, prior)
    return replace(laplace_target(problem, X, data.y), reported=reported)


def _place_and_unit(data):
    """What an intercept is relative to, and the unit of the linear predictor."""
    if data.family == "ordinal":
        return 0.0, 1.0
    if data.family in REAL:
        return data.y.mean(), data.y.std()
    rate = data.y.sum() / (len(data.y) if data.size is None else data.size.sum())
    return (logit if data.family in ("binomial", "beta") else np.log)(rate), 1.0


def _known_part(data, centre):
    """Predictors at slopes and an intercept of zero; those of real-valued families are scaled."""
    if data.family in REAL:
        return 0.0
    return jnp.asarray(centre + (np.log(data.size) if data.role == "exposure" else 0.0))


def _normal(data, centre, unit):
    y, n = jnp.asarray((data.y - centre) / unit), len(data.y)

    def log_density(eta, t):
        return -0.5 * jnp.sum((y - eta) ** 2) * jnp.exp(-2.0 * t[0]) - n * t[0]

    return log_density, _log_prior_of_sigma, partial(_sigma_and_nu, unit), 1


def _student_t(data, centre, unit):
    y, n = jnp.asarray((data.y - centre) / unit), len(data.y)

    def log_density(eta, t):
        nu = jnp.exp(t[1])
        constant = _gammaln(0.5 * (nu + 1.0)) - _gammaln(0.5 * nu) - 0.5 * t[1] - t[0]
        kernel = jnp.log1p((y - eta) ** 2 * jnp.exp(-2.0 * t[0]) / nu)
        return n * constant - 0.5 * (nu + 1.0) * kernel.sum()

    def log_prior(t):
        return _log_prior_of_sigma(t) + 2.0 * t[1] - 0.1 * jnp.exp(t[1])

    return log_density, log_prior, partial(_sigma_and_nu, unit), 2


def _log_prior_of_sigma(t):
    return t[0] - 2.0 * jnp.log1p(jnp.exp(2.0 * t[0]) / (3.0 * SCALE**2))


def _sigma_and_nu(unit, t):
    return np.exp(t) * np.array([unit, 1.0])[: t.shape[-1]]


def _poisson(data, centre, unit):
    y = jnp.asarray(data.y)
    return lambda eta, t: y @ eta - jnp.exp(eta).sum(), lambda t: 0.0, np.asarray, 0


def _binomial(data, centre, unit):
    y = jnp.asarray(data.y)
    trials = jnp.ones(len(y)) if data.size is None else jnp.asarray(data.size)
    return lambda eta, t: y @ eta - trials @ _softplus(eta), lambda t: 0.0, np.asarray, 0


def _negative_binomial(data, centre, unit):
    y, (counts, times) = jnp.asarray(data.y), np.unique(data.y, return_counts=True)

    def log_density(eta, t):
        shape = jnp.exp(-2.0 * t[0])
        of_counts = times @ _gammaln(counts + shape) - len(y) * _gammaln(shape)
        odds = eta + 2.0 * t[0]  # log(mu / shape)
        return of_counts + y @ odds - (y + shape) @ _softplus(odds)

    return log_density, _log_prior_of_root, _inverse_square, 1


def _gamma(data, centre, unit):
    y, log_y = jnp.asarray(data.y), np.log(data.y).sum()

    def log_density(eta, t):
        shape = jnp.exp(-2.0 * t[0])
        constant = len(y) * (-2.0 * t[0] * shape - _gammaln(shape)) + (shape - 1.0) * log_y
        return constant - shape * (eta.sum() + y @ jnp.exp(-eta))

    return log_density, _log_prior_of_root, _inverse_square, 1


def _beta(data, centre, unit):
    log_y, log_rest = jnp.log(data.y), jnp.log1p(-data.y)

    def log_density(eta, t):
        precision = jnp.exp(-2.0 * t[0])
        a = precision * jax.nn.sigmoid(eta)
        b = precision - a
        of_rows = (a - 1.0) * log_y + (b - 1.0) * log_rest - _gammaln(a) - _gammaln(b)
        return of_rows.sum() + len(log_y) * _gammaln(precision)

    return log_density, _log_prior_of_root, _inverse_square, 1


def _log_prior_of_root(t):
    return t[0] - 0.5 * jnp.exp(2.0 * t[0])


def _inverse_square(t):
    return np.exp(-2.0 * t)


def _ordinal(data, centre, unit):
    code, k = data.y.astype(int), int(data.y.max())
    weight = jnp.ones(len(code)) if data.weight is None else jnp.asarray(data.weight)

    def cuts_of(t, xp):
        gaps = xp.cumsum(xp.exp(t[..., 1:]), axis=-1)
        return xp.concatenate([t[..., :1], t[..., :1] + gaps], axis=-1)

    def log_density(eta, t):
        ends = jnp.concatenate([jnp.full(1, -jnp.inf), cuts_of(t, jnp), jnp.full(1, jnp.inf)])
        high = jnp.where(code < k, ends[jnp.minimum(code + 1, k)] - eta, 40.0)
        low = jnp.where(code > 0, ends[jnp.maximum(code, 1)] - eta, -40.0)
        # log(F(high) - F(low)) of the logistic function, without cancellation in the tails.
        gap = jnp.log(-jnp.expm1(low - high))
        return weight @ (gap - _softplus(-high) - _softplus(low))

    def log_prior(t):
        cuts = cuts_of(t, jnp)
        return t[1:].sum() - (_softplus(cuts) + _softplus(-cuts)).sum()

    return log_density, log_prior, partial(cuts_of, xp=np), k


_FAMILIES = {
    "normal": _normal, "student_t": _student_t, "poisson": _poisson, "binomial": _binomial,
    "negative_binomial": _negative_binomial, "gamma": _gamma, "beta": _beta, "ordinal": _ordinal,
}  # fmt: skip
