"""BLAS and LAPACK as SciPy has them, called without Python's lock: SciPy's own wrappers hold it.

Names, meanings and digits are those of `scipy.linalg.blas` and `scipy.linalg.lapack`, as far as the
process needs them: lower triangles and double precision. The functions are those that SciPy lends
to Cython, which Numba calls too.
"""

import ctypes

import numpy as np
from scipy.linalg import cython_blas, cython_lapack


def _function(module, name, n_arguments):
    """A routine of Fortran, all of whose arguments are pointers; ctypes lets go of the lock."""
    capsule, api = module.__pyx_capi__[name], ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


_dtrsm, _dsyrk = _function(cython_blas, "dtrsm", 11), _function(cython_blas, "dsyrk", 10)
_dpotrf, _dpotri = _function(cython_lapack, "dpotrf", 5), _function(cython_lapack, "dpotri", 5)
_dpotrs = _function(cython_lapack, "dpotrs", 8)


def _call(routine, *arguments):
    """Call a routine with characters, whole numbers, floats and matrices in Fortran's order."""
    converted = [_converted(one) for one in arguments]  # What pointers point to must live as long.
    routine(*(pointer for _, pointer in converted))


def _converted(one):
    if isinstance(one, np.ndarray):
        return one, one.ctypes.data
    kind = {bytes: ctypes.c_char, int: ctypes.c_int, float: ctypes.c_double}[type(one)]
    value = kind(one)
    return value, ctypes.addressof(value)


def _fortran(matrix, overwrite):
    """The matrix in double precision and Fortran's order, itself if it may be overwritten."""
    make = np.asarray if overwrite else np.array
    return make(matrix, dtype=np.float64, order="F")


def dtrsm(alpha, a, b, *, trans_a=0, overwrite_b=0):
    """Solve A x = alpha b, or A' x = alpha b with ``trans_a``, by the lower triangle of A."""
    a, b = np.asfortranarray(a, dtype=np.float64), _fortran(b, overwrite_b)
    m, n = b.shape
    kind = b"T" if trans_a else b"N"
    if b.size:
        _call(_dtrsm, b"L", b"L", kind, b"N", m, n, float(alpha), a, len(a), b, m)
    return b


def dsyrk(alpha, a):
    """The lower triangle of alpha A A'."""
    a = np.asfortranarray(a, dtype=np.float64)
    n, k = a.shape
    c = np.zeros((n, n), order="F")
    _call(_dsyrk, b"L", b"N", n, k, float(alpha), a, n, 0.0, c, n)
    return c


def dpotrf(a, *, overwrite_a=0):
    """Lower Cholesky factor, zero above the diagonal, and 0 where there is one."""
    a, info = _fortran(a, overwrite_a), np.zeros(1, dtype=np.intc)
    _call(_dpotrf, b"L", len(a), a, len(a), info)
    for k in range(1, len(a)):
        a[:k, k] = 0.0
    return a, int(info[0])


def dpotrs(factor, b):
    """Solve A x = b by a lower Cholesky factor of A."""
    factor, b = np.asfortranarray(factor, dtype=np.float64), _fortran(b, False)
    info = np.zeros(1, dtype=np.intc)
    m, n = b.shape
    if b.size:
        _call(_dpotrs, b"L", m, n, factor, m, b, m, info)
    return b, int(info[0])


def dpotri(factor, *, overwrite_c=0):
    """The lower triangle of the inverse of A, by a lower Cholesky factor of A."""
    factor, info = _fortran(factor, overwrite_c), np.zeros(1, dtype=np.intc)
    _call(_dpotri, b"L", len(factor), factor, len(factor), info)
    return factor, int(info[0])
