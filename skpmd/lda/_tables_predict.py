"""What the topics of a fitted model are about: tables of words and documents, and coherence."""

from skpmd._base.utils import check_level
from skpmd._coherence import topic_coherence
from skpmd.lda._results import table_of_documents, table_of_words


class LDATables:
    """Descriptions of the topics of an estimator with ``posterior_`` and ``topic_word_``."""

    def topic_word_interval(self, level=0.9, topics=None):
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
        if feature_names is None:
            feature_names = getattr(self, "feature_names_in_", None)
        return table_of_words(self.posterior_, n, feature_names, level)

    def top_documents(self, X, n=10, document_names=None, level=0.9):
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

    def coherence(self, X, top_n=10, measure="npmi", average="macro"):
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
        return topic_coherence(self.topic_word_, counts, top_n, measure, average)
