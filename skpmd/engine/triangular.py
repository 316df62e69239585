"""Triangular systems of many particles at once: a small sparse matrix for each.

NumPy factors every matrix anew and calls LAPACK for each: for ten coordinates these kernels take a
twentieth of the time. Matrices F (d, d) are lower triangular, and row j begins at the column
``first[j]``, for coordinates that go together in small blocks. Entries lie row by row in an array
``roots`` of shape (m, q), the diagonal one last in its row: memory that is not read costs no time.
"""

import numpy as np
from numba import njit


def ends_of(first):
    """Where each row of the packed matrices ends, shape (d,)."""
    return np.cumsum(np.arange(len(first)) - first + 1)


@njit(cache=True, nogil=True, no_cfunc_wrapper=True, error_model="numpy")
def solve_lower(roots, first, values):
    """F^-1 v for vectors v (m, d)."""
    m, d = values.shape
    out = np.empty((m, d))
    for i in range(m):
        at = 0
        for j in range(d):
            total = values[i, j]
            for k in range(first[j], j):
                total -= roots[i, at] * out[i, k]
                at += 1
            out[i, j] = total / roots[i, at]
            at += 1
    return out


@njit(cache=True, nogil=True, no_cfunc_wrapper=True, error_model="numpy")
def solve_transposed(roots, first, values):
    """F'^-1 v for vectors v (m, d)."""
    m, d = values.shape
    out = values.copy()
    for i in range(m):
        at = roots.shape[1] - 1
        for j in range(d - 1, -1, -1):
            out[i, j] /= roots[i, at]
            at -= 1
            for k in range(j - 1, first[j] - 1, -1):
                out[i, k] -= roots[i, at] * out[i, j]
                at -= 1
    return out


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def times_transposed(roots, first, values):
    """F' v for vectors v (m, d)."""
    m, d = values.shape
    out = np.zeros((m, d))
    for i in range(m):
        at = 0
        for j in range(d):
            for k in range(first[j], j + 1):
                out[i, k] += roots[i, at] * values[i, j]
                at += 1
    return out
