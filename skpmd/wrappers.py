"""Intervals, distributions and posteriors of an estimator of skpmd inside wrappers of scikit-learn.

A pipeline passes keywords of ``predict`` and ``predict_proba`` on to its last step, but a search or
a transformed target does not. These functions work through all of them, however nested.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
    check_cv,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import check_is_fitted

from skpmd._base.utils import as_floats, check_level, warn
from skpmd._export import named_by_columns
from skpmd._typing import Array, ArrayLike, Estimator, MatrixLike
from skpmd.decision import BayesDecisionClassifier
from skpmd.predictive import JoinedDistribution, NormalMixture, PredictiveDistribution

__all__ = [
    "JoinedDistribution",
    "cross_val_distribution",
    "posterior_of",
    "predict_distribution",
    "predict_interval",
    "predict_proba_interval",
]

# Where others hold the fitted estimator that predicts for them, at the rows as they are.
_WRAPPED = {
    "best_estimator_": object,  # Searches.
    "estimator": FrozenEstimator,
    "estimator_": (BayesDecisionClassifier, FixedThresholdClassifier, TunedThresholdClassifierCV),
}


def predict_interval(
    estimator: Estimator, X: MatrixLike, level: float = 0.9, **options: Any
) -> Array:
    """Central predictive intervals of a regressor, whatever it is wrapped in.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor with ``predict_interval``, or a `Pipeline`, a search such as
        `GridSearchCV`, a `TransformedTargetRegressor` or a `FrozenEstimator` around one, nested to
        any depth. The transformer of the target, which has to be monotone, maps the ends back, and
        they are sorted.
    X : array-like of shape (n_samples, n_features)
        Features, as the outermost estimator takes them.
    level : float in (0, 1), default=0.9
        Probability that an interval contains the true value.
    **options : dict
        What the innermost ``predict_interval`` takes besides, such as ``target="mean"`` for
        intervals of the mean. (The mean of a transformed target is another one, and refused.)

    Returns
    -------
    ndarray of shape (n_samples, 2)
        Lower and upper ends, in the units of the outermost y.

    Raises
    ------
    TypeError
        If the innermost estimator has no such intervals, or does not take an option.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import SparseGPRegressorPMD
    >>> from skpmd.wrappers import predict_interval
    >>> X = np.linspace(0.0, 3.0, 60)[:, None]
    >>> y = np.exp(np.sin(2.0 * X[:, 0]) + 0.1 * np.cos(37.0 * X[:, 0]))
    >>> gp = make_pipeline(StandardScaler(), SparseGPRegressorPMD(random_state=0))
    >>> model = TransformedTargetRegressor(gp, func=np.log, inverse_func=np.exp).fit(X, y)
    >>> ends = predict_interval(model, X[:3], level=0.8)
    >>> ends.shape, bool((ends > 0.0).all())
    ((3, 2), True)
    """
    check_level(level)
    return called(estimator, X, "predict_interval", {"level": level, **options})


def predict_proba_interval(estimator: Estimator, X: MatrixLike, level: float = 0.9) -> Array:
    """Central credible intervals of class probabilities of a classifier, whatever it is wrapped in.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier with ``predict_proba_interval``, possibly in the wrappers that
        `predict_interval` accepts.
    X : array-like of shape (n_samples, n_features)
        Features, as the outermost estimator takes them.
    level : float in (0, 1), default=0.9
        Posterior probability of an interval.

    Returns
    -------
    ndarray of shape (n_samples, n_classes, 2)
        Lower and upper ends (last axis) for each class (second axis).

    Raises
    ------
    TypeError
        If the innermost estimator has no such intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.wrappers import predict_proba_interval
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
    >>> predict_proba_interval(model.fit(X, y), X[:5]).shape
    (5, 3, 2)
    """
    check_level(level)
    return called(estimator, X, "predict_proba_interval", {"level": level})


def predict_distribution(estimator: Estimator, X: MatrixLike) -> PredictiveDistribution:
    """Predictive distributions of a regressor inside pipelines and searches.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor whose ``predict_proba`` is a distribution, or a `Pipeline`, a search or a
        `FrozenEstimator` around one. (A mixture does not remain one under a nonlinear
        transformation of the target: for a `TransformedTargetRegressor` use `predict_interval`.)
    X : array-like of shape (n_samples, n_features)
        Features, as the outermost estimator takes them.

    Returns
    -------
    NormalMixture or FamilyMixture
        Distribution of n_samples rows.

    Raises
    ------
    TypeError
        If the innermost estimator has no predictive distributions, or the target is transformed.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import SparseGPRegressorPMD
    >>> from skpmd.wrappers import predict_distribution
    >>> X, y = load_diabetes(return_X_y=True)
    >>> gp = SparseGPRegressorPMD(n_particles=1, random_state=0)
    >>> predict_distribution(make_pipeline(StandardScaler(), gp).fit(X, y), X[:2]).mean().shape
    (2,)
    """
    found = called(estimator, X, "predict_proba", {})
    if not isinstance(found, PredictiveDistribution):
        raise TypeError(
            f"predict_proba inside {type(estimator).__name__} returns {type(found).__name__} and "
            "no distribution: for class probabilities call predict_proba itself."
        )
    return found


def cross_val_distribution(
    estimator: Estimator,
    X: MatrixLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    cv: Any = None,
    n_jobs: int | None = None,
    params: dict[str, Any] | None = None,
) -> NormalMixture | JoinedDistribution:
    """Predictive distribution of each row, from a fit to the folds that do not contain it.

    scikit-learn's `cross_val_predict` handles only arrays.

    Parameters
    ----------
    estimator : estimator
        Any estimator that `predict_distribution` accepts, fitted or not; clones of it are fitted.
    X : array-like of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,)
        Targets.
    groups : array-like of shape (n_samples,), default=None
        Groups for ``cv``.
    cv : int, splitter or iterable, default=None
        As in `cross_val_predict`; every row must be in exactly one test set.
    n_jobs : int or None, default=None
        Number of folds that are fitted in parallel, as in joblib.
    params : dict, default=None
        Further arguments of ``fit``; those with an entry for each row are split as the rows are.

    Returns
    -------
    NormalMixture or JoinedDistribution
        Distribution of n_samples rows, in their order. The latter is that of linear models, whose
        fits have particles of their own, and has the methods of `FamilyMixture`.

    Raises
    ------
    ValueError
        If the test sets are not a partition of the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skpmd import SparseGPRegressorPMD
    >>> from skpmd.wrappers import cross_val_distribution
    >>> X, y = load_diabetes(return_X_y=True)
    >>> gp = SparseGPRegressorPMD(n_particles=1, random_state=0)
    >>> dist = cross_val_distribution(gp, X, y, cv=3)
    >>> len(dist), bool(dist.crps(y).mean() < y.std())
    (442, True)
    """
    if y is None:
        raise ValueError("y must be given: the distributions are those of targets, got None.")
    X, y, groups = indexable(X, y, groups)
    splits = list(check_cv(cv, y, classifier=False).split(X, y, groups))
    tests = [test for _, test in splits]
    if not np.array_equal(np.sort(np.concatenate(tests)), np.arange(len(y))):
        raise ValueError("cv must have every row in exactly one test part, as KFold has.")

    def held_out(train, test):
        fitted = clone(estimator)
        rows = {name: _of_rows(value, train, len(y)) for name, value in (params or {}).items()}
        fitted.fit(*_safe_split(fitted, X, y, train), **rows)
        return predict_distribution(fitted, _safe_split(fitted, X, y, test, train)[0])

    parts = Parallel(n_jobs=n_jobs)(delayed(held_out)(*one) for one in splits)
    return _joined(parts, tests)


def posterior_of(estimator: Estimator) -> Any:
    """The posterior of an estimator inside wrappers, its coordinates named by columns.

    Transformers hand on arrays unless ``set_output`` says otherwise, and coefficients of an
    estimator behind them are then named x0, x1 and so on. Here they have the names that
    ``get_feature_names_out`` of the transformers tells.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator with ``posterior_``, or a `Pipeline`, a search, a
        `TransformedTargetRegressor` and the like around one, nested to any depth.

    Returns
    -------
    Posterior, GaussianPosterior or TopicPosterior
        ``posterior_`` of the innermost estimator. Where its coefficients have no names of columns
        and the transformers know them, a copy with these names.

    Raises
    ------
    TypeError
        If the innermost estimator has no posterior.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.wrappers import posterior_of
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
    >>> posterior_of(model.fit(X, y)).names[:2]
    ['mean radius', 'mean texture']
    """
    inner = inside(estimator)
    if not hasattr(inner, "posterior_"):
        name = type(inner).__name__
        raise TypeError(f"{name} has no posterior_: give a fitted estimator of skpmd.")
    names = column_names(estimator)
    if names is None or hasattr(inner, "feature_names_in_"):
        return inner.posterior_
    roles = inner._places() if hasattr(inner, "_places") else {}  # They have no coefficient.
    return named_by_columns(inner.posterior_, np.delete(names, list(roles.values())))


def inside(estimator):
    """The fitted estimator inside pipelines, searches and transformed targets."""
    found = innermost(estimator, None)[0]
    while isinstance(found, TransformedTargetRegressor):
        found = innermost(found.regressor_, None)[0]
    return found


def column_names(estimator, names=None):
    """Names of the columns that the innermost fitted estimator gets; None where nobody knows.

    ``names`` are those of the columns that this estimator gets, if it does not know them itself.
    """
    names = getattr(estimator, "feature_names_in_", names)
    if isinstance(estimator, TransformedTargetRegressor):
        return column_names(estimator.regressor_, names)
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            try:
                names = estimator[:-1].get_feature_names_out(names)
            except (AttributeError, ValueError):  # Of a transformer that does not know them.
                names = None
        return column_names(estimator[-1], names)
    for name, kind in _WRAPPED.items():
        if isinstance(estimator, kind) and hasattr(estimator, name):
            return column_names(getattr(estimator, name), names)
    return names


def outward(estimator, rows):
    """Rows of the innermost fitted estimator in the columns that this one was given.

    AttributeError where a step of a pipeline has no inverse.
    """
    if isinstance(estimator, Pipeline):
        rows = outward(estimator[-1], rows)
        return estimator[:-1].inverse_transform(rows) if len(estimator) > 1 else rows
    for name, kind in _WRAPPED.items():
        if isinstance(estimator, kind) and hasattr(estimator, name):
            return outward(getattr(estimator, name), rows)
    if isinstance(estimator, TransformedTargetRegressor):
        return outward(estimator.regressor_, rows)
    return rows


def innermost(estimator, X):
    """The fitted estimator inside pipelines, searches and the like, and the rows as it gets them.

    If there is a `TransformedTargetRegressor`, this is returned, because its inner targets differ.
    """
    check_is_fitted(estimator)
    if isinstance(estimator, Pipeline):
        transforms = len(estimator) > 1 and X is not None
        return innermost(estimator[-1], estimator[:-1].transform(X) if transforms else X)
    for name, kind in _WRAPPED.items():
        if isinstance(estimator, kind) and hasattr(estimator, name):
            return innermost(getattr(estimator, name), X)
    return estimator, X


def called(estimator, X, method, keywords):
    """A method of the innermost estimator, at the rows that it would see.

    Ends of intervals and draws are mapped back to the units of the outermost target.
    """
    estimator, X = innermost(estimator, X)
    if isinstance(estimator, TransformedTargetRegressor):
        if method not in ("predict_interval", "sample_y"):
            raise TypeError(
                "The target is transformed (TransformedTargetRegressor): its predictive "
                "distribution has no closed form. Call predict_interval."
            )
        if keywords.get("target") == "mean":
            raise TypeError(
                "The target is transformed (TransformedTargetRegressor): its mean is not that of "
                "y, so that target='mean' has no interval. Leave it out."
            )
        found = called(estimator.regressor_, X, method, keywords)
        if method == "sample_y":
            back = estimator.transformer_.inverse_transform(found.reshape(-1, 1))
            return np.asarray(back).reshape(found.shape)
        return _mapped_back(estimator.transformer_, found)
    if hasattr(estimator, method):
        known = list(signature(getattr(estimator, method)).parameters)[1:]
        if unknown := sorted(keywords.keys() - known):
            raise TypeError(
                f"{method} of {type(estimator).__name__} takes no {', '.join(unknown)}, but only "
                f"{', '.join(known)}."
            )
        return getattr(estimator, method)(X, **keywords)
    raise TypeError(
        f"{type(estimator).__name__} has no {method}, and holds no estimator that has: give a "
        "fitted estimator with one, or a Pipeline, a search (with refit=True), a "
        "TransformedTargetRegressor, a threshold classifier or a FrozenEstimator around it."
    )


def _mapped_back(transformer, ends):
    """Ends (n, 2) in the units of the target, sorted: the transform may turn them round."""
    parts = [as_floats("ends", transformer.inverse_transform(one[:, None])) for one in ends.T]
    out = np.column_stack([one.reshape(len(ends)) for one in parts])
    is_missing = np.isnan(out).any(axis=1)
    if is_missing.any():
        warn(
            f"{type(transformer).__name__} has no inverse at ends of {is_missing.sum()} intervals "
            "of the transformed target, which are nan: give a transform whose inverse is defined "
            "everywhere.",
            UserWarning,
        )
    return np.where(is_missing[:, None], out, np.sort(out, axis=1))


def _of_rows(value, places, n):
    """What a parameter of ``fit`` has for some rows."""
    return _safe_indexing(value, places) if np.shape(value)[:1] == (n,) else value


def _joined(parts, tests):
    """The rows of several distributions, ``tests`` being their places, in order.

    Of `NormalMixture`s, whose numbers of components may differ, comes one.
    """
    if not all(isinstance(one, NormalMixture) for one in parts):
        return JoinedDistribution(parts, tests)
    k = max(len(one.means) for one in parts)

    def padded(name, value):
        return np.hstack([
            np.pad(table, ((0, k - len(table)), (0, 0)), constant_values=value)
            for table in (getattr(one, name) for one in parts)
        ])  # fmt: skip

    found = NormalMixture(padded("means", 0.0), padded("stds", 1.0), padded("weights", 0.0))
    return found[np.argsort(np.concatenate(tests))]
