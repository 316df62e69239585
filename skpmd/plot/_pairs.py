"""Pairs of a posterior's coordinates: regions of highest density, and marginal densities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from skpmd._base.utils import check_count
from skpmd._typing import Array, AxesLike
from skpmd.engine.particles import deviations
from skpmd.plot._common import (
    BLACK,
    BLUE,
    DARK,
    LIGHT,
    PosteriorDisplay,
    check_levels,
    check_posterior,
    coordinates,
    matplotlib,
    percent,
    plain_numbers,
    region_patches,
    sentence_of_hidden,
    short_names,
    wrapped,
)
from skpmd.posterior import Posterior

_PANEL = 1.9  # Inches of a figure for each coordinate.
_NOTHING = 1e-6  # Other particles have to have as much of the weight.
# A coordinate is constant where its values differ by less, relative to their size and as numbers
# whose squares are still numbers.
_ROUNDING, _TINY = 1e-12, 1e-150
_LETTERS, _FONT = 18, 9  # Names have lines of so many letters, in so many points.
_TAIL = 0.05  # Axes leave out so much of what is not in the outer region on either side,
_MARGIN = 0.15  # and have so much of their length more.
_EVEN, _BY_MASS = 50, 40  # Points of a grid: at equal distances, and at equal masses.
_EDGE = 2.0 ** np.arange(7)  # Points beyond the edge of a mode, in distances of those within.
_CORRELATED = 0.9  # From this correlation on a grid of two coordinates is turned.
_FLAT = 1e-6  # Standard deviations of a ridge that is a line to rounding.
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)  # Multiples of it are spread evenly over the unit interval.


class PairDisplay(PosteriorDisplay):
    """Regions of highest posterior density for pairs of coordinates, and marginal densities.

    Below the diagonal the dark region is the smallest with the probability of the inner level under
    the joint density of two coordinates, and the light region that of the outer level (Hyndman
    1996). If a posterior has several modes, regions can have several parts. On the diagonal are
    densities of single coordinates with the same kinds of regions. Densities are kernel estimates
    of the weighted particles, as in `Posterior.log_density`. Use `from_estimator` or
    `from_posterior`.

    Parameters
    ----------
    names : sequence of str of length k
        Names of the coordinates.
    marginals : list of k tuples (x, density, thresholds)
        Points and density of each coordinate, ndarray of shape (g,), and the two densities that
        bound the regions of the outer and the inner level.
    pairs : dict of (i, j) to tuple (x, y, density, thresholds)
        The same for coordinates j (x) and i (y), i > j; the first three have shape (g, h).
    limits : ndarray of shape (k, 2)
        Limits of the axis for each coordinate.
    levels : tuple of two float, default=(0.5, 0.9)
        Probabilities of the regions.
    n_coordinates : int, default=None
        Number of coordinates that were selected, of which k are shown; default k.

    Attributes
    ----------
    names, marginals, pairs, limits, levels, n_coordinates
        As given.
    axes_ : ndarray of shape (k, k) of matplotlib Axes
        Panels; those above the diagonal are empty.
    <figure>
    lines_ : list of matplotlib Line2D
        Marginal densities.
    contours_ : dict of (i, j) to matplotlib QuadContourSet
        Outlines of the regions.

    References
    ----------
    Hyndman, R. J. (1996). Computing and graphing highest density regions. The American Statistician
    50.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import Posterior
    >>> from skpmd.plot import PairDisplay
    >>> rng = np.random.default_rng(0)
    >>> particles = rng.normal(size=(500, 2)) + 4.0 * rng.integers(2, size=(500, 1))
    >>> posterior = Posterior(particles, np.zeros(500), names=["a", "b"])
    >>> display = PairDisplay.from_posterior(posterior)
    >>> display.axes_.shape, list(display.pairs)
    ((2, 2), [(1, 0)])
    """

    def __init__(
        self, *, names: Sequence[str], marginals: Sequence[tuple[Array, Array, Array]],
        pairs: dict[tuple[int, int], tuple[Array, Array, Array, Array]], limits: Array,
        levels: tuple[float, float] = (0.5, 0.9), n_coordinates: int | None = None,
    ) -> None:  # fmt: skip
        self.names, self.marginals, self.pairs = list(names), marginals, pairs
        self.limits, self.levels = limits, levels
        self.n_coordinates = len(self.names) if n_coordinates is None else n_coordinates

    @classmethod
    def from_posterior(
        cls,
        posterior: Posterior,
        *,
        names: Sequence[str] | None = None,
        max_coordinates: int = 5,
        levels: tuple[float, float] = (0.5, 0.9),
        ax: AxesLike | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw pairs of coordinates of a posterior.

        Parameters
        ----------
        posterior : Posterior
            Posterior to draw.
        names : sequence of str, default=None
            Names of the coordinates to draw, in this order; by default all that vary.
        max_coordinates : int, default=5
            Largest number of coordinates drawn; the title says how many are not shown.
        levels : tuple of two float, default=(0.5, 0.9)
            Probabilities of the dark and the light region.
        <drawing>

        Raises
        ------
        ValueError
            If an option has a value that is not allowed, a name is not that of a coordinate, or a
            coordinate has a single value.
        TypeError
            If the posterior has no particles.
        """
        matplotlib()
        check_posterior(posterior)
        levels = check_levels(levels)
        max_coordinates = check_count("max_coordinates", max_coordinates)
        if not hasattr(posterior, "particles"):
            raise TypeError(
                f"{type(posterior).__name__} has no particles, and its coordinates no dependence "
                "that pairs could show: take PosteriorIntervalDisplay."
            )
        places = _varying(posterior, coordinates(posterior, names), names is None)
        chosen = selection(posterior, places[:max_coordinates])
        k = len(chosen.names)
        display = cls(
            names=chosen.names,
            marginals=[marginal(chosen, j, levels) for j in range(k)],
            pairs={(i, j): pair(chosen, j, i, levels) for i in range(k) for j in range(i)},
            limits=axis_limits(chosen, levels[1]),
            levels=levels,
            n_coordinates=len(places),
        )
        return display.plot(ax=ax, **plot_options)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        line_kw: dict[str, Any] | None = None,
        contour_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        <ax>
        line_kw, contour_kw : dict, default=None
            Keywords of the marginal densities (`Axes.plot`) and of the outlines (`Axes.contour`).
        """
        k = len(self.names)
        side = max(_PANEL * k, 4.8)
        self._many_axes(ax, (k, k), (side, side))
        names = [wrapped(name, _LETTERS) for name in short_names(self.names)]
        self.lines_ = [self._draw_marginal(j, line_kw) for j in range(k)]
        self.contours_ = {place: self._draw_pair(*place, contour_kw) for place in self.pairs}
        for i, j in np.ndindex(k, k):
            panel = self.axes_[i, j]
            if j > i:
                panel.set_axis_off()
                continue
            panel.set_xlim(*self.limits[j])
            panel.tick_params(labelsize="small", labelbottom=i == k - 1)
            panel.tick_params(axis="x", labelrotation=45)
            panel.locator_params(nbins=4)
            plain_numbers(panel.xaxis)
            if i == k - 1:
                panel.set_xlabel(names[j], fontsize=_FONT)
            if j == 0 and i > 0:
                panel.set_ylabel(names[i], fontsize=_FONT)
            elif i != j:
                panel.tick_params(labelleft=False)
        self._explain()
        self.figure_.align_xlabels(self.axes_[-1])
        self.figure_.align_ylabels(self.axes_[:, 0])
        hidden = sentence_of_hidden(k, self.n_coordinates, "coordinates")
        self._put_title(hidden, ax is None)
        return self

    def _draw_marginal(self, j, line_kw):
        panel, (x, density, cuts) = self.axes_[j, j], self.marginals[j]
        for cut, colour in zip(cuts, (LIGHT, DARK), strict=True):
            panel.fill_between(x, 0.0, density, where=density >= cut, color=colour, linewidth=0.0)
        line = self._draw_line(x, density, line_kw, panel, color=BLUE, linewidth=1.5)
        panel.set_ylim(0.0, 1.05 * density.max())
        panel.set_yticks([])
        panel.spines[["top", "right", "left"]].set_visible(False)
        return line

    def _draw_pair(self, i, j, contour_kw):
        panel, (*grid, density, cuts) = self.axes_[i, j], self.pairs[i, j]
        panel.set_ylim(*self.limits[i])
        plain_numbers(panel.yaxis)
        return self._draw_regions(grid, density, cuts, [0.8, 1.4], contour_kw, panel)

    def _explain(self):
        """What the regions hold, beside the first panel or in it."""
        k = len(self.names)
        self.legend_ = self.axes_[0, k - 1].legend(
            handles=region_patches(map(percent, self.levels)), loc="upper right", fontsize="small",
            frameon=k == 1, title="highest density", title_fontsize="small", labelcolor=BLACK,
        )  # fmt: skip


def _varying(posterior, places, is_default):
    """Places of coordinates with several values; others are refused where they were named."""
    if posterior.weights.max() > 1.0 - _NOTHING:
        raise ValueError(
            "One particle of the posterior has all of the weight: there is no density to draw."
        )
    particles = posterior.particles[posterior.weights > 0.0][:, places]
    least = np.maximum(_ROUNDING * np.abs(particles).max(axis=0), _TINY)
    varies = np.ptp(particles, axis=0) > least
    if not varies.any() or not (is_default or varies.all()):
        name = posterior.names[places[np.flatnonzero(~varies)[0]]]
        raise ValueError(
            f"names has {name!r}, of which all particles have the same value: there is no density "
            "to draw."
        )
    return places[varies]


# ------------------------------------------------------------------- regions
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


def marginal(posterior, j, levels):
    """Points along one coordinate, the density of its particles there, and thresholds of levels."""
    support = _support(posterior, [j])
    one = Posterior(posterior.particles[:, [j]], posterior.log_weights, support=support)
    (x,) = grid(one, levels[1])
    density = np.exp(one.log_density(x[:, None]))
    return x, density, thresholds(density, np.gradient(x), levels)


def pair(posterior, i, j, levels):
    """The same of two coordinates: x, y and density (a, b) on a grid, and thresholds.

    The axes of the grid are those of the coordinates. If these are so correlated that a ridge would
    be narrower than the mesh, they are the diagonals of the standardised coordinates.
    """
    both = posterior.particles[:, [i, j]]
    centre, turn = posterior.weights @ both, np.diag(deviations(posterior.weights, both))
    if abs(_correlation(both, posterior.weights)) > _CORRELATED:
        turn = turn @ np.array([[1.0, 1.0], [1.0, -1.0]])
    own = np.linalg.solve(turn, (both - centre).T).T
    width = np.maximum(deviations(posterior.weights, own), _FLAT * np.abs(own).max())
    turn, own = turn * width, own / width
    turned = Posterior(_spread(own), posterior.log_weights)
    u, v = grid(turned, levels[1])
    points = np.stack(np.meshgrid(u, v, indexing="ij"), axis=-1)
    density = np.exp(turned.log_density(points.reshape(-1, 2))).reshape(points.shape[:2])
    x, y = np.moveaxis(points @ turn.T + centre, -1, 0)
    support = _support(posterior, [i, j])
    if support is not None:  # There is nothing beyond an edge.
        (low, lower), (high, upper) = support
        density[(x <= low) | (x >= high) | (y <= lower) | (y >= upper)] = 0.0
    areas = np.outer(np.gradient(u), np.gradient(v))
    return x, y, density, thresholds(density, areas, levels)


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


def _correlation(values, weights):
    centred = (values - weights @ values) / deviations(weights, values)
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
