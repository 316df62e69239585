"""Leave-one-out densities of six models, against fits without the row.

Both have Monte Carlo errors, which `loo` states (mcse). Draws are antithetic and spread evenly, so
that most errors are smaller than those of independent draws.
"""

import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from skpmd import BayesianLogisticRegressionPMD, GaussianMixturePMD, ParticleMirrorDescent
from skpmd.model_comparison import loo

N_ROWS = 50


def _linear(theta, X):
    return theta[:, : X.shape[1]] @ X.T


def _rows(seed, n=120, d=2):
    rng = np.random.default_rng(seed)
    return rng, np.column_stack([np.ones(n), rng.normal(size=(n, d))])


def _student(rng, X):
    def of(theta, X, y):
        return stats.t.logpdf(y, theta[:, -1:], _linear(theta, X), theta[:, -2:-1])

    y = X @ [0.1, 0.9, 0.0] + 0.6 * rng.standard_t(3, size=len(X))
    prior = {"b": stats.norm(np.zeros(3), 3.0), "s": stats.halfnorm(scale=2.0)}
    return of, prior | {"nu": stats.gamma(2.0, scale=5.0)}, y


def _negative_binomial(rng, X):
    def of(theta, X, y):
        mean = np.exp(np.clip(_linear(theta, X), -30.0, 30.0))
        return stats.nbinom.logpmf(y, theta[:, -1:], theta[:, -1:] / (theta[:, -1:] + mean))

    mean = np.exp(X @ [1.2, -0.3, 0.4])
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + mean))
    return of, {"b": stats.norm(np.zeros(3), 2.0), "r": stats.halfnorm(scale=8.0)}, y


def _window(rng, X):
    """Rows are impossible outside a window: many particles have no weight."""

    def of(theta, X, y):
        inside = np.abs(y - theta[:, :1]) < theta[:, 1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            height = 0.75 * (1.0 - ((y - theta[:, :1]) / theta[:, 1:]) ** 2) / theta[:, 1:]
            return np.where(inside, np.log(np.where(inside, height, 1.0)), -np.inf)

    y = 0.7 + 2.0 * (2.0 * rng.beta(2.0, 2.0, len(X)) - 1.0)
    return of, {"c": stats.norm(0.0, 3.0), "w": stats.halfnorm(scale=6.0)}, y


OWN = {
    "Student": _student,
    "negative binomial": _negative_binomial,
    "window": _window,
}


def _of_logistic(seed, n_classes, scale):
    rng, X = _rows(seed)
    logits = X[:, 1:] @ rng.normal(size=(2, n_classes)) * 1.5
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    model = BayesianLogisticRegressionPMD(prior_scale=scale, n_particles=2000, random_state=0)
    return model, X[:, 1:], y


def _of_mixture():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(size=(70, 1)), rng.normal(6.0, 1.5, size=(50, 1))])
    model = GaussianMixturePMD(2, strategy="parameters", n_particles=1000, random_state=0)
    return model, rng.permutation(X), np.zeros(120)


def _of_own(name):
    rng, X = _rows(sorted(OWN).index(name))
    function, prior, y = OWN[name](rng, X)
    model = ParticleMirrorDescent(
        log_likelihood_pointwise=function, prior=prior, n_particles=2000, random_state=0
    )
    return model, X, y


MODELS = {
    **{name: lambda name=name: _of_own(name) for name in OWN},
    "two classes": lambda: _of_logistic(1, 2, 2.5),
    "three classes": lambda: _of_logistic(2, 3, 1.0),
    "mixture": lambda: _of_mixture(),
}


def _density(model, X, y):
    """Log density of new rows by a fit, and its Monte Carlo error, (n,) each."""
    posterior = model.posterior_
    alive = posterior.weights > 0.0
    table, w = model.pointwise_log_likelihood(X, y)[alive], posterior.weights[alive]
    density = logsumexp(table, axis=0, b=w[:, None])
    return density, np.sqrt(w**2 @ np.expm1(table - density) ** 2)


def _against_refits(name, places):
    """Differences of some rows from fits without them, and those in standard errors."""
    model, X, y = MODELS[name]()
    found = loo(model.fit(X, y), X, y)
    assert found.n_bad == 0
    gap, error = [], []
    for i in places:
        rest = np.delete(np.arange(len(y)), i)
        other = type(model)(**model.get_params()).set_params(random_state=1 + i)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            density, its_error = _density(other.fit(X[rest], y[rest]), X[[i]], y[[i]])
        gap.append(found.pointwise[i] - density[0])
        error.append(np.hypot(found.mcse[i], its_error[0]))
    return np.array(gap), np.array(gap) / np.array(error)


@pytest.mark.slow_but("two classes")
@pytest.mark.parametrize("name", ["negative binomial", "window", "two classes"])
def test_the_rows_that_are_hardest_to_leave_out(name):
    # Four standard errors: a row in 16,000 is beyond by chance.
    model, X, y = MODELS[name]()
    hardest = np.argsort(loo(model.fit(X, y), X, y).pointwise)[:2]
    _, z = _against_refits(name, hardest)
    assert np.abs(z).max() < 4.0


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_fifty_rows_of_each_model(name):
    gap, z = _against_refits(name, np.arange(N_ROWS))
    assert (np.abs(z) < 2.0).mean() > 0.85  # Nineteen of twenty are, of 50: 3.3 standard errors.
    assert np.abs(z).max() < 4.5
    assert np.abs(gap).max() < 0.2
