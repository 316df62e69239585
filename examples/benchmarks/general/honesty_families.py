"""Fits of the estimators with models of their own for the study ``honesty``."""

import warnings
from functools import cache
from itertools import product

import numpy as np
from scipy import special, stats

from skpmd import BayesianLogisticRegressionPMD, GaussianMixturePMD, SparseGPRegressorPMD

from ..lda.topic_calibration import LEVEL, simulated
from .honesty_case import Case, by_moments, hearing, judged
from .honesty_shapes import on_grid
from .honesty_truth import RIGHT_MEAN, RIGHT_SD, WRONG_SD

SEEDS = 3
INTERCEPT_SCALE = 10.0
PRIORS = {
    "normal": lambda scale: stats.norm(scale=scale),
    "laplace": lambda scale: stats.laplace(scale=scale),
    "student_t": lambda scale: stats.t(4.0, scale=scale),
    "cauchy": lambda scale: stats.cauchy(scale=scale),
}
# Rows, slope, and the prior's scale.
LINES = {
    "6 rows": (6, 1.0, 1.0),
    "40 rows": (40, 1.5, 2.0),
    "40 rows, separable": (40, np.inf, 1.0),
    "12 rows, separable, wide": (12, np.inf, 10.0),
    "1000 rows, rare": (1000, 0.5, 3.0),
}
ORDERS = ("mixed", "by class", "by feature")
COVERAGE_WRONG, COVERAGE_RIGHT = 0.75, 0.85
OWN = 3.0


def cases(quick):
    """Yield the `Case` of every fit."""
    seeds = range(1 if quick else SEEDS)
    yield from _logistic(seeds, quick)
    yield from _mixtures(seeds, quick)
    yield from _processes(seeds, quick)
    yield from _topics(seeds, quick)


# ---------------------------------------------------------------------- logistic regression
def _logistic(seeds, quick):
    for name in list(LINES)[:2] if quick else LINES:
        for prior in PRIORS:
            X, y, shape = _line(name, prior)
            scale = LINES[name][2]
            for seed in seeds:
                parameters = {
                    "prior": prior, "prior_scale": scale, "scale": None, "random_state": seed,
                }  # fmt: skip
                model = BayesianLogisticRegressionPMD(**parameters)
                with hearing() as heard:
                    model.fit(X, y)
                place = ("logistic", "fit", f"{name}, {prior}", True, False)
                yield _of_line(place, seed, model, shape, heard)
                still = BayesianLogisticRegressionPMD(moves="never", **parameters)
                with hearing() as heard:
                    still.fit(X, y)
                place = ("logistic", "moves='never'", f"{name}, {prior}", True, True)
                yield _of_line(place, seed, still, shape, heard)
        if name.startswith("40") or name.startswith("1000"):
            yield from _lines_in_parts(seeds, name)


def _lines_in_parts(seeds, name):
    for prior, order in product(("normal", "cauchy"), ORDERS):
        X, y, shape = _line(name, prior)
        for seed in seeds:
            mixed = np.random.default_rng(seed).permutation(len(y))
            key = {"mixed": mixed, "by class": y, "by feature": X[:, 0]}[order]
            model = BayesianLogisticRegressionPMD(
                prior=prior, prior_scale=LINES[name][2], scale=None, random_state=seed
            )
            for part in np.array_split(np.argsort(key, kind="stable"), 4):
                with hearing() as heard:
                    model.partial_fit(X[part], y[part], classes=[0, 1])
            place = ("logistic", f"stream {order}", f"{name}, {prior}", True, order != "mixed")
            yield _of_line(place, seed, model, shape, heard)


def _of_line(place, seed, model, shape, heard):
    known = hasattr(model, "log_evidence_")
    evidence = (model.log_evidence_, model.posterior_.log_evidence_se) if known else ()
    return judged(place, seed, model.posterior_, shape.truth, heard.warned, *evidence)


@cache
def _line(name, prior):
    """Rows of one feature, and their posterior by quadrature."""
    n, slope, scale = LINES[name]
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 1))
    logit = (X[:, 0] > 0.1) * 80.0 - 40.0 if np.isinf(slope) else slope * X[:, 0]
    y = (rng.random(n) < special.expit(logit - 4.0 * name.endswith("rare"))).astype(int)
    of_slope, of_intercept = PRIORS[prior](scale), stats.norm(scale=INTERCEPT_SCALE)

    def log_prior(theta):
        return of_slope.logpdf(theta[:, 0]) + of_intercept.logpdf(theta[:, 1])

    def log_likelihood(theta, X, y):
        margins = (theta[:, :1] * X[:, 0] + theta[:, 1:]) * (2.0 * y - 1.0)
        return special.log_expit(margins).sum(axis=1)

    def within(theta):
        return log_prior(theta) + log_likelihood(theta, X, y)

    return X, y, on_grid(log_prior, None, log_likelihood, *_box(within), X=X, y=y)


def _box(log_joint, drop=16.0):
    """A box outside of which a density of two coordinates is so many nats below its top."""
    low, high = np.full(2, -400.0), np.full(2, 400.0)
    for _ in range(8):
        axes = [np.linspace(*ends, 401) for ends in zip(low, high, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        values = np.concatenate([log_joint(some) for some in np.array_split(points, 40)])
        inside = points[values > values.max() - drop]
        step = np.array([axis[1] - axis[0] for axis in axes])
        low, high = inside.min(axis=0) - step, inside.max(axis=0) + step
    return low, high


# ---------------------------------------------------------------------- mixtures
def _mixtures(seeds, quick):
    at = np.array([-1.5, 0.0, 1.0, 3.0])
    for name, (x, n_components) in _rows_of_mixtures().items():
        if quick and n_components == 3:
            continue
        exact = _Assignments(x, n_components)
        evidence = exact.log_evidence(())
        mean = np.array([np.exp(exact.log_evidence((one,)) - evidence) for one in at])
        square = np.array([np.exp(exact.log_evidence((one, one)) - evidence) for one in at])
        sd = np.sqrt(square - mean**2)
        for seed in seeds:
            model = GaussianMixturePMD(
                n_components, strategy="parameters", random_state=seed, **exact.prior
            )
            with hearing() as heard:
                model.fit(x[:, None])
            density = _densities(model, at)
            w = model.posterior_.weights
            found = w @ density
            spread = np.sqrt(w @ (density - found) ** 2)
            allowed = 0.1 + 3.0 * model.posterior_.log_evidence_se
            yield by_moments(
                ("mixture", "parameters", name, True, True), seed,
                np.abs(found - mean) / sd, spread / sd - 1.0, heard.warned,
                abs(model.log_evidence_ - evidence) / allowed,
            )  # fmt: skip


def _rows_of_mixtures():
    rng = np.random.default_rng(0)
    found = {}
    for n, n_components in product((3, 6, 8), (2, 3)):
        for gap in (1.0, 4.0):
            x = rng.standard_normal(n) * 0.7 + gap * (np.arange(n) % 2)
            if n_components == 2 or n < 8:
                found[f"{n} rows, {n_components} components, gap {gap:g}"] = x, n_components
    return found


def _densities(model, at):
    """The density of each particle at some points, (m, k)."""
    K, particles = model.n_components, model.posterior_.particles
    mixing, means, sds = particles[:, :K], particles[:, K : 2 * K], particles[:, 2 * K :]
    each = stats.norm.pdf(at[None, None], means[..., None], sds[..., None])
    return (mixing[..., None] * each).sum(axis=1)


class _Assignments:
    """A mixture of normals in one column as a sum over assignments of rows to components.

    Weights are Dirichlet(1); precisions gamma with 3 degrees of freedom and scatter 1, and means
    normal with a tenth of a component's precision around .5.
    """

    prior = {
        "weight_concentration_prior": 1.0, "mean_prior": [0.5], "mean_precision_prior": 0.1,
        "degrees_of_freedom_prior": 3.0, "covariance_prior": [[1.0]], "reg_covar": 0.0,
    }  # fmt: skip

    def __init__(self, x, n_components):
        self._x, self._K = x, n_components
        self._log_marginal = cache(self._log_marginal)

    def log_evidence(self, more):
        """Log marginal likelihood of the rows and some more."""
        x = (*self._x.tolist(), *np.asarray(more, dtype=float).tolist())
        terms = []
        for z in product(range(self._K), repeat=len(x)):
            members = [
                tuple(v for v, k in zip(x, z, strict=True) if k == j) for j in range(self._K)
            ]
            sizes = np.array([len(one) for one in members])
            share = special.gammaln(1.0 + sizes).sum() - special.gammaln(self._K + len(x))
            terms.append(share + special.gammaln(self._K) + sum(map(self._log_marginal, members)))
        return special.logsumexp(terms)

    def _log_marginal(self, x):
        n, kappa, dof, scatter = len(x), 0.1, 3.0, 1.0
        if not n:
            return 0.0
        mean = np.mean(x)
        after = scatter + np.sum((np.array(x) - mean) ** 2)
        after += kappa * n / (kappa + n) * (mean - 0.5) ** 2
        return (
            special.gammaln(0.5 * (dof + n)) - special.gammaln(0.5 * dof)
            + 0.5 * dof * np.log(scatter) - 0.5 * (dof + n) * np.log(after)
            + 0.5 * np.log(kappa / (kappa + n)) - 0.5 * n * np.log(np.pi)
        )  # fmt: skip


# ---------------------------------------------------------------------- Gaussian processes
CURVES = {
    "30 rows": (30, 1, 0.3, {}),
    "200 rows": (200, 1, 0.1, {}),
    "200 rows, little noise": (200, 1, 1e-3, {}),
    "200 rows, noise": (200, 2, 2.0, {}),
    "600 rows, d=3": (600, 3, 0.2, {}),
    "2000 rows": (2000, 1, 0.3, {}),
    "2000 rows, d=2": (2000, 2, 0.3, {}),
    "600 rows, 30 inducing": (600, 1, 0.2, {"n_inducing": 30}),
    "600 rows, 10 inducing": (600, 1, 0.2, {"n_inducing": 10}),
    "600 rows, d=3, 50 inducing": (600, 3, 0.2, {"n_inducing": 50}),
}


def _processes(seeds, quick):
    from sklearn.gaussian_process import GaussianProcessRegressor

    for name, (n, d, noise, parameters) in list(CURVES.items())[: 2 if quick else None]:
        for seed in seeds:
            rng = np.random.default_rng([n, d, seed])
            X, at = rng.uniform(-3.0, 3.0, (n, d)), rng.uniform(-3.0, 3.0, (40, d))
            y = np.sin(2.0 * X).sum(axis=1) + noise * rng.standard_normal(n)
            for setting in ("fit", "stream"):
                model = SparseGPRegressorPMD(
                    normalize_y=False, n_particles=1, random_state=seed, **parameters
                )
                with hearing() as heard:
                    if setting == "fit":
                        model.fit(X, y)
                    else:
                        for part in np.array_split(np.arange(n), 4):
                            model.partial_fit(X[part], y[part])
                exact = GaussianProcessRegressor(model.kernel_, optimizer=None)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    mean, sd = exact.fit(X, y).predict(at, return_std=True)
                sd = np.sqrt(np.maximum(sd**2 - model.kernel_.k2.noise_level, 1e-12))
                process = model.predict_proba(at, target="f")
                gap, ratio = np.abs(process.mean() - mean), process.std() / sd - 1.0
                own = float((gap / process.std()).max())
                yield Case(
                    "gp", setting, name, seed, not parameters, bool(parameters),
                    wrong=bool(own > OWN or ratio.min() < -WRONG_SD),
                    right=bool((gap / sd).max() <= RIGHT_MEAN and np.abs(ratio).max() <= RIGHT_SD),
                    warned=heard.warned,
                    error=max(own / OWN, float(-ratio.min()) / WRONG_SD),
                )  # fmt: skip


# ---------------------------------------------------------------------- topics
def _topics(seeds, quick):
    for K, V, length in product((3,) if quick else (3, 5, 10), (50, 200), (20, 100)):
        for seed in seeds:
            with hearing() as heard:
                share = simulated(K, V, length, 100 + seed)["coverage"]
            yield Case(
                "lda", f"{LEVEL:.0%} intervals", f"{K} topics, {V} words, length {length}", seed,
                True, True, share < COVERAGE_WRONG, share >= COVERAGE_RIGHT, heard.warned,
                (1.0 - share) / (1.0 - COVERAGE_WRONG),
            )  # fmt: skip
