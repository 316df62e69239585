"""The posterior of topics: weighted particles, each a product of Dirichlet distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from skpmd._base.utils import as_generator, check_level, check_n_draws
from skpmd._export import inference_data, library, provenance, refuse_names
from skpmd._typing import Array, ArrayLike, Frame, RandomState
from skpmd.engine.particles import random_draws
from skpmd.lda._beta_mixtures import mixture_quantiles

_NEGLIGIBLE = -30.0  # log weight of particles that are left out of intervals
# What exports say of themselves.
_WEIGHT = "particle_weight"
_ONE = "there is one particle: intervals know of no other optimum than its own"
_MEANS = "expected probabilities under each particle, which is itself uncertain of them"


class TopicPosterior:
    """Posterior of the topics' word probabilities: a weighted mixture over relabelled particles.

    A `fit` to a small collection draws the topics of all words several times, with ``max_iter``
    "auto", and given each draw the topics' word probabilities have Dirichlet distributions:
    intervals, standard deviations and draws are those of their mixture. Elsewhere they are
    approximated as follows.

    If it were known which token belongs to which topic, a topic's word probabilities would have a
    Dirichlet distribution under each particle. But a particle only has probabilities of the topics
    for each token. Let N be the expected number of a word's tokens in a topic. Of these, no more
    may be certain than the sum of the squared probabilities, which is at least N^2 / (tokens of the
    word) (Cauchy and Schwarz). Draws and intervals use this number of tokens instead of N, around
    the same mean. Stacking weights are the weights that predict best. They are not posterior
    weights, and intervals under them describe the predictive average.

    Parameters
    ----------
    concentration : ndarray of shape (m, K, V), float32
        Dirichlet parameters of the relabelled topics: prior plus counts.
    topic_word_prior : ndarray of shape (m, K, V) or (m, K, 1), float32
        The prior's part of ``concentration``.
    doc_topic_prior : ndarray of shape (m, K), float64
        Dirichlet parameters of the documents' topic proportions, relabelled.
    log_weights : ndarray of shape (m,), float64
        Log weights of the particles; the weights sum to 1.
    weighting : {"stacking", "posterior", "uniform"}
        Kind of the weights.
    feature_names : sequence of str, optional
        The words, for exports; by default their numbers.
    draws : ndarray of shape (m, R, K, V), float32, optional
        Dirichlet parameters given each of R draws of the topics of all words, for each particle.

    Attributes
    ----------
    concentration, topic_word_prior, doc_topic_prior, log_weights, weighting, feature_names, draws
        As given.
    weights : ndarray of shape (m,)
        Weights of the particles.
    n_particles : int
        Number m of particles.
    topic_word : ndarray of shape (m, K, V), float32
        Expected word probabilities under each particle.

    Examples
    --------
    >>> from skpmd import LDATopicModelPMD
    >>> X = [[3, 2, 0, 0], [2, 4, 0, 0], [0, 0, 3, 1], [0, 0, 2, 5]] * 5
    >>> fitted = LDATopicModelPMD(2, n_particles=3, random_state=0).fit(X)
    >>> fitted.posterior_
    TopicPosterior(3 particles, 2 topics, 4 words, uniform weights)
    >>> fitted.posterior_.interval(level=0.9).shape
    (2, 4, 2)
    >>> fitted.posterior_.sample(5, random_state=0).shape
    (5, 2, 4)
    """

    def __init__(
        self, concentration: Array, topic_word_prior: Array, doc_topic_prior: Array,
        log_weights: Array, weighting: Literal["stacking", "posterior", "uniform"],
        feature_names: Sequence[str] | None = None, draws: Array | None = None,
    ) -> None:  # fmt: skip
        self.feature_names, self.draws = feature_names, draws
        self.concentration, self.topic_word_prior = concentration, topic_word_prior
        self.doc_topic_prior = doc_topic_prior
        self.log_weights, self.weights = log_weights, np.exp(log_weights)
        self.weighting = weighting
        self.n_particles = len(log_weights)
        self._totals = concentration.sum(axis=2, dtype=np.float64)
        self._tokens = concentration.sum(axis=1) - np.broadcast_to(
            topic_word_prior, concentration.shape
        ).sum(axis=1)

    @property
    def topic_word(self) -> Array:
        """Expected word probabilities under each particle, shape (m, K, V), float32."""
        return self.concentration * (1.0 / self._totals[..., None]).astype(np.float32)

    def mean(self) -> Array:
        """Posterior mean of the topics' word probabilities.

        Returns
        -------
        ndarray of shape (K, V), float64
            Word probabilities; each row sums to 1.
        """
        return self._average(self.weights[:, None] / self._totals)

    def std(self) -> Array:
        """Standard deviations of the mixture whose intervals `interval` returns.

        Returns
        -------
        ndarray of shape (K, V), float64
            Standard deviations of the topics' word probabilities.
        """
        out = np.empty(self.concentration.shape[1:])
        for k in range(len(out)):
            a, b, weights = self._betas(k, slice(None))
            size = a + b
            mean = weights @ (a / size)
            square = weights @ (a * (a + 1.0) / (size * (size + 1.0)))
            out[k] = np.sqrt(np.maximum(square - mean**2, 0.0))
        return out

    def pseudo_counts(self) -> Array:
        """Average of the Dirichlet parameters.

        Returns
        -------
        ndarray of shape (K, V), float64
            Prior plus expected numbers of words, averaged with the particles' weights.
        """
        return self._average(np.repeat(self.weights[:, None], self._totals.shape[1], axis=1))

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, smooth: bool = False
    ) -> Array:
        """Draw topics.

        The mean of the draws equals `mean`, to a few thousandths. Each draw sums to one, so that
        uncertain words change the probabilities of the others. `interval` ignores this: standard
        deviations of draws are up to a tenth larger than those behind the intervals. On average
        over words an interval contains the stated share of the draws, but for a single frequent
        word up to a tenth fewer.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.
        smooth : bool, default=False
            Without effect: each particle is a density, and all draws differ.

        Returns
        -------
        ndarray of shape (n_samples, K, V), float64
            Word probabilities of all topics, in random order; for each draw a particle is chosen by
            its weight (systematic resampling).

        Raises
        ------
        ValueError
            If n_samples is not an integer of at least 0.
        """
        n = check_n_draws("n_samples", n_samples, least=0)
        rng = as_generator(random_state)
        chosen = random_draws(self.weights, n, rng)
        draws = np.empty((n, *self.concentration.shape[1:]))
        for draw, i in zip(draws, chosen, strict=True):
            given = self.concentration[i]
            if self.draws is None:
                a = np.array([self._certain(i, k) for k in range(draws.shape[1])])
            else:
                given = a = self.draws[i, rng.integers(self.draws.shape[1])].astype(np.float64)
            # Gamma variates of small shape underflow, but their logs do not.
            draw[...] = np.log(rng.standard_gamma(a + 1.0))
            draw += np.log1p(-rng.random(a.shape)) / a
            draw += np.log(given / a)
            draw -= draw.max(axis=1, keepdims=True)
            np.exp(draw, out=draw)
            draw /= draw.sum(axis=1, keepdims=True)
        return draws

    def interval(self, level: float = 0.9, topics: ArrayLike | None = None) -> Array:
        """Central credible intervals of the topics' word probabilities.

        They are intervals of the weighted mixture over particles. Under each particle a probability
        has a beta distribution with the number of tokens that are certain. Ends have a relative
        error of 1e-4, and are 0 below 1e-300.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval.
        topics : array-like of int, of shape (k,), optional
            Numbers of the topics; by default all.

        Returns
        -------
        ndarray of shape (K or len(topics), V, 2), float64
            Lower and upper ends.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        IndexError
            If there is no such topic, or ``topics`` is not a list of integers.
        """
        tails = check_level(level)
        chosen = _chosen(topics, self.concentration.shape[1])
        words = np.arange(self.concentration.shape[2])
        ends = [self._ends(tails, k, words) for k in chosen]
        return np.array(ends).reshape(len(chosen), len(words), 2)

    def top_words(self, n: int, level: float) -> tuple[Array, Array]:
        """The n most probable words of each topic, with intervals.

        Parameters
        ----------
        n : int
            Number of words of each topic; all words if there are no more.
        level : float in (0, 1)
            Posterior probability of the intervals.

        Returns
        -------
        ndarray of shape (K, n), int
            The words, the most probable first.
        ndarray of shape (K, n, 3), float64
            For each word the posterior mean, and the lower and upper end of the interval.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        tails = check_level(level)
        mean = self.mean()
        words = np.argsort(-mean, axis=1, kind="stable")[:, :n]
        values = np.empty((*words.shape, 3))
        values[..., 0] = np.take_along_axis(mean, words, axis=1)
        for k, own in enumerate(words):
            values[k, :, 1:] = self._ends(tails, k, own)
        return words, values

    def summary(self, level: float = 0.9, feature_names: ArrayLike | None = None) -> dict[str, Any]:
        """Summary statistics of each word of each topic.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Posterior probability of the intervals.
        feature_names : array-like of shape (V,), optional
            The words; by default those of the fit, or else their numbers.

        Returns
        -------
        dict of str to list or ndarray of shape (K * V,)
            Columns ready for `pandas.DataFrame`, with a row for each word of the first topic, then
            for each word of the others: ``topic``, ``word``, ``mean``, ``std``, ``lower`` and
            ``upper``.
        """
        K, V = self.concentration.shape[1:]
        lower, upper = self.interval(level).reshape(-1, 2).T
        return {
            "topic": np.repeat(np.arange(K), V),
            "word": self._names(feature_names) * K,
            "mean": self.mean().ravel(),
            "std": self.std().ravel(),
            "lower": lower,
            "upper": upper,
        }

    def to_frame(self, feature_names: ArrayLike | None = None) -> Frame:
        """Topics as a pandas.DataFrame, with a row for each topic of each particle.

        The index consists of ``particle`` and ``topic``. The first column is ``particle_weight``;
        the others are the words, with their expected probabilities under the particle. Needs the
        extra: ``pip install skpmd[arviz]``.

        Parameters
        ----------
        feature_names : array-like of shape (V,), optional
            The words; by default those of the fit, or else their numbers.

        Returns
        -------
        pandas.DataFrame
            Data frame of m K rows and 1 + V columns.

        Raises
        ------
        ImportError
            If pandas is not installed.
        ValueError
            If there are not as many names as words, or two are the same.
        """
        pandas = library("pandas", "arviz")
        m, K, V = self.concentration.shape
        names = self._names(feature_names)
        refuse_names(names, [_WEIGHT])
        index = pandas.MultiIndex.from_product([range(m), range(K)], names=["particle", "topic"])
        frame = pandas.DataFrame(self.topic_word.reshape(m * K, V), index, names)
        frame.insert(0, _WEIGHT, np.repeat(self.weights, K))
        return frame

    def to_xarray(self, feature_names: ArrayLike | None = None) -> Any:
        """Particles as an xarray.Dataset with named axes.

        ``topic_word`` (particle, topic, word) holds expected probabilities, ``doc_topic_prior``
        (particle, topic) holds parameters, and ``particle_weight`` is a coordinate along
        ``particle``. Needs the extra: ``pip install skpmd[arviz]``.

        Parameters
        ----------
        feature_names : array-like of shape (V,), optional
            The words; by default those of the fit, or else their numbers.

        Returns
        -------
        xarray.Dataset
            ``topic_word`` of shape (m, K, V) and ``doc_topic_prior`` of shape (m, K).

        Raises
        ------
        ImportError
            If xarray is not installed.
        ValueError
            If there are not as many names as words, or two are the same.
        """
        xarray = library("xarray", "arviz")
        data = {
            "topic_word": (("particle", "topic", "word"), self.topic_word),
            "doc_topic_prior": (("particle", "topic"), self.doc_topic_prior),
        }
        coords = {**self._axes(feature_names), _WEIGHT: ("particle", self.weights)}
        return xarray.Dataset(data, coords, self._attributes() | {"topic_word": _MEANS})

    def to_arviz(
        self,
        n_draws: int = 1000,
        random_state: RandomState = 0,
        feature_names: ArrayLike | None = None,
    ) -> Any:
        """Draws of the topics for ArviZ: InferenceData where ArviZ 0.x is installed, or DataTree.

        The draws are those of `sample`, in one chain. Needs the extra: ``pip install
        skpmd[arviz]``.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws; each takes 8 bytes per word of each topic.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.
        feature_names : array-like of shape (V,), optional
            The words; by default those of the fit, or else their numbers.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Object with ``topic_word`` (chain, draw, topic, word) in the group ``posterior``.

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        ValueError
            If there are not as many names as words, or two are the same.
        """
        n_draws, rng = check_n_draws("n_draws", n_draws), as_generator(random_state)
        axes, dims = self._axes(feature_names), {"topic_word": ["topic", "word"]}
        data = {"posterior": {"topic_word": self.sample(n_draws, rng)[None]}}
        return inference_data(data, axes, dims, self._attributes())

    def _names(self, feature_names):
        """Names of the words as str: those given, or those of the fit, or numbers."""
        names = self.feature_names if feature_names is None else feature_names
        names = names_of("feature_names", names, self.concentration.shape[2], "words")
        return [str(name) for name in names]

    def _axes(self, feature_names):
        """Labels of the axes; ValueError where a word has two columns."""
        names = self._names(feature_names)
        refuse_names(names, ())
        return {"topic": list(range(self.concentration.shape[1])), "word": names}

    def _attributes(self):
        found = provenance(self.weighting, self.n_particles)
        return found | {"caveat": _ONE} if self.n_particles == 1 else found

    def _ends(self, tails, topic, words):
        a, b, weights = self._betas(topic, words)
        return np.column_stack([mixture_quantiles(a, b, weights, q) for q in tails])

    def _betas(self, topic, words):
        """Parameters of the beta distributions of some words, (c, n), and their weights (c,)."""
        alive = self.log_weights > _NEGLIGIBLE
        weights = self.weights[alive] / self.weights[alive].sum()
        if self.draws is None:
            mean = self.concentration[alive, topic][:, words] / self._totals[alive, topic, None]
            a = np.array([self._certain(i, topic)[words] for i in np.flatnonzero(alive)])
            b = a * (1.0 - mean) / mean
        else:
            every = self.draws[alive, :, topic].astype(np.float64)
            every = every.reshape(-1, every.shape[-1])
            n = len(every) // len(weights)
            weights = np.repeat(weights / n, n)
            a, b = every[:, words], every.sum(axis=1, keepdims=True) - every[:, words]
        return a, np.maximum(b, 1e-300), weights  # A single word has b = 0.

    def _certain(self, i, topic):
        """Prior and certain tokens of a particle's topic, (V,), float64."""
        prior = np.broadcast_to(self.topic_word_prior[i, topic], self.concentration.shape[2])
        counts = np.maximum(self.concentration[i, topic].astype(np.float64) - prior, 0.0)
        share = np.divide(
            counts, self._tokens[i], out=np.ones_like(counts), where=self._tokens[i] > 0.0
        )
        return prior + counts * np.minimum(share, 1.0)

    def _average(self, factors):
        """Sum over particles of factors (m, K) times the Dirichlet parameters."""
        out = np.zeros(self.concentration.shape[1:])
        for factor, one in zip(factors, self.concentration, strict=True):
            out += factor[:, None] * one
        return out

    def __repr__(self):
        m, K, V = self.concentration.shape
        parts = f"{m} particles, {K} topics, {V} words, {self.weighting} weights"
        return f"TopicPosterior({parts})"


def _chosen(topics, K):
    """Numbers of topics from an argument; all K of them where it is None."""
    every = np.arange(K)
    if topics is None:
        return every
    topics = np.asarray(topics)
    if topics.size == 0:
        return every[:0]
    whole = topics.dtype.kind in "iu" and topics.ndim == 1
    if not (whole and (-K <= topics).all() and (topics < K).all()):
        raise IndexError(f"topics must be a list of integers below {K}, got {topics.tolist()}.")
    return every[topics]


def names_of(parameter, names, n, things):
    """Names of n words or documents, by default their numbers."""
    names = np.arange(n) if names is None else np.asarray(names)
    if names.shape != (n,):
        raise ValueError(
            f"{parameter} has the shape {names.shape}: give one name for each of the {n} {things}."
        )
    return names
