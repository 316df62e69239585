"""Priors of a kernel's hyperparameters, and draws of their posterior.

Without a prior of the user's the kernel of few rows has a weak one, in units of the data:

* the noise's standard deviation is half-normal, of the scale of y;
* the log of an amplitude is normal around the log variance of y;
* the log of a length scale is that of a common one and a deviation of its own. The common one is
  normal around 1.5 times the root of the number of columns, in standard deviations of each. The
  deviations are normal with a scale that the rows decide on, .03 to .7 of a unit: length scales are
  alike until the rows pay for more.

Rows may say so little that the posterior fills the bounds of the kernel and has its mass at their
edges, or so much that no draw of the prior lies near it, and it may have a mode of long waves and
much noise beside one of short waves and little. So draws come from a mixture: the prior, Student
distributions at the optima of searches, and, round by round, Student kernels around the draws of
the largest weight so far (population Monte Carlo; Cappe, Guillin, Marin and Robert 2004). All draws
are weighed by the whole mixture (Owen and Zhou 2000), of which the prior is a part: weights are
bounded, and the evidence is right whatever kernels miss. Predictions from more than few rows need
one round around the best.
"""

from typing import Any, NamedTuple

import numpy as np

from skpmd._runtime.call import phase
from skpmd._runtime.threads import each
from skpmd.engine import mirror
from skpmd.engine.importance import Proposal, draw, log_density
from skpmd.engine.loop import Findings, Outcome, resumable
from skpmd.engine.particles import Particles, effective_sample_size, resample, weights
from skpmd.sparse_gp._covariance import KernelCovariance, kinds
from skpmd.sparse_gp._evidence import descended, objective_of
from skpmd.sparse_gp._starts import scales_of

# Scales of the noise's sd in sds of y, of the logs of an amplitude and of a common length scale,
# which has this middle, and of the log of the deviations' scale, which has this one.
_NOISE, _AMPLITUDE_SD, _LENGTH_SD, _LENGTH = 1.0, 1.5, 1.2, np.log(1.5)
_SPREAD_SD, _SPREAD = 1.5, np.log(0.15)
_LOG_TWO_PI, _MAX_LOG = np.log(2.0 * np.pi), 100.0
# Steps of differences and bounds of curvatures, in widths, and squared sds from optima to starts.
_STEP, _CURVED, _APART, _EVALUATIONS = 1e-4, (-1e12, 1e12), 9.0, 40
# Kernels of a round lie around so many draws, which are drawn by weights that are flattened until
# so many are effective, and are so much smaller than all draws together; some more are as wide.
_KERNELS, _EFFECTIVE, _NARROW, _WIDE, _WIDER = 12, 30.0, 0.25, 6, 1.5
# Draws of a round for a posterior, and for predictions: with more rows than the first number an
# evaluation takes long, and there are fewer, down to the last number. Rounds for a posterior end
# where so many draws are effective, or one for each particle; those for predictions where so many
# are for each. Of the prior there are so many at least.
_CHEAP_ROWS, _DRAWS, _DRAWS_FOR_PREDICTIONS = 120, (1000, 400), (240, 80)
_ENOUGH, _ENOUGH_FOR_EACH, _FROM_PRIOR = 600.0, 2.0, 64
_RIDGE = 1e-8  # Of a covariance, relative to the squared widths of the prior's draws.
# Degrees of freedom of the mixture's proposals; and of the one round around the best, with so many
# draws for each particle.
_DF, _DF_AROUND, _DRAWS_AROUND = 8.0, 10.0, 20


class HyperPrior:
    """Prior of the logs of a kernel's free hyperparameters.

    It is uniform between the logs of the kernel's bounds, unless ``distributions`` are given:
    frozen ones of scipy.stats, one for each free hyperparameter in the order of ``kernel.theta``,
    on its own scale (not of its logarithm).
    """

    def __init__(self, kernel, distributions=None):
        self.bounds, self.distributions = kernel.bounds, distributions
        n = len(kernel.theta)
        if distributions is not None and len(distributions) != n:
            raise ValueError(
                f"hyperprior has {len(distributions)} distributions, the kernel {n} free "
                "hyperparameters (kernel.theta): give one for each, in that order."
            )
        methods = ("rvs", "logpdf", "cdf")
        if not all(hasattr(one, name) for one in distributions or () for name in methods):
            raise ValueError(
                f"hyperprior must hold frozen distributions of scipy.stats, got {distributions!r}."
            )
        for place, one in enumerate(distributions or ()):
            if one.cdf(0.0) > 0.0:
                raise ValueError(
                    f"hyperprior[{place}] has mass below 0, where no hyperparameter can be: give a "
                    "distribution of positive numbers."
                )

    def sample(self, rng, m):
        """Draw m rows, shape (m, d)."""
        if self.distributions is not None:
            columns = [one.rvs(size=m, random_state=rng) for one in self.distributions]
            return np.log(np.column_stack(columns))
        if not np.isfinite(self.bounds).all():
            raise ValueError("kernel has a hyperparameter without bounds: set them or hyperprior.")
        low, high = self.bounds.T
        return rng.uniform(low, high, (m, len(low)))

    def log_density(self, theta):
        """Log density of the logs, shape (m,)."""
        if self.distributions is not None:
            pairs = zip(self.distributions, theta.T, strict=True)
            return sum(one.logpdf(np.exp(column)) + column for one, column in pairs)
        low, high = self.bounds.T
        inside = ((theta >= low) & (theta <= high)).all(axis=1)
        # A bound at infinity makes it improper, and one point is no choice: neither has a density.
        length = (high - low)[np.isfinite(high - low) & (high > low)]
        return np.where(inside, -np.log(length).sum(), -np.inf)

    def inward(self, u):
        """Theta (m, d) of coordinates: they are theta, and so are those of `outward`."""
        return u

    outward = inward

    def slope(self, theta, slope, step=1e-5):
        """Gradient (d,) of the log posterior, given that of the log likelihood.

        That of the prior is found by differences, and 0 where it has none.
        """
        steps = step * np.eye(len(theta))
        with np.errstate(all="ignore"):
            ahead, behind = self.log_density(theta + steps), self.log_density(theta - steps)
            own = (ahead - behind) / (2.0 * step)
        return slope + np.where(np.isfinite(own), own, 0.0)


class Shrunk:
    """The weak prior of the module's text for a fast kernel, in coordinates in which it is simple.

    With several length scales these are in units of the deviations' scale, and the common one and
    the log of that scale are two more coordinates at the end. Theta is clipped to the kernel's
    bounds.
    """

    def __init__(self, kernel, sample):
        start, variance = scales_of(sample, KernelCovariance(kernel).categorical)
        self._noise, amplitude, scales = (
            np.flatnonzero(kinds(kernel) == one)
            for one in ("noise_level", "constant_value", "length_scale")
        )
        d, self._scales = len(kernel.theta), scales
        self._limits = kernel.bounds.T
        self._middle, log_variance = np.zeros(d), np.log(variance)  # Where theta has its middle.
        self._middle[self._noise] = log_variance + 2.0 * np.log(_NOISE)
        self._middle[amplitude] = log_variance / max(len(amplitude), 1)
        self._middle[scales] = np.log(start) if len(scales) > 1 else np.log(start).mean()
        # The normal coordinates: all but the noise.
        self._mean, self._sd = np.zeros(d), np.ones(d)
        self._sd[amplitude] = _AMPLITUDE_SD
        if len(scales) > 1:
            self._mean = np.append(self._mean, [_LENGTH, _SPREAD])
            self._sd = np.append(self._sd, [_LENGTH_SD, _SPREAD_SD])
        else:
            self._mean[scales], self._sd[scales] = _LENGTH, _LENGTH_SD
        self._normal = np.delete(np.arange(len(self._mean)), self._noise)
        self.bounds = np.tile([-np.inf, np.inf], (len(self._mean), 1))

    def inward(self, u):
        """Theta (m, d) of coordinates (m, k)."""
        return np.clip(self._free(u), *self._limits)

    def _free(self, u):
        theta = u[:, : len(self._middle)].copy()
        if len(self._scales) > 1:
            theta[:, self._scales] *= np.exp(np.minimum(u[:, -1:], _MAX_LOG))
            theta[:, self._scales] += u[:, -2:-1]
        return theta + self._middle

    def outward(self, theta):
        """Coordinates (k,) of theta (d,)."""
        u = theta - self._middle
        if len(self._scales) < 2:
            return u
        common, spread = np.median(u[self._scales]), max(u[self._scales].std(), np.exp(_SPREAD))
        u[self._scales] = (u[self._scales] - common) / spread
        return np.append(u, [common, np.log(spread)])

    def sample(self, rng, m):
        """Draws (m, k) of the prior."""
        u = self._mean + self._sd * rng.standard_normal((m, len(self._mean)))
        u[:, self._noise] = 2.0 * np.log(np.abs(rng.standard_normal((m, len(self._noise)))))
        return u

    def log_density(self, u):
        """Log density (m,)."""
        z = ((u - self._mean) / self._sd)[:, self._normal]
        of_normal = -0.5 * (z**2 + _LOG_TWO_PI).sum(axis=1) - np.log(self._sd[self._normal]).sum()
        log_square = u[:, self._noise]  # Of a standard normal variable.
        with np.errstate(over="ignore"):
            of_noise = 0.5 * (log_square - np.exp(log_square) - _LOG_TWO_PI)
        return of_normal + of_noise.sum(axis=1)

    def slope(self, u, slope):
        """Gradient (k,) of the log posterior at u, given that of the log likelihood by theta."""
        theta, (low, high) = self._free(u[None])[0], self._limits
        slope = np.where((theta > low) & (theta < high), slope, 0.0)
        by_u = -(u - self._mean) / self._sd**2
        by_u[self._noise] = 0.5 * (1.0 - np.exp(np.minimum(u[self._noise], _MAX_LOG)))
        scales = self._scales
        if len(scales) > 1:
            scale = np.exp(min(u[-1], _MAX_LOG))
            by_u[-2] += slope[scales].sum()
            by_u[-1] += scale * (slope[scales] @ u[scales])
            slope[scales] *= scale
        by_u[: len(slope)] += slope
        return by_u


class Target(NamedTuple):
    """A posterior of hyperparameters."""

    prior: Any  # A `HyperPrior` or `Shrunk`, in whose coordinates u draws are.
    # evidence(theta, gradient): the log likelihood at theta (d,), with ``gradient`` its slope too.
    evidence: Any

    def values(self, u):
        """Log prior and log joint densities (m,); -inf off the support, where none is taken."""
        with np.errstate(all="ignore"):
            log_prior = self.prior.log_density(u)
            inside, joint = np.isfinite(log_prior), log_prior.copy()
            thetas = self.prior.inward(u[inside])
            joint[inside] += each(lambda one: self.evidence(one, gradient=False), thetas)
        return log_prior, np.where(np.isfinite(joint), joint, -np.inf)

    def value_and_slope(self, u):
        """Log joint density and its gradient at u (d,)."""
        with np.errstate(all="ignore"):
            value, slope = self.evidence(self.prior.inward(u[None])[0], gradient=True)
            return value + self.prior.log_density(u[None])[0], self.prior.slope(u, slope)


class Plan(NamedTuple):
    """How many draws, rounds and searches for optima there are."""

    of_prior: int
    of_optima: int  # Of all of them together.
    of_round: int
    enough: float  # Rounds end where so many draws are effective.
    n_rounds: int  # At most.
    n_starts: int


class _Pool(NamedTuple):
    """All draws so far, and the mixture that they came from."""

    u: np.ndarray  # (m, d)
    log_prior: np.ndarray  # (m,)
    log_joint: np.ndarray  # (m,)
    log_sum: np.ndarray  # (m,): Log of the sum of the parts' densities, times their draws.
    parts: list  # [(proposal, draws)]; None stands for the prior.

    @property
    def log_pi(self):
        """Log density of the mixture at each draw, (m,)."""
        return self.log_sum - np.log(len(self.u))

    @property
    def log_ratio(self):
        """Log of the joint density over that of the mixture at each draw, (m,)."""
        return self.log_joint - self.log_pi

    @property
    def widths(self):
        """Standard deviations (d,) of the draws of the first part."""
        return self.u[: self.parts[0][1]].std(axis=0)

    def outcome(self):
        """The draws as an `Outcome`."""
        no_block, log_ratio = np.empty((len(self.u), 0)), self.log_ratio
        particles = Particles(self.u, log_ratio, self.log_pi, self.log_prior, no_block)
        info = mirror.StepInfo(
            a=1.0, b=1.0, fraction=1.0, substeps=0, substep_bound_hit=False, rejuvenations=0,
            bandwidth=np.nan, ess=effective_sample_size(log_ratio), n_particles=len(log_ratio),
        )  # fmt: skip
        notes = {"method": "adaptive importance sampling from the prior on"}
        return Outcome(particles, [info], True, findings=Findings(notes=notes))


def _log_sum(target, parts, u):
    of_parts = [
        np.log(n) + (target.prior.log_density(u) if one is None else log_density(one, u))
        for one, n in parts
    ]
    return np.logaddexp.reduce(of_parts, axis=0)


def _joined(target, pool, proposals, size, rng):
    """The pool and ``size`` draws or so from further proposals, dealt out alike; None has none."""
    n = max(2, 2 * round(size / (2 * len(proposals))))
    new = [(one, n) for one in proposals]
    u = np.concatenate([
        target.prior.sample(rng, n) if one is None else draw(one, n, rng) for one in proposals
    ])  # fmt: skip
    log_prior, log_joint = target.values(u)
    if pool is None:
        return _Pool(u, log_prior, log_joint, _log_sum(target, new, u), new)
    parts = [*pool.parts, *new]
    before = np.logaddexp(pool.log_sum, _log_sum(target, new, pool.u))
    log_sum = np.concatenate([before, _log_sum(target, parts, u)])
    pairs = zip(pool[:3], (u, log_prior, log_joint), strict=True)
    return _Pool(*map(np.concatenate, pairs), log_sum, parts)


def proposal_at(slope_at, mode, widths, df=_DF):
    """A Student proposal of the curvature at a mode, none of whose directions is wider than widths.

    A direction of which the rows say nothing has no curvature. At an edge it may have the wrong
    sign, and where columns are beyond reason, rounding leaves no number.
    """
    steps = _STEP * np.diag(widths)
    slopes, d = np.array(each(slope_at, [*(mode + steps), *(mode - steps)])), len(mode)
    with np.errstate(invalid="ignore"):
        hessian = (slopes[d:] - slopes[:d]) / (2.0 * _STEP) * widths
    values, vectors = np.linalg.eigh(np.clip(np.nan_to_num(0.5 * (hessian + hessian.T)), *_CURVED))
    root = vectors / np.sqrt(np.maximum(values, 1.0))
    return Proposal(mode, widths[:, None] * np.linalg.cholesky(root @ root.T), df)


def _squares(proposal, u):
    """Squared distances (m,) from the mean of a proposal, in its standard deviations."""
    return (np.linalg.solve(proposal.factor, (u - proposal.mean).T) ** 2).sum(axis=0)


def states_of_posterior(target, theta, n_rows, m, rng):
    """States of importance sampling, good for m particles, for `skpmd.engine.loop.drive`.

    ``theta`` (d,) is the best by the likelihood of n rows alone.
    """
    size = _size(n_rows, *_DRAWS)
    enough, of_prior = max(min(_ENOUGH, size), float(m)), 2 * _size(n_rows, _DRAWS[0], _FROM_PRIOR)
    return _states(target, theta, Plan(of_prior, size, size, enough, 12, 4), rng)


def _size(n_rows, most, fewest):
    return int(np.clip(most * (_CHEAP_ROWS / n_rows) ** 2, fewest, most))


@phase("draws of kernels")
def draw_from_posterior(target, theta, n_rows, m, rng):
    """The best hyperparameters theta (d,), and draws of their posterior; shape (m, d)."""
    most, fewest = _DRAWS_FOR_PREDICTIONS
    size = _size(n_rows, most, fewest)
    enough, n_starts = _ENOUGH_FOR_EACH * m, 2 if n_rows <= _CHEAP_ROWS else 1
    plan = Plan(_FROM_PRIOR, size + fewest, size, enough, 4, n_starts)
    *_, (found, *_) = _states(target, theta, plan, rng)
    if not np.isfinite(found.log_ratio).any():
        return np.tile(theta, (m, 1))
    flat = _flattened(found.log_ratio, m)  # Else one of few draws would be there many times.
    draws = target.prior.inward(resampled(flat, found.theta, m - 1, rng))
    return np.concatenate([theta[None], draws])


def _states(target, theta, plan, rng):
    def states(at):
        if at is None:
            pool = _joined(target, None, [None], plan.of_prior, rng)
            optima = _optima(target, pool, theta, plan)
            pool = _joined(target, pool, optima, plan.of_optima, rng)
            at = pool, pool.outcome().infos
        pool, infos = at
        yield pool.outcome()._replace(infos=infos), at
        while len(infos) <= plan.n_rounds and infos[-1].ess < plan.enough:
            pool = _with_kernels(target, pool, plan.of_round, rng)
            new = pool.outcome()
            infos = [*infos, *new.infos]
            yield new, (pool, infos)

    return resumable(states, rng)


@phase("search for optima")
def _optima(target, pool, theta, plan):
    """Student distributions at optima of the joint density."""
    widths, left, found = pool.widths, np.isfinite(pool.log_joint), []
    objective, start = objective_of(target.value_and_slope), target.prior.outward(theta)
    for _ in range(plan.n_starts):
        end = descended(objective, start, target.prior.bounds, _EVALUATIONS).theta
        proposal = proposal_at(lambda u: target.value_and_slope(u)[1], end, widths)
        if all(_squares(one, end[None])[0] > 1.0 for one in found):
            found.append(proposal)
        left &= (_squares(proposal, pool.u) > _APART) & (
            _squares(Proposal(start, np.diag(widths)), pool.u) > 1.0
        )
        if not left.any():
            break
        start = pool.u[np.argmax(np.where(left, pool.log_joint, -np.inf))]
    return found


@phase("draws around the best so far")
def _with_kernels(target, pool, size, rng):
    """The pool with draws from kernels around those of the largest weights."""
    w = weights(_flattened(pool.log_ratio, _EFFECTIVE))
    mean = w @ pool.u
    away = pool.u - mean
    factor = np.linalg.cholesky((w * away.T) @ away + _RIDGE * np.diag(pool.widths**2))
    centres = pool.u[resample("systematic", w, _KERNELS, rng)]
    narrow = [Proposal(one, np.sqrt(_NARROW) * factor, _DF) for one in centres]
    wide = [Proposal(mean, np.sqrt(_WIDER) * factor, _DF)] * _WIDE
    return _joined(target, pool, [*narrow, *wide], size, rng)


def _flattened(log_ratio, enough):
    """Log weights to a power at which so many are effective."""
    power = 1.0
    while power > 1e-3 and effective_sample_size(power * log_ratio) < enough:
        power *= 0.7
    return power * log_ratio


def resampled(log_ratio, u, m, rng):
    """Equally weighted hyperparameters, (m, d), of weighted ones."""
    return u[resample("systematic", weights(log_ratio), m, rng)]


@phase("draws of hyperparameters")
def draw_around(target, theta, m, rng):
    """The best hyperparameters, and draws of their posterior around them.

    Draws from a Student proposal, with the curvature of the log evidence of a few rows, are weighed
    by it and resampled. The evidence of many rows may have refined theta away from the mode of
    those: their log likelihood is then tilted by its slope at theta, which makes theta a mode and
    leaves the curvature. The result, (m, d), begins with theta.
    """
    evidence, prior = target.evidence, target.prior

    def slope_at(one):
        return evidence(one, gradient=True)[1]

    slope, (low, high) = slope_at(theta), prior.bounds.T
    draws, log_proposal = around(slope_at, theta, _DRAWS_AROUND * m, prior.bounds, rng)
    values = each(lambda one: evidence(one, gradient=False), draws)
    # At a bound of theta a slope that points outwards is that of the mode.
    outwards = ((theta <= low) & (slope < 0.0)) | ((theta >= high) & (slope > 0.0))
    tilt = (draws - theta) @ np.where(outwards, 0.0, slope)
    log_prior = prior.log_density(draws)
    if not np.isfinite(log_prior).any():
        raise ValueError(
            "hyperprior has no mass at any draw around the fitted hyperparameters "
            f"{np.exp(theta)}: widen it, or set n_particles=1, which does without it."
        )
    log_weight = np.array(values) - tilt + log_prior - log_proposal
    if not np.isfinite(log_weight).any():
        return np.tile(theta, (m, 1))
    return np.concatenate([theta[None], resampled(log_weight, draws, m - 1, rng)])


def around(slope_at, theta, n, bounds, rng):
    """Draws (n, d) around a mode, clipped to bounds (d, 2), and their log densities (n,)."""
    proposal = proposal_at(slope_at, theta, np.ones(len(theta)), _DF_AROUND)
    draws = np.clip(draw(proposal, n + n % 2, rng)[:n], *bounds.T)
    return draws, log_density(proposal, draws)
