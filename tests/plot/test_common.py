"""What all displays keep to: places to draw in, no global state, and the extra that they need."""

import pickle
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpmd.plot
from skpmd import BayesianLogisticRegressionPMD
from skpmd.plot import PairDisplay, PosteriorIntervalDisplay, TopicDisplay
from skpmd.plot._common import short_names
from tests.plot.displays import CASES, POSTERIOR, X, Y, classifier, topics

every_case = pytest.mark.parametrize("case", CASES)


def panels(display):
    return list(np.ravel(getattr(display, "axes_", display.ax_)))


@every_case
def test_a_new_figure_is_one_of_pyplot_and_can_be_drawn(case):
    display = CASES[case][0]()
    assert plt.get_fignums() == [display.figure_.number]
    assert display.ax_ in display.figure_.axes
    display.figure_.canvas.draw()
    assert len(panels(display)) == CASES[case][1]


@every_case
@pytest.mark.parametrize("layout", [None, "constrained"])
def test_one_axes_is_drawn_in_and_pyplot_is_not_touched(case, layout):
    figure = Figure(layout=layout)
    ax = figure.subplots(1, 2)[1]
    display = CASES[case][0](ax=ax)
    figure.canvas.draw()
    assert display.figure_ is figure and not plt.get_fignums()
    if CASES[case][1] == 1:
        assert display.ax_ is ax
    else:
        assert not ax.axison
        inside = figure.get_tightbbox().x0
        assert all(one.get_position().x0 > 0.4 for one in panels(display)), inside


@every_case
def test_axes_outside_of_a_grid_and_of_subfigures_will_do(case):
    figure = Figure()
    draw, n = CASES[case]
    place = figure.add_axes((0.5, 0.5, 0.4, 0.4))
    for panel in panels(draw(ax=place)):
        box = panel.get_position()
        assert box.x0 >= 0.5 - 1e-9 and box.y0 >= 0.5 - 1e-9 and box.x1 <= 0.9 + 1e-9
    half = Figure(layout="constrained").subfigures(1, 2)[0]
    display = draw(ax=half.subplots())
    assert display.figure_ is half
    half.figure.canvas.draw()


@pytest.mark.parametrize("case", [name for name, (_, n) in CASES.items() if n > 1])
def test_as_many_axes_as_panels_are_taken_as_they_are(case):
    draw, n = CASES[case]
    given = Figure(layout="constrained").subplots(n, 1)
    assert panels(draw(ax=given)) == list(given)
    with pytest.raises(ValueError, match=f"or {n} of them"):
        draw(ax=list(given) + [given[0]])


@every_case
def test_what_is_no_axes_is_refused(case):
    with pytest.raises((TypeError, ValueError), match="ax must be one matplotlib Axes"):
        CASES[case][0](ax="here")


@every_case
def test_plot_returns_itself_and_draws_the_same_again(case):
    display = CASES[case][0]()
    before = [line.get_xydata() for panel in panels(display) for line in panel.lines]
    assert display.plot() is display
    after = [line.get_xydata() for panel in panels(display) for line in panel.lines]
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow_for("pairs")
@every_case
def test_displays_are_pickled_with_their_figures(case):
    display = CASES[case][0]()
    display.figure_.canvas.draw()
    again = pickle.loads(pickle.dumps(display))
    again.plot(**({} if CASES[case][1] > 1 else {"ax": Figure().subplots()}))


@every_case
def test_panels_are_labelled(case):
    shown = [one for one in panels(CASES[case][0]()) if one.axison]
    assert any(one.get_xlabel() for one in shown)
    assert all(one.get_ylabel() or one.get_title() or one.get_yticks().size < 20 for one in shown)


@every_case
def test_without_matplotlib_the_error_names_the_extra(case, monkeypatch):
    for name in [one for one in sys.modules if one.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install skpmd\[plot\]"):
        CASES[case][0]()


def test_neither_skpmd_nor_its_pictures_import_matplotlib():
    code = """
import sys
import skpmd
assert not [name for name in sys.modules if name.startswith("skpmd.plot")]
import skpmd.plot
assert "matplotlib" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_all_displays_have_a_case():
    covered = {type(draw()).__name__ for draw, _ in CASES.values()}
    assert covered == set(skpmd.plot.__all__)


def test_estimators_inside_pipelines_and_those_that_are_not_fitted():
    model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(n_particles=300))
    with pytest.raises(NotFittedError):
        PosteriorIntervalDisplay.from_estimator(model)
    display = PosteriorIntervalDisplay.from_estimator(model.fit(X[:100], Y[:100]))
    assert display.names == model[-1].posterior_.names
    with pytest.raises(TypeError, match="no posterior_"):
        PosteriorIntervalDisplay.from_estimator(StandardScaler().fit(X))


def test_posteriors_of_another_kind_are_refused():
    with pytest.raises(TypeError, match="TopicDisplay"):
        PosteriorIntervalDisplay.from_estimator(topics())
    with pytest.raises(TypeError, match="must be a Posterior"):
        PairDisplay.from_posterior(POSTERIOR.particles)
    with pytest.raises(TypeError, match="TopicPosterior"):
        TopicDisplay.from_posterior(classifier().posterior_)


@pytest.mark.parametrize("levels", [0.9, (0.9, 0.5), (0.5,), (0.5, 1.0), (50, 90), "ab", None])
def test_bad_levels_are_refused(levels):
    with pytest.raises(ValueError, match="level"):
        PosteriorIntervalDisplay.from_posterior(POSTERIOR, levels=levels)


def test_names_are_shortened_but_differ():
    names = [f"{'x' * 100}{end}" for end in ("a", "b")] + ["short", "two\nlines", "cost in $"]
    short = short_names(names)
    assert len(set(short)) == len(names) and max(map(len, short)) <= 28
    assert short[0].endswith("xa") and short[2:] == ["short", "two lines", r"cost in \$"]
    middle = [f"{'a' * 80}{j}{'b' * 80}" for j in range(3)]
    assert len(set(short_names(middle))) == 3
    assert short_names(["same", "same"]) == ["same", "same"]
