"""The study ``price``: references that look at all rows, and gates that see what they are for."""

from unittest import mock

import numpy as np
import pytest

pytest.importorskip("examples.benchmarks.harness.study", reason="examples are not installed")
from examples.benchmarks.linear import price  # noqa: E402

ERROR = {"kind": "error", "shape": "plain", "by": "sample", "reference_by": "all", "warned": None,
         "max_mean_error": 0.01, "max_sd_error": 0.01, "evidence_gap": -0.01,
         "evidence_se": 0.01}  # fmt: skip
PRICE = {"kind": "price", "family": "two classes", "rows": 1_000_000, "d": 20, "ratio": 3.0}


def missed(*rows):
    """Names of the gates that are not met."""
    return [gate.name for gate in price.gates(rows) if not gate.met]


def test_references_are_made_of_all_rows_and_kept(tmp_path):
    X, y = price.drawn(price.plain, 20_000, 2)
    path = tmp_path / "plain.npz"
    made = price.truth(price.plain, X, y, path, 1000)
    assert made.by == "all"
    model, _, _ = price.fitted(price.plain, X, y, n_particles=1000, random_state=99)
    assert price.weighed_by(model) == "sample"
    assert price.rows_weighed(model) < len(X) / 4
    # The same draws, but for the weights: no more than what these are known to.
    np.testing.assert_allclose(made.mean, price.moments(model)[0], atol=0.1 * made.sd.min())
    with mock.patch.object(price, "fitted", side_effect=AssertionError):
        kept = price.truth(price.plain, X, y, path, 1000)
    np.testing.assert_array_equal(kept.mean, made.mean)
    other = price.drawn(price.plain, 20_001, 2)
    with (
        mock.patch.object(price, "fitted", side_effect=AssertionError),
        pytest.raises(AssertionError),
    ):
        price.truth(price.plain, *other, path, 1000)


@pytest.mark.parametrize("name", price.SHAPES)
def test_shapes_are_what_they_are_called(name):
    X, y = price.drawn(price.SHAPES[name], 100_000, 5)
    if name != "counts":
        assert set(y) == {0, 1}
    sds, known = X.std(axis=0), {
        "heavy": lambda: np.abs(X).max() > 100.0,
        "dummies": lambda: (
            set(X.sum(axis=1)) == {0.0, 1.0} and 5 <= X[:, -1].sum() <= 20 and X[:, 0].mean() > 0.09
        ),
        "units": lambda: np.allclose(sds, np.logspace(-6, 6, 5), rtol=0.02),
        "rare": lambda: 3 <= y.sum() <= 30,
        "outliers": lambda: (np.abs(X).max(axis=1) > 100.0).sum() == 5,
    }  # fmt: skip
    assert known.get(name, lambda: True)()


def test_gates_see_prices_past_their_bounds():
    assert not missed(PRICE, ERROR)
    wide = {**PRICE, "d": 50, "ratio": 4.5}
    assert not missed(PRICE, wide, ERROR)
    name = "two classes, 1,000,000 rows: CPU over scikit-learn's"
    assert missed({**PRICE, "ratio": 4.5}, wide, ERROR) == [name]
    assert len(missed(PRICE, {**wide, "ratio": 5.1}, ERROR)) == 1
    assert len(missed({**PRICE, "family": "five classes", "ratio": 11.0}, ERROR)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"max_mean_error": 0.03},
        {"max_sd_error": float("nan")},
        {"evidence_gap": 0.05},
        {"by": "moves", "max_sd_error": 0.2},
        {"warned": "ConvergenceWarning"},
        {"shape": "outliers", "evidence_gap": 1.0},
    ],
)
def test_each_error_has_a_gate(change):
    assert len(missed(ERROR, {**ERROR, **change})) == 1


def test_moves_have_wider_bounds_and_rows_far_away_may_have_warnings():
    moved = {**ERROR, "by": "moves", "max_mean_error": 0.05, "evidence_gap": None}
    far = {**ERROR, "shape": "outliers", "warned": "ConvergenceWarning", "max_sd_error": 1.0}
    assert not missed(ERROR, moved, far)
