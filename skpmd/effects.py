"""What a model says in words: predictions, and what they change by where a column changes.

Names and definitions are those of the package marginaleffects (Arel-Bundock, Greifer and Heiss
2024). What differs is the uncertainty: each particle is a draw of every estimate, so that averages
over rows, ratios and odds ratios have the intervals of their own posterior, without a delta method.
Predictions use no randomness, and all sides of a comparison are under the same draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csc_matrix, hstack, issparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _get_feature_names

from skpmd._base.mean_draws import N_DRAWS, RowAverages
from skpmd._base.utils import (
    as_floats,
    check_count,
    check_level,
    fill_docstrings,
    weighted_quantile,
)
from skpmd._base.validation import checked_weights
from skpmd._rows.opening import as_blocks
from skpmd._rows.table import is_in_memory
from skpmd._typing import Array, ArrayLike, Columns, Estimator, MatrixLike
from skpmd.wrappers import innermost

__all__ = [
    "Effects",
    "avg_comparisons",
    "avg_predictions",
    "avg_slopes",
    "comparisons",
    "predictions",
    "slopes",
]

_MAX_LEVELS = 25  # More are hardly meant to be compared, as in marginaleffects.
_STEP = 1e-4  # Of slopes, as a share of the column's range.
_OF_TWO = {
    "difference": ("-", lambda high, low: high - low),
    "ratio": ("/", lambda high, low: high / low),
    "lnratio": ("/", lambda high, low: np.log(high / low)),
    "odds_ratio": ("/", lambda high, low: _odds(high) / _odds(low)),
    "lnor": ("/", lambda high, low: np.log(_odds(high) / _odds(low))),
}
Comparison = Literal["difference", "ratio", "lnratio", "odds_ratio", "lnor"]
_TEXTS = {
    "<model>": """
        model : estimator
            A fitted estimator of skpmd that has a mean of y, or probabilities, under each particle,
            or a `Pipeline`, a search such as `GridSearchCV` and the like around one.
        X : array-like of shape (n_samples, n_features)
            Rows, as the outermost estimator takes them: an array, a sparse matrix, or a data frame
            of pandas or polars. Columns are changed before any step of a pipeline.
        """,
    "<variables>": """
        variables : str, int, list of these, or dict
            Columns to change, by names or places. A dict has for each what to compare. Of a number:
            a step from the value of the row, by default +1; a pair, whose second is compared to the
            first; ``"sd"``, one standard deviation around the mean; ``"iqr"``, the third quartile
            to the first; or ``"minmax"``. Columns of 0 and 1, or of bool, are compared at 1 to 0.
            Of strings and categories each level is compared to a reference, by default the first;
            it may be named, and so may a pair. None is the default.
        """,
    "<comparison>": """
        comparison : {"difference", "ratio", "lnratio", "odds_ratio", "lnor"}, default="difference"
            What is computed of two means or probabilities; of averages it is that of the averages,
            as in marginaleffects. Odds are of probabilities, lnratio and lnor are logarithms.
        """,
    "<by>": """
        by : str, int or array-like of shape (n_samples,), default=None
            A column of X, or labels of rows, for each value of which there is an average.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of rows in averages.
        """,
    "<n_draws>": """
        n_draws : int or None, default=1000
            Particles beyond so many are thinned systematically. None takes all, with their weights:
            means are then those of `predict` and `predict_proba`. (Those of processes, which are
            drawn, always are.)
        """,
    "<raises>": """
        Returns
        -------
        Effects
            Draws of all estimates.

        Raises
        ------
        TypeError
            If the innermost estimator has no mean of y under each particle.
        ValueError
            If a column, or what to compare of it, is not there, or another argument is wrong.
        """,
}


@dataclass(frozen=True, repr=False)
class Effects:
    """Draws of estimates, their summaries, and what each of them is of.

    Attributes
    ----------
    draws : ndarray of shape (n_draws, n_estimates)
        Each estimate under each draw.
    weights : ndarray of shape (n_draws,)
        Weights of the draws, which add up to 1; equal where particles were thinned.
    columns : dict of str to ndarray of shape (n_estimates,)
        What estimates are of, as far as there is more than one: ``term``, the column changed;
        ``contrast``, what was compared; ``group``, the class, component or target; and ``by``, the
        label of the rows averaged over, or ``row``, the place of a single one.
    quantity : str
        What the estimates are.
    null : float
        Estimate of no effect: 1 for ratios, otherwise 0.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skpmd import BayesianGLMRegressorPMD
    >>> from skpmd.effects import avg_comparisons
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = BayesianGLMRegressorPMD(random_state=0).fit(X[["bmi", "age"]], y)
    >>> found = avg_comparisons(model, X[["bmi", "age"]], {"bmi": 5.0, "age": 10.0})
    >>> found.names
    ['bmi, +5', 'age, +10']
    >>> found.mean.round(-1)
    array([50.,  0.])
    """

    draws: Array
    weights: Array
    columns: dict[str, Array]
    quantity: str
    null: float = 0.0

    @property
    def names(self) -> list[str]:
        """A name of each estimate: what its columns say."""
        n = self.draws.shape[1]
        rows = zip(*self.columns.values(), strict=True) if self.columns else [()] * n
        return [", ".join(map(str, row)) or "average" for row in rows]

    @property
    def mean(self) -> Array:
        """Posterior means, shape (n_estimates,)."""
        return self.weights @ self.draws

    @property
    def std(self) -> Array:
        """Posterior standard deviations, shape (n_estimates,)."""
        return np.sqrt(self.weights @ (self.draws - self.mean) ** 2)

    def interval(self, level: float = 0.9) -> Array:
        """Central credible intervals, quantiles of the draws.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Posterior probability of each interval.

        Returns
        -------
        ndarray of shape (n_estimates, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        return weighted_quantile(self.draws, self.weights, check_level(level)).T

    def summary(self, level: float = 0.9) -> dict[str, Array]:
        """A row for each estimate, ready for `pandas.DataFrame`.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        dict of str to ndarray of shape (n_estimates,)
            ``columns``, ``estimate`` (the mean), ``std``, ``lower``, ``upper``, and ``p_positive``,
            the probability of more than ``null``, ties counting half.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        lower, upper = self.interval(level).T
        p_positive = self.weights @ (0.5 * np.sign(self.draws - self.null) + 0.5)
        return {
            **self.columns, "estimate": self.mean, "std": self.std, "lower": lower, "upper": upper,
            "p_positive": p_positive,
        }  # fmt: skip


def predictions(model: Estimator, X: MatrixLike, *, n_draws: int | None = N_DRAWS) -> Effects:
    """Means of y, or probabilities, in each row.

    Parameters
    ----------
    <model>
    <n_draws>

    <raises>

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.effects import predictions
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    >>> found = predictions(model, X)
    >>> found.draws.shape, list(found.columns)
    ((1000, 450), ['group', 'row'])
    """
    return _predicted(model, X, None, n_draws)


def avg_predictions(
    model: Estimator, X: MatrixLike, *, by: Columns | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None, n_draws: int | None = N_DRAWS,
) -> Effects:  # fmt: skip
    """Averages over rows of means of y, or of probabilities.

    Parameters
    ----------
    <model>
    <by>
    <n_draws>

    <raises>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skpmd import BayesianGLMRegressorPMD
    >>> from skpmd.effects import avg_predictions
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = BayesianGLMRegressorPMD(random_state=0).fit(X, y)
    >>> avg_predictions(model, X, by="sex").names
    ['1.0', '2.0']
    """
    return _predicted(model, X, (by, sample_weight), n_draws)


def comparisons(
    model: Estimator, X: MatrixLike, variables: Any, *, comparison: Comparison = "difference",
    n_draws: int | None = N_DRAWS,
) -> Effects:  # fmt: skip
    """Compare, in each row, predictions at two values of a column.

    Parameters
    ----------
    <model>
    <variables>
    <comparison>
    <n_draws>

    <raises>

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.effects import comparisons
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean texture", "mean smoothness"]]
    >>> model = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    >>> found = comparisons(model, X[:1], "mean texture", comparison="odds_ratio")
    >>> found.mean.round(2), found.names
    (array([0.78]), ['mean texture, +1, 1, 0'])
    """
    return _compared(model, X, variables, comparison, None, n_draws)


def avg_comparisons(
    model: Estimator, X: MatrixLike, variables: Any, *, comparison: Comparison = "difference",
    by: Columns | ArrayLike | None = None, sample_weight: ArrayLike | None = None,
    n_draws: int | None = N_DRAWS,
) -> Effects:  # fmt: skip
    """Compare averages over rows of predictions at two values of a column.

    Parameters
    ----------
    <model>
    <variables>
    <comparison>
    <by>
    <n_draws>

    <raises>

    References
    ----------
    Arel-Bundock, V., Greifer, N. and Heiss, A. (2024). How to interpret statistical models using
    marginaleffects for R and Python. Journal of Statistical Software 111(9).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skpmd import BayesianGLMRegressorPMD
    >>> from skpmd.effects import avg_comparisons
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = BayesianGLMRegressorPMD("gamma", random_state=0).fit(X[["bmi", "sex"]], y)
    >>> found = avg_comparisons(model, X[["bmi", "sex"]], {"bmi": 5.0}, comparison="ratio")
    >>> found.interval(0.9).round(1)
    array([[1.3, 1.5]])
    """
    return _compared(model, X, variables, comparison, (by, sample_weight), n_draws)


def slopes(
    model: Estimator, X: MatrixLike, variables: Any, *, n_draws: int | None = N_DRAWS
) -> Effects:
    """Marginal effects: derivatives, in each row, of predictions in a column.

    They are differences over a step of 1e-4 of the column's range, centred at the row's value.
    Columns of strings, categories, or of 0 and 1 are compared as by `comparisons`.

    Parameters
    ----------
    <model>
    variables : str, int or list of these
        Columns, by names or places.
    <n_draws>

    <raises>

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import SparseGPRegressorPMD
    >>> from skpmd.effects import slopes
    >>> X = np.linspace(0.0, 3.0, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.01 * np.cos(99.0 * X[:, 0])
    >>> gp = SparseGPRegressorPMD(random_state=0).fit(X, y)
    >>> slopes(gp, X[10:50:10], 0).mean.round(1)  # Those of a sine.
    array([ 0.9,  0.5,  0. , -0.5])
    """
    return _compared(model, X, variables, "slope", None, n_draws)


def avg_slopes(
    model: Estimator, X: MatrixLike, variables: Any, *, by: Columns | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None, n_draws: int | None = N_DRAWS,
) -> Effects:  # fmt: skip
    """Average marginal effects: averages over rows of `slopes`.

    Parameters
    ----------
    <model>
    variables : str, int or list of these
        Columns, by names or places.
    <by>
    <n_draws>

    <raises>

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.effects import avg_slopes
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean texture", "mean smoothness"]]
    >>> model = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    >>> avg_slopes(model, X, "mean texture").mean.round(2)
    array([-0.05])
    """
    return _compared(model, X, variables, "slope", (by, sample_weight), n_draws)


fill_docstrings(
    _TEXTS, predictions, avg_predictions, comparisons, avg_comparisons, slopes, avg_slopes
)


# -------------------------------------------------------------------- how they are found
class _Contrast(NamedTuple):
    """Two of the values that a column is given, by their places, and what that is called."""

    label: str
    high: int
    low: int
    step: float | None = None  # Of a slope.


def _predicted(model, X, averages, n_draws):
    X, by, about, _ = _in_order(X, averages)
    (values,), weights, group = _means(model, [X], n_draws, by)
    columns = _columns(None, [None], group, about)
    return Effects(_flat([values]), weights, columns, "prediction")


def _compared(model, X, variables, comparison, averages, n_draws):
    if comparison not in (*_OF_TWO, "slope"):
        raise ValueError(f"comparison must be one of {', '.join(_OF_TWO)}, got {comparison!r}.")
    X, by, about, names = _in_order(X, averages)
    given = variables if isinstance(variables, Mapping) else _listed(variables)
    terms, labels, found = [], [], []
    for variable in given:
        place = _place(variable, names, X.shape[1], "variables")
        value = given[variable] if isinstance(given, Mapping) else None
        sides, contrasts = _contrasts(variable, _column(X, place), value, comparison)
        sides = [_replaced(X, place, side) for side in sides]
        values, weights, group = _means(model, sides, n_draws, by)
        of_two = _OF_TWO.get(comparison, _OF_TWO["difference"])[1]
        if comparison in ("odds_ratio", "lnor") and (values.min() < 0.0 or values.max() > 1.0):
            raise ValueError(
                f"comparison={comparison!r} is of probabilities, and means of y go from "
                f"{values.min():g} to {values.max():g}: ask for 'ratio' or 'difference'."
            )
        for one in contrasts:
            with np.errstate(divide="ignore", invalid="ignore"):
                found.append(of_two(values[one.high], values[one.low]) / (one.step or 1.0))
            terms.append(str(variable if names is None or not isinstance(variable, Integral)
                             else names[place]))  # fmt: skip
            labels.append(one.label)
    columns = _columns(terms, labels, group, about)
    null = 1.0 if comparison in ("ratio", "odds_ratio") else 0.0
    return Effects(_flat(found), weights, columns, comparison.replace("_", " "), null)


def _means(model, sides, n_draws, by):
    """Means (S, n or G, m, k) at several X, weights (m,) of draws, and labels of k, or None."""
    if n_draws is not None:
        check_count("n_draws", n_draws)
    inner, sides = zip(*(innermost(model, X) for X in sides), strict=True)
    if not hasattr(inner[0], "_draws_of_mean"):
        raise TypeError(
            f"{type(inner[0]).__name__} has no means of y under each particle, of which effects "
            "are made: give a fitted regressor, classifier or mixture of skpmd, or a pipeline or a "
            "search around one. ParticleMirrorDescent needs predict_mean, and a transformed target "
            "has another mean."
        )
    values, weights = inner[0]._draws_of_mean(sides, n_draws, by)
    k, classes = values.shape[3], getattr(inner[0], "classes_", None)
    if classes is not None:
        return values, weights, classes[-k:]
    return values, weights, np.arange(k) if k > 1 else None


def _flat(found):
    """Draws (m, E) of values (n, m, k) of each contrast: rows run fastest, then classes."""
    return np.concatenate([one.transpose(1, 2, 0).reshape(one.shape[1], -1) for one in found], 1)


def _columns(terms, labels, group, about):
    """What estimates are of, in the order of `_flat`; ``about`` is a name and labels, or None."""
    n, k = 1 if about is None else len(about[1]), 1 if group is None else len(group)
    columns = {}
    if terms is not None:
        columns["term"] = np.repeat(terms, n * k)
        columns["contrast"] = np.repeat(labels, n * k)
    if group is not None:
        columns["group"] = np.tile(np.repeat(group, n), len(labels))
    if about is not None:
        columns[about[0]] = np.tile(about[1], len(labels) * k)
    return columns


def _in_order(X, averages):
    """X, `RowAverages` or None, what estimates of rows are about, and names of columns or None.

    ``averages`` are None for each row, or what they are by, and weights; rows are then sorted.
    """
    if not is_in_memory(X) or as_blocks(X) is not None:
        raise TypeError(f"X must be in memory, got {type(X).__name__}: give a sample of its rows.")
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    names = _get_feature_names(X)
    if len(X.shape) != 2 or not X.shape[0]:
        raise ValueError(f"X must have rows and columns, got shape {tuple(X.shape)}.")
    n = X.shape[0]
    if averages is None:
        return X, None, ("row", np.arange(n)), names
    by, weight = averages
    weight = np.ones(n) if weight is None else checked_weights(weight, X).astype(np.float64)
    code, labels = np.zeros(n, dtype=np.int64), None
    if by is not None:
        if isinstance(by, str | Integral):
            by = _column(X, _place(by, names, X.shape[1], "by"))
        by = np.asarray(by)
        if by.shape != (n,):
            raise ValueError(f"by must be a column of X or have shape ({n},), got {by.shape}.")
        labels, code = np.unique(by, return_inverse=True)
        order = np.argsort(code, kind="stable")
        X, code, weight = _safe_indexing(X, order), code[order], weight[order]
    total = np.bincount(code, weight)
    if not (total > 0.0).all():
        raise ValueError("sample_weight is zero in all rows of an average: leave these rows out.")
    about = None if labels is None else ("by", labels)
    return X, RowAverages(code, weight / total[code], len(total)), about, names


def _listed(variables):
    given = [variables] if isinstance(variables, str | Integral) else list(variables)
    if not given:
        raise ValueError("variables must name a column of X, got none.")
    return given


def _place(column, names, n, parameter):
    """The place of a column that is named, or given by its place."""
    known = [] if names is None else list(names)
    if isinstance(column, str) and column in known:
        return known.index(column)
    if isinstance(column, Integral) and not isinstance(column, bool) and -n <= column < n:
        return int(column) % n
    what = f"its columns are {', '.join(known[:5])}" if known else f"it has {n} without names"
    raise ValueError(f"{parameter}={column!r} is no column of X: {what}.")


def _column(X, place):
    """A column (n,), as X has it."""
    if issparse(X):
        return X.tocsc()[:, [place]].toarray()[:, 0]
    return _safe_indexing(X, place, axis=1)


def _replaced(X, place, values):
    """X with other values in a column, of the same kind; the given X stays as it is."""
    values = np.broadcast_to(values, X.shape[0])
    if issparse(X):
        X = X.tocsc()
        return hstack([X[:, :place], csc_matrix(values[:, None]), X[:, place + 1 :]], "csr")
    if isinstance(X, np.ndarray):
        X = X.astype(np.result_type(X.dtype, values.dtype))
        X[:, place] = values
        return X
    column = _column(X, place)
    if np.asarray(column).dtype.kind not in "biuf":
        values = type(column)(values.tolist(), dtype=column.dtype)
    if hasattr(X, "iloc"):
        X = X.copy(deep=False)
        X.isetitem(place, getattr(values, "array", values))
        return X
    name = X.columns[place]
    return X.with_columns(type(column)(name, values))


def _contrasts(variable, column, given, comparison):
    """Values of a column to predict at, scalars or (n,), and the `_Contrast`s of these."""
    values, sign = np.asarray(column), _OF_TWO.get(comparison, _OF_TWO["difference"])[0]
    is_real = values.dtype.kind == "O" and all(isinstance(one, Real) for one in values)
    if is_real or values.dtype.kind == "f":
        values = values.astype(np.float64)  # A step of a slope is less than single precision.
    is_pair = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    if is_pair and len(given) != 2:
        raise ValueError(f"variables[{variable!r}] must be a pair, a step or a word, got {given}.")
    if values.dtype.kind not in "biuf":
        return _of_levels(variable, column, list(given) if is_pair else given, sign)
    if given is None and np.isin(values, (0, 1)).all():
        given, is_pair = (False, True) if values.dtype.kind == "b" else (0, 1), True
    if is_pair:
        low, high = given
        as_floats(f"variables[{variable!r}]", given)
        names = [str(one) if isinstance(one, bool) else f"{one:g}" for one in (high, low)]
        return [low, high], [_Contrast(f" {sign} ".join(names), 1, 0)]
    if comparison == "slope":
        if given is not None:
            raise ValueError(f"slopes take no values to compare, got {given!r} of {variable!r}.")
        step = _STEP * (float(np.ptp(values)) or max(abs(float(values[0])), 1.0))
        return [values - 0.5 * step, values + 0.5 * step], [_Contrast("dY/dX", 1, 0, step)]
    if given is None or (isinstance(given, Real) and not isinstance(given, bool)):
        given = 1 if given is None else given
        return [values, values + given], [_Contrast(f"{given:+g}", 1, 0)]
    ends = {
        "sd": lambda: np.mean(values) + np.array([-0.5, 0.5]) * np.std(values, ddof=1),
        "iqr": lambda: np.quantile(values, [0.25, 0.75]),
        "minmax": lambda: np.array([values.min(), values.max()]),
    }
    if not isinstance(given, str) or given not in ends:
        raise ValueError(
            f"variables[{variable!r}] must be a step, a pair of values, or one of "
            f"{', '.join(ends)}, got {given!r}."
        )
    return list(ends[given]()), [_Contrast(given, 1, 0)]


def _of_levels(variable, column, given, sign):
    """The same of strings and categories: each level is compared to the first or the given."""
    some = [one for one in column if isinstance(one, str) or one == one and one is not None]
    levels = list(getattr(column.dtype, "categories", sorted(set(some))))
    levels = [one for one in levels if one in set(some)]
    if isinstance(given, list):
        levels, reference = [one for one in given if one in levels], given
    else:
        reference = [levels[0] if given is None else given] if levels else [given]
    if unknown := [one for one in reference if one not in levels]:
        raise ValueError(
            f"variables[{variable!r}] must name levels of the column, and {unknown[0]!r} is not "
            f"among {levels[:5]}."
        )
    if not 1 < len(levels) <= _MAX_LEVELS:
        raise ValueError(
            f"The column of variables={variable!r} has {len(levels)} levels, and 2 to "
            f"{_MAX_LEVELS} can be compared to one: give a pair of levels."
        )
    levels = [reference[0], *(one for one in levels if one != reference[0])]
    first = levels[0]
    return levels, [
        _Contrast(f"{one} {sign} {first}", place, 0) for place, one in enumerate(levels) if place
    ]


def _odds(probability):
    return probability / (1.0 - probability)
