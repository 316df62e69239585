"""Predictions of a topic model, and tables of its words and documents."""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpmd._base.utils import check_level
from skpmd._base.validation import checked_weights
from skpmd._coherence import coherence_of_topics
from skpmd._rows.by_block import of_all_rows, row_by_row
from skpmd._typing import Array, ArrayLike, ArrayOrMore, Frame, MatrixLike
from skpmd.lda import _averages as averages
from skpmd.lda._results import table_of_documents, table_of_words


class LDAPredictions(TransformerMixin):
    """Predictions of an estimator whose ``_state`` is an `LDAState`, and what its topics are about.

    Its topics are those of ``posterior_`` and ``topic_word_``.
    """

    @row_by_row
    def transform(
        self,
        X: MatrixLike,
        *,
        normalize: bool = True,
        return_std: bool = False,
        return_interval: float | None = None,
    ) -> ArrayOrMore:
        """Topic proportions of documents, averaged over relabelled particles.

        Under a particle they are posterior means given its topics: in documents of up to 64 words
        by a Gibbs chain whose random numbers come from the document's words, and in longer ones by
        expectation-maximisation. A document always has the same result.

        Standard deviations and intervals are those of a mixture of beta distributions over
        particles, which account for the fact that the topic of each word is unknown. They take
        several times as long. Where a fit has drawn the topics of all words (``max_iter``), they
        also contain the uncertainty of the topics; elsewhere only as far as particles differ.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.
        normalize : bool, default=True
            Whether each row sums to 1. If False, a row has the pseudo-counts of the topics, whose
            sum is the sum of ``doc_topic_prior`` plus the number of words in the document.
        return_std : bool, default=False
            Whether to return posterior standard deviations of the proportions, too.
        return_interval : float in (0, 1), default=None
            If given, the probability of credible intervals of the proportions, which are returned,
            too.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Proportions, float32 if X is, else float64. A document without words has the prior's
            proportions.
        ndarray of shape (n_samples, n_components)
            Standard deviations, with ``return_std``.
        ndarray of shape (n_samples, n_components, 2)
            Lower and upper ends of central intervals, with ``return_interval``.

        Raises
        ------
        RuntimeError
            If ``return_std`` and ``return_interval`` are both requested.
        ValueError
            If the level does not lie strictly between 0 and 1, or standard deviations or intervals
            are requested for pseudo-counts.
        """
        is_alone = return_interval is None and not return_std
        if return_interval is not None and return_std:
            raise RuntimeError("At most one of return_std and return_interval can be requested.")
        if not (is_alone or normalize):
            raise ValueError(
                "return_std and return_interval are those of proportions, and normalize=False is "
                "for pseudo-counts: set normalize=True."
            )
        tails = None if return_interval is None else check_level(return_interval)
        counts, dtype = self._checked_counts(X)
        mean = self._proportions(counts, normalize).astype(dtype)
        return mean if is_alone else (mean, self._uncertainty(counts, tails).astype(dtype))

    def fit_transform(
        self,
        X: MatrixLike,
        y: object = None,
        *,
        normalize: bool = True,
        sample_weight: ArrayLike | None = None,
    ) -> Array:
        """Return ``fit(X).transform(X)``: see `fit` and `transform`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.
        y : None
            Ignored.
        normalize : bool, default=True
            Whether each row sums to 1, as in `transform`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of documents, as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Topic proportions, or with ``normalize=False`` pseudo-counts of topics.
        """
        fitted = self.fit(X, sample_weight=sample_weight)
        return fitted.transform(X, normalize=normalize)

    @row_by_row
    def predict_proba(self, X: MatrixLike) -> Array:
        """Topic proportions of documents: `transform`, always an ndarray.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Proportions, float32 if X is, else float64; each row sums to 1.
        """
        counts, dtype = self._checked_counts(X)
        return self._proportions(counts).astype(dtype)

    @row_by_row
    def score_samples(self, X: MatrixLike) -> Array:
        """Lower bound of each document's log probability.

        Under a particle it is the variational bound given the topics' expected word probabilities;
        these bounds are averaged as probabilities, with the particles' weights. As in
        `sklearn.decomposition.LatentDirichletAllocation`, the words of a document are taken as
        ordered: multinomial coefficients are left out. The divergence of the topics from their
        prior, which scikit-learn's score includes, is also left out: the value of a document does
        not depend on which others are scored.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            Lower bounds in nats; 0 for a document without words.
        """
        X, _ = self._checked_counts(X)
        with self._threads():
            return averages.log_probabilities(*self._of_particles(), X)

    @of_all_rows
    def score(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Sum of `score_samples`, weighted by the weights of the documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the documents, not negative.

        Returns
        -------
        float
            Weighted sum, in nats.
        """
        values = self.score_samples(X)
        if sample_weight is None:
            return float(values.sum())
        return float(checked_weights(sample_weight, values) @ values)

    def perplexity(self, X: MatrixLike, method: Literal["bound", "completion"] = "bound") -> float:
        """Perplexity of documents; lower is better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.
        method : {"bound", "completion"}, default="bound"
            ``"bound"``: exp of minus `score` for each word, an upper bound. ``"completion"``: one
            part of each document's words gives its topic proportions, and the average over
            particles predicts the words of the other part (Dai et al. 2016, eq. 19). The split
            depends on a hash of the document, so that it is the same in every call; if its counts
            are not whole, each count is divided by two.

        Returns
        -------
        float
            Perplexity per word.

        Raises
        ------
        ValueError
            If there is no such method, or there are no words to predict.
        """
        check_is_fitted(self)
        if method not in ("bound", "completion"):
            raise ValueError(f"method must be 'bound' or 'completion', got {method!r}.")
        X, _ = self._checked_counts(X)
        of = averages.perplexity if method == "bound" else averages.completion_perplexity
        with self._threads():
            value = of(*self._of_particles(), X)
        if np.isnan(value):
            raise ValueError(
                "X has no words that perplexity could be of: give documents of at least one word, "
                "or, with method='completion', longer ones."
            )
        return value

    def topic_word_interval(self, level: float = 0.9, topics: ArrayLike | None = None) -> Array:
        """Central credible intervals of the topics' word probabilities.

        They are those of ``posterior_``: of draws of the topics of all words where a fit has made
        them, and else approximate. With ``weighting="stacking"`` the weights of the
        particles are those that predict best, and not posterior weights.

        Parameters
        ----------
        level : float, default=0.9
            Probability that each holds, strictly between 0 and 1.
        topics : array-like of int, of shape (k,), optional
            Which topics; default all. A hundred topics of 8000 words take seconds.

        Returns
        -------
        ndarray of shape (n_components or len(topics), n_features, 2), float64
            Lower and upper ends.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        IndexError
            If there is no such topic.
        """
        return self.posterior_.interval(level, topics)

    def top_words(
        self, n: int = 10, feature_names: ArrayLike | None = None, level: float = 0.9
    ) -> Frame:
        """The most probable words of each topic, with credible intervals.

        Parameters
        ----------
        n : int, default=10
            Words of each topic.
        feature_names : array-like of shape (n_features,), optional
            The words; default ``feature_names_in_``, or the columns' numbers without it.
        level : float, default=0.9
            Probability that each interval holds, strictly between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            Columns ``topic``, ``rank`` (from 1), ``word``, ``probability``, ``lower``, ``upper``.

        Raises
        ------
        ImportError
            Without pandas.
        ValueError
            If ``n`` is not a positive integer, or there are not as many names as words.
        """
        if feature_names is None:
            feature_names = getattr(self, "feature_names_in_", None)
        return table_of_words(self.posterior_, n, feature_names, level)

    def top_documents(
        self,
        X: MatrixLike,
        n: int = 10,
        document_names: ArrayLike | None = None,
        level: float = 0.9,
    ) -> Frame:
        """The documents with the largest proportion of each topic, with credible intervals.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words: documents of the fit or others.
        n : int, default=10
            Documents of each topic.
        document_names : array-like of shape (n_samples,), optional
            What to call them; default their row numbers in X.
        level : float, default=0.9
            Probability that each interval holds, strictly between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            Columns ``topic``, ``rank`` (from 1), ``document``, ``proportion`` (the posterior mean,
            that of `transform`), ``lower``, ``upper``. Of equal proportions the first comes first.

        Raises
        ------
        ImportError
            Without pandas.
        ValueError
            If ``n`` is not a positive integer, or there are not as many names as documents.
        """
        counts, _ = self._checked_counts(X)
        tails = check_level(level)

        def interval_of(rows):
            return self._uncertainty(counts[rows], tails)

        return table_of_documents(self._proportions(counts), interval_of, n, document_names)

    def coherence(
        self,
        X: MatrixLike,
        top_n: int = 10,
        measure: Literal["npmi", "umass"] = "npmi",
        average: Literal["macro"] | None = "macro",
    ) -> ArrayOrMore:
        """How often the leading words of topics are in the same documents; more is better.

        It is `skpmd.metrics.topic_coherence` of ``topic_word_``, where measures are defined.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in reference documents: those of the fit or others.
        top_n : int, default=10
            Leading words of each topic, at least 2.
        measure : {"npmi", "umass"}, default="npmi"
            Normalised pointwise mutual information, from -1 to 1, or log conditional shares of
            documents.
        average : {"macro", None}, default="macro"
            The mean over topics, or with None the coherence of each.

        Returns
        -------
        float or ndarray of shape (n_components,)
            Mean over pairs of a topic's leading words, nan where no two of them occur in X.

        Raises
        ------
        ValueError
            If a parameter is not one of these, or there is a single word.
        """
        counts, _ = self._checked_counts(X)
        return coherence_of_topics(self.topic_word_, counts, top_n, measure, average)

    def _checked_counts(self, X):
        """Counts of new documents, and the type of their proportions."""
        check_is_fitted(self)
        self._check_parameters()
        return self._counts(X, reset=False)

    def _of_particles(self):
        """Parameters, the particles and their log weights."""
        return self._parameters(), self._state.block, self._log_weights

    def _proportions(self, counts, normalize=True):
        """Topic proportions of checked documents, or their pseudo-counts; float64."""
        with self._threads():
            return averages.proportions(*self._of_particles(), self._labels, counts, normalize)

    def _uncertainty(self, counts, tails=None):
        """Standard deviations of the same, or with ``tails`` ends of intervals; float64."""
        with self._threads():
            return averages.uncertainty(*self._of_particles(), self._labels, counts, tails)
