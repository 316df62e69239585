"""What a model says in words: predictions, and what they change by where a column changes.

Names and definitions are those of the package marginaleffects (Arel-Bundock, Greifer and Heiss
2024). What differs is the uncertainty: each particle is a draw of every estimate, so that averages
over rows, ratios and odds ratios have the intervals of their own posterior, without a delta method.
Predictions use no randomness, and all sides of a comparison are under the same draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from skpmd._base.mean_draws import N_DRAWS
from skpmd._base.parameters import WeightedDraws
from skpmd._base.utils import check_count, fill_docstrings
from skpmd._contrasts import (
    OF_TWO,
    by_column,
    column_at,
    contrasts_of,
    place_of_column,
    rows_in_order,
    with_column,
)
from skpmd._typing import Array, ArrayLike, Columns, Estimator, MatrixLike
from skpmd.engine.particles import deviations
from skpmd.wrappers import innermost, inside

__all__ = [
    "Effects",
    "avg_comparisons",
    "avg_predictions",
    "avg_slopes",
    "comparisons",
    "predictions",
    "slopes",
]

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
            Of more particles so many are drawn by their weights. None takes all, weighted: then
            means are those of `predict` and, up to ``prediction_tol``, of `predict_proba`.
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
class Effects(WeightedDraws):
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

    def __repr__(self):
        m, n = self.draws.shape
        return f"Effects({self.quantity}: {n} estimates, {m} draws; see summary())"

    @property
    def names(self) -> list[str]:
        """A name of each estimate: what was changed, and what else tells it from others."""
        given, n = self.columns, self.draws.shape[1]
        said = [given[k] for k in given if k in ("term", "contrast") or len(set(given[k])) > 1]
        rows = zip(*(said or given.values()), strict=True) if given else [()] * n
        return [", ".join(map(str, row)) or "average" for row in rows]

    @property
    def mean(self) -> Array:
        """Posterior means, shape (n_estimates,)."""
        return self.weights @ self.draws

    @property
    def std(self) -> Array:
        """Posterior standard deviations, shape (n_estimates,)."""
        return deviations(self.weights, self.draws)

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
        return {
            **self.columns, "estimate": self.mean, "std": self.std, "lower": lower, "upper": upper,
            "p_positive": self._p_positive(self.null),
        }  # fmt: skip

    def _weighted(self):
        return self.draws, self.weights


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
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.effects import comparisons
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = BayesianLogisticRegressionPMD(random_state=0).fit(X, y == 1)
    >>> comparisons(model, X[:2], 1, comparison="odds_ratio").names
    ['sepal width (cm), +1, 0', 'sepal width (cm), +1, 1']
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
    array([[1.3, 1.4]])
    """
    return _compared(model, X, variables, comparison, (by, sample_weight), n_draws)


def slopes(
    model: Estimator, X: MatrixLike, variables: Any, *, n_draws: int | None = N_DRAWS
) -> Effects:
    """Marginal effects: derivatives, in each row, of predictions in a column.

    They are differences over 1e-4 of the range of the column, or of ten times the range of its
    middle four fifths where that is less, centred at the value of the row. Columns of strings,
    categories, or of 0 and 1 are compared as by `comparisons`.

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
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.effects import avg_slopes
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = BayesianLogisticRegressionPMD(random_state=0).fit(X, y == 1)
    >>> avg_slopes(model, X, "sepal width (cm)").mean.round(1)
    array([-0.5])
    """
    return _compared(model, X, variables, "slope", (by, sample_weight), n_draws)


fill_docstrings(
    _TEXTS, predictions, avg_predictions, comparisons, avg_comparisons, slopes, avg_slopes
)


# -------------------------------------------------------------------- how they are found
def _predicted(model, X, averages, n_draws):
    X, by, about, _ = rows_in_order(X, averages)
    (values,), weights, group = _means(model, [X], n_draws, by)
    return Effects(_flat([values]), weights, _columns(None, [None], group, about), "prediction")


def _compared(model, X, variables, comparison, averages, n_draws):
    if comparison not in (*OF_TWO, "slope"):
        raise ValueError(f"comparison must be one of {', '.join(OF_TWO)}, got {comparison!r}.")
    X, by, about, names = rows_in_order(X, averages)
    terms, labels, found = [], [], []
    for variable, value in by_column(variables).items():
        place = place_of_column(variable, names, X.shape[1], "variables")
        sides, contrasts = contrasts_of(variable, column_at(X, place), value, comparison)
        sides = [with_column(X, place, side) for side in sides]
        values, weights, group = _means(model, sides, n_draws, by)
        of_two = OF_TWO.get(comparison, OF_TWO["difference"])[1]
        is_beyond = values.min() < 0.0 or values.max() > 1.0 + 1e-9
        if is_beyond and comparison in ("odds_ratio", "lnor"):
            raise ValueError(
                f"comparison={comparison!r} is of probabilities, and means of y go from "
                f"{values.min():g} to {values.max():g}: ask for 'ratio' or 'difference'."
            )
        for one in contrasts:
            with np.errstate(divide="ignore", invalid="ignore"):
                found.append(of_two(values[one.high], values[one.low]) / (one.step or 1.0))
            terms.append(str(variable if names is None else names[place]))
            labels.append(one.label)
    columns = _columns(terms, labels, group, about)
    null = float(comparison in ("ratio", "odds_ratio"))
    of = " of probabilities" if hasattr(inside(model), "classes_") else " of means of y"
    quantity = comparison.replace("_", " ") + of * (comparison in ("difference", "ratio", "slope"))
    return Effects(_flat(found), weights, columns, quantity, null)


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
    of_several = np.arange(k) if k > 1 else None
    return values, weights, of_several if classes is None else classes[-k:]


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
