"""One step of a stream of rows whose particles are redrawn from references for its outcome."""

from skpmd.engine import cubic_surrogate, rejuvenation_error
from skpmd.engine.assumed_density import Sequel, better, follow, track_of
from skpmd.engine.mirror import step
from skpmd.engine.particles import NOTHING
from skpmd.logistic._importance import references, weigh_references

_LEAST_SHARE = 0.3  # of a redraw's first draws that are effective, if its cubic is to be trusted
_FEW_ROWS, _MORE = 500, 3  # particles cost little there, and last for more steps


def reference_step(stream, model, batches, a, b, options, rng, *, proposal):
    """The particles stay while enough of them remain effective; else references replace them."""
    cloud, track, settings = stream.cloud, stream.track, options.settings
    stayed = None
    if cloud is not None:
        still = settings._replace(rejuvenation="never")
        stayed, info = step(cloud, model, batches, a, b, still, rng)
        enough = info.ess >= settings.ess_threshold * options.n_particles
        if settings.rejuvenation == "never" or (enough and settings.rejuvenation == "ess"):
            last = track or track_of(cloud, model.watched)
            return stayed, follow(last, model, batches, a, b, rng), info
        track = better(track, track_of(cloud, model.watched), model.watched)
    few = sum(len(batch.weight) for batch in batches) < _FEW_ROWS
    m = options.n_particles * (_MORE if few else 1)
    outcome, lost = _redraw(cloud, stayed, track, model, batches, a, b, m, proposal, rng)
    log_prior = model.log_prior(outcome.cloud.theta)
    moved = outcome.cloud._replace(log_prior=log_prior, lost=lost)
    redraw, whole = rejuvenation_error.of_cloud(moved, model.watched)
    info = outcome.infos[-1]._replace(
        a=a, rejuvenations=int(cloud is not None), redraw_error=redraw, mean_error=whole
    )
    return moved, follow(track, model, batches, a, b, rng), info


def _redraw(cloud, stayed, track, model, batches, a, b, m, proposal, rng):
    """Weighted draws from references for the outcome of a step, and what they have lost.

    A Gaussian stands for q before the step, so that no redraw has to travel, and none happens twice
    in a step. Where a cubic follows q it weighs the draws, unless few of them are effective then:
    beyond the particles it was fitted to it may go up where q goes down.
    """

    def weighed(cubic, least_share):
        sequel = model if track is None else Sequel(model, track.gaussian, a, cubic)
        fitted = references(sequel, batches, proposal, len(model.prior.scale), b)
        outcome = weigh_references(sequel, batches, *fitted, m, b, rng, least_share)
        if outcome.interrupted:
            raise KeyboardInterrupt
        return outcome

    cubic = None if track is None else cubic_surrogate.fit(cloud, stayed, track.gaussian)
    if cubic is not None:
        outcome = weighed(cubic, _LEAST_SHARE)
        if outcome.infos[0].ess >= _LEAST_SHARE * m:
            lost = rejuvenation_error.fade(cloud.lost, a)
            lost = cubic_surrogate.lost_by(cubic, cloud, stayed, lost, model.watched)
            return outcome, rejuvenation_error.of_conflict(
                lost, cloud, stayed, outcome.cloud, model.watched
            )
    outcome = weighed(None, 0.0)
    if track is None:
        return outcome, NOTHING
    lost = rejuvenation_error.fade(track.lost, a)
    return outcome, rejuvenation_error.of_conflict(
        lost, cloud, stayed, outcome.cloud, model.watched
    )
