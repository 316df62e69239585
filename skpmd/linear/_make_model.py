"""The model that the estimator's parameters describe: its prior, its coefficients, their names."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.utils import gen_batches

from skpmd._base.options import coordinates_named, posterior_of_prior
from skpmd._base.utils import as_floats
from skpmd._export import Variable
from skpmd._runtime.call import best_in_time, phase, share_of_time
from skpmd.engine.diagnostics import log_evidence
from skpmd.linear._column_scale import own_posterior
from skpmd.linear._design import pieces
from skpmd.linear._fit import proposal_components
from skpmd.linear._horseshoe import HorseshoePrior
from skpmd.linear._posterior import GaussianPosterior
from skpmd.linear._priors import (
    DensityPrior,
    LaplacePrior,
    NormalPrior,
    Prior,
    ProductPrior,
    ShiftedPrior,
    StudentTPrior,
)
from skpmd.linear._response import Distribution
from skpmd.proposals.importance_rounds import importance_sample

# Priors by their names, and how a summary writes one with its centre and scale.
PRIORS = {
    "normal": "Normal({:.4g}, {:.4g})",
    "laplace": "Laplace({:.4g}, {:.4g})",
    "student_t": "Student-t(df, {:.4g}, {:.4g})",
    "cauchy": "Cauchy({:.4g}, {:.4g})",
    "horseshoe": "horseshoe about {:.4g}, global scale {:.4g}",
}
_MAX_PAIRED = 100  # Pairs of no more features are asked whether they separate the classes,
_FIRST_ROWS = 1000  # of so many rows before all.
_ROWS_AT_ONCE, _NUMBERS = 1 << 14, 1 << 20
# With more coordinates than this no full covariance is held: each matrix would take 32 MB.
_MAX_COORDINATES = 2000
LOW, HIGH = 1e-3, 1e2  # Scales between these are searched, for standardised features.
_N_DRAWS = 1000  # Each round at a scale has this many draws.
# So many scales per decade are tried before the search: the evidence may have several maxima.
_PER_DECADE = 2
_TOLERANCE = 0.01  # The search ends at this accuracy of the logarithm of the scale.
# A difference of fewer nats is "not worth more than a bare mention" (Kass and Raftery 1995).
_MIN_DIFFERENCE = 1.0
_SHARE = 0.5  # Of the time of a fit that has a limit, the search may take so much.
_SEARCH = "the search for the prior's scale"


class LinearParameters(NamedTuple):
    """Parameters of the estimator that its parts share, as it was given them."""

    prior: object  # A str, a posterior or its estimator; once columns are known a str or a `Prior`.
    prior_mean: object
    prior_scale: object
    prior_df: float
    intercept_prior_scale: float
    fit_intercept: bool
    proposal: str
    moves: str
    covariance_type: str
    reweight: bool
    scale: str | None
    batch_size: int | str


def is_mean_field(parameters, n_features, response):
    """Whether the posterior is to be held without correlations.

    ``covariance_type="auto"`` does so above 2000 coordinates where no parameter asks for particles.
    Asking for both is an error.
    """
    requests = {
        f"proposal={parameters.proposal!r}": parameters.proposal != "auto",
        "reweight=False": not parameters.reweight,
        "moves='always'": parameters.moves == "always",
        "prior='horseshoe'": _is(parameters.prior, "horseshoe"),
        "prior_scale='evidence'": _is(parameters.prior_scale, "evidence"),
    }
    against = [name for name, is_set in requests.items() if is_set]
    if parameters.covariance_type == "diag" and against:
        raise ValueError(
            "covariance_type='diag' holds the posterior as a Gaussian, without particles, and "
            f"{against[0]} asks for them: set one or the other."
        )
    if parameters.covariance_type == "auto":
        many = response.n_rows * (n_features + parameters.fit_intercept) > _MAX_COORDINATES
        return many and not against
    return parameters.covariance_type == "diag"


def _is(parameter, name):
    """Whether a parameter, which need not be a str, has this value."""
    return isinstance(parameter, str) and parameter == name


def linear_model(parameters, n_features, response, prior_scale, shift=None):
    """The likelihood of a response with the prior that the parameters name.

    Coordinates are rows of coefficients, each with its intercept last, and dispersions, whose prior
    is N(0, 1). ``prior_scale``, a number or of the shape of the
    coefficients, is theirs, and that of tau under the horseshoe; for ``shift`` see `LinearModel`.
    """
    prior = parameters.prior
    if not isinstance(prior, Prior):
        prior = _prior(parameters, n_features, response, prior_scale)
    return response.model(prior, parameters.fit_intercept, shift)


def in_columns(parameters, features, response, mean_field):
    """The parameters, with the prior's in the shape of the coefficients once columns are known.

    `Units` that an earlier posterior was found in come second: it is a prior in these. They are
    None where it was found in the given ones, or is none.
    """
    n_rows, given, units = response.n_rows, parameters.prior, None
    mean = per_column("prior_mean", parameters.prior_mean, features, n_rows, 0.0)
    scale = per_column("prior_scale", parameters.prior_scale, features, n_rows, 1.0, low=1e-30)
    if not isinstance(given, str):
        names = response.coefficient_names(features, parameters.fit_intercept)
        (given, units), scale = prior_of_posterior(given, names, mean_field), None
        units = getattr(units, "columns", units)  # Of a frame.
        knows_intercept = "intercept" in posterior_of_prior(parameters.prior).names
        if units is None and knows_intercept and isinstance(response, Distribution):
            raise ValueError(
                "prior is the posterior of a fit with an intercept, and fit_intercept=False leaves "
                "none: set fit_intercept=True, or fit the earlier rows without one."
            )
    elif given == "horseshoe" and (np.ndim(scale) or np.any(mean)):
        raise ValueError(
            "prior='horseshoe' has one prior_scale and is about zero: set prior_scale to a number "
            "and prior_mean=0, or another prior."
        )
    return parameters._replace(prior=given, prior_mean=mean, prior_scale=scale), units


def prior_of_posterior(prior, names, mean_field):
    """The prior on coordinates of these names that an earlier posterior, or its estimator, is.

    `Units` that it is a prior in come second, None where these are the given ones. With
    ``mean_field`` the posterior to come has no correlations, and a particle posterior, which
    has them, is refused.
    """
    posterior = posterior_of_prior(prior)
    places = coordinates_named(posterior, names)
    if isinstance(posterior, GaussianPosterior):
        units = None if posterior.frame is None else posterior.frame.of(places)
        loc, scale = posterior.moments_in(units)
        return ShiftedPrior(NormalPrior(scale[places]), loc[places]), units
    if mean_field:
        raise ValueError(
            "covariance_type='diag' takes a prior that was fitted with it: this one is of "
            "particles. Set covariance_type='full'."
        )
    units = None if posterior.frame is None else posterior.frame.of(places)
    if units is not None and len(places) < len(posterior.names):
        # Columns that are left out stay at their centres, and not at zero, far from all rows.
        return DensityPrior(own_posterior(posterior).fitted_density(places)), units
    density = posterior.fitted_density(places)
    return DensityPrior(density._replace(free=None)), density.free


def _prior(parameters, n_features, response, prior_scale):
    """The prior of the name that the parameters give, about their means."""
    shape, k = (response.n_rows, n_features + parameters.fit_intercept), response.n_dispersions
    is_plain, mean = np.zeros(shape, dtype=bool), np.zeros(shape)
    scale = np.full(shape, float(parameters.intercept_prior_scale))
    is_plain[:, n_features:] = True
    mean[:, :n_features], scale[:, :n_features] = parameters.prior_mean, prior_scale
    is_plain, mean, scale = (
        np.append(values, np.full(k, own))
        for values, own in ((is_plain, True), (mean, 0.0), (scale, 1.0))
    )
    prior = _centred_prior(parameters, is_plain, prior_scale, scale)
    return ShiftedPrior(prior, mean) if mean.any() else prior


def _centred_prior(parameters, is_intercept, prior_scale, scale):
    """The same about zero."""
    if parameters.prior == "normal":
        return NormalPrior(scale)
    if parameters.prior == "horseshoe":
        return HorseshoePrior(scale, is_intercept, float(prior_scale))
    kinds = {
        "laplace": LaplacePrior,
        "student_t": lambda scale: StudentTPrior(scale, float(parameters.prior_df)),
        "cauchy": lambda scale: StudentTPrior(scale, 1.0),
    }
    on_slopes = kinds[parameters.prior](scale[~is_intercept])
    if not is_intercept.any():
        return on_slopes
    intercepts, slopes = np.flatnonzero(is_intercept), np.flatnonzero(~is_intercept)
    parts = [(slopes, on_slopes), (intercepts, NormalPrior(scale[intercepts]))]
    return ProductPrior(parts, len(scale))


def missing_moments(model, data, theta, n_classes):
    """Which moments of coefficients do not exist, and why; "" where none is known to be missing.

    Under tails of one degree of freedom or less a coefficient has no posterior mean, and under two
    or less no standard deviation, where its likelihood does not fall on the way to infinity (Ghosh,
    Li and Mitra 2018): where its feature alone has each class on one side of zero. Where it takes
    two features to separate two classes, moments exist up to twice the degrees of freedom: under
    Cauchy tails there is a mean and no standard deviation. The horseshoe's
    tau moves all coefficients to infinity at once: there any hyperplane between the classes
    suffices, and a particle far out has one if there is one. The intercept's prior is normal, so
    that it does not go along.
    """
    prior, p, binary = model.prior, data.X.shape[1], n_classes == 2
    if prior.tail_df > 2.0:
        return ""
    total, by_class, apart, far = np.zeros(p), np.zeros((n_classes, p)), True, None
    if not prior.has_gaussian:
        far = prior.coefficients(theta[[theta[:, -1].argmax()]])
        K, width = 1 if binary else n_classes, p + model.fit_intercept
        far = far[0, : K * width].reshape(K, width)[:, :p].T
    for piece in pieces([data], _NUMBERS):
        X, y, _ = model.design(piece)
        X, in_class = X[:, :p], (y > 0 if binary else y)[:, None] == np.arange(n_classes)
        by_class += np.where(in_class, 1.0, -1.0).T @ X
        total += np.abs(X).sum(axis=0)
        if far is not None:
            scores = X @ far
            scores = np.hstack([-scores, scores]) if binary else scores
            others = np.where(in_class, -np.inf, scores).max(axis=1)
            apart = apart and bool(np.all(scores[in_class] > others))
    alone = np.abs(by_class) >= (1.0 - 1e-9) * total
    if far is not None:
        alone |= apart
    missing, only_sd = alone.any(axis=0).sum(), prior.tail_df > 1.0
    if not missing and binary and prior.tail_df <= 1.0 and p <= _MAX_PAIRED:
        missing, only_sd = _n_in_pairs(model, data), True
    if not missing:
        return ""
    moment = "standard deviation" if only_sd else "mean"
    results = "coef_std_ does" if only_sd else "coef_ and coef_std_ do"
    return (
        f"the classes are separable and the prior's tails are heavy, so that the coefficients of "
        f"{missing} of {p} features have no posterior {moment}, and {results} not converge"
    )


def _n_in_pairs(model, data):
    """How many features are in a pair whose hyperplane through the origin separates two classes."""
    p, found = data.X.shape[1], np.zeros(data.X.shape[1], dtype=bool)

    def signed(rows, columns):
        X, y, _ = model.design((data, rows))
        return X[:, columns] * np.where(y > 0, 1.0, -1.0)[:, None]

    first = signed(slice(_FIRST_ROWS), slice(p))
    for pair in map(list, combinations(range(p), 2)):
        if _in_half_plane(first[:, pair]):
            rest = gen_batches(len(data.weight), _ROWS_AT_ONCE)
            if _in_half_plane(np.concatenate([signed(rows, pair) for rows in rest])):
                found[pair] = True
    return found.sum()


def _in_half_plane(points):
    """Whether points (n, 2) other than the origin leave a gap of 180 degrees, as seen from it."""
    x, y = points.T
    angle = np.sort(np.arctan2(y, x)[(x != 0.0) | (y != 0.0)])
    gaps = np.diff(angle, append=angle[:1] + 2.0 * np.pi)
    return bool(angle.size and gaps.max() >= np.pi - 1e-9)


def axes_of(model, features, response):
    """Names of coordinates, and the arrays that they form, as arguments of a posterior.

    They are the coefficients row by row, and then the scales.
    """
    names = response.coefficient_names(features, model.fit_intercept)
    found, coords = response.variables(features, model.fit_intercept)
    scales = model.prior.scale_names(names)
    found |= {name: Variable(np.array(len(names) + j)) for j, name in enumerate(scales)}
    return {"variables": found, "coords": coords, "names": names + scales}


def few(names):
    """The first names, as text."""
    return ", ".join(map(str, names[:5])) + ", ..." * (len(names) > 5)


def per_column(name, value, features, n_rows, default, low=-1e30):
    """A number for each coefficient, (n_rows, p); a single number or a str is returned as it is.

    The ``value`` is as the user gave it to the parameter of that ``name``. The keys of a dict are
    names among the ``features``, or tuples of names; others have the ``default``. Numbers are from
    ``low`` to 1e30, and there are ``n_rows`` of coefficients: 1, or the number of classes.
    """
    if isinstance(value, str):
        return value
    p = len(features)
    given = _of_dict(name, value, features, default) if isinstance(value, dict) else value
    given = as_floats(name, given)
    if given.ndim and given.shape not in ((p,), (n_rows, p)):
        raise ValueError(
            f"{name} must be a number, have one for each of {p} columns, shape ({p},), or for each "
            f"coefficient, shape ({n_rows}, {p}); got shape {given.shape}."
        )
    if not ((given >= low) & (given <= 1e30)).all():
        raise ValueError(f"{name} must hold numbers from {low:g} to 1e30, got {given}.")
    return np.broadcast_to(given, (n_rows, p)) if given.ndim else float(given)


def _of_dict(name, value, features, default):
    """The numbers of a dict by the places of its keys, (p,)."""
    place = {str(feature): j for j, feature in enumerate(features)}
    out, named = np.full(len(place), default, dtype=np.float64), set()
    for key, number in value.items():
        for column in key if isinstance(key, tuple) else (key,):
            if column not in place:
                raise ValueError(
                    f"{name} names the column {column!r}, which X does not have: its columns are "
                    f"{few(list(place))}."
                )
            if column in named:
                raise ValueError(f"{name} names the column {column!r} twice.")
            named.add(column)
            if np.ndim(number):
                raise ValueError(f"{name}[{key!r}] must be a number, got {number!r}.")
            out[place[column]] = as_floats(f"{name}[{key!r}]", number)
    return out


# ------------------------------------------------------------------- the scale by the evidence
class ScaleChoice(NamedTuple):
    """The best scale, its log evidence where known, and what speaks against it ("" if nothing)."""

    scale: float
    log_evidence: float | None = None
    warning: str = ""


def best_scale(evidence):
    """Scale in [LOW, HIGH] of the highest evidence, the best of all scales tried.

    A few scales in each decade are tried, then the logarithm of the scale is searched between the
    neighbours of the best of them. Where an end of the range is as good as the best, to within one
    nat, the data do not determine the scale, whether the evidence still rises there or is flat: the
    choice then carries a warning.

    ``evidence`` maps a scale to its log evidence; what is not finite counts as minus infinity.
    """
    tried = {}

    def negative_evidence(log_scale):
        value = float(evidence(float(np.exp(log_scale))))
        return -value if np.isfinite(value) else np.inf

    ends = np.log([LOW, HIGH])
    grid = np.linspace(*ends, 1 + int(np.ceil(_PER_DECADE * np.log10(HIGH / LOW))))

    def search(timed):
        def noted(log_scale):
            value = timed(log_scale)
            tried[log_scale] = -value
            return value

        for log_scale in sorted(grid, key=abs):  # Where time ends it, scales near 1 come first.
            noted(log_scale)
        best = max(tried, key=tried.get)
        if tried[best] > -np.inf:
            bracket = np.clip([best - (grid[1] - grid[0]), best + (grid[1] - grid[0])], *ends)
            minimize_scalar(noted, bounds=bracket, method="bounded", options={"xatol": _TOLERANCE})

    best_in_time(search, negative_evidence, _SEARCH)
    best = max(tried, key=tried.get)
    if tried[best] == -np.inf:
        raise ValueError(f"the log evidence is not finite at any scale from {LOW:g} to {HIGH:g}.")
    known = [end for end in ends if end in tried]  # Of a search without time they may not be.
    as_good = [f"{np.exp(end):g}" for end in known if tried[best] - tried[end] < _MIN_DIFFERENCE]
    warning = ""
    if as_good:
        warning = (
            f"the evidence hardly prefers prior_scale={np.exp(best):.3g} to {' or '.join(as_good)}"
            ", the end of the range searched: the data do not determine the scale"
        )
    return ScaleChoice(float(np.exp(best)), float(tried[best]), warning)


def scale_by_evidence(make_model, batches, n_particles, rng):
    """Scale of a model's prior by the evidence that importance sampling gives; see `best_scale`.

    Every scale has the same random numbers. The errors of their evidences are then nearly the same,
    and do not mislead the search. ``make_model`` maps a scale to a model with that scale of its
    prior, and there are ``n_particles`` draws in a round.
    """
    seed = rng.integers(2**63)

    def evidence(scale):
        model = make_model(scale)
        mixture = proposal_components(model, batches, "auto", 1.0)
        rng = np.random.default_rng(seed)
        outcome = importance_sample(model, batches, mixture, n_particles, 1.0, rng)
        return log_evidence(outcome.particles.log_ratio, outcome.pair)[0]

    return best_scale(evidence)


def chosen_scale(parameters, rows, response, shift, rng):
    """`ScaleChoice` by the evidence of `Rows`."""
    if parameters.prior == "horseshoe":
        raise ValueError(
            "prior_scale='evidence' is not for prior='horseshoe', which learns its scales "
            "itself: set a number."
        )
    n_features = rows.data.X.shape[1]
    with share_of_time(_SHARE), phase("search for the prior's scale"):
        return scale_by_evidence(
            lambda scale: linear_model(parameters, n_features, response, scale, shift),
            rows.whole(),
            _N_DRAWS,
            rng,
        )
