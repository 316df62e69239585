"""A fitted estimator as the prior of another: its state goes on there, and it stays as it is."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from skpmd import (
    GaussianMixturePMD,
    LDATopicModelPMD,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)


def cases():
    rng = np.random.default_rng(0)
    iris, labels = load_iris(return_X_y=True)
    place = rng.permutation(len(labels))
    X, y = load_diabetes(return_X_y=True)
    yield GaussianMixturePMD(n_components=3, random_state=0), iris[place], None
    yield (
        GaussianMixturePMD(n_components=2, strategy="parameters", n_particles=100, random_state=0),
        iris[place, :1], None,
    )  # fmt: skip
    digits = np.rint(load_digits().data[:200])
    yield LDATopicModelPMD(n_components=5, random_state=0), digits, None
    yield SparseGPRegressorPMD(n_subset=100, random_state=0), X[:200], y[:200]
    yield SparseGPRegressorPMD(approximation="vecchia", random_state=0), X[:150, :3], y[:150]
    yield SparseGPClassifierPMD(random_state=0), iris[place, :2], labels[place]


CASES = list(cases())
NAMES = [f"{type(one).__name__}-{k}" for k, (one, _, _) in enumerate(CASES)]


def fitted(model, X, y, rows):
    return model.fit(X[rows], None if y is None else y[rows])


def answer(model, X):
    return model.predict(X) if isinstance(model, SparseGPRegressorPMD) else model.predict_proba(X)


@pytest.mark.slow_but("GaussianMixturePMD-0")
@pytest.mark.filterwarnings("ignore:.*moves hardly change")  # There are few particles.
@pytest.mark.parametrize("model, X, y", CASES, ids=NAMES)
def test_it_goes_on_from_the_prior(model, X, y):
    h = len(X) // 2
    first = fitted(clone(model), X, y, slice(h))
    before = answer(first, X)
    stream = pickle.loads(pickle.dumps(first))
    stream.partial_fit(X[h:], None if y is None else y[h:])
    for prior in (first, FrozenEstimator(first)):
        second = fitted(clone(model).set_params(prior=prior), X, y, slice(h, None))
        np.testing.assert_array_equal(answer(second, X), answer(stream, X))
    np.testing.assert_array_equal(answer(first, X), before)
    with pytest.raises(ValueError, match="is not fitted. Clones"):
        fitted(clone(model).set_params(prior=clone(first)), X, y, slice(h, None))
    part = clone(model).set_params(prior=first)
    part.partial_fit(X[h:], None if y is None else y[h:])
    np.testing.assert_array_equal(answer(part, X), answer(stream, X))


@pytest.mark.slow
def test_held_out_scores_are_those_of_one_fit():
    """Within 1 %: of a mixture by its mean over ten orders of the rows, where one local optimum
    or another is found, and of topics.
    """
    X = load_iris().data
    scores = []
    for seed in range(10):
        place = np.random.default_rng(seed).permutation(len(X))
        rows, test = X[place[:120]], X[place[120:]]
        model = GaussianMixturePMD(n_components=2, random_state=0)
        whole = clone(model).fit(rows)
        first = clone(model).fit(rows[:60])
        second = clone(model).set_params(prior=first).fit(rows[60:])
        scores.append([whole.score(test), second.score(test), first.score(test)])
    of_whole, of_second, of_first = np.mean(scores, axis=0)
    assert of_second > of_whole - 0.01 * abs(of_whole) > of_first
    counts = np.rint(load_digits().data)
    model = LDATopicModelPMD(n_components=10, max_iter=5, random_state=0)
    whole = clone(model).fit(counts[:1200])
    first = clone(model).fit(counts[:600])
    second = clone(model).set_params(prior=first).fit(counts[600:1200])
    of_whole, of_second, of_first = (one.score(counts[1200:]) for one in (whole, second, first))
    assert of_second > of_whole - 0.01 * abs(of_whole)


@pytest.mark.slow
def test_gaussian_processes_are_those_of_one_fit():
    """With the rows of the prior retained, as those of few rows are, to the last digits."""
    X, y = load_diabetes(return_X_y=True)
    whole = SparseGPRegressorPMD(random_state=0).fit(X[:400], y[:400])
    first = SparseGPRegressorPMD(random_state=0).fit(X[:200], y[:200])
    second = SparseGPRegressorPMD(prior=first, random_state=0).fit(X[200:400], y[200:400])
    mean, sd = whole.predict(X, return_std=True)
    found, spread = second.predict(X, return_std=True)
    assert np.abs((found - mean) / sd).max() < 1e-6
    np.testing.assert_allclose(spread, sd, rtol=1e-6)


def test_other_parameters_and_columns_are_refused():
    X = load_iris().data
    first = GaussianMixturePMD(n_components=3, random_state=0).fit(X)
    with pytest.raises(ValueError, match="n_components was 3 in the prior and is 4: set it"):
        GaussianMixturePMD(n_components=4, prior=first).fit(X)
    with pytest.raises(ValueError, match="X has 2 features"):
        GaussianMixturePMD(n_components=3, prior=first).fit(X[:, :2])
    with pytest.raises(TypeError, match="must be a fitted LDATopicModelPMD"):
        LDATopicModelPMD(prior=first).fit(X)
    failed = GaussianMixturePMD(n_components=4, prior=first)
    with pytest.raises(ValueError, match="n_components"):
        failed.fit(X)
    assert not failed.__sklearn_is_fitted__()


def test_searches_keep_a_frozen_prior():
    X = np.random.default_rng(0).permutation(load_iris().data)
    first = GaussianMixturePMD(n_components=3, random_state=0).fit(X[:70])
    model = GaussianMixturePMD(n_components=3, prior=FrozenEstimator(first))
    search = GridSearchCV(model, {"weighting": ["uniform", "stacking"]}, cv=2).fit(X[70:])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
