"""Scales of a hierarchy, learned from draws of its prior, and coordinates in their units.

Where a coordinate is the log scale of others their prior is a funnel (Neal 2003): steps of any one
length are too long in its neck and too short outside. A move of the scale that takes the others
with it, so that they stay where they are in its units, has no such length. It is what a
non-centred form of the model would do (Papaspiliopoulos, Roberts and Sköld 2007; Yu and Meng 2011
for both forms in turn). Draws of the prior show which coordinates these are, in whatever way a
model has been written.
"""

from typing import NamedTuple

import numpy as np

from skpmd.engine.diagnostics import rank_correlation, ranks
from skpmd.proposals.optima import scales as spreads

_N_DRAWS, _MAX_COORDINATES = 2000, 100  # So many draws are looked at, in up to so many coordinates.
# Log distances from a centre have such a rank correlation with their scale, which is that share of
# the largest among them, and rise by so much with it.
_MIN_CORRELATION, _ALIKE, _MIN_RATE = 0.2, 0.7, 0.2
_MAX_ALONG = 0.3  # Rank correlation of what is scaled, by itself, with its scale.
# A centre has a slope in a coordinate that is so many standard errors, and so much in units of
# spreads: where tails are those of a Cauchy the first alone is met by chance.
_MIN_ERRORS, _MIN_SLOPE = 5.0, 0.05
_ROUNDS, _FLOOR, _MAX_SCALES, _MAX_LEVERAGE = 4, 3.0, 30, 1.0 - 1e-9
_TINY, _MAX_LOG = 1e-300, 300.0


class Scale(NamedTuple):
    """A coordinate that is the log scale of others, and where these are centred."""

    j: int  # The coordinate.
    scaled: np.ndarray  # (s,) int: Those that it scales.
    rate: np.ndarray  # (s,): Their log scale rises so much with it.
    constant: np.ndarray  # (s,)
    slopes: np.ndarray  # (d, s): Their centre is linear in coordinates that it does not scale.
    strength: float  # Sum of rank correlations with log distances from the centre.

    def _log_factor(self, theta):
        return np.clip(self.rate * theta[:, [self.j]], -_MAX_LOG, _MAX_LOG)

    def outward(self, theta):
        """Draws (k, d) in units of the scale."""
        new = theta.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            away = theta[:, self.scaled] - self._centre(theta)
            new[:, self.scaled] = away * np.exp(-self._log_factor(theta))
        return new

    def inward(self, u):
        """The inverse, and log determinants of its derivative (k,)."""
        new, log_factor = u.copy(), self._log_factor(u)
        with np.errstate(over="ignore", invalid="ignore"):
            away = u[:, self.scaled] * np.exp(log_factor)
            new[:, self.scaled] = away + self._centre(u)
        return new, log_factor.sum(axis=1)

    def _centre(self, theta):
        return self.constant + theta @ self.slopes


class Hierarchy(NamedTuple):
    """Coordinates u, in units of all scales one after another, of those theta of a model."""

    scales: tuple  # `Scale`: each is in units of those before it.

    def outward(self, theta):
        """Coordinates u (m, d) of theta."""
        for one in self.scales:
            theta = one.outward(theta)
        return theta

    def with_jacobian(self, u):
        """Coordinates theta (m, d) of u, and log determinants of their derivative (m,)."""
        theta, total = u.copy(), np.zeros(len(u))
        for one in reversed(self.scales):
            theta, log_jacobian = one.inward(theta)
            total += log_jacobian
        return theta, total

    def moved(self, theta, j, step):
        """Coordinates theta whose scales ``j`` (m,) are further by ``step`` (m,), and a volume.

        Other coordinates u stay what they are. The volume is the log determinant of the map (m,),
        -inf where the new place has no number, which is then the old one.
        """
        u = self.outward(theta)
        _, before = self.with_jacobian(u)
        u = u.copy()
        u[np.arange(len(u)), j] += step
        new, after = self.with_jacobian(u)
        finite = np.isfinite(new).all(axis=1)
        return np.where(finite[:, None], new, theta), np.where(finite, after - before, -np.inf)


def hierarchy(theta):
    """The `Hierarchy` that draws (m, d) of a prior show, or None."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return _hierarchy(theta)
    except np.linalg.LinAlgError:  # Products of draws overflow.
        return None


def _hierarchy(theta):
    found, theta = [], theta[:_N_DRAWS]
    if theta.shape[1] > _MAX_COORDINATES or not (np.ptp(theta, axis=0) > 0.0).all():
        return None
    while len(found) < _MAX_SCALES:
        options = _options(theta, [one.j for one in found])
        if not options:
            break
        # What others are centred at must still be there when they are taken.
        free = [one for one in options if not any(_depends(other, one) for other in options)]
        found.append(max(free or options, key=lambda one: one.strength))
        theta = found[-1].outward(theta)
    return Hierarchy(tuple(found)) if found else None


def _depends(scale, other):
    """Whether coordinates of one are centred at those that the other one scales."""
    return scale is not other and bool(scale.slopes[other.scaled].any())


def _options(theta, done):
    """A `Scale` for each coordinate that seems to be one, but for those that are ``done``."""
    d = theta.shape[1]
    of_each = ranks(theta.T)
    related = np.zeros((d, d))  # [j, i]: The largest correlation of a distance of i with j.
    for i in range(d):
        places = np.delete(theta, i, axis=1).T
        distances = np.abs(
            theta[:, i] - np.vstack([places, np.full(len(theta), np.median(theta[:, i]))])
        )
        correlation = of_each @ ranks(distances).T / (of_each[0] @ of_each[0])
        related[:, i] = correlation.max(axis=1)
    along = np.abs(of_each @ of_each.T) / (of_each[0] @ of_each[0])
    related[along > _MAX_ALONG] = 0.0  # A scale leaves the middle of what it scales alone.
    options = []
    for j in range(d):
        scaled = np.flatnonzero(related[j] > _MIN_CORRELATION)
        if j not in done and len(scaled):
            options.append(_scale(theta, j, scaled, of_each[j]))
    return [one for one in options if one is not None]


def _least_squares(design, target):
    """Coefficients (p,), and their standard errors (p,) whatever the residuals' variances.

    Each residual is what it would be without its own draw (MacKinnon and White 1985, HC3), for one
    draw may have all the leverage where tails are those of a Cauchy.
    """
    q, r = np.linalg.qr(design)
    inverse = np.linalg.inv(r)
    fit = inverse @ (target @ q)
    leverage = np.minimum((q**2).sum(axis=1), _MAX_LEVERAGE)
    residual = (target - design @ fit) / (1.0 - leverage)
    return fit, np.linalg.norm(inverse @ (q * residual[:, None]).T, axis=1)


def _scale(theta, j, scaled, rank):
    """The `Scale` that coordinate j is, of some of these, or None."""
    d, x, spread = theta.shape[1], theta[:, j] - theta[:, j].mean(), spreads(theta)
    slopes, constant, rate, correlation = np.zeros((d, d)), np.zeros(d), np.zeros(d), np.zeros(d)
    for i in scaled:
        b, columns, robust = 1.0, np.delete(np.arange(d), i), 1.0
        for _ in range(_ROUNDS):
            root = -b * x
            root = robust * np.exp(np.maximum(root - root.max(), -_MAX_LOG))
            design = np.column_stack([np.ones(len(x)), theta[:, columns]])
            fit, error = _least_squares(design * root[:, None], theta[:, i] * root)
            log_away = np.log(np.maximum(np.abs(theta[:, i] - design @ fit), _TINY))
            b = x @ (log_away - log_away.mean()) / (x @ x)
            away = log_away - b * x  # Least absolute distances, for these may have heavy tails.
            robust = np.exp(-0.5 * np.maximum(away - np.median(away), -_FLOOR))
            steep = np.abs(fit[1:]) > np.maximum(
                _MIN_ERRORS * error[1:], _MIN_SLOPE * spread[i] / spread[columns]
            )
            used, columns = columns, columns[steep]
        if j in used:  # It is a centre: what is centred at j leaves any point far away with it.
            continue
        correlation[i], rate[i] = rank_correlation(ranks(log_away), rank), b
        constant[i], slopes[used, i] = fit[0], fit[1:]
    kept = correlation > max(_MIN_CORRELATION, _ALIKE * correlation.max())
    kept &= rate > _MIN_RATE
    # Where others are centred is not scaled with them: effects depend on their mean alone, but it
    # depends on all of them.
    taken, centres = [], np.zeros(d, dtype=bool)
    for i in sorted(np.flatnonzero(kept), key=lambda i: np.count_nonzero(slopes[:, i])):
        if not centres[i] and not slopes[taken, i].any():
            taken.append(i)
            centres |= slopes[:, i] != 0.0
    taken = np.array(taken, dtype=int)
    if not len(taken):
        return None
    strength = correlation[taken].sum()
    return Scale(j, taken, rate[taken], constant[taken], slopes[:, taken], strength)
