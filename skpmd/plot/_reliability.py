"""Reliability diagram of a classifier, with credible intervals of the frequencies."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from scipy.stats import beta
from sklearn.utils import check_consistent_length, column_or_1d

from skpmd._base.utils import as_floats, check_count, check_level
from skpmd._base.validation import checked_weights
from skpmd._typing import Array, ArrayLike, AxesLike, Estimator, MatrixLike
from skpmd.plot._common import (
    BLUE,
    GREY,
    LIGHT,
    Display,
    check_option,
    matplotlib,
    open_frame,
    percent,
    short_names,
)
from skpmd.wrappers import inside

_HISTOGRAM_BINS = 20


class ReliabilityDisplay(Display):
    """Frequencies of a class against its predicted probabilities, above their histogram.

    Rows are sorted into bins by their predicted probability. A point shows the mean prediction of a
    bin and the frequency of the class in it. The bar is a credible interval of this frequency under
    Jeffreys' prior, from a beta distribution whose parameters are the two counts plus one half. It
    extends to 0 if the bin has no row of the class, and to 1 if it has no other row (Brown, Cai and
    DasGupta 2001). Probabilities are calibrated where the intervals meet the diagonal about as
    often as their level says. Use `from_estimator` or `from_predictions`.

    Parameters
    ----------
    prob_pred : ndarray of shape (n_bins,)
        Mean prediction of each bin that has rows.
    prob_true : ndarray of shape (n_bins,)
        Frequency of the class in each of these bins.
    interval : ndarray of shape (n_bins, 2)
        Lower and upper ends of the intervals of the frequency.
    counts : ndarray of shape (n_bins,)
        Sum of the rows' weights in each bin.
    y_prob : ndarray of shape (n,)
        Predicted probabilities, for the histogram.
    sample_weight : ndarray of shape (n,)
        Weights of the rows.
    level : float, default=0.9
        Posterior probability of an interval.
    name : str, default=None
        Name of the predictions, for the legend.
    class_name : str, default=None
        The class, for the labels of the axes.

    Attributes
    ----------
    prob_pred, prob_true, interval, counts, y_prob, sample_weight, level, name, class_name
        As given.
    axes_ : ndarray of shape (2,) of matplotlib Axes
        Axes of the diagram and of the histogram; give ``ax=display.axes_`` to another display to
        draw in both.
    ax_, histogram_ax_ : matplotlib Axes
        The same two axes by name.
    figure_ : matplotlib Figure
        Figure that holds the axes.
    line_ : matplotlib Line2D
        Points.
    bars_ : matplotlib LineCollection
        Intervals.
    diagonal_ : matplotlib Line2D
        Perfect calibration.
    histogram_ : matplotlib StepPatch
        Weights of the predictions.

    References
    ----------
    Brown, L. D., Cai, T. T. and DasGupta, A. (2001). Interval estimation for a binomial proportion.
    Statistical Science 16.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.plot import ReliabilityDisplay
    >>> data = load_breast_cancer(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(*data, random_state=0)
    >>> model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
    >>> display = ReliabilityDisplay.from_estimator(model.fit(X, y), X_test, y_test, n_bins=5)
    >>> float(display.counts.sum()), display.interval.shape
    (143.0, (5, 2))
    """

    def __init__(
        self, prob_pred: Array, prob_true: Array, interval: Array, counts: Array, y_prob: Array,
        sample_weight: Array, *, level: float = 0.9, name: str | None = None,
        class_name: str | None = None,
    ) -> None:  # fmt: skip
        self.prob_pred, self.prob_true, self.interval = prob_pred, prob_true, interval
        self.counts, self.y_prob, self.sample_weight = counts, y_prob, sample_weight
        self.level, self.name, self.class_name = level, name, class_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        pos_label: float | str | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Self:
        """Draw the diagram of a fitted classifier's ``predict_proba``.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier, of any library.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that were not fitted.
        y : array-like of shape (n_samples,)
            Classes of the rows.
        pos_label : int, float, bool or str, default=None
            The class whose probability is shown; by default the second of two classes. With more
            classes it has to be given.
        name : str, default=None
            Name for the legend; by default the class name of the innermost estimator.
        **options : dict
            Arguments of `from_predictions`.

        Raises
        ------
        ValueError
            If an option has a value that is not allowed, or y has different classes.
        TypeError
            If the estimator has no ``predict_proba``.
        """
        matplotlib()
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(f"{type(estimator).__name__} has no predict_proba.")
        table = np.asarray(estimator.predict_proba(X))
        classes = list(estimator.classes_)
        if pos_label is None and len(classes) == 2:
            pos_label = classes[1]
        if pos_label not in classes:
            raise ValueError(f"pos_label must be one of {classes}, got {pos_label!r}.")
        y = column_or_1d(y)
        if not set(np.unique(y).tolist()) <= set(np.asarray(classes).tolist()):
            raise ValueError(f"y must hold classes of the estimator, {classes}, and has others.")
        name = type(inside(estimator)).__name__ if name is None else name
        prob = table[:, classes.index(pos_label)]
        return cls.from_predictions(y, prob, pos_label=pos_label, name=name, **options)

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None,
        n_bins: int = 10, strategy: Literal["uniform", "quantile"] = "uniform", level: float = 0.9,
        pos_label: float | str | None = None, name: str | None = None, ax: AxesLike | None = None,
        **plot_options: Any,
    ) -> Self:  # fmt: skip
        """Draw the diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Classes.
        y_prob : array-like of shape (n,)
            Predicted probabilities of the class ``pos_label``.
        sample_weight : array-like of shape (n,), default=None
            Weights: a row of weight w counts as w rows.
        n_bins : int, default=10
            Number of bins; those without rows are left out.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or with about equally many rows.
        level : float, default=0.9
            Posterior probability of an interval.
        pos_label : int, float, bool or str, default=None
            The class; by default 1, or True, if y holds 0 and 1, -1 and 1, or booleans.
        name : str, default=None
            Name for the legend.
        <drawing>

        Raises
        ------
        ValueError
            If an option has a value that is not allowed, or a probability is not in [0, 1].
        """
        matplotlib()
        check_level(level), check_option("strategy", strategy, ("uniform", "quantile"))
        n_bins = check_count("n_bins", n_bins)
        y, prob = column_or_1d(y_true), as_floats("y_prob", y_prob)
        check_consistent_length(y, prob)
        if prob.ndim != 1 or not len(prob) or not ((prob >= 0.0) & (prob <= 1.0)).all():
            raise ValueError(
                "y_prob must have shape (n,) and numbers in [0, 1], the probability of one class, "
                f"got shape {prob.shape}."
            )
        weight = checked_weights(sample_weight, prob)
        is_class = y == _class_of(y, pos_label)
        which = _bins(prob, n_bins, strategy)
        counts = np.bincount(which, weight, n_bins)
        hits = np.bincount(which, weight * is_class, n_bins)
        total = np.bincount(which, weight * prob, n_bins)
        own = counts > 0.0
        counts, hits, total = counts[own], hits[own], total[own]
        display = cls(
            prob_pred=total / counts,
            prob_true=hits / counts,
            interval=jeffreys_interval(hits, counts, level),
            counts=counts,
            y_prob=prob,
            sample_weight=weight,
            level=level,
            name=name,
            class_name=None if pos_label is None else str(pos_label),
        )
        return display.plot(ax=ax, **plot_options)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        color: str | tuple[float, ...] = BLUE,
        line_kw: dict[str, Any] | None = None,
        bar_kw: dict[str, Any] | None = None,
        histogram_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        <ax>
        color : matplotlib color, default="#0072B2"
            Colour of points, bars and the outline of the histogram.
        line_kw, bar_kw, histogram_kw : dict, default=None
            Keywords of the points (`Axes.plot`), the intervals (`Axes.vlines`) and the histogram
            (`Axes.stairs`).
        """
        self._many_axes(ax, (2, 1), (5.2, 6.0), sharex=True, height_ratios=(3, 1))
        self.axes_ = self.axes_.ravel()
        self.histogram_ax_ = self.axes_[1]
        (self.diagonal_,) = self.ax_.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle="--")
        open_frame(*self.axes_)
        look = {"color": color, "linewidth": 1.6, **(bar_kw or {})}
        self.bars_ = self.ax_.vlines(self.prob_pred, *self.interval.T, **look)
        named = f"{short_names([self.name])[0]}, " if self.name else ""
        self.line_ = self._draw_marks(
            self.prob_pred, self.prob_true, line_kw, color=color, markersize=6,
            label=f"{named}{percent(self.level)} intervals",
        )  # fmt: skip
        self.ax_.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        self._draw_counts(color, histogram_kw or {})
        short = short_names([self.class_name])[0] if self.class_name else ""
        of = f" of class {short}" if short else ""
        self.ax_.set_ylabel(f"frequency{of}")
        self.histogram_ax_.set_xlabel(f"predicted probability{of}")
        self._put_legend()
        return self

    def _draw_counts(self, color, histogram_kw):
        values, edges = np.histogram(
            self.y_prob, _HISTOGRAM_BINS, range=(0.0, 1.0), weights=self.sample_weight
        )
        panel, is_first = self.histogram_ax_, not self.histogram_ax_.patches
        look = {"edgecolor": color, "linewidth": 1.2, "fill": is_first, "facecolor": LIGHT}
        self._draw_bins(values, edges, {**look, **histogram_kw}, panel)
        is_weighted = bool((self.sample_weight != 1.0).any())
        panel.set_ylabel("weight of rows" if is_weighted else "rows")


def jeffreys_interval(hits, counts, level):
    """Central intervals of a frequency, given numbers of hits and of trials, (k, 2)."""
    hits, misses = np.asarray(hits), np.maximum(np.asarray(counts) - hits, 0.0)
    ends = beta.ppf(np.array(check_level(level))[:, None], hits + 0.5, misses + 0.5).T
    ends[hits == 0.0, 0] = 0.0
    ends[misses <= 1e-12 * hits, 1] = 1.0
    return ends


def _class_of(y, pos_label):
    """The class that probabilities are of."""
    if pos_label is not None:
        return pos_label
    values = set(np.unique(y).tolist())
    if values <= {0, 1} or values <= {-1, 1}:
        return 1
    raise ValueError(
        f"pos_label must be given where y_true holds others than 0 and 1, or -1 and 1; it holds "
        f"{sorted(values, key=str)[:5]}."
    )


def _bins(prob, n_bins, strategy):
    """Number of the bin of each row; a bin has its upper end."""
    if strategy == "uniform":
        edges = np.linspace(0.0, 1.0, n_bins + 1)
    else:
        edges = np.quantile(prob, np.linspace(0.0, 1.0, n_bins + 1))
    return np.searchsorted(edges[1:-1], prob)
