"""Topic models with a posterior, averages over particles and streaming updates."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import Interval, StrOptions

from skpmd._base.estimator import ParticleEstimator, result
from skpmd._base.merging import n_shards, refuse_rows
from skpmd._base.options import LOOP_CONSTRAINTS
from skpmd._base.utils import as_generator, warn
from skpmd._base.validation import checked_weights, fit_context, naming_conversions
from skpmd._rows.opening import as_table, in_parts
from skpmd._rows.table import limits, mapped
from skpmd._typing import Array, ArrayLike, ArrayOrMore, FilePath, MatrixLike, Seed
from skpmd.lda import _results as results
from skpmd.lda._documents import chosen, groups_of
from skpmd.lda._fit import fit_topics, initialise, restorer, update_stream, writeable
from skpmd.lda._merge import merge_topics, refined
from skpmd.lda._parameters import LDAParameters, batch_size_of
from skpmd.lda._posterior import TopicPosterior
from skpmd.lda._predict import LDAPredictions
from skpmd.lda._relabel import disagreement, relabelling
from skpmd.lda._topics import ASSIGNMENTS

# Counts are at most so large: sums of their squares stay far from the largest float32.
_MAX_COUNT = 1e15
_NEW_WORDS = "new words need vocabulary='growing'"
_LACKING = "a word that X lacks is a column of zeros"
_PIECE = 1 << 16  # Counts that are looked at in float32 at a time.
# Numbers that are less on average are no counts, which are 1 at least: the weights of
# TfidfVectorizer for documents of more than six words, and shares for more than two.
_MIN_MEAN = 0.4
# Counts of other types are made float64.
_TYPES = [np.float64, np.float32, *(np.dtype(code) for code in "bBhHiIlLqQ?")]


def _canonical(X):
    """A CSR matrix of counts without duplicates, and without zeros in float32; X is left as it is.

    X itself where it is one: batches of documents are made float32 when it is their turn.
    """
    if X.has_canonical_format and not _vanish(X.data):
        return X
    places = map(np.copy, (X.indices, X.indptr))
    counts = sp.csr_matrix((X.data.astype(np.float32), *places), shape=X.shape)
    counts.sum_duplicates()
    counts.eliminate_zeros()
    return counts


def _counts_of(X):
    """The same of an array too."""
    return _canonical(X if sp.issparse(X) else sp.csr_matrix(X, dtype=np.float32))


def _vanish(data):
    """Whether some numbers are zero, perhaps in float32 only."""
    pieces = (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
    return not all(piece.astype(np.float32).all() for piece in pieces)


def _warn_of_shares(X):
    """Warn where numbers seem to be shares of a document, which is then one of hardly any words."""
    X, _ = next(groups_of(X, None))
    if not X.nnz or X.data.mean(dtype=np.float64) >= _MIN_MEAN:
        return
    some = np.diff(X.indptr) > 0
    warn(
        f"LDATopicModelPMD: X seems to hold shares or weights in the place of counts: a document "
        f"of {X.nnz / some.sum():.3g} different words on average counts as "
        f"{X.data.sum(dtype=np.float64) / some.sum():.2g} words, which say next to nothing of its "
        "topics. Give counts, as CountVectorizer does.",
        UserWarning,
    )


def _weighted(X, sample_weight):
    """Documents whose weight is not zero, and their weights; None where there are none."""
    if sample_weight is None:
        return X, None
    weight = checked_weights(sample_weight, X)
    largest = weight.max() * limits(X)[1]
    if largest > _MAX_COUNT:
        raise ValueError(
            f"Counts times sample_weight must be at most {_MAX_COUNT:g}, got {largest:g}: scale "
            "sample_weight down."
        )
    return chosen(X, weight, weight > 0.0)


class LDATopicModelPMD(LDAPredictions, ClassNamePrefixFeaturesOutMixin, ParticleEstimator):
    """Latent Dirichlet allocation, in which each particle is a whole topic model.

    A particle is one expected assignment of the words of all documents to topics, with the
    Dirichlet posterior of the topics given this assignment. Stochastic steps on batches of
    documents update it; the documents are then no longer needed. Predictions are an average over
    particles, which predicts words much better than any single particle.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics of each particle.
    doc_topic_prior : float or array-like of shape (n_components,) or None, default=None
        Dirichlet parameters of the documents' topic proportions (alpha); None means 1 /
        n_components. Topics with different parameters are not interchangeable: each is put to the
        number whose parameter it suits, and retains it.
    topic_word_prior : float or array-like of shape (n_features,) or (n_components, n_features) or \
None, default=None
        Dirichlet parameters of the topics' words (eta); None means 1 / n_components. An array of
        shape (n_components, n_features) can give topics some words to begin with. The log evidence
        of a topic's words is often highest between 0.01 and 0.1.
    learn_priors : bool, default=False
        Whether to learn a factor of each prior together with the topics. The factors have a
        log-normal prior with median 1 and standard deviation 1.5 of the log. Mirror steps with
        kernel rejuvenation update them, with a likelihood that uses a few words of each document
        and topic. The priors start at no more than 1 / n_components and are learnt from about the
        45th full batch on, or later if there are few documents for the vocabulary. A `fit` that
        ends before this warns and uses the given priors; calls of `partial_fit` do not warn.
    n_particles : int, default=4
        Number of particles. Time and memory grow with it. A single particle predicts about as well
        as one chain of a Gibbs sampler.
    assignment : {"auto", "sampled", "soft", "collapsed"}, default="auto"
        How words of a document are assigned to topics: by a Gibbs chain, whose conditional
        probabilities are averaged (``"sampled"``); by expectation-maximisation (``"soft"``); or by
        expectation-maximisation with each word's own responsibilities left out (``"collapsed"``, of
        zeroth order). ``"auto"`` is ``"sampled"`` for documents with fewer than 200 words on
        average, else ``"collapsed"``; in a stream the first call with words decides.
    n_local_iter : int or "auto", default="auto"
        Number of updates of each word of a document in a step; ``"auto"`` is 3, of which two are
        counted (``"sampled"``), 10 (``"collapsed"``) or 20 (``"soft"``).
    step_size, step_offset, step_decay : float, default=1.0, 1.0, 0.7
        Step t has size ``step_size / (step_offset + t**step_decay)``, at most 1, where t counts
        full batches. A smaller batch counts as a part of a step. With a single topic other step
        sizes are used, which make the result exact.
    batch_size : int or "auto", default="auto"
        Number of documents in a step; ``"auto"`` is 64, and 32 if there are fewer than 5000
        documents in total.
    max_iter : int or "auto", default="auto"
        Number of passes of stochastic steps through the documents; may be 0. ``"auto"`` is 5, and
        in a small collection a Gibbs chain then goes on from each particle; in others passes go on
        until the topics are still, at most up to 20, or to visits of 12 million words. A chain ends
        when the topics change little, or after visits of 20 million words. Its draws make intervals
        as wide as the assignment of the words is uncertain. There is no chain for more than 277,000
        words, with ``max_full_iter``, with ``weighting="posterior"``, and where documents repeat
        words hundreds of times. If they have each of their words eight times or more on average,
        and no chain, full-batch iterations follow, at most 300. A ``ConvergenceWarning``
        says where topics still change at the end; with a number of passes only ``diagnostics_``
        does.
    max_full_iter : int, default=0
        Number of full-batch iterations after these passes. The counts are then those of all
        documents, each counted once. These iterations need additional memory for a second copy of
        all particles' counts.
    total_samples : float or None, default=None
        Total number of documents in calls of `partial_fit`, including those of a `fit` before them;
        the documents may come several times. None means an endless stream: topics are then as
        certain as the documents so far allow. The first call of `partial_fit` fixes this number,
        also after `fit`.
    weighting : {"stacking", "posterior", "uniform"}, default="uniform"
        How the particles are weighted. ``"stacking"``: by how well they predict documents before
        they are fitted to them (every tenth document is scored, which takes time). These are not
        posterior weights, and hardly differ from equal weights on shuffled documents.
        ``"posterior"``: by their lower bounds of the log evidence (ELBO), the rule of the paper.
        Particles are resampled if fewer than half of them remain effective at the end of a pass of
        `fit` or a call of `partial_fit`. Over a corpus one particle then gets all of the weight,
        and it predicts worse than the average. Copies from resampling become different again with
        ``"sampled"`` assignments; ``"collapsed"`` and ``"soft"`` assignments are not random, so
        that copies remain equal. ``"uniform"``: equal weights.
    vocabulary : {"fixed", "growing"}, default="fixed"
        Whether calls of `partial_fit` may have more columns than before. ``topic_word_prior`` then
        has to be a number, which applies to each word; each new word increases the sum of the
        prior.
    shuffle : bool, default=True
        Whether each pass of `fit` takes the documents in a new order.
    max_doc_update_iter : int, default=100
        Largest number of iterations, or sweeps of a chain, for a document in predictions.
    mean_change_tol : float, default=1e-3
        Mean change of a document's topic pseudo-counts below which these iterations end.
    evaluate_every : int, default=-1
        Number of passes between computations of the perplexity of the documents in `fit`, for
        ``perp_tol``. If it is set, ``bound_`` is computed at the end. 0 or less means never.
    perp_tol : float, default=0.1
        Passes end when this perplexity changes by less than this value.
    <prior>
    max_time : float or None, default=None
        Seconds after which `fit` ends at its next complete state, which is a step of all particles;
        a ``ConvergenceWarning`` says so. `partial_fit` always uses all its documents.
    early_stopping : bool, default=False
        Whether passes of `fit` end when predictions of held-out documents no longer improve. The
        topics are never fitted to these documents, which are scored after each pass by document
        completion (see `perplexity`). The topics are those of the last pass. `partial_fit` does not
        support it.
    validation_fraction : float, default=0.1
        Share of the documents that are held out; ``random_state`` determines which.
    n_iter_no_change : int, default=5
        Number of successive passes without improvement after which passes end.
    tol : float, default=1e-3
        A pass is an improvement if the mean log probability of a held-out word exceeds the best so
        far by this value.
    <running>

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Pseudo-counts of words in topics, including those of the prior, averaged over relabelled
        particles.
    topic_word_ : ndarray of shape (n_components, n_features)
        Expected probabilities of words in topics; each row sums to 1.
    posterior_ : TopicPosterior
        Dirichlet distributions of the topics under each particle.
    doc_topic_prior_ : ndarray of shape (n_components,)
        Dirichlet parameters of the documents' topic proportions.
    topic_word_prior_ : float or ndarray of shape (n_components, n_features)
        Dirichlet parameters of the topics' words; a number if all are equal.
    log_evidence_ : float
        Log marginal likelihood. It is only known for a single topic that counts each document once,
        under priors that are not learnt.
    lower_bound_ : float
        Lower bound of the log marginal likelihood from the best particle, for any number of topics.
        It is only known with ``weighting="posterior"`` and ``max_full_iter``, under priors that are
        not learnt.
    n_iter_ : int
        Number of passes, full-batch iterations and sweeps of a chain of `fit`; `partial_fit`
        removes this attribute.
    bound_ : float
        Perplexity of the documents of `fit` after its last step, with ``evaluate_every``; nan if
        they have no words. `partial_fit` removes this attribute.
    validation_scores_ : ndarray of shape (n_passes,)
        Mean log probability of a held-out word after each pass of `fit`, in nats, with
        ``early_stopping``. `partial_fit` removes this attribute.
    assignment_ : str
        The assignment used, which is of interest with ``assignment="auto"``.
    n_batch_iter_ : int
        Number of steps.
    n_documents_seen_ : int or float
        Number of documents so far, counted with their weights; in an endless stream only those with
        words.
    diagnostics_ : dict
        ``warnings``, a list of reasons not to trust a fit, a stream or a merge, ``interrupted`` and
        ``out_of_time``.
        After `skpmd.merge` also the ``method``, the number of shards, ``n_shards``, and how well
        their topics match, ``alignment``.
    history_ : dict of str to ndarray of shape (n_steps,)
        Record of the steps, the last 10,000 or so of a stream: ``step``, ``step_size``,
        ``n_documents``, and ``log_density``, the mean log density of a word before the particles
        were fitted to it (with stacking weights of several particles; else nan).
    out_of_time_ : bool
        Whether the last call ended because of ``max_time``.
    n_features_in_ : int
        Number of words in the first call, or, with a growing vocabulary, in the last call.
    feature_names_in_ : ndarray of shape (n_features,)
        The words, where X has names.

    Notes
    -----
    The model takes ``4 * n_particles * n_components * n_features`` bytes of memory, plus a batch.
    ``posterior_`` is a copy of the same size; ``components_`` and ``topic_word_`` take ``8 *
    n_components * n_features`` bytes each. They are computed at their first access and stored until
    the next call. Until a call of `partial_fit` ends, it holds the previous counts of its words, so
    that it can be undone.

    With ``total_samples`` a pass of `partial_fit` in parts equals a pass of `fit` in the same order
    if all calls except the last consist of whole batches, ``assignment`` is the same, and
    ``weighting`` is not ``"posterior"``.

    Intervals of the topics' words include the spread between particles and, in small collections
    with ``max_iter="auto"``, draws of the assignment of the words.

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : One variational optimum.

    References
    ----------
    Blei, D. M., Ng, A. Y. and Jordan, M. I. (2003). Latent Dirichlet allocation. JMLR 3.

    Dai, B., He, N., Dai, H. and Song, L. (2016). Provable Bayesian inference via particle mirror
    descent. AISTATS. arXiv:1506.03101, appendix F.2.

    Griffiths, T. L. and Steyvers, M. (2004). Finding scientific topics. PNAS 101.

    Asuncion, A., Welling, M., Smyth, P. and Teh, Y. W. (2009). On smoothing and inference for topic
    models. UAI.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from skpmd import LDATopicModelPMD
    >>> texts = ["sun and rain", "rain and wind", "wind and sun"] * 20
    >>> texts += ["bread and cheese", "cheese and wine", "wine and bread"] * 20
    >>> X = CountVectorizer(stop_words="english").fit_transform(texts)
    >>> lda = LDATopicModelPMD(2, random_state=0).fit(X)
    >>> lda.transform(X[:1]).shape
    (1, 2)
    >>> lda.topic_word_.shape
    (2, 6)
    """

    _of_words = "Count the words of texts by sklearn.feature_extraction.text.CountVectorizer"
    _frozen_parameters = (
        "n_components", "doc_topic_prior", "topic_word_prior", "learn_priors", "n_particles",
        "assignment", "n_local_iter", "total_samples", "weighting",
    )  # fmt: skip
    _parameter_constraints: dict = {
        **LOOP_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "doc_topic_prior": [None, Interval(Real, 0.0, None, closed="neither"), "array-like"],
        "topic_word_prior": [None, Interval(Real, 0.0, None, closed="neither"), "array-like"],
        "learn_priors": ["boolean"],
        "n_particles": [Interval(Integral, 1, None, closed="left")],
        "assignment": [StrOptions({"auto", *ASSIGNMENTS})],
        "n_local_iter": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "step_offset": [Interval(Real, 0, None, closed="left")],
        "max_iter": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "max_full_iter": [Interval(Integral, 0, None, closed="left")],
        "weighting": [StrOptions({"stacking", "posterior", "uniform"})],
        "vocabulary": [StrOptions({"fixed", "growing"})],
        "shuffle": ["boolean"],
        "max_doc_update_iter": [Interval(Integral, 1, None, closed="left")],
        "mean_change_tol": [Interval(Real, 0.0, None, closed="left")],
        "evaluate_every": [Interval(Integral, None, None, closed="neither")],
        "perp_tol": [Interval(Real, 0.0, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        doc_topic_prior: ArrayLike | None = None,
        topic_word_prior: ArrayLike | None = None,
        learn_priors: bool = False,
        n_particles: int = 4,
        assignment: Literal["auto", "sampled", "soft", "collapsed"] = "auto",
        n_local_iter: Literal["auto"] | int = "auto",
        step_size: float = 1.0,
        step_offset: float = 1.0,
        step_decay: float = 0.7,
        batch_size: Literal["auto"] | int = "auto",
        max_iter: Literal["auto"] | int = "auto",
        max_full_iter: int = 0,
        total_samples: float | None = None,
        weighting: Literal["stacking", "posterior", "uniform"] = "uniform",
        vocabulary: Literal["fixed", "growing"] = "fixed",
        shuffle: bool = True,
        max_doc_update_iter: int = 100,
        mean_change_tol: float = 1e-3,
        evaluate_every: int = -1,
        perp_tol: float = 0.1,
        prior: LDATopicModelPMD | None = None,
        max_time: float | None = None,
        checkpoint: FilePath | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.learn_priors = learn_priors
        self.n_particles = n_particles
        self.assignment = assignment
        self.n_local_iter = n_local_iter
        self.step_size = step_size
        self.step_offset = step_offset
        self.step_decay = step_decay
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_full_iter = max_full_iter
        self.total_samples = total_samples
        self.weighting = weighting
        self.vocabulary = vocabulary
        self.shuffle = shuffle
        self.max_doc_update_iter = max_doc_update_iter
        self.mean_change_tol = mean_change_tol
        self.evaluate_every = evaluate_every
        self.perp_tol = perp_tol
        self.prior = prior
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit topics to counts of words.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Count of each word in each document: nonnegative, whole or not, at most 1e15. X may also
            be data in blocks (`skpmd.data.Blocks`), with weights in the blocks or as an argument.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of documents, not negative. A document of weight w counts as w copies of it;
            this is exact if steps use all documents and assignments are not random. The number of
            documents in a batch does not depend on the weights, so that a common factor of all
            weights changes no step.

        Returns
        -------
        LDATopicModelPMD
            The estimator.

        Raises
        ------
        ValueError
            If counts are negative or above 1e15, all weights are zero, or a prior does not match
            the words or topics.
        """
        data = {"X": X, "sample_weight": sample_weight}
        with self._all_or_nothing(fit_of=data):
            X, y, sample_weight = as_table(X, y, sample_weight)
            self._reset()
            if self.prior is not None:
                return self.partial_fit(X, y, sample_weight)
            self._check_growing_prior()
            X, _ = self._counts(X, reset=True)
            X, weight = _weighted(X, sample_weight)
            self._counted(weight)
            _warn_of_shares(X)
            rng = as_generator(self.random_state)
            self._set_state(fit_topics(self._parameters(), X, weight, rng))
            self._freeze(but=("total_samples",))  # of the stream that may follow
        # Who sets the number of passes has chosen, and finds the rest in diagnostics_. Intervals of
        # topics on which particles disagree are wide, as they should be, and no reason to warn.
        reasons = self._state.findings if self.max_iter == "auto" else ()
        self._conclude(reasons, interrupted=self._state.interrupted)
        return self

    @in_parts
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the topics with more documents, which are then no longer needed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words. With ``vocabulary="growing"`` there may be more columns than before.
            Without ``total_samples``, documents without words are ignored and not counted, because
            they contain no information about topics.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of documents, as in `fit`; ``total_samples`` counts documents with these
            weights.

        Returns
        -------
        LDATopicModelPMD
            The estimator.

        Raises
        ------
        ValueError
            As in `fit`; or if columns do not match those of earlier calls, a parameter of the
            stream has changed, or ``early_stopping`` is set.
        """
        with self._all_or_nothing() as on_error:
            state = self._state_or_prior()
            self._check_frozen()
            self._check_growing_prior()
            if self.early_stopping:
                raise ValueError(
                    "early_stopping=True is for the passes of fit, and partial_fit makes one: set "
                    "early_stopping=False."
                )
            X, _ = self._counts(X, reset=state is None or self._grows(X))
            X, weight = _weighted(X, sample_weight)
            self._counted(weight)
            parameters, total = self._parameters(), self.total_samples
            if state is None:
                _warn_of_shares(X)
                rng, size = as_generator(self.random_state), batch_size_of(parameters, total)
                state = initialise(parameters, X, weight, total, size, rng)
            state = writeable(state)
            on_error(restorer(state.block.counts, X.indices))
            self._set_state(update_stream(parameters, state, X, weight))
            self._freeze()
            return self

    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """Become the topics given the documents of all estimators; see `skpmd.merge`."""
        with self._all_or_nothing():
            refuse_rows(None, y, "documents are all that there is")
            names = [name for name in self._frozen_parameters if name != "total_samples"]
            self._start_merge(estimators, (*names, "vocabulary"))
            if self.learn_priors:
                raise ValueError(
                    "learn_priors=True finds other priors in each shard, and a merge needs one: "
                    "set learn_priors=False, and doc_topic_prior and topic_word_prior to numbers."
                )
            state = merge_topics([one._state for one in estimators], n_shards(estimators))
            if X is not None:
                X, _ = self._counts(X, reset=False)
                X, weight = _weighted(X, sample_weight)
                state = refined(self._parameters(), state, X, weight)
            self._set_state(state)
        self._conclude(state.merged["warnings"])
        return self

    # ------------------------------------------------------------------ results
    @result
    def diagnostics_(self) -> dict[str, Any]:
        """How the last call ended, and diagnostics of a merge, a dict."""
        found = {"interrupted": self._state.interrupted, "out_of_time": self.out_of_time_}
        merged = dict(self._state.merged or {})
        reasons = [*merged.pop("warnings", []), *self._findings]
        return {"warnings": reasons, **found, **merged}

    @result
    def posterior_(self) -> TopicPosterior:
        """Posterior of the topics, a `TopicPosterior`."""
        block, names = self._state.block, getattr(self, "feature_names_in_", None)
        given = block.topics, block.counts, self._labels, self._log_weights
        return results.topic_posterior(*given, self.weighting, names, block.draws)

    @result
    def components_(self) -> Array:
        """Pseudo-counts of words in topics, averaged over relabelled particles; shape (K, V)."""
        return self.posterior_.pseudo_counts()

    @result
    def topic_word_(self) -> Array:
        """Expected word probabilities of topics, averaged over particles; shape (K, V)."""
        return self.posterior_.mean()

    @result
    def doc_topic_prior_(self) -> Array:
        """Dirichlet parameters of topic proportions, averaged over particles; shape (K,)."""
        weights = np.exp(self._log_weights)
        return results.doc_topic_prior(self._state.block.topics, weights, self._labels)

    @result
    def topic_word_prior_(self) -> ArrayOrMore:
        """Dirichlet parameters of topics' words: a float if all are equal, else of shape (K, V)."""
        return results.topic_word_prior(self._state.block.topics, np.exp(self._log_weights))

    @result
    def log_evidence_(self) -> float:
        """Log probability of all fitted words with one topic; AttributeError if unknown."""
        return results.log_evidence(self._state.block, self.learn_priors)

    @result
    def lower_bound_(self) -> float:
        """Lower bound of the log evidence (best particle); AttributeError if unknown."""
        return results.lower_bound(self._state.block, self.weighting, self.learn_priors)

    @result
    def bound_(self) -> float:
        """Perplexity of the documents of `fit`, with ``evaluate_every``."""
        return self._of_fit("bound_", self._state.perplexity)

    @result
    def validation_scores_(self) -> Array:
        """Scores of held-out documents after each pass of `fit`, with ``early_stopping``."""
        if self._state.validation_scores is None:
            raise AttributeError(
                "validation_scores_ is that of a fit with early_stopping=True, which the last call "
                "was not."
            )
        return np.array(self._state.validation_scores)

    @result
    def n_iter_(self) -> int:
        """Number of passes and full-batch iterations of `fit`."""
        return self._of_fit("n_iter_", self._state.n_iter)

    @result
    def history_(self) -> dict[str, Array]:
        """Record of the steps, a dict of ndarray."""
        return results.history(self._state.records)

    @result
    def assignment_(self) -> str:
        """How words are assigned to topics."""
        return self._state.update.assignment

    @result
    def n_batch_iter_(self) -> int:
        """Number of steps."""
        return self._state.records.n

    @result
    def n_documents_seen_(self) -> int:
        """Number of documents so far, counted with their weights; an int if it is whole."""
        n = self._state.block.n_documents_seen
        return int(n) if float(n).is_integer() else n

    @result
    def _n_features_out(self):
        return self._state.block.topics.K

    @result
    def _log_weights(self):
        """Log weights of the particles."""
        return self._state.block.log_weights(self.weighting)

    @result
    def _labels(self):
        """Relabelling of the particles' topics."""
        return relabelling(self._state.block.topics, self._state.block.counts, self._log_weights)

    @result
    def _findings(self):
        """What speaks against the topics, in words."""
        block = self._state.block
        given = block.topics, block.counts, self._labels, self._log_weights
        is_stream = self._state.n_iter is None and block.topics.K > 1
        start = results.start_left(self._state.records) if is_stream else []
        return [*self._state.findings, *start, *disagreement(*given)]

    def _of_fit(self, name, value):
        if value is None:
            raise AttributeError(f"{name} is that of a fit, which the last call was not.")
        return value

    # ------------------------------------------------------------------ checks
    def _parameters(self):
        """Parameters of this call."""
        return self._record(LDAParameters)

    def _counts(self, X, reset):
        """Checked counts, a CSR matrix as of `_canonical`, and the type of proportions."""
        X = self._checked_data(X, accept_sparse="csr", dtype=_TYPES, reset=reset)
        least, largest = limits(X)
        if least < 0.0:
            raise ValueError(f"Negative values in data passed to {type(self).__name__}.")
        if largest > _MAX_COUNT:
            message = f"Counts must be at most {_MAX_COUNT:g}, got {largest:g}: scale X down."
            raise ValueError(message)
        return mapped(_counts_of, X), np.float32 if X.dtype == np.float32 else np.float64

    def _grows(self, X):
        """Whether X has more columns than before, and may; those before have to come first."""
        with naming_conversions("X", self._of_words):
            shape = np.shape(X)
        names, grows = getattr(self, "feature_names_in_", None), self.vocabulary == "growing"
        if len(shape) != 2 or shape[1] == self.n_features_in_:
            return False
        has_more = shape[1] > self.n_features_in_
        if not (has_more and grows):
            remedy = _NEW_WORDS if has_more else _LACKING
            raise ValueError(
                f"X has {shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: {remedy}."
            )
        if names is not None and hasattr(X, "columns"):
            if not np.array_equal(np.asarray(X.columns)[: len(names)], names):
                raise ValueError(
                    "With vocabulary='growing' the columns of the calls before come first, in "
                    "their order, and new ones after them; the feature names of X do not."
                )
        return True

    def _check_growing_prior(self):
        """Raise if the prior has a value for each word, and none for new words."""
        if self.vocabulary == "growing" and np.iterable(self.topic_word_prior):
            raise ValueError(
                "topic_word_prior is an array, which has no value for the new words of "
                "vocabulary='growing': give a number."
            )
