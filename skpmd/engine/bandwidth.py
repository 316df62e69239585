"""How wide the kernels are: rules for the bandwidth of whitened, weighted particles."""

import numpy as np

from skpmd.engine import kernel_sums
from skpmd.engine.particles import effective_sample_size, random_draws, squared_distances, weights

_GRID = np.array([0.03, 0.05, 0.08, 0.13, 0.2, 0.32, 0.5, 0.75, 1.0])
_MAX_SCORED = 1024  # The leave-one-out score is averaged over so many particles, at most,
_MIN_SCORED = 256  # and over so many, if there are, though that be more than
_MAX_PAIRS = 8_000_000  # so many distances.
_PER_NUMBER = 50  # With fewer of them for each number of a shape, half learn it and half judge it.
_MIN_GAIN = 1e-4  # The search for a shape ends where it gains less, in nats.
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


def _leave_one_out(white, log_w, shrinkage):
    """Kernel covariance with the best weighted leave-one-out log score of a Gaussian kernel.

    A multiple of the identity is chosen on a grid; expectation maximisation then shapes it
    (each pair's distance counts with its responsibility), over-relaxed. It follows the shape of
    a mode, which under several modes is not that of the whole. The shape has d (d + 1) / 2 numbers:
    where these are many it is learnt from other particles than those that judge it.
    """
    d = white.shape[1]
    if len(white) < 3:
        return np.eye(d)  # Nothing is left once a point is left out.
    judges, teachers = _samples(weights(log_w), d * (d + 1) // 2)
    one_gaussian = _score(white, log_w, np.eye(d), judges, shrinkage)
    best, best_score, worse = None, -np.inf, 0
    for h in _GRID[-2::-1]:
        covariance = h**2 * np.eye(d)
        score = _score(white, log_w, covariance, judges, shrinkage)
        if score > best_score:
            best, best_score = covariance, score
            worse = 0 if score > one_gaussian else worse + 1
        else:
            worse += 1
        if worse == _PATIENCE:
            break
    if best is None:
        return np.eye(d)  # No kernel but the widest reaches from one particle to another.
    relaxation, refined = 1.0, None
    for _ in range(_MAX_ITER):
        if refined is None:
            refined = _refined(white, log_w, best, teachers, shrinkage)
        proposal = _relax(best, refined, relaxation)
        score = _score(white, log_w, proposal, judges, shrinkage)
        if score > best_score:
            gain, best, best_score, refined = score - best_score, proposal, score, None
            relaxation *= 1.5
            if gain < _MIN_GAIN or best_score < one_gaussian:
                break
        elif relaxation == 1.0:
            break
        else:
            relaxation = 1.0
    return best if best_score > one_gaussian else np.eye(d)


def _samples(w, n_numbers):
    """Particles that judge a shape and that teach it: (their numbers, how much each counts).

    They are the same where a shape has few numbers to learn, and otherwise have no particle in
    common. A particle is included with a probability in proportion to its weight, up to 1:
    systematic sampling without replacement, in the order of the weights and without randomness.
    """
    order = np.argsort(-w, kind="stable")
    # Particles with more than a fair share of the weight that is left are included for sure.
    rest = w[order][::-1].cumsum()[::-1]
    n = min(len(w), _MAX_SCORED, max(_MIN_SCORED, _MAX_PAIRS // len(w)))
    sure = int(np.argmax((n - np.arange(len(w))) * w[order] <= rest))
    step = rest[sure] / (n - sure)
    places = (np.arange(n - sure) + 0.5) * step
    others = sure + np.searchsorted(w[order][sure:].cumsum(), places)
    others = np.minimum(others, len(w) - 1)
    chosen = np.concatenate([np.arange(sure), others])
    counts = np.concatenate([w[order][:sure], np.full(n - sure, step)])
    if n >= _PER_NUMBER * n_numbers:
        return ((order[chosen], counts),) * 2
    judges = np.zeros(n, dtype=bool)
    judges[::2] = True
    return ((order[chosen[part]], counts[part]) for part in (judges, ~judges))


def _scaled(white, log_w, covariance, scored, shrinkage):
    """Points and tiles of centres in the kernel's units, its root, and the centres as they are."""
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.clip(values, _NARROWEST**2, None))
    centres = white @ shrink_matrix(covariance, shrinkage)
    tiles = kernel_sums.tiled(centres @ vectors / root, log_w)
    return white[scored] @ vectors / root, tiles, root, vectors, centres


def _score(white, log_w, covariance, sample, shrinkage):
    """Weighted leave-one-out log score."""
    scored, counts = sample
    points, tiles, root, *_ = _scaled(white, log_w, covariance, scored, shrinkage)
    log_sums = kernel_sums.log_sums(tiles, points, scored)
    # Leaving centre j out renormalises the other weights by 1 - w_j.
    log_scores = log_sums - np.log1p(-np.minimum(np.exp(log_w[scored]), 1.0 - 1e-12))
    return counts @ log_scores / counts.sum() - np.log(root).sum()


def _refined(white, log_w, covariance, sample, shrinkage):
    """The covariance of one EM update."""
    scored, counts = sample
    w = counts / counts.sum()
    points, tiles, root, vectors, centres = _scaled(white, log_w, covariance, scored, shrinkage)
    _, means, totals = kernel_sums.responsibilities(tiles, points, w, scored)
    points, means = white[scored], (means * root) @ vectors.T
    cross = (points.T * w) @ means
    update = (points.T * w) @ points - cross - cross.T
    update += (centres.T * totals[: len(centres)]) @ centres
    return update


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
    """0.1 times the median pairwise distance (the paper's appendix H), or else Scott's rule."""
    pick = random_draws(weights(log_w), min(len(white), 500), np.random.default_rng(0))
    squared = squared_distances(white[pick], white[pick])
    apart = squared[np.triu_indices(len(pick), 1)]
    # One particle, or copies of it, have no distance.
    middle = np.median(apart) if len(apart) else 0.0
    return 0.1 * np.sqrt(middle) if middle > 0.0 else _scott(white, log_w, smoothness)


_RULES = {"theorem": _theorem, "scott": _scott, "silverman": _silverman, "median": _median}
BANDWIDTH_RULES = ("loo", *_RULES)
