"""Posteriors of linear models with effects of groups, in JAX; no code is shared with ours.

Columns are standardised and so is y of the normal family, in whose units scales are: slopes and the
intercept at the columns' means have the prior N(0, 2.5^2), sigma and sds of effects half-Student-
t(3, 2.5), of a slope per sd of its column, and their correlation is uniform on -1 to 1. The
intercept is relative to the link of the mean of y, or of its sum over that of exposure. Coordinates
are slopes, the intercept, log sigma of the normal family, log sds, and the inverse hyperbolic
tangent of the correlation.
"""

from dataclasses import replace

import numpy as np
from scipy.special import logit

from .jax_setup import jax, jnp
from .problem import Problem
from .targets import Target
from .whitened import laplace_target

SCALE = 2.5


def joint_target(data):
    """The posterior with effects as coordinates, in units of their sds, as packages sample it."""
    known = _Known(data)
    table = data.codes.reshape(len(data.y), -1)
    has_slope = data.slope is not None
    sizes = [int(one.max()) + 1 for one in table.T] * (2 if has_slope else 1)
    d, ends = known.d + sum(sizes), known.d + np.cumsum(sizes)
    codes, x = jnp.asarray(data.codes), known.Z[:, data.slope] if has_slope else None

    def potential(theta):
        sds, z = jnp.exp(theta[known.sds]), jnp.split(theta, [known.d, *ends[:-1]])[1:]
        if not has_slope:
            effect = sum(sd * one[own] for sd, one, own in zip(sds, z, table.T, strict=True))
        else:
            effect = sds[0] * z[0][codes]
            cosine = jnp.tanh(theta[known.d - 1])
            slope = cosine * z[0] + jnp.sqrt(1.0 - cosine**2) * z[1]
            effect += sds[1] * slope[codes] * x
        value = known.log_density(known.predictor(theta) + effect, theta).sum()
        return -value - known.log_prior(theta) + 0.5 * (theta[known.d :] ** 2).sum()

    return Target(potential, np.zeros(d), np.eye(d), known.reported)


def marginal_target(data, n_nodes=241):
    """The posterior of intercepts that a trapezium rule integrates, in whitened coordinates.

    Groups with the same rows are integrated once.
    """
    if data.slope is not None:
        raise ValueError("Effects of one dimension are integrated here, and slopes are two.")
    data = data.repeated()
    times, some = _distinct(data)
    known, few = _Known(data), _Known(data, some)
    first = np.r_[0, np.flatnonzero(np.diff(data.codes[some])) + 1]
    place = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(some)]))
    z = np.linspace(-9.0, 9.0, n_nodes)
    log_weights = jnp.asarray(-0.5 * z**2 + np.log((z[1] - z[0]) / np.sqrt(2.0 * np.pi)))
    z, times = jnp.asarray(z), jnp.asarray(times)

    def likelihood(theta, *_):
        effect = jnp.exp(theta[known.sds][0]) * z
        of_rows = few.log_density(few.predictor(theta)[:, None] + effect, theta)
        of_groups = jax.ops.segment_sum(of_rows, place, num_segments=len(first)) + log_weights
        return times @ jax.scipy.special.logsumexp(of_groups, axis=1)

    def start(rng, m):
        return np.zeros((m, known.d))

    problem = Problem(known.d, None, None, start, likelihood, known.log_prior)
    return replace(laplace_target(problem, np.zeros((1, 1)), None), reported=known.reported)


def _distinct(data):
    """How often each kind of group is there, and the rows of one of each kind."""
    seen = {}
    for g in range(int(data.codes.max()) + 1):
        rows = np.flatnonzero(data.codes == g)
        parts = [data.columns[rows], data.y[rows, None]]
        if data.exposure is not None:
            parts.append(data.exposure[rows, None])
        table = np.hstack(parts)
        key = table[np.lexsort(table.T)].tobytes()
        seen.setdefault(key, [0, rows])[0] += 1
    times = np.array([n for n, _ in seen.values()], dtype=np.float64)
    return times, np.concatenate([rows for _, rows in seen.values()])


class _Known:
    """Predictors without effects, log densities of rows, and the prior of what is no effect.

    Centres and units are those of all rows; predictors are of ``some``.
    """

    def __init__(self, data, some=slice(None)):
        X, y = data.columns, data.y
        mean, self.sd, self.p = X.mean(axis=0), X.std(axis=0), X.shape[1]
        self.Z = jnp.asarray((X[some] - mean) / self.sd)
        self.is_normal, self.slope = data.family == "normal", data.slope
        self.n_effects = data.codes.reshape(len(y), -1).shape[1] if data.slope is None else 2
        self.unit = y.std() if self.is_normal else 1.0
        rate = y.sum() / (len(y) if data.exposure is None else data.exposure.sum())
        link = {"normal": float, "poisson": np.log, "binomial": logit}[data.family]
        self.centre, self.family = link(rate), data.family
        self.offset = 0.0 if self.is_normal else self.centre
        if data.exposure is not None:
            self.offset = jnp.asarray(self.offset + np.log(data.exposure[some]))
        self.y = jnp.asarray((y[some] - self.centre) / self.unit if self.is_normal else y[some])
        first = self.p + 1 + self.is_normal
        self.sds = slice(first, first + self.n_effects)
        self.d = self.sds.stop + (data.slope is not None)

    def predictor(self, theta):
        return self.offset + self.Z @ theta[: self.p] + theta[self.p]

    def log_density(self, eta, theta):
        y = self.y.reshape(-1, *[1] * (eta.ndim - 1))
        if self.is_normal:
            log_sigma = theta[self.p + 1]
            return -0.5 * (y - eta) ** 2 * jnp.exp(-2.0 * log_sigma) - log_sigma
        return y * eta - (jnp.exp(eta) if self.family == "poisson" else jax.nn.softplus(eta))

    def log_prior(self, theta):
        t = theta[self.p + 1 : self.sds.stop]
        value = -0.5 * (theta[: self.p + 1] ** 2).sum() / SCALE**2
        value += (t - 2.0 * jnp.log1p(jnp.exp(2.0 * t) / (3.0 * SCALE**2))).sum()
        if self.slope is not None:
            value += jnp.log1p(-(jnp.tanh(theta[self.d - 1]) ** 2))
        return value

    def reported(self, theta):
        """Slopes per unit of columns, the intercept at their means, sigma, sds, correlation."""
        slopes = theta[..., : self.p] * self.unit / self.sd
        intercept = self.centre + self.unit * theta[..., self.p : self.p + 1]
        scales = np.full(self.sds.stop - self.p - 1, self.unit)
        if self.slope is not None:
            scales[-1] /= self.sd[self.slope]
        parts = [slopes, intercept, np.exp(theta[..., self.p + 1 : self.sds.stop]) * scales]
        return np.concatenate([*parts, np.tanh(theta[..., self.sds.stop : self.d])], axis=-1)


def names(data):
    """What is reported, by the names that skpmd gives."""
    p = data.columns.shape[1]
    columns, factors = data.names[:p], data.names[p:]
    found = [*(f"b[{one}]" for one in columns), "a"]
    found += ["sigma"] if data.family == "normal" else []
    found += [f"sd[{factor}]" for factor in factors]
    if data.slope is not None:
        found += [f"{kind}[{factors[0]}:{columns[data.slope]}]" for kind in ("sd", "cor")]
    return found
