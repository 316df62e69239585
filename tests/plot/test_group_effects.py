"""Caterpillar plots against the effects of a fit."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpmd import BayesianGLMRegressorPMD
from skpmd.plot import GroupEffectsDisplay
from tests.plot.displays import classifier, groups
from tests.plot.test_intervals import drawn


def test_groups_are_sorted_by_their_means():
    effects, display = groups().group_effects_, GroupEffectsDisplay.from_estimator(groups())
    order = np.argsort(-effects.mean[:, 0])
    names = [str(float(g)) for g in effects.labels[order]]
    assert [one.get_text() for one in display.ax_.get_yticklabels()] == names
    np.testing.assert_array_equal(display.points_.get_xdata(), effects.mean[order, 0])
    bottom, top = display.ax_.get_ylim()
    assert bottom > top  # Row 0 is the highest.
    for lines, level in ((display.inner_lines_, 0.5), (display.outer_lines_, 0.9)):
        np.testing.assert_array_equal(drawn(lines)[0], effects.interval(level)[order, 0])
    assert display.ax_.get_xlabel().startswith("intercept of x1, units of y\nposterior mean")


def test_effects_of_slopes_are_per_unit_of_the_column():
    display = GroupEffectsDisplay.from_estimator(groups(), effect="x0", levels=(0.2, 0.4))
    effects = groups().group_effects_
    np.testing.assert_array_equal(np.sort(display.center), np.sort(effects.mean[:, 1]))
    label = display.ax_.get_xlabel()
    assert label.startswith("x0 of x1, units of y per unit of x0") and "40 %" in label


@pytest.mark.parametrize("n", [1, 4, 5])
def test_of_many_groups_both_ends_are_drawn(n):
    display = GroupEffectsDisplay.from_estimator(groups(), max_rows=n)
    mean = np.sort(groups().group_effects_.mean[:, 0])[::-1]
    shown = np.append(mean[: (n + 1) // 2], mean[9 - n // 2 :])
    np.testing.assert_array_equal(display.center, shown)
    assert display.ax_.get_title() == f"{n} of 9 groups: {9 - n} are not shown"


def test_what_has_no_groups_is_refused():
    with pytest.raises(TypeError, match="has no group_effects_ to draw: fit it with groups"):
        GroupEffectsDisplay.from_estimator(classifier())
    with pytest.raises(ValueError, match="effect must be a place or a name"):
        GroupEffectsDisplay.from_estimator(groups(), effect="hours")
    with pytest.raises(ValueError, match="max_rows"):
        GroupEffectsDisplay.from_estimator(groups(), max_rows=0)


def test_pipelines_are_looked_into():
    X = np.column_stack([np.arange(12.0), np.repeat([0.0, 1.0, 2.0], 4)])
    model = make_pipeline(FunctionTransformer(), type(groups())(groups=[1], random_state=0))
    display = GroupEffectsDisplay.from_estimator(model.fit(X, X[:, 1] + np.sin(X[:, 0])))
    assert sorted(display.names) == ["0.0", "1.0", "2.0"]


def test_of_several_factors_one_is_drawn():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 6, 60), rng.integers(0, 3, 60)])
    y = X[:, 0] + X[:, 1] + rng.normal(size=60)
    model = BayesianGLMRegressorPMD(groups=[1, 2], random_state=0).fit(X, y)
    display = GroupEffectsDisplay.from_estimator(model, effect="x2")
    effects = model.group_effects_["x2"]
    np.testing.assert_array_equal(display.center, np.sort(effects.mean[:, 0])[::-1])
    with pytest.raises(ValueError, match=r"effect must be a factor among \['x1', 'x2'\], got 0"):
        GroupEffectsDisplay.from_estimator(model)
