"""Labels of groups that are missing or large, and offsets out of range."""

import numpy as np
import pytest

from skpmd import BayesianGLMRegressorPMD

pd = pytest.importorskip("pandas")


def frame_of(labels):
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(8), 25)
    frame = pd.DataFrame({"x": rng.normal(size=200), "g": np.asarray(labels)[group]})
    return frame, frame.x + rng.normal(size=8)[group] + 0.5 * rng.normal(size=200)


def model():
    return BayesianGLMRegressorPMD(groups="g", random_state=0)


def test_rows_without_a_group_are_warned_of():
    """As groups of their own they held 90 % intervals of the intercept to .2 to .7."""
    frame, y = frame_of([*"abcdefgh"])
    frame.loc[:9, "g"] = None
    with pytest.warns(UserWarning, match="10 of 200 rows have no label of 'g'.*Leave these rows"):
        model().fit(frame, y)
    model().fit(frame, y, sample_weight=frame.g.notna())  # Rows without weight are not there.


@pytest.mark.parametrize("kind", ["Int64", "object"])
def test_large_whole_labels_stay_apart(kind):
    """As floats all of them were one: 2**60 and 2**60 + 7 are the same."""
    frame, y = frame_of(2**60 + np.arange(8))
    known = model().fit(frame, y)
    some = frame.astype({"g": kind})
    some.loc[0, "g"] = None
    with pytest.warns(UserWarning, match="1 of 200 rows have no label"):
        found = model().fit(some, y)
    assert found.group_effects_.labels.tolist() == known.group_effects_.labels.tolist()
    np.testing.assert_array_equal(known.predict(some)[1:], known.predict(frame)[1:])
    with pytest.raises(ValueError, match=r"groups='g' holds 11529.* as a float.*strings"):
        model().fit(frame.astype({"g": float}), y)


def test_exposures_given_as_offsets_are_refused():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=100), rng.uniform(100.0, 5000.0, 100)])
    y = rng.poisson(1e-3 * X[:, 1])
    for family in ("poisson", "negative_binomial"):
        given = BayesianGLMRegressorPMD(family, offset=1, random_state=0)
        with pytest.raises(ValueError, match=r"offset reaches 4\d\d\d.*give the logarithm"):
            given.fit(X, y)
    BayesianGLMRegressorPMD(offset=1, random_state=0).fit(
        X, X[:, 1] + rng.normal(size=100)
    )  # Without a link.


def test_means_of_new_groups_that_one_particle_makes_are_warned_of():
    """Of 3 groups the mean of exp(effect) is infinite: seeds had 38 and 1.7e9 where y has 2.7."""
    rng = np.random.default_rng(0)
    group = np.arange(180) % 3
    frame = pd.DataFrame({"x": rng.normal(size=180), "g": np.array([*"abc"])[group]})
    mu = np.exp(1.0 + 0.3 * frame.x + rng.normal(0.0, 0.5, 3)[group])
    found = BayesianGLMRegressorPMD("gamma", groups="g", random_state=0)
    found.fit(frame, rng.gamma(2.0, mu / 2.0))
    assert (found.predict(frame) < 20.0).all()
    new = frame.head(2).assign(g="other")
    with pytest.warns(UserWarning, match="mean for a new or missing group is mostly that of one"):
        found.predict(new)
    assert (found.predict_quantiles(new, 0.5) < 10.0).all()
    found.set_params(groups_at="population")
    assert (found.predict(new) < 10.0).all()
