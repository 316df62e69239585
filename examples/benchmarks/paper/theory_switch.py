"""Section 3.3: few particles by kernels first, then many by weights alone.

A normal mean in three dimensions: 1000 rows N(theta, I), prior N(0, 25 I), batches of 100 rows,
steps of 2 / (t + 1), five passes. ``kernels`` draws the particles anew from their kernel density
estimate when too few of them count, which costs m^2; ``weights`` moves the weights of draws of the
prior, which costs m, and of which hardly one is near the posterior; ``switch`` takes the first pass
by kernels with 300 particles, draws many from the estimate that it ends with, and goes on with
their weights.

The error is that of E[tanh z] and E[tanh^2 z] for each coordinate z, standardised, absolute, and
against the exact outcome of the same steps on the same batches, which is normal: what stochastic
gradients leave is the same for all.
"""

import numpy as np

from skpmd.custom._model import CustomModel
from skpmd.engine.mirror import Settings, step
from skpmd.engine.model import Batch
from skpmd.engine.particles import draw_prior, weights
from skpmd.engine.rejuvenation import rejuvenate_by_kernels

from ..harness.timing import cpu_clock

D, N_ROWS, PRIOR_SD = 3, 1000, 5.0
PASSES, BATCH = 5, 100
SHOWN = (10, 12, 15, 20, 30, 50)  # steps, of which ten are a pass
SEEDS, FEW = 20, 300
SIZES = {
    "kernels": (300, 1000, 3000, 10_000),
    "weights": (10_000, 100_000),
    "switch": (1000, 10_000, 100_000),
}
QUICK_SEEDS, QUICK_SIZES = 3, {"kernels": (300,), "weights": (1000,), "switch": (1000, 10_000)}
KERNELS, WEIGHTS = Settings(), Settings(rejuvenation="never")
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
SQUARE = NODE_WEIGHTS @ np.tanh(NODES) ** 2 / NODE_WEIGHTS.sum()  # E[tanh^2 z]


def measured(quick):
    """Errors and CPU seconds of each way at some points, means over data sets."""
    seeds, sizes = (QUICK_SEEDS, QUICK_SIZES) if quick else (SEEDS, SIZES)
    found = {}
    for way, several in sizes.items():
        for m in several:
            for seed in range(seeds):
                for t, cpu, error in run(way, m, seed):
                    found.setdefault((way, m, t), []).append((cpu, error))
    for (way, m, t), own in found.items():
        cpu, error = np.mean(own, axis=0)
        row = {"part": "section 3.3", "way": way, "m": m, "steps": t, "cpu_s": float(cpu)}
        spread = np.std([e for _, e in own], ddof=1) / np.sqrt(seeds)
        yield {**row, "error": float(error), "standard_error": float(spread)}


def run(way, m, seed):
    """Yield (steps, CPU seconds, error) of one run."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(D) + rng.standard_normal((N_ROWS, D))
    model = CustomModel(log_likelihood, log_prior, sample_prior, weighted=False)
    settings = WEIGHTS if way == "weights" else KERNELS
    particles = draw_prior(model, FEW if way == "switch" else m, rng)
    per_pass, scale, cpu = N_ROWS // BATCH, N_ROWS / BATCH, 0.0
    linear, precision = np.zeros(D), PRIOR_SD**-2  # of the exact outcome
    for t in range(1, PASSES * per_pass + 1):
        if (t - 1) % per_pass == 0:
            order = rng.permutation(N_ROWS).reshape(-1, BATCH)
        rows, gamma = X[order[(t - 1) % per_pass]], 2.0 / (t + 1.0)
        linear = (1.0 - gamma) * linear + gamma * scale * rows.sum(axis=0)
        precision = (1.0 - gamma) * precision + gamma * (PRIOR_SD**-2 + N_ROWS)
        batch = Batch(rows, None, np.ones(BATCH))
        with cpu_clock() as clock:
            if way == "switch" and t == per_pass + 1:
                particles = rejuvenate_by_kernels(
                    particles, model, KERNELS, rng, n_particles=m
                ).particles
                settings = WEIGHTS
            particles, _ = step(particles, model, (batch,), gamma, gamma * scale, settings, rng)
        cpu += clock.cpu
        if t in SHOWN:
            yield t, cpu, error_of(particles, linear / precision, precision**-0.5)


def error_of(particles, mean, sd):
    """Mean absolute error of the integrals of a normal."""
    values = np.tanh((particles.theta - mean) / sd)
    share = weights(particles.log_ratio)
    gaps = np.concatenate([share @ values, share @ values**2 - SQUARE])
    return float(np.abs(gaps).mean())


def log_likelihood(theta, X, y):
    """Of rows N(theta, I), up to a constant of each batch."""
    return theta @ X.sum(axis=0) - 0.5 * len(X) * (theta**2).sum(axis=1)


def log_prior(theta):
    """Log density of N(0, 25 I)."""
    return -0.5 * (theta**2).sum(axis=1) / PRIOR_SD**2 - D * np.log(PRIOR_SD * np.sqrt(2.0 * np.pi))


def sample_prior(rng, m):
    """Draw from N(0, 25 I)."""
    return PRIOR_SD * rng.standard_normal((m, D))
