"""Rows that a stream retains while its classes come one after the other.

Rows of one class alone say that its probability is as near to one as the prior allows. The rows of
the others, when they come, move the posterior to where the density after the first rows is smaller
by hundreds of nats, and what stands for that density there, particles or a Gaussian, means nothing:
means were 37 posterior standard deviations off. So the rows are retained, as far as memory allows,
until rows have the classes of the rows before them. Where they have others the posterior is found
anew from all rows, whenever there are a quarter more of a class.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from skpmd._base.rows import Rows
from skpmd._base.streaming import advance, coefficients
from skpmd.engine.model import Batch
from skpmd.engine.rejuvenation_error import NO_ERROR

_ENOUGH = 10.0  # Weighted rows of each class; with fewer a stream knows next to nothing of it.
_MAX_Z = 4.0  # Shares of a class that differ by more standard errors are not the same.
_MORE = 0.25  # The posterior is found anew when there are so many more rows of a class.
_MAX_NUMBERS = 1 << 21  # So many numbers are retained at most, 16 MB.


class Retained(NamedTuple):
    """All rows of a stream so far."""

    rows: Batch
    fitted: np.ndarray  # (K,): Weights of the classes when the posterior was found from all rows.


def advance_retaining(retained, stream, model, rows, options, step, targets):
    """The stream after the rows of one call, and what is `Retained` then, if anything.

    ``targets`` (K,) are those of all classes. Where nothing is retained, and the stream has seen
    rows, it goes on as all streams do.
    """
    whole, faded = _joined(retained, stream, rows, options)
    if whole is None:
        return advance(stream, model, rows, options, step), None
    weights = np.array([whole.weight[whole.y == one].sum() for one in targets])
    if not stream.seen:
        return advance(stream, model, rows, options, step), _small(Retained(whole, weights))
    fitted = faded * retained.fitted
    since = weights - fitted
    grown = since >= _MORE * fitted
    appeared = (weights[fitted == 0.0] > 0.0).any()
    changed = appeared or _differ(fitted, since)
    if changed and grown[weights > 0.0].any():
        seen = stream.seen + rows.total
        # As if these were the first rows; the record goes on.
        first = stream._replace(
            particles=None, assumed=None, error_terms=NO_ERROR, n_left_out=0, seen=0.0
        )
        first = advance(first, model, Rows(*whole, len(whole.weight)), options, step)
        return first._replace(seen=seen), _small(Retained(whole, weights))
    stream = advance(stream, model, rows, options, step)
    if grown.all() and not changed and weights.min() >= _ENOUGH:
        return stream, None
    return stream, _small(Retained(whole, fitted))


def _joined(retained, stream, rows, options):
    """All rows so far as a `Batch`, and by what the past ones are discounted in it.

    The first is None where they are not at hand. A second pass over the rows has seen every class.
    """
    new = rows.data
    if not stream.seen:
        return new, 1.0
    a, _ = coefficients(options, stream.seen, rows.total)
    if retained is None or (a > 0.0 and options.total_samples is not None):
        return None, 1.0
    X, y, weight = retained.rows
    if sparse.issparse(X) or sparse.issparse(new.X):
        both = sparse.vstack([X, new.X], format="csr")
    else:
        both = np.concatenate([X, new.X])
    weight = np.concatenate([(1.0 - a) * weight, new.weight])
    return Batch(both, np.concatenate([y, new.y]), weight), 1.0 - a


def _differ(weights, others):
    """Whether the shares of classes differ between two sets of rows, by the weights of each."""
    n, m = weights.sum(), others.sum()
    pooled = (weights + others) / (n + m)
    error = np.sqrt(pooled * (1.0 - pooled) * (1.0 / n + 1.0 / max(m, 1e-300)))
    return bool((np.abs(weights / n - others / m) > _MAX_Z * error).any())


def _small(retained):
    """What is retained, unless it is too much."""
    X = retained.rows.X
    return retained if (X.nnz if sparse.issparse(X) else X.size) <= _MAX_NUMBERS else None
