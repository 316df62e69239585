"""Caterpillar plot of the effects of groups: a point and two intervals for each, sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from skpmd._base.utils import check_count
from skpmd._typing import Array, AxesLike, Estimator
from skpmd.plot._common import (
    BLUE,
    KINDS,
    Display,
    check_levels,
    matplotlib,
)
from skpmd.wrappers import inside


class GroupEffectsDisplay(Display):
    """Effects of groups with intervals, the largest on top (caterpillar plot).

    A point is the posterior mean of a group's effect, less that of the population, which is at the
    dashed line. The thick line is the inner central interval, and the thin line the outer one. Use
    `from_estimator`; what it computes is in attributes.

    Parameters
    ----------
    names : sequence of str of length k
        Labels of the groups shown, from the top.
    center : ndarray of shape (k,)
        Posterior means, in units of the linear predictor.
    inner, outer : ndarray of shape (k, 2)
        Lower and upper ends of the intervals.
    levels : tuple of two float, default=(0.5, 0.9)
        Posterior probabilities of the intervals.
    quantity : str, default="effect"
        What the points are means of, for the label of the axis.
    n_groups : int, default=None
        Number of groups, of which k are shown; default k.

    Attributes
    ----------
    names, center, inner, outer, levels, quantity, n_groups
        As given.
    <figure>
    points_ : matplotlib Line2D
        Posterior means.
    inner_lines_, outer_lines_ : matplotlib LineCollection
        Intervals.
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

    def __init__(
        self, *, names: Sequence[str], center: Array, inner: Array, outer: Array,
        levels: tuple[float, float] = (0.5, 0.9), quantity: str = "effect",
        n_groups: int | None = None,
    ) -> None:  # fmt: skip
        self.names, self.center, self.inner, self.outer = list(names), center, inner, outer
        self.levels, self.quantity = levels, quantity
        self.n_groups = len(self.names) if n_groups is None else n_groups

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
        levels : tuple of two float, default=(0.5, 0.9)
            Posterior probabilities of the thick and of the thin interval.
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
        display = cls(
            names=[str(effects.labels[i]) for i in order],
            center=effects.mean[order, j],
            inner=effects.interval(levels[0])[order, j],
            outer=effects.interval(levels[1])[order, j],
            levels=levels,
            quantity=f"{effects.names[j]} of {effects.group}, {unit}",
            n_groups=G,
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
        self._draw_forest(ax, (self.n_groups, "groups"), color, point_kw, line_kw)
        return self
