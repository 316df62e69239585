"""Predictions of a topic model: averages over particles, given what each expects of its topics."""

import numpy as np
from scipy.special import logsumexp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpmd._base.threads import workers
from skpmd.lda._completion import halves
from skpmd.lda._inference import log_bounds, topic_mass, word_probabilities

_NEGLIGIBLE = -30.0  # log weight of a particle below which it is not asked
_DOCUMENTS = 256  # that one thread takes at a time


class TopicPredictions(TransformerMixin):
    """Mixin of an estimator that holds `Learned`; each document is answered by itself."""

    # ------------------------------------------------------------------ shares of topics
    def transform(self, X, *, normalize=True):
        """Shares of the topics in documents, averaged over aligned particles.

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
            float32 where X is, else float64. A document without words has the prior's shares.
        """
        return self._shares(X, normalize)

    def fit_transform(self, X, y=None, *, normalize=True):
        """Fit, and the shares of the topics in the same documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.
        y : None
            Ignored.
        normalize : bool, default=True
            As in `transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            ``fit(X).transform(X)``.
        """
        return self.fit(X).transform(X, normalize=normalize)

    def predict_proba(self, X):
        """Shares of the topics in documents: `transform`, always an ndarray.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            A row sums to 1.
        """
        return self._shares(X, normalize=True)

    # ------------------------------------------------------------------ probabilities of words
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
        check_is_fitted(self, "_learned")
        X, _ = self._counts(X, reset=False)
        return self._log_probabilities(self._learned, X)

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
            ``"bound"``: exp of minus `score` for each word, an upper bound. ``"completion"``: from
            one half of each document's words the shares of topics are found, and the average over
            particles predicts the words of the other half (Dai et al. 2016, eq. 19). A hash of the
            document says where each of its words goes, so that it is halved alike in every call;
            where its counts are not whole, each is halved.

        Returns
        -------
        float
            Perplexity for each word.

        Raises
        ------
        ValueError
            If the method is another one, or there are no words to predict.
        """
        check_is_fitted(self, "_learned")
        if method not in ("bound", "completion"):
            raise ValueError(f"method must be 'bound' or 'completion', got {method!r}.")
        X, _ = self._counts(X, reset=False)
        if method == "bound":
            _tokens(X)
            return self._perplexity_of(X)(self._learned)
        given, asked = halves(X)
        tokens = _tokens(asked)
        log_words = np.log(self._words_given(given, asked))
        return float(np.exp(-(log_words @ asked.data.astype(np.float64)) / tokens))

    def _perplexity_of(self, X):
        """Function of what has been learnt: perplexity of checked counts by the bound.

        Of documents without words it is nan: a fit does not end for that.
        """
        tokens = float(X.data.sum(dtype=np.float64)) or np.nan

        def perplexity(learned):
            return float(np.exp(-self._log_probabilities(learned, X).sum() / tokens))

        return perplexity

    # ------------------------------------------------------------------ averages over particles
    def _shares(self, X, normalize):
        check_is_fitted(self, "_learned")
        X, dtype = self._counts(X, reset=False)
        learned, order = self._learned, self._order()
        out = np.zeros((X.shape[0], learned.model.K))

        def add(i, weight, rows):
            mass = topic_mass(learned.model, learned.counts, i, X, *self._ends(), *rows)
            if normalize:
                mass /= mass.sum(axis=1, keepdims=True)
            out[slice(*rows)] += weight * mass[:, order[i]]

        self._each(learned, X, add)
        return out.astype(dtype)

    def _log_probabilities(self, learned, X):
        places, log_weights = self._asked(learned)
        table = np.empty((learned.model.m, X.shape[0]))

        def put(i, _, rows):
            table[i, slice(*rows)] = log_bounds(
                learned.model, learned.counts, i, X, *self._ends(), *rows
            )

        self._each(learned, X, put)
        return logsumexp(table[places] + log_weights[:, None], axis=0)

    def _words_given(self, given, asked):
        """Probabilities of the distinct words of some halves, given the other halves."""
        learned = self._learned
        out = np.zeros(asked.nnz)

        def add(i, weight, rows):
            mass = topic_mass(learned.model, learned.counts, i, given, *self._ends(), *rows)
            mass /= mass.sum(axis=1, keepdims=True)
            own = slice(*asked.indptr[list(rows)])
            out[own] += weight * word_probabilities(
                learned.model, learned.counts, i, asked, mass, *rows
            )

        self._each(learned, asked, add)
        return out

    def _each(self, learned, X, function):
        """``function(i, weight, (start, stop))`` for each particle, in turn, and each document."""
        places, log_weights = self._asked(learned)
        weights = np.exp(log_weights)

        def answer(start):
            rows = start, min(start + _DOCUMENTS, X.shape[0])
            for i, weight in zip(places, weights, strict=True):
                function(i, weight, rows)

        with workers(self.n_jobs) as threads:
            threads.map(answer, range(0, X.shape[0], _DOCUMENTS))

    def _asked(self, learned):
        """Particles whose weight says something, and their log weights, sum of exp 1."""
        fitting = learned is not getattr(self, "_learned", None)
        log_weights = learned.log_weights(self.weighting) if fitting else self._log_weights()
        places = np.flatnonzero(log_weights > log_weights.max() + _NEGLIGIBLE)
        return places, log_weights[places] - logsumexp(log_weights[places])

    def _ends(self):
        return self.max_doc_update_iter, self.mean_change_tol


def _tokens(X):
    tokens = float(X.data.sum(dtype=np.float64))
    if not tokens:
        raise ValueError(
            "X has no words that perplexity could be of: give documents of at least one word, or, "
            "with method='completion', longer ones."
        )
    return tokens
