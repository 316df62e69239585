"""The models of posteriordb's reference draws, each as values of a likelihood and a prior.

Each density is written once, for NumPy and JAX alike, in coordinates without bounds: that of a
scale is its logarithm. A regression whose coefficients have a flat prior is written in orthogonal
ones, beta = (mean of y, 0, ...) + sd(y) sqrt(n) R^-1 c with X = Q R, and c has the prior N(0, 10^2)
in each coordinate: posterior means and sds are below 1 and 0.2 there, so that this prior moves a
mean by less than 0.002 of a posterior sd. A flat prior on a scale is uniform up to 50 sds of y.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import gammaln

from ..harness import comparison, datasets
from ..peers.problem import Problem
from .reference_priors import LOG_TWO_PI, Prior, log_gamma, log_of, log_uniform, normal, student

N_PARTICLES = 4000


class Reference(NamedTuple):
    """A posterior, and the means and sds (p,) of the numbers that ``reported`` makes.

    ``reported(theta)`` turns particles (m, d) into those p numbers, and ``estimator(seed)`` makes
    ours for it.
    """

    name: str
    problem: Problem
    X: np.ndarray
    y: np.ndarray | None
    reported: Any
    mean: np.ndarray
    sd: np.ndarray
    estimator: Any


def _problem(priors, log_likelihood):
    """A `Problem` of independent priors and ``log_likelihood(xp, theta, X, y)``, theta (m, d)."""

    def log_prior(xp, theta):
        return sum(prior.log_density(xp, theta[:, j]) for j, prior in enumerate(priors))

    return Problem(
        d=len(priors),
        log_likelihood=lambda theta, X, y: log_likelihood(np, theta, X, y),
        log_prior=lambda theta: log_prior(np, theta),
        sample_prior=lambda rng, m: np.stack([prior.sample(rng, m) for prior in priors], axis=1),
        jax_log_likelihood=lambda theta, X, y: log_likelihood(_jnp(), theta[None], X, y)[0],
        jax_log_prior=lambda theta: log_prior(_jnp(), theta[None])[0],
    )


def _jnp():
    """JAX, for those who have gradients; the rest does without."""
    from ..peers.jax_setup import jnp

    return jnp


def _normal_rows(xp, theta, X, y):
    """A linear regression: coefficients, and last the logarithm of the noise's sd."""
    log_sd = theta[:, -1]
    squared = ((y - theta[:, :-1] @ X.T) ** 2).sum(axis=1)
    return -0.5 * squared * xp.exp(-2.0 * log_sd) - len(y) * (log_sd + 0.5 * LOG_TWO_PI)


def _regression(X, y, priors, scale):
    """Coefficients under proper priors, as they are."""

    def reported(theta):
        return np.column_stack([theta[:, :-1], np.exp(theta[:, -1])])

    whole = _problem([*priors, log_of(scale)], _normal_rows)
    return whole, X, y, reported


def _flat_regression(X, y, half_cauchy=None):
    """Coefficients under a flat prior; the first column of X is that of ones."""
    n, mean, unit = len(y), y.mean(), y.std()
    Q, R = np.linalg.qr(X)
    back = unit * np.sqrt(n) * np.linalg.inv(R).T
    first = np.eye(X.shape[1])[0] * mean
    scale = log_of(student(1, 0.0, half_cauchy / unit)) if half_cauchy else log_uniform(50.0)

    def reported(theta):
        return np.column_stack([first + theta[:, :-1] @ back, unit * np.exp(theta[:, -1])])

    whole = _problem([normal(scale=10.0)] * X.shape[1] + [scale], _normal_rows)
    return whole, np.sqrt(n) * Q, (y - mean) / unit, reported


def _blr(name, data):
    half_normal = normal(scale=10.0)
    return _regression(data["X"], data["y"], [normal(scale=10.0)] * 5, half_normal)


def _kidiq(name, data):
    """Scores of children on their mothers' schooling, IQ and work."""
    hs, iq, ones = data["mom_hs"], data["mom_iq"], np.ones(len(data["mom_hs"]))
    centred = (hs - hs.mean(), iq - iq.mean())
    fixed = (hs - 0.5, iq - 100.0)
    levels = [data["mom_work"] == level for level in (2, 3, 4)] if "mom_work" in data else []
    columns = {
        "kidscore_momhs": (hs,),
        "kidscore_momiq": (iq,),
        "kidscore_momhsiq": (hs, iq),
        "kidscore_interaction": (hs, iq, hs * iq),
        "kidscore_interaction_c": (*centred, centred[0] * centred[1]),
        "kidscore_interaction_c2": (*fixed, fixed[0] * fixed[1]),
        "kidscore_mom_work": levels,
    }[name.split("-")[1]]
    X = np.column_stack([ones, *columns])
    half_cauchy = 2.5 if name.startswith("kidiq-") else None
    return _flat_regression(X, data["kid_score"].astype(float), half_cauchy)


def _earnings(name, data):
    """Earnings on height and sex."""
    earn, height, male = (data[key].astype(float) for key in ("earn", "height", "male"))
    z = (height - height.mean()) / height.std(ddof=1)
    kind = name.split("-")[1]
    columns = {
        "earn_height": (height,),
        "log10earn_height": (height,),
        "logearn_height": (height,),
        "logearn_height_male": (height, male),
        "logearn_interaction_z": (z, male, z * male),
        "logearn_logheight_male": (np.log(height), male),
    }[kind]
    y = {"earn": earn, "log10earn": np.log10(earn), "logearn": np.log(earn)}[kind.split("_")[0]]
    return _flat_regression(np.column_stack([np.ones(len(y)), *columns]), y)


def _nes(name, data):
    """Party identification on nine columns."""
    age = data["age_discrete"]
    columns = [np.ones(len(age)), data["real_ideo"], data["race_adj"]]
    columns += [age == level for level in (2, 3, 4)]
    columns += [data["educ1"], data["gender"], data["income"]]
    return _flat_regression(np.column_stack(columns), data["partyid7"].astype(float))


def _diamonds(name, data):
    """Log prices on 24 centred columns, the intercept (of centred columns) second to last."""
    columns = data["X"][:, 1:]
    X = np.column_stack([columns - columns.mean(axis=0), np.ones(len(columns))])
    priors = [normal()] * 24 + [student(3, 8.0, 10.0)]
    return _regression(X, data["Y"], priors, student(3, 0.0, 10.0))


def _kilpisjarvi(name, data):
    """Temperatures on years, under the normal priors that come with the data."""
    y = data["y"].astype(float)
    X = np.column_stack([np.ones(len(y)), data["x"]])
    priors = [normal(data[f"pmu{key}"], data[f"ps{key}"]) for key in ("alpha", "beta")]

    def reported(theta):
        return np.column_stack([theta[:, :-1], np.exp(theta[:, -1])])

    whole = _problem([*priors, log_uniform(50.0 * y.std())], _normal_rows)
    return whole, X, y, reported


def _autoregression(name, data):
    """A regression on the last K values."""
    y, K = data["y"], int(data["K"])
    lags = [y[K - k : len(y) - k] for k in range(1, K + 1)]
    X = np.column_stack([np.ones(len(y) - K), *lags])
    return _regression(X, y[K:], [normal(scale=10.0)] * (K + 1), student(1, 0.0, 2.5))


def _eight_schools(name, data):
    """Effects theta_j = mu + tau z_j; coordinates z, mu and log tau."""

    def effects(xp, theta):
        return theta[:, 8:9] + xp.exp(theta[:, 9:]) * theta[:, :8]

    def log_likelihood(xp, theta, X, y):
        sd = X[:, 1]
        log_density = -0.5 * ((y - effects(xp, theta) @ _chosen(xp, X)) / sd) ** 2 - xp.log(sd)
        return (log_density - 0.5 * LOG_TWO_PI).sum(axis=1)

    def reported(theta):
        return np.column_stack([effects(np, theta), theta[:, 8], np.exp(theta[:, 9])])

    X = np.column_stack([np.arange(8.0), data["sigma"]])  # a row is a school: its number, its error
    priors = [normal()] * 8 + [normal(scale=5.0), log_of(student(1, 0.0, 5.0))]
    whole = _problem(priors, log_likelihood)
    return whole, X, data["y"].astype(float), reported


def _chosen(xp, X):
    """Indicators (8, rows) of the schools of some rows."""
    return (X[:, 0] == xp.arange(8.0)[:, None]) * 1.0


def _mixture(name, data):
    """Two components on a line: sum and log distance of the means, log sds, logit of the share."""

    def log_likelihood(xp, theta, X, y):
        low, high, share = *_means(xp, theta), theta[:, 4:]
        z = [(X[:, 0] - low) * xp.exp(-theta[:, 2:3]), (X[:, 0] - high) * xp.exp(-theta[:, 3:4])]
        first = -0.5 * z[0] ** 2 - theta[:, 2:3] - xp.logaddexp(0.0, -share)
        second = -0.5 * z[1] ** 2 - theta[:, 3:4] - xp.logaddexp(0.0, share)
        return (xp.logaddexp(first, second) - 0.5 * LOG_TWO_PI).sum(axis=1)

    def reported(theta):
        low, high = _means(np, theta)
        share = 1.0 / (1.0 + np.exp(-theta[:, 4:]))
        return np.column_stack([low, high, np.exp(theta[:, 2:4]), share])

    sd = log_of(normal(scale=2.0))
    share = Prior(
        lambda xp, t: -5.0 * (xp.logaddexp(0.0, t) + xp.logaddexp(0.0, -t)) + float(np.log(630.0)),
        lambda rng, m: stats.logistic.ppf(rng.beta(5.0, 5.0, m)),
    )
    means = [normal(scale=np.sqrt(2.0) * 2.0), log_of(normal(scale=np.sqrt(2.0) * 2.0))]
    # Sum and difference of two N(0, 2^2) are independent N(0, 8); in order, the density doubles.
    whole = _problem([*means, sd, sd, share], log_likelihood)
    return whole, data["y"][:, None], None, reported


def _means(xp, theta):
    """Means in order, of their sum and the logarithm of their distance."""
    distance = xp.exp(theta[:, 1:2])
    return 0.5 * (theta[:, :1] - distance), 0.5 * (theta[:, :1] + distance)


def _process(name, data):
    """The evidence of a Gaussian process: logarithms of rho, alpha and sigma (a variance)."""

    def log_likelihood(xp, theta, X, y):
        rho, alpha, sigma = (xp.exp(theta[:, j, None, None]) for j in range(3))
        square = (X - X.T) ** 2
        K = alpha**2 * xp.exp(-0.5 * square / rho**2) + sigma * xp.eye(len(y))
        L = xp.linalg.cholesky(K)
        z = xp.linalg.solve(L, xp.broadcast_to(y[:, None], (len(theta), len(y), 1)))[..., 0]
        half = xp.log(xp.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
        return -0.5 * (z**2).sum(axis=1) - half - 0.5 * len(y) * LOG_TWO_PI

    priors = [log_gamma(25.0, 4.0), log_of(normal(scale=2.0)), log_of(normal())]
    whole = _problem(priors, log_likelihood)
    return whole, data["x"].astype(float)[:, None], data["y"], np.exp


MODELS = {
    "sblrc-blr": _blr,
    "sblri-blr": _blr,
    **{f"kidiq-kidscore_{kind}": _kidiq for kind in ("momhs", "momiq", "momhsiq", "interaction")},
    **{
        f"kidiq_with_mom_work-kidscore_{kind}": _kidiq
        for kind in ("interaction_c", "interaction_c2", "mom_work")
    },
    "earnings-earn_height": _earnings,
    "earnings-log10earn_height": _earnings,
    "earnings-logearn_height": _earnings,
    "earnings-logearn_height_male": _earnings,
    "earnings-logearn_interaction_z": _earnings,
    "earnings-logearn_logheight_male": _earnings,
    "diamonds-diamonds": _diamonds,
    "kilpisjarvi_mod-kilpisjarvi": _kilpisjarvi,
    "arK-arK": _autoregression,
    "low_dim_gauss_mix-low_dim_gauss_mix": _mixture,
    "gp_pois_regr-gp_regr": _process,
    "eight_schools-eight_schools_noncentered": _eight_schools,
    "nes1980-nes": _nes,
}


def load(name, data_dir):
    """Load one posterior by its name in posteriordb."""
    data, draws = datasets.posteriordb(name, data_dir)
    return _reference(name, MODELS[name](name, data), draws.mean(axis=0), draws.std(axis=0))


def _reference(name, model, mean, sd):
    """A posterior for `ParticleMirrorDescent`, whose log-likelihood is of rows of both X and y."""
    from skpmd import ParticleMirrorDescent

    problem, X, y, reported = model

    def estimator(seed):
        functions = problem.log_likelihood, problem.log_prior, problem.sample_prior
        return ParticleMirrorDescent(*functions, n_particles=N_PARTICLES, random_state=seed)

    return Reference(name, problem, X, y, reported, mean, sd, estimator)


def logistic(data, truth):
    """Logistic regression of a `Dataset` under N(0, 1), for `BayesianLogisticRegressionPMD`."""

    def log_likelihood(xp, theta, X, y):
        logits = theta[:, :-1] @ X.T + theta[:, -1:]
        return (y * logits - xp.logaddexp(0.0, logits)).sum(axis=1)

    d = data.X.shape[1] + 1
    whole = _problem([normal()] * d, log_likelihood)
    y = data.y.astype(np.float64)

    def reported(theta):
        return theta

    return Reference(
        data.name, whole, data.X, y, reported, truth.mean, truth.sd, comparison.estimator
    )


def generated():
    """Yield two regressions under flat priors, whose moments are known.

    Given the residual sum of squares S of least squares, 1 / sigma^2 ~ Gamma(a, S / 2) with
    a = (n - k - 1) / 2 under a flat prior on sigma.
    """
    rng = np.random.default_rng(0)
    for n, k in ((60, 2), (200, 5)):
        X = np.column_stack([np.ones(n), rng.normal(1.0, 2.0, (n, k - 1))])
        y = X @ rng.standard_normal(k) + 1.5 * rng.standard_normal(n)
        beta, (square,), *_ = np.linalg.lstsq(X, y, rcond=None)
        a = 0.5 * (n - k - 1)
        variance = 0.5 * square / (a - 1.0)
        mean = np.sqrt(0.5 * square) * np.exp(gammaln(a - 0.5) - gammaln(a))
        sds = np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X)))
        moments = np.append(beta, mean), np.append(sds, np.sqrt(variance - mean**2))
        yield _reference(f"generated {k}", _flat_regression(X, y), *moments)
