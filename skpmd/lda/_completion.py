"""Documents cut in halves, each by itself and always alike."""

import numpy as np

_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_BITS = 64  # occurrences of a word that are placed one by one; of more the rest is halved


def halves(X):
    """Each occurrence of a word goes to one half or the other with equal chances.

    Chances are the bits of a hash of the word and of the whole document. Counts of a document that
    are not whole numbers are halved one by one.

    Parameters
    ----------
    X : csr_matrix of shape (n, V)
        Counts, without explicit zeros.

    Returns
    -------
    tuple of csr_matrix
        Both halves, without explicit zeros; their sum is X.
    """
    counts = X.data.astype(np.float64)
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    words = _mixed(X.indices.astype(np.uint64) * _STEP)
    sums = np.cumsum(_mixed(words + counts.view(np.uint64)), dtype=np.uint64)
    sums = np.append(np.uint64(0), sums)
    documents = sums[X.indptr[1:]] - sums[X.indptr[:-1]]  # modulo 2^64, so no sum is too large
    bits = _mixed(words + _mixed(documents)[row])
    first = np.floor(0.5 * np.maximum(counts - _BITS, 0.0))
    for bit in range(int(min(counts.max(initial=0.0), _BITS))):
        left = np.flatnonzero(counts > bit)
        first[left] += (bits[left] >> np.uint64(bit)) & np.uint64(1)
    broken = np.bincount(row, counts != np.floor(counts), X.shape[0]) > 0
    first = np.where(broken[row], 0.5 * counts, first)
    return _with(X, first), _with(X, counts - first)


def _with(X, counts):
    half = X.copy()
    half.data = counts.astype(X.dtype)
    half.eliminate_zeros()
    return half


def _mixed(z):
    """The bits of numbers well mixed: the last steps of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * _MIX[0]
    z = (z ^ (z >> np.uint64(27))) * _MIX[1]
    return z ^ (z >> np.uint64(31))
