"""One step of a stream of rows whose particles are redrawn from references for its outcome."""

from skpmd.engine import cubic_surrogate, rejuvenation_error
from skpmd.engine.assumed_density import AssumedDensityModel, filter_step, more_accurate, project
from skpmd.engine.mirror import step
from skpmd.engine.rejuvenation_error import NO_ERROR, RejuvenationErrors, errors_of
from skpmd.logistic._importance import importance_sample, proposal_components

_LEAST_SHARE = 0.3  # of a redraw's first draws that are effective, if its cubic is to be trusted
_FEW_ROWS, _MORE = 500, 3  # particles cost little there, and last for more steps


def proposal_step(stream, model, batches, a, b, options, rng, *, proposal):
    """The particles stay while enough of them remain effective; else references replace them."""
    particles, assumed, settings = stream.particles, stream.assumed, options.settings
    stayed = None
    if particles is not None:
        still = settings._replace(rejuvenation="never")
        observer = RejuvenationErrors(model.monitored, stream.error_terms)
        stayed, info = step(particles, model, batches, a, b, still, rng, observer=observer)
        enough = info.ess >= settings.ess_threshold * options.n_particles
        if settings.rejuvenation == "never" or (enough and settings.rejuvenation == "ess"):
            last = assumed or project(particles, stream.error_terms, model.monitored)
            assumed = filter_step(last, model, batches, a, b, rng)
            stream = stream._replace(particles=stayed, assumed=assumed, error_terms=observer.terms)
            return stream, info
        projected = project(particles, stream.error_terms, model.monitored)
        assumed = more_accurate(assumed, projected, model.monitored)
    few = sum(len(batch.weight) for batch in batches) < _FEW_ROWS
    m = options.n_particles * (_MORE if few else 1)
    outcome, error_terms = _redraw(stream, stayed, assumed, model, batches, a, b, m, proposal, rng)
    log_prior = model.log_prior(outcome.particles.theta)
    moved = outcome.particles._replace(log_prior=log_prior)
    redraw, whole = errors_of(error_terms, moved, model.monitored)
    info = outcome.infos[-1]._replace(
        a=a, rejuvenations=int(particles is not None), rejuvenation_error=redraw, mean_error=whole
    )
    assumed = filter_step(assumed, model, batches, a, b, rng)
    return stream._replace(particles=moved, assumed=assumed, error_terms=error_terms), info


def _redraw(stream, stayed, assumed, model, batches, a, b, m, proposal, rng):
    """Weighted draws from references for the outcome of a step, and what they have lost.

    A Gaussian stands for q before the step, so that no redraw has to travel, and none happens twice
    in a step. Where a cubic follows q it weighs the draws, unless few of them are effective then:
    beyond the particles it was fitted to it may go up where q goes down.
    """

    def weighed(cubic, least_share):
        assumed_model = (
            model if assumed is None else AssumedDensityModel(model, assumed.gaussian, a, cubic)
        )
        fitted = proposal_components(assumed_model, batches, proposal, len(model.prior.scale), b)
        outcome = importance_sample(assumed_model, batches, *fitted, m, b, rng, least_share)
        return outcome

    particles = stream.particles
    cubic = None if assumed is None else cubic_surrogate.fit(particles, stayed, assumed.gaussian)
    if cubic is not None:
        outcome = weighed(cubic, _LEAST_SHARE)
        if outcome.infos[0].ess >= _LEAST_SHARE * m:
            error_terms = rejuvenation_error.fade(stream.error_terms, a)
            error_terms = cubic_surrogate.error_terms_of(
                cubic, particles, stayed, error_terms, model.monitored
            )
            return outcome, rejuvenation_error.of_conflict(
                error_terms, particles, stayed, outcome.particles, model.monitored
            )
    outcome = weighed(None, 0.0)
    if assumed is None:
        return outcome, NO_ERROR
    error_terms = rejuvenation_error.fade(assumed.error_terms, a)
    return outcome, rejuvenation_error.of_conflict(
        error_terms, particles, stayed, outcome.particles, model.monitored
    )
