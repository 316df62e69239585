"""Table 1: what one iteration costs in time and in memory, by the number of particles.

The engine's own step, and its own rejuvenation with the paper's bandwidth: under the default rule
the estimate of unimodal particles is a single normal, which costs nothing quadratic.
"""

import tracemalloc

import numpy as np

from skpmd.custom._model import CustomModel
from skpmd.engine.mirror import Settings, step
from skpmd.engine.model import Batch
from skpmd.engine.particles import draw_prior
from skpmd.engine.rejuvenation import rejuvenate_by_kernels

from ..harness.timing import cpu_clock

D, N_ROWS, SMALL = 20, 100, 0.01  # SMALL: a step that leaves all particles alive
SIZES = {
    "weights": (64000, 128000, 256000, 512000),  # beyond the cache at all of them
    "rejuvenation": (4000, 8000, 16000, 32000),
}
QUICK_SIZES = {"weights": (64000, 128000, 256000), "rejuvenation": (4000, 8000, 16000)}
REPEATS = {"weights": 12, "rejuvenation": 2}
FIXED = Settings(rejuvenation="never")
PAPER = Settings(bandwidth="theorem", shrinkage=False)


def measured(quick):
    """CPU seconds, the least of several repeats, and peak memory of each task at each m."""
    model, batch = regression()
    for task, sizes in (QUICK_SIZES if quick else SIZES).items():
        for m in sizes:
            one_iteration = iteration(task, model, batch, m)
            one_iteration()  # compiles, and touches the memory first
            seconds = min(timed(one_iteration) for _ in range(REPEATS[task]))
            yield {
                "part": "table 1",
                "task": task,
                "m": m,
                "cpu_s": seconds,
                "peak_mb": peak_memory(one_iteration) / 1e6,
            }


def regression():
    """Linear regression with a normal prior: the likelihood of a batch costs n m d."""
    X = np.random.default_rng(0).standard_normal((N_ROWS, D))
    y = X.sum(axis=1)

    def log_likelihood(theta, X, y):
        return -0.5 * ((y - theta @ X.T) ** 2).sum(axis=1)

    def log_prior(theta):
        return -0.5 * (theta**2).sum(axis=1)

    def sample_prior(rng, m):
        return rng.standard_normal((m, D))

    model = CustomModel(log_likelihood, log_prior, sample_prior, weighted=False)
    return model, Batch(X, y, np.ones(N_ROWS))


def iteration(task, model, batch, m):
    """A step that moves the weights of m particles, or a rejuvenation of m weighted ones."""
    rng = np.random.default_rng(0)
    particles = draw_prior(model, m, rng)

    def reweight():
        return step(particles, model, (batch,), SMALL, SMALL, FIXED, rng)

    if task == "weights":
        return reweight
    weighted, _ = reweight()
    return lambda: rejuvenate_by_kernels(weighted, model, PAPER, rng)


def timed(function):
    """CPU seconds of one call."""
    with cpu_clock() as clock:
        function()
    return clock.cpu


def peak_memory(function):
    """Most bytes that live at once during one call, beyond what lived before it."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
