"""Predictive distribution of a regressor along one column: mean, bands and data."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.compose import TransformedTargetRegressor

from skpmd._base.utils import as_floats, check_count
from skpmd._typing import Array, ArrayLike, AxesLike, Estimator, MatrixLike
from skpmd.plot._common import BLUE, Display, check_levels, matplotlib, percent, short_names
from skpmd.plot._tables import along_column, as_column, target_name_of
from skpmd.predictive import PredictiveDistribution
from skpmd.wrappers import innermost, predict_distribution, predict_interval


class PredictiveBandDisplay(Display):
    """Mean and two bands of a predictive distribution along one column, with the data.

    At each point a band contains a new observation with the given probability. Use
    `from_estimator`, or `from_predictions` for distributions computed elsewhere.

    Parameters
    ----------
    x : ndarray of shape (g,)
        Points along the column, increasing.
    center : ndarray of shape (g,)
        Predictive means, in the units of y.
    inner, outer : ndarray of shape (g, 2)
        Lower and upper ends of the bands.
    levels : tuple of two float, default=(0.5, 0.9)
        Probabilities of the bands.
    data : tuple of two ndarray of shape (n,), default=None
        Values of the column and of y for rows that are drawn as points.
    name : str, default="x"
        Name of the column.
    center_name : str, default="mean"
        Name of the line in the middle.
    data_name : str, default="data"
        Name of the points.
    target_name : str, default="y"
        Name of the target.
    band_name : str, default="new y"
        What the bands are of.

    Attributes
    ----------
    x, center, inner, outer, levels, data, name, center_name, data_name, target_name, band_name
        As given.
    <figure>
    line_ : matplotlib Line2D
        Means.
    inner_band_, outer_band_ : matplotlib PolyCollection
        Bands.
    points_ : matplotlib Line2D or None
        Data.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import SparseGPRegressorPMD
    >>> from skpmd.plot import PredictiveBandDisplay
    >>> X = np.linspace(0.0, 3.0, 50)[:, None]
    >>> y = np.sin(2.0 * X[:, 0]) + 0.1 * np.cos(37.0 * X[:, 0])
    >>> gp = SparseGPRegressorPMD(n_particles=1, random_state=0).fit(X, y)
    >>> display = PredictiveBandDisplay.from_estimator(gp, X, y)
    >>> display.outer.shape, display.ax_.get_xlabel()
    ((200, 2), 'column 0')
    """

    def __init__(
        self, *, x: Array, center: Array, inner: Array, outer: Array,
        levels: tuple[float, float] = (0.5, 0.9), data: tuple[Array, Array] | None = None,
        name: str = "x", center_name: str = "mean", data_name: str = "data",
        target_name: str = "y", band_name: str = "new y",
    ) -> None:  # fmt: skip
        self.x, self.center, self.inner, self.outer = x, center, inner, outer
        self.levels, self.data, self.name = levels, data, name
        self.center_name, self.data_name = center_name, data_name
        self.target_name, self.band_name = target_name, band_name

    @classmethod
    def from_estimator(
        cls, estimator: Estimator, X: MatrixLike, y: ArrayLike | None = None, *,
        feature: int | str = 0, at: ArrayLike | None = None,
        levels: tuple[float, float] = (0.5, 0.9), n_points: int = 200, ax: AxesLike | None = None,
        **plot_options: Any,
    ) -> Self:  # fmt: skip
        """Draw what a fitted regressor predicts along one column of X.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with predictive distributions or intervals, or a pipeline, a search,
            a transformed target and the like around one. Of a `skpmd.ParticleMirrorDescent` without
            ``sample_targets`` the bands are those of the mean, and the legend says so.
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, as the outermost estimator takes them. Points go from the smallest value of the
            column to its largest, and further by a twentieth of this range at both ends.
        y : array-like of shape (n_samples,), default=None
            Targets of these rows, which are drawn as points. In the other columns these rows have
            other values than the band.
        feature : int or str, default=0
            The column, by its index or name.
        at : array-like of shape (n_features,), default=None
            Fixed values of the other columns; by default their medians, or the most frequent value
            of a column without numbers.
        levels : tuple of two float, default=(0.5, 0.9)
            Probabilities of the dark and of the light band.
        n_points : int, default=200
            Number of points.
        <drawing>

        Raises
        ------
        ValueError
            If an option has a value that is not allowed, there is no such column, or there are
            several targets.
        TypeError
            If the innermost estimator has no predictive distributions and no intervals.
        """
        matplotlib()
        levels, n_points = check_levels(levels), check_count("n_points", n_points, 2)
        table, x, values, name = along_column(X, feature, at, n_points)
        n_columns = table.shape[1]
        options = {
            "levels": levels,
            "name": name,
            "data": _data(values, y),
            "target_name": target_name_of(y),
            "data_name": "data" if n_columns == 1 else "data (other columns vary)",
        }
        inner, _ = innermost(estimator, None)
        by_intervals = hasattr(inner, "predict_interval") and not hasattr(inner, "predict_proba")
        if by_intervals or isinstance(inner, TransformedTargetRegressor):
            # There are intervals of the target, but no distribution with a mean.
            of_mean = hasattr(inner, "sample_targets") and not hasattr(inner, "sample_y")
            center = np.asarray(estimator.predict(table), dtype=np.float64)
            if center.size != len(x):
                raise ValueError(
                    f"the estimator predicts {center.shape[1:]} targets for each row, and a band "
                    "is of one: draw the others by from_predictions or by matplotlib."
                )
            display = cls(
                x=x,
                center=center.reshape(len(x)),
                inner=predict_interval(estimator, table, levels[0]).reshape(len(x), 2),
                outer=predict_interval(estimator, table, levels[1]).reshape(len(x), 2),
                center_name="prediction" if not by_intervals else "mean",
                band_name="the mean" if of_mean else "new y",
                **options,
            )
        else:
            display = cls._of(x, predict_distribution(estimator, table), options)
        return display.plot(ax=ax, **plot_options)

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        distribution: PredictiveDistribution,
        *,
        data: tuple[ArrayLike, ArrayLike] | None = None,
        levels: tuple[float, float] = (0.5, 0.9),
        name: str = "x",
        ax: AxesLike | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw predictive distributions at some points.

        Parameters
        ----------
        x : array-like of shape (g,)
            Points, in any order.
        distribution : NormalMixture or FamilyMixture of g rows
            Predictive distributions at these points.
        data : tuple of two array-like of shape (n,), default=None
            Values of x and of the target that are drawn as points.
        levels : tuple of two float, default=(0.5, 0.9)
            Probabilities of the dark and of the light band.
        name : str, default="x"
            Name of x.
        <drawing>

        Raises
        ------
        ValueError
            If an option has a value that is not allowed, or there is not one point for each
            distribution.
        TypeError
            If ``distribution`` is no predictive distribution.
        """
        matplotlib()
        if not isinstance(distribution, PredictiveDistribution):
            raise TypeError(
                f"distribution must be a predictive one, got {type(distribution).__name__}."
            )
        x, levels = as_floats("x", x), check_levels(levels)
        if x.shape != (len(distribution),):
            raise ValueError(
                f"x must have shape ({len(distribution)},), a place for each row of distribution, "
                f"got {x.shape}."
            )
        order = np.argsort(x, kind="stable")
        data = None if data is None else _data(*data)
        options = {"levels": levels, "name": name, "data": data}
        return cls._of(x[order], distribution[order], options).plot(ax=ax, **plot_options)

    @classmethod
    def _of(cls, x, distribution, options):
        inner, outer = (distribution.interval(level) for level in options["levels"])
        return cls(x=x, center=distribution.mean(), inner=inner, outer=outer, **options)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        line_kw: dict[str, Any] | None = None,
        band_kw: dict[str, Any] | None = None,
        point_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        <ax>
        line_kw, band_kw, point_kw : dict, default=None
            Keywords of the means (`Axes.plot`), of both bands (`Axes.fill_between`) and of the data
            (`Axes.plot`).
        """
        self._one_axes(ax)
        labels = [f"{percent(level)} of {self.band_name}" for level in self.levels]
        self.inner_band_, self.outer_band_ = self._draw_bands(
            self.inner.T, self.outer.T, labels, band_kw
        )
        self.line_ = self._draw_line(
            self.x, self.center, line_kw, color=BLUE, linewidth=1.8,
            label=self.center_name,
        )  # fmt: skip
        self.points_ = None
        if self.data is not None:
            look = {"markersize": 3.0, "label": self.data_name}
            self.points_ = self._draw_data(*self.data, point_kw, **look)
        xlabel, ylabel = short_names([self.name]) + short_names([self.target_name])
        self.ax_.set(xlabel=xlabel, ylabel=ylabel)
        self.ax_.margins(x=0.0)
        self._put_legend()
        return self


def _data(x, y):
    """Places and targets of rows, both numbers of shape (n,); None without targets."""
    if y is None:
        return None
    x, y = as_floats("x", as_column(x)), as_floats("y", as_column(y))
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"y must have shape {x.shape}, a target for each row, got {y.shape}.")
    return x, y
