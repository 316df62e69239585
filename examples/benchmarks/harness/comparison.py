"""One fit held against a reference posterior: errors, diagnostics, CPU seconds, warnings."""

import warnings

import numpy as np

from .timing import cpu_clock


def estimator(seed, **params):
    """`BayesianLogisticRegressionPMD` under the references' prior, N(0, 1) in given units."""
    from skpmd import BayesianLogisticRegressionPMD

    return BayesianLogisticRegressionPMD(
        intercept_prior_scale=1.0, scale=None, random_state=seed, **params
    )


def warm(data, n_columns=None, **params):
    """Fit some 200 rows outside of any clock, so that what there is to compile is compiled."""
    few = slice(None, None, max(1, len(data.y) // 200))  # some files are sorted by class
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator(0, **params).fit(data.X[few, :n_columns], data.y[few])


def errors(mean, sd, truth):
    """Errors of the means in posterior sds and relative errors of the sds."""
    return (mean - truth.mean) / truth.sd, sd / truth.sd - 1.0


def squared(error, variance):
    """Mean square of (runs, d) errors less the reference's variance, which is its floor too."""
    noise = float(np.mean(variance))
    return max(float(np.mean(np.square(error))) - noise, noise)


def measure(model, data, truth):
    """Fit, and return a row of numbers and the two error vectors.

    The coordinates of ``truth`` are the posterior's first; of data with ``columns``, as `at_means`
    has them.
    """
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        model.fit(data.X, data.y, sample_weight=getattr(data, "weight", None))
    posterior, d = model.posterior_, len(truth.mean)
    values = posterior.particles
    if hasattr(data, "columns"):
        values = at_means(posterior, data.columns.mean(axis=0))
    values = values[:, :d]
    mean = posterior.weights @ values
    error = errors(mean, np.sqrt(posterior.weights @ (values - mean) ** 2), truth)
    diagnostics = model.diagnostics_
    row = {
        "max_mean_error": float(np.abs(error[0]).max()),
        "mean_mean_error": float(np.abs(error[0]).mean()),
        "max_sd_error": float(np.abs(error[1]).max()),
        "k_hat": _number(diagnostics["pareto_k"]),
        "r_hat": _number(diagnostics["r_hat"]),
        "ess": _number(diagnostics["ess"]),
        "cpu": clock.cpu,
        "warned": ",".join(sorted({warning.category.__name__ for warning in caught})) or None,
    }
    return row, error


def at_means(posterior, means):
    """Particles whose intercept, or cutpoints, are where columns are at ``means``.

    References have them there; posteriors have them where columns are zero.
    """
    theta = posterior.particles.copy()
    gap = theta[:, : len(means)] @ means
    for j, name in enumerate(posterior.names):
        if name == "intercept":
            theta[:, j] += gap
        elif name.startswith("cut["):
            theta[:, j] -= gap
    return theta


def _number(value):
    return None if value is None else float(value)
