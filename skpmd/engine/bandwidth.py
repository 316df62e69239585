"""How wide the kernels are: rules for the bandwidth of whitened, weighted particles."""

import numpy as np

from skpmd.engine.particles import effective_sample_size, weights
from skpmd.engine.resampling import systematic

_GRID = np.array([0.03, 0.05, 0.08, 0.13, 0.2, 0.32, 0.5, 0.75, 1.0])
_MAX_SCORED = 1000  # The leave-one-out score is averaged over so many particles, at most.
_MAX_PAIRS = 4_000_000  # So many distances are held at once, at most.
_PATIENCE = 3  # The search stops after so many narrower bandwidths that score worse.
_MAX_ITER = 15  # The kernel's shape is refined so many times, at most.
_NARROWEST = 1e-3  # This is the smallest bandwidth along any axis, in whitened units.


def kernel_covariance(white, log_w, rule, factor, smoothness, shrinkage):
    """Covariance of the kernels in whitened coordinates, shape (d, d).

    The particles ``white``, of shape (m, d), have weighted mean 0 and covariance I; their log
    weights are normalised. With ``shrinkage`` centres will be shrunk: the leave-one-out score
    depends on it, and eigenvalues are then in (0, 1].

    A float as ``rule`` is h itself: the covariance is h^2 I. ``factor`` multiplies h of the rules
    ``"theorem"``, ``"scott"``, ``"silverman"`` and ``"median"``, and ``smoothness`` is beta of the
    theorem's rule h = factor * m^(-1/(d + 2 beta)).
    """
    d = white.shape[1]
    if rule == "loo":
        return _leave_one_out(white, log_w, shrinkage)
    h = rule if not isinstance(rule, str) else factor * _RULES[rule](white, log_w, smoothness)
    if shrinkage:
        h = min(h, 1.0)  # At a larger width no shrinkage gives the covariance back.
    return h**2 * np.eye(d)


def shrink_matrix(covariance, shrinkage):
    """The map A that moves centres so that A A' + kernel covariance = I (Liu and West 2001)."""
    d = len(covariance)
    if not shrinkage:
        return np.eye(d)
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(1.0 - values, 0.0))) @ vectors.T


def squared_distances(points, centres):
    """Squared Euclidean distances of shape (n, m), by one matrix product.

    Both are centred first: what cancels is then as small as it can be. The squares of the norms are
    two more columns of the product, which saves two passes through the table.
    """
    middle = centres.mean(axis=0)
    points, centres = points - middle, centres - middle
    left = [points, np.einsum("ij,ij->i", points, points), np.ones(len(points))]
    right = [-2.0 * centres, np.ones(len(centres)), np.einsum("ij,ij->i", centres, centres)]
    table = np.column_stack(left) @ np.column_stack(right).T
    return np.maximum(table, 0.0, out=table)


def _leave_one_out(white, log_w, shrinkage):
    """Kernel covariance with the best weighted leave-one-out log score of a Gaussian kernel.

    A multiple of the identity is chosen on a grid; expectation maximisation then shapes it
    (each pair's distance counts with its responsibility), over-relaxed. It follows the shape of
    a mode, which under several modes is not that of the whole.
    """
    d = white.shape[1]
    # Thinned by a fixed stride over the order of the weights: no randomness is spent on it.
    if len(white) < 3:
        return np.eye(d)  # Nothing is left once a point is left out.
    order = np.argsort(-log_w, kind="stable")
    n_scored = min(_MAX_SCORED, max(1, _MAX_PAIRS // len(order)))
    scored = order[:: max(1, -(-len(order) // n_scored))]
    best, best_score, worse = np.eye(d), -np.inf, 0
    for h in _GRID[::-1]:
        covariance = h**2 * np.eye(d)
        score, refined = _score(white, log_w, covariance, scored, shrinkage)
        if score > best_score:
            best, best_score, best_refined, worse = covariance, score, refined, 0
        else:
            worse += 1
        if worse == _PATIENCE:
            break
    if best[0, 0] == 1.0:
        return best  # One Gaussian has no shape to refine.
    relaxation = 1.0
    for _ in range(_MAX_ITER):
        proposal = _relax(best, best_refined, relaxation)
        score, refined = _score(white, log_w, proposal, scored, shrinkage)
        if score > best_score:
            gain, best, best_score, best_refined = score - best_score, proposal, score, refined
            relaxation *= 1.5
            if gain < 1e-4:
                break
        elif relaxation == 1.0:
            break
        else:
            relaxation = 1.0
    return best


def _score(white, log_w, covariance, scored, shrinkage):
    """Weighted leave-one-out log score, and the covariance of one EM update."""
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.clip(values, _NARROWEST**2, None))
    centres = white @ shrink_matrix(covariance, shrinkage)
    points = white[scored]
    table = squared_distances(points @ vectors / root, centres @ vectors / root)
    table *= -0.5
    table += log_w
    table[np.arange(len(scored)), scored] = -np.inf
    top = table.max(axis=1, keepdims=True)
    table -= top
    np.exp(table, out=table)
    sums = table.sum(axis=1)
    w = np.exp(log_w[scored])
    # Leaving centre j out renormalises the other weights by 1 - w_j.
    log_scores = np.log(sums) + top[:, 0] - np.log1p(-np.minimum(w, 1.0 - 1e-12))
    w = w / w.sum()
    score = w @ log_scores - np.log(root).sum()
    table *= (w / sums)[:, None]  # responsibilities
    cross = points.T @ (table @ centres)
    update = (points.T * w) @ points - cross - cross.T
    update += (centres.T * table.sum(axis=0)) @ centres
    return score, update


def _relax(old, new, power):
    """Move from one covariance towards another along the geodesic: old (old^-1 new)^power."""
    values, vectors = np.linalg.eigh(old)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    change, axes = np.linalg.eigh(inverse @ new @ inverse)
    moved = root @ (axes * np.maximum(change, 1e-12) ** power) @ axes.T @ root
    values, vectors = np.linalg.eigh(moved)
    return (vectors * np.clip(values, _NARROWEST**2, 1.0)) @ vectors.T


def _theorem(white, log_w, smoothness):
    m, d = white.shape
    return m ** (-1.0 / (d + 2.0 * smoothness))


def _scott(white, log_w, smoothness):
    return effective_sample_size(log_w) ** (-1.0 / (white.shape[1] + 4))


def _silverman(white, log_w, smoothness):
    d = white.shape[1]
    return (effective_sample_size(log_w) * (d + 2) / 4.0) ** (-1.0 / (d + 4))


def _median(white, log_w, smoothness):
    """0.1 times the median pairwise distance (the paper's appendix H)."""
    pick = systematic(weights(log_w), min(len(white), 500), np.random.default_rng(0))
    squared = squared_distances(white[pick], white[pick])
    return 0.1 * np.sqrt(np.median(squared[np.triu_indices(len(pick), 1)]))


_RULES = {"theorem": _theorem, "scott": _scott, "silverman": _silverman, "median": _median}
BANDWIDTH_RULES = ("loo", *_RULES)
