"""Decisions against sums and quantiles by hand, and through scikit-learn's tools."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD, NormalMixture
from skpmd.decision import BayesDecisionClassifier, bayes_action

X, Y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
UTILITY = np.array([[0.0, -1.0], [-10.0, 0.0]])


@pytest.fixture(scope="module")
def fitted():
    return LogisticRegression().fit(X, Y)


def test_the_action_has_the_largest_expected_utility(fitted):
    decision = BayesDecisionClassifier(LogisticRegression(), UTILITY).fit(X, Y)
    p = fitted.predict_proba(X)
    expected = np.column_stack([-p[:, 1], -10.0 * p[:, 0]])
    np.testing.assert_allclose(decision.expected_utility(X), expected, atol=1e-12)
    np.testing.assert_array_equal(decision.predict(X), np.where(p[:, 0] > 1.0 / 11.0, 0, 1))
    gained = UTILITY[decision.predict(X), Y].mean()
    assert decision.score(X, Y) == pytest.approx(gained)
    assert gained > UTILITY[fitted.predict(X), Y].mean()


def test_without_utilities_it_is_the_most_probable_class(fitted):
    decision = BayesDecisionClassifier(LogisticRegression()).fit(X, Y)
    np.testing.assert_array_equal(decision.predict(X), fitted.predict(X))
    assert decision.score(X, Y) == pytest.approx(fitted.score(X, Y))


def test_it_abstains_where_no_action_promises_as_much():
    decision = BayesDecisionClassifier(LogisticRegression(), UTILITY, abstain=-0.2).fit(X, Y)
    best = decision.expected_utility(X)[:, :2].max(axis=1)
    np.testing.assert_array_equal(decision.predict(X) == -1, best < -0.2)
    names = np.array(["bad", "good"])[Y]
    worded = BayesDecisionClassifier(
        LogisticRegression(), UTILITY, abstain=-0.2, abstain_label="ask"
    )
    found = worded.fit(X, names).predict(X)
    assert found.dtype.kind == "U" and set(found) == {"bad", "good", "ask"}
    mixed = BayesDecisionClassifier(LogisticRegression(), UTILITY, abstain=-0.2).fit(X, names)
    assert set(mixed.predict(X)) == {"bad", "good", -1}


def test_there_may_be_other_actions_than_classes():
    X, y = load_iris(return_X_y=True)
    utility = [[1.0, -1.0, -1.0], [-1.0, 1.0, 1.0]]
    decision = BayesDecisionClassifier(
        LogisticRegression(max_iter=500), utility, actions=["eat", "leave"]
    ).fit(X, y)
    np.testing.assert_array_equal(decision.predict(X), np.where(y == 0, "eat", "leave"))
    assert decision.score(X, y) == 1.0


def test_costs_of_rows_come_with_a_call(fitted):
    def of(costs):
        """To flag costs one, to miss what is of class 0 the amount."""
        table = np.zeros((len(costs), 2, 2))
        table[:, 0, 1], table[:, 1, 0] = -1.0, -np.asarray(costs)
        return table

    amount = np.linspace(0.1, 50.0, len(X))
    decision = BayesDecisionClassifier(FrozenEstimator(fitted), of).fit(X, Y)
    p = fitted.predict_proba(X)
    expected = np.where(amount * p[:, 0] > p[:, 1], 0, 1)
    np.testing.assert_array_equal(decision.predict(X, costs=amount), expected)
    piped = make_pipeline(StandardScaler(), decision).fit(X, Y)
    assert piped.predict(X, costs=amount).shape == (len(X),)
    gained = np.where(expected == 0, -1.0 * (Y == 1), -amount * (Y == 0)).mean()
    assert decision.score(X, Y, costs=amount) == pytest.approx(gained)
    with pytest.raises(ValueError, match="give costs"):
        decision.predict(X)


def test_a_search_maximises_utility():
    model = BayesianLogisticRegressionPMD(n_particles=200, random_state=0)
    decision = BayesDecisionClassifier(model, UTILITY)
    search = GridSearchCV(decision, {"estimator__prior_scale": [0.01, 1.0]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"estimator__prior_scale": 1.0}
    assert search.best_score_ > -0.3


@pytest.mark.parametrize(
    "params, words",
    [
        ({"utility": np.zeros((2, 3))}, r"shape \(n_actions, n_classes\) = \(2, 2\)"),
        ({"utility": np.full((2, 2), np.nan)}, "finite"),
        ({"utility": np.zeros((3, 2))}, "Without actions"),
        ({"abstain": np.inf}, "abstain must be finite"),
        ({"abstain": 0.0, "abstain_label": 1}, "abstain_label"),
        ({"abstain": "never"}, "'abstain' parameter"),
        ({"estimator": StandardScaler()}, "'estimator' parameter"),
    ],
)
def test_bad_arguments_are_named(params, words):
    with pytest.raises((ValueError, TypeError), match=words):
        BayesDecisionClassifier(**{"estimator": LogisticRegression(), **params}).fit(X, Y)


def test_an_unknown_class_has_no_score():
    decision = BayesDecisionClassifier(LogisticRegression()).fit(X, Y)
    with pytest.raises(ValueError, match="no fit has seen"):
        decision.score(X[:2], [0, 7])


def test_actions_of_known_losses_are_mean_median_and_quantile():
    dist = NormalMixture([[0.0, 1.0], [4.0, 1.0]], [[1.0, 2.0], [0.5, 0.3]], [0.3, 0.7])
    np.testing.assert_array_equal(bayes_action(dist), dist.mean())
    np.testing.assert_array_equal(bayes_action(dist, "absolute"), dist.ppf(0.5))
    np.testing.assert_array_equal(bayes_action(dist, "pinball", alpha=0.9), dist.ppf(0.9))
    # Sums over 400 quantiles know a quantile to the distance of two of them.
    found = bayes_action(dist, lambda a, y: np.where(y > a, 0.9 * (y - a), 0.1 * (a - y)))
    np.testing.assert_allclose(dist.cdf(found), 0.9, atol=1.0 / 400)
    found = bayes_action(dist, lambda a, y: (y - a) ** 2)
    assert (np.abs(found - dist.mean()) < 2e-3 * dist.std()).all()


def test_a_loss_of_several_wells_finds_the_deepest():
    """Within .5 of the truth or nothing: the narrow component of less weight holds more there."""
    dist = NormalMixture([[0.0], [10.0]], [[3.0], [0.2]], [0.6, 0.4])
    found = bayes_action(dist, lambda a, y: (np.abs(y - a) > 0.5).astype(float))
    assert abs(found[0] - 10.0) < 0.5


def test_losses_of_tails_have_their_optimum():
    """Where a rare component or the tail decides: the mean, and b / 2 of exp(b z) - b z - 1."""
    rare = NormalMixture([[0.0], [1e5]], [[1.0], [1.0]], [0.9995, 0.0005])
    assert bayes_action(rare, lambda a, y: (a - y) ** 2)[0] == pytest.approx(50.0, rel=1e-3)
    standard = NormalMixture([0.0], [1.0])
    for b in (3.0, 5.0):
        found = bayes_action(standard, lambda a, y, b=b: np.exp(b * (y - a)) - b * (y - a) - 1.0)
        assert found[0] == pytest.approx(0.5 * b, abs=0.01)
    alike = NormalMixture(1e-3 * np.random.default_rng(0).standard_normal((200, 1)), [[1.0]] * 200)
    for share in (0.75, 0.9):
        found = bayes_action(alike, lambda a, y, c=share: np.where(y > a, c, c - 1) * (y - a))
        assert found[0] == pytest.approx(alike.ppf(share)[0], abs=0.01)
    constant = NormalMixture([3.0], [0.0])
    assert bayes_action(constant, lambda a, y: (a - 2.0 * y) ** 2)[0] == pytest.approx(
        6.0, abs=1e-3
    )
    assert np.isfinite(bayes_action(standard, lambda a, y: 0.0 * a * y)).all()
    with pytest.raises(ValueError, match="no least expectation"):
        bayes_action(standard, lambda a, y: a + 0.0 * y)
    far = bayes_action(standard, lambda a, y: np.abs(a - y - 100.0))
    assert far[0] == pytest.approx(100.0, abs=0.05)


def small(n=200):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 3))
    return rows, (rows[:, 0] + rng.logistic(size=n) > 0).astype(int)


def test_scores_are_those_of_rows_whatever_the_form_of_the_targets():
    rows, y = small()
    decision = BayesDecisionClassifier(LogisticRegression(), UTILITY).fit(rows, y)
    own = UTILITY[decision.predict(rows), y].mean()
    assert decision.score(rows, y) == pytest.approx(own)
    assert decision.score(rows, y[:, None]) == pytest.approx(own)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        decision.score(rows, y[:1])


def test_weights_reach_the_classifier_with_routing():
    seen = []

    class Probe(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append(sample_weight is not None)
            return super().fit(X, y, sample_weight)

    rows, y = small()
    with config_context(enable_metadata_routing=True):
        probe = Probe().set_fit_request(sample_weight=True)
        decision = BayesDecisionClassifier(probe).set_score_request(sample_weight=True)
        search = GridSearchCV(decision, {"estimator__C": [1.0, 2.0]}, cv=2)
        search.fit(rows, y, sample_weight=np.ones(len(y)))
    assert len(seen) == 5 and all(seen)


def test_what_may_change_after_a_fit():
    rows, y = small()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=["a", "b", "c"])
    decision = BayesDecisionClassifier(LogisticRegression()).fit(frame, y > 0).fit(rows, y > 0)
    assert not hasattr(decision, "feature_names_in_")
    decision.set_params(abstain=0.99)
    assert decision.actions_.tolist() == [False, True, -1] and -1 in decision.predict(rows)
    assert decision.set_params(abstain=None).predict(rows).dtype == bool


@pytest.mark.parametrize("loss", ["hinge", 3, np.array([1.0, 2.0])])
def test_a_bad_loss_is_named(loss):
    for bad in (lambda a, y: 1.0, lambda a, y: np.nan * (a - y)):
        with pytest.raises(ValueError, match="must be finite, and of shape"):
            bayes_action(NormalMixture([0.0], [1.0]), bad)
    with pytest.raises(ValueError, match="loss must be"):
        bayes_action(NormalMixture([0.0], [1.0]), loss)
    with pytest.raises(ValueError, match="alpha must be one number"):
        bayes_action(NormalMixture([0.0], [1.0]), "pinball", [0.1, 0.2])
    with pytest.raises(TypeError, match="predictive distribution"):
        bayes_action(np.zeros(3))


# ------------------------------------------------------------------- what users mix up
def test_a_fitted_classifier_is_not_fitted_anew_unnoticed(fitted):
    with pytest.warns(UserWarning, match=r"fitted anew.*FrozenEstimator\(estimator\)"):
        BayesDecisionClassifier(fitted, UTILITY).fit(X, Y)
    frozen = BayesDecisionClassifier(FrozenEstimator(fitted), UTILITY).fit(X[:9], Y[:9])
    np.testing.assert_array_equal(frozen.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(
    ("utility", "abstain", "remedy"),
    [
        (-UTILITY, None, "-utility"),
        (-UTILITY, 0.3, "-utility"),
        (UTILITY, 0.3, "-abstain"),
        (None, 1.5, "-abstain"),
    ],
)
def test_costs_in_the_place_of_utilities_are_warned_of(utility, abstain, remedy):
    decision = BayesDecisionClassifier(LogisticRegression(), utility, abstain=abstain)
    with pytest.warns(UserWarning, match=f"negative utilities: give {remedy}"):
        decision.fit(X, Y)


def test_costs_of_rows_are_not_taken_for_utilities_nor_left_unused():
    def tables(costs):
        return costs[:, None, None] * -UTILITY

    decision = BayesDecisionClassifier(LogisticRegression(), tables).fit(X, Y)
    with pytest.warns(UserWarning, match="give -utility"):
        decision.predict(X, costs=np.arange(1.0, 1.0 + len(X)))
    decision.set_params(utility=UTILITY)
    with pytest.raises(ValueError, match="costs are the argument of a callable utility"):
        decision.predict(X, costs=np.ones(len(X)))
