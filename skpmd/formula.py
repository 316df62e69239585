"""Formulas: data frames of numbers out of ``"claims ~ C(car) + bs(age, 4)"``."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from skpmd._base.utils import warn
from skpmd._typing import Frame

__all__ = ["Design", "design"]


class Design(NamedTuple):
    """What `design` makes of a formula and a data frame.

    Attributes
    ----------
    X : DataFrame of shape (n, p)
        Columns of float64 without an intercept, which estimators have themselves, and last the
        columns with roles. Rows have the index of the given frame.
    y : Series of shape (n,) or None
        The response, None if the formula has none: a column as it is in the frame, where it may
        hold classes, or the float64 values of an expression.
    roles : dict of str to str
        Which column of X is the ``exposure``, ``offset`` or ``trials``: keywords for an estimator.
    of : callable
        ``of(frame)`` is the X of other rows, a DataFrame of shape (n_rows, p), with the categories,
        knots, means and scales of the first rows. The response may be absent. Missing values, new
        categories, and values beyond the knots (unless ``bs`` has ``extrapolation="extend"``) are a
        `ValueError`. ``FunctionTransformer(of)`` is a step of a pipeline, and can be pickled.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.formula import design
    >>> frame = pd.DataFrame({"car": ["a", "b", "a", "b"], "claim": ["no", "no", "no", "yes"]})
    >>> rows = design("claim ~ car", frame)
    >>> model = BayesianLogisticRegressionPMD(random_state=0)
    >>> pipeline = make_pipeline(FunctionTransformer(rows.of), model).fit(frame, frame["claim"])
    >>> pipeline.predict_proba(pd.DataFrame({"car": ["b"]})).shape
    (1, 2)
    """

    X: Frame
    y: Any
    roles: dict[str, str]
    of: Callable[[Frame], Frame]


def design(
    formula: str,
    frame: Frame,
    *,
    exposure: str | None = None,
    offset: str | None = None,
    trials: str | None = None,
) -> Design:
    """Columns of numbers that a formula makes of a data frame.

    The formulas are formulaic's, which are those of R: ``a + b``, ``a:b``, ``a * b``, ``- a``,
    ``.`` for all other columns, ``C(a)`` for categories (columns of strings are categories anyway),
    ``bs(a, 4)`` and ``cr(a, 4)`` for splines, ``poly``, ``scale``, ``center``, ``log``, any
    ``np.log1p(a)``, ``{a / b}`` for arithmetic, and ```a b``` for a column whose name has a space.
    They are run as Python code, which sees the columns and nothing else of the caller's. Needs the
    extra: ``pip install skpmd[formula]``.

    Parameters
    ----------
    formula : str
        ``"response ~ terms"``, or terms alone. The response is a column or an expression such as
        ``log(claims)``. With ``0 +`` among the terms the first category gets a column, too.
    frame : DataFrame of shape (n_rows, n_columns)
        The rows. Those with a missing value in a column that is used are left out, with a warning
        that says how many, before categories, knots, means and scales are taken.
    exposure, offset, trials : str, optional
        Column, or expression of columns such as ``"log(years)"``, that plays this role.

    Returns
    -------
    Design
        ``X``, ``y``, ``roles``, and ``of``, which encodes other rows in the same way.

    Raises
    ------
    ImportError
        If formulaic is not installed.
    ValueError
        If the formula cannot be read or computed or has more than one response, if a column with a
        role is a term as well or has no numbers, or if no row is complete.

    Examples
    --------
    >>> import pandas as pd
    >>> from skpmd.formula import design
    >>> frame = pd.DataFrame({
    ...     "claims": [0, 1, 0, 2], "car": ["a", "b", "a", "b"], "age": [20.0, 30.0, 40.0, 60.0],
    ...     "years": [1.0, 0.5, 1.0, 2.0],
    ... })
    >>> rows = design("claims ~ C(car) + log(age)", frame, exposure="years")
    >>> rows.X.round(2)
       car[b]  log(age)  years
    0     0.0      3.00    1.0
    1     1.0      3.40    0.5
    2     0.0      3.69    1.0
    3     1.0      4.09    2.0
    >>> rows.roles
    {'exposure': 'years'}
    >>> rows.of(pd.DataFrame({"car": ["b"], "age": [50.0], "years": [1.0]})).round(2)
       car[b]  log(age)  years
    0     1.0      3.91    1.0
    """
    try:
        import pandas as pd
        from formulaic import Formula
        from formulaic.parser import DefaultFormulaParser
    except ImportError as error:
        raise ImportError(
            "skpmd.formula needs formulaic 1.2 or newer: pip install skpmd[formula]."
        ) from error
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"frame has to be a DataFrame of pandas, got a {type(frame).__name__}.")
    named = {"exposure": exposure, "offset": offset, "trials": trials}
    named = {role: one for role, one in named.items() if one is not None}
    context = {"__formulaic_variables_available__": [c for c in frame if c not in named.values()]}
    with _clear_errors(formula):
        one_part = DefaultFormulaParser(feature_flags={"twosided"})  # a | would divide them
        parsed = Formula.from_spec(formula, parser=one_part, context=context)
        left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", parsed)
        parts = [right]
        for one in named.values():  # Apart, as a term may take a column from others.
            parts.append(Formula(f"0 + `{one}`" if one in frame else f"0 + {{{one}}}"))
        used = _columns_of([*parts, left or []], frame)
    frame = _complete(frame, used)
    X, specs = _encode(formula, parts, frame)
    roles = {role: _short(str(part)) for role, part in zip(named, parts[1:], strict=True)}
    for role, column in roles.items():
        if [*X].count(column) != 1:  # Categories have other names.
            raise ValueError(
                f"{role}={column!r} has to be numbers, and no term of {formula!r}. A term that is "
                f"the same column can be written as I({column})."
            )
    return Design(X, _response(formula, left, frame), roles, partial(_other_rows, formula, specs))


@contextmanager
def _clear_errors(formula):
    """What formulaic raises, or only warns of, as a ValueError that names the formula."""
    from formulaic.errors import DataMismatchWarning, FormulaicError

    try:
        with warnings.catch_warnings():
            # New categories, which would be given the numbers of the first one.
            warnings.simplefilter("error", DataMismatchWarning)
            yield
    except (DataMismatchWarning, FormulaicError, SyntaxError, TypeError, ValueError) as error:
        reason = re.sub(r"\x1b\[[\d;]*m| They are being .*", "", str(error))  # no colours
        if "NameError" in reason:
            reason += " Names are columns of frame; exposure, offset and trials are keywords."
        if isinstance(error, TypeError):
            reason += " Give dates and durations as numbers."
        raise ValueError(f"formula={formula!r} does not fit frame: {reason}") from error


def _columns_of(parts, frame):
    """Names of the columns that formulas are made of."""
    names = set()
    for expression in {factor.expr for part in parts for term in part for factor in term.factors}:
        names |= {expression, *re.findall("`([^`]+)`", expression)}
        if expression not in frame:
            code = ast.parse(re.sub("`[^`]+`", "_", expression), mode="eval")
            names |= {node.id for node in ast.walk(code) if isinstance(node, ast.Name)}
    return [name for name in frame if name in names]


def _complete(frame, columns):
    """Rows without missing values; formulaic would leave the others out after taking means."""
    missing = frame[columns].isna()
    incomplete, where = missing.any(axis=1), missing.columns[missing.any()].tolist()
    if incomplete.all():
        raise ValueError(f"frame has no row without missing values in {where or columns}.")
    if where:
        warn(
            f"{incomplete.sum()} of {len(frame)} rows have missing values in {where} and are left "
            "out of X and y.",
            UserWarning,
        )
    return frame[~incomplete]


def _encode(formula, parts, frame):
    """One frame of floats, and the specs of its parts, which are formulas or such specs."""
    import pandas as pd

    # Columns of pandas' own strings formulaic takes for numbers.
    frame = frame.astype(dict.fromkeys(frame.select_dtypes("string"), object))
    with _clear_errors(formula):
        found = [part.get_model_matrix(frame, output="pandas", na_action="raise") for part in parts]
        X = pd.concat(found, axis=1).drop(columns="Intercept", errors="ignore").astype(float)
    X.columns = [_short(name) for name in X]
    return X, [matrix.model_spec for matrix in found]


def _short(name):
    """``C(car)[T.b]`` is ``car[b]``, and names with spaces lose their quotes."""
    return re.sub(r"\bC\((\w+)\)(?=\[)|(?<=\[)T\.|`", lambda match: match[1] or "", name)


def _other_rows(formula, specs, frame):
    return _encode(formula, specs, frame)[0]


def _response(formula, left, frame):
    """A column as it is, for it may hold classes; an expression as numbers."""
    if left is None:
        return None
    names = [str(term).strip("`") for term in left]
    if len(names) == 1 and names[0] in frame:
        return frame[names[0]]
    y, _ = _encode(formula, [left], frame)
    if y.shape[1] != 1:
        raise ValueError(
            f"formula={formula!r} needs one response, got {list(y)}. Of successes and failures "
            "give the successes, and trials='successes + failures'."
        )
    return y.iloc[:, 0]
