"""Forest plot of effects: a point and two intervals for each estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from skpmd._base.utils import check_count
from skpmd._typing import Array, AxesLike
from skpmd.effects import Effects
from skpmd.plot._common import BLUE, Display, check_levels, matplotlib


class EffectsDisplay(Display):
    """Effects of `skpmd.effects` with intervals, in their order from the top (forest plot).

    A point is the posterior mean. The thick line is the inner central interval, and the thin line
    the outer one. Use `from_effects`; what it computes is in attributes.

    Parameters
    ----------
    names : sequence of str of length k
        Names of the estimates shown, from the top.
    center : ndarray of shape (k,)
        Posterior means.
    inner, outer : ndarray of shape (k, 2)
        Lower and upper ends of the intervals.
    levels : tuple of two float, default=(0.5, 0.9)
        Posterior probabilities of the intervals.
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
    <figure>
    points_ : matplotlib Line2D
        Posterior means.
    inner_lines_, outer_lines_ : matplotlib LineCollection
        Intervals.
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

    def __init__(
        self, *, names: Sequence[str], center: Array, inner: Array, outer: Array,
        levels: tuple[float, float] = (0.5, 0.9), quantity: str = "effect", null: float = 0.0,
        n_effects: int | None = None,
    ) -> None:  # fmt: skip
        self.names = list(names)
        self.center, self.inner, self.outer = center, inner, outer
        self.levels, self.quantity, self.null = levels, quantity, null
        self.n_effects = len(self.names) if n_effects is None else n_effects

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
        levels : tuple of two float, default=(0.5, 0.9)
            Posterior probabilities of the thick and of the thin interval.
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
        display = cls(
            names=effects.names[: len(some)],
            center=effects.mean[some],
            inner=effects.interval(levels[0])[some],
            outer=effects.interval(levels[1])[some],
            levels=levels,
            quantity=effects.quantity,
            null=effects.null,
            n_effects=n,
        )
        return display.plot(ax=ax, **plot_options)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        color: str | tuple[float, ...] = BLUE,
        point_kw: dict[str, Any] | None = None,
        line_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        <ax>
        color : matplotlib color, default="#0072B2"
            Colour of points and lines.
        point_kw, line_kw : dict, default=None
            Keywords of the points (`Axes.plot`) and of both kinds of lines (`Axes.hlines`).
        """
        self._draw_forest(ax, (self.n_effects, "estimates"), color, point_kw, line_kw)
        return self
