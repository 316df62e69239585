"""Posterior predictive check: data beside data sets that were drawn from the posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np

from skpmd._base.utils import as_floats, as_generator, check_n_draws
from skpmd._base.validation import refuse_overflows
from skpmd._typing import Array, ArrayLike, AxesLike, Estimator, MatrixLike, RandomState
from skpmd.plot._common import (
    BLUE,
    LIGHT,
    VERMILION,
    Display,
    check_levels,
    check_option,
    matplotlib,
    percent,
    short_names,
    with_defaults,
)
from skpmd.plot._tables import target_name_of
from skpmd.wrappers import called

_KINDS = "auto", "density", "frequency"
_FEW, _WIDE = 12, 60  # So many numbers each have a tick, and are a scale if no wider than that.
_PLACES, _MESH = 300, 2048  # Places of a density, and of the fine mesh that rows are counted on.
_MAX_VALUES = 20  # So many whole numbers at most have frequencies.
_TAIL = 0.005  # So much of the replicated targets may be left out on either side.
_NAMED = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max, "median": np.median}


class PosteriorPredictiveCheckDisplay(Display):
    """Observed targets beside data sets that were drawn from the posterior predictive.

    A model that explains the data draws data sets like them. There are three kinds of plots: the
    density of y among the densities of the replicated data sets (all smoothed alike), the frequency
    of each value if y has few different values, and a statistic of y among its values in the
    replicated data sets, with the share of larger values (Gelman et al. 2013, chapter 6). Use
    `from_estimator` or `from_predictions`.

    Parameters
    ----------
    kind : {"density", "frequency", "statistic"}
        Kind of the plot.
    observed : ndarray of shape (g,) or float
        Density or frequencies of y at the points ``x``, or its statistic.
    replicated : ndarray of shape (n_draws, g) or (n_draws,)
        The same for each replicated data set.
    x : ndarray of shape (g,), default=None
        Points of a density in the units of y, or values of y; None for a statistic.
    levels : tuple of two float, default=(0.5, 0.9)
        Probabilities of the bands of a density and of the intervals of frequencies.
    name : str, default="y"
        Name of the target, or of the statistic.

    Attributes
    ----------
    kind, observed, replicated, x, levels, name
        As given.
    p_value : float or None
        For a statistic: the share of replicated data sets in which it is larger; ties count half.
    <figure>
    observed_ : matplotlib Line2D
        Observed data.
    inner_, outer_ : matplotlib PolyCollection or LineCollection
        Bands, or intervals; None for a statistic.
    histogram_ : matplotlib StepPatch
        Histogram of a replicated statistic; None otherwise.

    References
    ----------
    Gelman, A., Carlin, J. B., Stern, H. S., Dunson, D. B., Vehtari, A. and Rubin, D. B. (2013).
    Bayesian Data Analysis, third edition. CRC Press.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd.plot import PosteriorPredictiveCheckDisplay
    >>> rng = np.random.default_rng(0)
    >>> y, y_rep = rng.standard_t(3, size=200), rng.standard_normal((500, 200))
    >>> display = PosteriorPredictiveCheckDisplay.from_predictions(y, y_rep, statistic="max")
    >>> display.p_value
    0.0
    """

    def __init__(
        self, *, kind: Literal["density", "frequency", "statistic"], observed: Array | float,
        replicated: Array, x: Array | None = None, levels: tuple[float, float] = (0.5, 0.9),
        name: str = "y",
    ) -> None:  # fmt: skip
        self.kind, self.observed, self.replicated, self.x = kind, observed, replicated, x
        self.levels, self.name, self.p_value = levels, name, None
        if kind == "statistic":
            above = np.mean(replicated > observed) + 0.5 * np.mean(replicated == observed)
            self.p_value = float(above)

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        n_draws: int = 200,
        random_state: RandomState = 0,
        **options: Any,
    ) -> Self:
        """Draw data sets at the rows of X, and compare them with y.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator with ``sample_y``, `BayesianLogisticRegressionPMD` or
            `SparseGPRegressorPMD`, or a pipeline, a search, a transformed target and the like
            around one. All rows of a draw come from the same particle.
        X : array-like of shape (n_samples, n_features)
            Rows, as the outermost estimator takes them. For a Gaussian process use a few thousand
            at most, because draws need the covariance of all rows.
        y : array-like of shape (n_samples,)
            Targets of these rows.
        n_draws : int, default=200
            Number of data sets.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.
        **options : dict
            Arguments of `from_predictions`.

        Raises
        ------
        ValueError
            If an option has a value that is not allowed.
        TypeError
            If no estimator inside has ``sample_y``.
        """
        matplotlib()
        n_draws = check_n_draws("n_draws", n_draws)
        keywords = {"n_samples": n_draws, "random_state": as_generator(random_state)}
        draws = called(estimator, X, "sample_y", keywords)
        return cls.from_predictions(y, draws.T, **options)

    @classmethod
    def from_predictions(
        cls, y: ArrayLike, y_rep: ArrayLike, *, statistic: str | Callable[..., Any] | None = None,
        kind: Literal["auto", "density", "frequency"] = "auto",
        levels: tuple[float, float] = (0.5, 0.9), name: str | None = None,
        ax: AxesLike | None = None, **plot_options: Any,
    ) -> Self:  # fmt: skip
        """Compare targets with replicated ones.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observed targets, numbers or classes.
        y_rep : array-like of shape (n_draws, n)
            Replicated targets.
        statistic : {"mean", "std", "min", "max", "median"} or callable, default=None
            Statistic to compare instead of all targets; a callable takes targets of shape (n,) and
            returns a number.
        kind : {"auto", "density", "frequency"}, default="auto"
            Kind of the plot without a statistic: ``"auto"`` draws frequencies for classes and for
            at most 20 whole numbers.
        levels : tuple of two float, default=(0.5, 0.9)
            Probabilities of the dark and of the light band, or of the thick and the thin line.
        name : str, default=None
            Name of the target or statistic, for the axis.
        <drawing>

        Raises
        ------
        ValueError
            If shapes do not match, an option has a value that is not allowed, or the statistic
            returns no number.
        """
        matplotlib()
        levels, kind = check_levels(levels), check_option("kind", kind, _KINDS)
        target = target_name_of(y)
        y, y_rep = _checked(y, y_rep)
        if statistic is not None:
            found, label = values_of_statistic(statistic, y, y_rep)
            label = f"{label} of {target}"
            kind, x, (observed, replicated) = "statistic", None, found
        else:
            if kind == "auto":
                kind = "frequency" if is_discrete(y) else "density"
            curves = frequencies if kind == "frequency" else density_curves
            (x, observed, replicated), label = curves(y, y_rep), target
        display = cls(
            kind=kind, observed=observed, replicated=replicated, x=x, levels=levels,
            name=label if name is None else name,
        )  # fmt: skip
        return display.plot(ax=ax, **plot_options)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        observed_kw: dict[str, Any] | None = None,
        replicated_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        <ax>
        observed_kw : dict, default=None
            Keywords for the observed data (`Axes.plot`, for a statistic `Axes.axvline`).
        replicated_kw : dict, default=None
            Keywords for the replicated data (`Axes.fill_between`, `Axes.vlines` or `Axes.stairs`).
        """
        self._one_axes(ax)
        self.inner_ = self.outer_ = self.histogram_ = None
        draw = {
            "density": self._draw_density,
            "frequency": self._draw_frequency,
            "statistic": self._draw_statistic,
        }[self.kind]
        self.observed_ = draw(observed_kw, replicated_kw or {})
        self.ax_.set_xlabel(short_names([self.name])[0])
        self._put_legend()
        return self

    def _bands(self):
        """Ends (2, g) of the inner and the outer level over the data sets, and their labels."""
        tails = [0.5 - 0.5 * level for level in self.levels]
        ends = [np.quantile(self.replicated, (tail, 1.0 - tail), axis=0) for tail in tails]
        return *ends, [f"{percent(level)} of replicated" for level in self.levels]

    def _draw_density(self, observed_kw, replicated_kw):
        self.inner_, self.outer_ = self._draw_bands(*self._bands(), replicated_kw)
        line = self._draw_line(
            self.x, self.observed, observed_kw, color=VERMILION, linewidth=1.8,
            label="observed",
        )  # fmt: skip
        self.ax_.set_ylabel("density")
        self.ax_.set_ylim(bottom=0.0)
        self.ax_.margins(x=0.0)
        return line

    def _draw_frequency(self, observed_kw, replicated_kw):
        (*ends, labels), n, is_number = self._bands(), len(self.x), _are_numbers(self.x)
        places = self.x if is_number else np.arange(n)
        self.outer_, self.inner_ = (
            self.ax_.vlines(
                places, *ends[j],
                **{"color": BLUE, "linewidth": width, "label": labels[j], **replicated_kw},
            )
            for j, width in ((1, 1.4), (0, 5.0))
        )  # fmt: skip
        line = self._draw_marks(
            places, self.observed, observed_kw, color=VERMILION, marker="X", markersize=8,
            label="observed", zorder=3,
        )  # fmt: skip
        if not is_number:
            names = short_names(self.x)
            is_long = sum(map(len, names)) > 50
            turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if is_long else {}
            self.ax_.set_xticks(places, names, **turned)
        elif n <= _FEW:
            self.ax_.set_xticks(places)
        self.ax_.set_ylabel("frequency")
        self.ax_.set_xlim(places[0] - 0.6, places[-1] + 0.6)
        self.ax_.set_ylim(bottom=0.0)
        return line

    def _draw_statistic(self, observed_kw, replicated_kw):
        values, edges = np.histogram(self.replicated, bins=_bins(self.replicated))
        look = {"facecolor": LIGHT, "edgecolor": BLUE, "label": "replicated", **replicated_kw}
        self._draw_bins(values, edges, look)
        label = f"observed: {100 * self.p_value:.3g} % of replicated are larger"
        look = {"color": VERMILION, "linewidth": 2.0, "label": label}
        self.ax_.set_ylabel("replicated data sets")
        return self.ax_.axvline(self.observed, **with_defaults(look, observed_kw))


def _are_numbers(values):
    """Whether values have places on an axis that are not too far from each other."""
    return values.dtype.kind in "fiu" and np.ptp(values) <= _WIDE


def _bins(values):
    """Number of bins: about as many as the square root of the values."""
    return int(np.clip(np.sqrt(len(values)), 5, 40))


def _checked(y, y_rep):
    """Targets (n,) and replicated ones (n_draws, n), as numbers where y holds numbers."""
    y, y_rep = np.asarray(y), np.asarray(y_rep)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or not len(y) or y_rep.ndim != 2 or not len(y_rep):
        raise ValueError(
            f"y must have shape (n,) and y_rep (n_draws, n), got {y.shape} and {y_rep.shape}."
        )
    if y_rep.shape[1] != len(y):
        turned = " Give y_rep.T." if y_rep.shape[0] == len(y) else ""
        raise ValueError(
            f"y_rep must have shape (n_draws, {len(y)}), a column for each target, got "
            f"{y_rep.shape}.{turned}"
        )
    if y.dtype.kind in "fiu":
        y, y_rep = as_floats("y", y), as_floats("y_rep", y_rep)
        if not (np.isfinite(y).all() and np.isfinite(y_rep).all()):
            raise ValueError("y and y_rep must be finite.")
        refuse_overflows("y_rep", y_rep), refuse_overflows("y", y)
    return y, y_rep


def is_discrete(y):
    """Whether frequencies of values are more informative than a density."""
    if y.dtype.kind != "f":
        return True
    values = np.unique(y)
    return len(values) <= _MAX_VALUES and bool((values == np.round(values)).all())


def density_curves(y, y_rep):
    """Points, density of y and densities of the replicated targets: (g,), (g,), (n_draws, g).

    All are smoothed by a normal kernel with the width from Silverman's rule for y, so that they
    differ only by the targets and not by the width.
    """
    if y.dtype.kind != "f":
        raise ValueError("kind='density' needs numbers: classes have frequencies.")
    width = _width(y) or _width(y_rep.ravel()) or max(abs(y[0]), 1.0) * 1e-3
    x = np.linspace(*_ends(y, y_rep, width), _PLACES)
    edges = np.linspace(x[0] - 4.0 * width, x[-1] + 4.0 * width, _MESH + 1)
    centres = 0.5 * (edges[1:] + edges[:-1])
    z = (x - centres[:, None]) / width
    kernel = np.exp(-0.5 * z**2) / (width * np.sqrt(2.0 * np.pi))
    counts = np.array([np.histogram(one, edges)[0] for one in (y, *y_rep)])
    curves = counts @ kernel / len(y)
    return x, curves[0], curves[1:]


def frequencies(y, y_rep):
    """Values, and their frequencies in y and the replicated targets: (g,), (g,), (n_draws, g)."""
    try:
        values = np.unique(np.concatenate([np.unique(y), np.unique(y_rep)]))
    except TypeError as error:
        raise ValueError(f"y and y_rep must hold values of one kind: {error}.") from error
    if y.dtype.kind == "f" and (values == np.round(values)).all():
        values = values.astype(int)
    observed = np.array([np.mean(y == value) for value in values])
    replicated = np.array([np.mean(y_rep == value, axis=1) for value in values]).T
    return values, observed, replicated


def values_of_statistic(statistic, y, y_rep):
    """A statistic of y and of each replicated data set, and its name."""
    function = _NAMED.get(statistic, statistic) if isinstance(statistic, str) else statistic
    if isinstance(statistic, str) and y.dtype.kind not in "bfiu":
        raise ValueError(f"statistic={statistic!r} needs numbers: y has the dtype {y.dtype}.")
    if not callable(function):
        raise ValueError(
            f"statistic must be a function of targets of shape (n,), or one of "
            f"{', '.join(_NAMED)}, got {statistic!r}."
        )
    found = [np.asarray(function(one)) for one in (y, *y_rep)]
    if any(one.ndim or one.dtype.kind not in "bfiu" or not np.isfinite(one) for one in found):
        raise ValueError(f"statistic must return a finite number, got {found[0]!r} of y.")
    found = np.array(found, dtype=np.float64)
    name = statistic if isinstance(statistic, str) else getattr(statistic, "__name__", "statistic")
    name = "statistic" if name == "<lambda>" else name
    return (float(found[0]), found[1:]), name


def _width(y):
    """Silverman's rule of thumb."""
    quarters = np.subtract(*np.quantile(y, [0.75, 0.25])) / 1.349
    spread = min(np.std(y), quarters) or np.std(y)
    return 0.9 * spread * len(y) ** -0.2


def _ends(y, y_rep, width):
    """Where places begin and end: over y, and most of what was drawn, though not too far."""
    low, high = y.min(), y.max()
    room = max(high - low, 8.0 * width)
    tails = np.quantile(y_rep, [_TAIL, 1.0 - _TAIL])
    first = np.clip(tails[0], low - room, low)
    last = np.clip(tails[1], high, high + room)
    return first - 3.0 * width, last + 3.0 * width
