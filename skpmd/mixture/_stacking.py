"""Weights of all components of all particles by how well they predict rows left out of them.

A component's prediction of a row that it has learnt is too good; the conjugate posterior without
the row's own share has a closed form (`skpmd.mixture._kernels.left_out`), so no rows need be
held out. The weights maximise the log score of the average of these predictions (Yao et al. 2018,
at the level of components); expectation-maximisation multiplies each by its mean responsibility.
They are no posterior weights.
"""

import numpy as np

_STEPS, _TOL = 100, 1e-5
_PRIOR_ROWS = 1.0  # that speak for the weights at the start: none then becomes 0


def stacked(log_density, weight, log_start):
    """Log weights of components.

    Parameters
    ----------
    log_density : ndarray of shape (n, c)
        Of rows under components that do not know them.
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
    # Shares of a row need no more than float32, and the products are bound by memory.
    density = np.exp((log_density - largest).astype(np.float32))
    start = np.exp(log_start)
    shares, total, last = start, weight.sum(), -np.inf
    for _ in range(_STEPS):
        mixed = np.maximum(density @ shares.astype(np.float32), 1e-30)
        score = weight @ np.log(mixed.astype(np.float64)) / total
        if score - last < _TOL:
            break
        gain = density.T @ (weight / mixed).astype(np.float32)
        shares = (shares * gain + _PRIOR_ROWS * start) / (total + _PRIOR_ROWS)
        shares, last = shares / shares.sum(), score
    return np.log(np.maximum(shares, 1e-300))
