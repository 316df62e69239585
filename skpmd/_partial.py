"""Data in parts: one step of a stream, the state it carries, and what a failed call must undo."""

import copy
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from skpmd._base import Outcome
from skpmd._proposals import references, weigh_references
from skpmd.engine import loss, surrogate
from skpmd.engine.cloud import NOTHING, Cloud, draw_prior
from skpmd.engine.mirror import step
from skpmd.engine.sequel import Sequel, Track, better, follow, track_of
from skpmd.posterior import as_generator

_LEAST_SHARE = 0.3  # of a redraw's first draws that are effective, if its cubic is to be trusted
_FEW_ROWS, _MORE = 500, 3  # particles cost little there, and last for more steps


class Stream(NamedTuple):
    """All that an estimator needs to go on: the data are not in it.

    Attributes
    ----------
    cloud : Cloud or None
        q; None before the first rows.
    track : Track or None
        The Gaussian that follows q, where the model's proposal needs one.
    infos : list of StepInfo
        A record of each step of all calls.
    seen : float
        Weighted rows so far.
    rng : numpy.random.Generator
        Source of all randomness.
    """

    cloud: Cloud | None
    track: Track | None
    infos: list
    seen: float
    rng: np.random.Generator

    def outcome(self):
        """What it has come to."""
        return Outcome(self.cloud, self.infos, polished=False)


def coefficients(options, seen, size):
    """(a, b) of a step on ``size`` weighted rows after ``seen`` of them.

    Without ``total_samples`` each row counts once, and ``forgetting`` discounts the past. With it,
    the first pass is such a stream too; after it a step is a mirror step, with gamma the share of
    its rows among all rows so far, which averages over passes.
    """
    power = 1.0 / options.temperature
    total = options.total_samples
    if total is None:
        return -np.expm1(size * np.log1p(-options.forgetting)), power
    if seen + size <= total * (1.0 + 1e-9):
        return 0.0, power
    gamma = size / (seen + size)
    return gamma, power * gamma * total / size


def advance(stream, model, rows, options, proposal="prior"):
    """One step on the rows of one call.

    Parameters
    ----------
    stream : Stream
        Before; left as it is.
    model : Model
        See `skpmd.models.base`.
    rows : Rows
        Data of the call. They are one batch: ``batch_size`` cuts them into pieces that fit in
        memory and nothing else.
    options : Options
        Parameters of the estimator.
    proposal : {"prior", "auto", "laplace", "mirror"}
        Where particles are redrawn from: the kernel density estimate of the cloud, or references
        for the step's own outcome, which the model must offer.

    Returns
    -------
    Stream
        After.
    """
    rng = copy.deepcopy(stream.rng)
    a, b = coefficients(options, stream.seen, rows.total)
    move = _by_kernels if proposal == "prior" else _by_references
    cloud, track, info = move(stream, model, rows.whole(), a, b, options, proposal, rng)
    return Stream(cloud, track, [*stream.infos, info], stream.seen + rows.total, rng)


def _by_kernels(stream, model, batches, a, b, options, proposal, rng):
    """Values of the likelihood alone: the step with its guard, as in ``fit``."""
    cloud = stream.cloud
    if cloud is None:
        cloud = draw_prior(model, options.n_particles, rng)
    # A mirror step asks for pi, which an averaged iterate does not know.
    unknown = a > 0.0 and bool(np.isnan(cloud.log_pi).any())
    moved = step(cloud, model, batches, a, b, options.settings, rng, redraw_first=unknown)
    return moved[0], None, moved[1]


def _by_references(stream, model, batches, a, b, options, proposal, rng):
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
    redraw, whole = loss.of_cloud(moved, model.watched)
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

    cubic = None if track is None else surrogate.fit(cloud, stayed, track.gaussian)
    if cubic is not None:
        outcome = weighed(cubic, _LEAST_SHARE)
        if outcome.infos[0].ess >= _LEAST_SHARE * m:
            lost = loss.fade(cloud.lost, a)
            lost = surrogate.lost_by(cubic, cloud, stayed, lost, model.watched)
            return outcome, loss.of_conflict(lost, cloud, stayed, outcome.cloud, model.watched)
    outcome = weighed(None, 0.0)
    if track is None:
        return outcome, NOTHING
    lost = loss.fade(track.lost, a)
    return outcome, loss.of_conflict(lost, cloud, stayed, outcome.cloud, model.watched)


def learn(estimator, model, rows, options, proposal="prior"):
    """The stream of an estimator after the rows of a call, which is kept on the estimator."""
    stream = getattr(estimator, "_stream", None)
    if stream is None:
        stream = Stream(None, None, [], 0.0, as_generator(estimator.random_state))
    elif model.n_coordinates not in (None, stream.cloud.theta.shape[1]):
        raise ValueError(
            f"The stream has {stream.cloud.theta.shape[1]} coordinates, the parameters now ask for "
            f"{model.n_coordinates}: do not change fit_intercept or prior between calls."
        )
    estimator._stream = advance(stream, model, rows, options, proposal)
    return estimator._stream


@contextmanager
def unharmed(estimator):
    """Leave an estimator, and a generator that it was given, as they were if anything fails."""
    before, generator = vars(estimator).copy(), estimator.random_state
    position = copy.deepcopy(generator)
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = position.bit_generator.state
        elif isinstance(generator, np.random.RandomState):
            generator.set_state(position.get_state())
        raise
