"""Predictions of a topic model: averages over its particles of what each predicts."""

import numpy as np
from scipy.special import log_softmax, logsumexp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpmd.engine.threads import each
from skpmd.lda._completion import completion_split
from skpmd.lda._inference import document_elbos, topic_mass, word_probabilities

_NEGLIGIBLE = -30.0  # log weight, relative to the largest, of particles that are left out
_DOCUMENTS = 256  # documents that a thread takes at a time
_SPLIT = 512  # documents that are split in two at a time


class LDAPredictions(TransformerMixin):
    """Predictions of an estimator whose ``_state`` is an `LDAState`, each document by itself."""

    def transform(self, X, *, normalize=True):
        """Topic proportions of documents, averaged over relabelled particles.

        Under a particle they are the mean of the Dirichlet distribution that the words give at the
        fixed point of expectation-maximisation. Nothing here is random.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.
        normalize : bool, default=True
            Whether a row sums to 1. Without it a row has the pseudo-counts of the topics: its sum
            is that of ``doc_topic_prior`` and the document's words.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            float32 where X is, else float64. A document without words has the prior's proportions.
        """
        return self._proportions(X, normalize)

    def fit_transform(self, X, y=None, *, normalize=True):
        """``fit(X).transform(X)``: see `fit` and `transform`."""
        return self.fit(X).transform(X, normalize=normalize)

    def predict_proba(self, X):
        """Topic proportions of documents: `transform`, always an ndarray."""
        return self._proportions(X, normalize=True)

    def score_samples(self, X):
        """Lower bound of each document's log probability.

        Under a particle it is the variational bound given the topics' expected word probabilities;
        the bounds are averaged as probabilities, with the particles' weights. Words have an order,
        as in `sklearn.decomposition.LatentDirichletAllocation`: multinomial coefficients are left
        out. The divergence of the topics from their prior, which is in scikit-learn's score, is
        not in it: a document's value does not depend on which others are scored.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            Nats; 0 for a document without words.
        """
        check_is_fitted(self)
        self._check_parameters()
        X, _ = self._counts(X, reset=False)
        with self._threads():
            return log_probabilities(self._parameters(), self._state.block, self._log_weights, X)

    def score(self, X, y=None):
        """Sum of `score_samples`, a float in nats."""
        return float(self.score_samples(X).sum())

    def perplexity(self, X, method="bound"):
        """Perplexity of documents; low is good.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.
        method : {"bound", "completion"}, default="bound"
            ``"bound"``: exp of minus `score` for each word, an upper bound. ``"completion"``: one
            part of each document's words gives its topic proportions, and the average over
            particles predicts the words of the other part (Dai et al. 2016, eq. 19). A hash of the
            document decides on its split, so that it is the same in every call; where its counts
            are not whole, each is halved.

        Returns
        -------
        float
            Perplexity for each word.

        Raises
        ------
        ValueError
            If the method is another one, or there are no words to predict.
        """
        check_is_fitted(self)
        if method not in ("bound", "completion"):
            raise ValueError(f"method must be 'bound' or 'completion', got {method!r}.")
        self._check_parameters()
        X, _ = self._counts(X, reset=False)
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

    def _proportions(self, X, normalize):
        check_is_fitted(self)
        self._check_parameters()
        X, dtype = self._counts(X, reset=False)
        parameters, block, labels = self._parameters(), self._state.block, self._labels
        out = np.zeros((X.shape[0], block.topics.K))

        def add(i, weight, rows):
            mass = _mass(parameters, block, i, X, rows)
            if normalize:
                mass /= mass.sum(axis=1, keepdims=True)
            out[slice(*rows)] += weight * mass[:, labels[i]]

        with self._threads():
            _for_each_particle(add, self._log_weights, X.shape[0])
        return out.astype(dtype)


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


def perplexity(parameters, block, log_weights, X):
    """Perplexity by the bound; nan without words, for a fit does not end for that."""
    tokens = float(X.data.sum(dtype=np.float64)) or np.nan
    return float(np.exp(-log_probabilities(parameters, block, log_weights, X).sum() / tokens))


def completion_perplexity(parameters, block, log_weights, X):
    """Perplexity by completion, in pieces that do not fill the memory; nan without words."""
    total, tokens = 0.0, 0.0
    for start in range(0, X.shape[0], _SPLIT):
        given, held_out = completion_split(X[start : start + _SPLIT])
        log_words = np.log(completed_words(parameters, block, log_weights, given, held_out))
        total += log_words @ held_out.data.astype(np.float64)
        tokens += held_out.data.sum(dtype=np.float64)
    return float(np.exp(-total / (tokens or np.nan)))


def completed_words(parameters, block, log_weights, given, held_out):
    """Probabilities of the distinct held-out words, given the other parts of their documents."""
    out = np.zeros(held_out.nnz)

    def add(i, weight, rows):
        mass = _mass(parameters, block, i, given, rows)
        mass /= mass.sum(axis=1, keepdims=True)
        own = slice(*held_out.indptr[list(rows)])
        values = word_probabilities(block.topics, block.counts, i, held_out, mass, *rows)
        out[own] += weight * values

    _for_each_particle(add, log_weights, held_out.shape[0])
    return out


def _mass(parameters, block, i, X, rows):
    max_iter, tol = parameters.max_doc_update_iter, parameters.mean_change_tol
    return topic_mass(block.topics, block.counts, i, X, max_iter, tol, *rows)


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
