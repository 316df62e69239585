"""Documents split in two, for the perplexity by completion; each document is always split alike."""

import numpy as np

from skpmd._base.hashing import INCREMENT, mix_bits

# Occurrences of a word that are placed one by one; of those beyond, each part has one half.
_MAX_PLACED = 64


def completion_split(X):
    """Put each occurrence of a word into one part or the other with equal chances.

    The chances are the bits of a hash of the word and of the whole document. In a document whose
    counts are not all whole numbers, each count is halved instead. The two parts are CSR matrices
    without explicit zeros, as X (n, V) is, and their sum is X.
    """
    counts = X.data.astype(np.float64)
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    words = mix_bits(X.indices.astype(np.uint64) * INCREMENT)
    sums = np.cumsum(mix_bits(words + counts.view(np.uint64)), dtype=np.uint64)
    sums = np.append(np.uint64(0), sums)
    documents = sums[X.indptr[1:]] - sums[X.indptr[:-1]]  # modulo 2^64, so no sum is too large
    bits = mix_bits(words + mix_bits(documents)[row])
    first = np.floor(0.5 * np.maximum(counts - _MAX_PLACED, 0.0))
    for bit in range(int(min(counts.max(initial=0.0), _MAX_PLACED))):
        left = np.flatnonzero(counts > bit)
        first[left] += (bits[left] >> np.uint64(bit)) & np.uint64(1)
    broken = np.bincount(row, counts != np.floor(counts), X.shape[0]) > 0
    first = np.where(broken[row], 0.5 * counts, first)
    return _with_counts(X, first), _with_counts(X, counts - first)


def _with_counts(X, counts):
    part = X.copy()
    part.data = counts.astype(np.float32)
    part.eliminate_zeros()
    return part
