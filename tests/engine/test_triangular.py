"""Kernels for triangular systems of many particles, against NumPy."""

import numpy as np
import pytest

from skpmd.engine.triangular import solve_lower, solve_transposed


@pytest.mark.parametrize("d", [1, 2, 7])
def test_systems_are_those_of_numpy(d):
    rng = np.random.default_rng(0)
    roots = np.tril(rng.standard_normal((50, d, d))) + 3.0 * np.eye(d)
    values = rng.standard_normal((50, d))
    before = values.copy()
    expected = np.linalg.solve(roots, values[..., None])[..., 0]
    np.testing.assert_allclose(solve_lower(roots, values), expected, rtol=1e-10, atol=1e-12)
    expected = np.linalg.solve(roots.swapaxes(-1, -2), values[..., None])[..., 0]
    np.testing.assert_allclose(solve_transposed(roots, values), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(values, before)


def test_a_root_without_an_inverse_gives_no_number():
    """A move to where a curvature is zero is refused, and is no error."""
    roots, values = np.zeros((1, 2, 2)), np.ones((1, 2))
    assert not np.isfinite(solve_lower(roots, values)).any()
    assert not np.isfinite(solve_transposed(roots, values)).any()
