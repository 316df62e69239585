"""Strategy ``"parameters"`` of a mixture: draws of all its parameters from their posterior."""

import copy
from typing import NamedTuple

import numpy as np

from skpmd._base.progress import progress
from skpmd._base.results import convergence_warnings
from skpmd._base.rows import Rows, merged
from skpmd._base.streaming import Stream, advance, coefficients
from skpmd.engine.loop import Options, drive
from skpmd.engine.mirror import Settings
from skpmd.engine.model import Batch
from skpmd.engine.particles import log_weights
from skpmd.engine.smc import tempering
from skpmd.mixture._component_priors import Independent, NormalWishart
from skpmd.mixture._model import MixtureParameters
from skpmd.mixture._particles import MixtureParticles, ParametersFit
from skpmd.mixture._stick_breaking import Sticks

N_PARTICLES = 2000
MOST_KEPT = 5000  # rows
_LEAST_PARTICLES = 100  # of which averages and the evidence may be told
_NOTHING = 1e-9  # a weight of a row that is forgotten
_LEAST_DISTINCT = 0.05  # of the particles
_LEAST_ACCEPTANCE = 0.1
_MOST_CORRELATION = 0.5


class Stage(NamedTuple):
    """A record of one power of the likelihood.

    Attributes
    ----------
    power : float
        Power of the likelihood, 1 at the end.
    ess : float
        Effective sample size before resampling.
    log_increment : float
        Increment of the log evidence.
    moves : int
        Moves of each particle.
    acceptance : float
        Their mean acceptance probability.
    correlation : float
        Rank correlation of the log densities before and after the moves.
    """

    power: float
    ess: float
    log_increment: float
    moves: int
    acceptance: float
    correlation: float


def _stage(info):
    extra = info.extra
    return Stage(
        extra["power"],
        info.ess,
        extra["log_increment"],
        extra["n_moves"],
        extra["acceptance"],
        extra["correlation"],
    )


class ParametersState(NamedTuple):
    """What a stream of parts needs to go on.

    Attributes
    ----------
    model : MixtureParameters
        With the order that the first rows gave to components.
    stream : Stream
        The particles, in the model's coordinates; none after a fit that was interrupted.
    kept : Batch or None
        All rows so far with what they count now; None once they were too many to keep.
    stages : list of Stage
        Record of all parts.
    log_evidence, variance : float
        Of the rows so far, nan where it is not known; and the variance of the estimate.
    n_learned : int
        Distinct rows when the particles were last drawn anew; 0 after a fit that was interrupted.
    """

    model: MixtureParameters
    stream: Stream
    kept: Batch | None
    stages: list
    log_evidence: float
    variance: float
    n_learned: int = 0


def fit_parameters(estimator, problem, X, weight, rng):
    """Posterior of a mixture's parameters given all rows, by tempering from the prior.

    Parameters
    ----------
    estimator : GaussianMixturePMD
        ``n_particles``, ``ess_threshold`` and ``verbose``.
    problem : Problem
        The mixture and its prior, in inner units.
    X : ndarray of shape (n, p)
        Distinct rows in inner units, in sorted order.
    weight : ndarray of shape (n,)
        How often each counts.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    ParametersFit
        Equally weighted draws, and the log evidence.
    """
    rows = Batch(np.ascontiguousarray(X), None, weight)
    model = parameters_model(problem, X, weight)
    stream = Stream(None, None, [], 0.0, rng)
    state = ParametersState(model, stream, None, [], 0.0, 0.0)
    return _tempered(estimator, state, rows, 0.0, float(weight.sum()))


def partial_fit_parameters(estimator, problem, X, weight, rng, state=None):
    """Posterior after the rows of one more part.

    As long as rows are few they are kept, and particles move from the posterior of the part before
    to that of all rows by tempering. Later the rows are let go: the weights of the particles
    follow the sequential Bayes rule (or a mirror step, `skpmd._base.streaming.coefficients`), and
    particles are redrawn from their kernel density estimate when few are effective.

    Parameters
    ----------
    estimator, problem, X, weight, rng
        As of `fit_parameters`; ``problem`` and ``rng`` are for the first part.
    state : ParametersState or None
        Of the part before, left as it is; None before the first.

    Returns
    -------
    ParametersFit
        Draws, weighted once rows are no longer kept; the log evidence as long as they are.
    """
    if state is None:
        return fit_parameters(estimator, problem, X, weight, rng)
    options = Options(
        n_particles=_n_particles(estimator),
        total_samples=estimator.total_samples,
        forgetting=estimator.forgetting,
        settings=Settings(
            rejuvenation=estimator.rejuvenation,
            ess_threshold=estimator.ess_threshold,
            bandwidth=estimator.bandwidth,
        ),
    )
    rows, size = Batch(np.ascontiguousarray(X), None, weight), float(weight.sum())
    fresh = state.stream.particles is None  # the fit before was interrupted
    if not fresh and (state.kept is None or len(state.kept.weight) + len(weight) > MOST_KEPT):
        return _followed(state, rows, options)
    if fresh:
        state = state._replace(log_evidence=0.0)
    a, b = _coefficients(estimator, state, weight)
    return _tempered(estimator, state, rows._replace(weight=b * weight), a, size)


def all_rows(estimator, state, X, weight):
    """All rows so far, if they are to be learnt anew, or None.

    A first part of one row says nothing of scales: while all rows are kept, and the particles have
    been drawn anew from less than half of them, units and the prior's defaults are found anew too.

    Parameters
    ----------
    estimator : GaussianMixturePMD
        ``forgetting`` and ``total_samples``.
    state : ParametersState
        Of the parts before.
    X : ndarray of shape (n, p)
        Distinct rows of the new part, in the units of the state.
    weight : ndarray of shape (n,)
        How often each counts.

    Returns
    -------
    X : ndarray of shape (n, p)
        Distinct rows, sorted.
    weight : ndarray of shape (n,)
        How often each counts, the past discounted.
    discount : float
        Share of the past that is forgotten now.
    """
    if state.kept is None or len(state.kept.weight) + len(weight) > MOST_KEPT:
        return None
    a, b = _coefficients(estimator, state, weight)
    total = _joined(state.kept, Batch(X, None, b * weight), a)
    places, weight = merged(total.weight, total.X)
    if len(places) < 2 * state.n_learned:
        return None
    return total.X[places], weight, a


def learn_anew(estimator, problem, X, weight, size, discount, state):
    """Posterior given all rows, drawn as by `fit_parameters`, as the next step of a stream.

    Parameters
    ----------
    estimator, problem, X, weight
        As of `fit_parameters`.
    size : float
        Weighted rows of the part that has come.
    discount : float
        Share of the past that it makes forgotten.
    state : ParametersState
        Of the parts before, left as it is.

    Returns
    -------
    ParametersFit
        The evidence is that of rows none of which have been forgotten.
    """
    seen, known = (
        state.stream.seen,
        state.stream.particles is None or not np.isnan(state.log_evidence),
    )
    model = parameters_model(problem, X, weight)
    stream = Stream(None, None, [], seen, state.stream.rng)
    first = ParametersState(model, stream, None, state.stages, 0.0 if known else np.nan, 0.0)
    rows = Batch(np.ascontiguousarray(X), None, weight)
    return _tempered(estimator, first, rows, discount, size)


def _coefficients(estimator, state, weight):
    options = Options(total_samples=estimator.total_samples, forgetting=estimator.forgetting)
    return coefficients(options, state.stream.seen, float(weight.sum()))


def _tempered(estimator, state, rows, a, size):
    """Particles after a step with coefficient a on the past, all rows at hand.

    Kept rows count (1 - a) times what they did: that is the linear form of `skpmd.engine.mirror`
    in terms of weights of rows.
    """
    model, stream, total = state.model, state.stream, _joined(state.kept, rows, a)
    rng = copy.deepcopy(stream.rng)
    if stream.particles is None:
        way = {"initial": model.reference(total.X, total.weight)}
        before, n_learned = (state.log_evidence, 0.0), len(total.weight)
    else:
        way = {"start": stream.particles.theta, "before": [state.kept]}
        before, n_learned = (state.log_evidence, state.variance), state.n_learned
    m, least = _n_particles(estimator), estimator.ess_threshold
    with progress(100, estimator.verbose, "tempering, % of the way") as bar:
        report = _teller(bar)
        states = tempering(model, [total], m, rng, ess_threshold=least, **way)
        found = drive(states, lambda info: report(_stage(info)))
    stages = [_stage(info) for info in found.infos]
    if found.interrupted and stream.particles is not None:
        raise KeyboardInterrupt  # the estimator stays as it was
    stream = Stream(
        None if found.interrupted else found.particles, None, [], stream.seen + size, rng
    )
    after = ParametersState(
        model,
        stream,
        total,
        [*state.stages, *stages],
        np.nan if a or found.interrupted else before[0] + found.log_evidence,
        before[1] + found.log_evidence_se**2,
        0 if found.interrupted else n_learned,
    )
    return _outcome(after, found.particles, _convergence_warnings(found), found.interrupted)


def _joined(kept, rows, a):
    """Kept rows, which count (1 - a) times what they did, and new ones."""
    if kept is None:
        return rows
    weight = np.concatenate([(1.0 - a) * kept.weight, rows.weight])
    left = weight > _NOTHING
    return Batch(np.concatenate([kept.X, rows.X])[left], None, weight[left])


def _teller(bar):
    """What tells a bar of the stages."""
    done = 0

    def report(stage):
        nonlocal done
        now = int(100 * stage.power)
        bar.update(now - done, f"acceptance={stage.acceptance:.2f}")
        done = now

    return report


def _followed(state, rows, options):
    """Particles after a step on rows that are not kept, nor are those before."""
    stream = advance(state.stream, state.model, Rows(*rows, len(rows.weight)), options)
    ess = stream.infos[-1].ess
    stage = Stage(1.0, ess, np.nan, 0, np.nan, np.nan)
    after = ParametersState(state.model, stream, None, [*state.stages, stage], np.nan, np.nan)
    return _outcome(
        after, stream.particles, convergence_warnings(stream.outcome(), stream=True), False
    )


def _outcome(state, particles, reasons, interrupted):
    known, m = not np.isnan(state.log_evidence), len(particles.theta)
    if m < _LEAST_PARTICLES:
        few = f"{m} particles are too few to tell a posterior or its evidence by: set n_particles"
        reasons = [*reasons, f"{few} to {_LEAST_PARTICLES} or more"]
    return ParametersFit(
        particles_of(state.model, particles),
        state.log_evidence if known else None,
        float(np.sqrt(state.variance)) if known else None,
        _record(state.stages),
        converged=not interrupted and not reasons,
        interrupted=interrupted,
        convergence_warnings=reasons,
        state=state,
    )


def parameters_model(problem, X, weight):
    """Model of a problem; components are ordered along the rows' first principal axis."""
    sticks = Sticks.of(
        problem.weights_type, problem.n_components, problem.concentration, problem.discount
    )
    kind, covariance = problem.covariance_type, np.asarray(problem.covariance, dtype=np.float64)
    if problem.component_prior == "normal_wishart":
        own = problem.mean, problem.mean_precision, problem.df, covariance
        return MixtureParameters(sticks, NormalWishart(kind, *own), _axis(X, weight))
    variances = np.diag(covariance) if covariance.ndim == 2 else np.atleast_1d(covariance)
    independent = Independent(kind, problem.mean, problem.mean_scale, np.sqrt(variances))
    return MixtureParameters(sticks, independent, _axis(X, weight))


def particles_of(model, particles):
    """`MixtureParticles` of a cloud of the model's."""
    alive = np.isfinite(particles.log_ratio)  # a redraw may have left the region of its labels
    mixtures = model.mixtures(np.ascontiguousarray(particles.theta[alive]))
    # Sigma = A A' with A = C^-T; of A' = Q R it is R' R, whatever the precision's condition.
    root = np.linalg.qr(np.linalg.inv(mixtures.factor), mode="r").swapaxes(-1, -2)
    sign = np.where(np.diagonal(root, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)
    own = log_weights(particles.log_ratio[alive])
    shares = mixtures.log_shares
    return MixtureParticles(
        own,
        shares,
        own[:, None] + shares,
        np.ascontiguousarray(mixtures.means),
        np.ascontiguousarray(root * sign[..., None, :]),
        np.full(shares.shape, np.inf),
    )


def _n_particles(estimator):
    if estimator.n_particles == 1:
        raise ValueError(
            "n_particles=1 cannot tell a posterior with strategy='parameters': set n_particles to "
            f"{_LEAST_PARTICLES} or more, or strategy='conjugate'."
        )
    return N_PARTICLES if estimator.n_particles == "auto" else estimator.n_particles


def _axis(X, weight):
    """First principal axis of the rows, its largest entry positive."""
    centred = X - np.average(X, axis=0, weights=weight)
    axis = np.linalg.eigh((centred.T * weight) @ centred)[1][:, -1]
    return axis * np.sign(axis[np.argmax(np.abs(axis))])


def _record(stages):
    """Record of the stages as a dict of arrays."""
    columns = {name: np.array([getattr(one, name) for one in stages]) for name in Stage._fields}
    record = {"step": np.arange(1, len(stages) + 1), "likelihood_power": columns.pop("power")}
    return {**record, **columns}


def _convergence_warnings(found):
    """Reasons not to trust tempered draws, a list of str."""
    reasons, m = [], len(found.particles.theta)
    last, distinct = _stage(found.infos[-1]), len(np.unique(found.particles.theta[:, -1]))
    if distinct < _LEAST_DISTINCT * m:
        reasons.append(f"only {distinct} of {m} particles are distinct: the cloud has collapsed")
    if not last.acceptance >= _LEAST_ACCEPTANCE:
        reasons.append(
            f"moves of the particles are accepted with probability {last.acceptance:.2f}"
        )
    if not last.correlation <= _MOST_CORRELATION:
        reasons.append(
            f"moves hardly change the particles (correlation {last.correlation:.2f} with where "
            "they were)"
        )
    if found.interrupted:
        reasons.append(f"the fit was interrupted after {len(found.infos)} steps")
    return reasons
