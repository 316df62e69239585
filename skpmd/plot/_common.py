"""What all displays share: matplotlib, axes, short names and checks."""

from difflib import get_close_matches
from functools import partial
from textwrap import wrap

import numpy as np

from skpmd._base.utils import check_level
from skpmd._export import library

# Of the palette of Okabe and Ito (2008), which eyes without one kind of cone tell apart.
BLUE, VERMILION, BLACK, GREY = "#0072B2", "#D55E00", "#000000", "0.45"
# Two shades of blue on white, for regions that hold less and more.
DARK, LIGHT = "#66AAD1", "#CCE3F0"
_WIDTH = 6.4  # Of a figure, in inches, as matplotlib has it by default.
_LETTER = 0.08  # Inches of a letter.
_LENGTHS = 28, 40, 56  # Names have so many letters at most, or more where they would be equal.
_ELLIPSIS = "…"


# ------------------------------------------------------------------ matplotlib and its axes
def matplotlib(module="pyplot"):
    """A module of matplotlib; if it is not installed, the error names the extra."""
    return library(f"matplotlib.{module}", "plot")


def one_axes(ax, height=4.8, longest=0):
    """Axes to draw in and their figure: the given axes, or those of a new figure.

    A new figure is wider if the longest name at its side has more letters than usual.
    """
    if ax is None:
        width = _WIDTH + _LETTER * max(longest - _LENGTHS[0], 0)
        figure, ax = matplotlib().subplots(figsize=(width, height), layout="constrained")
    elif not _is_axes(ax):
        raise TypeError(f"ax must be one matplotlib Axes, got {type(ax).__name__}.")
    return ax, ax.figure


def many_axes(ax, shape, size, spaces=(0.1, 0.1), **options):
    """An array of Axes of a shape, and their figure.

    If ``ax`` is None, the figure is new, with ``size`` in inches. A single Axes is divided, and
    several of the right number are used unchanged. Options are those of `Figure.subplots`.
    ``spaces`` are widths and heights between panels, relative to a panel, for figures without a
    layout engine that makes room for labels.
    """
    if ax is None:
        figure = matplotlib().figure(figsize=size, layout="constrained")
        return figure.subplots(*shape, squeeze=False, **options), figure
    if _is_axes(ax):
        ax.set_axis_off()
        inner = _grid_inside(ax, shape, spaces, options)
        return inner.subplots(squeeze=False, **options), ax.figure
    axes = np.asarray(ax, dtype=object)
    if axes.size != shape[0] * shape[1] or not all(_is_axes(one) for one in axes.ravel()):
        raise ValueError(
            f"ax must be one matplotlib Axes or {shape[0] * shape[1]} of them, for so many panels, "
            f"got an array of shape {axes.shape}."
        )
    return axes.reshape(shape), axes.flat[0].figure


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


def put_title(text, panel, figure, is_ours):
    """A title above several panels: that of the figure if it is ours, else above the first panel.

    Above the first panel it leaves a line for the title of this panel.
    """
    if text and is_ours:
        figure.suptitle(text, fontsize="medium")
    elif text:
        below = "\n" if panel.get_title() else ""
        panel.set_title(text + below, loc="left", fontsize="medium")


def put_legend(ax, **options):
    """A legend above the Axes, where it hides nothing, in as many columns as there is room for.

    It is on the right, because the power of ten of the vertical axis is on the left.
    """
    handles = options.pop("handles", None) or ax.get_legend_handles_labels()[0]
    longest = max(len(str(one.get_label())) for one in handles)
    inches = ax.get_window_extent().width / ax.figure.dpi
    columns = int(np.clip(inches // (0.45 + 0.06 * longest), 1, len(handles)))
    return ax.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns,
        fontsize="small", frameon=False, borderaxespad=0.2, **options,
    )  # fmt: skip


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


def room_for(ax, n_rows):
    """Font size in points at which this many labels fit beside each other."""
    box = ax.get_window_extent()
    points = 72.0 * box.height / ax.figure.dpi
    return float(np.clip(0.85 * points / n_rows, 4.0, 10.0))


def merged(defaults, given):
    """Keywords of an artist; those of the user override the defaults."""
    lines = matplotlib("lines")
    cbook = matplotlib("cbook")
    return {**defaults, **cbook.normalize_kwargs(given or {}, lines.Line2D)}


# ------------------------------------------------------------------ words
def percent(level):
    """A level as a percentage."""
    return f"{100 * level:g} %"


def shortened(names):
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


def check_count(name, value, least=1):
    """An integer of at least ``least``; ValueError otherwise."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_whole and value >= least):
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return int(value)


def check_option(name, value, options):
    """One of some options; ValueError otherwise."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in options):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
    return value
