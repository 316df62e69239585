"""Different starts for the particles of a conjugate mixture."""

import numpy as np

from skpmd._base.rows import stretches
from skpmd.mixture._conjugate import Counts
from skpmd.mixture._starts_kernels import lloyd, spread

_ROWS, _ROWS_EACH = 1000, 60  # at least, and for each component
INITS = ("mixed", "k-means++", "kmeans", "random_from_data", "random")
_MORE = 10  # times as many rows for "kmeans", whose starts differ enough
_LLOYD = {"k-means++": 2, "random_from_data": 2, "kmeans": 20}


def starts(model, X, weight, init, m, rng):
    """Counts of m particles that have shared out some rows, as if they were all.

    Parameters
    ----------
    model : Mixture
        Of the components.
    X : ndarray of shape (n, p)
        Distinct rows.
    weight : ndarray of shape (n,)
        How often each counts.
    init : str
        One of `INITS`: centres that are far from each other, with 2 or 20 steps of Lloyd's
        algorithm; any rows, with 2 steps; shares at random; or the first and the third in turns.
    m : int
        Number of particles.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    Counts
        One particle for each start; each has seen other rows.
    """
    size = max(_ROWS, _ROWS_EACH * model.K)
    if init == "kmeans":
        size *= _MORE
    turns = ("k-means++", "random_from_data") if init == "mixed" else (init,)
    return join(
        [
            _start(model, *sample(X, weight, size, rng), turns[i % len(turns)], weight.sum(), rng)
            for i in range(m)
        ]
    )


def sample(X, weight, size, rng):
    """At most ``size`` rows, one from each of as many stretches of the total weight."""
    if len(X) <= size:
        return X, weight
    places, counts = stretches(weight, size, rng)
    return X[places], counts.astype(np.float64)


def join(parts):
    """Particles of several counts together."""
    return Counts(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _start(model, X, weight, init, total, rng):
    """Counts of one particle."""
    K, n, family = model.K, len(X), model.family
    if init == "random":
        resp = rng.random((n, K))
        resp /= resp.sum(axis=1, keepdims=True)
    else:
        if init == "random_from_data":
            uniforms = rng.random(K) * weight.sum()
            places = np.searchsorted(np.cumsum(weight), uniforms, side="right")
            centres = X[np.minimum(places, n - 1)]
        else:
            centres = spread(X, weight, rng.random(K))
        labels = lloyd(X, weight, centres, _LLOYD[init])
        resp = np.zeros((n, K))
        resp[np.arange(n), labels] = 1.0
    weight = weight * (total / weight.sum())
    features = family.features(X)
    components = (resp * weight[:, None]).T @ features[:, : family.n_features]
    shared = weight @ features[:, family.n_features :]
    return Counts(components[None], shared[None], np.zeros(1))
