"""Theorem 5: errors of an integral under particles that stay where the prior put them.

A normal mean with a normal prior, 25 rows, batches of one row drawn with replacement, m prior
particles with moving weights only (``rejuvenation="never"``, ``reweight=False``), gamma_t = 1/t and
T = m steps. The error is that of E[tanh(theta)], bounded as the theorem requires, against
quadrature.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpmd import ParticleMirrorDescent

N_ROWS = 25
PLAN = {100: 400, 316: 250, 1000: 120, 3162: 60, 10000: 30}  # particles: repetitions
QUICK = {32: 150, 100: 100, 316: 40, 1000: 20}


def measured(quick):
    """Root mean square errors at each m, with and without stochastic steps."""
    X = 0.4 + np.random.default_rng(0).standard_normal((N_ROWS, 1))
    exact = exact_value(X)
    for m, repetitions in (QUICK if quick else PLAN).items():
        steps = [one_error(X, exact, m, seed, reweight=False) for seed in range(repetitions)]
        weights = [one_error(X, exact, m, seed, reweight=True) for seed in range(repetitions)]
        yield {
            "part": "theorem 5",
            "m": m,
            "T": m // N_ROWS * N_ROWS,
            "repetitions": repetitions,
            "rmse_steps": float(np.sqrt(np.mean(np.square(steps)))),
            "rmse_reweighted": float(np.sqrt(np.mean(np.square(weights)))),
        }


def one_error(X, exact, m, seed, reweight):
    """Error of the integral estimate of one fit."""
    estimator = ParticleMirrorDescent(
        log_likelihood,
        log_prior,
        sample_prior,
        proposal="prior",
        n_particles=m,
        max_iter=1 if reweight else m // N_ROWS,
        batch_size=1,
        sampling="replacement",
        step_offset=0.0,
        rejuvenation="never",
        reweight=reweight,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few effective particles, as meant
        posterior = estimator.fit(X).posterior_
    return posterior.expectation(lambda theta: np.tanh(theta[:, 0])) - exact


def log_likelihood(theta, X, y):
    """Log-likelihood of rows N(theta, 1)."""
    squared = ((X[:, 0] - theta) ** 2).sum(axis=1)
    return -0.5 * squared - 0.5 * len(X) * np.log(2 * np.pi)


def log_prior(theta):
    """Log density of N(0, 1)."""
    return -0.5 * theta[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)


def sample_prior(rng, m):
    """Draw from N(0, 1)."""
    return rng.standard_normal((m, 1))


def exact_value(X):
    """E[tanh(theta)] under the conjugate posterior, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    variance = 1.0 / (1.0 + len(X))
    values = np.tanh(variance * X.sum() + np.sqrt(variance) * nodes)
    return weights @ values / weights.sum()
