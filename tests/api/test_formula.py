"""Formulas make columns of numbers, and the same ones of other rows."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpmd import BayesianLogisticRegressionPMD
from skpmd.formula import design

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")


@pytest.fixture
def frame():
    """Policies whose index is neither in order nor unique."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "claims": rng.poisson(2.0, 40),
            "car": pd.Series(list("abcd") * 10, dtype=object),
            "age": rng.uniform(20.0, 60.0, 40),
            "policy years": rng.uniform(0.5, 1.0, 40),
            "years": rng.uniform(0.5, 1.0, 40),
        }
    ).set_axis([*range(20), *range(20)])


def test_columns_have_readable_names_and_no_intercept(frame):
    X, y, roles, _ = design("claims ~ C(car) + bs(age, 4) + `policy years`", frame)
    splines = [f"bs(age, 4)[{k}]" for k in range(1, 5)]
    assert X.columns.tolist() == ["car[b]", "car[c]", "car[d]", *splines, "policy years"]
    assert set(X.dtypes.astype(str)) == {"float64"} and X.index.equals(frame.index)
    np.testing.assert_array_equal(X["car[c]"], frame["car"] == "c")
    np.testing.assert_array_equal(X["policy years"], frame["policy years"])
    assert y.equals(frame["claims"]) and roles == {}


@pytest.mark.parametrize(
    "formula, columns",
    [
        ("age * car", ["age", "car[b]", "car[c]", "car[d]"] + [f"age:car[{one}]" for one in "bcd"]),
        ("claims ~ 0 + C(car)", ["car[a]", "car[b]", "car[c]", "car[d]"]),
        ("claims ~ C(car, contr.treatment('d'))",
         [f"C(car, contr.treatment('d'))[{one}]" for one in "abc"]),
        ("claims ~ . - car", ["age", "policy years"]),
        ("claims ~ {age / 10} + np.log(age)", ["age / 10", "np.log(age)"]),
    ],
)  # fmt: skip
def test_formulas(frame, formula, columns):
    X = design(formula, frame, exposure="years").X
    assert X.columns.tolist() == [*columns, "years"]


def test_roles_are_columns_of_their_own(frame):
    X, _, roles, of = design(
        "claims ~ car", frame, exposure="policy years", offset="log(years)", trials="claims + 1"
    )
    assert roles == {"exposure": "policy years", "offset": "log(years)", "trials": "claims + 1"}
    assert X.columns[-3:].tolist() == list(roles.values())
    np.testing.assert_array_equal(X["log(years)"], np.log(frame["years"]))
    np.testing.assert_array_equal(of(frame.iloc[:3]), X.iloc[:3])
    both = design("claims ~ I(years)", frame, exposure="years")
    assert both.X.columns.tolist() == ["I(years)", "years"]


def test_a_role_does_not_change_the_terms(frame):
    """Beside a column of its own formulaic leaves one of the columns of ``car:years`` out."""
    X = design("claims ~ car:years", frame, exposure="years").X
    assert X.columns.tolist() == [*(f"car[{one}]:years" for one in "abcd"), "years"]


@pytest.mark.parametrize(
    "formula, expected",
    [
        ("np.log1p(claims) ~ car", lambda frame: np.log1p(frame["claims"])),
        ("{claims > 2} ~ car", lambda frame: (frame["claims"] > 2).astype(float)),
        ("`policy years` ~ car", lambda frame: frame["policy years"]),
        ("car ~ age", lambda frame: frame["car"]),
    ],
)
def test_responses(frame, formula, expected):
    y = design(formula, frame).y
    pd.testing.assert_series_equal(y, expected(frame), check_names=False)


def test_without_a_response_there_is_no_y(frame):
    assert design("~ age", frame).y is None and design("age", frame).y is None


def test_a_response_of_ordered_classes_stays_as_it_is(frame):
    grades = pd.Categorical.from_codes(np.arange(40) % 3, ["low", "mid", "high"], ordered=True)
    y = design("grade ~ age", frame.assign(grade=grades)).y
    assert y.cat.ordered and y.cat.categories.tolist() == ["low", "mid", "high"]


# ------------------------------------------------------------------- missing values
def test_rows_with_missing_values_are_left_out_before_anything_is_learnt(frame):
    holes = frame.reset_index(drop=True)
    holes.loc[1, "age"], holes.loc[2, "car"], holes.loc[3, "years"] = np.nan, None, np.nan
    holes["unused"], holes["claims"] = np.nan, holes["claims"].astype(float)
    holes.loc[[4, 5], "claims"] = np.nan
    formula = "claims ~ C(car) + bs(age, 4) + scale(`policy years`) + center(age)"
    text = r"5 of 40 rows have missing values in \['claims', 'car', 'age', 'years'\]"
    with pytest.warns(UserWarning, match=text) as found:
        X, y, _, of = design(formula, holes, exposure="years")
    assert found[0].filename == __file__
    whole = holes.drop(index=[1, 2, 3, 4, 5])
    expected = design(formula, whole, exposure="years")
    pd.testing.assert_frame_equal(X, expected.X)
    assert y.equals(whole["claims"]) and X.index.equals(y.index)
    assert X["center(age)"].mean() == pytest.approx(0.0, abs=1e-12)
    pd.testing.assert_frame_equal(of(whole.drop(columns="claims")), X)


def test_without_a_complete_row_there_is_no_design(frame):
    with pytest.raises(ValueError, match=r"no row without missing values in \['age'\]"):
        design("claims ~ age", frame.assign(age=np.nan))


# ------------------------------------------------------------------- other rows
FORMULA = "claims ~ C(car) + bs(age, 4) + scale(age) + poly(age, 2) + center(`policy years`)"


def test_other_rows_have_the_encoding_of_the_first(frame):
    X, _, _, of = design(FORMULA, frame, exposure="years")
    few = frame.iloc[[7, 3, 3]].drop(columns="claims")
    pd.testing.assert_frame_equal(of(few), X.iloc[[7, 3, 3]])
    assert of(few.iloc[:1]).shape == (1, X.shape[1]) and of(few.iloc[:0]).shape == (0, X.shape[1])
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(of))(few), of(few))
    assert len(pickle.dumps(of)) < 10_000  # It holds no rows.


@pytest.mark.parametrize(
    "change, text",
    [
        ({"car": "z"}, "categories.*'z'"),
        ({"car": None}, r"C\(car\)` contains null values"),
        ({"age": np.nan}, "age.*contains null values"),
        ({"years": np.nan}, "years` contains null values"),
        ({"age": 90.0}, "beyond upper"),
        ({"age": "old"}, "age"),
    ],
)
def test_other_rows_that_do_not_fit(frame, change, text):
    of = design(FORMULA, frame, exposure="years").of
    with pytest.raises(ValueError, match=f"(?s)does not fit frame.*{text}"):
        of(frame.iloc[:3].assign(**change))


def test_other_rows_lack_a_column(frame):
    with pytest.raises(ValueError, match="'car'.* Names are columns of frame"):
        design(FORMULA, frame).of(frame.drop(columns="car"))


def test_values_beyond_the_knots_may_be_asked_for(frame):
    of = design("claims ~ bs(age, 4, extrapolation='extend')", frame).of
    assert np.isfinite(of(frame.assign(age=90.0))).all(axis=None)


# ------------------------------------------------------------------- mistakes
@pytest.mark.parametrize(
    "formula, roles, text",
    [
        ("claims ~ agee", {}, "agee.*Names are columns of frame"),
        ("claims ~ age + offset(log(years))", {}, "offset.*are keywords"),
        ("claims ~ age +", {}, r"formula='claims ~ age \+' does not fit"),
        ("claims ~ {age +}", {}, "does not fit"),
        ("claims ~ age | car", {}, "`|`"),
        ("claims ~ (1 | car)", {}, "`|`"),
        ("claims + years ~ age", {}, r"one response, got \['claims', 'years'\].*trials="),
        ("C(car) ~ age", {}, "one response"),
        ("0 ~ age", {}, r"one response, got \[\]"),
        ("claims ~ age", {"exposure": "car"}, "exposure='car' has to be numbers"),
        ("claims ~ years", {"offset": "years"}, r"no term of 'claims ~ years'.*I\(years\)"),
        ("claims ~ age", {"exposure": "yers"}, "yers"),
        ("claims ~ age", {"offset": "log(years"}, r"log\(years"),
    ],
)
def test_mistakes_are_named(frame, formula, roles, text):
    with pytest.raises(ValueError, match=f"(?s){text}"):
        design(formula, frame, **roles)


def test_other_tables_are_refused(frame):
    with pytest.raises(ValueError, match="DataFrame of pandas, got a dict"):
        design("claims ~ age", frame.to_dict())


def test_code_of_a_formula_does_not_see_the_caller(frame):
    secret = 3.0  # noqa: F841
    with pytest.raises(ValueError, match="secret"):
        design("claims ~ {age * secret}", frame)


def test_without_formulaic_the_error_names_the_extra(monkeypatch, frame):
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r"pip install skpmd\[formula\]"):
        design("claims ~ age", frame)


# ------------------------------------------------------------------- scikit-learn
def test_a_pipeline_encodes_the_rows_of_each_fold(frame):
    rows = design("{claims > 1} ~ C(car) + bs(age, 4)", frame)
    pipeline = make_pipeline(
        FunctionTransformer(rows.of), BayesianLogisticRegressionPMD(random_state=0)
    )
    found = cross_val_predict(pipeline, frame, rows.y, cv=3, method="predict_proba")
    by_hand = cross_val_predict(pipeline[-1], rows.X, rows.y, cv=3, method="predict_proba")
    np.testing.assert_array_equal(found, by_hand)
    fitted = pickle.loads(pickle.dumps(clone(pipeline).fit(frame, rows.y)))
    assert fitted[-1].feature_names_in_.tolist() == rows.X.columns.tolist()
    fitted.predict(frame.iloc[:2].drop(columns="claims"))


@pytest.mark.parametrize("kind", ["object", "string", "category"])
def test_strings_of_any_dtype_are_categories(kind):
    frame = pd.DataFrame({"y": [1.0, 2.0, 3.0, 4.0], "g": ["a", "b", "c", "b"]}).astype({"g": kind})
    found = design("y ~ g", frame)
    assert [*found.X] == ["g[b]", "g[c]"]
    assert found.of(frame).equals(found.X)


@pytest.mark.parametrize("make", [pd.date_range, pd.period_range])
def test_dates_in_formulas_have_a_clear_error(make):
    frame = pd.DataFrame({"y": [1.0, 2.0, 3.0], "t": make("2020-01-01", periods=3)})
    with pytest.raises(ValueError, match=r"formula='y ~ t' .*dates and durations as numbers"):
        design("y ~ t", frame)
