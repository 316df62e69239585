"""What a fit of a mixture shows: particles for predictions, draws, and parameters of components."""

from typing import NamedTuple

import numpy as np

from skpmd._export import Variable
from skpmd._runtime.call import phase
from skpmd.engine.particles import equal_log_weights
from skpmd.engine.particles import log_weights as normalised
from skpmd.mixture._components import TIED_REACH, cholesky
from skpmd.mixture._conjugate_fit import ConjugateFit
from skpmd.mixture._left_out import stacked
from skpmd.mixture._particles import MixtureParticles
from skpmd.mixture._relabel import relabelling
from skpmd.mixture._smc_fit import SMCFit
from skpmd.posterior import Posterior

# There are so many draws of conjugate posteriors, but fewer where they hold more than so many
# numbers.
_DRAWS, _MIN_DRAWS, _MAX_NUMBERS = 1000, 200, 4_000_000
# Particles with a lower log weight add nothing to averages of parameters.
_NEGLIGIBLE = -30.0
_NARROW = 1e-292  # Precisions of larger variances are numbers, also of correlations near one.

# What a posterior of conjugate particles leaves out. Where components of few rows overlap, sds of
# the density at a point may be several times too small.
_WEIGHTS = {
    ("parameters", False): "posterior",
    ("conjugate", False): "lower bounds of the evidence of each particle",
    ("conjugate", True): "all equal, not of the posterior",
}
_ROUNDING, _RARE = 0.02, 0.03  # Rounding may be such a share of a variance in so many of the rows.
_EXPECTED = 10.0  # Rows of each component.
_LOWER_DF = "lower degrees_of_freedom_prior, or take fewer components"
_SIMPLER = "take fewer components, or covariance_type='diag' or 'spherical'"
_NARROWER = "give a smaller covariance_prior, or take fewer components"
_CAVEAT = "given each particle's responsibilities: too narrow where components overlap"


class MixtureState(NamedTuple):
    """What the estimator has learnt."""

    strategy: str  # {"conjugate", "parameters"}: The one taken.
    weighting: str  # Where weights for predictions come from (conjugate strategy).
    fit: ConjugateFit | SMCFit  # What it needs to go on.
    # Normal mixtures, one for each particle, in scaled columns: draws, or the expected parameters
    # of conjugate posteriors. Components are relabelled by those of the best particle.
    points: MixtureParticles
    lower_bound: float  # Of the log evidence, in the user's columns; nan where it is not known.
    log_evidence: float | None = None  # In the user's columns; None where it is not known.

    @property
    def scaler(self):
        """`Scaler` of the columns."""
        return self.fit.scaler

    @property
    def prior(self):
        """`MixturePrior` in scaled columns."""
        return self.fit.prior

    @property
    def n_samples_seen(self):
        """Weighted rows so far."""
        return self.fit.n_samples_seen


def conjugate_state(fit, weighting, before=None):
    """`MixtureState` of conjugate particles, with components in the order of the best particle's.

    The weightings "stacking" and "posterior" weigh particles by their bounds of the evidence, and
    "uniform" does not. With ``before``, the `MixtureState` of the rows before, components go on
    with their places.
    """
    model, m = fit.model, len(fit.counts.entropy)
    posteriors = model.posteriors(fit.counts)
    equal = weighting == "uniform"
    log_weights = equal_log_weights(m) if equal else normalised(posteriors.elbo)
    points = points_of(model, posteriors, log_weights)
    if model.K > 1 and (m > 1 or before is not None):
        order = relabelling(points, _points_before(before, fit.scaler))
        components = np.take_along_axis(fit.counts.components, order[..., None], axis=1)
        fit = fit._replace(counts=fit.counts._replace(components=components))
        points = points.relabelled(order)
    bound = float(posteriors.elbo.max() + fit.counts.total * fit.scaler.log_jacobian)
    return MixtureState("conjugate", weighting, fit, points, bound)


def draws_state(fit, before=None):
    """`MixtureState` of draws of all parameters; `before` as in `conjugate_state`."""
    order = relabelling(fit.particles, _points_before(before, fit.scaler))
    points, evidence = fit.particles.relabelled(order), fit.log_evidence
    bound = np.nan if evidence is None else evidence
    return MixtureState("parameters", "posterior", fit, points, bound, evidence)


def _points_before(before, scaler):
    return None if before is None else before.points.rescaled(before.scaler, scaler)


def points_of(model, posteriors, log_weights):
    """Conjugate posteriors as the normal mixtures of their expected parameters."""
    scale, log_mixing = model.family.location_scale(posteriors.normals), posteriors.log_mixing
    return MixtureParticles.of_normals(log_weights, log_mixing, posteriors.normals.mean, scale)


@phase("weights for predictions")
def conjugate_particles(fit, points, weighting):
    """Particles for predictions: Students, and the weights of their average."""
    model, family = fit.model, fit.model.family
    posteriors = model.posteriors(fit.counts)
    log_predictive, m = points.log_predictive, len(points.log_weights)
    if weighting == "stacking" and m * model.K > 1:
        log_predictive, _ = stacked(fit)
    df = family.student_df(posteriors.normals)
    return points._replace(
        log_predictive=log_predictive,
        scale_cholesky=family.student_scale(posteriors.normals),
        df=np.array(np.broadcast_to(df, log_predictive.shape)),
        product=family.product,
    )


def mixture_posterior(state):
    """Posterior of weights, means and standard deviations of the components, in user's columns."""
    points = draws_of(state)
    if state.strategy == "conjugate":
        evidence = {
            "unavailable": "each particle takes its responsibilities of the rows as known; "
            "strategy='parameters' has it"
        }
        if state.prior.n_components > 1:
            evidence["caveat"] = _CAVEAT
    elif state.log_evidence is None:
        evidence = {"unavailable": "the particles have not all been weighed by all rows"}
    else:
        error = state.fit.log_evidence_se
        evidence = {"log_evidence": state.log_evidence, "log_evidence_se": error}
    m, K, p = points.location.shape
    means = state.scaler.inverse_transform(points.location)
    stds = np.sqrt(points.variances) * state.scaler.scale
    parts = [np.exp(points.log_mixing), means.reshape(m, -1), stds.reshape(m, -1)]
    names = [f"weight[{k}]" for k in range(K)]
    names += [f"{what}[{k},{j}]" for what in ("mean", "std") for k in range(K) for j in range(p)]
    places = np.split(np.arange(len(names)), [K, K + K * p])
    variables = {
        "weights": Variable(places[0], ("component",)),
        "means": Variable(places[1].reshape(K, p), ("component", "column")),
        "stds": Variable(places[2].reshape(K, p), ("component", "column")),
    }
    lower, upper = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    lower[places[2]] = 0.0  # Standard deviations; those of weights are known from their sum.
    return Posterior(
        np.concatenate(parts, axis=1), points.log_weights, names=names, variables=variables,
        support=(lower, upper), simplex=places[0],
        weighting=_WEIGHTS[state.strategy, state.weighting == "uniform"],
        concerns=state.fit.convergence_warnings, **evidence,
    )  # fmt: skip


def prior_findings(state):
    """Why the prior, not the rows, decides on most of the mixture: a list of str, most often empty.

    A component's scatter is the prior's and that of its own rows, and its degrees of freedom count
    both. Where most rows are in components to which the prior gives more than they do, densities
    and labels are those of the prior. Columns that do not vary in a component say nothing of this.
    """
    prior, points = state.prior, state.points
    if prior.component_prior != "normal_wishart":
        return []
    # Weights may be less than one, and rows equal. The posterior of all parameters needs no rows.
    n = state.fit.retained.n_fitted if state.strategy == "conjugate" else np.inf
    n = max(state.n_samples_seen, n)
    if n < prior.n_components:
        return [
            f"n_components={prior.n_components} is more than the rows, which are {n:.6g}: "
            "components without rows are those of the prior; take fewer components"
        ]
    if state.n_samples_seen < _EXPECTED * prior.n_components:
        return []  # That so few rows leave much to the prior is known.
    p, kind = len(prior.mean), prior.covariance_type
    best = int(points.log_weights.argmax())
    weights = np.exp(points.log_mixing[best])
    rows = weights * state.n_samples_seen
    matrix = kind in ("full", "tied")
    reason = rounding_findings(state)
    if reason:
        return reason
    if kind == "tied":
        rows = np.full(len(rows), state.n_samples_seen - len(rows))
    # Rows that the prior counts as, but for those that any covariance needs.
    df = prior.df - (p - 1 if matrix else 0)
    scatter = np.diag(prior.covariance) if matrix else prior.covariance
    own = np.maximum(points.variances[best] * (prior.df + rows)[:, None] - scatter, 0.0)
    varies = own > 1e-3 * scatter
    less = np.where(varies, own < scatter, False).sum(axis=1) > 0.5 * varies.sum(axis=1)
    wide, short = less & varies.any(axis=1), np.full(len(rows), matrix) & (rows < p)
    findings = []
    for which, what, advice in (
        (rows < df, f"counts as {df:.3g} rows in components of fewer", _LOWER_DF),
        (short, f"fills covariances of {p} columns in components of fewer rows", _SIMPLER),
        (wide, "is wider than the rows of components are", _NARROWER),
    ):
        if weights[which].sum() > 0.5:
            findings.append(f"the prior of the covariances {what}: {advice}")
    return findings[:1]


def rounding_findings(state):
    """Why scatters of some rows are of rounding's size: they are differences of squares."""
    points = state.points
    if state.strategy == "parameters":
        return []
    best = int(points.log_weights.argmax())
    weights, location = np.exp(points.log_mixing[best]), np.abs(points.location[best])
    if state.prior.covariance_type == "tied":
        far = (location > 0.9 * TIED_REACH).any(axis=1)
    else:
        coarse = np.finfo(float).eps * location**2 > _ROUNDING * points.variances[best]
        far = coarse.any(axis=1)
    if not weights[far].sum() > _RARE:
        return []
    return [
        f"components lie {location.max():.1g} times a column's scale from the others, and rounding "
        "leaves few digits of covariances: take fewer rows, of one part, or leave mistyped ones out"
    ]


def draws_of(state):
    """Normal mixtures that the posterior has as its particles, in scaled columns.

    Of conjugate posteriors they are draws of equal weight, the same whenever they are asked for.
    """
    if state.strategy == "parameters":
        return state.points
    model, counts, points = state.fit.model, state.fit.counts, state.points
    rng, numbers = np.random.default_rng(0), points.scale_cholesky[0].size
    n = int(np.clip(_MAX_NUMBERS / numbers, _MIN_DRAWS, _DRAWS))
    weights = np.exp(points.log_weights)
    places = np.sort(rng.choice(len(weights), size=n, p=weights / weights.sum()))
    log_mixing = np.log(np.maximum(model.weights.draw(counts.sizes[places], rng), 1e-300))
    location, scale = model.family.draw(model.posteriors(counts).normals, places, rng)
    return MixtureParticles.of_normals(np.full(n, -np.log(n)), log_mixing, location, scale)


def component_parameters(points, scaler, covariance_type):
    """Weights, means and covariances, averaged over relabelled particles, in the user's columns.

    Weights (K,) sum to 1, means have the shape (K, p), and covariances the shape that scikit-learn
    gives this type.
    """
    chosen = points.log_weights > _NEGLIGIBLE
    w = np.exp(points.log_weights[chosen])
    w = w / w.sum()
    weights = np.tensordot(w, np.exp(points.log_mixing[chosen]), axes=1)
    means = scaler.inverse_transform(np.tensordot(w, points.location[chosen], axes=1))
    roots = points.scale_cholesky[chosen]
    if points.is_diagonal:
        covariances = np.tensordot(w, roots**2, axes=1) * scaler.scale**2
        if covariance_type == "spherical":
            covariances = covariances.mean(axis=1)
    else:
        covariances = np.zeros(roots.shape[1:])
        for weight, root in zip(w, roots, strict=True):
            covariances += weight * (root @ np.swapaxes(root, -1, -2))
        covariances *= np.outer(scaler.scale, scaler.scale)
        if covariance_type == "tied":
            covariances = covariances[0]
    return weights / weights.sum(), means, covariances


def precisions(covariances, covariance_type):
    """Precisions and their factors, of the shapes that scikit-learn gives this type.

    ValueError where columns are so narrow that a precision may be larger than any number.
    """
    is_full = covariance_type in ("full", "tied")
    variances = np.einsum("...ii->...i", covariances) if is_full else covariances
    if variances.min() < _NARROW:
        raise ValueError(
            "X has columns that vary so little that precisions_ overflow: scale it, for example by "
            "sklearn.preprocessing.StandardScaler."
        )
    if not is_full:
        return 1.0 / covariances, 1.0 / np.sqrt(covariances)
    inverse = np.linalg.inv(cholesky(covariances))
    transposed = np.swapaxes(inverse, -1, -2)
    return transposed @ inverse, transposed


def prior_covariance(prior, scaler):
    """Prior scatter in the user's columns."""
    scale = scaler.scale
    if prior.covariance_type in ("full", "tied"):
        return prior.covariance * np.outer(scale, scale)
    factor = scale**2 if prior.covariance_type == "diag" else scale[0] ** 2
    return (prior.covariance * factor)[()]
