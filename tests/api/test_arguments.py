"""Arguments and data of a wrong kind end in errors that name them: what hostile input has found."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    BayesianOrdinalClassifierPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    Posterior,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd.data import Blocks
from skpmd.predictive import NormalMixture
from tests.tools.exact_models import NORMAL_MEAN

NO_NUMBERS = ["word", None, 0.5j, [[1.0], [1.0, 2.0]]]
ROWS = np.random.default_rng(0).standard_normal((12, 2))
CLASSES = np.arange(12) % 2
WORDS = np.abs(ROWS).round() + 1.0


@pytest.fixture(scope="module")
def posterior():
    return Posterior(ROWS, np.zeros(12))


@pytest.fixture(scope="module")
def process():
    return SparseGPRegressorPMD(random_state=0).fit(ROWS, ROWS[:, 0])


@pytest.fixture(scope="module")
def topics():
    return LDATopicModelPMD(2, n_particles=2, max_iter=5, random_state=0).fit(WORDS)


@pytest.mark.parametrize("seed", [-1, 1.5, "seed", np.nan, [1]])
def test_random_states_are_named(posterior, seed):
    with pytest.raises(ValueError, match=r"random_state must be None, .*, got"):
        posterior.sample(2, random_state=seed)


@pytest.mark.parametrize("wrong", NO_NUMBERS)
def test_what_is_no_number_is_named(posterior, process, wrong):
    one = NormalMixture([0.0, 1.0], [1.0, 1.0])
    calls = {
        "q": (posterior.quantile, one.ppf),
        "theta": (posterior.log_density, process.log_marginal_likelihood),
        "y": (one.log_pdf, one.crps, one.cdf),
        "alpha": (lambda values: process.predict_quantiles(ROWS, values),),
        "target": (lambda values: process.predict_proba(ROWS, values),),
        "level": (
            posterior.interval,
            one.interval,
            lambda values: process.predict_interval(ROWS, values),
        ),
    }
    for name, methods in calls.items():
        for method in methods:
            if wrong is None and method == process.log_marginal_likelihood:
                continue  # The fitted kernel.
            with pytest.raises(ValueError, match=rf"\b{name}\b"):
                method(wrong)


@pytest.mark.parametrize(
    "theta", [np.nan, np.inf, [[0.0, np.nan]], [[0.0] * 3], [], [[[0.0, 0.0]]]]
)
def test_points_of_a_density_are_finite_and_have_its_coordinates(posterior, theta):
    with pytest.raises(ValueError, match="theta"):
        posterior.log_density(theta)


@pytest.mark.parametrize("f", [None, 3, lambda theta: 1.0])
def test_expectations_are_of_functions_of_particles(posterior, f):
    with pytest.raises(ValueError, match="f must return one value per particle"):
        posterior.expectation(f)


@pytest.mark.parametrize(
    "kernel",
    [RBF(1.0, (2.0, 1.0)), RBF(np.nan), RBF(-1.0), 1e300 * RBF(), CompoundKernel([RBF(), RBF()])],
    ids=["bounds", "nan", "negative", "large", "compound"],
)
def test_kernels_that_cannot_be_fitted_are_named(kernel):
    with pytest.raises(ValueError, match="kernel"):
        SparseGPRegressorPMD(kernel).fit(ROWS, ROWS[:, 0])
    with pytest.raises(ValueError, match="kernel"):
        SparseGPRegressorPMD(kernel).predict(ROWS)


def test_own_noise_that_is_no_number_is_named_before_a_fit():
    with pytest.raises(ValueError, match="alpha"):
        SparseGPRegressorPMD(alpha={}).predict(ROWS)
    one = SparseGPRegressorPMD(alpha=np.ones((2, 2)), n_targets=True).predict(ROWS)
    np.testing.assert_array_equal(one, np.zeros(12))
    # Own noise is in the distribution of an observation, and not in that of the process.
    np.testing.assert_array_equal(
        SparseGPRegressorPMD(alpha=3.0).predict(ROWS, return_std=True)[1], np.ones(12)
    )


@pytest.mark.parametrize("theta", [[0.0], np.full(3, np.nan), 0.0])
def test_hyperparameters_of_a_process_are_as_many_as_the_kernel_has(process, theta):
    with pytest.raises(ValueError, match="theta must have a number for each of"):
        process.log_marginal_likelihood(theta)


@pytest.mark.parametrize("chosen", [[5], "0", 0, [-3], 1.5, [0.0], [[0]], [np.nan]])
def test_topics_are_chosen_by_a_list_of_their_numbers(topics, chosen):
    with pytest.raises(IndexError, match="topics must be a list of integers below 2"):
        topics.topic_word_interval(topics=chosen)
    assert topics.topic_word_interval(topics=[]).shape == (0, 2, 2)


def test_levels_of_partitions_are_checked_as_others_are():
    mixture = GaussianMixturePMD(2, n_particles=2, random_state=0).fit(ROWS)
    for level in ("0.9", 90, None):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            mixture.optimal_partition(ROWS, level=level)
        with pytest.raises(ValueError, match="return_interval must lie strictly between 0 and 1"):
            mixture.predict_proba(ROWS, return_interval=level or 0)


# ------------------------------------------------------------------------------------ data
FRAME = pd.DataFrame({"when": pd.Timestamp("2024-02-29"), "much": ROWS[:, 0]})


@pytest.mark.parametrize(
    ("column", "advice"),
    [
        ("2024-02-29", "OneHotEncoder"),
        (pd.Timestamp("2024-02-29"), "days since"),
        (pd.NA, "Encode"),
    ],
)
def test_a_column_of_a_frame_that_is_no_number_is_named(column, advice):
    X = pd.DataFrame({"much": ROWS[:, 0], "when": [column] * len(ROWS)})
    with pytest.raises(
        (ValueError, TypeError), match=f"first such column of X is 'when'.*{advice}"
    ):
        BayesianGLMRegressorPMD().fit(X, np.zeros(len(X)))


def test_words_as_targets_of_a_regression_are_classes():
    with pytest.raises(ValueError, match="y cannot be read.*BayesianLogisticRegressionPMD"):
        BayesianGLMRegressorPMD("binomial").fit(ROWS, np.repeat(["no", "yes"], len(ROWS) // 2))
    with pytest.raises(ValueError, match="without trials, and has 2 in row 2: set trials"):
        BayesianGLMRegressorPMD("binomial").fit(ROWS, np.arange(len(ROWS)))


@pytest.mark.parametrize("X", [[*ROWS.tolist(), [0.0]], FRAME], ids=["rows of one more", "dates"])
def test_data_that_are_no_numbers_are_named(X):
    custom = ParticleMirrorDescent(**NORMAL_MEAN)  # Its functions get a frame as it is.
    for estimator in (
        GaussianMixturePMD(2),
        LDATopicModelPMD(2),
        *([] if X is FRAME else [custom]),
    ):
        with pytest.raises(
            (ValueError, TypeError), match="X cannot be read as an array of numbers"
        ):
            estimator.fit(X)
    with pytest.raises((ValueError, TypeError), match="X (or y )?cannot be read"):
        SparseGPRegressorPMD().fit(X, np.zeros(len(X)))
    for method in (BayesianLogisticRegressionPMD().sample_prior_y, SparseGPRegressorPMD().predict):
        with pytest.raises(
            (ValueError, TypeError), match="X cannot be read as an array of numbers"
        ):
            method(X)


DAYS = pd.date_range("2020-01-01", periods=12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dates", [DAYS, DAYS - DAYS[0], DAYS.tz_localize("UTC")])
@pytest.mark.parametrize(
    "estimator",
    [
        SparseGPRegressorPMD(), BayesianGLMRegressorPMD(), BayesianLogisticRegressionPMD(),
        GaussianMixturePMD(2), LDATopicModelPMD(2),
    ],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_dates_are_never_taken_as_nanoseconds(estimator, dates):
    """Not where all columns are dates either, which NumPy takes for numbers."""
    column, y = pd.DataFrame({"when": dates}), np.arange(12) % 2
    for X in (column, column.assign(much=ROWS[:, 0])):
        with pytest.raises(TypeError, match="such column of X is 'when'.*such as days since"):
            estimator.fit(X, y)
    with pytest.raises(TypeError, match="X cannot be read.*dates or durations|not 'Timestamp'"):
        estimator.fit(column.to_numpy(), y)
    known = clone(estimator).fit(pd.DataFrame({"when": np.arange(12.0)}), y)
    with pytest.raises(TypeError, match="'when'.*such as days since"):
        getattr(known, "predict", getattr(known, "transform", None))(column)


def test_dates_in_blocks_and_targets_are_named():
    column = pd.DataFrame({"when": DAYS})
    with pytest.raises(TypeError, match="'when'.*such as days since"):
        BayesianGLMRegressorPMD().fit(Blocks([(column, ROWS[:, 0])] * 2))
    with pytest.raises(TypeError, match="X cannot be read.*dates"):
        ParticleMirrorDescent(**NORMAL_MEAN).fit(column.to_numpy())
    for estimator in (SparseGPRegressorPMD(), BayesianGLMRegressorPMD()):
        with pytest.raises(TypeError, match="^y cannot be read.*such as days since"):
            estimator.fit(ROWS, DAYS)


@pytest.mark.parametrize(
    "estimator",
    [BayesianOrdinalClassifierPMD(), BayesianLogisticRegressionPMD(), SparseGPClassifierPMD()],
    ids=lambda one: type(one).__name__,
)
def test_intervals_as_labels_are_told_to_be_named(estimator):
    parts = pd.Series(pd.cut(ROWS[:, 0], [-9.0, 0.0, 9.0]))
    with pytest.raises(ValueError, match=r"y has intervals as labels.*rename_categories\(str\)"):
        estimator.fit(ROWS, parts)
    named = estimator.fit(ROWS, parts.cat.rename_categories(str))
    assert named.classes_.tolist() == ["(-9.0, 0.0]", "(0.0, 9.0]"]


def test_later_parts_of_a_stream_of_topics_that_are_no_table_are_named():
    topics = LDATopicModelPMD(2, n_particles=2).partial_fit(WORDS)
    with pytest.raises(ValueError, match="X cannot be read as an array of numbers"):
        topics.partial_fit([*WORDS.tolist(), [0.0]])


def test_weights_and_variances_that_are_no_numbers_are_named():
    words = ["heavy"] * 12
    with pytest.raises(ValueError, match="sample_weight cannot be .* float: 'heavy'$"):
        GaussianMixturePMD(2).fit(ROWS, sample_weight=words)
    process = SparseGPRegressorPMD()
    with pytest.raises(ValueError, match="noise_variance must hold real numbers"):
        process.fit(ROWS, ROWS[:, 0], noise_variance=words)
    with pytest.raises(ValueError, match="noise_variance or alpha is 1.*e.300 times"):
        process.fit(ROWS, ROWS[:, 0], noise_variance=np.full(12, 1e300))
    with pytest.raises(ValueError, match="y must hold real numbers"):
        process.fit(ROWS, np.array(words))


PRIORS_OF_TOPICS = ("doc_topic_prior", "topic_word_prior")
REFUSED = [  # The estimator, a parameter, values that it cannot take, and what the error says.
    *((LDATopicModelPMD, name, values, f"{name} must hold real numbers")
      for name in PRIORS_OF_TOPICS for values in ({"x": 1}, ["a", "b"], [[0.5], [0.1, 0.2]])),
    *((LDATopicModelPMD, name, values, f"{name} must be positive and finite, from")
      for name in PRIORS_OF_TOPICS for values in ([1e300, 1.0], [1e-300, 1.0], 1e300)),
    *((BayesianLogisticRegressionPMD, name, value, f"'{name}' parameter")
      for name in ("prior_scale", "intercept_prior_scale", "temperature")
      for value in (1e-300, 1e300)),
    (GaussianMixturePMD, "covariance_prior", [["a", "b"], ["c", "d"]], "covariance_prior"),
    (GaussianMixturePMD, "mean_prior", ["a", "b"], "mean_prior"),
    (GaussianMixturePMD, "mean_scale_prior", ["a", "b"], "mean_scale_prior"),
    (GaussianMixturePMD, "mean_scale_prior", [1.0, 2.0, 3.0], "mean_scale_prior"),
    (GaussianMixturePMD, "mean_prior", [1e300, 1.0], "mean_prior is .* of the rows"),
    (GaussianMixturePMD, "mean_prior", [1e9, 0.0], "mean_prior is .* of the rows"),
    (GaussianMixturePMD, "covariance_prior", 1e300 * np.eye(2), "covariance_prior is .* of the"),
    *((SparseGPRegressorPMD, "inducing_init", inputs, "inducing_init") for inputs in
      ({}, np.array(2), [1.0, 2.0], [["a", "b"]], [[1e300, 0.0]], np.ones((0, 2)))),
]  # fmt: skip


@pytest.mark.parametrize("kind, name, value, words", REFUSED)
def test_values_of_parameters_that_cannot_be_are_named(kind, name, value, words):
    params = {name: value}
    if name == "mean_scale_prior":
        params["component_prior"] = "independent"
    if kind in (GaussianMixturePMD, LDATopicModelPMD):
        params["n_components"] = 2
    y = None if "n_components" in params else CLASSES
    rows = WORDS if kind is LDATopicModelPMD else ROWS
    with pytest.raises((ValueError, TypeError), match=words):
        kind(**params).fit(rows, y)


@pytest.mark.parametrize("kind", [LDATopicModelPMD, GaussianMixturePMD])
def test_totals_that_single_precision_cannot_hold_are_refused(kind):
    with pytest.raises(ValueError, match="'total_samples' parameter"):
        kind(2, total_samples=1e300).partial_fit(WORDS)


def test_counts_that_single_precision_makes_zero_are_no_words():
    none = np.full((3, 4), 1e-300)
    proportions = LDATopicModelPMD(2, n_particles=2, random_state=0).fit(none).transform(none)
    np.testing.assert_allclose(proportions, 0.5)


def test_labels_that_no_integer_can_hold_are_refused_without_a_warning():
    y = 1e300 * CLASSES
    for fit in (
        BayesianLogisticRegressionPMD().fit,
        lambda X, y: BayesianLogisticRegressionPMD().partial_fit(X, y, classes=[0.0, 1e300]),
        lambda X, y: (
            BayesianLogisticRegressionPMD().partial_fit(X, CLASSES, [0, 1]).partial_fit(X, y)
        ),
    ):
        with pytest.raises(ValueError, match="Unknown label type"):
            fit(ROWS, y)


@pytest.mark.parametrize("classes", [[None, "yes"], [1, "yes"]])
def test_classes_without_an_order_are_named(classes):
    classifier, classes = BayesianLogisticRegressionPMD(), np.array(classes, dtype=object)
    with pytest.raises(TypeError, match="classes has labels of the types"):
        classifier.partial_fit(ROWS, CLASSES, classes=classes)
    with pytest.raises(TypeError, match="classes has labels of the types"):
        classifier.sample_prior_y(ROWS, classes=classes)
    with pytest.raises(ValueError, match="classes must not hold nan"):
        classifier.sample_prior_y(ROWS, classes=[np.nan, 1.0])


# ------------------------------------------------------------------------------------ own models
def model(**functions):
    return ParticleMirrorDescent(**{**NORMAL_MEAN, **functions}, random_state=0)


@pytest.mark.parametrize(
    ("draws", "words"),
    [
        (lambda rng, m: np.full((m, 1), np.nan), "sample_prior returned nan or infinite"),
        (lambda rng, m: np.full((m, 1), -np.inf), "sample_prior returned nan or infinite"),
        (lambda rng, m: np.zeros((m, 1)) + 1j, "sample_prior must hold real numbers"),
        (lambda rng, m: None, "sample_prior"),
        (lambda rng, m: rng.standard_normal((m, rng.integers(1, 9))), "sample_prior returned"),
    ],
    ids=["nan", "inf", "complex", "none", "columns"],
)
def test_draws_of_a_prior_are_finite_numbers_of_one_shape(draws, words):
    with pytest.raises((ValueError, FloatingPointError), match=words):
        model(sample_prior=draws).fit(ROWS)


@pytest.mark.parametrize(
    "found",
    [None, np.zeros(3), (np.zeros(3),) * 3, "word", (0.0, "word"), (0.0, 1j)],
    ids=["none", "one array", "three", "word", "words", "complex"],
)
def test_gradients_are_two_arrays_of_numbers(found):
    with pytest.raises(ValueError, match="log_joint_gradient must"):
        model(log_joint_gradient=lambda theta, X, y: found).fit(ROWS)


def test_slopes_of_1e300_end_without_a_warning_of_numpy():
    def steep(theta, X, y):
        return -1e300 * np.abs(theta[:, 0])

    try:
        model(log_likelihood=steep).fit(ROWS)
    except (FloatingPointError, ConvergenceWarning) as error:
        assert "log_likelihood" in str(error) or "posterior" in str(error)


def test_a_prior_of_width_1e_300_ends_without_a_warning_of_numpy():
    def log_prior(theta):
        return -0.5 * (theta[:, 0] / 1e-300) ** 2 + 300.0 * np.log(10.0) - 0.5 * np.log(2.0 * np.pi)

    tiny = model(
        log_prior=log_prior, sample_prior=lambda rng, m: 1e-300 * rng.standard_normal((m, 1))
    )
    try:
        assert np.isfinite(tiny.fit(ROWS[:5]).posterior_.mean()).all()
    except ConvergenceWarning as error:
        assert "posterior" in str(error)


def test_weights_of_classes_beside_which_nothing_counts_are_named():
    classifier = BayesianLogisticRegressionPMD(class_weight={0: 1e300, 1: 1.0})
    for fit in (classifier.fit, lambda X, y: classifier.partial_fit(X, y, classes=[0, 1])):
        with pytest.raises(ValueError, match="largest weight of a row is 1e.300 with class_weight"):
            fit(ROWS, CLASSES)


def test_columns_without_variance_that_make_a_posterior_singular_are_named():
    X, weight = np.full((12, 4), 1.7e9), 10.0 ** np.linspace(-20.0, 12.0, 12)
    with pytest.raises(ValueError, match="Column 0 of X has the mean 1.7e.09"):
        BayesianLogisticRegressionPMD(scale=None).fit(X, CLASSES, sample_weight=weight)
    stamps = 1e10 + np.random.default_rng(155).standard_normal((6, 3))
    with pytest.raises(ValueError, match="Column . of X has the mean 1e.10"):
        model = BayesianLogisticRegressionPMD(scale=None, prior_scale="evidence")
        model.fit(stamps, CLASSES[:6])


def test_parameters_in_single_precision():
    """Bounds beyond its largest number overflowed where scikit-learn compares them."""
    with np.errstate(over="raise"):
        model = BayesianLogisticRegressionPMD(prior_scale=np.float32(0.5), random_state=0)
        assert np.isfinite(model.fit(ROWS, CLASSES).coef_).all()


@pytest.mark.parametrize("query", ["transform", "score_samples", "perplexity", "predict_proba"])
def test_parameters_that_predictions_of_topics_take_are_checked(query):
    """Set after the fit, they ended in an error of Numba."""
    topics = LDATopicModelPMD(2, n_particles=2, max_iter=5, random_state=0).fit(WORDS)
    topics.set_params(max_doc_update_iter=None)
    with pytest.raises(ValueError, match="max_doc_update_iter"):
        getattr(topics, query)(WORDS)
