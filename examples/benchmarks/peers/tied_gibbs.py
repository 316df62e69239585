"""Gibbs sampler of the paper's tied mixture, by data augmentation.

x ~ N(theta1, sigma^2) / 2 + N(theta1 + theta2, sigma^2) / 2, theta ~ N(0, I). Given theta, each
row's component is a Bernoulli draw; given the components, x = theta1 + z theta2 + noise is a linear
model, and theta is Gaussian (Diebolt and Robert 1994). One scan reads every row. The density of the
posterior is the average of these Gaussians (Rao-Blackwell; Gelfand and Smith 1990).
"""

import math
from functools import partial

import numba
import numpy as np
from scipy.special import logsumexp

from .problem import Clock, Snapshot, Thinned, marks


def tied_gibbs(
    problem, X, y, *, n_particles, seed, passes, max_cpu=np.inf, sigma, burn_in=50, n_chains=1,
    n_snapshots=6,
):  # fmt: skip
    """Yield snapshots; see `problem`.

    ``passes`` are the scans of each chain, ``burn_in`` those before its draws are kept. Chains
    start from draws of the prior and share ``n_particles`` evenly.
    """
    rng, clock = np.random.default_rng(seed), Clock()
    x = np.ascontiguousarray(X[:, 0], dtype=np.float64)
    theta = problem.sample_prior(rng, n_chains)
    shapes = (n_chains, len(x)), (n_chains, 2)
    scan(x, theta.copy(), sigma, np.zeros(shapes[0]), np.zeros(shapes[1]))  # compiles
    shown = marks(burn_in + 2, passes, n_snapshots)
    kept = Thinned(n_particles, n_chains)
    for number in range(1, passes + 1):
        with clock:
            given = scan(x, theta, sigma, rng.random(shapes[0]), rng.standard_normal(shapes[1]))
            if number > burn_in:
                kept.extend(np.concatenate([theta, given], axis=1)[None])
        if number in shown:
            taken, _ = kept.take()
            density = partial(log_density, given=taken[:, 2:])
            yield Snapshot(clock.cpu, number * len(x), taken[:, :2], np.zeros(len(taken)), density)
            if clock.cpu > max_cpu:
                return


@numba.njit
def scan(x, theta, sigma, uniform, normal):
    """Move every chain one scan on, in place; noise is (n_chains, n) and (n_chains, 2).

    Returns the Gaussian that each drew from, (n_chains, 5): its mean, and the factor L of its
    precision as l11, l21, l22.
    """
    variance, total = sigma * sigma, x.sum()
    given = np.empty((len(theta), 5))
    for chain in range(len(theta)):
        first, shift = theta[chain, 0], theta[chain, 1]
        n_second, second_sum = 0, 0.0
        for row in range(len(x)):
            odds = shift * (x[row] - first - 0.5 * shift) / variance  # log, of the second
            if uniform[chain, row] * (1.0 + math.exp(-odds)) < 1.0:
                n_second += 1
                second_sum += x[row]
        # Posterior precision [[a, b], [b, c]] = L L'; L u = right-hand side, L' theta = u + noise.
        a, b = 1.0 + len(x) / variance, n_second / variance
        l11 = math.sqrt(a)
        l21 = b / l11
        l22 = math.sqrt(1.0 + b - l21 * l21)
        u = total / variance / l11
        v = (second_sum / variance - l21 * u) / l22
        theta[chain, 1] = (v + normal[chain, 1]) / l22
        theta[chain, 0] = (u + normal[chain, 0] - l21 * theta[chain, 1]) / l11
        second = v / l22
        given[chain] = (u - l21 * second) / l11, second, l11, l21, l22
    return given


def log_density(theta, given, block=2000):
    """Log density of the average of Gaussians at theta (k, 2)."""
    mean, (l11, l21, l22) = given[:, :2], given[:, 2:].T
    constant = np.log(l11) + np.log(l22) - np.log(2.0 * np.pi) - np.log(len(given))
    found = []
    for start in range(0, len(theta), block):
        first, second = (theta[start : start + block, None] - mean).transpose(2, 0, 1)
        squared = (l11 * first + l21 * second) ** 2 + (l22 * second) ** 2
        found.append(logsumexp(constant - 0.5 * squared, axis=1))
    return np.concatenate(found)
