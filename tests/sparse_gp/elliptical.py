"""A reference sampler: elliptical slice sampling (Murray, Adams and MacKay 2010)."""

import numpy as np
from scipy.special import log_expit


def elliptical_slice_sampling(K, sign, n_moves, seed, burn_in=5000):
    """Means and standard deviations of f given signs of rows, of a chain, the prior N(0, K)."""
    rng, n = np.random.default_rng(seed), len(K)
    L = np.linalg.cholesky(K + 1e-8 * np.mean(np.diag(K)) * np.eye(n))
    f, total, squares = np.zeros(n), np.zeros(n), np.zeros(n)
    value = log_expit(sign * f).sum()
    for move in range(-burn_in, n_moves):
        other = L @ rng.standard_normal(n)
        floor = value + np.log(rng.random())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        low, high = angle - 2.0 * np.pi, angle
        while True:
            new = f * np.cos(angle) + other * np.sin(angle)
            value = log_expit(sign * new).sum()
            if value > floor:
                break
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = rng.uniform(low, high)
        f = new
        if move >= 0:
            total += f
            squares += f * f
    mean = total / n_moves
    return mean, np.sqrt(squares / n_moves - mean**2)
