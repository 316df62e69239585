"""Forest plots: a point and two intervals for each coordinate, effect or group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from skpmd._base.utils import check_count
from skpmd._typing import Array, AxesLike, Estimator, GaussianPosterior
from skpmd.effects import Effects
from skpmd.plot._common import (
    BLUE,
    GREY,
    Display,
    PosteriorDisplay,
    check_levels,
    check_option,
    check_posterior,
    coordinates,
    log_axis,
    matplotlib,
    percent,
    sentence_of_hidden,
    short_names,
    wrapped,
)
from skpmd.plot._tables import KINDS, coefficients_of, meaning_of_coefficients
from skpmd.posterior import Posterior
from skpmd.wrappers import inside

# Inches of a figure for each row, of which there are so many at least, and around them.
_ROW, _FEWEST, _FRAME = 0.2, 4, 1.3
_MAX_EXPONENT = 300.0  # With margins powers of e beyond it are no numbers to matplotlib.
_SORTS = None, "center", "magnitude", "distance"


@dataclass(kw_only=True, eq=False, repr=False)
class ForestDisplay(Display):
    """Base of forest plots: what is drawn, and how.

    ``_counted`` are the parameter that says how many points there are, shown or not, and what they
    are called.
    """

    names: Sequence[str]
    center: Array
    inner: Array
    outer: Array
    levels: tuple[float, float] = (0.5, 0.9)

    def __post_init__(self):
        self.names, (count, _) = list(self.names), self._counted
        if getattr(self, count) is None:
            setattr(self, count, len(self.names))

    def plot(
        self, ax: AxesLike | None = None, *, color: str | tuple[float, ...] = BLUE,
        point_kw: dict[str, Any] | None = None, line_kw: dict[str, Any] | None = None,
    ) -> Self:  # fmt: skip
        """Draw the display.

        Parameters
        ----------
        <ax>
        <points>
        """
        null = getattr(self, "null", 0.0)
        self._draw(ax, color, point_kw, line_kw, null=null)
        if null == 1.0 and self.outer.min() > 0.0:  # Ratios.
            log_axis(self.ax_)
        return self._labelled(f"{self.quantity}\nposterior mean")

    def _draw(self, ax, color, point_kw, line_kw, *, null, drawn=np.asarray):
        """Draw points and intervals, and a dashed line at ``null`` unless that is None."""
        longest, n = max(map(len, short_names(self.names))), max(len(self.names), _FEWEST)
        self._one_axes(ax, _ROW * n + _FRAME, longest)
        line = {"color": GREY, "linewidth": 1.0, "linestyle": "--", "zorder": 0}
        self.null_line_ = None if null is None else self.ax_.axvline(null, **line)
        intervals = (drawn(self.outer), 1.0), (drawn(self.inner), 2.8)
        self.points_, (self.outer_lines_, self.inner_lines_) = self._draw_rows(
            self.names, drawn(self.center), intervals, color, point_kw, line_kw
        )

    def _labelled(self, label):
        """The display with a label of its axis, and how many are not shown for a title."""
        inner, outer = (percent(level) for level in self.levels)
        self.ax_.set_xlabel(f"{label}, {inner} and {outer} intervals")
        count, what = self._counted
        if title := sentence_of_hidden(len(self.names), getattr(self, count), what):
            self.ax_.set_title(title, fontsize="medium")
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class EffectsDisplay(ForestDisplay):
    """Effects of `skpmd.effects` with intervals, in their order from the top (forest plot).

    A point is the posterior mean. The thick line is the inner central interval, and the thin line
    the outer one. Use `from_effects`; what it computes is in attributes.

    Parameters
    ----------
    <forest>
    quantity : str, default="effect"
        What the points are means of, for the label of the axis.
    null : float, default=0.0
        No effect, at a dashed line. Where it is 1, as of ratios, the axis is logarithmic.
    n_effects : int, default=None
        Number of estimates, of which k are shown; default k.

    Attributes
    ----------
    names, center, inner, outer, levels, quantity, null, n_effects
        As given.
    <marks>
    null_line_ : matplotlib Line2D
        Line at no effect.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skpmd import BayesianGLMRegressorPMD
    >>> from skpmd.effects import avg_comparisons
    >>> from skpmd.plot import EffectsDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = BayesianGLMRegressorPMD(random_state=0).fit(X, y)
    >>> display = EffectsDisplay.from_effects(avg_comparisons(model, X, ["bmi", "bp"]))
    >>> display.names, display.outer.shape
    (['bmi, +1', 'bp, +1'], (2, 2))
    """

    quantity: str = "effect"
    null: float = 0.0
    n_effects: int | None = None

    _counted = "n_effects", "estimates"

    @classmethod
    def from_effects(
        cls, effects: Effects, *, max_rows: int = 60, levels: tuple[float, float] = (0.5, 0.9),
        ax: AxesLike | None = None, **plot_options: Any,
    ) -> Self:  # fmt: skip
        """Draw estimates.

        Parameters
        ----------
        effects : Effects
            What a function of `skpmd.effects` has returned.
        max_rows : int, default=60
            Largest number of estimates drawn; the title says how many are not shown.
        <levels>
        <drawing>

        Raises
        ------
        TypeError
            If these are no effects.
        ValueError
            If an option has a value that is not allowed.
        """
        matplotlib()
        if not isinstance(effects, Effects):
            raise TypeError(
                f"effects must be those of skpmd.effects, got {type(effects).__name__}."
            )
        levels, max_rows = check_levels(levels), check_count("max_rows", max_rows)
        n = effects.draws.shape[1]
        some = np.arange(min(n, max_rows))
        return cls(
            names=effects.names[: len(some)],
            center=effects.mean[some],
            inner=effects.interval(levels[0])[some],
            outer=effects.interval(levels[1])[some],
            levels=levels,
            quantity=effects.quantity,
            null=effects.null,
            n_effects=n,
        ).plot(ax=ax, **plot_options)


@dataclass(kw_only=True, eq=False, repr=False)
class GroupEffectsDisplay(ForestDisplay):
    """Effects of groups with intervals, the largest on top (caterpillar plot).

    A point is the posterior mean of a group's effect, less that of the population, which is at the
    dashed line. The thick line is the inner central interval, and the thin line the outer one. Use
    `from_estimator`; what it computes is in attributes.

    Parameters
    ----------
    <forest>
    quantity : str, default="effect"
        What the points are means of, for the label of the axis.
    n_groups : int, default=None
        Number of groups, of which k are shown; default k.

    Attributes
    ----------
    names, center, inner, outer, levels, quantity, n_groups
        As given.
    <marks>
    null_line_ : matplotlib Line2D
        Line of the population.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import BayesianGLMRegressorPMD
    >>> from skpmd.plot import GroupEffectsDisplay
    >>> rng = np.random.default_rng(0)
    >>> school, hours = np.repeat(np.arange(12), 20), rng.uniform(0.0, 10.0, 240)
    >>> y = 0.5 * hours + rng.normal(size=12)[school] + rng.normal(size=240)
    >>> model = BayesianGLMRegressorPMD(groups=[1], random_state=0)
    >>> model = model.fit(np.column_stack([hours, school]), y)
    >>> display = GroupEffectsDisplay.from_estimator(model)
    >>> display.outer.shape, bool(display.center[0] == display.center.max())
    ((12, 2), True)
    """

    quantity: str = "effect"
    n_groups: int | None = None

    _counted = "n_groups", "groups"

    @classmethod
    def from_estimator(
        cls, estimator: Estimator, *, effect: int | str = 0, max_rows: int = 60,
        levels: tuple[float, float] = (0.5, 0.9), ax: AxesLike | None = None, **plot_options: Any,
    ) -> Self:  # fmt: skip
        """Draw ``group_effects_`` of a fitted estimator, sorted by posterior means.

        Parameters
        ----------
        estimator : estimator
            Estimator fitted with ``groups``, or a pipeline, a search and the like around one.
        effect : int or str, default=0
            The effect, by its name or place in ``group_effects_.names``: 0 is the intercept. Of an
            estimator with several factors it is the name of one of these.
        max_rows : int, default=60
            Largest number of groups drawn: of more, those with the largest and the smallest means,
            half of each. The title says how many are not shown.
        <levels>
        <drawing>

        Raises
        ------
        ValueError
            If an option has a value that is not allowed, or there is no such effect.
        TypeError
            If the innermost estimator has no effects of groups.
        """
        matplotlib()
        found = inside(estimator)
        effects = getattr(found, "group_effects_", None)
        if effects is None:
            raise TypeError(
                f"{type(found).__name__} has no group_effects_ to draw: fit it with groups, such "
                "as groups=['school']."
            )
        levels, max_rows = check_levels(levels), check_count("max_rows", max_rows)
        if isinstance(effects, dict):
            if effect not in effects:
                raise ValueError(f"effect must be a factor among {list(effects)}, got {effect!r}.")
            effects, effect = effects[effect], 0
        j = effects.place_of(effect)
        order, G = np.argsort(-effects.mean[:, j], kind="stable"), len(effects.labels)
        if G > max_rows:
            order = np.delete(order, np.arange((max_rows + 1) // 2, G - max_rows // 2))
        unit = KINDS.get(effects.link, (f"linear predictor ({effects.link})",))[0]
        unit += f" per unit of {effects.names[j]}" * (j > 0 and effects.link != "softmax")
        return cls(
            names=[str(effects.labels[i]) for i in order],
            center=effects.mean[order, j],
            inner=effects.interval(levels[0])[order, j],
            outer=effects.interval(levels[1])[order, j],
            levels=levels,
            quantity=f"{effects.names[j]} of {effects.group}, {unit}",
            n_groups=G,
        ).plot(ax=ax, **plot_options)


@dataclass(kw_only=True, eq=False, repr=False)
class PosteriorIntervalDisplay(ForestDisplay, PosteriorDisplay):
    """Points and intervals of a posterior's coordinates, one row for each (forest plot).

    A point is the posterior mean or median. The thick line is the inner central interval, and the
    thin line the outer one. Use `from_estimator` or `from_posterior`; what they compute is in
    attributes.

    Parameters
    ----------
    <forest>
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
    <marks>
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

    statistic: Literal["mean", "median"] = "mean"
    n_coordinates: int | None = None
    quantity: tuple[str, str] | None = None

    _counted = "n_coordinates", "coordinates"

    @staticmethod
    def _known_of(estimator):
        return {"quantity": meaning_of_coefficients(estimator)}

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
        <levels>
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
            names = coefficients_of(posterior)
        places = coordinates(posterior, names)
        center = posterior.mean() if statistic == "mean" else posterior.quantile(0.5)
        center = np.asarray(center)
        shown = places[_order(posterior, center, places, sort)][:max_rows]
        return cls(
            names=[posterior.names[j] for j in shown],
            center=center[shown],
            inner=posterior.interval(levels[0])[shown],
            outer=posterior.interval(levels[1])[shown],
            levels=levels,
            statistic=statistic,
            n_coordinates=len(places),
            quantity=quantity,
        ).plot(ax=ax, **plot_options)

    def plot(
        self, ax: AxesLike | None = None, *, ratios: bool = False,
        null_value: float | None = 0.0, color: str | tuple[float, ...] = BLUE,
        point_kw: dict[str, Any] | None = None, line_kw: dict[str, Any] | None = None,
    ) -> Self:  # fmt: skip
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
        <points>
        """
        drawn, null = _ratio if ratios else np.asarray, null_value
        if null is not None:  # Far off it would press the intervals together.
            low, high = self.outer.min(), self.outer.max()
            is_near = low - (high - low) <= null <= high + (high - low)
            null = float(drawn(null)) if is_near else None
        self._draw(ax, color, point_kw, line_kw, null=null, drawn=drawn)
        if ratios:
            log_axis(self.ax_)
        of = "" if self.quantity is None else wrapped(self.quantity[ratios], 60)
        what = f"posterior {self.statistic}"
        return self._labelled(f"{of}\n" * bool(of) + (f"exp({what})" if ratios else what))


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
