"""Forest plots against the effects that they draw."""

import numpy as np
import pytest

from skpmd.effects import avg_comparisons
from skpmd.plot import EffectsDisplay
from tests.plot.displays import X, classifier
from tests.plot.test_intervals import drawn


def test_estimates_are_drawn_in_their_order():
    effects = avg_comparisons(classifier(), X, [0, 1], comparison="ratio")
    display = EffectsDisplay.from_effects(effects, max_rows=4, levels=(0.5, 0.8))
    assert display.names == effects.names[:4]
    np.testing.assert_array_equal(display.points_.get_xdata(), effects.mean[:4])
    for lines, level in ((display.inner_lines_, 0.5), (display.outer_lines_, 0.8)):
        np.testing.assert_array_equal(drawn(lines)[0], effects.interval(level)[:4])
    assert list(display.null_line_.get_xdata()) == [1.0, 1.0]
    assert display.ax_.get_title() == "4 of 6 estimates: 2 are not shown"
    assert display.ax_.get_xscale() == "log"  # Of ratios.
    label = display.ax_.get_xlabel()
    assert label.startswith("ratio of probabilities\nposterior mean, 50 % and 80 % intervals")


def test_what_is_no_effect_is_refused():
    with pytest.raises(TypeError, match="effects must be those of skpmd.effects, got list"):
        EffectsDisplay.from_effects([1.0])
