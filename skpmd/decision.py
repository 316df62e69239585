"""Decisions: the action with the largest expected utility under the predictive distribution.

Anyone whose preferences are consistent acts as if to maximise the expected utility under the
predictive distribution (Robert 2007, The Bayesian Choice, chapter 2).
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from scipy.special import ndtr
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _is_fitted, check_consistent_length, check_is_fitted

from skpmd._base.utils import as_floats, check_probabilities, warn
from skpmd._base.validation import fit_context
from skpmd._typing import Array, ArrayLike, Estimator, MatrixLike
from skpmd.predictive import NormalMixture, PredictiveDistribution

__all__ = ["BayesDecisionClassifier", "bayes_action"]

# An expected loss is a sum over so many places of a row, as many of each component, to so many
# standard deviations. The best of as many quantiles, and of as many actions between the means and
# so many standard deviations beside them, is refined by golden sections; if it is at an end, others
# further out are tried first.
_PLACES, _FEWEST, _WIDTH = 2000, 49, 8.0
_BESIDE, _ACTIONS, _WIDER, _SECTIONS = 4.0, 48, 30, 40
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


class BayesDecisionClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier that predicts the action with the largest expected utility.

    The expectation is over the class, with the probabilities that the estimator predicts; for an
    estimator of skpmd these are averages over its posterior. No threshold is tuned, and ``utility``
    and ``abstain`` may change after the fit.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba``. It is cloned and fitted. Wrap a classifier that is
        already fitted in `sklearn.frozen.FrozenEstimator`: it is then not fitted anew, of which
        there is a warning.
    utility : array-like of shape (n_actions, n_classes), callable or None, default=None
        Utility of each action for each true class, in the order of ``classes_``: a cost is a
        negative utility, and there is a warning of what looks like costs. A callable takes
        ``costs``, data about the rows of a call, and returns an array of shape (n_samples,
        n_actions, n_classes), or (n_actions, n_classes). None means a utility of 1 for the true
        class and 0 for the others, which predicts the most probable class.
    actions : array-like of shape (n_actions,), default=None
        Labels of the actions, used by `fit`; None means the classes.
    abstain : float or None, default=None
        Utility of abstaining, whatever the true class is; None means that abstaining is not
        possible.
    abstain_label : label, default=-1
        Label that is predicted for abstaining. Metrics of scikit-learn need it to be of the same
        kind as the classes: a string if these are strings.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Classes of the fitted classifier.
    actions_ : ndarray of shape (n_actions,)
        Labels that can be predicted, the label for abstaining last.

    References
    ----------
    Robert, C. P. (2007). The Bayesian Choice, chapter 2. Springer.

    Examples
    --------
    A malignant tumour (class 0) that is missed costs ten times a false alarm.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.decision import BayesDecisionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
    >>> utility = [[0.0, -1.0], [-10.0, 0.0]]
    >>> decision = BayesDecisionClassifier(model, utility, abstain=-0.3).fit(X, y)
    >>> decision.actions_.tolist(), bool((decision.predict(X) == -1).any())
    ([0, 1, -1], True)
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"])],
        "utility": ["array-like", callable, None],
        "actions": ["array-like", None],
        "abstain": [Real, None],
        "abstain_label": "no_validation",
    }

    def __init__(
        self,
        estimator: Estimator,
        utility: ArrayLike | Callable[..., Any] | None = None,
        *,
        actions: ArrayLike | None = None,
        abstain: float | None = None,
        abstain_label: object = -1,
    ) -> None:
        self.estimator = estimator
        self.utility = utility
        self.actions = actions
        self.abstain = abstain
        self.abstain_label = abstain_label

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: ArrayLike, **fit_params: Any) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Classes.
        **fit_params : dict
            Arguments that are passed on to its ``fit``; with metadata routing, those that it
            requests.

        Returns
        -------
        BayesDecisionClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If ``utility`` does not have one column for each class, or ``actions`` one label for
            each row of ``utility``.
        """
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        if not isinstance(self.estimator, FrozenEstimator) and _is_fitted(self.estimator):
            warn(
                f"{type(self).__name__}: estimator is fitted already, and a clone of it is fitted "
                "anew. Give FrozenEstimator(estimator) of sklearn.frozen to keep it as it is, or "
                "clone(estimator).",
                UserWarning,
            )
        fitted = clone(self.estimator).fit(X, y, **fit_params)
        classes = fitted.classes_
        actions = np.asarray(classes if self.actions is None else self.actions)
        self._labels(actions)
        if not callable(self.utility):
            table = self._table(None, len(classes))
            self._warn_of_costs(_check_utility(table, 1, len(actions), len(classes)))
        self.estimator_, self.classes_, self._actions = fitted, classes, actions
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # Of an earlier fit.
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))
        return self

    @property
    def actions_(self) -> Array:
        """Labels that can be predicted, the label for abstaining last."""
        return self._labels(self._actions)

    def get_metadata_routing(self) -> Any:
        """Metadata that ``fit`` passes on to the classifier, and metadata that this class requests.

        Returns
        -------
        MetadataRouter
            Router of scikit-learn.
        """
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        return router.add(estimator=self.estimator, method_mapping=to_fit)

    def expected_utility(self, X: MatrixLike, costs: ArrayLike | None = None) -> Array:
        """Expected utility of each action, shape (n_samples, n_actions).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        costs : array-like of shape (n_samples, ...), default=None
            Argument of a callable ``utility``.

        Returns
        -------
        ndarray of shape (n_samples, n_actions)
            Expected utilities, in the order of ``actions_`` and in the units of ``utility``.
        """
        check_is_fitted(self)
        proba = self.estimator_.predict_proba(X)
        utility = self._utility(costs, len(proba))
        return (utility * proba[:, None]).sum(axis=2)

    def predict(self, X: MatrixLike, costs: ArrayLike | None = None) -> Array:
        """The action with the largest expected utility for each row, shape (n_samples,).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        costs : array-like of shape (n_samples, ...), default=None
            Argument of a callable ``utility``.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels among ``actions_``; the first of several equally good ones.
        """
        best = self.expected_utility(X, costs).argmax(axis=1)
        return self.actions_[best]

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: MatrixLike) -> Array:
        """Class probabilities that the classifier predicts, shape (n_samples, n_classes).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    def score(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        costs: ArrayLike | None = None,
    ) -> float:
        """Mean utility of the predicted actions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Classes, among ``classes_``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        costs : array-like of shape (n_samples, ...), default=None
            Argument of a callable ``utility``.

        Returns
        -------
        float
            Weighted mean, in the units of ``utility``; more is better.

        Raises
        ------
        ValueError
            If y holds a class that the fit has not seen, or lengths differ.
        """
        check_is_fitted(self)
        y = column_or_1d(y)
        check_consistent_length(X, y, sample_weight)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds {unknown.tolist()}, which no fit has seen.")
        chosen = self.expected_utility(X, costs).argmax(axis=1)
        utility = self._utility(costs, len(chosen))
        utility = np.broadcast_to(utility, (len(chosen), *utility.shape[1:]))
        gained = utility[np.arange(len(chosen)), chosen, np.searchsorted(self.classes_, y)]
        return float(np.average(gained, weights=sample_weight))

    def _labels(self, actions):
        """Labels of actions, with that of abstaining last where that is one."""
        if self.abstain is None:
            return actions
        if not np.isfinite(self.abstain):
            raise ValueError(f"abstain must be finite, got {self.abstain}.")
        return _with_label(actions, self.abstain_label)

    def _utility(self, costs, n):
        """Utilities of all actions, (n or 1, n_actions, n_classes)."""
        table, K = self._table(costs, len(self.classes_)), len(self.classes_)
        table = _check_utility(table, n, len(self._actions), K)
        if callable(self.utility):
            self._warn_of_costs(table)
        if self.abstain is None:
            return table
        return np.concatenate([table, np.full((len(table), 1, K), float(self.abstain))], axis=1)

    def _warn_of_costs(self, table):
        """Warn of utilities (k, n_actions, n_classes) that look like costs."""
        mean = table.mean(axis=0)
        of_wrong = mean + np.where(np.eye(*mean.shape), np.inf, 0.0)
        if self.actions is None and (np.diag(mean) < of_wrong.min(axis=0)).all():
            what, remedy = "is least where the action is the true class", "-utility"
        elif self.abstain is not None and self.abstain > table.max():
            what = f"is nowhere as large as abstain={self.abstain:g}, so that no row is classified"
            remedy = "-abstain"
        else:
            return
        warn(
            f"{type(self).__name__}: utility {what}. Costs are negative utilities: give {remedy} "
            "if these are costs.",
            UserWarning,
        )

    def _table(self, costs, n_classes):
        if costs is not None and not callable(self.utility):
            raise ValueError(
                "costs are the argument of a callable utility, and utility is none: leave them "
                "out, or give utility=lambda costs: ..."
            )
        if self.utility is None:
            return np.eye(n_classes)
        if not callable(self.utility):
            return self.utility
        if costs is None:
            raise ValueError(
                "utility is a callable of costs: give costs. Where this is called by a Pipeline's "
                "score, or by a search, they come with metadata routing alone: "
                "sklearn.set_config(enable_metadata_routing=True), set_score_request(costs=True)."
            )
        return self.utility(costs)


def bayes_action(
    dist: PredictiveDistribution,
    loss: Literal["squared", "absolute", "pinball"] | Callable[..., Any] = "squared",
    alpha: float = 0.5,
) -> Array:
    """The action with the smallest expected loss under each predictive distribution.

    Parameters
    ----------
    dist : NormalMixture or FamilyMixture of n rows
        Predictive distributions, as ``predict_proba`` of a regressor returns them.
    loss : {"squared", "absolute", "pinball"} or callable, default="squared"
        For the first three the action is the mean, the median or the quantile at ``alpha``. A
        callable ``loss(action, y)`` takes two arrays that broadcast, and returns losses. It is
        integrated over each component, to eight standard deviations, and the best of a hundred
        actions is refined by golden section search. If the expected loss has several optima, a
        narrow one may be missed.
    alpha : float in [0, 1], default=0.5
        For the pinball loss: the cost of an underestimate, divided by the sum of the costs of an
        underestimate and an overestimate.

    Returns
    -------
    ndarray of shape (n,)
        Actions, in the units of y.

    Raises
    ------
    TypeError
        If dist is no predictive distribution.
    ValueError
        If there is no such loss, alpha is not a number in [0, 1], or a callable returns losses that
        are not finite, or that fall ever further towards one end of the actions.

    References
    ----------
    Robert, C. P. (2007). The Bayesian Choice, chapter 2. Springer.

    Examples
    --------
    An order that is one too small costs three times as much as one that is one too large.

    >>> import numpy as np
    >>> from skpmd import NormalMixture
    >>> from skpmd.decision import bayes_action
    >>> demand = NormalMixture(means=[100.0, 50.0], stds=[10.0, 5.0])
    >>> bayes_action(demand, "pinball", alpha=0.75).round(1)
    array([106.7,  53.4])
    >>> bayes_action(demand, lambda a, y: np.where(y > a, 3.0 * (y - a), a - y)).round(1)
    array([106.7,  53.4])
    """
    if not isinstance(dist, PredictiveDistribution):
        raise TypeError(f"dist must be a predictive distribution, got {type(dist).__name__}.")
    if callable(loss):
        return _least(dist, loss)
    if not isinstance(loss, str) or loss not in ("squared", "absolute", "pinball"):
        raise ValueError(
            f"loss must be 'squared', 'absolute', 'pinball' or a callable, got {loss!r}."
        )
    if loss == "squared":
        return dist.mean()
    if np.ndim(alpha):
        raise ValueError(f"alpha must be one number, got shape {np.shape(alpha)}.")
    return dist.ppf(0.5 if loss == "absolute" else float(check_probabilities("alpha", alpha)))


def _places(dist):
    """Values (n, k) and weights that stand for distributions, and ends where actions are sought."""
    if not isinstance(dist, NormalMixture):
        y = dist.ppf((np.arange(_PLACES) + 0.5) / _PLACES)
        return y, np.full(y.shape, 1.0 / _PLACES), y[:, :1], y[:, -1:]
    means, stds = dist.means.T, dist.stds.T  # (n, components)
    k = means.shape[1]
    edges = np.linspace(-_WIDTH, _WIDTH, 1 + max(_FEWEST, _PLACES // k))
    # Those of components lie between each other: alike ones are as one with more places.
    shift = (np.arange(k) * _GOLDEN % 1.0 - 0.5)[:, None] * (edges[1] - edges[0])
    places, mass = 0.5 * (edges[1:] + edges[:-1]) + shift, np.diff(ndtr(edges + shift))
    y = (means[..., None] + stds[..., None] * places).reshape(len(means), -1)
    weights = (dist.weights.T[..., None] * mass).reshape(y.shape)
    low = (means - _BESIDE * stds).min(axis=1, keepdims=True)
    return y, weights, low, (means + _BESIDE * stds).max(axis=1, keepdims=True)


def _least(dist, loss):
    """Actions (n,) of the least mean loss, by a grid and golden sections."""
    y, weights, low, high = _places(dist)
    high = np.maximum(high, low + 1e-3 * np.maximum(np.abs(low), 1.0))  # Of constants.

    def expected(actions):
        """Mean losses of actions (n, k)."""
        found = [as_floats("loss", loss(one[:, None], y)) for one in actions.T]
        if any(one.shape != y.shape or not np.isfinite(one).all() for one in found):
            raise ValueError(
                f"loss(action, y) must be finite, and of shape {y.shape} for actions of shape "
                f"{(len(y), 1)} and y of shape {y.shape}; got shape {found[0].shape}."
            )
        return np.stack([(weights * one).sum(axis=1) for one in found], axis=1)

    inner = dist.ppf((np.arange(_ACTIONS) + 0.5) / _ACTIONS)
    for _ in range(_WIDER):
        width = high - low
        grid = np.sort(np.hstack([low + width * np.linspace(0.0, 1.0, _ACTIONS), inner]), axis=1)
        values, last = expected(grid), grid.shape[1] - 1
        best = values.argmin(axis=1)[:, None]
        is_lower = (best == 0) & (values[:, :1] < values[:, 1:2])
        is_higher = (best == last) & (values[:, -1:] < values[:, -2:-1])
        if not (is_lower | is_higher).any():
            break
        low, high = low - width * is_lower, high + width * is_higher
    else:
        raise ValueError("loss has no least expectation: further out it is smaller and smaller.")
    low = np.take_along_axis(grid, np.maximum(best - 1, 0), axis=1)
    high = np.take_along_axis(grid, np.minimum(best + 1, last), axis=1)
    for _ in range(_SECTIONS):
        inner = np.hstack([high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)])
        values = expected(inner)
        is_left = (values[:, 0] <= values[:, 1])[:, None]
        low, high = np.where(is_left, low, inner[:, :1]), np.where(is_left, inner[:, 1:], high)
    return 0.5 * (low + high)[:, 0]


def _check_utility(table, n, n_actions, n_classes):
    """Utilities as (n or 1, n_actions, n_classes); an error where they are none."""
    table = as_floats("utility", table)
    shape = (n_actions, n_classes)
    if table.ndim == 3 and table.shape[1:] == shape and len(table) != n:
        raise ValueError(f"utility has tables for {len(table)} rows, and X has {n}: check costs.")
    if table.shape not in (shape, (n, *shape)):
        raise ValueError(
            f"utility must be of shape (n_actions, n_classes) = {shape}, or have such a table for "
            f"each row, got shape {table.shape}. Without actions they are the classes."
        )
    if not np.isfinite(table).all():
        place = tuple(int(one) for one in np.argwhere(~np.isfinite(table))[0])
        raise ValueError(f"utility must be finite, got {table[place]} at {place}.")
    return table if table.ndim == 3 else table[None]


def _with_label(actions, label):
    """The labels of the actions and one more; of one type where it holds both."""
    if label in actions.tolist():
        raise ValueError(f"abstain_label must differ from the other actions, got {label!r}.")
    is_text = actions.dtype.kind in "US"
    if is_text == isinstance(label, str) and actions.dtype.kind not in "Ob":
        return np.concatenate([actions, np.array([label])])
    return np.array([*actions.tolist(), label], dtype=object)
