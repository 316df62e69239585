"""Pairs of a posterior's coordinates: regions of highest density, and marginal densities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from skpmd._base.utils import check_count
from skpmd._typing import Array, AxesLike
from skpmd.plot import _regions
from skpmd.plot._common import (
    BLACK,
    BLUE,
    DARK,
    LIGHT,
    PosteriorDisplay,
    check_levels,
    check_posterior,
    coordinates,
    draw_line,
    draw_regions,
    many_axes,
    matplotlib,
    percent,
    plain_numbers,
    put_title,
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
        chosen = _regions.selection(posterior, places[:max_coordinates])
        k = len(chosen.names)
        display = cls(
            names=chosen.names,
            marginals=[_marginal(chosen, j, levels) for j in range(k)],
            pairs={(i, j): _pair(chosen, j, i, levels) for i in range(k) for j in range(i)},
            limits=_regions.axis_limits(chosen, levels[1]),
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
        self.axes_, self.figure_ = many_axes(ax, (k, k), (side, side))
        self.ax_ = self.axes_[0, 0]
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
        put_title(hidden, self.ax_, self.figure_, ax is None)
        return self

    def _draw_marginal(self, j, line_kw):
        panel, (x, density, cuts) = self.axes_[j, j], self.marginals[j]
        for cut, colour in zip(cuts, (LIGHT, DARK), strict=True):
            panel.fill_between(x, 0.0, density, where=density >= cut, color=colour, linewidth=0.0)
        line = draw_line(panel, x, density, line_kw, color=BLUE, linewidth=1.5)
        panel.set_ylim(0.0, 1.05 * density.max())
        panel.set_yticks([])
        panel.spines[["top", "right", "left"]].set_visible(False)
        return line

    def _draw_pair(self, i, j, contour_kw):
        panel, (*grid, density, cuts) = self.axes_[i, j], self.pairs[i, j]
        panel.set_ylim(*self.limits[i])
        plain_numbers(panel.yaxis)
        return draw_regions(panel, grid, density, cuts, [0.8, 1.4], contour_kw)

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


def _marginal(posterior, j, levels):
    x, density = _regions.marginal(posterior, j, levels[1])
    return x, density, _regions.thresholds(density, np.gradient(x), levels)


def _pair(posterior, i, j, levels):
    x, y, density, areas = _regions.pair(posterior, i, j, levels[1])
    return x, y, density, _regions.thresholds(density, areas, levels)
