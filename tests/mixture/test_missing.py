"""Predictions of rows with missing values: marginals, against integrals over what is missing."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.utils import get_tags

from skpmd import GaussianMixturePMD

TYPES = ("full", "tied", "diag", "spherical")
GRID = np.linspace(-60.0, 60.0, 24_001)
STEP = GRID[1] - GRID[0]


def rows(n=80, seed=0):
    """Two groups in two columns, one of them with a slope."""
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(n // 2, 2)), rng.normal(size=(n // 2, 2))
    return np.concatenate([left - 2.0, [1.5, 1.0] + right @ [[0.7, 0.5], [0.0, 0.4]]])


@pytest.fixture(scope="module", params=["conjugate", "parameters"])
def fitted(request):
    """Estimators of each covariance type; of draws one type is enough, for their code is one."""
    own = {"strategy": request.param, "random_state": 0, "handle_missing": "marginal"}
    # Few draws without a warning, and conjugate weights that are those of responsibilities.
    own |= {"n_particles": 100} if request.param == "parameters" else {"weighting": "posterior"}
    types = TYPES if request.param == "conjugate" else ("full",)
    return [GaussianMixturePMD(2, covariance_type=one, **own).fit(rows()) for one in types]


def along(column, value):
    """A grid over the other column."""
    table = np.full((len(GRID), 2), value)
    table[:, 1 - column] = GRID
    return table


@pytest.mark.parametrize("column", [0, 1])
def test_densities_are_integrals_over_what_is_missing(fitted, column):
    for mixture in fitted:
        X = np.full((1, 2), np.nan)
        X[0, column] = 0.7
        # Student tails beyond the grid and the rule's error are far below this.
        exact = logsumexp(mixture.score_samples(along(column, 0.7))) + np.log(STEP)
        assert mixture.score_samples(X)[0] == pytest.approx(exact, abs=1e-8)


def test_responsibilities_are_averages_over_what_is_missing():
    # Of one particle they are integrals; averages over particles have no such form.
    for covariance_type in TYPES:
        mixture = GaussianMixturePMD(
            2, strategy="conjugate", covariance_type=covariance_type, n_particles=1,
            weighting="posterior", random_state=0, handle_missing="marginal",
        ).fit(rows())  # fmt: skip
        table = along(1, 0.1)
        density = np.exp(mixture.score_samples(table))
        exact = density @ mixture.predict_proba(table) / density.sum()
        found = mixture.predict_proba([[np.nan, 0.1]])[0]
        np.testing.assert_allclose(found, exact, atol=1e-8)


def test_rows_are_predicted_by_themselves(fitted):
    X = rows()
    X[::3, 0], X[1::4, 1] = np.nan, np.nan
    for mixture in fitted:
        for method in (mixture.score_samples, mixture.predict_proba, mixture.predict):
            alone = np.concatenate([method(X[i : i + 1]) for i in range(12)])
            np.testing.assert_allclose(method(X)[:12], alone, rtol=1e-10, atol=1e-12)
        complete = X[~np.isnan(X).any(axis=1)]
        among = mixture.score_samples(X)[~np.isnan(X).any(axis=1)]
        np.testing.assert_allclose(among, mixture.score_samples(complete), rtol=1e-12)
        assert (mixture.predict(X) == mixture.predict_proba(X).argmax(axis=1)).all()


def test_a_row_of_nothing_has_the_mixing_weights(fitted):
    X = np.full((2, 2), np.nan)
    for mixture in fitted:
        np.testing.assert_allclose(mixture.score_samples(X), 0.0, atol=1e-12)
        np.testing.assert_allclose(mixture.predict_proba(X)[0], mixture.weights_, atol=1e-12)


def test_fits_and_default_predictions_refuse_them():
    X = rows()
    holey = X.copy()
    holey[3, 1] = np.nan
    mixture = GaussianMixturePMD(2, random_state=0).fit(X)
    for method in (mixture.predict, mixture.predict_proba, mixture.score_samples, mixture.score):
        with pytest.raises(ValueError, match=r"NaN: set_params\(handle_missing='marginal'\)"):
            method(holey)
    mixture.set_params(handle_missing="marginal")
    for call in (mixture.fit, mixture.partial_fit):
        with pytest.raises(ValueError, match="NaN in 1 of 80 rows"):
            call(holey)
    assert not get_tags(mixture).input_tags.allow_nan  # For fit does not.
    with pytest.raises(ValueError, match="infinity"):
        mixture.predict([[np.inf, 0.0]])
    with pytest.raises(ValueError, match="overflow"):
        mixture.predict([[1e200, np.nan]])
    with pytest.raises(ValueError, match="handle_missing"):
        mixture.set_params(handle_missing="drop").predict(X)
