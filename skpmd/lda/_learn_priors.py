"""Learning the scales of a topic model's priors: two small clouds beside each particle.

Given a particle's words in topics, the scales of both priors are independent. The density of each
log scale (see `skpmd.lda._prior_scale`) is carried by a cloud and moved by the engine's mirror
step, with its guard and its redraws. The particle goes on with the scales at the clouds' means.
"""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpmd.engine import mirror
from skpmd.engine.particles import draw_prior, weights
from skpmd.lda._prior_scale import PriorScale

_POINTS = 64  # of a cloud on a line
# Before clouds move again: how far counts have moved, and entries of documents for each word of the
# vocabulary, whose counts are all looked at then. Both are for the cost.
_MOVED, _ENTRIES = 0.6, 4.0
_ROWS = 16  # documents of a batch that speak for their prior, or a few more: likewise
_FADED = 0.003  # what may be left of the guess that counts start with before they speak for priors
_DOCUMENTS = 1000.0  # that all of them are taken for at most: what batches say of them is no surer
# One peak on a line: few redraws, of one normal.
_SETTINGS = mirror.Settings(ess_threshold=0.3, bandwidth=1.0)


class PriorsState(NamedTuple):
    """What is known about the scales of the priors of m particles.

    Attributes
    ----------
    shape : ndarray of shape (K,)
        Prior of documents' shares as it was given.
    scale : PriorScale
        Of that.
    documents, topics : tuple of Particles
        Densities of the log scales, for each particle.
    tallies : tuple of Tally, or None
        Of documents since the clouds' last step, as a sum of steps; None before the first.
    moved : float
        Those steps' sizes, as one.
    entries : float
        Entries of their documents.
    guess : float
        Share of the first guess that is left in the counts.
    learnt : bool
        Whether the clouds have moved: they are draws of their prior before.
    """

    shape: np.ndarray
    scale: PriorScale
    documents: tuple
    topics: tuple
    tallies: tuple | None = None
    moved: float = 0.0
    entries: float = 0.0
    guess: float = 1.0
    learnt: bool = False

    def alpha(self):
        """Dirichlet parameters of documents' shares, shape (m, K)."""
        return _means(self.documents)[:, None] * self.shape

    def eta_scale(self):
        """What multiplies the Dirichlet parameters of topics' words, shape (m,)."""
        return _means(self.topics)

    def take(self, chosen):
        """Those of some of the particles."""
        documents, topics = (tuple(c[i] for i in chosen) for c in (self.documents, self.topics))
        tallies = self.tallies and tuple(self.tallies[i] for i in chosen)
        return self._replace(documents=documents, topics=topics, tallies=tallies)


def start(model, rng):
    """Clouds drawn from the prior of the scales.

    Parameters
    ----------
    model : Topics
        With the priors that were given.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    PriorsState
        Before the first document.
    Topics
        The model to begin with: of no larger priors than 1 / K, for under large ones topics do not
        part, and would speak for still larger ones.
    """
    shape, most = model.alpha[0], 1.0 / model.K
    scale = PriorScale.of_documents(shape)
    of_topics = PriorScale.of_topics(model.eta, model.V)
    documents = tuple(draw_prior(scale, _POINTS, rng) for _ in range(model.m))
    topics = tuple(draw_prior(of_topics, _POINTS, rng) for _ in range(model.m))
    alpha = np.tile(min(1.0, most / shape.mean()) * shape, (model.m, 1))
    eta_scale = np.full(model.m, min(1.0, most / model.eta.mean()))
    return PriorsState(shape, scale, documents, topics), model.with_priors(alpha, eta_scale)


def advance(state, model, counts, n_entries, mass, gamma, copies, rng):
    """Take in a batch, and now and then move the clouds.

    Parameters
    ----------
    state : PriorsState
        Before.
    model : Topics
        By which the batch was learnt.
    counts : Counts
        After the batch.
    n_entries : int
        Words of the batch's documents, each once.
    mass : ndarray of shape (m, B, K), float32
        Words of each document in each topic.
    gamma, copies : float
        Step size, and how many documents each one stands for.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    PriorsState
        After.
    Topics
        The model with the priors as they are known now.
    """
    state = state._replace(guess=state.guess * (1.0 - gamma))
    if state.guess > _FADED:
        return state, model
    rows = mass[:, :: max(1, mass.shape[1] // _ROWS)]
    weight = gamma * min(copies * mass.shape[1], _DOCUMENTS) / rows.shape[1]
    columns = (np.ascontiguousarray(one.T) for one in rows)
    new = (state.scale.tally(c, 1.0, c.sum(axis=0, dtype=np.float64)) for c in columns)
    tallies = tuple(one.times(weight) for one in new)
    if state.tallies is not None:
        pairs = zip(state.tallies, tallies, strict=True)
        tallies = tuple(old.times(1.0 - gamma).plus(one) for old, one in pairs)
    moved = 1.0 - (1.0 - state.moved) * (1.0 - gamma)
    entries = state.entries + n_entries
    state = state._replace(tallies=tallies, moved=moved, entries=entries)
    if moved < _MOVED or entries < _ENTRIES * model.V:
        return state, model
    state = _moved(state, model, counts, rng)
    return state, model.with_priors(state.alpha(), state.eta_scale())


def concluded(state, model):
    """The model that a fit ends with: that of the given priors, if none were learnt.

    Parameters
    ----------
    state : PriorsState
        At the end.
    model : Topics
        By which the last batch was learnt.

    Returns
    -------
    Topics
        With priors that are learnt or given, and not those to begin with.

    Warns
    -----
    ConvergenceWarning
        If the clouds have not moved.
    """
    if state.learnt:
        return model
    warnings.warn(
        "learn_priors=True has learnt nothing: the documents were too few, or too seldom visited, "
        "for the topics to forget the guess that they started from, so that the priors are those "
        "that were given. Raise max_iter, give more documents, or set learn_priors=False.",
        ConvergenceWarning,
        stacklevel=4,
    )
    return model.with_priors(np.tile(state.shape, (model.m, 1)), np.ones(model.m))


def _means(clouds):
    """Scales at the means of their logs."""
    return np.array([np.exp(weights(c.log_ratio) @ c.theta[:, 0]) for c in clouds])


def _moved(state, model, counts, rng):
    of_topics = PriorScale.of_topics(model.eta, model.V)
    documents, topics = [], []
    for i in range(model.m):
        words = of_topics.tally(counts.words[i], counts.scale, counts.totals[i])
        for clouds, scale, particles, tally in (
            (documents, state.scale, state.documents[i], state.tallies[i]),
            (topics, of_topics, state.topics[i], words.times(state.moved)),
        ):
            step = mirror.step(particles, scale, (tally,), state.moved, 1.0, _SETTINGS, rng)
            clouds.append(step[0])
    kept = state.shape, state.scale, tuple(documents), tuple(topics)
    return PriorsState(*kept, guess=state.guess, learnt=True)
