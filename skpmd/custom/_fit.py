"""Fits of a user's model by its values: of many rows by a sample, and the steps of a stream.

Many rows: the posterior of a sample whose log-likelihood counts as much as that of all rows has the
shape of the posterior of all, a few standard deviations away. It is found and checked as any other.
Values for all rows then lead from its mean to their mode. What the log-likelihood of all rows is
more than that of the sample is nearly a quadratic there, which values at a few points tell. With it
the sample stands for all rows (`skpmd.proposals.control_variates`).
"""

from functools import partial

import numpy as np

from skpmd._base.results import convergence_warnings
from skpmd._base.steps import cubic_account, kernel_step, n_draws, reweighted, step_in_place
from skpmd._runtime.call import phase
from skpmd.engine import cubic_surrogate, rejuvenation_error
from skpmd.engine.assumed_density import project
from skpmd.engine.edges import Unbounded, edges, without_errors
from skpmd.engine.importance import TAIL_DF, Proposal, normal, uniforms
from skpmd.engine.kde import cholesky
from skpmd.engine.mirror import log_joint, log_likelihood
from skpmd.engine.model import Model
from skpmd.engine.particles import draw_prior, moments
from skpmd.proposals.control_variates import (
    Expansion,
    Sample,
    SampledModel,
    checked,
    reach_of,
)
from skpmd.proposals.fitted_proposals import fitted_proposals, proposals_at_optima
from skpmd.proposals.from_values import from_values
from skpmd.proposals.importance_rounds import importance_rounds, importance_sample

_ROWS, _PER_COORDINATE = 2000, 100  # Of a sample, at least so many and so many a coordinate.
_FEWEST = 20  # There are so many times as many rows, or all are looked at.
_STEPS, _NEAR, _MIN_CURVATURE = 6, 0.3, 0.3  # To the mode, in posterior sds.
# Draws of the prior, from which searches for further modes begin, and powers of the likelihood.
_N_DRAWS, _POWERS = 1000, (0.02, 0.2)
_PER_TERM = 2  # The quadratic is found from so many values for each of its terms.
_SHARES = 0.75, 0.25  # Of the proposals, the second of which has Student tails.
_METHOD = "importance reweighting of proposals: a sample of rows"
# With a smaller share of the draws effective the kernel density estimate rejuvenates them instead.
_MIN_SHARE = 0.3
_STARTS = 200  # Searches start from so many of the heaviest particles.


def by_sample_or_all(model, rows, options, rng):
    """States of a fit by a sample of many rows, or by all where that does not do, for `drive`."""
    whole = rows.whole()
    sample, proposals = _sampled(model, rows, options, rng)
    if sample is not None:
        stand_in, given = SampledModel(model, sample), (options.n_particles, options.power, rng)
        states = (
            one.with_findings(notes={"method": _METHOD})
            for one in importance_rounds(stand_in, sample.batches, proposals, *given)
        )
        if (yield from checked(states, model, sample, whole, options.power, _is_sound)):
            return
    yield from from_values(model, whole, options, rng)


def _is_sound(outcome):
    return not convergence_warnings(outcome)


def _sampled(model, rows, options, rng):
    """The `Sample` that stands for all rows, and proposals for them and their shares, or None.

    It is None of few rows, of a posterior of the sample that is warned of, and where values of all
    rows do not lead to a mode.
    """
    none, n = (None, None), len(rows)
    # One batch says that rows may depend on each other.
    if n < _FEWEST * _ROWS or rows.n_batches == 1:
        return none
    d = model.sample_prior(np.random.default_rng(0), 2).shape[1]
    size = max(_ROWS, _PER_COORDINATE * d)
    if n < _FEWEST * size:
        return none
    some = rows.take(np.sort(rng.choice(n, size, replace=False)))
    nothing = Expansion(np.zeros(d), np.zeros(d), np.zeros((d, d)))
    times = rows.total / some.weight.sum()
    sample = Sample(nothing, np.zeros((d, d)), [some], [], size, times)
    *_, found = from_values(SampledModel(model, sample), [some], options, rng)
    if convergence_warnings(found) or not _has_one_mode(model, some, rng):
        return none
    moved = _moved(model, rows.whole(), options.power, found.particles, sample)
    if moved is None:
        return none
    sample, chol = moved
    proposals = Proposal(sample.centre, chol), Proposal(sample.centre, chol, TAIL_DF)
    return sample, (list(proposals), _SHARES)


def _has_one_mode(model, some, rng):
    """Whether searches from draws of the prior lead to one optimum of the posterior of some rows.

    Which of several is the highest depends on the sample: of 2,000 rows heights differ from those
    of all by their root times what a row knows, hundreds of nats. So likelihoods to small powers
    are looked at, too, under which lower modes are still some.
    """
    theta = draw_prior(model, _N_DRAWS, rng).theta
    log_prior, of_rows = model.log_prior(theta), log_likelihood(model, theta, [some])
    for power in _POWERS:
        joint, values = partial(log_joint, model, [some], power), log_prior + power * of_rows
        try:
            found = next(proposals_at_optima(joint, theta, values, power * of_rows, rng), None)
        except (FloatingPointError, np.linalg.LinAlgError):
            return False
        if found is None or len(found.optima) != 1:
            return False
    return True


@phase("values of all rows")
def _moved(model, batches, power, particles, sample):
    """The sample with what all rows have more, at their mode, and the root of the covariance."""
    mean, covariance = moments(particles.theta, particles.log_ratio)
    d, chol = len(mean), cholesky(covariance)
    for _ in range(_STEPS):
        points = np.concatenate([mean[None], mean + chol.T, mean - chol.T])
        at, ahead, back = np.split(log_joint(model, batches, power, points), [1, 1 + d])
        with np.errstate(invalid="ignore"):  # Of two points where the density is zero.
            curvature = np.maximum(2.0 * at - ahead - back, _MIN_CURVATURE)
            step = 0.5 * (ahead - back) / curvature
        if not np.isfinite(step).all():
            return None
        mean = mean + chol @ step
        if np.linalg.norm(step) < _NEAR:
            break
    else:
        return None
    i, j = np.triu_indices(d)
    u = normal(uniforms(_PER_TERM * (1 + d + len(i)), d, np.random.default_rng(0)))
    theta = mean + u @ chol.T
    gap = log_likelihood(model, theta, batches)
    of_sample = log_likelihood(SampledModel(model, sample), theta, sample.batches)
    with np.errstate(invalid="ignore"):
        gap = gap - of_sample
    if not np.isfinite(gap).all():
        return None
    terms = np.column_stack([np.ones(len(u)), u, u[:, i] * u[:, j]])
    fit = np.linalg.lstsq(terms, gap)[0]
    curved = np.zeros((d, d))
    curved[i, j] = fit[1 + d :]
    inverse = np.linalg.inv(chol)
    precision = -inverse.T @ (curved + curved.T) @ inverse
    rest = Expansion(mean, inverse.T @ fit[1 : 1 + d], precision, float(fit[0]))
    return sample._replace(rest=rest, reach=reach_of(inverse.T)), chol


# ------------------------------------------------------------------- streams
def step_from_values(stream, model, rows, a, b, options, rng):
    """The particles stay while enough of them are effective; else draws from proposals follow.

    On the first rows it is a fit: the prior is known everywhere. Later q is known at its particles
    only, and a cubic polynomial through the values of log q stands for it; where there are too few
    particles for that, or log q is no cubic, the step is that of `kernel_step`. Coordinates with
    edges are replaced by others without (`skpmd.engine.edges`).
    """
    if stream.particles is None:
        info, m = None, n_draws(options, len(rows))
        for outcome in from_values(model, rows.whole(), options._replace(n_particles=m), rng):
            info = outcome.infos[-1] if outcome.infos else info
        n_left_out = outcome.findings.n_left_out
        first = stream._replace(particles=outcome.particles, n_left_out=n_left_out)
        return first, info._replace(a=a, b=b)
    lower, upper = edges(without_errors(model.log_prior), stream.particles.theta)
    if np.isinf([lower, upper]).all():
        return _next_step(stream, model, rows, a, b, options, rng)
    free = Unbounded(model, lower, upper)
    stream = stream._replace(particles=free.freed(stream.particles))
    stream, info = _next_step(stream, free, rows, a, b, options, rng)
    return stream._replace(particles=free.restored(stream.particles)), info


def _next_step(stream, model, rows, a, b, options, rng):
    """One step after the first, where no coordinate has an edge."""
    if a > 0.0 and np.isnan(stream.particles.log_pi).any():  # Of Hamiltonian moves, or an average.
        return kernel_step(stream, model, rows, a, b, options, rng)
    before, m, batches = stream.particles, n_draws(options, len(rows)), rows.whole()
    after, info = step_in_place(stream, model, batches, a, b, options, rng)
    if info.ess >= options.settings.ess_threshold * options.n_particles:
        return after, info
    stayed = after.particles
    gaussian = project(stayed, rejuvenation_error.NO_ERROR, model.monitored).gaussian
    cubic = cubic_surrogate.fit(before, stayed, gaussian)
    outcome = None
    if cubic is not None:
        outcome = _drawn(stayed, _AfterStep(model, cubic, a), batches, b, m, rng)
    if outcome is None:
        return kernel_step(stream, model, rows, a, b, options, rng)
    error_terms = cubic_account(stream, stayed, outcome.particles, cubic, a, model.monitored)
    return reweighted(stream, outcome, error_terms, a, model)


class _AfterStep(Model):
    """The outcome of a step from q, up to a constant, with q^(1 - a) p^a for a prior."""

    def __init__(self, model, cubic, a):
        self._model, self._cubic, self._a = model, cubic, a
        self.log_likelihood = model.log_likelihood

    def log_prior(self, theta):
        """Log density up to a constant, -inf off the support of the prior; see `Model`."""
        log_prior = self._model.log_prior(theta)
        log_q = (1.0 - self._a) * cubic_surrogate.value(self._cubic, theta)
        with np.errstate(invalid="ignore"):
            return np.where(log_prior > -np.inf, log_q + self._a * log_prior, -np.inf)


def _drawn(stayed, target, batches, b, m, rng):
    """Weighted draws from proposals for the outcome of a step; None where that is not sound."""
    joint = partial(log_joint, target, batches, b)
    heaviest = np.argsort(-stayed.log_ratio, kind="stable")[:_STARTS]
    theta = stayed.theta[heaviest]
    values = joint(theta)
    found = next(fitted_proposals(joint, theta, values, values, rng), None)
    if found is None or not found.complete:
        return None
    outcome = importance_sample(
        target, batches, (found.components, found.shares), m, b, rng, _MIN_SHARE
    )
    return outcome if outcome.infos[0].ess >= _MIN_SHARE * m else None
