"""Forest plot of a posterior: a point and two intervals for each coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from skpmd._base.utils import check_count
from skpmd._typing import Array, AxesLike, GaussianPosterior
from skpmd.plot._common import (
    BLUE,
    GREY,
    KINDS,
    PosteriorDisplay,
    check_levels,
    check_option,
    check_posterior,
    coordinates,
    draw_rows,
    log_axis,
    matplotlib,
    one_axes,
    percent,
    sentence_of_hidden,
    short_names,
    with_defaults,
    wrapped,
)
from skpmd.plot._tables import scaling_of
from skpmd.posterior import Posterior
from skpmd.wrappers import inside

_ROW, _FRAME = 0.26, 1.3  # Inches of a figure for each row, and for what is around them.
_MAX_EXPONENT = 300.0  # With margins powers of e beyond it are no numbers to matplotlib.
_SORTS = None, "center", "magnitude", "distance"


class PosteriorIntervalDisplay(PosteriorDisplay):
    """Points and intervals of a posterior's coordinates, one row for each (forest plot).

    A point is the posterior mean or median. The thick line is the inner central interval, and the
    thin line the outer one. Use `from_estimator` or `from_posterior`; what they compute is in
    attributes.

    Parameters
    ----------
    names : sequence of str of length k
        Names of the coordinates shown, from the top.
    center : ndarray of shape (k,)
        Points, in the units of each coordinate.
    inner, outer : ndarray of shape (k, 2)
        Lower and upper ends of the intervals.
    levels : tuple of two float, default=(0.5, 0.9)
        Posterior probabilities of the intervals.
    statistic : {"mean", "median"}, default="mean"
        Statistic that the points show.
    n_coordinates : int, default=None
        Number of coordinates that were selected, of which k are shown; default k.
    quantity : tuple of (str, str), default=None
        What the coordinates are, and what e to their power is, for the label of the axis.

    Attributes
    ----------
    names, center, inner, outer, levels, statistic, n_coordinates, quantity
        As given.
    <figure>
    points_ : matplotlib Line2D
        Points of the statistic.
    inner_lines_, outer_lines_ : matplotlib LineCollection
        Intervals.
    null_line_ : matplotlib Line2D or None
        Line at ``null_value``; None if it is too far from the intervals to be drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.plot import PosteriorIntervalDisplay
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
    >>> model = model.fit(X, y)
    >>> display = PosteriorIntervalDisplay.from_estimator(model, sort="distance", max_rows=10)
    >>> display.names[0], display.outer.shape
    ('worst texture', (10, 2))
    """

    def __init__(
        self, *, names: Sequence[str], center: Array, inner: Array, outer: Array,
        levels: tuple[float, float] = (0.5, 0.9), statistic: Literal["mean", "median"] = "mean",
        n_coordinates: int | None = None, quantity: tuple[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.names = list(names)
        self.center, self.inner, self.outer = center, inner, outer
        self.levels, self.statistic = levels, statistic
        self.n_coordinates = len(self.names) if n_coordinates is None else n_coordinates
        self.quantity = quantity

    @staticmethod
    def _known_of(estimator):
        """What coefficients of a linear model are, and e to their power."""
        found = inside(estimator)
        if not hasattr(found, "coef_"):
            return {}
        scaling = scaling_of(estimator)
        column = "transformed column" if scaling is None else "scaled column"
        column = "column" if scaling is not None and (scaling[1] == 1.0).all() else column
        return {"quantity": tuple(f"{one} per unit of the {column}" for one in _kinds(found))}

    @classmethod
    def from_posterior(
        cls, posterior: Posterior | GaussianPosterior, *, names: str | Sequence[str] | None = None,
        sort: Literal["center", "magnitude", "distance"] | None = None, max_rows: int = 40,
        statistic: Literal["mean", "median"] = "mean", levels: tuple[float, float] = (0.5, 0.9),
        quantity: tuple[str, str] | None = None, ax: AxesLike | None = None, **plot_options: Any,
    ) -> Self:  # fmt: skip
        """Draw the intervals of a posterior.

        Parameters
        ----------
        posterior : Posterior or GaussianPosterior
            Posterior to draw.
        names : str or sequence of str, default=None
            Names of the coordinates to draw, in this order; by default all, and of linear models
            with ``ratios=True`` the coefficients.
        sort : {None, "center", "magnitude", "distance"}, default=None
            Sort with the largest first, by the points, by their absolute values, or by the absolute
            posterior means divided by posterior standard deviations. None does not change the
            order.
        max_rows : int, default=40
            Largest number of coordinates drawn; the title says how many are not shown.
        statistic : {"mean", "median"}, default="mean"
            Statistic that the points show.
        levels : tuple of two float, default=(0.5, 0.9)
            Posterior probabilities of the thick and of the thin interval.
        quantity : tuple of (str, str), default=None
            What the coordinates are, and what e to their power is, for the label of the axis, such
            as ``("log odds of yes", "odds ratio of yes")``. `from_estimator` takes it from the
            link of a linear model.
        <drawing>

        Raises
        ------
        ValueError
            If an option has a value that is not allowed, or a name is not that of a coordinate.
        TypeError
            If the posterior has no named coordinates.
        """
        matplotlib()
        check_posterior(posterior)
        check_option("sort", sort, _SORTS), check_option("statistic", statistic, ("mean", "median"))
        levels, max_rows = check_levels(levels), check_count("max_rows", max_rows)
        if names is None and plot_options.get("ratios"):
            names = _coefficients(posterior)
        places = coordinates(posterior, names)
        center = posterior.mean() if statistic == "mean" else posterior.quantile(0.5)
        center = np.asarray(center)
        shown = places[_order(posterior, center, places, sort)][:max_rows]
        display = cls(
            names=[posterior.names[j] for j in shown],
            center=center[shown],
            inner=posterior.interval(levels[0])[shown],
            outer=posterior.interval(levels[1])[shown],
            levels=levels,
            statistic=statistic,
            n_coordinates=len(places),
            quantity=quantity,
        )
        return display.plot(ax=ax, **plot_options)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        ratios: bool = False,
        null_value: float | None = 0.0,
        color: str | tuple[float, ...] = BLUE,
        point_kw: dict[str, Any] | None = None,
        line_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        <ax>
        ratios : bool, default=False
            Draw e to the power of all values, on a logarithmic axis: for one more unit of the
            column, coefficients of a logit link are then odds ratios, and those of a log link rate
            ratios. Ends of intervals are those of the ratio, and points e to the power of the
            statistic.
        null_value : float or None, default=0.0
            Coordinate at a dashed line, which is not drawn if it is too far from the intervals; 0
            is a ratio of 1.
        color : matplotlib color, default="#0072B2"
            Colour of points and lines.
        point_kw, line_kw : dict, default=None
            Keywords of the points (`Axes.plot`) and of both kinds of lines (`Axes.hlines`).
        """
        n, longest = len(self.names), max(map(len, short_names(self.names)))
        self.ax_, self.figure_ = one_axes(ax, _ROW * max(n, 3) + _FRAME, longest)
        drawn = _ratio if ratios else np.asarray
        self.null_line_ = self._draw_null(null_value, drawn)
        intervals = (drawn(self.outer), 1.2), (drawn(self.inner), 3.6)
        self.points_, (self.outer_lines_, self.inner_lines_) = draw_rows(
            self.ax_,
            self.names,
            drawn(self.center),
            intervals,
            with_defaults({"color": color, "markersize": 6, "zorder": 3}, point_kw),
            {"color": color, **(line_kw or {})},
            10.0,
        )
        inner, outer = (percent(level) for level in self.levels)
        what, of = (
            f"posterior {self.statistic}",
            ("", "") if self.quantity is None else self.quantity,
        )
        if ratios:
            what = f"exp({what})"
        lines = [wrapped(of[ratios], 60), f"{what}, {inner} and {outer} intervals"]
        self.ax_.set_xlabel("\n".join(line for line in lines if line))
        if ratios:
            log_axis(self.ax_)
        title = sentence_of_hidden(n, self.n_coordinates, "coordinates")
        if title:
            self.ax_.set_title(title, fontsize="medium")
        return self

    def _draw_null(self, value, drawn):
        """The line of a null value, or None where it would press the intervals together."""
        if value is None:
            return None
        low, high = self.outer.min(), self.outer.max()
        if not low - (high - low) <= value <= high + (high - low):
            return None
        return self.ax_.axvline(
            float(drawn(value)), color=GREY, linewidth=1.0, linestyle="--", zorder=0
        )


def _kinds(model):
    """What coefficients of a linear model are, and e to their power."""
    if hasattr(model, "cutpoints_"):
        return "log odds of higher classes", "odds ratio of higher classes"
    if hasattr(model, "classes_"):
        if len(model.classes_) > 2:
            return "coefficient", "exp(coefficient)"
        (of,) = short_names(model.classes_[1:])
        return f"log odds of {of}", f"odds ratio of {of}"
    if getattr(model, "exposure", None) is not None:
        return "log of the rate", "rate ratio"
    return KINDS.get(model.link_, (f"linear predictor ({model.link_})", "ratio"))


def _coefficients(posterior):
    """Names of a linear model's coefficients, without its intercepts; None of other posteriors."""
    variables = getattr(posterior, "variables", None) or {}
    if "coef" not in variables:
        return None
    return [posterior.names[j] for j in np.sort(variables["coef"].columns, axis=None)] or None


def _ratio(values):
    return np.exp(np.clip(values, -_MAX_EXPONENT, _MAX_EXPONENT))


def _order(posterior, center, places, sort):
    """Order of the chosen coordinates, places among them."""
    if sort is None:
        return np.arange(len(places))
    if sort == "distance":
        std = np.asarray(posterior.std())
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.nan_to_num(np.abs(posterior.mean()) / std, posinf=np.inf)
    else:
        values = np.abs(center) if sort == "magnitude" else center
    return np.argsort(-values[places], kind="stable")
