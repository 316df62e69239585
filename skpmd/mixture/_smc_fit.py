"""Strategy ``"parameters"`` of a mixture: draws of all its parameters from their posterior."""

import copy
from typing import NamedTuple

import numpy as np

from skpmd._base.results import convergence_warnings
from skpmd._base.retained import RetainedRows
from skpmd._base.steps import Records, Stream, advance, bar_of_tempering, coefficients
from skpmd._rows.rows import Rows
from skpmd.engine.loop import drive
from skpmd.engine.mirror import Settings
from skpmd.engine.model import Batch
from skpmd.engine.particles import log_weights
from skpmd.engine.smc import Start, tempering
from skpmd.mixture._model import ParameterModel, parameter_model
from skpmd.mixture._particles import MixtureParticles
from skpmd.mixture._prior import MixturePrior, prior_of
from skpmd.mixture._scaler import Scaler

N_PARTICLES = 2000
# All rows of a stream are retained up to so many.
MAX_RETAINED = 5000
# Fewer particles say too little of averages and of the evidence.
_MIN_PARTICLES = 100
# Draws are doubtful if fewer of the particles are distinct, if fewer moves are accepted in the last
# stage, or if particles are more correlated with where they were before it.
_MIN_DISTINCT, _MIN_ACCEPTANCE, _MAX_CORRELATION = 0.05, 0.1, 0.5
# Columns of the history beside the engine's, and what they hold for a step without moves.
_COLUMNS = {"log_increment": np.nan, "n_moves": 0, "acceptance": np.nan, "correlation": np.nan}


class SMCFit(NamedTuple):
    """Fit result of ``strategy="parameters"``, which is what a stream of parts needs to go on."""

    model: ParameterModel  # With the order that the rows of the last fit gave to components.
    scaler: Scaler  # Of the columns.
    prior: MixturePrior  # In scaled columns.
    # The engine's particles, in the model's coordinates (None before the first fit, and after one
    # that has ended early), and the record of all steps.
    stream: Stream
    # All rows so far, a `Batch` in the user's columns; None once they were too many to retain.
    retained: RetainedRows | None
    # Of the rows so far in scaled columns, nan where it is not known; and the estimate's variance.
    scaled_log_evidence: float
    variance: float
    particles: MixtureParticles | None = None  # Draws of the posterior, df = inf; scaled columns.
    converged: bool = False  # Whether the posterior was reached.
    # Whether Ctrl-C ended it; the particles are then those of the last complete step.
    interrupted: bool = False
    convergence_warnings: list = []  # Reasons not to trust it.

    @property
    def records(self):
        """`Records` of the steps."""
        return self.stream.records

    @property
    def n_samples_seen(self):
        """Weighted rows so far."""
        return self.stream.seen

    @property
    def log_evidence(self):
        """Log marginal likelihood in the user's columns, None where it is not known.

        Labels count, so it is that of the unordered mixture.
        """
        value = self.scaled_log_evidence + self.n_samples_seen * self.scaler.log_jacobian
        return None if np.isnan(value) else float(value)

    @property
    def log_evidence_se(self):
        """Its standard error."""
        return float(np.sqrt(self.variance))


def fit_draws(parameters, rows, weight, rng):
    """Posterior given all rows, by tempered SMC: equally weighted draws, and the log evidence.

    ``rows`` is a `RowView` of distinct ones, sorted, in the user's columns, and ``weight`` (n,) how
    often each counts. The outcome is an `SMCFit`.
    """
    retained = RetainedRows(Batch(rows[:], None, weight))
    stream = Stream(None, None, Records(), 0.0, rng)
    state = first_state(*_scaler_and_prior(parameters, retained), retained, stream)
    return tempered(parameters, state, retained, 0.0, float(weight.sum()))


def update_draws(parameters, state, rows, weight):
    """Posterior after one call's rows of a stream; arguments are as of `fit_draws`.

    As long as rows are few they are retained, and particles move from the posterior of the call
    before to that of all rows by tempering. A first part of one row says nothing of scales: where
    the last fit saw at most half of the rows, the scaler and the prior's defaults are found anew,
    and particles start anew. Later the rows are let go: the weights of the particles follow the
    sequential Bayes rule (or a mirror step, `skpmd._base.steps.coefficients`), and particles
    are rejuvenated by their kernel density estimate when few are effective.

    Draws are weighted once rows are no longer retained; the log evidence is known as long as they
    are, and none of them has been discounted. ``state``, of the call before, is left as it is.
    """
    ended_early = state.stream.particles is None
    retained, most = state.retained, np.inf if ended_early else MAX_RETAINED
    if retained is None or retained.n_rows + len(weight) > most:
        return _advanced(parameters, state, rows, weight)
    size = float(weight.sum())
    a, b = coefficients(parameters.options, state.stream.seen, size)
    new = RetainedRows(Batch(rows[:], None, b * weight))
    retained = retained.discounted(1.0 - a).joined(new).merged().sampled(most)
    if ended_early or retained.n_rows >= 2 * retained.n_fitted:
        known = ended_early or not np.isnan(state.scaled_log_evidence)
        own = _scaler_and_prior(parameters, retained)
        state = first_state(*own, retained, state.stream._replace(particles=None))
        state = state._replace(scaled_log_evidence=0.0 if known else np.nan)
    return tempered(parameters, state, retained, a, size)


def _scaler_and_prior(parameters, retained):
    given, (X, _, weight, *_) = parameters.prior, retained.rows
    scaler = Scaler.of(X, weight, given.n_components, given.covariance_type)
    return scaler, prior_of(given, scaler.transform(X), weight, scaler, "parameters")


def first_state(scaler, prior, retained, stream):
    """`SMCFit` before a fit of all rows, `RetainedRows`, under a prior in scaled columns."""
    model = parameter_model(prior, scaler.transform(retained.rows.X), retained.rows.weight)
    return SMCFit(model, scaler, prior, stream, retained, 0.0, 0.0)


def tempered(parameters, state, retained, a, size):
    """`SMCFit` after a step on so many weighted rows with coefficient a on the past.

    ``retained`` has all rows, of which those of the past count (1 - a) times what they did: that is
    the linear form of `skpmd.engine.mirror` in terms of weights of rows.
    """
    model, stream = state.model, state.stream
    rng, total = copy.deepcopy(stream.rng), _batch(state.scaler, retained)
    if stream.particles is None:
        start = Start(model.initial(total.X, total.weight))
        retained = retained._replace(n_fitted=retained.n_rows)
    else:
        before = [_batch(state.scaler, state.retained)]
        start = Start(theta=stream.particles.theta, before=before)
    m, threshold = _n_particles(parameters), parameters.options.settings.ess_threshold
    settings = Settings(ess_threshold=threshold)
    with bar_of_tempering() as report:
        smc = drive(tempering(model, [total], m, rng, start, settings), report)
    if smc.interrupted and stream.particles is not None:
        raise KeyboardInterrupt  # The estimator stays as it was.
    early = smc.ended_early
    records, seen = stream.records.extended(smc.infos), stream.seen + size
    after = state._replace(
        stream=Stream(None if early else smc.particles, None, records, seen, rng),
        retained=retained,
        scaled_log_evidence=(np.nan if a or early else state.scaled_log_evidence + smc.evidence[0]),
        variance=state.variance + smc.evidence[1] ** 2,
    )
    fit = _fit_of(after, smc.particles, _convergence_warnings(smc), smc.interrupted)
    return fit._replace(converged=fit.converged and not smc.out_of_time)


def _batch(scaler, retained):
    return retained.rows._replace(X=scaler.transform(retained.rows.X))


def _advanced(parameters, state, rows, weight):
    """Particles after a step on rows that are not retained, nor are those before."""
    options = parameters.options._replace(n_particles=_n_particles(parameters))
    batch = Batch(state.scaler.transform(rows[:]), None, weight)
    stream = advance(state.stream, state.model, Rows.of(batch, len(weight)), options)
    after = state._replace(stream=stream, retained=None)
    after = after._replace(scaled_log_evidence=np.nan, variance=np.nan)
    reasons = convergence_warnings(stream.outcome(), stream=True)
    return _fit_of(after, stream.particles, reasons, False)


def _fit_of(state, particles, reasons, interrupted):
    m = len(particles.theta)
    if m < _MIN_PARTICLES:
        few = f"{m} particles are too few to tell a posterior or its evidence by: set n_particles"
        reasons = [*reasons, f"{few} to {_MIN_PARTICLES} or more"]
    found = particles_of(state.model, particles)
    return state._replace(
        particles=found,
        converged=not interrupted and not reasons,
        interrupted=interrupted,
        convergence_warnings=reasons,
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
