"""One step of a stream of rows whose particles are rejuvenated from proposals for its outcome."""

from skpmd.engine import cubic_surrogate, mirror, rejuvenation_error
from skpmd.engine.assumed_density import AssumedDensityModel, filter_step, more_accurate, project
from skpmd.engine.rejuvenation_error import NO_ERROR, RejuvenationErrors, errors_of
from skpmd.logistic._importance import proposal_components
from skpmd.proposals.importance_rounds import importance_sample

# The cubic surrogate is trusted if at least this share of the first draws it weighs is effective.
_MIN_SHARE = 0.3
# With fewer rows particles cost little, so that a rejuvenation draws several times as many: they
# last for more steps.
_FEW_ROWS, _MORE = 500, 3


def proposal_step(stream, model, batches, a, b, options, rng, *, proposal):
    """The particles stay while enough of them are effective; else draws from proposals follow."""
    particles, assumed, settings = stream.particles, stream.assumed, options.settings
    stayed = None
    if particles is not None:
        in_place = settings._replace(rejuvenation="never")
        observer = RejuvenationErrors(model.monitored, stream.error_terms)
        stayed, info = mirror.step(
            particles, model, batches, a, b, in_place, rng, observer=observer
        )
        enough = info.ess >= settings.ess_threshold * options.n_particles
        if settings.rejuvenation == "never" or (enough and settings.rejuvenation == "ess"):
            assumed = assumed or project(particles, stream.error_terms, model.monitored)
            assumed = filter_step(assumed, model, batches, a, b, rng)
            stream = stream._replace(particles=stayed, assumed=assumed, error_terms=observer.terms)
            return stream, info
        projected = project(particles, stream.error_terms, model.monitored)
        assumed = more_accurate(assumed, projected, model.monitored)
    few = sum(len(batch.weight) for batch in batches) < _FEW_ROWS
    m = options.n_particles * (_MORE if few else 1)
    outcome, error_terms, assumed = _rejuvenate(
        stream, stayed, assumed, model, batches, a, b, m, proposal, rng
    )
    log_prior = model.log_prior(outcome.particles.theta)
    moved = outcome.particles._replace(log_prior=log_prior)
    by_rejuvenation, total = errors_of(error_terms, moved, model.monitored)
    rejuvenations = int(particles is not None)
    info = outcome.infos[-1]._replace(a=a, rejuvenations=rejuvenations)
    info = info._replace(rejuvenation_error=by_rejuvenation, mean_error=total)
    assumed = filter_step(assumed, model, batches, a, b, rng)
    return stream._replace(particles=moved, assumed=assumed, error_terms=error_terms), info


def _rejuvenate(stream, stayed, assumed, model, batches, a, b, m, proposal, rng):
    """Weighted draws from proposals for the outcome of a step, and what rejuvenations have lost.

    The Gaussian of the assumed-density filter takes the place of q before the step, so that
    particles need not travel and are drawn at most once in a step. Where a cubic surrogate of log q
    can be fitted, it weighs the draws, unless few of them are effective then: beyond the particles
    it was fitted to it may rise where q falls. Without one the draws are no better than the
    Gaussian, and what speaks against them stays with its own account, which comes third.
    """
    particles = stream.particles

    def drawn(cubic, min_share):
        target = model
        if assumed is not None:
            target = AssumedDensityModel(model, assumed.gaussian, a, cubic)
        components, shares = proposal_components(target, batches, proposal, b)
        return importance_sample(target, batches, components, shares, m, b, rng, min_share)

    if assumed is None:
        return drawn(None, 0.0), NO_ERROR, None

    def with_conflict(error_terms, outcome):
        return rejuvenation_error.of_conflict(
            error_terms, particles, stayed, outcome.particles, model.monitored
        )

    cubic = cubic_surrogate.fit(particles, stayed, assumed.gaussian)
    outcome = None if cubic is None else drawn(cubic, _MIN_SHARE)
    if outcome is not None and outcome.infos[0].ess >= _MIN_SHARE * m:
        error_terms = rejuvenation_error.fade(stream.error_terms, a)
        error_terms = cubic_surrogate.error_terms_of(
            cubic, particles, stayed, error_terms, model.monitored
        )
        return outcome, with_conflict(error_terms, outcome), assumed
    outcome = drawn(None, 0.0)
    assumed = assumed._replace(error_terms=with_conflict(assumed.error_terms, outcome))
    return outcome, rejuvenation_error.fade(assumed.error_terms, a), assumed
