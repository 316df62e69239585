"""Trace of a fit: the columns of its history, one below the other."""

from typing import NamedTuple

import numpy as np

from skpmd.plot._common import (
    BLACK,
    BLUE,
    attribute_of,
    check_count,
    inside,
    many_axes,
    matplotlib,
    merged,
    put_title,
    room_for,
    sentence_of_hidden,
)

_PANEL, _FRAME = 1.15, 0.9  # Inches of a figure for each panel, and for what is around them.
_DECADES = 100.0  # A positive column whose values have this ratio has a logarithmic axis.


class _Column(NamedTuple):
    """How a column of the record is drawn."""

    label: str
    is_count: bool = False  # Bars in place of a line.


# In the order of the panels. The first two are computed here, the others stand in `history_`.
_COLUMNS = {
    "ess_share": _Column("ESS /\nparticles"),
    "log_evidence": _Column("log evidence\n(nats)"),
    "ess": _Column("ESS"),
    "elbo": _Column("ELBO\n(nats per row)"),
    "log_density": _Column("log density\n(nats per {item})"),
    "step_size": _Column("step size"),
    "likelihood_power": _Column("power of\nlikelihood"),
    "rejuvenations": _Column("rejuvenations", is_count=True),
    "substeps": _Column("substeps", is_count=True),
    "bandwidth": _Column("bandwidth"),
    "r_hat": _Column("R-hat"),
    "change": _Column("change of log\nprecision"),
    "rejuvenation_error": _Column("rejuvenation\nerror (sds)"),
    "mean_error": _Column("error of\nmeans (sds)"),
    "acceptance": _Column("acceptance"),
    "correlation": _Column("correlation\nafter moves"),
    "n_moves": _Column("moves", is_count=True),
    "n_particles": _Column("particles"),
    "n_documents": _Column("documents"),
}
_FIRST = "ess_share", "step_size"  # They are drawn where they are constant, too.


class TraceDisplay:
    """Columns of the history of a fit against the steps, in panels one below the other.

    Use `from_estimator` with any estimator that has ``history_``.

    Parameters
    ----------
    history : dict of str to ndarray of shape (n_steps,)
        The history, with ``"step"``, as in ``history_``.
    columns : sequence of str, default=None
        Columns to draw, from the top: columns of the history, or ``"ess_share"`` (effective sample
        size divided by the number of particles) and ``"log_evidence"`` (sum of its increments so
        far, in nats, for the unscaled columns of X). By default all that contain numbers and
        change, and ``"ess_share"`` and the step size if they exist.
    max_panels : int, default=6
        Largest number of panels if ``columns`` is not given. If there are more columns, the title
        says how many are not shown.
    log_evidence : float, default=None
        Log evidence after the last step, in nats; without it there is no such column.

    Attributes
    ----------
    history : dict of str to ndarray
        As given, with the two computed columns, if they can be computed.
    columns : list of str
        Columns that are drawn.
    n_columns : int
        Number of columns that would be drawn without ``max_panels``.
    axes_ : ndarray of shape (n_panels,) of matplotlib Axes
        Panels, which share the axis of steps.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        Figure that holds the axes.
    lines_ : dict of str to matplotlib Line2D
        The line of each column, with steps for a count.

    Raises
    ------
    ValueError
        If there is no such column, or ``max_panels`` is not a positive integer.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.plot import TraceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianLogisticRegressionPMD(
    ...     n_particles=500, proposal="prior", reweight=False, batch_size=15, random_state=0
    ... )
    >>> display = TraceDisplay.from_estimator(model.fit(X[:100, :2], y[:100]))
    >>> display.columns[:4], display.n_columns
    (['ess_share', 'step_size', 'likelihood_power', 'rejuvenations'], 7)
    """

    def __init__(self, history, *, columns=None, max_panels=6, log_evidence=None):
        self.history = _with_computed(history, log_evidence)
        found = _informative(self.history) if columns is None else list(columns)
        unknown = [name for name in found if name not in self.history or name == "step"]
        if unknown or not found:
            raise ValueError(
                f"columns must be some of {', '.join(one for one in self.history if one != 'step')}"
                f", got {unknown or columns}."
            )
        max_panels = check_count("max_panels", max_panels)
        self.n_columns = len(found)
        self.columns = found[:max_panels] if columns is None else found

    @classmethod
    def from_estimator(cls, estimator, *, columns=None, max_panels=6, ax=None, **plot_options):
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Estimator with ``history_``, or a pipeline, a search and the like around one.
        columns : sequence of str, default=None
            Columns to draw, as for the class.
        max_panels : int, default=6
            Largest number of panels, as for the class.
        ax : matplotlib Axes or array of n_panels of them, default=None
            Axes to draw in; a single one is divided. By default those of a new figure, whose size
            grows with the number of panels.
        **plot_options : dict
            Further arguments of `plot`.

        Returns
        -------
        TraceDisplay
            The display, with its artists.

        Raises
        ------
        ValueError
            If there is no such column.
        TypeError
            If the estimator has no ``history_``.
        ImportError
            If matplotlib is not installed.
        """
        matplotlib()
        history = attribute_of(estimator, "history_")
        evidence = getattr(inside(estimator), "log_evidence_", None)
        display = cls(history, columns=columns, max_panels=max_panels, log_evidence=evidence)
        return display.plot(ax=ax, **plot_options)

    def plot(self, ax=None, *, line_kw=None):
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes or array of n_panels of them, default=None
            Axes to draw in; a single one is divided. By default those of a new figure.
        line_kw : dict, default=None
            Keywords of the lines (`Axes.plot`).

        Returns
        -------
        TraceDisplay
            Itself.
        """
        n, step = len(self.columns), np.asarray(self.history["step"])
        size = 6.4, max(_PANEL * n + _FRAME, 2.6)
        axes, self.figure_ = many_axes(ax, (n, 1), size, (0.1, 0.2), sharex=True)
        self.axes_ = axes.ravel()
        self.ax_, self.lines_ = self.axes_[0], {}
        for panel, name in zip(self.axes_, self.columns, strict=True):
            self.lines_[name] = self._draw(panel, name, step, line_kw)
        self.axes_[-1].set_xlabel("step")
        ticker = matplotlib("ticker")
        self.axes_[-1].xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
        put_title(
            sentence_of_hidden(n, self.n_columns, "columns"), self.ax_, self.figure_, ax is None
        )
        labels = [panel.yaxis.label for panel in self.axes_]
        longest = max(len(line) for one in labels for line in one.get_text().split("\n"))
        for label in labels:  # Letters are about half as wide as they are high.
            label.set_fontsize(min(8.5, room_for(self.ax_, 0.45 * longest)))
        self.figure_.align_ylabels(self.axes_)
        return self

    def _draw(self, panel, name, step, line_kw):
        values = np.asarray(self.history[name], dtype=np.float64)
        column = _COLUMNS.get(name, _Column(name.replace("_", " ")))
        look = {"color": BLUE, "linewidth": 1.2}
        if len(step) <= 60:  # Points show where there is no line, between missing values.
            look |= {"marker": "o", "markersize": 3.5}
        if column.is_count:
            look |= {"drawstyle": "steps-mid"}
            panel.set_ylim(0.0, 1.1 * max(np.nanmax(values, initial=0.0), 1.0))
        (line,) = panel.plot(step, values, **merged(look, line_kw))
        if _spans_decades(values):
            panel.set_yscale("log")
        elif name == "ess_share":
            panel.set_ylim(0.0, 1.05 * max(np.nanmax(values, initial=0.0), 1.0))
        item = "word" if "n_documents" in self.history else "row"
        panel.set_ylabel(column.label.format(item=item), color=BLACK)
        panel.tick_params(labelsize="small")
        panel.spines[["top", "right"]].set_visible(False)
        if not _spans_decades(values):
            panel.locator_params(axis="y", nbins=4, integer=column.is_count)
            panel.ticklabel_format(axis="y", useOffset=False)
        return line


def _with_computed(history, log_evidence):
    """The record with the share of the ESS and the evidence so far, where they can be had.

    Increments are those of scaled columns. Their densities differ from those of the user's columns
    by a factor that has the power of the likelihood.
    """
    if "step" not in history:
        raise ValueError(
            f"history must have the column 'step', has {', '.join(history) or 'none'}."
        )
    out = {name: np.asarray(values) for name, values in history.items()}
    if "ess" in out and "n_particles" in out:
        out["ess_share"] = out["ess"] / np.maximum(out["n_particles"], 1)
    if log_evidence is not None and {"log_increment", "likelihood_power"} <= set(out):
        total, power = np.cumsum(out["log_increment"]), out["likelihood_power"]
        if len(total) and (np.diff(power) >= 0.0).all():  # One fit, and no stream of several.
            out["log_evidence"] = total + power * (log_evidence - total[-1])
    return out


def _informative(history):
    """Columns that are drawn by default."""
    known = [name for name in _COLUMNS if name in history]
    if "ess_share" in known and "ess" in known:
        known.remove("ess")
    found = [name for name in known if name in _FIRST or _changes(history[name])]
    found = [name for name in found if not np.isnan(history[name].astype(np.float64)).all()]
    return found or [name for name in history if name != "step"][:1]


def _changes(values):
    values = values[~np.isnan(values.astype(np.float64))]
    return len(values) > 0 and bool((values != values[0]).any())


def _spans_decades(values):
    values = values[np.isfinite(values)]
    return len(values) > 1 and values.min() > 0.0 and values.max() > _DECADES * values.min()
