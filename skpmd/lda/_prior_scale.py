"""Likelihoods of the scales of a topic model's Dirichlet priors, one parameter each.

The given priors are multiplied by a (documents' topic proportions) and by h (topics' words). Given
how many words n of a document belong to each topic, a has the Dirichlet-multinomial likelihood
A(a alpha + n) - A(a alpha), which is the term log p(Z | alpha) of Dai et al. 2016, appendix F.2;
h has the same for each topic's counts of words. It depends on the counts through how many of them
exceed 0, 1, 2, ...: such a table is called a tally here.

A tally takes a few words of each document and of each topic only. Counts are expectations under an
approximate posterior, which assigns some words to a wrong topic, and most of the *different* words
that a topic ever has are of this kind. With all words h comes out three to ten times too large, and
then a too, for topics do not part under large priors. The words of a document, or of a topic, are
exchangeable: a few drawn at random have the same prior, and wrong words are as rare among them as
they should be. The expected tally of such draws is known without drawing. This is a composite
likelihood: each part is exact, and the sum stands in for the joint likelihood.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from skpmd.engine.model import Model

SD = 1.5  # standard deviation of the normal priors of log a and log h
# Words drawn from a document and from a topic: at most so many, and at most this part of them all.
_OF_DOCUMENTS, _OF_TOPICS = (10, 0.5), (30, 0.25)
_RARE = 0.03  # a word with no more expected draws is taken to be drawn at most twice
# Values of a prior are put into so many groups, or fewer where they are near each other in logs.
_N_GROUPS, _NEAR = 16, 0.125


class Tally(NamedTuple):
    """What the likelihood of the scale of Dirichlet-multinomials depends on."""

    parts: np.ndarray  # (G, J): How many counts exceed 0, 1, ..., by groups of equal parameters.
    wholes: np.ndarray  # (H, J): The same for sums of counts, by groups of equal sums of them.

    def times(self, factor):
        """The tally of so many copies."""
        return Tally(factor * self.parts, factor * self.wholes)

    def plus(self, other):
        """The tally of both together."""
        return Tally(self.parts + other.parts, self.wholes + other.wholes)


class Groups(NamedTuple):
    """Values of a prior, put into groups that are treated as equal."""

    index: np.ndarray  # int32: Group of each value.
    values: np.ndarray  # (G,): The common value of each group.

    @classmethod
    def of(cls, prior):
        """Groups of positive values, evenly spaced in logs."""
        logs = np.log(prior)
        low, width = logs.min(), max(np.ptp(logs) / (_N_GROUPS - 1), _NEAR)
        index = np.rint((logs - low) / width).astype(np.int32)
        return cls(index, np.exp(low + width * np.arange(index.max() + 1)))


class PriorScale(Model):
    """Log of the scale of Dirichlet priors.

    ``parts`` are `Groups` of the parameters: a column is a Dirichlet; a single row or column stands
    for all. ``wholes`` are those of their sums, for each column or for all. ``draws`` is a pair,
    the most words of a column that are tallied: a number, and a part of them of at most a half.
    """

    n_coordinates = 1

    def __init__(self, parts, wholes, draws):
        self.parts, self.wholes, self.draws = parts, wholes, draws

    @classmethod
    def of_documents(cls, alpha):
        """For documents' topic proportions, alpha of shape (K,)."""
        return cls(Groups.of(alpha[:, None]), Groups.of(alpha.sum(keepdims=True)), _OF_DOCUMENTS)

    @classmethod
    def of_topics(cls, eta, n_words):
        """For topics' words, eta of shape (V or 1, K)."""
        total = eta.sum(axis=0) * (n_words if len(eta) == 1 else 1.0)
        return cls(Groups.of(eta), Groups.of(total), _OF_TOPICS)

    def sample_prior(self, rng, m):
        """See `skpmd.engine.model.Model`."""
        return SD * rng.standard_normal((m, 1))

    def log_prior(self, theta):
        """See `skpmd.engine.model.Model`."""
        return -0.5 * ((theta[:, 0] / SD) ** 2 + np.log(2.0 * np.pi * SD**2))

    def log_likelihood(self, theta, batch):
        """Log-likelihood of a tally, up to a constant; shape (m,)."""
        scales = np.exp(theta[:, 0])
        return _rises(scales, self.parts, batch.parts) - _rises(scales, self.wholes, batch.wholes)

    def tally(self, counts, scale, totals):
        """Expected tally of the draws from each column of counts.

        ``counts`` (n, c), float32 in C order, are divided by ``scale``; ``totals`` (c,) are the
        sums of the columns, not divided. The tally has columns for 0, 1, ... below the largest
        number of draws.
        """
        max_draws, part = self.draws
        draws = np.floor(np.minimum(max_draws, part * totals)).astype(np.int64)
        draws[draws < 2] = 0  # one word says nothing about a scale
        parts = np.zeros((len(self.parts.values), max_draws))
        inverse = 1.0 / np.maximum(totals[:, None] - np.arange(max_draws), 0.5)
        _tally_draws(counts, float(scale), totals, inverse, draws, self.parts.index, parts)
        wholes = np.zeros((len(self.wholes.values), max_draws))
        index = np.broadcast_to(self.wholes.index, draws.shape)
        np.add.at(wholes, index, draws[:, None] > np.arange(max_draws))
        return Tally(parts, wholes)


def _rises(scales, groups, rows):
    """Sum of log (b (b + 1) ... (b + n - 1)) over counts n, b a scale times a group's value."""
    steps = np.arange(rows.shape[1])
    pairs = zip(groups.values, rows, strict=True)
    return sum(np.log(b * scales[:, None] + steps) @ row for b, row in pairs)


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def _tally_one(x, total, inverse, n, out):
    """Add P(more than j of n draws are of a word) for j = 0, 1, ...; x of the total are this word.

    Neither x nor the total need be whole. Draws of the word and of the rest are n together: the sum
    is over whichever has at most half of the total, for the other has enough for all draws.
    """
    few, y = x <= 0.5 * total, min(x, total - x)
    rest = total - y
    exactly = 1.0
    for i in range(n):
        exactly *= (rest - i) * inverse[i]
    upto = exactly
    for j in range(n):
        if few:
            out[j] += max(1.0 - upto, 0.0)
        else:
            out[n - 1 - j] += min(upto, 1.0)
        exactly *= (n - j) / (j + 1.0) * max(y - j, 0.0) / (rest - n + j + 1.0)
        upto += exactly
        if few and upto > 1.0 - 1e-7:
            break


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def _tally_draws(counts, scale, totals, inverse, draws, groups, out):
    """Expected numbers of rows drawn more than 0, 1, ... times: hypergeometric, for each column.

    ``inverse`` of shape (c, J) holds 1 / total, 1 / (total - 1), ... of each column.
    """
    many_rows, many_columns = groups.shape[0] > 1, groups.shape[1] > 1
    for w in range(counts.shape[0]):
        for k in range(counts.shape[1]):
            x, n = scale * counts[w, k], draws[k]
            if x <= 0.0 or n == 0:
                continue
            g = groups[w if many_rows else 0, k if many_columns else 0]
            mean = n * x * inverse[k, 0]
            if mean < _RARE:
                twice = 0.5 * mean * max(x - 1.0, 0.0) * (n - 1.0) * inverse[k, 1]
                out[g, 0] += mean - twice
                out[g, 1] += twice
            else:
                _tally_one(x, totals[k], inverse[k], n, out[g])
