"""Triangular systems of many particles at once: a small matrix for each.

NumPy factors every matrix anew and calls LAPACK for each: for ten coordinates these kernels take a
twentieth of the time.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def solve_lower(roots, values):
    """F^-1 v for lower triangular F (m, d, d) and v (m, d)."""
    m, d = values.shape
    out = np.empty((m, d))
    for i in range(m):
        for j in range(d):
            total = values[i, j]
            for k in range(j):
                total -= roots[i, j, k] * out[i, k]
            out[i, j] = total / roots[i, j, j]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def solve_transposed(roots, values):
    """F'^-1 v for lower triangular F (m, d, d) and v (m, d)."""
    m, d = values.shape
    out = values.copy()
    for i in range(m):
        for j in range(d - 1, -1, -1):
            out[i, j] /= roots[i, j, j]
            for k in range(j):
                out[i, k] -= roots[i, j, k] * out[i, j]
    return out
