"""Kernels for triangular systems of many particles, against NumPy."""

import numpy as np
import pytest

from skpmd.engine.triangular import ends_of, solve_lower, solve_transposed, times_transposed


@pytest.mark.parametrize("d", [1, 2, 7])
def test_systems_are_those_of_numpy(d):
    rng = np.random.default_rng(0)
    first = np.minimum(np.arange(d), np.array([0, 0, 2, 1, 3, 5, 2])[:d])
    i, j = np.tril_indices(d)
    roots = np.tril(rng.standard_normal((50, d, d))) + 3.0 * np.eye(d)
    roots[:, i, j] *= j >= first[i]
    packed = roots[:, i, j][:, j >= first[i]]
    np.testing.assert_array_equal(packed[:, ends_of(first) - 1], roots[:, range(d), range(d)])
    values = rng.standard_normal((50, d))
    before = values.copy()
    expected = np.linalg.solve(roots, values[..., None])[..., 0]
    np.testing.assert_allclose(solve_lower(packed, first, values), expected, rtol=1e-10, atol=1e-12)
    expected = np.linalg.solve(roots.swapaxes(-1, -2), values[..., None])[..., 0]
    found = solve_transposed(packed, first, values)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    found = times_transposed(packed, first, values)
    np.testing.assert_allclose(found, np.einsum("mji,mj->mi", roots, values), atol=1e-12)
    np.testing.assert_array_equal(values, before)


def test_a_root_without_an_inverse_gives_no_number():
    """A move to where a curvature is zero is refused, and is no error."""
    roots, first, values = np.zeros((1, 3)), np.zeros(2, dtype=np.int64), np.ones((1, 2))
    assert not np.isfinite(solve_lower(roots, first, values)).any()
    assert not np.isfinite(solve_transposed(roots, first, values)).any()
