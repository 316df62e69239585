"""Learning the scales of a topic model's priors: two sets of scale particles for each particle.

Given a particle's words in topics, the scales of its two priors are independent. The density of
each log scale (see `skpmd.lda._prior_scale`) is carried by particles of its own, which the engine's
mirror step moves and rejuvenates. The topic model goes on with the scales at their mean logs.
"""

from typing import NamedTuple

import numpy as np

from skpmd._base.utils import warn
from skpmd.engine import mirror
from skpmd.engine.particles import draw_prior, weights
from skpmd.lda._prior_scale import PriorScale

_N_PARTICLES = 64  # scale particles of one scale
# Scale particles move once the counts have moved so far and the documents have had so many entries
# for each word of the vocabulary: a step looks at all counts, and its cost is to stay small.
_MIN_MOVED, _MIN_ENTRIES = 0.6, 4.0
# Of a batch, at least this many documents, and fewer than twice as many, are tallied: for the cost.
_N_TALLIED = 16
# Counts say something about priors once no more than this part of the initial guess is left.
_MAX_GUESS = 0.003
# Documents count as at most so many: batches give no more certainty about all of them.
_MAX_DOCUMENTS = 1000.0
# The densities have one peak on a line: rejuvenations are few, from one normal distribution.
_SETTINGS = mirror.Settings(ess_threshold=0.3, bandwidth=1.0)


class PriorsState(NamedTuple):
    """What is known about the scales of the priors of m particles."""

    shape: np.ndarray  # (K,): The given prior of the documents' topic proportions.
    scale: PriorScale  # Likelihood of its scale.
    documents: tuple  # Particles of the log scale of that prior, for each of the m.
    topics: tuple  # Likewise for the prior of the topics' words.
    # Tallies of the documents since these last moved, discounted as their counts.
    tallies: tuple | None = None
    moved: float = 0.0  # How far these documents have moved the counts: their step sizes as one.
    entries: float = 0.0  # Entries of these documents.
    guess: float = 1.0  # Part of the initial guess that is left in the counts.
    updated: bool = (
        False  # Whether the scale particles have moved, and are no draws of their prior.
    )

    def alpha(self):
        """Dirichlet parameters of the documents' topic proportions, shape (m, K)."""
        return _scales(self.documents)[:, None] * self.shape

    def eta_scale(self):
        """Factors of the Dirichlet parameters of the topics' words, shape (m,)."""
        return _scales(self.topics)

    def select(self, chosen):
        """The state of some of the particles."""
        documents, topics = (tuple(c[i] for i in chosen) for c in (self.documents, self.topics))
        tallies = self.tallies and tuple(self.tallies[i] for i in chosen)
        return self._replace(documents=documents, topics=topics, tallies=tallies)


def initialise(topics, rng):
    """Draw scale particles from their prior; ``topics`` have the priors as given.

    Returns the state before the first document, and topics that start with priors no larger than
    1 / K: under large ones topics do not part, which would make the scales larger still.
    """
    shape, largest = topics.alpha[0], 1.0 / topics.K
    scale = PriorScale.of_documents(shape)
    of_topics = PriorScale.of_topics(topics.eta, topics.V)
    state = PriorsState(
        shape=shape,
        scale=scale,
        documents=tuple(draw_prior(scale, _N_PARTICLES, rng) for _ in range(topics.m)),
        topics=tuple(draw_prior(of_topics, _N_PARTICLES, rng) for _ in range(topics.m)),
    )
    alpha = np.tile(min(1.0, largest / shape.mean()) * shape, (topics.m, 1))
    eta_scale = np.full(topics.m, min(1.0, largest / topics.eta.mean()))
    return state, topics.with_priors(alpha, eta_scale)


def update(state, topics, counts, *, n_entries, mass, gamma, copies, weight, rng):
    """Tally a batch, and now and then move the scale particles.

    The words of the batch were assigned under ``topics``; ``counts`` are those after it.
    ``mass`` (m, B, K), float32, holds the expected words of its documents in each topic, and
    ``n_entries`` is the number of their distinct words, summed over documents. The step size is
    ``gamma``, and each document stands for ``copies`` times its ``weight`` (B,) documents.

    Returns the state after the batch, and topics with the priors as they are known now.
    """
    state = state._replace(guess=state.guess * (1.0 - gamma))
    if state.guess > _MAX_GUESS:
        return state, topics
    rows = mass[:, _tallied(weight)]
    weight = gamma * min(copies * weight.sum(), _MAX_DOCUMENTS) / rows.shape[1]
    columns = (np.ascontiguousarray(one.T) for one in rows)
    new = (state.scale.tally(c, 1.0, c.sum(axis=0, dtype=np.float64)) for c in columns)
    tallies = tuple(one.times(weight) for one in new)
    if state.tallies is not None:
        pairs = zip(state.tallies, tallies, strict=True)
        tallies = tuple(old.times(1.0 - gamma).plus(one) for old, one in pairs)
    moved = 1.0 - (1.0 - state.moved) * (1.0 - gamma)
    entries = state.entries + n_entries
    state = state._replace(tallies=tallies, moved=moved, entries=entries)
    if moved < _MIN_MOVED or entries < _MIN_ENTRIES * topics.V:
        return state, topics
    state = _move_scales(state, topics, counts, rng)
    return state, topics.with_priors(state.alpha(), state.eta_scale())


def _tallied(weight):
    """Which documents of a batch are tallied: at even distances, which are those of weights."""
    places = np.arange(0, len(weight), max(1, len(weight) // _N_TALLIED))
    ends = np.cumsum(weight) * (len(weight) / weight.sum())
    return np.minimum(np.searchsorted(ends, places, side="right"), len(weight) - 1)


def final_topics(state, topics):
    """Topic models that a fit ends with: with priors that are learnt, or else those given.

    `initialise` starts with others. It warns of convergence if the scale particles have not moved.
    """
    if state.updated:
        return topics
    warn(
        "learn_priors=True has learnt nothing: the documents were too few, or too seldom visited, "
        "for the topics to forget the guess that they started from, so that the priors are those "
        "that were given. Raise max_iter, give more documents, or set learn_priors=False."
    )
    return topics.with_priors(np.tile(state.shape, (topics.m, 1)), np.ones(topics.m))


def _scales(densities):
    """Scales at the means of their logs."""
    return np.array([np.exp(weights(q.log_ratio) @ q.theta[:, 0]) for q in densities])


def _move_scales(state, topics, counts, rng):
    of_topics = PriorScale.of_topics(topics.eta, topics.V)
    of_documents, of_words = [], []
    for i in range(topics.m):
        words = of_topics.tally(counts.words[i], counts.scale, counts.totals[i])
        for densities, scale, particles, tally in (
            (of_documents, state.scale, state.documents[i], state.tallies[i]),
            (of_words, of_topics, state.topics[i], words.times(state.moved)),
        ):
            moved, _ = mirror.step(particles, scale, (tally,), state.moved, 1.0, _SETTINGS, rng)
            densities.append(moved)
    new = PriorsState(state.shape, state.scale, tuple(of_documents), tuple(of_words))
    return new._replace(guess=state.guess, updated=True)
