"""Merge estimators that were fitted on disjoint shards of rows into one."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import numpy as np
from sklearn.exceptions import NotFittedError

from skpmd._rows.opening import as_table
from skpmd._typing import ArrayLike, E, MatrixLike


def merge(
    estimators: Iterable[E],
    X: MatrixLike | None = None,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> E:
    """Merge estimators that were fitted on disjoint shards of rows under one prior.

    The posterior given all rows is the product of the posteriors of the shards, divided by the
    priors that this product contains too often. No rows are needed. The method depends on the
    estimator:

    * `SparseGPRegressorPMD` and `SparseGPClassifierPMD`, all with the same kernel and the same
      inducing inputs: natural parameters add up. For regression this is exact (with Student noise
      each row retains its weight from its shard); for classes each row is approximated as in its
      shard, with a warning if shards disagree.
    * `BayesianLogisticRegressionPMD`: if all rows are given, ``X`` and ``y``, or all shards hold
      their rows (``posterior_.rows``, or the retained rows of a stream), these rows are fitted.
      Otherwise each posterior is represented by a fitted density (`Posterior.fitted_density`), and
      the product of these densities is sampled. So are other linear predictors; with groups the
      rows have to be there.
    * `ParticleMirrorDescent`: the product of fitted densities is sampled. If all rows are given,
      they weight the draws, and the result is as exact as a `fit`.
    * `GaussianMixturePMD` (``strategy="conjugate"``): components are matched with those of the
      first shard, and their counts add up. If shards retain all rows, these rows are fitted
      instead; otherwise iterations over the retained rows replace sums that predict them worse.
    * `LDATopicModelPMD`: topics are matched with those of the first shard, and their counts add up.
      If all documents are given, ``X``, a few iterations assign the words anew.

    Parameters
    ----------
    estimators : iterable of estimators
        One fitted estimator for each shard, all of the same class, with the same columns, the same
        classes, and the same parameters of model and prior. The result has the parameters of the
        first one, and the parts of its prior that were taken from its rows (for example the scales
        with ``scale="auto"``).
    X : array-like of shape (n_samples, n_features), optional
        The rows of all shards, for logistic regression, custom models and topics. X may also be
        data in blocks (`skpmd.data.Blocks`), with y and weights in the blocks or as arguments, or a
        Dask collection.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
        Targets of the rows.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    estimator
        A new fitted estimator of the same class, which predicts, continues with ``partial_fit``,
        and can be merged again. A clone of it is unfitted, with the parameters of the first
        estimator. A single estimator is copied unchanged. ``diagnostics_`` name the ``method`` and
        the number of shards, ``n_shards``. For a product of densities they contain, for each shard,
        the k-hat of its posterior relative to its density (``shard_pareto_k``, None if not known)
        and the share of the merged posterior that lies in the outermost hundredth of the shard's
        posterior (``shard_beyond``), and the k-hat of the draws of the product, which says nothing
        about the densities (``product_pareto_k``). If rows that the posteriors hold were fitted,
        the diagnostics are those of `fit`. For mixtures and topics they contain how well components
        match (``alignment``, 1 if they are the same).

    Raises
    ------
    ValueError
        If there is no estimator, one comes twice (other ways to count rows twice are not noticed,
        for example an estimator together with the result of its merge), or they differ in
        parameters, columns, classes, kernels or inducing inputs; if a stream has discounted rows,
        if shards began with an earlier posterior as their ``prior``, if a posterior is of a kind
        that cannot be merged, or if the product of densities over the priors is none that can be
        sampled. The message names the difference, and what to do.
    TypeError
        If they are not of the same class, or of a class that cannot be merged.
    sklearn.exceptions.NotFittedError
        If an estimator is not fitted.

    Warns
    -----
    ConvergenceWarning
        If shards have warnings of their own and no rows are used; if a density misses a part of its
        shard's posterior, or shards disagree, so that the product lies where their densities are
        hardly known; if shards chose different scales of the prior; for mixtures that do not match,
        and for topics without documents.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> import skpmd
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X[:, [0, 1, 4]])
    >>> shards = [
    ...     skpmd.BayesianLogisticRegressionPMD(random_state=k).fit(X[k::3], y[k::3])
    ...     for k in range(3)
    ... ]
    >>> merged = skpmd.merge(shards)
    >>> whole = skpmd.BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    >>> bool((abs(merged.coef_ - whole.coef_) < 0.1 * whole.coef_std_).all())
    True
    >>> merged.diagnostics_["n_shards"]
    3
    """
    estimators = _checked(estimators)
    first, rows = estimators[0], {"X": X, "y": y, "sample_weight": sample_weight}
    if sample_weight is not None and X is None and y is None:
        raise ValueError("sample_weight is that of the rows: give X and y with it, or none.")
    rows = dict(zip(rows, as_table(*rows.values()), strict=True))
    rows = {name: value for name, value in rows.items() if value is not None}
    if len(estimators) == 1 and not rows:
        return copy.deepcopy(first)
    parameters = first.get_params(deep=False)
    as_fitted = {k: v for k, v in getattr(first, "_frozen", {}).items() if k in parameters}
    parameters = {**parameters, **as_fitted}
    if isinstance(parameters.get("random_state"), np.random.RandomState):
        parameters["random_state"] = copy.deepcopy(parameters["random_state"])
    return type(first)(**parameters)._merge(estimators, **rows)


def _checked(estimators):
    """The estimators as a list: fitted ones, of a class that can be merged."""
    if not isinstance(estimators, Iterable) or isinstance(estimators, (str, Mapping)):
        raise TypeError(
            f"estimators must be a list of fitted estimators, got {type(estimators).__name__}."
        )
    estimators = list(estimators)
    if not estimators:
        raise ValueError("estimators is empty: give the fitted estimator of each shard.")
    kind = type(estimators[0])
    for k, one in enumerate(estimators):
        if type(one) is not kind:
            raise TypeError(
                f"estimators[0] is a {kind.__name__} and estimators[{k}] a {type(one).__name__}: "
                "merge estimators of one class."
            )
        if not hasattr(one, "_merge"):
            raise TypeError(
                f"estimators[{k}] is a {kind.__name__}, which cannot be merged. Of pipelines whose "
                "other steps are the same, merge the estimators at their ends."
            )
        if not one.__sklearn_is_fitted__():
            raise NotFittedError(f"estimators[{k}] is not fitted: call fit or partial_fit.")
    return estimators
