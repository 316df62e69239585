"""Densities of mixtures against formulas, loops over particles, and the masses of draws."""

import numpy as np
import pytest
from matplotlib.path import Path
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skpmd import BayesianLogisticRegressionPMD, GaussianMixturePMD
from skpmd.plot import MixtureDensityDisplay
from tests.plot.test_predictive_band import ends

RNG = np.random.default_rng(0)
LINE = np.concatenate([RNG.normal(-3.0, 1.0, (60, 1)), RNG.normal(3.0, 0.5, (30, 1))])
PLANE = np.concatenate([RNG.normal(0.0, 1.0, (60, 2)), RNG.normal(6.0, [1.0, 3.0], (60, 2))])


@pytest.fixture(scope="module")
def of_line():
    return GaussianMixturePMD(
        2, strategy="parameters", n_particles=200, random_state=0
    ).fit(LINE)  # fmt: skip


@pytest.fixture(scope="module")
def of_plane():
    return GaussianMixturePMD(2, strategy="conjugate", n_particles=4, random_state=0).fit(PLANE)


def test_the_mean_is_the_predictive_density(of_line):
    display = MixtureDensityDisplay.from_estimator(of_line, LINE, n_points=50)
    x, density = display.line_.get_data()
    np.testing.assert_allclose(density, np.exp(of_line.score_samples(x[:, None])), rtol=1e-9)
    assert x[0] <= LINE.min() and x[-1] >= LINE.max()
    assert np.trapezoid(density, x) == pytest.approx(1.0, abs=0.01)


def test_the_band_is_of_particles(of_line):
    display = MixtureDensityDisplay.from_estimator(of_line, n_points=20, level=0.8)
    posterior = of_line.posterior_
    names = "weight[0] weight[1] mean[0,0] mean[1,0] std[0,0] std[1,0]".split()
    places = [posterior.names.index(name) for name in names]
    table = []
    for one in posterior.particles[:, places]:
        first = one[0] * norm.pdf(display.x, one[2], one[4])
        table.append(first + one[1] * norm.pdf(display.x, one[3], one[5]))
    assert np.ptp(posterior.weights) < 1e-9  # Draws are equally probable.
    _, low, high = ends(display.band_)
    lower, upper = np.quantile(table, [0.1, 0.9], axis=0)
    # The definitions of a quantile differ by the gap between two of the particles.
    np.testing.assert_allclose(low, lower, rtol=0.05, atol=1e-4)
    np.testing.assert_allclose(high, upper, rtol=0.05, atol=1e-4)
    assert display.histogram_ is None
    assert display.legend_.get_texts()[0].get_text() == "80 % of particles"


def test_one_conjugate_component_has_the_density_of_a_student(of_plane):
    model = GaussianMixturePMD(1, strategy="conjugate", n_particles=2, random_state=0).fit(LINE)
    display = MixtureDensityDisplay.from_estimator(model, n_points=30)
    exact = np.exp(model.score_samples(display.x[:, None]))
    # A thousand draws: the mean of a density errs by 1 % or so of its largest value.
    np.testing.assert_allclose(display.density, exact, atol=0.02 * exact.max())


def test_the_histogram_is_of_the_data_and_their_weights(of_line):
    weight = RNG.integers(1, 4, size=90)
    options = {"bins": np.linspace(-7.0, 7.0, 15), "n_points": 20}
    display = MixtureDensityDisplay.from_estimator(of_line, LINE, sample_weight=weight, **options)
    values, edges, _ = display.histogram_.get_data()
    repeated = np.repeat(LINE[:, 0], weight)
    np.testing.assert_allclose(values, np.histogram(repeated, edges, density=True)[0])
    assert (values * np.diff(edges)).sum() == pytest.approx(1.0)


def test_regions_of_two_columns_hold_new_rows(of_plane):
    display = MixtureDensityDisplay.from_estimator(of_plane, PLANE)
    rows = of_plane.sample(4000, random_state=0)[0]
    for level, p in ((0, 0.9), (1, 0.5)):
        inside = np.zeros(len(rows), dtype=bool)
        for outline in display.contours_.get_paths()[level].to_polygons():
            inside ^= Path(outline).contains_points(rows)
        assert inside.mean() == pytest.approx(p, abs=0.03)  # The sd is .008 at most.
    i, j = 40, 70
    point = [[display.x[i], display.y[j]]]
    assert display.density[i, j] == pytest.approx(np.exp(of_plane.score_samples(point)[0]))
    np.testing.assert_array_equal(display.points_.get_xydata(), PLANE)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("column 0", "column 1")


def test_one_of_several_columns_has_its_own_density(of_plane):
    display = MixtureDensityDisplay.from_estimator(of_plane, PLANE, column=1)
    # Integrate the other column out of draws: far fewer digits, but another way.
    draws = of_plane.sample(20000, random_state=0)[0][:, 1]
    heights, edges = np.histogram(draws, 25, range=(-3.0, 15.0), density=True)
    middle = np.interp(0.5 * (edges[1:] + edges[:-1]), display.x, display.density)
    np.testing.assert_allclose(middle, heights, atol=0.02)
    assert display.ax_.get_xlabel() == "column 1"
    np.testing.assert_array_equal(display.data, PLANE[:, 1])


def test_names_and_pipelines():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(PLANE, columns=["speed", "mass"])
    mixture = GaussianMixturePMD(2, strategy="conjugate", n_particles=2, random_state=0)
    display = MixtureDensityDisplay.from_estimator(mixture.fit(frame), frame, n_points=20)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("speed", "mass")
    named, placed = (
        MixtureDensityDisplay.from_estimator(mixture, frame, column=one, n_points=20)
        for one in ("mass", 1)
    )
    assert named.ax_.get_xlabel() == "mass"
    np.testing.assert_array_equal(named.density, placed.density)
    with pytest.raises(ValueError, match="'weight', which is none of .'speed', 'mass'."):
        MixtureDensityDisplay.from_estimator(mixture, column="weight")


@pytest.mark.parametrize("column", [None, "mass"])
def test_a_pipeline_that_scales_is_drawn_in_the_units_of_its_columns(column):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(PLANE, columns=["speed", "mass"])
    model = make_pipeline(StandardScaler(), GaussianMixturePMD(2, n_particles=2, random_state=0))
    search = GridSearchCV(model.fit(frame), {"gaussianmixturepmd__n_components": [2]}, cv=2)
    display = MixtureDensityDisplay.from_estimator(
        search.fit(frame), frame, column=column, n_points=200
    )
    assert display.names == (["speed", "mass"] if column is None else ["mass"])
    np.testing.assert_allclose(display.data, frame.to_numpy() if column is None else PLANE[:, 1])
    mass = np.trapezoid(display.density, display.x, axis=0)
    mass = mass if column else np.trapezoid(mass, display.y)
    assert mass == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("step", [PCA(), FunctionTransformer(np.cbrt)])
def test_a_pipeline_that_does_more_is_drawn_in_the_columns_of_the_mixture(step):
    mixture = GaussianMixturePMD(2, n_particles=2, random_state=0)
    model = make_pipeline(step, mixture).fit(PLANE)
    display = MixtureDensityDisplay.from_estimator(model, PLANE, n_points=20)
    np.testing.assert_allclose(display.data, model[0].transform(PLANE))


def test_bad_arguments_are_refused(of_line, of_plane):
    draw = MixtureDensityDisplay.from_estimator
    three = GaussianMixturePMD(1, strategy="conjugate", n_particles=1, random_state=0)
    three.fit(RNG.normal(size=(50, 3)))
    with pytest.raises(ValueError, match="column must be given: there are 3"):
        draw(three)
    assert draw(three, column=-1).names == ["column 2"]
    with pytest.raises(ValueError, match="column must be"):
        draw(three, column=3)
    with pytest.raises(ValueError, match="column must be"):
        draw(three, column=-4)
    with pytest.raises(ValueError, match="X must have 1 columns"):
        draw(of_line, PLANE)
    with pytest.raises(ValueError, match="n_points"):
        draw(of_line, n_points=1)
    with pytest.raises(ValueError, match="level"):
        draw(of_line, level=1.0)
    classifier = BayesianLogisticRegressionPMD(n_particles=300, random_state=0)
    with pytest.raises(TypeError, match="is no mixture"):
        draw(classifier.fit(PLANE, np.arange(120) % 2))
