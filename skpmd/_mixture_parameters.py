"""Strategy ``"parameters"`` of a mixture: draws of all its parameters from their posterior."""

from typing import NamedTuple

import numpy as np

from skpmd._base import Options
from skpmd._mixture_particles import ParametersFit, Particles
from skpmd._partial import Stream, advance
from skpmd._progress import progress
from skpmd._results import doubts, history
from skpmd._sample import merged
from skpmd._streams import Rows
from skpmd.engine.cloud import log_weights
from skpmd.engine.tempering import temper
from skpmd.models.base import Batch
from skpmd.models.mixture_component_priors import Independent, NormalWishart
from skpmd.models.mixture_parameters import MixtureParameters
from skpmd.models.mixture_sticks import Sticks

N_PARTICLES = 2000
_LEAST_DISTINCT = 0.05  # of the particles
_LEAST_ACCEPTANCE = 0.1
_MOST_CORRELATION = 0.5


class ParametersState(NamedTuple):
    """What a stream of parts needs to go on.

    Attributes
    ----------
    model : MixtureParameters
        With the order that the first rows gave to components.
    stream : Stream
        The particles, in the model's coordinates.
    """

    model: MixtureParameters
    stream: Stream


def fit_parameters(estimator, problem, X, weight, rng):
    """Posterior of a mixture's parameters given all rows, by tempering from the prior.

    Parameters
    ----------
    estimator : GaussianMixturePMD
        ``n_particles``, ``ess_threshold`` and ``verbose``.
    problem : Problem
        The mixture and its prior, in inner units.
    X : ndarray of shape (n, p)
        Rows in inner units.
    weight : ndarray of shape (n,)
        How often each counts.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    ParametersFit
        Equally weighted draws, and the log evidence.
    """
    places, weight = merged(weight, X)
    X = np.ascontiguousarray(X[places], dtype=np.float64)
    model = parameters_model(problem, X, weight)
    with progress(100, estimator.verbose, "tempering, % of the likelihood") as bar:
        done = [0]

        def report(stage):
            bar.update(int(100 * stage.power) - done[0], f"acceptance={stage.acceptance:.2f}")
            done[0] = int(100 * stage.power)

        found = temper(
            model,
            [Batch(X, None, weight)],
            _n_particles(estimator),
            rng,
            ess_threshold=estimator.ess_threshold,
            report=report,
        )
    stream = Stream(found.cloud, None, [], float(weight.sum()), rng)
    columns = {
        name: [getattr(one, name) for one in found.stages] for name in found.stages[0]._fields
    }
    record = {"step": np.arange(1, len(found.stages) + 1), "likelihood_power": columns.pop("power")}
    whole = not found.interrupted
    reasons = _doubts(found)
    return ParametersFit(
        particles_of(model, found.cloud),
        found.log_evidence if whole else None,
        found.log_evidence_se if whole else None,
        {name: np.asarray(values) for name, values in {**record, **columns}.items()},
        converged=whole and not reasons,
        interrupted=found.interrupted,
        doubts=reasons,
        state=ParametersState(model, stream),
    )


def partial_fit_parameters(estimator, problem, X, weight, rng, state=None):
    """Posterior after the rows of one more part, which are then no longer needed.

    The first part is fitted as a whole. Later ones move the particles' weights by the sequential
    Bayes rule (or a mirror step, `skpmd._partial.coefficients`), and particles are redrawn from
    their kernel density estimate when few are effective.

    Parameters
    ----------
    estimator, problem, X, weight, rng
        As of `fit_parameters`; ``rng`` is for the first part.
    state : ParametersState or None
        Of the part before, left as it is; None before the first.

    Returns
    -------
    ParametersFit
        Weighted draws; no evidence after the first part.
    """
    if state is None:
        return fit_parameters(estimator, problem, X, weight, rng)
    options = Options.of(
        estimator, n_particles=_n_particles(estimator), max_iter=1, step_offset="auto"
    )
    places, weight = merged(weight, X)
    rows = Rows(np.ascontiguousarray(X[places], dtype=np.float64), None, weight, len(weight))
    stream = advance(state.stream, state.model, rows, options)
    reasons = doubts(stream.outcome(), stream=True)
    return ParametersFit(
        particles_of(state.model, stream.cloud),
        None,
        None,
        history(stream.infos),
        converged=not reasons,
        doubts=reasons,
        state=ParametersState(state.model, stream),
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


def particles_of(model, cloud):
    """`Particles` of a cloud of the model's."""
    alive = np.isfinite(cloud.log_ratio)  # a redraw may have left the region of its labels
    mixtures = model.mixtures(np.ascontiguousarray(cloud.theta[alive]))
    # Sigma = A A' with A = C^-T; of A' = Q R it is R' R, whatever the precision's condition.
    root = np.linalg.qr(np.linalg.inv(mixtures.factor), mode="r").swapaxes(-1, -2)
    sign = np.where(np.diagonal(root, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)
    own = log_weights(cloud.log_ratio[alive])
    shares = mixtures.log_shares
    return Particles(
        own,
        shares,
        own[:, None] + shares,
        np.ascontiguousarray(mixtures.means),
        np.ascontiguousarray(root * sign[..., None, :]),
        np.full(shares.shape, np.inf),
    )


def _n_particles(estimator):
    return N_PARTICLES if estimator.n_particles == "auto" else max(2, estimator.n_particles)


def _axis(X, weight):
    """First principal axis of the rows, its largest entry positive."""
    centred = X - np.average(X, axis=0, weights=weight)
    axis = np.linalg.eigh((centred.T * weight) @ centred)[1][:, -1]
    return axis * np.sign(axis[np.argmax(np.abs(axis))])


def _doubts(found):
    """Reasons not to trust tempered draws, a list of str."""
    reasons, m = [], len(found.cloud.theta)
    last, distinct = found.stages[-1], len(np.unique(found.cloud.theta[:, -1]))
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
        reasons.append(f"the fit was interrupted after {len(found.stages)} steps")
    return reasons
