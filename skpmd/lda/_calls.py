"""What calls of a topic model's `fit` and `partial_fit` share: checked counts, and what is kept."""

import copy

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_non_negative, validate_data

_SETTLED = (
    "n_components", "doc_topic_prior", "topic_word_prior", "learn_priors", "n_particles",
    "assignment", "n_local_iter", "total_samples", "weighting",
)  # fmt: skip
_MOST = 1e15  # of a count: sums of squares and such stay far from the largest float32


class TopicCalls:
    """Mixin of an estimator that holds `Learned`."""

    def _counts(self, X, reset):
        """Checked counts, a CSR matrix of float32 without explicit zeros, and their dtype."""
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        check_non_negative(X, type(self).__name__)
        largest = (X.data if sp.issparse(X) else X).max(initial=0.0)
        if largest > _MOST:
            raise ValueError(f"Counts must be at most {_MOST:g}, got {largest:g}: scale X down.")
        counts = sp.csr_matrix(X, dtype=np.float32, copy=sp.issparse(X))
        counts.sum_duplicates()
        counts.eliminate_zeros()
        if counts.nnz <= np.iinfo(np.int32).max:  # for int64 kernels are compiled once more
            counts.indices = counts.indices.astype(np.int32, copy=False)
            counts.indptr = counts.indptr.astype(np.int32, copy=False)
        return counts, X.dtype

    def _grows(self, X):
        """Whether X has more columns than before, and may; those before have to come first."""
        shape, names = np.shape(X), getattr(self, "feature_names_in_", None)
        if self.vocabulary == "fixed" or len(shape) != 2 or shape[1] <= self.n_features_in_:
            return False  # as many, or an error
        if names is not None and hasattr(X, "columns"):
            if not np.array_equal(np.asarray(X.columns)[: len(names)], names):
                raise ValueError(
                    "With vocabulary='growing' the columns of the calls before come first, in "
                    "their order, and new ones after them; the feature names of X do not."
                )
        return True

    def _refuse_changes(self, settled):
        """Parameters that the stream so far has been made with stay as they are."""
        for name, before in settled.items():
            now = getattr(self, name)
            if not np.array_equal(now, before):
                was, is_ = (repr(v) if np.ndim(v) == 0 else "an array" for v in (before, now))
                other = " of other values" if was == is_ else ""
                raise ValueError(
                    f"{name} was {was} in the calls before and is {is_}{other}: set it back, or "
                    "call fit."
                )

    def _refuse_fixed_prior(self):
        """A prior of each word says nothing about new words."""
        if self.vocabulary == "growing" and np.ndim(self.topic_word_prior) > 0:
            raise ValueError(
                "topic_word_prior is an array, which has no value for the new words of "
                "vocabulary='growing': give a number."
            )

    def _settle(self, settled, free=()):
        """Remember the parameters of a stream; arrays are copied once, in its first call."""
        new = (name for name in _SETTLED if name not in settled and name not in free)
        self._settled = {**settled, **{name: copy.deepcopy(getattr(self, name)) for name in new}}

    def _set(self, learned):
        """Results of what has been learnt; most are made when they are asked for."""
        self._learned, self._lazy = learned, {}
        self._n_features_out = learned.model.K
        self.n_batch_iter_ = learned.history[-1][0] if learned.history else 0
        self.n_documents_seen_ = learned.seen
        self.assignment_ = learned.sweeps.assignment
