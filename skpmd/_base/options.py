"""Parameters that estimators share: those of the loop, and an earlier posterior as the prior."""

import copy
from numbers import Integral, Real
from os import PathLike

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import Interval, StrOptions

from skpmd.engine.diagnostics import MAX_K
from skpmd.engine.kde import BANDWIDTH_RULES, KERNELS
from skpmd.engine.particles import SCHEMES
from skpmd.proposals.fitted_density import share_beyond

# Those of parameters that an estimator does not have are never used.
LOOP_CONSTRAINTS = {
    "prior": [BaseEstimator, None],
    "n_particles": [Interval(Integral, 2, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "step_schedule": [StrOptions({"power", "rows", "theorem6"})],
    "step_size": [Interval(Real, 0, None, closed="neither")],
    "step_offset": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    "step_decay": [Interval(Real, 0, 10, closed="both")],
    "step_constant": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "sampling": [StrOptions({"epoch", "replacement"})],
    "rejuvenation": [StrOptions({"ess", "always", "never"})],
    "ess_threshold": [Interval(Real, 0, 1, closed="left")],
    "max_substeps": [Interval(Integral, 0, None, closed="left")],
    "resampling": [StrOptions(set(SCHEMES))],
    "bandwidth": [StrOptions(set(BANDWIDTH_RULES)), Interval(Real, 0, None, closed="neither")],
    "bandwidth_factor": [Interval(Real, 0, None, closed="neither")],
    "smoothness": [Interval(Real, 0, None, closed="neither")],
    "kernel": [StrOptions(set(KERNELS))],
    "shrinkage": ["boolean"],
    "particle_growth": [None, StrOptions({"theorem"}), Interval(Real, 0, None, closed="neither")],
    "max_particles": [None, Interval(Integral, 2, None, closed="left")],
    "final_particles": [None, Interval(Integral, 2, None, closed="left")],
    "average": ["boolean"],
    "reweight": ["boolean"],
    "warm_start": ["boolean"],
    "total_samples": [None, Interval(Real, 0, 1e15, closed="right")],
    "forgetting": [Interval(Real, 0, 1, closed="left")],
    "half_life": [None, Interval(Real, 0, None, closed="neither")],
    # The likelihood counts 1 / temperature times: beside more, or less, rounding loses the prior.
    "temperature": [Interval(Real, 1e-15, 1e15, closed="both")],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "checkpoint": [str, PathLike, None],
    "n_jobs": [
        Interval(Integral, None, -1, closed="right"),
        Interval(Integral, 1, None, closed="left"),
        None,
    ],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}

# What docstrings of estimators have in common, in the place of names in angle brackets.
TEXTS = {
    "<prior>": """
    prior : <class>, default=None
        A fitted estimator of the same class, whose posterior serves as the prior. Its parameters
        must be the same. The fit continues from its state, random numbers included, as
        `partial_fit` would, and does not change it. A search clones estimators, and their fits are
        lost: there pass ``sklearn.frozen.FrozenEstimator(fitted)``.
        """,
    "<running>": """
    checkpoint : str, path-like or None, default=None
        File in which `fit` saves its progress. After a crash the same `fit`, with the same data and
        parameters, continues from there, with the same result to the bit; any other fit raises an
        error. The file is removed when the fit ends. It can run code when it is read, so use none
        but your own. `partial_fit` writes no checkpoint: use `skpmd.save` between two calls.
    n_jobs : int or None, default=None
        Number of threads that `fit`, `partial_fit` and predictions use, as in joblib: None means
        one. No digit of a result depends on this number. The number of BLAS threads is not changed.
    random_state : int, RandomState instance or None, default=None
        Seed; the same integer gives the same result.
    verbose : int, default=0
        1 shows progress: the phases of a fit by name, their steps, and the remaining time where the
        number of steps is known. It is a progress bar if tqdm is installed, and otherwise one line
        per second.
        """,
}

# What only a fit by stochastic steps takes note of.
OF_STOCHASTIC_STEPS = (
    "step_schedule", "step_size", "step_offset", "step_decay", "step_constant",
    "sampling", "warm_start",
)  # fmt: skip


# A posterior may have so much of its weight beyond .99 of that of the earlier one. Means were .26
# standard deviations off at .16, and right to .01 at .6 where values of the earlier density were
# followed outwards.
_MAX_BEYOND, _MAX_BEYOND_BY_VALUES = 0.1, 0.9
# What stands for an earlier posterior may lack so many nats of it, root mean square. Means of 31
# and of 42 coefficients were .05 to .39 standard deviations off at .62 to 1.5, and those of 15 were
# up to .06 off at .53.
_MAX_MISFIT = 0.6
MAX_MISFIT_OF_ROWS = 0.3  # With a quadratic for most rows: .12 and .15 at .33 and .31.
_EARLIER = "the earlier posterior, which is the prior,"
_CLONED = (
    "prior={} is not fitted. Clones of an estimator, which searches and cross-validation make, "
    "lose the fit of a prior: give sklearn.frozen.FrozenEstimator(fitted){}."
)


def fitted_prior(prior, alternative=""):
    """The fitted estimator that a prior is, out of its wrapper; ValueError where it is not fitted.

    ``alternative`` is what else may be given, for the error.
    """
    if isinstance(prior, FrozenEstimator):
        prior = prior.estimator
    if isinstance(prior, Pipeline):
        raise ValueError(
            "prior is a Pipeline, whose last step has the posterior: give pipeline[-1]."
        )
    if getattr(prior, "_state", None) is None:
        raise ValueError(_CLONED.format(type(prior).__name__, alternative))
    return prior


def posterior_of_prior(prior):
    """The posterior that a prior is or, as a fitted estimator, has."""
    if isinstance(prior, BaseEstimator):
        prior = fitted_prior(prior, ", or its posterior_").posterior_
    weighting = getattr(prior, "weighting", "posterior")
    if not weighting.startswith("posterior"):
        raise ValueError(
            f"prior has weights by {weighting}, which are not those of a posterior: give one that "
            "was fitted with weighting='posterior'."
        )
    return prior


def coordinates_named(posterior, names):
    """Places of coordinates with these names; ValueError where some are not there."""
    place = {name: j for j, name in enumerate(posterior.names)}
    missing = [name for name in names if name not in place]
    if missing:
        raise ValueError(
            f"prior knows nothing of {', '.join(missing[:5])}{', ...' * (len(missing) > 5)}: it is "
            f"on {', '.join(posterior.names[:5])}{', ...' * (len(posterior.names) > 5)}. Fit with "
            "the columns and classes that the prior was fitted with."
        )
    return [place[name] for name in names]


def convergence_reasons(density, particles, whose=_EARLIER):
    """Reasons not to trust particles that a `FittedDensity` weighs.

    It stands for another posterior, and ``whose`` names that.
    """
    beyond = share_beyond(density, particles.theta, particles.log_ratio)
    if beyond > (_MAX_BEYOND if density.correction is None else _MAX_BEYOND_BY_VALUES):
        return (
            f"{beyond:.0%} of the posterior is where {whose} has a hundredth of its mass, and "
            "where its density is hardly known: fit all rows together",
        )
    if not density.misses_a_tail:
        return misfit_reasons(density.misfit, whose=whose)
    return (
        f"Pareto k-hat of {whose} over the density that stands for it is {density.pareto_k:.2f} "
        f"(above {MAX_K}): that density misses a tail",
    )


def misfit_reasons(misfit, whose=_EARLIER, most=_MAX_MISFIT):
    """Reasons not to trust a posterior by what stands for another lacks of that, in nats.

    That is a density, or with ``MAX_MISFIT_OF_ROWS`` some of its rows and a quadratic.
    """
    if not misfit > most:
        return ()
    return (
        f"what stands for {whose} is {misfit:.1f} nats off (root mean square): means may be off by "
        "a tenth of a standard deviation or more, unless all rows are fitted together",
    )


def adopted(kind, prior, names):
    """State, frozen parameters and further attributes that an estimator takes over from a prior.

    ``kind`` is the class of both, and ``names`` are names of attributes, where it has them. The
    state is a copy: what the one learns from further rows, the other does not.
    """
    prior = fitted_prior(prior)
    if type(prior) is not kind:
        raise TypeError(
            f"prior of {kind.__name__} must be a fitted {kind.__name__}, got "
            f"{type(prior).__name__}."
        )
    attributes = {name: getattr(prior, name) for name in names if hasattr(prior, name)}
    return copy.deepcopy(prior._state), dict(getattr(prior, "_frozen", {})), attributes
