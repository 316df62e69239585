"""Where inducing inputs are put."""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils import check_array

from skpmd._base.utils import as_floats
from skpmd._base.validation import refuse_overflows
from skpmd._rows.rows import distinct
from skpmd._runtime.call import phase
from skpmd.sparse_gp._data import take
from skpmd.sparse_gp._model import pivoted

INITS = ("random", "kmeans", "greedy")
# Candidates for each inducing input, in a fit and in a stream.
_CANDIDATES, _STREAM_CANDIDATES = 10, 4
_DIGITS = 7  # Squared distances of clusters are exact to twice as many.
_CHUNK = 1 << 19  # Covariances held at once.
_MAX_ORDERED = 1000  # At most so many inducing inputs are ordered by what they say.
_MIN_LEFT = 1e-12  # Smallest conditional variance of a candidate, relative to the prior's.
# A row of a stream is worth an inducing input of its own if its conditional variance exceeds this
# fraction of the noise, and this fraction of the prior variance where there is little noise.
_NOISE_FRACTION, _PRIOR_FRACTION = 0.1, 1e-6
_MAX_CHECKED = 10_000  # At most so many rows of a part, evenly spaced, are checked.
# A row is far from the inducing inputs if its conditional variance exceeds the first fraction of
# the prior variance; all inducing inputs are chosen anew if the second fraction of rows is far.
_FAR, _MANY_FAR = 0.5, 0.02


@phase("inducing inputs")
def choose(init, sample, n, covariance, theta, rng):
    """At most n inducing inputs, shape (M, p): all distinct rows where there are no more than n.

    ``init`` is "random", rows at random; "kmeans", centres of clusters; "greedy", the rows that
    leave the least conditional variance of f, one by one (Burt, Rasmussen and van der Wilk 2020);
    or the inputs themselves, of any number. Covariance and theta are for "greedy".
    """
    if not isinstance(init, str):
        inducing = as_floats("inducing_init", init)
        if inducing.ndim != 2 or not inducing.size:
            raise ValueError(
                f"inducing_init must be an array of shape (M, n_features), got {inducing.shape}."
            )
        refuse_overflows("inducing_init", inducing)
        inducing = check_array(inducing, input_name="inducing_init", copy=True)
        if inducing.shape[1:] != sample.X.shape[1:]:
            raise ValueError(
                f"inducing_init has shape {inducing.shape}, X has {sample.X.shape[1]} features."
            )
        return inducing
    if init == "kmeans" and len(covariance.categorical):
        raise ValueError(
            "inducing_init='kmeans' takes means of columns, and categories have none: set 'random' "
            "or 'greedy'."
        )
    drawn = take(sample, _CANDIDATES * n, rng)
    first, places = distinct(drawn.X)
    rows = drawn.X[first]
    if len(rows) > n and init == "kmeans":
        rows = _centres(rows, np.bincount(places, drawn.weight), n, rng)
    elif len(rows) > n and init == "greedy":
        return rows[greedy(covariance, theta, rows, n)]
    elif len(rows) > n:
        rows = rows[np.sort(rng.choice(len(rows), n, replace=False))]
    return _independent_first(covariance, theta, rows) if len(rows) <= _MAX_ORDERED else rows


def _independent_first(covariance, theta, rows):
    """The rows, in another order where rounding leaves nothing of some of them given the others.

    Those are the last, and the others of the largest variance given those before come first: in the
    basis that rows make in turn each of them has its part then, and nothing cancels.
    """
    K = covariance.cross(theta, rows, rows)
    places, rank = pivoted(K, 0.0)
    return rows if rank == len(rows) else rows[places]


def _centres(rows, weight, n, rng):
    """Centres (M, p) of n clusters of rows.

    Beside rows that are far away rounding makes others one: where there are fewer than n that it
    can tell apart, rows at random are the rest.
    """
    unit = np.ldexp(1.0, np.frexp(np.ptp(rows, axis=0).max())[1])  # A power of two rounds nothing.
    scaled = rows / unit
    apart, _ = distinct(np.round(scaled - scaled.min(axis=0), _DIGITS))
    k, seed = min(n, len(apart)), int(rng.integers(2**31))
    means = KMeans(k, n_init=1, max_iter=30, random_state=seed).fit(scaled, sample_weight=weight)
    centres = means.cluster_centers_ * unit
    if k == n:
        return centres
    others = np.delete(rows, apart, axis=0)
    return np.concatenate([centres, rng.choice(others, n - k, replace=False)])


def extended(model, theta, X, n):
    """Inducing inputs for a stream that may have left the old ones, or None where they suffice.

    While there are fewer than n, rows with much variance given the old ones are added. After that
    all are chosen anew, among the old ones and the rows, if too many rows are far from them.
    """
    Z, covariance = model.inducing, model.covariance
    X = X[:: -(-len(X) // _MAX_CHECKED)]
    prior = covariance.diagonal(theta, X)
    left = np.maximum(prior - _known(model, theta, X), 0.0)
    noise = _NOISE_FRACTION * float(np.mean(covariance.noise(theta, X)))
    floor = max(noise, _PRIOR_FRACTION * float(prior.max()))
    far = np.unique(X[left > floor], axis=0)
    if not len(far):
        return None
    far = far[:: -(-len(far) // (_STREAM_CANDIDATES * n))]
    if len(Z) < n:
        added = greedy(covariance, theta, far, n - len(Z), model.whitened(theta, far), floor)
        return np.concatenate([Z, far[added]])
    if (left > _FAR * prior).mean() < _MANY_FAR:
        return None
    both = np.concatenate([Z, far])
    return both[greedy(covariance, theta, both, n)]


def _known(model, theta, X):
    """Variances of f at the rows of X that the inducing inputs explain, chunk by chunk."""
    step = max(1, _CHUNK // model.n_inducing)
    chunks = (model.whitened(theta, X[a : a + step]) for a in range(0, len(X), step))
    return np.concatenate([np.einsum("ij,ij->j", V, V) for V in chunks])


def greedy(covariance, theta, X, n, known=None, floor=0.0):
    """Places of up to n rows, each of the largest variance given those before: pivoted Cholesky.

    ``known`` (M, k), whitened covariances with other inputs, says what is given from the start. No
    row with a variance of ``floor`` or less is chosen.
    """
    left = covariance.diagonal(theta, X).copy()
    floor = max(floor, _MIN_LEFT * left.max())
    if known is not None:
        left -= np.einsum("ij,ij->j", known, known)
    factor = np.empty((n, len(X)))
    places = []
    for k in range(n):
        place = int(left.argmax())
        if left[place] <= floor:
            break
        row = covariance.cross(theta, X[place : place + 1], X)[0]
        row -= factor[:k, place] @ factor[:k]
        if known is not None:
            row -= known[:, place] @ known
        factor[k] = row / np.sqrt(left[place])
        left = np.maximum(left - factor[k] ** 2, 0.0)
        left[places + [place]] = 0.0
        places.append(place)
    return np.array(places, dtype=int)
