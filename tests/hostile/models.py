"""Functions of a user as `ParticleMirrorDescent` takes them: right, odd and wrong ones."""

import numpy as np

from tests.tools.exact_models import (
    NORMAL_MEAN,
    NORMAL_PREDICTIONS,
    normal_log_likelihood,
    normal_log_prior,
)


class TheirError(Exception):
    """What a user's function raises reaches the user as it is."""


def _refuse_other_than_numbers(X):
    if X is None or np.asarray(X).dtype.kind not in "biuf":
        raise TheirError


def _log_likelihood(theta, X, y, sample_weight=None):
    """What overflows in a user's function is the user's, and what are no numbers."""
    _refuse_other_than_numbers(X)
    with np.errstate(all="ignore"):
        return normal_log_likelihood(theta, X, y, sample_weight)


def _log_prior(theta):
    with np.errstate(all="ignore"):
        return normal_log_prior(theta)


def _gradient(theta, X, y, sample_weight=None):
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    with np.errstate(all="ignore"):
        value = _log_likelihood(theta, X, y, sample_weight) + normal_log_prior(theta)
        off = (weight @ X).sum() - X.shape[1] * weight.sum() * theta
        return value, off - theta


def _pointwise(theta, X, y):
    """The usual likelihood of each row, of the mean of several coordinates."""
    _refuse_other_than_numbers(X)
    with np.errstate(all="ignore"):
        centre = theta.mean(axis=1, keepdims=True)
        return NORMAL_PREDICTIONS["log_likelihood_pointwise"](centre, X, y)


QUIET = {**NORMAL_MEAN, "log_likelihood": _log_likelihood, "log_prior": _log_prior}
PREDICTIONS = {**NORMAL_PREDICTIONS, "log_likelihood_pointwise": _pointwise, "names": None}


def _likelihood_as(change):
    """A log-likelihood whose values are changed."""

    def log_likelihood(theta, X, y, sample_weight=None):
        with np.errstate(all="ignore"):
            return change(_log_likelihood(theta, X, y, sample_weight), theta)

    return {"log_likelihood": log_likelihood}


def _prior_as(change):
    """A log prior whose values are changed."""
    return {"log_prior": lambda theta: change(normal_log_prior(theta), theta)}


def _draws_as(change):
    """Draws from the prior that are changed."""
    return {"sample_prior": lambda rng, m: change(rng.standard_normal((m, 1)), rng)}


def _gradient_as(change):
    """A gradient that is changed."""

    def log_joint_gradient(theta, X, y, sample_weight=None):
        with np.errstate(all="ignore"):
            return change(*_gradient(theta, X, y, sample_weight))

    return {"log_joint_gradient": log_joint_gradient}


def _raises(*arguments, **keywords):
    raise TheirError


def _in_place(values, theta):
    theta *= 2.0
    return values


def _noisy(values, theta):
    return values + np.random.default_rng(theta.view(np.uint64)[:, 0]).standard_normal(len(values))


def _several(d):
    """A prior of d coordinates, whose mean is that of the rows."""

    def log_likelihood(theta, X, y, sample_weight=None):
        return _log_likelihood(theta.mean(axis=1, keepdims=True), X, y, sample_weight)

    return {
        "log_likelihood": log_likelihood,
        "sample_prior": lambda rng, m: rng.standard_normal((m, d)),
    }


def _scaled(scale):
    """A prior of another scale."""

    def log_prior(theta):
        with np.errstate(all="ignore"):
            return _log_prior(theta / scale) - np.log(scale)

    return {
        "log_prior": log_prior,
        "sample_prior": lambda rng, m: scale * rng.standard_normal((m, 1)),
    }


UNIFORM = {
    "log_prior": lambda theta: np.where(np.abs(theta[:, 0]) < 1.0, -np.log(2.0), -np.inf),
    "sample_prior": lambda rng, m: rng.uniform(-1.0, 1.0, (m, 1)),
}
# Which functions take the place of the usual ones.
MODELS = {
    "plain": {},
    "takes no weights": {"log_likelihood": lambda theta, X, y: _log_likelihood(theta, X, y)},
    "one argument": {"log_likelihood": lambda theta: np.zeros(len(theta))},
    "no argument": {"log_prior": lambda: 0.0},
    "three arguments": {"sample_prior": lambda rng, m, d: rng.standard_normal((m, d))},
    "one number": _likelihood_as(lambda values, theta: 0.0),
    "column": _likelihood_as(lambda values, theta: values[:, None]),
    "too short": _likelihood_as(lambda values, theta: values[:-1]),
    "none": _likelihood_as(lambda values, theta: None),
    "words": _likelihood_as(lambda values, theta: ["word"] * len(values)),
    "object": _likelihood_as(lambda values, theta: values.astype(object)),
    "complex": _likelihood_as(lambda values, theta: values + 0j),
    "masked": _likelihood_as(lambda values, theta: np.ma.masked_less(values, -50.0)),
    "generator": _likelihood_as(lambda values, theta: (value for value in values)),
    "float16": _likelihood_as(lambda values, theta: values.astype(np.float16)),
    "int": _likelihood_as(lambda values, theta: np.zeros(len(theta), dtype=int)),
    "bool": _likelihood_as(lambda values, theta: theta[:, 0] > 0.0),
    "nan": _likelihood_as(lambda values, theta: np.full(len(theta), np.nan)),
    "nan somewhere": _likelihood_as(lambda values, t: np.where(t[:, 0] > 0.5, np.nan, values)),
    "inf somewhere": _likelihood_as(lambda values, t: np.where(t[:, 0] > 0.5, np.inf, values)),
    "-inf": _likelihood_as(lambda values, theta: np.full(len(theta), -np.inf)),
    "-inf but near 0": _likelihood_as(
        lambda values, theta: np.where(np.abs(theta[:, 0]) < 1e-2, values, -np.inf)
    ),
    "half of the support": _likelihood_as(
        lambda values, theta: np.where(theta[:, 0] > 0.0, values, -np.inf)
    ),
    "times 1e300": _likelihood_as(lambda values, theta: values * 1e300),
    "plus 1e300": _likelihood_as(lambda values, theta: values + 1e300),
    "constant": _likelihood_as(lambda values, theta: np.zeros(len(theta))),
    "in place": _likelihood_as(_in_place),
    "noisy": _likelihood_as(_noisy),
    "raises": {"log_likelihood": _raises},
    "prior of a number": _prior_as(lambda values, theta: 0.0),
    "prior of nan": _prior_as(lambda values, theta: np.full(len(theta), np.nan)),
    "prior of -inf": _prior_as(lambda values, theta: np.full(len(theta), -np.inf)),
    "prior complex": _prior_as(lambda values, theta: values * 1j),
    "prior plus 7": _prior_as(lambda values, theta: values + 7.0),
    "prior of its own": _prior_as(lambda values, theta: 9.0 * values),
    "prior raises": {"log_prior": _raises},
    "draws of a point": _draws_as(lambda theta, rng: np.zeros_like(theta)),
    "draws of two points": _draws_as(lambda theta, rng: np.sign(theta)),
    "draws nan": _draws_as(lambda theta, rng: np.where(theta > 2.0, np.nan, theta)),
    "draws 1-D": _draws_as(lambda theta, rng: theta[:, 0]),
    "draws too few": _draws_as(lambda theta, rng: theta[:-1]),
    "draws of no columns": _draws_as(lambda theta, rng: theta[:, :0]),
    "draws of some columns": _draws_as(
        lambda theta, rng: np.repeat(theta, rng.integers(1, 4), axis=1)
    ),
    "draws words": _draws_as(lambda theta, rng: np.full(theta.shape, "word")),
    "draws complex": _draws_as(lambda theta, rng: theta + 1j),
    "draws object": _draws_as(lambda theta, rng: theta.astype(object)),
    "draws whole": _draws_as(lambda theta, rng: theta.astype(int)),
    "draws raise": {"sample_prior": _raises},
    "prior of 1e300": _scaled(1e300),
    "prior of 1e-300": _scaled(1e-300),
    "uniform": UNIFORM,
    "three coordinates": _several(3),
    "twelve coordinates": _several(12),
    "gradient": _gradient_as(lambda value, gradient: (value, gradient)),
    "gradient, lists": _gradient_as(lambda value, gradient: (value.tolist(), gradient.tolist())),
    "gradient, float32": _gradient_as(lambda v, gradient: (v, gradient.astype(np.float32))),
    "gradient alone": _gradient_as(lambda value, gradient: gradient),
    "gradient twice": _gradient_as(lambda value, gradient: (value, 2.0 * gradient)),
    "gradient and more": _gradient_as(lambda value, gradient: (value, gradient, None)),
    "gradient none": _gradient_as(lambda value, gradient: None),
    "gradient nan": _gradient_as(lambda value, gradient: (value, gradient * np.nan)),
    "gradient complex": _gradient_as(lambda value, gradient: (value, gradient * 1j)),
    "gradient raises": {"log_joint_gradient": _raises},
    "gradient, one argument": {"log_joint_gradient": lambda theta: _gradient(theta, 0.0, None)},
}


def functions(name):
    """All functions of a model, by a name of it."""
    return {**QUIET, "log_joint_gradient": None, **MODELS[name]}


NAMES = tuple(functions("plain"))  # The parameters that are functions.
