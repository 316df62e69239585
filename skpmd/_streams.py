"""Where batches come from: rows of arrays in memory."""

import numpy as np

from skpmd.models.base import Batch

_AUTO_BATCH = 1000


class Rows:
    """Weighted rows of an array, cut into batches of nearly equal size.

    Rows of weight zero are left out, so that weight zero is the same as absence.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
        Features.
    y : ndarray of shape (n,) or (n, t), or None
        Targets.
    weight : ndarray of shape (n,) or None
        Row weights; None is one each.
    batch_size : int or "auto"
        Rows in a batch; ``"auto"`` is min(n, 1000).
    """

    def __init__(self, X, y, weight, batch_size):
        if weight is None:
            weight = np.ones(X.shape[0])
        elif not weight.all():
            if not weight.any():
                raise ValueError("sample_weight is zero for every row: there are no data to fit.")
            kept = weight > 0
            X, y, weight = X[kept], None if y is None else y[kept], weight[kept]
        self.data = Batch(X, y, weight)
        self.total = float(weight.sum())
        size = _AUTO_BATCH if batch_size == "auto" else batch_size
        self.n_batches = -(-len(weight) // size)

    def whole(self):
        """All data once, in order, as a list of batches (views)."""
        edges = self._edges()
        return [self._take(slice(a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]

    def one_pass(self, sampling, rng):
        """Batches of one pass: ``"epoch"`` without replacement, ``"replacement"`` with it.

        A single batch is all rows and spends no randomness.
        """
        n = len(self.data.weight)
        if self.n_batches == 1 and sampling == "epoch":
            yield self.data
            return
        order = rng.permutation(n) if sampling == "epoch" else rng.integers(n, size=n)
        edges = self._edges()
        for a, b in zip(edges[:-1], edges[1:], strict=True):
            yield self._take(np.sort(order[a:b]))

    def _edges(self):
        return np.linspace(0, len(self.data.weight), self.n_batches + 1).astype(int)

    def _take(self, rows):
        X, y, weight = self.data
        return Batch(X[rows], None if y is None else y[rows], weight[rows])
