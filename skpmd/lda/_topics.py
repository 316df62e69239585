"""Latent Dirichlet allocation: each particle has a product of Dirichlet distributions of topics.

The topics z of the words are local variables. A particle holds the expected counts of words in its
topics. The local update of a batch assigns the documents' words to topics in expectation, given the
particle's expected word probabilities, and the counts move as natural parameters do (Dai et al.
2016, appendix F.2). With r the words' counts times their responsibilities, a step is

    counts <- (1 - gamma) counts + gamma (N / B) sum over the batch of r

With gamma = 1 on all documents the counts are the sum of r, and with A the log normaliser of
Dirichlet distributions

    ELBO = sum over topics of A(eta + counts) - A(eta)
           + sum over documents of A(alpha + sum r) - A(alpha) + entropy of r  <=  log p(words)

holds for any r. The sum over the steps is the log ratio of the paper's mirror descent over Z, with
the normalisers of eta and the term log p(Z | alpha) that F.2 leaves out.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skpmd._runtime.threads import each, n_threads, ranges
from skpmd.lda import _kernels as kernels

ASSIGNMENTS = ("sampled", "soft", "collapsed")
# Stored counts whose scale falls below this are near the smallest float32, and are scaled anew.
_MIN_SCALE = 1e-12
_ROUNDING = 1e-5  # relative rounding error of sums of words in float32
_GUESS = 0.1  # part of the words that the initial guess stands for
_SHAPE = 100.0  # of the guess's gamma distribution: nearly even, for topics to part slowly
_PIECE = 1 << 20  # numbers that are handled at once
# Kernels multiply alpha by the least word probability: a smaller alpha would underflow in float32.
_MIN_ALPHA = 1e-7
MIN_DOCUMENTS = 4  # To start a thread takes longer than the local update of fewer documents.


class Counts(NamedTuple):
    """Expected counts of words in the topics of m particles, without the prior."""

    # (m, V, K) float32: How often each word was assigned to each topic, divided by ``scale``. It is
    # written to in place, in the rows of a batch's words only.
    words: np.ndarray
    totals: np.ndarray  # (m, K): Words of each topic.
    # (m,): Sum over documents of the ELBO's terms A(alpha + sum r) - A(alpha) + entropy of r; nan
    # where these were not computed.
    documents: np.ndarray
    scale: float  # Factor of ``words``: a step changes it, and touches the batch's words alone.

    @classmethod
    def zeros(cls, m, n_words, K):
        """Counts of no documents."""
        words = np.zeros((m, n_words, K), dtype=np.float32)
        return cls(words, np.zeros((m, K)), np.zeros(m), 1.0)

    def select(self, chosen):
        """Counts of some of the particles."""
        return self._replace(
            words=self.words[chosen], totals=self.totals[chosen], documents=self.documents[chosen]
        )

    def arranged(self, orders):
        """Counts, copies, whose topic k of particle i is now ``orders[i, k]``; (m, K), int."""
        words = np.take_along_axis(self.words, orders[:, None], axis=2)
        return self._replace(words=words, totals=np.take_along_axis(self.totals, orders, axis=1))

    def widened(self, n_words):
        """The same counts with more words, which have not occurred."""
        m, V, K = self.words.shape
        wide = Counts.zeros(m, n_words, K)
        wide.words[:, :V] = self.words
        return self._replace(words=wide.words)

    def balanced(self):
        """Counts after an interrupted step: each particle is as before it or as after it.

        The words of particles that had taken the step are those after it, up to a factor.
        """
        totals = self.scale * self.words.sum(axis=1, dtype=np.float64)
        factor = self.totals.sum(axis=1) / np.maximum(totals.sum(axis=1), _MIN_SCALE)
        moved = np.abs(factor - 1.0) > _ROUNDING
        factor = np.where(moved & (totals.sum(axis=1) > 0.0), factor, 1.0)[:, None]
        totals = np.where(moved[:, None], factor * totals, self.totals)
        words = self.words * factor[:, None].astype(np.float32)
        return self._replace(words=words, totals=totals)

    def discounted(self, discount):
        """Counts times a discount; words are rescaled, and copied, once in many steps and at 0."""
        words, scale = self.words, self.scale * discount
        if scale < _MIN_SCALE:
            words, scale = words * np.float32(scale), 1.0
        return Counts(words, discount * self.totals, discount * self.documents, scale)


class LocalUpdate(NamedTuple):
    """Settings of the local update, which assigns the words of documents to topics."""

    # "sampled": a Gibbs chain over the words' topics, whose conditional probabilities are averaged
    # (Rao-Blackwell). "soft": expectation-maximisation for the document's topic proportions.
    # "collapsed": the zeroth-order collapsed update, in which a word's own responsibilities are
    # left out (Asuncion et al. 2009).
    assignment: str
    n_local_iter: int  # Visits of all words of a document.
    n_burn: int = 0  # The first visits of a chain, which are not counted.


class Topics:
    """Topic models of m particles under given priors.

    Dirichlet parameters of the documents' topic proportions are ``alpha`` (m, K), float64, for each
    particle. Those of the topics' words are ``eta`` (V or 1, K), float64, with one row for all
    words where they are the same; each particle multiplies them by its factor ``eta_scale`` (m,). V
    is ``n_words``.
    """

    def __init__(self, alpha, eta, eta_scale, n_words):
        self.alpha, self.eta, self.eta_scale, self.V = alpha, eta, eta_scale, n_words
        self.m, self.K = alpha.shape
        self.eta_total = eta.sum(axis=0) * (n_words if len(eta) == 1 else 1.0)
        self._alpha = np.maximum(alpha, _MIN_ALPHA).astype(np.float32)
        # Particles of one scale use one array, which may be as large as a particle's counts.
        scaled = {scale: (scale * eta).astype(np.float32) for scale in set(eta_scale.tolist())}
        self._eta = [scaled[scale] for scale in eta_scale.tolist()]

    def with_priors(self, alpha, eta_scale):
        """The same with other priors of the same shapes."""
        return Topics(alpha, self.eta, eta_scale, self.V)

    def initial_counts(self, n_tokens, rng):
        """Counts before the first document: a random guess, without which topics would not part.

        The guess stands for a part of the words of all documents, ``n_tokens``; steps discount it.
        """
        words = rng.standard_gamma(_SHAPE, size=(self.m, self.V, self.K), dtype=np.float32)
        words *= np.float32(_GUESS * n_tokens / (_SHAPE * self.V * self.K))
        totals = words.sum(axis=1, dtype=np.float64)
        return Counts(words, totals, np.zeros(self.m), 1.0)

    def word_probabilities(self, counts, i):
        """E[phi] of particle i, shape (V, K), float32; a topic's column sums to 1."""
        words, scale, eta, inverse = self.kernel_arguments(counts, i)
        phi = words * scale
        phi += eta
        phi *= inverse
        return phi

    def kernel_arguments(self, counts, i, n_draws=None):
        """From what kernels compute E[phi] of particle i: words, their scale, prior, 1 / totals.

        With a number of draws of each particle's topics the first and the last are those of all of
        the particle's draws, of shape (n_draws, ...).
        """
        own = i if n_draws is None else slice(i * n_draws, (i + 1) * n_draws)
        inverse = 1.0 / (counts.totals[own] + self.eta_scale[i] * self.eta_total)
        scale = np.float32(counts.scale)
        return counts.words[own], scale, self._eta[i], inverse.astype(np.float32)

    def arguments_of_fits(self, counts, i):
        """The same, and alpha in single precision, as the kernels of fits take it."""
        return *self.kernel_arguments(counts, i), self._alpha[i]

    # ------------------------------------------------------------------ steps
    def add_documents(
        self, onto, gain, counts, documents, update, seeds, elbo=False, weight=None
    ):  # fmt: skip
        """Assign the words of documents to topics, and add their expected counts.

        Words are assigned under ``counts``. The expected counts times ``gain``, the copies of each
        document, are added to ``onto``, whose ``words`` are written to in place and may be those of
        ``counts``. ``seeds`` (m, B), uint64, are those of the documents' streams of random numbers.
        With ``elbo`` the documents' terms of the ELBO are computed. ``weight`` (B,), or None,
        multiplies the gain of each document.

        Returns ``onto`` after the step, and the expected words of each document in each topic, of
        shape (m, B, K), float32.
        """
        documents, factor = documents.for_kernels(), np.float32(gain / onto.scale)
        weight = None if weight is None or (weight == 1.0).all() else weight
        if weight is not None:
            of_words = np.repeat(weight, np.diff(documents.indptr)).astype(np.float32)[:, None]
        mass = np.empty((self.m, documents.n, self.K), dtype=np.float32)
        entropy = np.zeros((self.m, documents.n))

        def assign(i, expected, start, stop):
            given = self.arguments_of_fits(counts, i)
            _assign_words(update, (*documents, start, stop, *given), seeds[i], expected, mass[i])
            if elbo:
                kernels.entropies(*documents, start, stop, expected, entropy[i])
            if weight is not None:
                own = slice(documents.indptr[start], documents.indptr[stop])
                expected[own] *= of_words[own]

        def deposit(i, expected, low, high):
            kernels.deposit(documents.indices, expected, onto.words[i], factor, low, high)

        # A document's words are assigned by themselves, and a word's counts summed in the order of
        # the documents, by whichever thread. Whole particles are best: no thread waits for another.
        many = documents.n >= MIN_DOCUMENTS
        whole = self.m >= n_threads() or not many
        documents_of = [(0, documents.n)] if whole else ranges(documents.n)
        words_of = [(0, self.V)] if whole else ranges(self.V)

        def particle(i):
            expected = np.empty((len(documents.indices), self.K), dtype=np.float32)
            each(lambda some: assign(i, expected, *some), documents_of)
            each(lambda some: deposit(i, expected, *some), words_of)

        each(particle, range(self.m), worth=many)
        if weight is None:
            totals = onto.totals + gain * mass.sum(axis=1, dtype=np.float64)
        else:
            totals = onto.totals + gain * np.einsum("ibk,b->ik", mass, weight)
            entropy *= weight
        terms = entropy.sum(axis=1) + self.document_terms(mass, weight) if elbo else np.nan
        return onto._replace(totals=totals, documents=onto.documents + gain * terms), mass

    # ------------------------------------------------------------------ evidence
    def document_terms(self, mass, weight=None):
        """Sum over documents of A(alpha + n) - A(alpha), n of shape (m, B, K); shape (m,).

        ``weight`` (B,), or None, are the documents' weights in the sum.
        """
        alpha = self.alpha[:, None]
        gain = log_normaliser(alpha + mass) - log_normaliser(alpha)
        return gain.sum(axis=1) if weight is None else gain @ weight

    def elbo(self, counts):
        """Lower bounds of the log evidence of the documents counted, shape (m,)."""
        return counts.documents + [self._topic_terms(counts, i) for i in range(self.m)]

    def _topic_terms(self, counts, i):
        """Sum over topics of A(eta + counts) - A(eta), in pieces that do not fill the memory."""
        eta, total = self.eta_scale[i] * self.eta, self.eta_scale[i] * self.eta_total
        gain = 0.0
        for rows in np.array_split(np.arange(self.V), 1 + self.V * self.K // _PIECE):
            prior = eta if len(eta) == 1 else eta[rows]
            words = counts.scale * counts.words[i, rows].astype(np.float64)
            gain += (gammaln(prior + words) - gammaln(prior)).sum()
        return gain - (gammaln(total + counts.totals[i]) - gammaln(total)).sum()


def log_normaliser(alpha):
    """A(alpha) of Dirichlet distributions along the last axis."""
    return gammaln(alpha).sum(axis=-1) - gammaln(alpha.sum(axis=-1))


def _assign_words(update, arguments, seeds, expected, mass):
    if update.assignment == "sampled":
        kernels.sampled(*arguments, seeds, update.n_local_iter, update.n_burn, expected, mass)
    elif update.assignment == "soft":
        kernels.soft(*arguments, update.n_local_iter, expected, mass)
    else:
        kernels.collapsed(*arguments, update.n_local_iter, expected, mass)
