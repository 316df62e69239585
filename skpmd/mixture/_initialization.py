"""Different starts for the particles of a conjugate mixture."""

import numpy as np

from skpmd._rows.sampling import stratified_sample
from skpmd.engine.course import counted
from skpmd.mixture._conjugate import Counts
from skpmd.mixture._kernels import kmeans_plusplus, lloyd
from skpmd.mixture._rows import pieces
from skpmd.mixture._scaler import limits_of

# A start sees at least so many rows, or so many for each component.
_MIN_ROWS, _ROWS_EACH = 1000, 60
INITS = ("mixed", "k-means++", "kmeans", "random_from_data", "random")
# "kmeans" sees more rows by this factor: its starts differ enough.
_MORE_ROWS = 10
_LLOYD_STEPS = {"k-means++": 2, "random_from_data": 2, "kmeans": 20}


def initial_counts(model, X, weight, init, m, rng):
    """Counts of m particles after assigning a sample of rows each, as if they were all rows.

    A mistyped value takes a centre for itself where centres are to be far from each other. That is
    right for one, and where components share a covariance it has to be so, or all are wide. For
    more of them than there are components to spare, every other start has rare values that are far
    away count as if they were where the others end.
    X (n, p) holds distinct rows, and ``weight`` (n,) how often each counts. ``init`` is one of
    `INITS`:

    * "k-means++" and "kmeans": centres that are far from each other, with 2 or 20 steps of Lloyd's
      algorithm;
    * "random_from_data": any rows as centres, with 2 steps;
    * "random": random responsibilities;
    * "mixed": "k-means++" and "random_from_data" in turns.
    """
    size = max(_MIN_ROWS, _ROWS_EACH * model.K)
    if init == "kmeans":
        size *= _MORE_ROWS
    turns = ("k-means++", "random_from_data") if init == "mixed" else (init,)
    limits, parts = None, []
    for i in counted(range(m), "starts of particles", m):
        some, w = _sample(X, weight, size, rng)
        if i % 2 and not model.family.n_shared:
            limits = limits_of(some, w) if limits is None else limits
            np.clip(some, -limits, limits, out=some)
        parts.append(_start(model, some, w, turns[i % len(turns)], weight.sum(), rng))
    return Counts(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _sample(X, weight, size, rng):
    """At most ``size`` rows by stratified sampling of the total weight."""
    if len(X) <= size:
        return X[:], np.array(weight)
    places, counts = stratified_sample(weight, size, rng)
    return X[places], counts


def _start(model, X, weight, init, total, rng):
    """Counts of one particle."""
    K, n = model.K, len(X)
    weight = weight * (total / weight.sum())
    if init == "random":
        resp = rng.random((n, K))
        resp *= (weight / resp.sum(axis=1))[:, None]
        return _counts(model, X, [(slice(None), one) for one in resp.T])
    if init == "random_from_data":
        uniforms = rng.random(K) * weight.sum()
        places = np.searchsorted(np.cumsum(weight), uniforms, side="right")
        centres = X[np.minimum(places, n - 1)]
    else:
        centres = kmeans_plusplus(X, weight, rng.random(K))
    labels = lloyd(X, weight, centres, _LLOYD_STEPS[init])
    order = np.argsort(labels, kind="stable")
    own = np.split(order, np.searchsorted(labels[order], np.arange(1, K)))
    return _counts(model, X, [(rows, weight[rows]) for rows in own])


def _counts(model, X, parts):
    """Counts of the rows of each component, and how often each of them counts."""
    family, counts = model.family, model.no_counts(1)
    for k, (rows, weight) in enumerate(parts):
        part = X[rows]
        for some in pieces(part) if len(part) else ():
            added = weight[some] @ family.features(part[some])
            counts.components[0, k] += added[: family.n_features]
            counts.shared[0] += added[family.n_features :]
    return counts
