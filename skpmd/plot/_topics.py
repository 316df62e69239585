"""Topics: their most probable words, with intervals of the words' probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from skpmd._base.utils import check_count, check_level
from skpmd._typing import Array, AxesLike, TopicPosterior
from skpmd.plot._common import (
    BLUE,
    PosteriorDisplay,
    matplotlib,
    open_frame,
    percent,
    sentence_of_hidden,
    short_names,
)
from skpmd.wrappers import column_names

_COLUMNS = 3  # Panels beside each other.
# Inches: width of a panel and what a letter adds, height of a word, and what is around them.
_PANEL, _LETTER, _ROW, _FRAME = 2.1, 0.075, 0.19, 0.6


class TopicDisplay(PosteriorDisplay):
    """The most probable words of topics, with credible intervals of their probabilities.

    Each panel shows a topic. A point is the posterior mean of a word's probability, and a line its
    central interval. The axes of probabilities begin at 0 and differ between panels. Use
    `from_estimator` or `from_posterior`.

    Parameters
    ----------
    topics : ndarray of shape (k,)
        Numbers of the topics shown.
    words : list of k sequences of n str
        Words, the most probable first.
    probability : ndarray of shape (k, n)
        Posterior means.
    interval : ndarray of shape (k, n, 2)
        Lower and upper ends.
    shares : ndarray of shape (k,)
        Share of each topic in all fitted words, including those of the prior.
    level : float, default=0.9
        Posterior probability of an interval.
    n_topics : int, default=None
        Number of topics that were selected, of which k are shown; default k.

    Attributes
    ----------
    topics, words, probability, interval, shares, level, n_topics
        As given.
    axes_ : ndarray of shape (k,) of matplotlib Axes
        Panels.
    <figure>
    points_, lines_ : list of matplotlib Line2D, list of matplotlib LineCollection
        Means and intervals of each topic.

    Examples
    --------
    >>> from skpmd import LDATopicModelPMD
    >>> from skpmd.plot import TopicDisplay
    >>> X = [[3, 2, 0, 0], [2, 4, 0, 0], [0, 0, 3, 1], [0, 0, 2, 5]] * 5
    >>> lda = LDATopicModelPMD(2, doc_topic_prior=0.1, n_particles=3, random_state=0).fit(X)
    >>> words = ["cat", "dog", "bond", "stock"]
    >>> display = TopicDisplay.from_estimator(lda, feature_names=words, n_words=2)
    >>> sorted(sorted(one) for one in display.words)
    [['bond', 'stock'], ['cat', 'dog']]
    """

    def __init__(
        self, *, topics: Array, words: Sequence[Sequence[str]], probability: Array,
        interval: Array, shares: Array, level: float = 0.9, n_topics: int | None = None,
    ) -> None:  # fmt: skip
        self.topics, self.words, self.shares = topics, words, shares
        self.probability, self.interval, self.level = probability, interval, level
        self.n_topics = len(topics) if n_topics is None else n_topics

    @staticmethod
    def _known_of(estimator):
        """The words, of the fitted data frame or of the previous steps in a pipeline."""
        return {"feature_names": column_names(estimator)}

    @classmethod
    def from_posterior(
        cls, posterior: TopicPosterior, *, feature_names: Sequence[str] | None = None,
        topics: Sequence[int] | None = None, n_words: int = 8, max_topics: int = 12,
        level: float = 0.9, ax: AxesLike | None = None, **plot_options: Any,
    ) -> Self:  # fmt: skip
        """Draw topics of a posterior.

        Parameters
        ----------
        posterior : TopicPosterior
            Posterior to draw.
        feature_names : sequence of str, default=None
            The words; by default their numbers, or what `from_estimator` knows them by: the fitted
            data frame, or the previous steps in a pipeline.
        topics : sequence of int, default=None
            Numbers of the topics to draw, in this order; by default all, with the largest shares
            first.
        n_words : int, default=8
            Number of words of each topic; all words if there are fewer.
        max_topics : int, default=12
            Largest number of topics drawn; the title says how many are not shown.
        level : float, default=0.9
            Posterior probability of an interval.
        <drawing>

        Raises
        ------
        ValueError
            If an option has a value that is not allowed, or there are not as many names as words.
        TypeError
            If the posterior is not of topics.
        """
        matplotlib()
        if not (hasattr(posterior, "top_words") and hasattr(posterior, "pseudo_counts")):
            raise TypeError(f"posterior must be a TopicPosterior, got {type(posterior).__name__}.")
        check_level(level)
        n_words, max_topics = check_count("n_words", n_words), check_count("max_topics", max_topics)
        counts = posterior.pseudo_counts().sum(axis=1)
        n_features = posterior.concentration.shape[2]
        if feature_names is None:
            feature_names = [f"word {j}" for j in range(n_features)]
        if len(feature_names) != n_features:
            raise ValueError(
                f"feature_names must have a name for each of {n_features} words, got "
                f"{len(feature_names)}."
            )
        chosen = _topics(topics, counts)
        shown = chosen[:max_topics]
        words, values = posterior.top_words(n_words, level)
        display = cls(
            topics=shown,
            words=[[str(feature_names[j]) for j in words[k]] for k in shown],
            probability=values[shown, :, 0],
            interval=values[shown, :, 1:],
            shares=counts[shown] / counts.sum(),
            level=level,
            n_topics=len(chosen),
        )
        return display.plot(ax=ax, **plot_options)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        color: str | tuple[float, ...] = BLUE,
        point_kw: dict[str, Any] | None = None,
        line_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        <ax>
        <points>
        """
        k, n = self.probability.shape
        shape = (-(-k // _COLUMNS), min(k, _COLUMNS))
        if ax is not None and np.size(ax) == k:
            shape = (k, 1) if k > 1 else (1, 1)
        longest = max(len(word) for words in self.words for word in short_names(words))
        size = (_PANEL + _LETTER * longest) * max(shape[1], 2), shape[0] * (_ROW * n + _FRAME) + 0.7
        self._many_axes(ax, shape, size, spaces=(0.8, 0.7))
        for spare in self.axes_.ravel()[k:]:
            spare.set_axis_off()
        self.axes_, self.points_, self.lines_ = self.axes_.ravel()[:k], [], []
        for place in range(k):
            self._draw_topic(place, color, point_kw, line_kw)
        for panel in self.axes_[max(0, k - shape[1]) :]:
            panel.set_xlabel(f"probability\n{percent(self.level)} interval", fontsize="small")
        self._put_title(sentence_of_hidden(k, self.n_topics, "topics"), ax is None)
        return self

    def _draw_topic(self, place, color, point_kw, line_kw):
        panel, ends = self.axes_[place], self.interval[place]
        points, (lines,) = self._draw_rows(
            self.words[place], self.probability[place], [(ends, 1.6)], color, point_kw, line_kw,
            panel,
        )  # fmt: skip
        self.points_.append(points), self.lines_.append(lines)
        panel.set_xlim(0.0, 1.05 * max(ends.max(), self.probability[place].max()))
        panel.tick_params(axis="x", labelsize="small")
        panel.locator_params(axis="x", nbins=3)
        share = f"{100 * self.shares[place]:.1f} % of words"
        panel.set_title(f"topic {self.topics[place]}: {share}", fontsize="small")
        open_frame(panel)


def _topics(topics, counts):
    """Numbers of topics, those with most words first where none are given."""
    if topics is None:
        return np.argsort(-counts, kind="stable")
    found = np.asarray(topics)
    K = len(counts)
    is_whole = found.ndim == 1 and found.dtype.kind in "iu" and found.size
    if not (is_whole and (found >= -K).all() and (found < K).all()):
        raise ValueError(f"topics must be a list of integers below {K}, got {topics!r}.")
    return found % K
