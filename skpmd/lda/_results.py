"""What a topic model has learnt: topics, their intervals and words, and the evidence."""

from numbers import Integral

import numpy as np

from skpmd.lda._posterior import posterior_of
from skpmd.lda._relabel import orders

_MISSING = "{} is not available: {}."


class TopicResults:
    """Mixin of an estimator that holds `Learned`; all is made when it is asked for."""

    @property
    def posterior_(self):
        """Posterior of the topics, a `TopicPosterior`."""
        learned = self._learnt("posterior_")

        def made():
            own = learned.model, learned.counts, self._order(), self._log_weights()
            return posterior_of(*own, self.weighting)

        return self._kept("posterior", made)

    @property
    def components_(self):
        """Pseudo-counts of words in topics, averaged over aligned particles; shape (K, V)."""
        self._learnt("components_")
        return self._kept("components", lambda: self.posterior_.pseudo_counts())

    @property
    def topic_word_(self):
        """Expected word probabilities of topics, averaged over aligned particles; shape (K, V)."""
        self._learnt("topic_word_")
        return self._kept("topic_word", lambda: self.posterior_.mean())

    @property
    def doc_topic_prior_(self):
        """Dirichlet parameters of documents' shares, averaged over aligned particles; (K,)."""
        model = self._learnt("doc_topic_prior_").model
        return np.exp(self._log_weights()) @ np.take_along_axis(model.alpha, self._order(), axis=1)

    @property
    def topic_word_prior_(self):
        """Dirichlet parameters of topics' words, averaged over particles.

        A float where they are all the same, else of shape (K, V).
        """
        model = self._learnt("topic_word_prior_").model
        eta = float(np.exp(self._log_weights()) @ model.eta_scale) * model.eta.T
        return float(eta[0, 0]) if model.eta.size == model.K and np.ptp(eta) == 0.0 else eta

    @property
    def history_(self):
        """Record of the steps, a dict of ndarray.

        ``"step"``, ``"step_size"``, ``"n_documents"`` and ``"log_density"``: the mean log
        probability of a word before it was learnt, nan where it was not asked for.
        """
        history = self._learnt("history_").history
        step, gamma, n, score = np.array(history, dtype=np.float64).reshape(-1, 4).T
        return {
            "step": step.astype(int),
            "step_size": gamma,
            "n_documents": n.astype(int),
            "log_density": score,
        }

    @property
    def log_evidence_(self):
        """Log probability of all words that were learnt, of one topic; nats.

        Raises
        ------
        AttributeError
            Where it is not known: with several topics, priors that are learnt, or counts that are
            not those of all documents, each once.
        """
        learned = self._learnt("log_evidence_")
        if learned.model.K > 1:
            raise AttributeError(
                _MISSING.format("log_evidence_", "with several topics only bounds are known")
            )
        self._check_exact("log_evidence_")
        # One topic has all words: the documents' own terms are 0.
        own = learned.counts._replace(documents=np.zeros(learned.model.m))
        return float(learned.model.bound(own)[0])

    @property
    def lower_bound_(self):
        """The best particle's lower bound of the log probability of all words learnt; nats.

        Raises
        ------
        AttributeError
            Where it is not known: without ``weighting="posterior"``, which counts the documents'
            own terms, with priors that are learnt, whose own terms are not in it, or where counts
            are not those of all documents, each once.
        """
        learned = self._learnt("lower_bound_")
        if self.weighting != "posterior":
            raise AttributeError(
                _MISSING.format("lower_bound_", "its terms are counted with weighting='posterior'")
            )
        self._check_exact("lower_bound_")
        return float(learned.model.bound(learned.counts).max())

    def topic_word_interval(self, level=0.9, topics=None):
        """Central credible intervals of the topics' word probabilities.

        Each particle takes its way to share words out as known; what differs between particles is
        in the intervals too. With ``weighting="stacking"`` the weights of the particles are those
        that predict best, and not posterior weights.

        Parameters
        ----------
        level : float, default=0.9
            Probability that each holds, strictly between 0 and 1.
        topics : array-like of int, optional
            Which topics; default all. A hundred topics of 8000 words take seconds.

        Returns
        -------
        ndarray of shape (n_components or len(topics), n_features, 2), float64
            Lower and upper ends.
        """
        return self.posterior_.interval(level, topics)

    def top_words(self, n=10, feature_names=None, level=0.9):
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
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "top_words needs pandas: pip install pandas, or take topic_word_ and "
                "topic_word_interval."
            ) from error
        learned = self._learnt("top_words")
        if not (isinstance(n, Integral) and n >= 1):
            raise ValueError(f"n must be an integer of at least 1, got {n!r}.")
        names = self._words(feature_names, learned.model.V)
        words, values = self.posterior_.top_words(n, level)
        K, n = words.shape
        columns = {
            "topic": np.repeat(np.arange(K), n),
            "rank": np.tile(np.arange(1, n + 1), K),
            "word": names[words.ravel()],
        }
        for place, name in enumerate(("probability", "lower", "upper")):
            columns[name] = values[..., place].ravel()
        return pd.DataFrame(columns)

    def _words(self, feature_names, V):
        if feature_names is None:
            feature_names = getattr(self, "feature_names_in_", np.arange(V))
        names = np.asarray(feature_names)
        if names.shape != (V,):
            raise ValueError(
                f"feature_names has the shape {names.shape}: give one name for each of the {V} "
                "words."
            )
        return names

    def __getstate__(self):
        """What is pickled: not what can be made again."""
        state = dict(super().__getstate__())
        return {**state, "_lazy": {}} if "_lazy" in state else state

    def _order(self):
        """Orders that align the particles' topics."""
        own = self._learned.model, self._learned.counts, self._log_weights()
        return self._kept("order", lambda: orders(*own))

    def _log_weights(self):
        """Log weights of the particles, sum of exp 1."""
        return self._kept("log_weights", lambda: self._learned.log_weights(self.weighting))

    def _kept(self, name, make):
        if name not in self._lazy:
            self._lazy[name] = make()
        return self._lazy[name]

    def _learnt(self, name):
        learned = getattr(self, "_learned", None)
        if learned is None:
            raise AttributeError(f"{name} is there after fit or partial_fit.")
        return learned

    def _check_exact(self, name):
        if self.learn_priors:
            raise AttributeError(
                _MISSING.format(name, "the priors are learnt, set learn_priors=False")
            )
        if not self._learned.exact:
            raise AttributeError(
                _MISSING.format(
                    name, "counts are not those of all documents, each once: set max_full_iter=1"
                )
            )
