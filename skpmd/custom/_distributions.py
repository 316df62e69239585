"""Distributions of SciPy: priors of parameters, and targets of rows."""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from skpmd._base.validation import count_rows

_LINE_ENDS, _ROUNDING = 1e6, 1e-6  # Where the distribution function of anything on the line ends.


class Part(NamedTuple):
    """The prior of one parameter."""

    names: list  # Of its coordinates.
    log_density: Any  # Of points (m, k); (m,).
    sample: Any  # Of a generator and m; (m, k).
    support: tuple  # Lower and upper edges, (k,) each.
    shape: tuple  # Of the parameter.


def part_of(name, distribution):
    """The coordinates of one distribution; TypeError where it is no continuous one."""
    if not isinstance(name, str):
        raise TypeError(f"prior has the key {name!r}: keys are the names of parameters, str.")
    if isinstance(distribution, _many_dimensional()):
        d = np.size(distribution.rvs(random_state=np.random.default_rng(0)))
        return Part(
            _names(name, (d,)),
            lambda x: distribution.logpdf(x).reshape(len(x)),
            lambda rng, m: distribution.rvs(size=m, random_state=rng).reshape(m, d),
            (np.full(d, -np.inf), np.full(d, np.inf)),
            (d,),
        )
    is_family = isinstance(distribution, stats.rv_continuous)  # Without its parameters.
    if is_family or not (hasattr(distribution, "logpdf") and hasattr(distribution, "support")):
        raise TypeError(
            f"prior[{name!r}] must be a continuous distribution of scipy.stats with its parameters "
            "(a frozen one, such as scipy.stats.norm(0, 1)), or a multivariate normal or t; got "
            f"{distribution!r}."
        )
    shape = np.broadcast_shapes(*(np.shape(edge) for edge in distribution.support()))
    size = int(np.prod(shape))
    draw = _drawing(distribution)
    with np.errstate(all="ignore"):
        if not np.isfinite(draw(np.random.default_rng(0), (1, *shape))).all():
            raise ValueError(f"prior[{name!r}] draws nan or infinite numbers: {distribution!r}.")

    if hasattr(distribution, "cdf") and (distribution.cdf(_LINE_ENDS) > 1.0 + _ROUNDING).any():
        raise ValueError(
            f"prior[{name!r}] is a distribution on a circle, whose density has no end on the line: "
            f"{distribution!r}. Give one on an interval, such as scipy.stats.vonmises_line."
        )
    lower, upper = (np.broadcast_to(edge, shape) for edge in distribution.support())
    inside = np.nextafter(lower, upper), np.nextafter(upper, lower)

    def log_density(x):
        values = distribution.logpdf(x.reshape(len(x), *shape)).reshape(len(x), size)
        return np.where(np.isnan(values), -np.inf, values).sum(axis=1)

    return Part(
        _names(name, shape),
        log_density,
        # A draw that has been rounded to an edge may have no density there.
        lambda rng, m: np.clip(draw(rng, (m, *shape)), *inside).reshape(m, size),
        (lower.ravel(), upper.ravel()),
        shape,
    )


def function_of(name, distribution):
    """What a ``distribution`` of y says in the place of another function of a user that is missing.

    ``name`` is that of ``log_likelihood_pointwise``, ``predict_mean`` or ``sample_targets``.
    """

    def of(theta, X):
        found = distribution(theta, X)
        if not (hasattr(found, "rvs") and hasattr(found, "mean") and _log_density(found)):
            raise TypeError(
                "distribution must return a distribution of scipy.stats with its parameters (a "
                f"frozen one, such as scipy.stats.norm(mean, sd)), got {type(found).__name__}."
            )
        return found

    def mean_of(found, theta, X):
        # Parameters that are the same in all rows have the shape (m, 1).
        mean = np.asarray(found.mean())
        n = mean.shape[1:] if X is None else (count_rows(X),)
        return np.broadcast_to(mean, np.broadcast_shapes(mean.shape, (len(theta), *n)))

    def pointwise(theta, X, y):
        return _log_density(of(theta, X))(y)

    def mean(theta, X):
        return mean_of(of(theta, X), theta, X)

    def targets(theta, X, rng):
        found = of(theta, X)
        return found.rvs(size=mean_of(found, theta, X).shape, random_state=rng)

    functions = {
        "log_likelihood_pointwise": pointwise, "predict_mean": mean, "sample_targets": targets
    }  # fmt: skip
    return functions[name]


def _log_density(distribution):
    """Its log density of numbers, or log probability of counts; None of what has neither."""
    return getattr(distribution, "logpdf", getattr(distribution, "logpmf", None))


def _drawing(distribution):
    """``draw(rng, size)`` of a distribution of SciPy, frozen or of its newer kind."""
    if hasattr(distribution, "rvs"):
        return lambda rng, size: np.asarray(distribution.rvs(size=size, random_state=rng))
    # The newer kind puts its own shape behind that of the sample.
    return lambda rng, size: np.asarray(distribution.sample(size[:1], rng=rng))


def _names(name, shape):
    """Names of the entries of an array, as exports and summaries have them."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, place))}]" for place in np.ndindex(*shape)]


def _many_dimensional():
    """Classes of frozen distributions over vectors that have no edges."""
    return type(stats.multivariate_normal([0.0])), type(stats.multivariate_t([0.0]))
