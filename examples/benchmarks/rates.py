"""Theorem 5: with fixed particles and gamma = 1/t the error of integrals falls like m^(-1/2).

A normal mean with a normal prior, 25 rows, batches of one row drawn with replacement, m prior
particles with moving weights only (``rejuvenation="never"``, ``polish=False``), gamma_t = 1/t and
T = m steps, m over two decades. The error is that of E[tanh(theta)], bounded as the theorem asks,
against quadrature; its root mean square over repetitions is fitted by a power of m. The same m
particles weighed once by all data show the part of the error that the particles alone make.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from skpmd import ParticleMirrorDescent

from .study import Gate, pyplot

N_ROWS = 25


def run(config):
    """Root mean square errors at each m, with and without stochastic steps."""
    plan = {100: 400, 316: 250, 1000: 120, 3162: 60, 10000: 30}
    if config.quick:
        plan = {32: 200, 100: 150, 316: 80, 1000: 40}
    X = 0.4 + np.random.default_rng(0).standard_normal((N_ROWS, 1))
    exact = exact_value(X)
    rows = []
    with threadpool_limits(1):
        for m, repetitions in plan.items():
            steps = [one_error(X, exact, m, seed, polish=False) for seed in range(repetitions)]
            weighed = [one_error(X, exact, m, seed, polish=True) for seed in range(repetitions)]
            rows.append(
                {
                    "m": m,
                    "T": m // N_ROWS * N_ROWS,
                    "repetitions": repetitions,
                    "rmse_steps": float(np.sqrt(np.mean(np.square(steps)))),
                    "rmse_weighed_once": float(np.sqrt(np.mean(np.square(weighed)))),
                }
            )
    return rows


def one_error(X, exact, m, seed, polish):
    """Error of the integral estimate of one fit."""
    estimator = ParticleMirrorDescent(
        log_likelihood,
        log_prior,
        sample_prior,
        n_particles=m,
        max_iter=1 if polish else m // N_ROWS,
        batch_size=1,
        sampling="replacement",
        step_offset=0.0,
        rejuvenation="never",
        polish=polish,
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


def slope(rows, key):
    """Exponent of the fitted power of m."""
    m = [row["m"] for row in rows]
    return float(np.polyfit(np.log(m), np.log([row[key] for row in rows]), 1)[0])


def gates(rows):
    """The exponent is -0.5 within 0.1."""
    return [Gate("|slope + 0.5| of the error against m", abs(slope(rows, "rmse_steps") + 0.5), 0.1)]


def plot(rows, path):
    """Errors against m, with the fitted powers."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(5, 3.4), layout="constrained")
    m = np.array([row["m"] for row in rows], dtype=float)
    labels = {"rmse_steps": "T = m steps", "rmse_weighed_once": "weighed once by all data"}
    for key, label in labels.items():
        errors = [row[key] for row in rows]
        axis.loglog(m, errors, "o-", label=f"{label}: slope {slope(rows, key):.2f}")
    axis.loglog(m, rows[0]["rmse_steps"] * np.sqrt(m[0] / m), "k:", label="slope -1/2")
    axis.set(xlabel="particles m", ylabel="root mean square error of E[tanh]")
    axis.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)
