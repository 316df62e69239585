"""What all displays share: docstrings, axes, the look of artists, short names and checks."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from textwrap import wrap
from typing import Any, Self

import numpy as np

from skpmd._base.utils import check_level, filled
from skpmd._export import library
from skpmd._typing import Estimator
from skpmd.wrappers import posterior_of

# Of the palette of Okabe and Ito (2008), which eyes without one kind of cone tell apart.
BLUE, VERMILION, BLACK, GREY = "#0072B2", "#D55E00", "#000000", "0.45"
# Two shades of blue on white, for regions that hold less and more.
DARK, LIGHT = "#66AAD1", "#CCE3F0"
_WIDTH = 6.4  # Of a figure, in inches, as matplotlib has it by default.
_LETTER = 0.08  # Inches of a letter.
_LENGTHS = 28, 40, 56  # Names have so many letters at most, or more where they would be equal.
_ELLIPSIS = "…"
_LETTERS = 9.0  # Names of rows have so many points at most.
_MANY = 2000  # So many points are one image in files of vectors.

# What the docstrings of all displays have in common, in the place of names in angle brackets.
_TEXTS = {
    "<forest>": """
        names : sequence of str of length k
            Names of what is shown, from the top.
        center : ndarray of shape (k,)
            Points.
        inner, outer : ndarray of shape (k, 2)
            Lower and upper ends of the intervals.
        levels : tuple of two float, default=(0.5, 0.9)
            Posterior probabilities of the intervals.
        """,
    "<marks>": """
        <figure>
        points_ : matplotlib Line2D
            Points.
        inner_lines_, outer_lines_ : matplotlib LineCollection
            Intervals.
        """,
    "<levels>": """
        levels : tuple of two float, default=(0.5, 0.9)
            Posterior probabilities of the thick and of the thin interval.
        """,
    "<points>": """
        color : matplotlib color, default="#0072B2"
            Colour of points and lines.
        point_kw, line_kw : dict, default=None
            Keywords of the points (`Axes.plot`) and of the lines (`Axes.hlines`).
        """,
    "<figure>": """
        ax_ : matplotlib Axes
            Axes that the plot is drawn in, the first of several.
        figure_ : matplotlib Figure
            Figure that holds the axes.
        """,
    "<drawing>": """
        <ax>
        **plot_options : dict
            Further arguments of `plot`.
        """,
    "<ax>": """
        ax : matplotlib Axes or array of them, default=None
            Axes to draw in. A single one is divided where there are several panels, and an array
            has one for each panel. By default those of a new figure.
        """,
}
_RETURNS = "Returns\n-------\n{}\n    {}\n\n"
_EXTRA = "\nImportError\n    If matplotlib is not installed."


class Display:
    """Base of all displays, which completes their docstrings and those of their methods.

    Each method hands out the display, and those that compute it need matplotlib. A ``from_...`` has
    a section "Raises", before which the one on what it returns is put. Where a posterior is enough
    to draw from, a display is a `PosteriorDisplay`.
    """

    def __init_subclass__(cls):
        """Put the texts that displays have in common into this one."""
        if cls.__doc__ is None:  # Of Python without docstrings.
            return
        cls.__doc__ = filled(cls.__doc__, _TEXTS)
        for name, method in vars(cls).items():
            function = getattr(method, "__func__", method)
            if name.startswith("from_"):
                returns = _RETURNS.format(cls.__name__, "The display, with its artists.")
                text = filled(function.__doc__, _TEXTS).replace(
                    "Raises\n---", f"{returns}Raises\n---"
                )
                function.__doc__ = text + _EXTRA
            elif name == "plot":
                returns = _RETURNS.format(cls.__name__, "Itself.")
                function.__doc__ = f"{filled(function.__doc__, _TEXTS)}\n\n{returns}"

    # ------------------------------------------------------------------ what is drawn in
    def _one_axes(self, ax, height=4.8, longest=0):
        """Axes to draw in and their figure: the given axes, or those of a new figure.

        A new figure is wider if the longest name at its side has more letters than usual.
        """
        if ax is None:
            width = _WIDTH + _LETTER * max(longest - _LENGTHS[0], 0)
            _, ax = matplotlib().subplots(figsize=(width, height), layout="constrained")
        elif not _is_axes(ax):
            raise TypeError(f"ax must be one matplotlib Axes, got {type(ax).__name__}.")
        open_frame(ax)
        self.ax_, self.figure_ = ax, ax.figure

    def _many_axes(self, ax, shape, size, spaces=(0.1, 0.1), **options):
        """An array of Axes of a shape, of which the first are ``ax_``, and their figure.

        If ``ax`` is None, the figure is new, with ``size`` in inches. A single Axes is divided, and
        several of the right number are used unchanged. Options are those of `Figure.subplots`.
        ``spaces`` are widths and heights between panels, relative to a panel, for figures without a
        layout engine that makes room for labels.
        """
        if ax is None:
            figure = matplotlib().figure(figsize=size, layout="constrained")
            axes = figure.subplots(*shape, squeeze=False, **options)
        elif _is_axes(ax):
            ax.set_axis_off()
            inner = _grid_inside(ax, shape, spaces, options)
            axes = inner.subplots(squeeze=False, **options)
        else:
            axes, n = np.asarray(ax, dtype=object), shape[0] * shape[1]
            if axes.size != n or not all(_is_axes(one) for one in axes.ravel()):
                raise ValueError(
                    f"ax must be one matplotlib Axes or {n} of them, for so many panels, got an "
                    f"array of shape {axes.shape}."
                )
            axes = axes.reshape(shape)
        self.axes_, self.ax_, self.figure_ = axes, axes[0, 0], axes[0, 0].figure

    def _put_title(self, text, is_ours):
        """A title above several panels: of the figure if that is ours, else above the first panel.

        Above the first panel it leaves a line for the title of this panel.
        """
        if text and is_ours:
            self.figure_.suptitle(text, fontsize="medium")
        elif text:
            below = "\n" if self.ax_.get_title() else ""
            self.ax_.set_title(text + below, loc="left", fontsize="medium")

    def _put_legend(self, handles=None):
        """A legend above the Axes, where it hides nothing, in as many columns as there is room for.

        It is on the right, because the power of ten of the vertical axis is on the left.
        """
        handles = handles or self.ax_.get_legend_handles_labels()[0]
        longest = max(len(str(one.get_label())) for one in handles)
        inches = self.ax_.get_window_extent().width / self.ax_.figure.dpi
        columns = int(np.clip(inches // (0.45 + 0.06 * longest), 1, len(handles)))
        self.legend_ = self.ax_.legend(
            handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns,
            fontsize="small", frameon=False, borderaxespad=0.2,
        )  # fmt: skip

    # ------------------------------------------------------------------ artists, in one panel
    def _draw_line(self, x, y, given, panel=None, **look):
        """A line of `Axes.plot`."""
        (line,) = (panel or self.ax_).plot(x, y, **with_defaults(look, given))
        return line

    def _draw_marks(self, x, y, given, panel=None, **look):
        """Marks with a white edge, and no line between them."""
        look = {"marker": "o", "markeredgecolor": "white", "linestyle": "none", **look}
        return self._draw_line(x, y, given, panel, **look)

    def _draw_data(self, x, y, given, **look):
        """Points of data, which are seen through one another where they are many."""
        n = len(x)
        return self._draw_line(
            x, y, given, color=BLACK, marker="o", linestyle="none", markeredgewidth=0.0,
            rasterized=n > _MANY, alpha=float(np.clip(300.0 / max(n, 1), 0.15, 0.7)), **look,
        )  # fmt: skip

    def _draw_bands(self, inner, outer, labels, given):
        """Bands with lower and upper ends (2, g): the inner one, and the outer one behind it."""
        found = []
        for ends, color, label in zip((outer, inner), (LIGHT, DARK), labels[::-1], strict=True):
            look = {"color": color, "label": label, "linewidth": 0.0, **(given or {})}
            found.append(self.ax_.fill_between(self.x, *ends, **look))
        return found[::-1]

    def _draw_bins(self, values, edges, look, panel=None):
        """A histogram as a filled outline of its bins."""
        look = {"fill": True, "linewidth": 0.8, **look}
        self.histogram_ = (panel or self.ax_).stairs(values, edges, **look)

    def _draw_regions(self, grid, density, cuts, widths, given, panel=None):
        """Regions above two densities, the lower one first, and outlines, which are returned."""
        panel, top = panel or self.ax_, np.nextafter(max(density.max(), cuts[-1]), np.inf)
        panel.contourf(*grid, density, levels=[*cuts, top], colors=[LIGHT, DARK])
        look = {"colors": BLUE, "linewidths": widths, "linestyles": ["--", "-"], **(given or {})}
        return panel.contour(*grid, density, levels=cuts, **look)

    def _draw_rows(self, names, center, intervals, color, point_kw, line_kw, panel=None):
        """A named row for each point, the first on top: the points, and the lines of each interval.

        ``intervals`` are pairs of ends (n, 2) and a width of lines, the outermost first.
        """
        panel, rows, look = panel or self.ax_, np.arange(len(center)), {"color": color}
        lines = [
            panel.hlines(rows, *ends.T, **{"linewidth": width, **look, **(line_kw or {})})
            for ends, width in intervals
        ]
        points = self._draw_marks(center, rows, point_kw, panel, **look, markersize=5, zorder=3)
        size = min(room_for(panel, len(rows) + 0.2), _LETTERS)
        panel.set_ylim(len(rows) - 0.4, -0.6)
        panel.set_yticks(rows, short_names(names), fontsize=size)
        return points, lines


class PosteriorDisplay(Display):
    """Base of displays of a posterior."""

    @classmethod
    def from_estimator(cls, estimator: Estimator, **options: Any) -> Self:
        """Draw ``posterior_`` of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Estimator with a posterior that `from_posterior` takes, or a pipeline, a search and the
            like around one. Coordinates are those of the innermost estimator, for example of scaled
            columns, with the names that transformers tell (`skpmd.wrappers.posterior_of`).
        **options : dict
            Arguments of `from_posterior`.

        Raises
        ------
        ValueError
            If an option has a value that is not allowed.
        TypeError
            If the innermost estimator has no such posterior.
        """
        matplotlib()
        posterior = posterior_of(estimator)
        return cls.from_posterior(posterior, **{**cls._known_of(estimator), **options})

    @staticmethod
    def _known_of(estimator):
        """Options of `from_posterior` that the estimator knows by itself."""
        return {}


# ------------------------------------------------------------------ matplotlib and its axes
def matplotlib(module="pyplot"):
    """A module of matplotlib; if it is not installed, the error names the extra."""
    return library(f"matplotlib.{module}", "plot")


def _is_axes(ax):
    return isinstance(ax, matplotlib("axes").Axes)


def _grid_inside(ax, shape, spaces, options):
    """A grid in place of one Axes. Ratios of heights go from the options into the grid."""
    look = {"height_ratios": options.pop("height_ratios", None)}
    if ax.figure.get_layout_engine() is None:
        look |= {"wspace": spaces[0], "hspace": spaces[1]}
    spec = ax.get_subplotspec()
    if spec is not None:
        return spec.subgridspec(*shape, **look)
    place = ax.get_position()
    look |= {"left": place.x0, "right": place.x1, "bottom": place.y0, "top": place.y1}
    return matplotlib("gridspec").GridSpec(*shape, figure=ax.figure, **look)


def plain_numbers(axis):
    """Whole numbers beside the ticks of an axis.

    A common power of ten would overlap the labels of neighbouring panels.
    """
    axis.set_major_formatter(matplotlib("ticker").FuncFormatter(partial(_number, axis)))


def _number(axis, value, _=None):
    """A number with as many digits as tell it from those beside it."""
    low, high = sorted(axis.get_view_interval())
    size, length = max(abs(low), abs(high)), high - low
    if not length > 0.0 or abs(value) < 1e-9 * length:
        return f"{value:g}" if not length > 0.0 else "0"
    digits = int(np.clip(np.ceil(np.log10(size / length)) + 2, 3, 15))
    return f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}")


def log_axis(ax):
    """A logarithmic axis with plain numbers, which are powers of ten where it is long."""
    ticker = matplotlib("ticker")
    ax.set_xscale("log")
    (low, high), axis = ax.get_xlim(), ax.xaxis
    if high < 10.0 * low:
        axis.set_major_locator(ticker.MaxNLocator(6, steps=(1, 2, 5, 10)))
    else:
        is_long = high > 1e4 * low
        axis.set_major_locator(ticker.LogLocator(subs=(1.0,) if is_long else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:.6g}"))


def room_for(ax, n_rows):
    """Font size in points at which this many labels fit beside each other."""
    box = ax.get_window_extent()
    points = 72.0 * box.height / ax.figure.dpi
    return float(np.clip(0.85 * points / n_rows, 4.0, 10.0))


# ------------------------------------------------------------------ artists
def with_defaults(defaults, given):
    """Keywords of an artist; those of the user override the defaults."""
    lines = matplotlib("lines")
    cbook = matplotlib("cbook")
    return {**defaults, **cbook.normalize_kwargs(given or {}, lines.Line2D)}


def region_patches(labels):
    """Patches for a legend of an inner and an outer region."""
    patch = matplotlib("patches").Patch
    looks = zip(labels, (DARK, LIGHT), ("-", "--"), strict=True)
    return [
        patch(facecolor=color, edgecolor=BLUE, linestyle=style, label=label)
        for label, color, style in looks
    ]


def open_frame(*panels):
    """Leave out the frame on top and on the right."""
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)


# ------------------------------------------------------------------ words
def percent(level):
    """A level as a percentage."""
    return f"{100 * level:g} %"


def short_names(names):
    """Names of one line that fit beside a plot and still differ.

    The middle is left out, because the ends of names such as ``mean[1,2]`` identify them.
    """
    lines = [" ".join(str(name).split()) for name in names]
    for length in _LENGTHS:
        short = [_without_middle(line, length) for line in lines]
        if len(set(short)) == len(set(lines)):
            break
    else:  # Still equal: numbers tell them apart.
        short = [f"{line} ({j})" for j, line in enumerate(short)]
    return [line.replace("$", r"\$") for line in short]  # Dollars would begin a formula.


def _without_middle(line, length):
    if len(line) <= length:
        return line
    front = (length - 1) // 2
    return line[:front] + _ELLIPSIS + line[front + 1 - length :]


def wrapped(text, width):
    """A text in lines of at most ``width`` letters."""
    return "\n".join(wrap(text, width)) or text


def sentence_of_hidden(n_shown, n_all, what):
    """How many items are not shown, for a title; empty if all are shown."""
    hidden = n_all - n_shown
    if not hidden:
        return ""
    verb = "is" if hidden == 1 else "are"
    return f"{n_shown} of {n_all} {what}: {hidden} {verb} not shown"


# ------------------------------------------------------------------ what is drawn
def check_posterior(posterior):
    """Raise a TypeError if this is not a posterior of named coordinates."""
    if all(hasattr(posterior, one) for one in ("names", "quantile", "mean", "std")):
        return posterior
    remedy = "for topics there is TopicDisplay" if hasattr(posterior, "top_words") else ""
    raise TypeError(
        f"posterior must be a Posterior or a GaussianPosterior, got {type(posterior).__name__}"
        f"{': ' if remedy else ''}{remedy}."
    )


def coordinates(posterior, names):
    """Indices of named coordinates, all if names is None; ValueError for unknown names."""
    own = list(posterior.names)
    if names is None:
        return np.arange(len(own))
    names = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in names if name not in own]
    if unknown or not names:
        near = get_close_matches(str(unknown[0]), own) if unknown else []
        raise ValueError(
            f"names must be coordinates of the posterior, got {unknown or names}; "
            f"{'near are' if near else 'there are'} {', '.join(near or own[:5])}."
        )
    return np.array([j for name in names for j, one in enumerate(own) if one == name])


def check_levels(levels):
    """An inner and an outer level, as floats; ValueError if they are not levels."""
    try:
        inner, outer = levels
    except (TypeError, ValueError) as error:
        raise ValueError(f"levels must be two numbers, such as (0.5, 0.9), got {levels!r}.") from (
            error
        )
    check_level(inner), check_level(outer)
    if not inner < outer:
        raise ValueError(f"levels must be an inner and a larger outer one, got {levels!r}.")
    return float(inner), float(outer)


def check_option(name, value, options):
    """One of some options; ValueError otherwise."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in options):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
    return value
