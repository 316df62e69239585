"""Scores of predictive distributions: log density, distance to the target, and calibration.

They take targets and a `PredictiveDistribution`, which ``predict_proba`` of a regressor is, and
average over rows. (For a classifier ``predict_proba`` is an array of probabilities, which
`sklearn.metrics.log_loss` and `sklearn.metrics.brier_score_loss` score.)

The negative log predictive density, the CRPS and the pinball loss are proper: no distribution has a
better score on average than the one that the targets come from. Read coverage and width together,
and do not tune a model by either of them.

`topic_coherence` is a different kind of score: how often the leading words of topics occur
together.

``log_predictive_density_scorer``, ``neg_crps_scorer``, ``neg_pinball_loss_scorer`` (for the median)
and ``interval_coverage_scorer`` (for intervals of 90 %; do not choose models by it, because wide
intervals cover most) are scorers for ``scoring`` of `sklearn.model_selection.GridSearchCV` and the
like; `make_distribution_scorer` makes others.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.metrics import mean_pinball_loss
from sklearn.metrics._scorer import _BaseScorer
from sklearn.utils import check_array
from sklearn.utils.validation import check_non_negative

from skpmd import _coherence
from skpmd._base.utils import fill_docstrings
from skpmd._base.validation import checked_weights
from skpmd._typing import ArrayLike, ArrayOrMore, MatrixLike
from skpmd.predictive import PredictiveDistribution

__all__ = [
    "crps",
    "interval_coverage",
    "interval_coverage_scorer",
    "interval_width",
    "log_predictive_density_scorer",
    "make_distribution_scorer",
    "neg_crps_scorer",
    "neg_pinball_loss_scorer",
    "negative_log_predictive_density",
    "pinball_loss",
    "topic_coherence",
]

# What docstrings have in common, in the place of names in angle brackets.
_TEXTS = {
    "<distributions>": """
        dist : NormalMixture or FamilyMixture of n rows
            Predictive distributions.
        """,
    "<weights>": """
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """,
    "<level>": """
        level : float, default=0.9
            Probability of the intervals.
        """,
    "<errors>": """
        Raises
        ------
        TypeError
            If dist is no predictive distribution.
        ValueError
            If targets or weights do not match its rows, or are not finite
        """,
}


def negative_log_predictive_density(
    y_true: ArrayLike, dist: PredictiveDistribution, sample_weight: ArrayLike | None = None
) -> float:
    """Mean negative log density at the targets, in nats; less is better.

    It depends on the units of y: it changes by log(c) if y is multiplied by c.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets, in the units of dist.
    <distributions>
    <weights>
        Weighted mean, in nats.

    <errors>.

    Examples
    --------
    >>> from skpmd.metrics import negative_log_predictive_density
    >>> from skpmd.predictive import NormalMixture
    >>> dist = NormalMixture(means=[0.0, 1.0], stds=[1.0, 2.0])
    >>> round(negative_log_predictive_density([0.5, 0.0], dist), 3)
    1.391

    The scorer has the opposite sign, and takes an estimator:

    >>> from sklearn.datasets import load_diabetes
    >>> from skpmd import SparseGPRegressorPMD
    >>> from skpmd.metrics import log_predictive_density_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> gp = SparseGPRegressorPMD(n_particles=1, random_state=0).fit(X[:100], y[:100])
    >>> found = -negative_log_predictive_density(y[100:], gp.predict_proba(X[100:]))
    >>> bool(log_predictive_density_scorer(gp, X[100:], y[100:]) == found)
    True
    """
    y_true = _targets(y_true, dist)
    return _average(-dist.log_score(y_true), sample_weight)


def crps(
    y_true: ArrayLike, dist: PredictiveDistribution, sample_weight: ArrayLike | None = None
) -> float:
    """Mean continuous ranked probability score, in the units of y; less is better.

    For distributions without spread it is the mean absolute error (Gneiting and Raftery 2007).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets, in the units of dist.
    <distributions>
    <weights>
        Weighted mean, in the units of y.

    <errors>.

    References
    ----------
    Gneiting, T. and Raftery, A. E. (2007). Strictly proper scoring rules, prediction, and
    estimation. Journal of the American Statistical Association 102.

    Examples
    --------
    >>> from skpmd.metrics import crps
    >>> from skpmd.predictive import NormalMixture
    >>> round(crps([0.5, 0.0], NormalMixture(means=[0.0, 1.0], stds=[1.0, 2.0])), 3)
    0.497

    The scorer returns minus this score, for searches and cross-validation:

    >>> from skpmd.metrics import neg_crps_scorer
    >>> neg_crps_scorer
    make_distribution_scorer(crps, greater_is_better=False)
    """
    y_true = _targets(y_true, dist)
    return _average(dist.crps(y_true), sample_weight)


def pinball_loss(
    y_true: ArrayLike,
    dist: PredictiveDistribution,
    alpha: float = 0.5,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean pinball loss of the alpha-quantile, in the units of y; less is better.

    It is `sklearn.metrics.mean_pinball_loss` of the quantiles. At 0.5 it is half the mean absolute
    error of the medians.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets, in the units of dist.
    <distributions>
    alpha : float, default=0.5
        Probability of the quantile, strictly between 0 and 1.
    <weights>
        Weighted mean, in the units of y.

    <errors>, or alpha does not lie
        strictly between 0 and 1.

    Examples
    --------
    >>> from skpmd.metrics import neg_pinball_loss_scorer, pinball_loss
    >>> from skpmd.predictive import NormalMixture
    >>> dist = NormalMixture(means=[0.0, 1.0], stds=[1.0, 2.0])
    >>> round(pinball_loss([0.5, 0.0], dist, alpha=0.9), 3)
    0.217
    >>> neg_pinball_loss_scorer
    make_distribution_scorer(pinball_loss, greater_is_better=False)
    """
    y_true = _targets(y_true, dist)
    if not (isinstance(alpha, Real) and 0.0 < alpha < 1.0):
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {alpha!r}.")
    weight = None if sample_weight is None else checked_weights(sample_weight, y_true)
    return float(mean_pinball_loss(y_true, dist.ppf(alpha), sample_weight=weight, alpha=alpha))


def interval_coverage(
    y_true: ArrayLike,
    dist: PredictiveDistribution,
    level: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Share of targets in their central interval, ends included; the best value is ``level``.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets, in the units of dist.
    <distributions>
    <level>
    <weights>
        Weighted share, between 0 and 1.

    <errors>, or the level does not lie
        strictly between 0 and 1.

    Examples
    --------
    >>> from skpmd.metrics import interval_coverage, interval_width
    >>> from skpmd.predictive import NormalMixture
    >>> dist = NormalMixture(means=[0.0, 1.0], stds=[1.0, 2.0])
    >>> interval_coverage([0.5, 9.0], dist, level=0.9)
    0.5
    >>> round(interval_width([0.5, 9.0], dist, level=0.9), 2)
    4.93
    >>> from skpmd.metrics import interval_coverage_scorer
    >>> interval_coverage_scorer
    make_distribution_scorer(interval_coverage, greater_is_better=True)
    """
    y_true = _targets(y_true, dist)
    lower, upper = dist.interval(level).T
    return _average((lower <= y_true) & (y_true <= upper), sample_weight)


def interval_width(
    y_true: ArrayLike,
    dist: PredictiveDistribution,
    level: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean width of the central intervals, in the units of y; less is better at equal coverage.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets; the width does not depend on them.
    <distributions>
    <level>
    <weights>
        Weighted mean, in the units of y.

    <errors>, or the level does not lie
        strictly between 0 and 1.

    Examples
    --------
    >>> from skpmd.metrics import interval_width
    >>> from skpmd.predictive import NormalMixture
    >>> dist = NormalMixture(means=[0.0, 1.0], stds=[1.0, 2.0])
    >>> round(interval_width([0.5, 9.0], dist, level=0.5), 2)
    2.02
    """
    _targets(y_true, dist)
    lower, upper = dist.interval(level).T
    return _average(upper - lower, sample_weight)


def topic_coherence(
    components: ArrayLike,
    X: MatrixLike,
    *,
    top_n: int = 10,
    measure: Literal["npmi", "umass"] = "npmi",
    average: Literal["macro"] | None = "macro",
) -> ArrayOrMore:
    """How often the leading words of a topic occur in the same documents; more is better.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Weights of words in topics, such as ``components_`` or ``topic_word_`` of a topic model. The
        leading words are those with the largest weights.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts of words in reference documents: those of the fit or others, in the same columns.
    top_n : int, default=10
        Number of leading words of each topic, at least 2; all words if there are no more.
    measure : {"npmi", "umass"}, default="npmi"
        ``"npmi"``: normalised pointwise mutual information of two words, log(p(v, w) / (p(v) p(w)))
        / -log p(v, w), where p is the share of documents with these words. It is -1 for words that
        are never together, 0 for independent ones and 1 for words that are always together.
        ``"umass"``: log((D(v, w) + 1) / D(v)), where D is the number of documents with these words,
        and v is the word with the larger weight.
    average : {"macro", None}, default="macro"
        ``"macro"`` returns the mean over topics, None the coherence of each topic.

    Returns
    -------
    float or ndarray of shape (n_components,)
        Mean over the pairs of a topic's leading words. Pairs with a word that is not in any
        document are left out. If no pair remains, the coherence of the topic is nan, and so is the
        mean over topics.

    Raises
    ------
    ValueError
        If counts are negative, X does not have one column for each word, or there are no pairs.

    Notes
    -----
    Two words in every document have an NPMI of 0. ``"umass"`` is the mean over pairs, as in Röder
    et al.; Mimno et al. take the sum, which is top_n (top_n - 1) / 2 times as large. gensim's
    ``c_npmi`` with a window longer than all documents adds 1e-12 to p(v, w), which differs where
    words are never together, and its ``u_mass`` adds 1e-12 n where Mimno et al. add 1.

    References
    ----------
    Röder, M., Both, A. and Hinneburg, A. (2015). Exploring the space of topic coherence measures.
    WSDM.

    Lau, J. H., Newman, D. and Baldwin, T. (2014). Machine reading tea leaves: automatically
    evaluating topic coherence and topic model quality. EACL.

    Mimno, D., Wallach, H., Talley, E., Leenders, M. and McCallum, A. (2011). Optimizing semantic
    coherence in topic models. EMNLP.

    Examples
    --------
    >>> from skpmd.metrics import topic_coherence
    >>> X = [[1, 2, 0, 0], [3, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 2]]
    >>> topic_coherence([[2, 1, 0, 0], [0, 0, 1, 2]], X, top_n=2, average=None)
    array([1. , 0.5])
    """
    words = check_array(components, dtype=np.float64, input_name="components")
    X = check_array(X, accept_sparse=("csr", "csc"), dtype="numeric", input_name="X")
    check_non_negative(X, "topic_coherence")
    if X.shape[1] != words.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns and components {words.shape[1]}: give a column for each "
            "word, in the same order."
        )
    return _coherence.coherence_of_topics(words, X, top_n, measure, average)


def make_distribution_scorer(
    score_func: Callable[..., float], *, greater_is_better: bool, **kwargs: Any
) -> Any:
    """Make a scorer out of a score of predictive distributions.

    It does what `sklearn.metrics.make_scorer` does, which in scikit-learn 1.6 rejects
    ``predict_proba`` of regressors.

    Parameters
    ----------
    score_func : callable
        Function ``score_func(y_true, dist, **kwargs)``, with a parameter ``sample_weight`` if it
        takes weights.
    greater_is_better : bool
        Whether greater scores are better. If not, the scorer returns them with the opposite sign.
    **kwargs : object
        Further parameters of score_func.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, sample_weight=None)``, for any estimator whose ``predict_proba``
        returns what score_func takes. Greater is better. It raises the errors of score_func.

    Examples
    --------
    >>> from skpmd.metrics import make_distribution_scorer, pinball_loss
    >>> make_distribution_scorer(pinball_loss, greater_is_better=False, alpha=0.95)
    make_distribution_scorer(pinball_loss, greater_is_better=False, alpha=0.95)
    """
    return _DistributionScorer(score_func, 1 if greater_is_better else -1, kwargs, "predict_proba")


class _DistributionScorer(_BaseScorer):
    """Routing of weights and the rest as in scikit-learn, but with distributions."""

    def _score(self, method_caller, estimator, X, y_true, **kwargs):
        # Not by method_caller, which in scikit-learn 1.6 takes classifiers only.
        self._warn_overlap("A parameter of this scorer was passed to it once more.", kwargs)
        dist = estimator.predict_proba(X)
        return self._sign * self._score_func(y_true, dist, **{**self._kwargs, **kwargs})

    def __repr__(self):
        kwargs = "".join(f", {name}={value!r}" for name, value in self._kwargs.items())
        name = getattr(self._score_func, "__name__", repr(self._score_func))
        return f"make_distribution_scorer({name}, greater_is_better={self._sign > 0}{kwargs})"


fill_docstrings(
    _TEXTS, crps, interval_coverage, interval_width, negative_log_predictive_density, pinball_loss
)
log_predictive_density_scorer = make_distribution_scorer(
    negative_log_predictive_density, greater_is_better=False
)
neg_crps_scorer = make_distribution_scorer(crps, greater_is_better=False)
interval_coverage_scorer = make_distribution_scorer(interval_coverage, greater_is_better=True)
neg_pinball_loss_scorer = make_distribution_scorer(pinball_loss, greater_is_better=False)


def _targets(y_true, dist):
    """Targets of shape (n,), finite, as many as there are distributions."""
    if not isinstance(dist, PredictiveDistribution):
        raise TypeError(
            f"dist must be a predictive distribution, as predict_proba of a regressor returns it, "
            f"got {type(dist).__name__}: score arrays of class probabilities by sklearn.metrics."
        )
    y = check_array(y_true, ensure_2d=False, dtype=np.float64, input_name="y_true")
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (len(dist),):
        raise ValueError(
            f"y_true must have one target for each of the {len(dist)} rows of dist, got shape "
            f"{y.shape}."
        )
    return y


def _average(values, sample_weight):
    if sample_weight is None:
        return float(np.mean(values))
    weight = checked_weights(sample_weight, values)
    kept = weight > 0.0  # a row without weight has no part in it, even where it is infinite
    return float(np.average(values[kept], weights=weight[kept]))
