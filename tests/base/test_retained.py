"""The record of the rows that a stream retains, and the rule for a sample of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skpmd import SparseGPRegressorPMD
from skpmd._base.retained import RetainedRows
from skpmd.engine.model import Batch


def record(X, weight=1.0, **more):
    X = np.atleast_2d(np.asarray(X, dtype=float).T).T
    return RetainedRows(Batch(X, None, np.full(len(X), weight)), **more)


def in_parts(X, n_parts, size, factor):
    retained = None
    for some in np.array_split(X, n_parts):
        left = factor ** len(some)
        new = record(some)
        retained = new if retained is None else retained.discounted(left).joined(new)
        retained = retained.merged().sampled(size)
    return retained


@pytest.mark.parametrize("factor", [1.0, 0.99])
def test_a_sample_does_not_depend_on_the_parts(factor):
    """Of parts of one row, each is discounted by itself; those of a later part are as old there."""
    X = np.random.default_rng(0).standard_normal((240, 2))
    one, other = (in_parts(X, n_parts, 50, factor) for n_parts in (240, 120))
    assert one.n_rows == 50 and not one.complete
    if factor == 1.0:
        assert_array_equal(one.rows.X, other.rows.X)
        assert one.discount is None
        assert_array_equal(one.sampled_weight(), 1.0)
    else:
        assert len(set(one.rows.X[:, 0]) & set(other.rows.X[:, 0])) >= 45
        assert_allclose(one.sampled_weight(), 1.0)
        places = [np.flatnonzero(X[:, 0] == x)[0] for x in one.rows.X[:, 0]]
        assert np.mean(places) > 130  # Newer rows are likelier.


def test_a_row_that_comes_again_is_new():
    retained = record([1.0, 2.0]).discounted(0.5).joined(record([2.0, 3.0])).merged()
    assert_array_equal(retained.rows.X[:, 0], [1.0, 2.0, 3.0])
    assert_array_equal(retained.rows.weight, [0.5, 1.5, 1.0])
    assert_array_equal(retained.discount, [0.5, 1.0, 1.0])


def test_what_is_forgotten_is_dropped():
    retained = record([1.0, 2.0]).discounted(1e-7).joined(record([3.0])).merged().sampled(10)
    assert_array_equal(retained.rows.X, [[3.0]])
    assert retained.complete


def test_a_trifle_of_forgetting_retains_the_same_rows():
    """Before, weights of rows had a part in it as soon as there was any forgetting."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 9.0, (200, 1))
    y, weight = np.sin(X[:, 0]), np.where(rng.random(200) < 0.3, 5.0, 1.0)
    retained = []
    for forgetting in (0.0, 1e-12):
        gp = SparseGPRegressorPMD(
            RBF() + WhiteKernel(0.1), optimizer=None, approximation="vecchia", reservoir_size=50,
            forgetting=forgetting, random_state=0,
        )  # fmt: skip
        for some in np.array_split(np.arange(200), 4):
            gp.partial_fit(X[some], y[some], sample_weight=weight[some])
        retained.append(np.sort(gp._state.model.sites.X[:, 0]))
    assert_array_equal(*retained)
