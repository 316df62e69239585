"""Theorems 3 and 5: errors of an integral under particles that stay where the prior put them.

Theorem 5: a normal mean with a normal prior, 25 rows, batches of one row drawn with replacement, m
prior particles with moving weights only (``rejuvenation="never"``, ``reweight=False``),
gamma_t = 1/t and T = m steps. The error is that of E[tanh(theta)], bounded as the theorem requires,
against quadrature.

Theorem 3: one step of the engine from N(0, I) in d dimensions, whose gradient and whose integral
tanh depend on the sum of all coordinates over sqrt(d), so that the constant C of the theorem is the
same in all d.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpmd import ParticleMirrorDescent
from skpmd.custom._model import CustomModel
from skpmd.engine.mirror import Settings, step
from skpmd.engine.model import Batch
from skpmd.engine.particles import draw_prior, weights

from .theory_slopes import fitted

N_ROWS = 25
PLAN = {100: 600, 316: 400, 1000: 200, 3162: 60, 10000: 20}  # particles: repetitions
QUICK = {32: 150, 100: 100, 316: 40, 1000: 20}
DIMENSIONS, SIZES, REPETITIONS = (1, 4, 16, 64), (100, 316, 1000, 3162), 400
QUICK_STEP = (1, 16), (100, 316, 1000), 100
STEP, ROW = 2.0, 1.5  # the power of the likelihood, and its one row


# ---------------------------------------------------------------------- Theorem 5
def measured(quick):
    """Errors at each m, with and without stochastic steps, and their slope."""
    X = 0.4 + np.random.default_rng(0).standard_normal((N_ROWS, 1))
    exact, plan, found = exact_value(X), QUICK if quick else PLAN, []
    for m, repetitions in plan.items():
        steps, once = (
            np.abs([one_error(X, exact, m, seed, reweight) for seed in range(repetitions)])
            for reweight in (False, True)
        )
        found.append(steps)
        yield {
            "part": "theorem 5",
            "m": m,
            "T": m // N_ROWS * N_ROWS,
            "repetitions": repetitions,
            "error_steps": float(steps.mean()),
            "error_reweighted": float(once.mean()),
        }
    yield fitted("theorem 5", list(plan), found, -0.5, "equal")


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
    variance = 1.0 / (1.0 + len(X))
    return mean_of_tanh(variance * X.sum(), variance)


def mean_of_tanh(mean, variance):
    """E[tanh(z)] of a normal z."""
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(100)
    return node_weights @ np.tanh(mean + np.sqrt(variance) * nodes) / node_weights.sum()


# ---------------------------------------------------------------------- Theorem 3
def one_step_integrals(quick):
    """Errors of one step by d and m, their slopes in m, and that in d at the largest m."""
    dimensions, sizes, repetitions = QUICK_STEP if quick else (DIMENSIONS, SIZES, REPETITIONS)
    ends = []
    for d in dimensions:
        errors = [[one_step_error(d, m, seed) for seed in range(repetitions)] for m in sizes]
        for m, own in zip(sizes, errors, strict=True):
            yield {"part": "theorem 3", "d": d, "m": m, "error": float(np.mean(own))}
        yield fitted(f"theorem 3, d = {d}", sizes, errors, -0.5, "equal")
        ends.append(errors[-1])
    yield fitted("theorem 3, in d", dimensions, ends, 0.0, "equal")


def one_step_error(d, m, seed):
    """Absolute error of the integral after one step of the engine."""

    def along(theta):
        return theta.sum(axis=1) / np.sqrt(d)

    model = CustomModel(
        lambda theta, X, y: -0.5 * (X[0, 0] - along(theta)) ** 2,
        lambda theta: -0.5 * (theta**2).sum(axis=1),
        lambda rng, m: rng.standard_normal((m, d)),
        weighted=False,
    )
    rng = np.random.default_rng([seed, d])
    batch = Batch(np.full((1, 1), ROW), None, np.ones(1))
    particles = draw_prior(model, m, rng)
    moved, _ = step(particles, model, (batch,), 1.0, STEP, Settings(rejuvenation="never"), rng)
    variance = 1.0 / (1.0 + STEP)
    exact = mean_of_tanh(variance * STEP * ROW, variance)
    return abs(weights(moved.log_ratio) @ np.tanh(along(moved.theta)) - exact)
