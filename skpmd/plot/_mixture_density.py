"""Density of a fitted Gaussian mixture, with its uncertainty, and the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from skpmd._base.utils import check_count, check_level
from skpmd._base.validation import checked_weights
from skpmd._typing import Array, ArrayLike, AxesLike, Estimator, MatrixLike
from skpmd.plot._common import (
    BLUE,
    DARK,
    GREY,
    Display,
    check_levels,
    matplotlib,
    percent,
    region_patches,
    short_names,
)
from skpmd.plot._pairs import thresholds
from skpmd.plot._tables import dense, named, scaling_of
from skpmd.posterior import Posterior
from skpmd.predictive import NormalMixture
from skpmd.wrappers import column_names, innermost, inside

_REGIONS = (0.5, 0.9)
_FAR = float(ndtri(0.9999))  # Components are drawn as far as this, in standard deviations.


class MixtureDensityDisplay(Display):
    """Posterior mean of a mixture's density: with a band in one column, or contours in two.

    In one column the line is the average of the particles' densities, the band is a central
    interval of these densities at each point, and the histogram shows the data. In two columns the
    regions are the smallest with the given probabilities under the predictive density, and points
    show the data. Use `from_estimator`.

    Parameters
    ----------
    x : ndarray of shape (g,)
        Points in the (first) column.
    density : ndarray of shape (g,) or (g, h)
        Mean density at these points, per unit of the columns; ``density[i, j]`` is the density at
        x_i and y_j.
    band : ndarray of shape (g, 2), default=None
        Ends of the intervals of the density, in one column.
    y : ndarray of shape (h,), default=None
        Points in the second column.
    level : float, default=0.9
        Probability of the band at each point.
    levels : tuple of two float, default=(0.5, 0.9)
        Probabilities of the regions in two columns.
    data : ndarray of shape (n,) or (n, 2), default=None
        Rows to draw.
    sample_weight : ndarray of shape (n,), default=None
        Weights of the rows, for the histogram.
    names : sequence of str, default=("x", "y")
        Names of the columns.
    bins : int, str or array-like of shape (n_bins + 1,), default="auto"
        Bins of the histogram, as in `numpy.histogram_bin_edges`; a number or edges if there are
        weights.

    Attributes
    ----------
    x, density, band, y, level, levels, data, sample_weight, names, bins
        As given.
    <figure>
    line_, band_, histogram_ : matplotlib Line2D, PolyCollection, StepPatch
        Artists for one column; None for two columns. The last is None also without data.
    contours_, points_ : matplotlib QuadContourSet, Line2D
        Artists for two columns; None for one column. The last is None also without data.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import GaussianMixturePMD
    >>> from skpmd.plot import MixtureDensityDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, size=(60, 1)), rng.normal(3, 1, size=(30, 1))])
    >>> mixture = GaussianMixturePMD(2, random_state=0).fit(X)
    >>> display = MixtureDensityDisplay.from_estimator(mixture, X)
    >>> bool((display.band[:, 0] <= display.band[:, 1]).all()), display.ax_.get_ylabel()
    (True, 'density')
    """

    def __init__(
        self, *, x: Array, density: Array, band: Array | None = None, y: Array | None = None,
        level: float = 0.9, levels: tuple[float, float] = _REGIONS, data: Array | None = None,
        sample_weight: Array | None = None, names: Sequence[str] = ("x", "y"),
        bins: ArrayLike = "auto",
    ) -> None:  # fmt: skip
        self.x, self.y, self.density, self.band = x, y, density, band
        self.level, self.levels, self.names, self.bins = level, levels, list(names), bins
        self.data, self.sample_weight = data, sample_weight

    @classmethod
    def from_estimator(
        cls, estimator: Estimator, X: MatrixLike | None = None, *, column: int | str | None = None,
        level: float = 0.9, levels: tuple[float, float] = _REGIONS, n_points: int | None = None,
        sample_weight: ArrayLike | None = None, bins: ArrayLike = "auto",
        ax: AxesLike | None = None, **plot_options: Any,
    ) -> Self:  # fmt: skip
        """Draw the density of a fitted `GaussianMixturePMD`.

        Parameters
        ----------
        estimator : estimator
            The mixture, or a pipeline or the like around it. The density is that of the columns
            that the pipeline was given, if its steps only shift and scale them, and else that of
            the columns of the mixture.
        X : array-like of shape (n_samples, n_features), default=None
            Rows to draw, as the outermost estimator takes them.
        column : int or str, default=None
            Column, by its index or name, whose density to draw. By default it is drawn for all
            columns if there are one or two; with more columns one has to be given.
        level : float, default=0.9
            Probability of the band in one column, at each point. With ``strategy="conjugate"`` the
            band is too narrow if components overlap.
        levels : tuple of two float, default=(0.5, 0.9)
            Probabilities of the regions in two columns.
        n_points : int, default=None
            Number of points in each column; default 400 for one column and 120 for two.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the histogram.
        bins : int, str or array-like of shape (n_bins + 1,), default="auto"
            Bins of the histogram.
        <drawing>

        Raises
        ------
        ValueError
            If an option has a value that is not allowed, or X has different columns.
        TypeError
            If the innermost estimator is not a mixture.
        """
        matplotlib()
        check_level(level)
        mixture, rows = _mixture_and_rows(estimator, X)
        n_columns = mixture.n_features_in_
        if column is None and n_columns > 2:
            raise ValueError(f"column must be given: there are {n_columns} columns.")
        names = column_names(estimator)
        names = [f"column {j}" for j in range(n_columns)] if names is None else list(names)
        given = np.zeros(n_columns), np.ones(n_columns)
        shift, factor = scaling_of(estimator) or given
        if rows is not None:
            rows = shift + factor * rows
        options = {"level": level, "levels": check_levels(levels), "bins": bins}
        if rows is not None and sample_weight is not None:
            options["sample_weight"] = checked_weights(sample_weight, rows)
        if column is None and n_columns == 2:
            n = check_count("n_points", 120 if n_points is None else n_points, 2)
            found = _plane(mixture, rows, n, shift, factor)
            display = cls(**found, data=rows, names=names, **options)
        else:
            if isinstance(column, str) and column in names:
                j = names.index(column)
            elif isinstance(column, str):
                raise ValueError(f"column is {column!r}, which is none of {names}.")
            else:
                j = check_count("column", 0 if column is None else column, -n_columns)
            n = check_count("n_points", 400 if n_points is None else n_points, 2)
            weights, means, stds = marginal_of(mixture.posterior_, j)
            own = weights, shift[j] + factor[j] * means, factor[j] * stds
            data = None if rows is None else rows[:, j]
            found = _line(own, mixture.posterior_, data, n, level)
            display = cls(**found, data=data, names=[names[j]], **options)
        return display.plot(ax=ax, **plot_options)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        line_kw: dict[str, Any] | None = None,
        band_kw: dict[str, Any] | None = None,
        data_kw: dict[str, Any] | None = None,
        contour_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        <ax>
        line_kw, band_kw, contour_kw : dict, default=None
            Keywords of the mean (`Axes.plot`), the band (`Axes.fill_between`) and the outlines
            (`Axes.contour`).
        data_kw : dict, default=None
            Keywords of the histogram (`Axes.stairs`) or of the points (`Axes.plot`).
        """
        self._one_axes(ax)
        self.line_ = self.band_ = self.histogram_ = self.contours_ = self.points_ = None
        if self.y is None:
            self._draw_column(line_kw, band_kw or {}, data_kw or {})
        else:
            self._draw_plane(contour_kw, data_kw)
        names = short_names(self.names)
        self.ax_.set_xlabel(names[0])
        self.ax_.set_ylabel("density" if self.y is None else names[1])
        return self

    def _draw_column(self, line_kw, band_kw, data_kw):
        if self.data is not None and len(self.data):
            values, edges = self._histogram()
            look = {"facecolor": "0.9", "edgecolor": GREY, "label": "data", **data_kw}
            self._draw_bins(values, edges, look)
        look = {"color": DARK, "linewidth": 0.0, "label": f"{percent(self.level)} of particles"}
        look |= {"alpha": 0.65, **band_kw}  # The histogram is seen behind it.
        self.band_ = self.ax_.fill_between(self.x, *self.band.T, **look)
        self.line_ = self._draw_line(
            self.x, self.density, line_kw, color=BLUE, linewidth=1.8,
            label="posterior mean",
        )  # fmt: skip
        self.ax_.set_ylim(bottom=0.0)
        self.ax_.margins(x=0.0)
        self._put_legend()

    def _histogram(self):
        bins = self.bins
        if isinstance(bins, str):  # NumPy chooses bins for rows without weights only.
            bins = np.histogram_bin_edges(self.data, bins)
        return np.histogram(self.data, bins, weights=self.sample_weight, density=True)

    def _draw_plane(self, contour_kw, data_kw):
        areas = np.outer(np.gradient(self.x), np.gradient(self.y))
        cuts = thresholds(self.density, areas, self.levels)
        grid = np.meshgrid(self.x, self.y, indexing="ij")
        handles = region_patches(f"{percent(level)} of new rows" for level in self.levels)
        if self.data is not None and len(self.data):
            look = {"markersize": 2.5, "label": "data"}
            self.points_ = self._draw_data(*self.data.T, data_kw, **look)
            handles.append(self.points_)
        self.contours_ = self._draw_regions(grid, self.density, cuts, [0.9, 1.5], contour_kw)
        self._put_legend(handles)


def _mixture_and_rows(estimator, X):
    """The fitted mixture, and rows as it sees them, (n, p), or None."""
    mixture = inside(estimator)
    needed = "posterior_", "score_samples", "component_interval"
    if not all(hasattr(mixture, name) for name in needed):
        raise TypeError(
            f"{type(mixture).__name__} is no mixture: give a fitted GaussianMixturePMD, or a "
            "pipeline around one."
        )
    if X is None:
        return mixture, None
    rows = dense("X", innermost(estimator, X)[1])
    if rows.ndim != 2 or rows.shape[1] != mixture.n_features_in_:
        raise ValueError(
            f"X must have {mixture.n_features_in_} columns, as the rows that were fitted, got "
            f"shape {rows.shape}."
        )
    return mixture, rows


def _line(mixtures, posterior, data, n, level):
    """Mean density and band along one column."""
    x = _places(*reach(mixtures, posterior.weights), data, n)
    weights, means, stds = (one.T for one in mixtures)
    table = NormalMixture(means, stds, weights).pdf(np.repeat(x[:, None], means.shape[1], axis=1)).T
    return {
        "x": x,
        "density": posterior.weights @ table,
        "band": Posterior(table, posterior.log_weights).interval(level),
    }


def _plane(mixture, rows, n, shift, factor):
    """Predictive density on a grid of two columns, at ``shift + factor`` times the mixture's."""
    posterior, axes = mixture.posterior_, []
    for j in range(2):
        data = None if rows is None else rows[:, j]
        ends = np.array(reach(marginal_of(posterior, j), posterior.weights))
        axes.append(_places(*(shift[j] + factor[j] * ends), data, n))
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    points = named((points - shift) / factor, getattr(mixture, "feature_names_in_", None))
    density = np.exp(mixture.score_samples(points)).reshape(n, n) / factor.prod()
    return {"x": axes[0], "y": axes[1], "density": density}


def _places(low, high, data, n):
    """Even places over the components and the data."""
    if data is not None and len(data):
        low, high = min(low, data.min()), max(high, data.max())
    return np.linspace(low, high, n)


def marginal_of(posterior, column):
    """Weights, means and standard deviations (m, K) of the particles' mixtures in one column."""
    places = getattr(posterior, "variables", None) or {}
    if not {"weights", "means", "stds"} <= set(places):
        raise TypeError(
            "the posterior must be that of a GaussianMixturePMD, with weights, means and stds."
        )
    n_columns = places["means"].columns.shape[1]
    if not -n_columns <= column < n_columns:
        raise ValueError(f"column must be one of {n_columns} columns, got {column!r}.")
    particles = posterior.particles
    return (
        particles[:, places["weights"].columns],
        particles[:, places["means"].columns[:, column]],
        particles[:, places["stds"].columns[:, column]],
    )


def reach(mixtures, particle_weights):
    """Ends of a grid that contains the components that matter."""
    weights, means, stds = mixtures
    matters = weights * particle_weights[:, None] > 1e-4 * particle_weights.max()
    low, high = means - _FAR * stds, means + _FAR * stds
    return np.quantile(low[matters], 0.02), np.quantile(high[matters], 0.98)
