"""Weights of all components of all particles by how well they predict rows left out of them.

A component's prediction of a row that it rests on is too good; the conjugate posterior without the
row's own responsibility has a closed form (`skpmd.mixture._kernels.left_out`), so no rows need be
held out. The weights maximise the log score of the average of these predictions (Yao et al. 2018,
at the level of components); expectation-maximisation multiplies each by its mean responsibility.
They are no posterior weights.
"""

import numpy as np

# Steps end after so many, or when the score gains less.
_MAX_STEPS, _TOL = 100, 1e-5
# So many rows speak for the weights at the start, so that none becomes 0.
_PRIOR_ROWS = 1.0


def stacked(log_density, weight, log_start):
    """Log weights of components.

    Parameters
    ----------
    log_density : ndarray of shape (n, c)
        Of rows under components that they have been left out of.
    weight : ndarray of shape (n,)
        How often rows count.
    log_start : ndarray of shape (c,)
        Log weights to start from, sum of exp 1.

    Returns
    -------
    ndarray of shape (c,)
        Log weights, sum of exp 1.
    """
    largest = log_density.max(axis=1, keepdims=True)
    # Responsibilities need no more than float32, and the products are bound by memory.
    density = np.exp((log_density - largest).astype(np.float32))
    start = np.exp(log_start)
    mixing, total, last = start, weight.sum(), -np.inf
    for _ in range(_MAX_STEPS):
        mixed = np.maximum(density @ mixing.astype(np.float32), 1e-30)
        score = weight @ np.log(mixed.astype(np.float64)) / total
        if score - last < _TOL:
            break
        gain = density.T @ (weight / mixed).astype(np.float32)
        mixing = (mixing * gain + _PRIOR_ROWS * start) / (total + _PRIOR_ROWS)
        mixing, last = mixing / mixing.sum(), score
    return np.log(np.maximum(mixing, 1e-300))
