"""Quantiles and ranked probability scores of mixtures over particles, for a few rows at a time.

A search asks for the distribution function some ten times, and an integral eighty times, so that of
many particles some stand for all. They are chosen, for each row, at equal steps of the cumulated
weights, in the order of about the probability that they give to what is below a place near the
quantile: averages of probabilities are then right to a few 1e-4 there.
"""

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from skpmd.linear._family import Parameters

N_CHOSEN = 256  # Particles that stand for more of them; relative to tails of 1/20, and more below.
N_FIRST = 64  # Particles that find about where a quantile is.
_ROWS = 8  # Whose scores under all particles a processor's cache holds.
_MAX_STEPS = 200  # A search ends after so many steps; about 5 are usual.
_CLOSE = 1e-8  # A search ends so near a target, in scores,
_ROUGH = 1e-2  # but that with few particles here.
_FAR = 3.0  # A step goes no further than this, in scores.
# Chosen particles err by less in probability, and by less than a fiftieth of tails.
_MARGIN = 0.002
# Scores, in the way of a standard normal, at the ends of what is integrated.
_ENDS = 4.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_PLACES = -2.0, -1.0, 0.0, 1.0, 2.0  # Scores where weights of stand-ins are calibrated.
_MAX_COUNTS = 400  # Sums over more counts are integrals instead.


# --------------------------------------------------------------------- particles for all
def n_chosen(tail):
    """How many particles stand for all where a tail probability is sought."""
    return int(N_CHOSEN * max(1.0, 0.05 / max(tail, 1e-9)))


def chosen(scores, weights, n):
    """Indices (r, n) of particles that stand, with equal weights, for all of each row's (r, m)."""
    order = np.argsort(scores, axis=1)
    ends, points = np.cumsum(weights[order], axis=1), (np.arange(n) + 0.5) / n
    places = [np.searchsorted(one, points * one[-1]) for one in ends]
    return np.take_along_axis(order, np.array(places, dtype=np.intp).reshape(-1, n), axis=1)


def parameters_of(p, picked):
    """`Parameters` of particles (r, n) of equal weight."""

    def part(values):
        return np.take_along_axis(values, picked, 1) if values.ndim == 2 else values[picked]

    n = picked.shape[1]
    rest, dispersion = None if p.rest is None else part(p.rest), tuple(map(part, p.dispersion))
    return Parameters(part(p.mu), rest, dispersion, p.trials, np.full(n, 1.0 / n))


def of_rows(p, rows):
    """`Parameters` of some rows."""
    return p._replace(
        mu=p.mu[rows],
        rest=None if p.rest is None else p.rest[rows],
        dispersion=tuple(one if one.ndim == 1 else one[rows] for one in p.dispersion),
        trials=None if p.trials is None else p.trials[rows],
    )


def stand_ins(family, p, x, n):
    """Parameters of n particles that stand for all where targets are near x, (r,)."""
    if n >= len(p.weights):
        return p
    x = np.minimum(x, np.ravel(family.largest(p)))[:, None]
    some = [slice(start, start + _ROWS) for start in range(0, len(x), _ROWS)]
    scores = (family.score(x[rows], of_rows(p, rows)) for rows in some)
    return parameters_of(p, np.concatenate([chosen(one, p.weights, n) for one in scores]))


def at_steps(p, n):
    """Parameters of n particles at equal steps of the weights, in any order, which cost nothing."""
    picked = np.searchsorted(np.cumsum(p.weights), (np.arange(n) + 0.5) / n)
    return parameters_of(p, np.broadcast_to(picked, (len(p.mu), n)))


def calibrated(family, p, some, places):
    """Parameters of stand-ins with weights (r, n), so that they are right at places (k, r).

    There they have the average of all particles of about what is below. Weights get a factor that
    is linear in these probabilities, which is the regression estimator of surveys.
    """

    def features(p):
        return np.stack([ndtr(family.score(x[:, None], p)) for x in places], axis=1)

    own, gap = features(some), features(p) @ p.weights
    gap, own = gap - own.mean(axis=2), own - own.mean(axis=2, keepdims=True)
    products = np.einsum("ifn,ign->ifg", own, own)
    factor = np.linalg.pinv(products, 1e-6, hermitian=True) @ gap[..., None]
    return some._replace(weights=1.0 / own.shape[2] + (own * factor).sum(axis=1))


# --------------------------------------------------------------------- coordinates
class Coordinate:
    """A scale on which scores of a row, the probits of its cdf, are nearly straight lines."""

    def __init__(self, family, p):
        mean, square = family.mean(p), family.square_scale(p)
        self.kind = family.kind
        self.centre = p.average(mean)
        between = (mean - self.centre[:, None]) ** 2
        self.scale = np.sqrt(p.average(square + between))
        if self.kind == "real":
            self.scale *= 3.0  # The hyperbolic sine is nearly straight there, and so far out.
            self.start, self.slope = np.zeros(len(mean)), np.full(len(mean), 1.0 / 3.0)
        elif self.kind == "positive":
            self.slope = np.sqrt(np.log1p((self.scale / self.centre) ** 2))
            self.start = np.log(self.centre) - 0.5 * self.slope**2
        elif self.kind == "unit":
            self.centre = np.clip(self.centre, 1e-300, 1.0 - 1e-16)
            self.start = self.places(self.centre)
            self.slope = self.scale / (self.centre * (1.0 - self.centre))
        else:
            self.start = np.sqrt(self.centre + 1.0)
            self.slope = 0.5 * self.scale / self.start
        self.slope = np.clip(self.slope, 1e-12, 10.0 if self.kind != "count" else np.inf)

    def values(self, u, rows):
        """Targets at places u of some rows, and their derivatives by u."""
        if self.kind == "real":
            scale = self.scale[rows]
            return self.centre[rows] + scale * np.sinh(u), scale * np.cosh(u)
        if self.kind == "positive":
            return np.exp(u), np.exp(u)
        if self.kind == "unit":
            return expit(u), expit(u) * expit(-u)
        return u**2 - 1.0, 2.0 * u

    def places(self, x):
        """The inverse, of one target for each row."""
        if self.kind == "real":
            return np.arcsinh((x - self.centre) / self.scale)
        if self.kind == "count":
            return np.sqrt(x + 1.0)
        x = np.maximum(x, 1e-300)
        return np.log(x) if self.kind == "positive" else logit(np.minimum(x, 1.0 - 1e-16))


def _counts(u):
    """Counts at places that are those of counts; -1 at place 0."""
    return np.rint(u**2 - 1.0)


# --------------------------------------------------------------------- the search
def search(score, target, start, slope, is_count, close=_CLOSE):
    """Places (r,) where rising scores reach a target; of counts the least such.

    Secant steps within brackets. What a row comes to does not depend on other rows.

    ``score`` takes places (a,) and the rows (a,) that these belong to. A search begins at ``start``
    (r,) with a guess of derivatives by scores, ``slope`` (r,), and if it is not for counts, it ends
    where scores are as ``close``. The last derivatives (r,) come second, and then the least
    difference, in probability, of the target and of the scores on both sides of a count (r,).
    """
    n = len(start)
    u, slope, margin = start.copy(), slope.copy(), np.ones(n)
    if is_count:
        u = np.sqrt(np.ceil(np.maximum(u, 1.0) ** 2 - 1.0) + 1.0)
    low, high = np.full(n, 0.0 if is_count else -np.inf), np.full(n, np.inf)
    before, z_before, open_rows = np.full(n, np.nan), np.full(n, np.nan), np.arange(n)
    for step in range(_MAX_STEPS):
        at, z = u[open_rows], score(u[open_rows], open_rows)
        margin[open_rows] = np.minimum(margin[open_rows], np.abs(ndtr(z) - ndtr(target)))
        reached = z >= target
        high[open_rows] = np.where(reached, at, high[open_rows])
        low[open_rows] = np.where(reached, low[open_rows], at)
        secant = (at - before[open_rows]) / (z - z_before[open_rows])
        is_slope = np.isfinite(secant) & (secant > 0.0)
        slope[open_rows] = np.where(is_slope, secant, slope[open_rows])
        before[open_rows], z_before[open_rows] = at, z
        gap = np.clip(target - z, -_FAR, _FAR)
        ahead = at + gap * slope[open_rows] * 2.0 ** max(step - 8, 0)
        below, above = low[open_rows], high[open_rows]
        # Where secants do not come near, halves of the bracket do.
        is_out = (ahead < below) | (ahead > above) | (step >= 8 and step % 2 == 0)
        ahead = np.where(is_out & np.isfinite(above - below), 0.5 * (above + below), ahead)
        if is_count:
            least, most = _counts(below) + 1.0, _counts(above) - 1.0
            ahead = np.sqrt(np.clip(np.ceil(ahead**2 - 1.0), least, most) + 1.0)
            done = least > most
            ahead = np.where(done, above, ahead)
        else:
            width = 4.0 * np.finfo(float).eps * np.maximum(np.abs(at), 1.0)
            done = (np.abs(target - z) <= close) | (above - below <= width)
            ahead = np.where(done, at, ahead)
        u[open_rows] = ahead
        open_rows = open_rows[~done]
        if not len(open_rows):
            break
    return u, slope, margin


def score_of(family, p, coordinate, upper):
    """Scores of `search`: probits of the cdf, or where tails are upper, of what is above."""
    end = np.broadcast_to(family.largest(p), (len(p.mu), 1)) if family.kind == "count" else None

    def score(u, rows):
        x = coordinate.values(u, rows)[0][:, None]
        if family.kind == "count":
            x = np.minimum(np.rint(x), end[rows])
        some = of_rows(p, rows)
        terms = family.above(x, some) if upper else family.below(x, some)
        z = ndtri(np.clip(p.average(terms), 0.0, 1.0))
        return -z if upper else z

    return score


def quantile(family, everything, coordinate, tail, upper):
    """Targets (r,) with a probability of at most 0.5 below them, or above.

    They are found with few particles, then with more that are chosen there. Counts of which these
    are not sure are sought among all, and so need no choice of the few.
    """
    is_count = family.kind == "count"
    target = -ndtri(tail) if upper else ndtri(tail)
    u, slope = coordinate.start + target * coordinate.slope, coordinate.slope
    enough = min(n_chosen(tail), len(everything.weights))
    for n, close in ((N_FIRST, _ROUGH), (enough, _CLOSE)):
        if n > enough:
            continue
        x = coordinate.values(u, slice(None))[0]
        if is_count and n < enough:
            p = at_steps(everything, n)
        else:
            p = stand_ins(family, everything, np.maximum(np.rint(x), 0.0) if is_count else x, n)
        score = score_of(family, p, coordinate, upper)
        u, slope, margin = search(score, target, u, slope, is_count, close)
    if not is_count:
        return coordinate.values(u, slice(None))[0]
    rows = np.flatnonzero(margin < min(_MARGIN, 0.02 * tail))
    if p is not everything and len(rows):
        score = score_of(family, everything, coordinate, upper)
        parts = (lambda u, some: score(u, rows[some])), target, u[rows], slope[rows], True
        u[rows] = search(*parts)[0]
    return _counts(u)


# --------------------------------------------------------------------- scores
def ranked_scores(family, p, y):
    """CRPS (r,) at targets y (r,), and E|Y - Y'| (r,).

    Integrals of (F - 1{y <= t})^2 and of 2 F (1 - F) between quantiles of 3e-6 on both sides,
    which split at y. Of counts they are sums, or where there are many, integrals of a
    distribution function that is smooth between counts.
    """
    everything, coordinate = p, Coordinate(family, p)
    p = stand_ins(family, p, coordinate.values(coordinate.start, slice(None))[0], N_CHOSEN)
    of_few = Coordinate(family, p)
    ends = [quantile(family, p, of_few, ndtr(-_ENDS), upper) for upper in (False, True)]
    if p is not everything:
        low, high = ends
        inside = np.clip(y, low, high)
        steps = (coordinate.start + z * coordinate.slope for z in _PLACES)
        places = [np.clip(coordinate.values(u, slice(None))[0], low, high) for u in steps]
        p = calibrated(family, everything, p, [*places, inside])
    if family.kind != "count":
        return _integrals(family, p, y, *ends)
    short = ends[1] - ends[0] <= _MAX_COUNTS
    sums = _sums(family, p, y, ends[0], np.where(short, ends[1], ends[0]))
    if short.all():
        return sums
    # F on [k, k + 1) is the smooth function at k, the middle of the interval of the integral.
    smooth = _integrals(family, p, y - 0.5, ends[0] - 0.5, ends[1] + 0.5)
    return [np.where(short, a, b) for a, b in zip(sums, smooth, strict=True)]


def _integrals(family, p, y, low, high):
    """Gauss-Legendre rules below y and above, on the scale of the search."""
    coordinate, rows = Coordinate(family, p), slice(None)
    inside = np.clip(y, low, high)
    score, self_energy = low - np.minimum(y, low) + np.maximum(y, high) - high, np.zeros(len(y))
    places = [coordinate.places(one) for one in (low, inside, high)]
    for side in (0, 1):
        half = 0.5 * (places[side + 1] - places[side])
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            x, derivative = coordinate.values(places[side] + half * (1.0 + node), rows)
            below = p.average(family.below(x[:, None], p))
            length = weight * half * derivative
            score += length * (1.0 - below if side else below) ** 2
            self_energy += 2.0 * length * below * (1.0 - below)
    return score, self_energy


def _sums(family, p, y, low, high):
    """Sums over all counts from low to high, each row's own."""
    score, self_energy = low - np.minimum(y, low) + np.maximum(y, high + 1.0) - high - 1.0, 0.0
    below = np.zeros(len(y))
    for step in range(int((high - low).max(initial=0.0)) + 1):
        k = low + step
        there = k <= high
        terms = np.exp(family.log_density(np.minimum(k, high)[:, None], p))
        below = np.where(there, np.minimum(below + p.average(terms), 1.0), 1.0)
        share = np.clip(y - k, 0.0, 1.0)  # Of the interval [k, k + 1) that is below y.
        term = share * below**2 + (1.0 - share) * (1.0 - below) ** 2
        score += np.where(there, term, 0.0)
        self_energy = self_energy + 2.0 * below * (1.0 - below)
    return score, self_energy
