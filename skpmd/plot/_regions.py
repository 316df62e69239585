"""Densities of weighted particles on grids, and their regions of highest density."""

import numpy as np
from scipy.special import ndtri

from skpmd.posterior import Posterior

_TAIL = 0.05  # Axes leave out so much of what is not in the outer region on either side,
_MARGIN = 0.15  # and have so much of their length more.
_EVEN, _BY_MASS = 50, 40  # Points of a grid: at equal distances, and at equal masses.
_EDGE = 2.0 ** np.arange(7)  # Points beyond the edge of a mode, in distances of those within.
_CORRELATED = 0.9  # From this correlation on a grid of two coordinates is turned.
_FLAT = 1e-6  # Standard deviations of a ridge that is a line to rounding.
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)  # Multiples of it are spread evenly over the unit interval.


def selection(posterior, places):
    """The posterior of some coordinates; particles without weight are left out."""
    alive = posterior.weights > 0.0
    return Posterior(
        posterior.particles[np.ix_(alive, places)],
        posterior.log_weights[alive],
        names=[posterior.names[j] for j in places],
        support=_support(posterior, places),
    )


def _support(posterior, places):
    """Edges of some coordinates; None where there are none."""
    return None if posterior.support is None else tuple(end[places] for end in posterior.support)


def axis_limits(posterior, outer):
    """Lower and upper limit of each coordinate's axis, (d, 2), for regions of an outer level."""
    tail = _TAIL * (1.0 - outer)
    low, high = posterior.quantile([tail, 1.0 - tail])
    margin = _MARGIN * (high - low)
    return np.column_stack([low - margin, high + margin])


def grid(posterior, outer):
    """Points along each coordinate, a list of ndarray.

    Points at equal masses are close where the particles are. Even modes that are narrow compared
    with their distance therefore have points, and some points lie beyond their edges.
    """
    shares = (np.arange(_BY_MASS) + 0.5) / _BY_MASS
    at_mass = posterior.quantile(shares).T
    even = (np.linspace(low, high, _EVEN) for low, high in axis_limits(posterior, outer))
    points = ((one, own, _edges(own)) for one, own in zip(even, at_mass, strict=True))
    return [np.unique(np.concatenate(one)) for one in points]


def _edges(points):
    """Points beyond sorted ones, on either side of gaps that are wide beside those before."""
    steps, found = np.diff(points), []
    for here, ahead, at, sign in (
        (steps[:-1], steps[1:], points[1:-1], 1.0),
        (steps[1:], steps[:-1], points[1:-1], -1.0),
    ):
        for many in _EDGE:
            wide = ahead > 2.0 * many * here
            found.append(at[wide] + sign * many * here[wide])
    ends = [points[0] - many * steps[0] for many in _EDGE]
    ends += [points[-1] + many * steps[-1] for many in _EDGE]
    return np.concatenate([*found, ends])


def marginal(posterior, j, outer):
    """Points along one coordinate, and the density of its particles there."""
    support = _support(posterior, [j])
    one = Posterior(posterior.particles[:, [j]], posterior.log_weights, support=support)
    (x,) = grid(one, outer)
    return x, np.exp(one.log_density(x[:, None]))


def pair(posterior, i, j, outer):
    """Points of a grid of two coordinates, and the density there: x, y, density and areas (a, b).

    The axes of the grid are those of the coordinates. If these are so correlated that a ridge would
    be narrower than the mesh, they are the diagonals of the standardised coordinates.
    """
    both = posterior.particles[:, [i, j]]
    centre, turn = posterior.weights @ both, np.diag(_std(both, posterior.weights))
    if abs(_correlation(both, posterior.weights)) > _CORRELATED:
        turn = turn @ np.array([[1.0, 1.0], [1.0, -1.0]])
    own = np.linalg.solve(turn, (both - centre).T).T
    width = np.maximum(_std(own, posterior.weights), _FLAT * np.abs(own).max())
    turn, own = turn * width, own / width
    turned = Posterior(_spread(own), posterior.log_weights)
    u, v = grid(turned, outer)
    points = np.stack(np.meshgrid(u, v, indexing="ij"), axis=-1)
    density = np.exp(turned.log_density(points.reshape(-1, 2))).reshape(points.shape[:2])
    x, y = np.moveaxis(points @ turn.T + centre, -1, 0)
    support = _support(posterior, [i, j])
    if support is not None:  # There is nothing beyond an edge.
        (low, lower), (high, upper) = support
        density[(x <= low) | (x >= high) | (y <= lower) | (y >= upper)] = 0.0
    return x, y, density, np.outer(np.gradient(u), np.gradient(v))


def thresholds(density, areas, levels):
    """Densities above which a region of highest density has each level (Hyndman 1996).

    ``areas`` are the areas of the cells around the points of a grid, and the levels increase. The
    result has the threshold of the outer level first and increases strictly, as contours require.
    """
    order = np.argsort(density, axis=None)[::-1]
    mass = np.cumsum((density * areas).ravel()[order])
    found = np.interp(levels, mass / mass[-1], density.ravel()[order])[::-1].copy()
    for k in range(1, len(found)):
        found[k] = max(found[k], np.nextafter(found[k - 1], np.inf))
    return found


def _std(values, weights):
    return np.sqrt(weights @ (values - weights @ values) ** 2)


def _correlation(values, weights):
    centred = (values - weights @ values) / _std(values, weights)
    return float(weights @ (centred[:, 0] * centred[:, 1]))


def _spread(values):
    """Values whose constant coordinates vary with standard deviation 1, evenly and by no chance.

    The density of a line is infinite, that of a ridge too narrow to be seen is not.
    """
    out, scores = values.copy(), ndtri((np.arange(len(values)) * _GOLDEN + 0.5) % 1.0)
    for j in range(values.shape[1]):
        if np.ptp(values[:, j]) < 1.0:
            out[:, j] += scores
    return out
