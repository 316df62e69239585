"""Where inducing inputs are put."""

import numpy as np
from sklearn.cluster import KMeans

INITS = ("random", "kmeans", "greedy")
_MORE = 10  # candidates for each inducing input that is wanted
_EMPTY = 1e-12  # of the prior variance: what is left to know of a candidate


def choose(init, sample, n, covariance, theta, rng):
    """At most n inducing inputs, shape (M, p): all distinct rows where there are no more than n.

    Parameters
    ----------
    init : {"random", "kmeans", "greedy"} or array-like of shape (M, p)
        Rows at random; centres of clusters; those that leave the least conditional variance of f,
        one by one (Burt, Rasmussen and van der Wilk 2020); or the inputs themselves.
    sample : callable
        ``sample(k, rng)`` draws at most k rows of the data, a `Sample`.
    n : int
        How many.
    covariance, theta
        For ``"greedy"``.
    rng : numpy.random.Generator
        Source of all randomness.
    """
    if not isinstance(init, str):
        return np.array(init, dtype=np.float64)
    drawn = sample(_MORE * n, rng)
    rows, places = np.unique(drawn.X, axis=0, return_inverse=True)
    if len(rows) <= n:
        return rows
    if init == "kmeans":
        weight = np.bincount(places.ravel(), drawn.weight)
        seed = int(rng.integers(2**31))
        means = KMeans(n, n_init=1, max_iter=30, random_state=seed)
        return means.fit(rows, sample_weight=weight).cluster_centers_
    if init == "greedy":
        return rows[greedy(covariance, theta, rows, n)]
    return rows[np.sort(rng.choice(len(rows), n, replace=False))]


def greedy(covariance, theta, X, n):
    """Places of up to n rows, each of the largest variance given those before: pivoted Cholesky."""
    left = covariance.diagonal(theta, X).copy()
    floor = _EMPTY * left.max()
    factor = np.empty((n, len(X)))
    places = []
    for k in range(n):
        place = int(left.argmax())
        if left[place] <= floor:
            break
        row = covariance.cross(theta, X[place : place + 1], X)[0]
        row -= factor[:k, place] @ factor[:k]
        factor[k] = row / np.sqrt(left[place])
        left = np.maximum(left - factor[k] ** 2, 0.0)
        left[places + [place]] = 0.0
        places.append(place)
    return np.array(places)
