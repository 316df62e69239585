"""Predictions of a topic model: averages of the predictions of its particles."""

import numpy as np
from scipy.special import log_softmax, logsumexp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpmd._base.utils import check_level
from skpmd._base.validation import checked_weights
from skpmd._rows.by_block import of_all_rows, row_by_row
from skpmd.engine.threads import each
from skpmd.lda._completion import completion_split
from skpmd.lda._documents import groups_of, tokens_of
from skpmd.lda._inference import (
    document_elbos,
    topic_mass,
    word_moments,
    word_probabilities,
)
from skpmd.lda._proportions import Proportions

_NEGLIGIBLE = -30.0  # log weight, relative to the largest, of particles that are left out
_DOCUMENTS = 256  # documents that a thread takes at a time
_UNCERTAIN = 32  # the same for uncertainties, which take longer
_DRAWS_USED = 8  # draws of a particle's topics that intervals use: a chain under each takes time
_SPLIT = 512  # documents that are split in two at a time


class LDAPredictions(TransformerMixin):
    """Predictions of an estimator whose ``_state`` is an `LDAState`, document by document."""

    @row_by_row
    def transform(self, X, *, normalize=True, return_std=False, return_interval=None):
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

    def fit_transform(self, X, y=None, *, normalize=True, sample_weight=None):
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
    def predict_proba(self, X):
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
    def score_samples(self, X):
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
            return log_probabilities(self._parameters(), self._state.block, self._log_weights, X)

    @of_all_rows
    def score(self, X, y=None, sample_weight=None):
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

    def perplexity(self, X, method="bound"):
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
        parameters, block, log_weights = self._parameters(), self._state.block, self._log_weights
        with self._threads():
            if method == "bound":
                value = perplexity(parameters, block, log_weights, X)
            else:
                value = completion_perplexity(parameters, block, log_weights, X)
        if np.isnan(value):
            raise ValueError(
                "X has no words that perplexity could be of: give documents of at least one word, "
                "or, with method='completion', longer ones."
            )
        return value

    def _checked_counts(self, X):
        """Counts of new documents, and the type of their proportions."""
        check_is_fitted(self)
        self._check_parameters()
        return self._counts(X, reset=False)

    def _proportions(self, counts, normalize=True):
        """Topic proportions of checked documents, or their pseudo-counts; float64."""
        given = self._parameters(), self._state.block, self._log_weights, self._labels
        with self._threads():
            return proportions(*given, counts, normalize)

    def _uncertainty(self, counts, tails=None):
        """Standard deviations of the same, or with ``tails`` ends of intervals; float64."""
        given = self._parameters(), self._state.block, self._log_weights, self._labels
        with self._threads():
            return uncertainty(*given, counts, tails)


def proportions(parameters, block, log_weights, labels, X, normalize):
    """Topic proportions or pseudo-counts, averaged over relabelled particles; (n, K)."""
    out = np.zeros((X.shape[0], block.topics.K))

    def add(i, weight, rows):
        mass = _mass(parameters, block, i, X, rows, log_weights)
        if normalize:
            mass /= mass.sum(axis=1, keepdims=True)
        out[slice(*rows)] += weight * mass[:, labels[i]]

    _for_each_particle(add, log_weights, X.shape[0])
    return out


def uncertainty(parameters, block, log_weights, labels, X, tails=None):
    """Standard deviations (n, K) of topic proportions, or their quantiles at ``tails``."""
    places, log_weights = _with_weight(log_weights)
    counts = block.counts if block.draws is None else block.draws
    n_draws = len(counts.words) // block.topics.m
    used = np.linspace(0, n_draws, min(n_draws, _DRAWS_USED), False).astype(int)
    weights = np.exp(log_weights)
    alpha = np.take_along_axis(block.topics.alpha[places], labels[places], axis=1)
    totals = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    shape = X.shape[0], block.topics.K
    out = np.empty(shape if tails is None else (*shape, len(tails)))

    def piece(start):
        rows = start, min(start + _UNCERTAIN, X.shape[0])
        given = X, parameters.max_doc_update_iter, len(places), *rows, n_draws, used
        moments = [
            word_moments(block.topics, counts, i, *given, stream)[..., labels[i]]
            for stream, i in enumerate(places)
        ]
        found = Proportions.of(np.array(moments), alpha, totals[slice(*rows)], weights)
        out[slice(*rows)] = found.standard_deviations() if tails is None else found.intervals(tails)

    each(piece, range(0, X.shape[0], _UNCERTAIN))
    return out


def log_probabilities(parameters, block, log_weights, X):
    """Lower bounds of the log probabilities of documents, averaged over particles; shape (n,)."""
    table = np.empty((block.topics.m, X.shape[0]))
    max_iter, tol = parameters.max_doc_update_iter, parameters.mean_change_tol

    def fill(i, _, rows):
        elbos = document_elbos(block.topics, block.counts, i, X, max_iter, tol, *rows)
        table[i, slice(*rows)] = elbos

    _for_each_particle(fill, log_weights, X.shape[0])
    places, log_weights = _with_weight(log_weights)
    return logsumexp(table[places] + log_weights[:, None], axis=0)


def perplexity(parameters, block, log_weights, X, weight=None):
    """Perplexity by the bound; nan without words, so that a fit does not fail."""
    total, tokens = 0.0, 0.0
    for some, own in groups_of(X, weight):
        values = log_probabilities(parameters, block, log_weights, some)
        total += values.sum() if own is None else own @ values
        tokens += tokens_of(some, own)
    return float(np.exp(-total / (tokens or np.nan)))


def completion_perplexity(parameters, block, log_weights, X, weight=None):
    """Perplexity by completion, in pieces that do not fill the memory; nan without words."""
    total, tokens = 0.0, 0.0
    for start in range(0, X.shape[0], _SPLIT):
        given, held_out = completion_split(X[start : start + _SPLIT])
        log_words = np.log(completed_words(parameters, block, log_weights, given, held_out))
        counts = held_out.data.astype(np.float64)
        if weight is not None:
            counts *= np.repeat(weight[start : start + _SPLIT], np.diff(held_out.indptr))
        total += log_words @ counts
        tokens += counts.sum()
    return float(np.exp(-total / (tokens or np.nan)))


def completed_words(parameters, block, log_weights, given, held_out):
    """Probabilities of the distinct held-out words, given the other parts of their documents."""
    out = np.zeros(held_out.nnz)

    def add(i, weight, rows):
        mass = _mass(parameters, block, i, given, rows, log_weights)
        mass /= mass.sum(axis=1, keepdims=True)
        own = slice(*held_out.indptr[list(rows)])
        values = word_probabilities(block.topics, block.counts, i, held_out, mass, *rows)
        out[own] += weight * values

    _for_each_particle(add, log_weights, held_out.shape[0])
    return out


def _mass(parameters, block, i, X, rows, log_weights):
    how = parameters.max_doc_update_iter, parameters.mean_change_tol
    places, _ = _with_weight(log_weights)
    stream = np.searchsorted(places, i)
    return topic_mass(block.topics, block.counts, i, X, *how, *rows, len(places), stream)


def _for_each_particle(function, log_weights, n):
    """``function(i, weight, (start, stop))`` for each particle in turn, and pieces of documents."""
    places, log_weights = _with_weight(log_weights)
    weights = np.exp(log_weights)

    def piece(start):
        rows = start, min(start + _DOCUMENTS, n)
        for i, weight in zip(places, weights, strict=True):
            function(i, weight, rows)

    each(piece, range(0, n, _DOCUMENTS))


def _with_weight(log_weights):
    """Particles whose weight is not negligible, and their log weights; the weights sum to 1."""
    places = np.flatnonzero(log_weights > log_weights.max() + _NEGLIGIBLE)
    return places, log_softmax(log_weights[places])
