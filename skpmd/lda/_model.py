"""Latent Dirichlet allocation: q(topics) of each particle is a product of Dirichlet distributions.

The assignments z of words to topics are implicit. A particle is the counts of its topics; the words
of a document are shared out among topics given the particle's expected word probabilities, and the
counts move as natural parameters do (Dai et al. 2016, appendix F.2):

    counts <- (1 - gamma) counts + gamma (N / B) sum over the batch of r

With gamma = 1 on all documents the counts are those that r says, and with A the log normaliser of
Dirichlet distributions

    bound = sum over topics of A(eta + counts) - A(eta)
            + sum over documents of A(alpha + sum r) - A(alpha) + entropy of r  <=  log p(words)

holds for any r. That sum of steps is the log ratio of the paper's mirror descent over Z, with the
normalisers of eta and log p(Z | alpha) that F.2 leaves out.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skpmd.lda import _kernels as kernels

ASSIGNMENTS = ("sampled", "soft", "collapsed")
_SMALL = 1e-12  # scale below which stored counts come near the end of float32
_ROUNDING = 1e-5  # of sums of words
_GUESS = 0.1  # of the words: what a particle starts with, so that topics differ
_PIECE = 1 << 20  # numbers at once
_LEAST_ALPHA = 1e-7  # in kernels: times the least word probability it is above the end of float32
_SHAPE = 100.0  # of the gamma distribution of that: nearly even, for topics to part slowly


class Counts(NamedTuple):
    """What m particles have counted; the prior is not in it.

    ``words`` is written to in place by `Topics.add`, in the rows of a batch's words only.

    Attributes
    ----------
    words : ndarray of shape (m, V, K), float32
        How often each word was given to each topic, divided by ``scale``.
    totals : ndarray of shape (m, K)
        Words of each topic.
    documents : ndarray of shape (m,)
        Sum over documents of the bound's terms A(alpha + sum r) - A(alpha) + entropy of r; nan
        where they have not been counted.
    scale : float
        Of ``words``: a step on a batch touches the batch's words alone.
    """

    words: np.ndarray
    totals: np.ndarray
    documents: np.ndarray
    scale: float

    def take(self, chosen):
        """Some of the particles."""
        parts = self.words[chosen], self.totals[chosen], self.documents[chosen]
        return Counts(*parts, self.scale)

    @classmethod
    def none(cls, m, n_words, K):
        """Counts of no documents."""
        words = np.zeros((m, n_words, K), dtype=np.float32)
        return cls(words, np.zeros((m, K)), np.zeros(m), 1.0)

    def widened(self, n_words):
        """The same with more words, which have not been seen."""
        m, V, K = self.words.shape
        wide = Counts.none(m, n_words, K)
        wide.words[:, :V] = self.words
        return self._replace(words=wide.words)

    def balanced(self):
        """Counts that a step has been cut short on: each particle is before it or after it.

        The words of those that had taken it are the ones after it, up to a factor.
        """
        totals = self.scale * self.words.sum(axis=1, dtype=np.float64)
        factor = self.totals.sum(axis=1) / np.maximum(totals.sum(axis=1), _SMALL)
        moved = np.abs(factor - 1.0) > _ROUNDING
        factor = np.where(moved & (totals.sum(axis=1) > 0.0), factor, 1.0)[:, None]
        totals = np.where(moved[:, None], factor * totals, self.totals)
        words = self.words * factor[:, None].astype(np.float32)
        return self._replace(words=words, totals=totals)

    def faded(self, keep):
        """keep times the counts: the words are visited (and copied) once in many steps only."""
        words, scale = self.words, self.scale * keep
        if scale < _SMALL:
            words, scale = words * np.float32(scale), 1.0
        return Counts(words, keep * self.totals, keep * self.documents, scale)


class Documents(NamedTuple):
    """Counts of words, row by row.

    Attributes
    ----------
    indptr, indices : ndarray of int32 or int64
        As in a CSR matrix.
    data : ndarray of float32
        How often a word occurs, positive.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray

    @classmethod
    def of(cls, X):
        """Of a CSR matrix without explicit zeros."""
        return cls(X.indptr, X.indices, X.data)

    @property
    def n(self):
        """How many."""
        return len(self.indptr) - 1

    def rows(self, start, stop):
        """Some of them, in a row; a view."""
        ends = self.indptr[start : stop + 1]
        own = slice(ends[0], ends[-1])
        return Documents(ends - ends[0], self.indices[own], self.data[own])


class Sweeps(NamedTuple):
    """How words are shared out.

    Attributes
    ----------
    assignment : {"sampled", "soft", "collapsed"}
        ``"sampled"``: a Gibbs chain over the words' topics, whose conditional probabilities are
        averaged (Rao-Blackwell). ``"soft"``: expectation-maximisation for the document's shares.
        ``"collapsed"``: the zeroth-order collapsed update, each word less its own share (Asuncion
        et al. 2009).
    n_local_iter, n_burn : int
        Visits of all words of a document; those of a chain that are not counted.
    """

    assignment: str
    n_local_iter: int
    n_burn: int = 0


class Topics:
    """Model of latent Dirichlet allocation.

    Parameters
    ----------
    alpha : ndarray of shape (m, K), float64
        Dirichlet parameters of documents' shares, of each particle.
    eta : ndarray of shape (V or 1, K), float64
        Those of the topics' words; one row for all words where they are the same.
    eta_scale : ndarray of shape (m,)
        By which each particle multiplies eta.
    n_words : int
        V.
    """

    def __init__(self, alpha, eta, eta_scale, n_words):
        self.alpha, self.eta, self.eta_scale, self.V = alpha, eta, eta_scale, n_words
        self.m, self.K = alpha.shape
        self.eta_total = eta.sum(axis=0) * (n_words if len(eta) == 1 else 1.0)
        self._alpha = np.maximum(alpha, _LEAST_ALPHA).astype(np.float32)
        # One array for all particles of a scale: it may be as large as a particle.
        scaled = {scale: (scale * eta).astype(np.float32) for scale in set(eta_scale.tolist())}
        self._eta = [scaled[scale] for scale in eta_scale.tolist()]

    # ------------------------------------------------------------------ particles
    def with_priors(self, alpha, eta_scale):
        """The model with other priors, of the same shapes."""
        return Topics(alpha, self.eta, eta_scale, self.V)

    def start(self, n_tokens, rng):
        """Particles before the first document: a guess that tells topics apart.

        Parameters
        ----------
        n_tokens : float
            Words of all documents, a part of which the guess stands for; it fades with the steps.
        rng : numpy.random.Generator
            Source of randomness.
        """
        words = rng.standard_gamma(_SHAPE, size=(self.m, self.V, self.K), dtype=np.float32)
        words *= np.float32(_GUESS * n_tokens / (_SHAPE * self.V * self.K))
        totals = words.sum(axis=1, dtype=np.float64)
        return Counts(words, totals, np.zeros(self.m), 1.0)

    def word_probabilities(self, counts, i):
        """E[phi] of particle i, shape (V, K), float32; a topic's column sums to 1."""
        phi = counts.words[i] * np.float32(counts.scale)
        phi += self._eta[i]
        phi *= self._inverse(counts, i)
        return phi

    def given(self, counts, i):
        """What kernels take for E[phi] of particle i."""
        scale = np.float32(counts.scale)
        return counts.words[i], scale, self._eta[i], self._inverse(counts, i), self._alpha[i]

    def _inverse(self, counts, i):
        return (1.0 / (counts.totals[i] + self.eta_scale[i] * self.eta_total)).astype(np.float32)

    # ------------------------------------------------------------------ steps
    def add(self, onto, gain, counts, documents, sweeps, seeds, workers, terms=False):
        """Share the words of documents out, and add them to counts.

        Parameters
        ----------
        onto : Counts
            What the documents' counts times ``gain`` are added to; its words are written to.
        gain : float
            Copies of each document.
        counts : Counts
            By which words are shared out; may have the same words.
        documents : Documents
            Some.
        sweeps : Sweeps
            How.
        seeds : ndarray of shape (m, B), uint64
            Of the documents' streams of random numbers.
        workers : Workers
            Who does it.
        terms : bool
            Whether the documents' terms of the bound are counted.

        Returns
        -------
        Counts
            ``onto`` after.
        ndarray of shape (m, B, K), float32
            Words of each document in each topic.
        """
        factor = np.float32(gain / onto.scale)
        mass = np.empty((self.m, documents.n, self.K), dtype=np.float32)
        entropy = np.zeros((self.m, documents.n))

        def share(i, shares, start, stop):
            given = *documents, start, stop, *self.given(counts, i)
            _share_out(sweeps, given, seeds[i], shares, mass[i])
            if terms:
                kernels.entropies(*documents, start, stop, shares, entropy[i])

        def put(i, shares, low, high):
            kernels.deposit(documents.indices, shares, onto.words[i], factor, low, high)

        shape = len(documents.indices), self.K
        workers.each(self.m, shape, (share, documents.n), (put, self.V))
        totals = onto.totals + gain * mass.sum(axis=1, dtype=np.float64)
        new = entropy.sum(axis=1) + self.document_terms(mass) if terms else np.nan
        return onto._replace(totals=totals, documents=onto.documents + gain * new), mass

    # ------------------------------------------------------------------ evidence
    def document_terms(self, mass):
        """Sum over documents of A(alpha + n) - A(alpha), n of shape (m, B, K); shape (m,)."""
        alpha = self.alpha[:, None]
        gain = log_normaliser(alpha + mass) - log_normaliser(alpha)
        return gain.sum(axis=1)

    def bound(self, counts):
        """Lower bounds of the log evidence of what has been counted, shape (m,)."""
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


def _share_out(sweeps, given, seeds, shares, mass):
    if sweeps.assignment == "sampled":
        kernels.sampled(*given, seeds, sweeps.n_local_iter, sweeps.n_burn, shares, mass)
    elif sweeps.assignment == "soft":
        kernels.soft(*given, sweeps.n_local_iter, shares, mass)
    else:
        kernels.collapsed(*given, sweeps.n_local_iter, shares, mass)
