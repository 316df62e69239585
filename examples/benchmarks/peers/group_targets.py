"""Posteriors of linear models with effects of groups, in JAX; no code is shared with ours.

Columns are standardised and so is y of the normal family, in whose units scales are: slopes and the
intercept at the columns' means have the prior N(0, 2.5^2), sigma and sds of effects half-Student-
t(3, 2.5), of a slope per sd of its column, and their correlation is uniform on -1 to 1. The
intercept is relative to the link of the mean of y, or of its sum over that of exposure. Coordinates
are slopes, the intercept, log sigma of the normal family, log sds, and the inverse hyperbolic
tangent of the correlation.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logit

from .jax_setup import jax, jnp
from .targets import Target

SCALE = 2.5
# Of integrals over an effect: nodes that close in, how often, from where, to what; and of the rule.
_FEW, _ROUNDS, _FAR, _DROP, _MANY = 9, 13, 38.0, 35.0, 97
_LARGE = 300.0  # Predictor of a count; beyond, derivatives are no numbers.
_GRID, _STEP, _BATCH = 160, 1.25, 25  # Log sds; steps of the rest, and how many are taken at once.


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


def marginal_density(data):
    """The log density of one point (d,), intercepts of groups integrated by a trapezium rule.

    The likelihood of a group is log-concave in its effect: nodes close in on the mode of the
    integrand, and beyond the ends of the rule it is e^-35 of its value there. Steps of the rule
    are in the inverse hyperbolic sine of the distance, at the scale of the nearer end, so that
    edges of single rows are seen at an sd of 1,000, too. Groups with the same rows are integrated
    once.
    """
    if data.slope is not None:
        raise ValueError("Effects of one dimension are integrated here, and slopes are two.")
    data = data.repeated()
    times, some = _distinct(data)
    known, few = _Known(data), _Known(data, some)
    first = np.r_[0, np.flatnonzero(np.diff(data.codes[some])) + 1]
    place, n = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(some)])), len(first)
    times, no_effect = jnp.asarray(times), jnp.zeros(n)
    distances = jnp.asarray(np.geomspace(1e-6, _FAR, 41))
    s = jnp.linspace(-1.0, 1.0, _MANY)

    def density(theta):
        eta, sd = few.predictor(theta)[:, None], jnp.exp(theta[known.sds][0])

        def heights(z):
            of_rows = few.log_density(eta + sd * z[place], theta)
            return jax.ops.segment_sum(of_rows, place, num_segments=n) - 0.5 * z**2

        def closer(_, ends):
            z = jnp.linspace(*ends, _FEW, axis=1)
            best = jnp.take_along_axis(z, heights(z).argmax(axis=1, keepdims=True), axis=1)[:, 0]
            return best - (z[:, 1] - z[:, 0]), best + (z[:, 1] - z[:, 0])

        low, high = jax.lax.fori_loop(0, _ROUNDS, closer, (no_effect - _FAR, no_effect + _FAR))
        mode = 0.5 * (low + high)[:, None]
        is_within = jnp.stack([
            heights(mode + side * distances) > heights(mode) - _DROP for side in (-1.0, 1.0)
        ])  # fmt: skip
        ends = distances[jnp.minimum(is_within.sum(axis=2), len(distances) - 1)]
        scale = ends.min(axis=0) / 8.0
        stretch = jnp.arcsinh(ends.max(axis=0) / scale)
        mode, scale, stretch = jax.lax.stop_gradient((mode, scale[:, None], stretch[:, None]))
        weights = jnp.log(scale * stretch * jnp.cosh(stretch * s) * (s[1] - s[0]))
        found = heights(mode + scale * jnp.sinh(stretch * s)) + weights
        integrals = jax.scipy.special.logsumexp(found, axis=1) - 0.5 * np.log(2.0 * np.pi)
        return times @ integrals + known.log_prior(theta)

    return density


def exact_moments(data):
    """Mean and sd of each of the `names`, (d,): a grid of the log sd, and of the rest given it.

    Given it, the rest is nearly normal, so that a trapezium rule whose steps are 1.25 sds at the
    conditional mode has errors of e^-12. Every second log sd has its grid of the rest shifted by
    half a step: the two halves are to agree, on means to .01 posterior sds and on sds to 1 %.
    """
    density, known = marginal_density(data), _Known(data.repeated())
    place = known.sds.start

    def given(rest, log_sd):
        return -density(jnp.insert(rest, place, log_sd))

    value, slope, curvature = (jax.jit(one) for one in (given, jax.grad(given), jax.hessian(given)))
    of_many = jax.jit(lambda theta: jax.lax.map(density, theta, batch_size=_BATCH))
    modes = {}

    def conditional(log_sd):
        """The mode of the rest, a factor of the covariance there, and the log of the mass."""
        near = min(modes, key=lambda one: abs(one - log_sd), default=None)
        start = np.zeros(known.d - 1) if near is None else modes[near]
        found = minimize(
            value, start, (log_sd,), jac=slope, hess=curvature, method="trust-exact",
            options={"gtol": 0.01, "maxiter": 30},  # A grid is centred there, no more.
        )  # fmt: skip
        modes[log_sd] = found.x
        factor = np.linalg.cholesky(np.linalg.inv(np.asarray(curvature(found.x, log_sd))))
        return found.x, factor, np.log(np.diag(factor)).sum() - float(found.fun)

    low, high = -12.0, 8.0
    for _ in range(4):
        grid, cell = np.linspace(low, high, _FEW, retstep=True)
        mass = np.array([conditional(one)[2] + 2.0 * max(one, 0.0) for one in grid])
        inside = np.flatnonzero(mass > mass.max() - 12.0)
        low, high = grid[inside[0]] - cell, grid[inside[-1]] + cell
    steps = np.stack(np.meshgrid(*[_STEP * np.arange(-5.0, 6.0)] * (known.d - 1)), axis=-1)
    steps, parts = steps.reshape(-1, known.d - 1), []
    for i, log_sd in enumerate(np.linspace(low, high, _GRID)):
        mode, factor, _ = conditional(log_sd)
        shift = i % 2
        some = steps + 0.5 * _STEP * shift
        some = some[(some**2).sum(axis=1) < 30.0]
        points = np.insert(mode + some @ factor.T, place, log_sd, axis=1)
        log_weight = np.log(np.diag(factor)).sum() + np.asarray(of_many(points))
        parts.append((points, log_weight, np.full(len(points), shift)))
    points, log_weights, shift = (np.concatenate(part) for part in zip(*parts, strict=True))
    weights, draws = np.exp(log_weights - log_weights.max()), known.reported(points)

    def moments(weights):
        mean = weights @ draws / weights.sum()
        return mean, np.sqrt(weights @ (draws - mean) ** 2 / weights.sum())

    (mean, sd), (other, its_sd) = (moments(weights * (shift == one)) for one in (0, 1))
    if max((np.abs(mean - other) / sd).max(), np.abs(its_sd / sd - 1.0).max()) > 0.01:
        raise RuntimeError(
            f"{data.name}: two grids have means {mean}, {other}, sds {sd}, {its_sd}."
        )
    return moments(weights)


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
        if self.family == "poisson":
            return y * eta - jnp.exp(jnp.minimum(eta, _LARGE))
        return y * eta - jax.nn.softplus(eta)

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
    """What is reported, by skpmd's names; its intercept is where columns are zero."""
    p = data.columns.shape[1]
    columns, factors = data.names[:p], data.names[p:]
    found = [*columns, "intercept"]
    found += ["sigma"] if data.family == "normal" else []
    found += [f"sd[{factor}]" for factor in factors]
    if data.slope is not None:
        found += [f"{kind}[{factors[0]}:{columns[data.slope]}]" for kind in ("sd", "cor")]
    return found
