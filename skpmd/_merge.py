"""Estimators that were fitted on disjoint shards of rows, as one."""

import copy
from collections.abc import Iterable, Mapping

import numpy as np
from sklearn.exceptions import NotFittedError

from skpmd._base.opening import opened


def merge(estimators, X=None, y=None, sample_weight=None):
    """Merge estimators that were fitted on disjoint shards of rows under one prior.

    The posterior given all rows is the product of the posteriors of the shards over the priors that
    are in it too often, and needs no rows. How it is found depends on the estimator:

    * `SparseGPRegressorPMD` with one kernel and one set of inducing inputs: exactly, natural
      parameters add up (with Student noise each shard's rows stay weighed as they were there);
      `SparseGPClassifierPMD` likewise, its rows approximated as they were in their shard. Both warn
      where shards disagree.
    * `BayesianLogisticRegressionPMD` and `ParticleMirrorDescent`: as the product of the densities
      that stand for the posteriors (`Posterior.fitted_density`), which is sampled. With all rows,
      ``X`` and ``y``, these weigh the particles, and the result is as exact as that of `fit`. Where
      all shards hold their rows (``posterior_.rows``, or what a stream retains), these are fitted
      in place of a product.
    * `GaussianMixturePMD` (``strategy="conjugate"``): components are relabelled by those of the
      first shard, and their counts add up. Where shards retain all rows these are fitted instead,
      and where they do not, particles fitted to the rows that they retain stand in for sums that
      predict these worse.
    * `LDATopicModelPMD`: topics are relabelled by those of the first shard, and their counts add
      up. With all documents, ``X``, a few iterations assign the words anew.

    Parameters
    ----------
    estimators : iterable of estimators
        One fitted estimator for each shard, all of one class, with the same parameters that make
        the model and its prior, columns and classes. The first is what the result is like: its
        parameters, and what its prior has taken from its rows (the units of ``scale="auto"``, say).
    X : array-like of shape (n_samples, n_features), optional
        The rows of all shards, of logistic regression, custom models and topics. Or data in blocks,
        `skpmd.data.Blocks`, with y and weights in them or given, or a collection of Dask.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
        Their targets.
    sample_weight : array-like of shape (n_samples,), optional
        Their weights.

    Returns
    -------
    estimator
        A new fitted estimator of the same class, which predicts, goes on with ``partial_fit``, and
        can be merged again; a clone of it is unfitted, with the parameters of the first.
        ``diagnostics_``, where there are any, name the ``method`` and the number of shards,
        ``n_shards``; a single estimator is copied as it is. For the product of densities they have,
        for each shard, k-hat of its posterior over its density (``shard_pareto_k``, None where that
        is not known), the distance of the merged mean from its own in its own units
        (``shard_distance``, about 1 or less where shards agree), and the share of the merged
        posterior where it has a hundredth of its mass (``shard_beyond``); by how many sds, to first
        order, a mean is moved by what the densities leave of known values of the posteriors
        (``misfit``, None where none are known, infinite where they tell nothing) and by what they
        are beyond mean and covariance (``nonnormality``); and k-hat of the draws of the product,
        which says nothing of the densities (``product_pareto_k``). Where rows that the posteriors
        hold were fitted, they have the diagnostics of `fit`. Those of mixtures and topics have how
        well components match (``alignment``, 1 where they are the same).

    Raises
    ------
    ValueError
        If there is none, one comes twice (rows that come twice by other ways are not noticed: an
        estimator beside one that it was merged into, say), or they differ in parameters, columns,
        classes, kernels or inducing inputs; if a stream has forgotten rows, or a posterior is of a
        kind that cannot be merged. The message names what differs, and what to do.
    TypeError
        If they are not of one class, or of one that cannot be merged.
    sklearn.exceptions.NotFittedError
        If one is not fitted.

    Warns
    -----
    ConvergenceWarning
        If shards have warnings of their own, where no rows weigh; if a density misses a tail of its
        shard's posterior, or nothing tells how well it stands for it; if shards disagree, so that
        the product lies where their densities are hardly known; if they have found scales of the
        prior that differ, or by the evidence; of mixtures that do not match, and of topics without
        documents.

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
    rows = dict(zip(rows, opened(*rows.values()), strict=True))
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
