"""Strategy ``"parameters"`` of a mixture: draws of all its parameters from their posterior."""

import copy
from typing import NamedTuple

import numpy as np

from skpmd._base.progress import bar_of_tempering
from skpmd._base.records import Records
from skpmd._base.results import convergence_warnings
from skpmd._base.rows import Rows, merged
from skpmd._base.streaming import Stream, advance, coefficients
from skpmd.engine.loop import drive
from skpmd.engine.model import Batch
from skpmd.engine.particles import log_weights
from skpmd.engine.smc import tempering
from skpmd.mixture._model import ParameterModel, parameter_model
from skpmd.mixture._particles import MixtureParticles
from skpmd.mixture._prior import Scaler, prior_of

N_PARTICLES = 2000
# All rows of a stream are retained up to so many.
MAX_RETAINED = 5000
# Fewer particles say too little of averages and of the evidence.
_MIN_PARTICLES = 100
# A row that counts less than this is forgotten.
_NO_WEIGHT = 1e-9
# Draws are doubtful if fewer of the particles are distinct, if fewer moves are accepted in the last
# stage, or if particles are more correlated with where they were before it.
_MIN_DISTINCT, _MIN_ACCEPTANCE, _MAX_CORRELATION = 0.05, 0.1, 0.5
# Columns of the history beside the engine's, and what they hold for a step without moves.
_COLUMNS = {"log_increment": np.nan, "n_moves": 0, "acceptance": np.nan, "correlation": np.nan}


class SMCState(NamedTuple):
    """What a stream of parts needs to go on."""

    model: ParameterModel  # With the order that the first rows gave to components.
    # The particles, in the model's coordinates (None after a fit that has ended early), and the
    # record of all steps.
    stream: Stream
    # All rows so far with what they count now; None once they were too many to retain.
    retained: Batch | None
    # Of the rows so far, nan where it is not known; and the variance of the estimate.
    log_evidence: float
    variance: float
    # Distinct rows of the last fit to all rows; 0 after a fit that has ended early.
    n_rows_fitted: int = 0


class SMCFit(NamedTuple):
    """Fit result of ``strategy="parameters"``."""

    particles: MixtureParticles  # Draws of the posterior, df = inf; scaled columns.
    # Log marginal likelihood of the scaled rows (the Jacobian of the scaler is added later); labels
    # count, so it is that of the unordered mixture.
    log_evidence: float | None
    log_evidence_se: float | None  # Its standard error.
    converged: bool  # Whether the posterior was reached.
    # Whether Ctrl-C ended it; the particles are then those of the last complete step.
    interrupted: bool
    convergence_warnings: list  # Reasons not to trust it.
    state: SMCState  # What a stream needs to go on.

    @property
    def records(self):
        """`Records` of the steps."""
        return self.state.stream.records


def fit_draws(parameters, X, weight, rng):
    """Fit all rows: the result, the scaler of the columns, and the prior in scaled columns.

    X (n, p) holds distinct rows, in sorted order and in the user's columns, and ``weight`` (n,) how
    often each counts.
    """
    scaler, prior = _scaler_and_prior(parameters, X, weight)
    return fit_smc(parameters, prior, scaler.transform(X), weight, rng), scaler, prior


def update_draws(parameters, before, X, weight):
    """The draws after one call's rows of a stream; arguments and results are as of `fit_draws`.

    A first part of one row says nothing of scales: while all rows are retained, and the last fit
    saw at most half of them, the scaler and the prior's defaults are found anew too. The
    `MixtureState` ``before`` is left as it is.
    """
    scaler, state = before.scaler, before.fit.state
    scaled, size = scaler.transform(X), float(weight.sum())
    if not _too_many(state, weight):
        a, b = coefficients(parameters.options, state.stream.seen, size)
        total = _joined(state.retained, Batch(scaled, None, b * weight), a)
        places, weights = merged(total.weight, total.X)
        if len(places) >= 2 * state.n_rows_fitted:
            X = scaler.inverse_transform(total.X[places])
            return _refit(parameters, X, weights, size, a, state)
    return update_smc(parameters, scaled, weight, state), scaler, before.prior


def _refit(parameters, X, weight, size, a, state):
    """As `fit_draws` of all rows, but as the next step of a stream.

    That step has coefficient a on the past, and adds so many weighted rows to it. The evidence is
    that of rows none of which have been forgotten.
    """
    scaler, prior = _scaler_and_prior(parameters, X, weight)
    known = state.stream.particles is None or not np.isnan(state.log_evidence)
    rows = Batch(scaler.transform(X), None, weight)
    first = SMCState(
        model=parameter_model(prior, rows.X, weight),
        stream=state.stream._replace(particles=None),
        retained=None,
        log_evidence=0.0 if known else np.nan,
        variance=0.0,
    )
    return _tempered(parameters, first, rows, a, size), scaler, prior


def _scaler_and_prior(parameters, X, weight):
    given = parameters.prior
    scaler = Scaler.of(X, weight, given.n_components, given.covariance_type)
    return scaler, prior_of(given, scaler.transform(X), weight, scaler, "parameters")


def fit_smc(parameters, prior, X, weight, rng):
    """Posterior given all rows, by tempered SMC: equally weighted draws, and the log evidence.

    X (n, p) holds distinct scaled rows, in sorted order, and ``weight`` (n,) how often each counts.
    """
    rows = Batch(np.ascontiguousarray(X), None, weight)
    stream = Stream(None, None, Records(), 0.0, rng)
    state = SMCState(parameter_model(prior, X, weight), stream, None, 0.0, 0.0)
    return _tempered(parameters, state, rows, 0.0, float(weight.sum()))


def update_smc(parameters, X, weight, state):
    """Posterior after the rows of one more part; arguments are as of `fit_smc`.

    As long as rows are few they are retained, and particles move from the posterior of the part
    before to that of all rows by tempering. Later the rows are let go: the weights of the particles
    follow the sequential Bayes rule (or a mirror step, `skpmd._base.streaming.coefficients`), and
    particles are rejuvenated by their kernel density estimate when few are effective.

    Draws are weighted once rows are no longer retained; the log evidence is known as long as they
    are, and none of them has been discounted. ``state``, of the part before, is left as it is.
    """
    rows, size = Batch(np.ascontiguousarray(X), None, weight), float(weight.sum())
    anew = state.stream.particles is None  # The fit before has ended early.
    if not anew and _too_many(state, weight):
        return _advanced(parameters, state, rows)
    if anew:
        state = state._replace(log_evidence=0.0)
    a, b = coefficients(parameters.options, state.stream.seen, size)
    return _tempered(parameters, state, rows._replace(weight=b * weight), a, size)


def _too_many(state, weight):
    """Whether rows are too many to retain."""
    return state.retained is None or len(state.retained.weight) + len(weight) > MAX_RETAINED


def _tempered(parameters, state, rows, a, size):
    """Particles after a step with coefficient a on the past, all rows at hand.

    Retained rows count (1 - a) times what they did: that is the linear form of
    `skpmd.engine.mirror` in terms of weights of rows.
    """
    model, stream, total = state.model, state.stream, _joined(state.retained, rows, a)
    rng = copy.deepcopy(stream.rng)
    if stream.particles is None:
        way = {"initial": model.initial(total.X, total.weight)}
        before, n_rows_fitted = (state.log_evidence, 0.0), len(total.weight)
    else:
        way = {"start": stream.particles.theta, "before": [state.retained]}
        before, n_rows_fitted = (state.log_evidence, state.variance), state.n_rows_fitted
    m, threshold = _n_particles(parameters), parameters.options.settings.ess_threshold
    with bar_of_tempering() as report:
        smc = drive(tempering(model, [total], m, rng, ess_threshold=threshold, **way), report)
    if smc.interrupted and stream.particles is not None:
        raise KeyboardInterrupt  # The estimator stays as it was.
    particles = None if smc.ended_early else smc.particles
    records = stream.records.extended(smc.infos)
    after = SMCState(
        model=model,
        stream=Stream(particles, None, records, stream.seen + size, rng),
        retained=total,
        log_evidence=np.nan if a or smc.ended_early else before[0] + smc.log_evidence,
        variance=before[1] + smc.log_evidence_se**2,
        n_rows_fitted=0 if smc.ended_early else n_rows_fitted,
    )
    fit = _fit_of(after, smc.particles, _convergence_warnings(smc), smc.interrupted)
    return fit._replace(converged=fit.converged and not smc.out_of_time)


def _joined(retained, rows, a):
    """Retained rows, which count (1 - a) times what they did, and new ones."""
    if retained is None:
        return rows
    weight = np.concatenate([(1.0 - a) * retained.weight, rows.weight])
    present = weight > _NO_WEIGHT
    return Batch(np.concatenate([retained.X, rows.X])[present], None, weight[present])


def _advanced(parameters, state, rows):
    """Particles after a step on rows that are not retained, nor are those before."""
    options = parameters.options._replace(n_particles=_n_particles(parameters))
    stream = advance(state.stream, state.model, Rows(*rows, len(rows.weight)), options)
    after = SMCState(state.model, stream, None, np.nan, np.nan)
    reasons = convergence_warnings(stream.outcome(), stream=True)
    return _fit_of(after, stream.particles, reasons, False)


def _fit_of(state, particles, reasons, interrupted):
    known, m = not np.isnan(state.log_evidence), len(particles.theta)
    if m < _MIN_PARTICLES:
        few = f"{m} particles are too few to tell a posterior or its evidence by: set n_particles"
        reasons = [*reasons, f"{few} to {_MIN_PARTICLES} or more"]
    return SMCFit(
        particles=particles_of(state.model, particles),
        log_evidence=state.log_evidence if known else None,
        log_evidence_se=float(np.sqrt(state.variance)) if known else None,
        converged=not interrupted and not reasons,
        interrupted=interrupted,
        convergence_warnings=reasons,
        state=state,
    )


def particles_of(model, particles):
    """`MixtureParticles` of the engine's particles of a model."""
    # A rejuvenation may have taken some out of the region of ordered components.
    alive = np.isfinite(particles.log_ratio)
    mixtures = model.mixtures(np.ascontiguousarray(particles.theta[alive]))
    if model.type in ("diag", "spherical"):
        root = 1.0 / np.diagonal(mixtures.factor, axis1=-2, axis2=-1)
    else:  # Sigma = A A', A = C^-T; of A' = Q R it is R' R, whatever the precision's condition.
        root = np.linalg.qr(np.linalg.inv(mixtures.factor), mode="r").swapaxes(-1, -2)
        sign = np.where(np.diagonal(root, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)
        root = root * sign[..., None, :]
    return MixtureParticles.of_normals(
        log_weights(particles.log_ratio[alive]),
        mixtures.log_mixing,
        np.ascontiguousarray(mixtures.means),
        np.ascontiguousarray(root),
    )


def _n_particles(parameters):
    if parameters.n_particles == 1:
        raise ValueError(
            "n_particles=1 cannot tell a posterior with strategy='parameters': set n_particles to "
            f"{_MIN_PARTICLES} or more, or strategy='conjugate'."
        )
    return N_PARTICLES if parameters.n_particles == "auto" else parameters.n_particles


def history_of_draws(records):
    """The last steps as a dict of arrays."""
    infos = records.last
    columns = {
        name: np.array([info.extra.get(name, other) for info in infos])
        for name, other in _COLUMNS.items()
    }
    return {
        "step": records.numbers(),
        "likelihood_power": np.array([info.extra.get("power", 1.0) for info in infos]),
        "ess": np.array([info.ess for info in infos]),
        **columns,
    }


def _convergence_warnings(smc):
    """Reasons not to trust draws of tempered SMC, a list of str."""
    reasons, m = [], len(smc.particles.theta)
    last, distinct = smc.infos[-1].extra, len(np.unique(smc.particles.theta[:, -1]))
    if distinct < _MIN_DISTINCT * m:
        reasons.append(
            f"only {distinct} of {m} particles are distinct, so that they have collapsed: raise "
            "n_particles"
        )
    if not last["acceptance"] >= _MIN_ACCEPTANCE:
        reasons.append(
            f"moves of the particles are accepted with probability {last['acceptance']:.2f}: take "
            "fewer components, or set strategy='conjugate'"
        )
    if not last["correlation"] <= _MAX_CORRELATION:
        reasons.append(
            f"moves hardly change the particles (correlation {last['correlation']:.2f} with where "
            "they were): take fewer components, or set strategy='conjugate'"
        )
    if smc.out_of_time:
        power = smc.infos[-1].extra["power"]
        reasons.append(f"the likelihood counts to the power of {power:.2g} only")
    if smc.interrupted:
        reasons.append(f"the fit was interrupted after {len(smc.infos)} steps")
    return reasons
