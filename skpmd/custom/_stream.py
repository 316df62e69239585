"""One step of a stream whose particles come from proposals fitted to values, where that works."""

from functools import partial

import numpy as np

from skpmd._base.steps import cubic_account, kernel_step, n_draws, reweighted, step_in_place
from skpmd.engine import cubic_surrogate, mirror, rejuvenation_error
from skpmd.engine.assumed_density import project
from skpmd.engine.edges import Unbounded, edges, without_errors
from skpmd.engine.model import Model
from skpmd.proposals.fitted_proposals import fitted_proposals
from skpmd.proposals.from_values import from_values
from skpmd.proposals.importance_rounds import importance_sample

# With a smaller share of the draws effective the kernel density estimate rejuvenates them instead.
_MIN_SHARE = 0.3
_STARTS = 200  # Searches start from so many of the heaviest particles.


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
    log_joint = partial(mirror.log_joint, target, batches, b)
    heaviest = np.argsort(-stayed.log_ratio, kind="stable")[:_STARTS]
    theta = stayed.theta[heaviest]
    values = log_joint(theta)
    found = next(fitted_proposals(log_joint, theta, values, values, rng), None)
    if found is None or not found.complete:
        return None
    outcome = importance_sample(
        target, batches, (found.components, found.shares), m, b, rng, _MIN_SHARE
    )
    return outcome if outcome.infos[0].ess >= _MIN_SHARE * m else None
