"""BLAS and LAPACK without Python's lock: the same digits as SciPy's own wrappers."""

import threading

import numpy as np
import pytest
from scipy.linalg import blas, lapack

from skpmd.sparse_gp import _blas

rng = np.random.default_rng(0)
A = rng.standard_normal((30, 40))
S = A @ A.T
L = np.linalg.cholesky(S)
B = rng.standard_normal((30, 7))


@pytest.mark.parametrize("order", ["C", "F"])
def test_solutions_and_products(order):
    a, b = np.array(L, order=order), np.array(B, order=order)
    for trans in (0, 1):
        expected = blas.dtrsm(2.0, a, b, lower=1, trans_a=trans)
        np.testing.assert_array_equal(_blas.dtrsm(2.0, a, b, trans_a=trans), expected)
    np.testing.assert_array_equal(b, B)
    np.testing.assert_array_equal(_blas.dpotrs(a, b)[0], lapack.dpotrs(a, b, lower=1)[0])
    np.testing.assert_array_equal(_blas.dsyrk(1.0, b), blas.dsyrk(1.0, b, lower=1))
    assert _blas.dtrsm(1.0, a, b[:, :0]).shape == (30, 0)


def test_factors_and_inverses():
    for matrix in (S, S - 1e4 * np.eye(30)):
        factor, info = _blas.dpotrf(matrix)
        expected, its_info = lapack.dpotrf(matrix, lower=1)
        assert info == its_info
    factor, info = _blas.dpotrf(S)
    assert info == 0
    np.testing.assert_array_equal(factor, lapack.dpotrf(S, lower=1)[0])
    inverse, info = _blas.dpotri(factor)
    np.testing.assert_array_equal(np.tril(inverse), np.tril(lapack.dpotri(factor, lower=1)[0]))
    assert info == 0


def test_python_goes_on_meanwhile():
    matrix = np.asfortranarray(np.eye(2000))
    counts = []
    thread = threading.Thread(target=lambda: counts.append(_blas.dpotrf(matrix)[1]))
    thread.start()
    gaps = 0
    while thread.is_alive():
        gaps += 1
    assert counts == [0] and gaps > 100
