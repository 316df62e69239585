"""Coordinates of linear models: the same names, and the same origin, in each of them."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    BayesianOrdinalClassifierPMD,
)


def test_the_dose_that_half_survive_is_where_coordinates_say():
    """-intercept / coefficient is at the columns' own scale, whichever estimator has fitted."""
    dose = np.tile(np.linspace(8.0, 12.0, 40), 5)
    dead = (np.random.default_rng(7).random(200) < expit(2.0 * (dose - 10.3))).astype(float)
    table = pd.DataFrame({"dose": dose})
    groups = table.assign(batch=np.tile([0, 1], 100))
    of_log_odds = [
        BayesianLogisticRegressionPMD(random_state=0).fit(table, dead),
        BayesianGLMRegressorPMD("binomial", random_state=0).fit(table, dead),
        BayesianLogisticRegressionPMD(groups=["batch"], random_state=0).fit(groups, dead),
        BayesianOrdinalClassifierPMD(random_state=0).fit(table, dead),
    ]

    def odds(x):
        return of_log_odds[0].decision_function(pd.DataFrame({"dose": [x]}))[0]

    expected = brentq(odds, 8.0, 12.0)
    for model in of_log_odds:
        found = model.posterior_
        assert found.names[0] == "dose" and found.variables["coef"].dims == ("feature",)
        if "intercept" in found.variables:
            ld50 = found.derive(lambda theta: -theta["intercept"] / theta["dose"])
        else:
            ld50 = found.derive(lambda theta: theta["cut[1]"] / theta["dose"])
        # The sd of the LD50 is .07.
        assert ld50.quantile(0.5) == pytest.approx(expected, abs=0.03)
        assert found.summary()["unit"][1] == "where columns are 0 (prior: at their means)"


def test_columns_named_as_other_coordinates_are_told_apart():
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(120, 2)), columns=["shape", "intercept"])
    table["years"], y = rng.uniform(0.3, 3.0, 120), rng.gamma(2.0, size=120)
    model = BayesianGLMRegressorPMD("gamma", exposure="years", random_state=0)
    found = model.fit(table, y).posterior_
    assert found.names == ["coef[shape]", "coef[intercept]", "intercept", "shape"]
    assert (found["shape"].draws == found.particles[:, 3]).all()
    assert found.to_frame().shape[1] == 5
    classes = BayesianLogisticRegressionPMD(random_state=0).fit(table, y > 1.0).posterior_
    assert classes.names == ["shape", "coef[intercept]", "years", "intercept"]


# ------------------------------------------------------------------- groups by their names
def rows_of_schools():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"hours": rng.normal(size=60), "school": [f"s{j % 6}" for j in range(60)]})
    return table, rng.normal(size=60) + np.arange(60) % 6


def test_effects_have_names():
    table, y = rows_of_schools()
    table["class"] = [f"c{j % 5}" for j in range(60)]
    options = {"n_particles": 300, "random_state": 0}
    effects = BayesianGLMRegressorPMD(groups=["school"], **options).fit(
        table[["hours", "school"]], y
    ).group_effects_  # fmt: skip
    assert effects["school"] is effects and effects[0] is effects.labels
    one = effects["s3"]
    np.testing.assert_array_equal(one.mean, effects.mean[[3]])
    np.testing.assert_array_equal(one.interval(0.9), effects.interval(0.9)[[3]])
    assert one.draws.shape == (2, *effects.draws.shape[1:]) and one.summary()["group"] == ["s3"]
    with pytest.raises(KeyError, match="neither 'school', the column of groups.*s0, s1"):
        effects["s9"]
    both = BayesianGLMRegressorPMD(groups=["school", "class"], **options).fit(table, y)
    assert both.group_effects_["class"]["c4"].labels == ["c4"]


@pytest.mark.parametrize(
    ("estimator", "cut"),
    [
        (BayesianGLMRegressorPMD, None),
        (BayesianLogisticRegressionPMD, [2.5]),
        (BayesianOrdinalClassifierPMD, [1.5, 3.5]),
    ],
)
def test_one_column_of_groups_needs_no_list(estimator, cut):
    table, y = rows_of_schools()
    y = y if cut is None else np.digitize(y, cut)
    fits = [
        estimator(groups=groups, n_particles=200, random_state=0).fit(table, y)
        for groups in (["school"], "school", -1)
    ]
    for one in fits[1:]:
        np.testing.assert_array_equal(one.coef_, fits[0].coef_)
    with pytest.raises(ValueError, match="groups='job' is no column of X: its columns are hours"):
        estimator(groups="job").fit(table, y)
