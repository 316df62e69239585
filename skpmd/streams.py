"""Pipelines that learn from parts of a stream, and scores of each part before it is learnt."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples

from skpmd._base.utils import check_count
from skpmd._typing import ArrayLike, Estimator, MatrixLike

__all__ = ["PrequentialScores", "StreamingPipeline", "prequential_score"]


def _can_take_parts(pipeline):
    return hasattr(pipeline.steps[-1][1], "partial_fit")


class StreamingPipeline(Pipeline):
    """A ``Pipeline`` with ``partial_fit``: transformers and the last step learn from each part.

    Transformers with ``partial_fit`` (``StandardScaler``, ``IncrementalPCA``) learn each part
    before they transform it. Transformers that have nothing to learn (``HashingVectorizer``) and
    frozen ones (``FrozenEstimator``) transform it unchanged. Any other transformer is an error,
    because it would have to see all rows.

    Parameters
    ----------
    steps : list of (str, estimator)
        As in ``Pipeline``.
    freeze_after : int or None, default=None
        Number of rows after which transformers stop learning. While they learn, they change what
        features mean to the last step, which does not see earlier rows again. A number is therefore
        better if the first rows show the scales. None means that they never stop.
    transform_input : list of str or None, default=None
        As in ``Pipeline``.
    memory : str, object with the interface of joblib.Memory, or None, default=None
        As in ``Pipeline``.
    verbose : bool, default=False
        As in ``Pipeline``.

    Attributes
    ----------
    n_samples_seen_ : int
        Number of rows in the last ``fit``, if any, and in all later calls of ``partial_fit``.
    named_steps : Bunch
        Steps by their names, as in ``Pipeline``.
    classes_ : ndarray of shape (n_classes,)
        Classes of the last step, if it has any.
    n_features_in_ : int
        Number of features, as in ``Pipeline``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.streams import StreamingPipeline
    >>> rng = np.random.default_rng(0)
    >>> X = 100.0 + 10.0 * rng.standard_normal((600, 3))
    >>> y = X[:, 0] + 5.0 * rng.logistic(size=600) > 100.0
    >>> model = StreamingPipeline([
    ...     ("scale", StandardScaler()), ("classify", BayesianLogisticRegressionPMD(random_state=0))
    ... ], freeze_after=200)
    >>> for part in np.split(np.arange(600), 3):
    ...     model = model.partial_fit(X[part], y[part], classes=[False, True])
    >>> model.n_samples_seen_, bool(model.score(X, y) > 0.7)
    (600, True)
    """

    def __init__(
        self,
        steps: list[tuple[str, Estimator]],
        *,
        freeze_after: int | None = None,
        transform_input: list[str] | None = None,
        memory: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)
        self.freeze_after = freeze_after

    def fit(self, X: MatrixLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Fit all steps to all rows; see `Pipeline`. Later parts continue from there.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, or whatever the first step takes.
        y : array-like of shape (n_samples,), default=None
            Targets.
        **params : dict
            Parameters for the steps, as in `Pipeline`.

        Returns
        -------
        StreamingPipeline
            The fitted pipeline.

        Raises
        ------
        TypeError
            If a step other than the last one cannot transform.
        """
        super().fit(X, y, **params)
        self.n_samples_seen_ = _num_samples(X)
        return self

    @available_if(_can_take_parts)
    def partial_fit(self, X: MatrixLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Learn from more rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, or whatever the first step takes.
        y : array-like of shape (n_samples,), default=None
            Targets.
        **params : dict
            Parameters for ``partial_fit`` of the last step: ``classes``, ``sample_weight``.

        Returns
        -------
        StreamingPipeline
            The pipeline. If the call fails in any way, the pipeline remains unchanged, provided
            that the last step does (as estimators of skpmd do).

        Raises
        ------
        TypeError
            If a transformer can only be fitted to all rows at once.
        ValueError
            If ``freeze_after`` is neither None nor a positive integer.
        """
        freeze_after = self.freeze_after
        if freeze_after is not None:
            check_count("freeze_after", freeze_after)
        self._validate_steps()
        seen = getattr(self, "n_samples_seen_", 0)
        learns = freeze_after is None or seen < freeze_after
        transformed, steps = X, list(self.steps)
        for place, _, transformer in self._iter(with_final=False):
            name = steps[place][0]
            if learns and not _has_nothing_to_learn(name, transformer):
                transformer = copy.deepcopy(transformer)  # What fails later changes nothing here.
                _learn(transformer, transformed, y)
                steps[place] = name, transformer
            transformed = transformer.transform(transformed)
        name, last = steps[-1]
        if last not in (None, "passthrough"):
            last.partial_fit(transformed, y, **params)
        self.steps, self.n_samples_seen_ = steps, seen + _num_samples(X)
        return self


class PrequentialScores(NamedTuple):
    """Scores of the parts of a stream, each computed before the part was learnt.

    Attributes
    ----------
    scores : ndarray of shape (n_parts - 1,)
        Scores of all parts except the first, in the units of ``scoring``.
    n_samples : ndarray of shape (n_parts - 1,)
        Numbers of rows of these parts.
    rolling : ndarray of shape (n_parts - 1,)
        Means over the rows of the last ``window`` parts.
    estimator : estimator
        The estimator after learning all parts.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd.streams import PrequentialScores
    >>> scores, n_samples = np.array([0.5, 0.8]), np.array([10, 20])
    >>> found = PrequentialScores(scores, n_samples, rolling=np.array([0.5, 0.7]), estimator=None)
    >>> round(found.mean, 3)
    0.7
    """

    scores: np.ndarray  # (n_parts - 1,): Of all parts but the first.
    n_samples: np.ndarray  # (n_parts - 1,): Their rows.
    rolling: np.ndarray  # (n_parts - 1,): Means over the rows of the last parts.
    estimator: object  # It has learnt all parts.

    @property
    def mean(self) -> float:
        """Mean over all rows except those of the first part."""
        return float(np.average(self.scores, weights=self.n_samples))


def prequential_score(
    estimator: Estimator,
    stream: Iterable[tuple[MatrixLike, ArrayLike]],
    scoring: str | Callable[..., float] | None = None,
    *,
    window: int = 10,
    params: dict[str, Any] | None = None,
) -> PrequentialScores:
    """Score each part of a stream before learning it: test, then train (Dawid 1984).

    Parameters
    ----------
    estimator : estimator
        Estimator with ``partial_fit``; a clone of it learns.
    stream : iterable of (X, y)
        Parts, in their order. The first part is only learnt, not scored. Parts are read one at a
        time.
    scoring : str, callable or None, default=None
        As in `cross_val_score`; scorers of distributions are in `skpmd.metrics`. If there are parts
        whose rows are all of one class, it must accept these.
    window : int, default=10
        Number of parts in the rolling mean.
    params : dict, default=None
        Parameters for each ``partial_fit``: ``{"classes": [...]}`` for classifiers.

    Returns
    -------
    PrequentialScores
        Scores part by part, and the estimator.

    Raises
    ------
    TypeError
        If the estimator has no ``partial_fit``.
    ValueError
        If the stream has fewer than two parts, or ``window`` is not a positive integer.

    References
    ----------
    Dawid, A. P. (1984). Statistical theory: the prequential approach. Journal of the Royal
    Statistical Society A 147.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import SparseGPRegressorPMD
    >>> from skpmd.streams import prequential_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3.0, 3.0, (300, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(300)
    >>> parts = [(X[some], y[some]) for some in np.split(np.arange(300), 6)]
    >>> found = prequential_score(SparseGPRegressorPMD(random_state=0), parts)
    >>> found.scores.shape, bool(found.mean > 0.9)
    ((5,), True)
    """
    check_count("window", window)
    if not hasattr(estimator, "partial_fit"):
        raise TypeError(
            f"estimator has no partial_fit: {type(estimator).__name__}. A Pipeline of transformers "
            "that learn from parts is a StreamingPipeline."
        )
    learner, scorer = clone(estimator), check_scoring(estimator, scoring)
    scores, counts, rolling, last = [], [], [], deque(maxlen=window)
    for place, (X, y) in enumerate(stream):
        if place:
            scores.append(float(scorer(learner, X, y)))
            counts.append(_num_samples(X))
            last.append((scores[-1], counts[-1]))
            values, weights = zip(*last, strict=True)
            rolling.append(np.average(values, weights=weights))
        learner.partial_fit(X, y, **(params or {}))
    if not scores:
        raise ValueError("stream must have two parts or more: the first is learnt only.")
    return PrequentialScores(np.array(scores), np.array(counts), np.array(rolling), learner)


def _has_nothing_to_learn(name, transformer):
    """Whether a transformer stays as it is; TypeError if it can only learn all rows at once."""
    if isinstance(transformer, FrozenEstimator):
        return True
    if hasattr(transformer, "partial_fit") and get_tags(transformer).requires_fit:
        return False
    if get_tags(transformer).requires_fit:
        raise TypeError(
            f"The step {name!r}, {type(transformer).__name__}, has no partial_fit: fit it to some "
            "rows and wrap it in sklearn.frozen.FrozenEstimator."
        )
    return True


def _learn(transformer, X, y):
    """Hand a part to a transformer that may, or may not, take targets."""
    if get_tags(transformer).target_tags.required:
        transformer.partial_fit(X, y)
    else:
        transformer.partial_fit(X)
