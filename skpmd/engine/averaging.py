"""The averaged iterate of Theorem 2(b), kept in the memory of one set of particles."""

from typing import NamedTuple

import numpy as np

from skpmd.engine.particles import weights
from skpmd.engine.resampling import resample


class Average(NamedTuple):
    """Equally weighted particles of sum_t gamma_t q_t / sum_t gamma_t."""

    theta: np.ndarray  # (m, d): Particles.
    total: float  # Sum of the step sizes so far.


def include(average, particles, gamma, scheme, rng):
    """Take the iterate q_t into the average with weight gamma_t.

    Each slot is replaced by a draw from q_t with probability gamma_t / sum of gamma so far
    (the number of replaced slots is fixed by systematic rounding), so every slot is at all times
    a draw from the weighted average of the iterates: a reservoir, in the memory of one set.
    """
    w = weights(particles.log_ratio)
    m = len(particles.theta)
    if average is None:
        return Average(particles.theta[resample(scheme, w, m, rng)], gamma)
    theta, total = average.theta, average.total + gamma
    if len(theta) != m:  # Where the particles grow in number the average grows with them.
        theta = theta[rng.integers(len(theta), size=m)]
    n = int(np.floor(m * gamma / total + rng.random()))
    if n:
        theta = theta.copy()
        slots = rng.choice(m, n, replace=False)
        theta[slots] = particles.theta[resample(scheme, w, n, rng)]
    return Average(theta, total)
