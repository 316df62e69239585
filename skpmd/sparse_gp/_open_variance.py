"""Whether inducing inputs suffice: how much of the variance of f they leave open, and where."""

from typing import NamedTuple

import numpy as np

from skpmd._base.utils import warn
from skpmd._rows.rows import distinct

_MAX_ROWS = 200  # At most so many rows are asked for at a time, and up to twice as many are kept.
# Inducing inputs are warned of where they make more than this share of the variance of f. From two
# fifths on means were more than three of their own sds off those of the exact process, and from
# three quarters on also under a kernel that was fitted. An open variance below the second fraction
# of the prior's harms nobody.
_MUCH_ADDED, _MIN_OPEN = 0.25, 1e-4
_TINY = np.finfo(np.float64).tiny


class SomeRows(NamedTuple):
    """Some rows, in order."""

    X: np.ndarray
    noise_variance: np.ndarray  # (n,): Variance of each row's own noise, of the scaled y.

    def select(self, places):
        """Some of these rows; of a call's rows a copy, for these are not to be kept."""
        return SomeRows(self.X[places], self.noise_variance[places])

    def joined(self, other):
        """These rows and others."""
        return SomeRows(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def thinned(self):
        """A few of these rows."""
        return self.select(np.arange(0, len(self.X), -(-len(self.X) // _MAX_ROWS)))


class MonitoredRows(NamedTuple):
    """Some of all rows, wherever a stream has been, and some of the last call."""

    past: SomeRows  # Every row whose number is a multiple of the stride.
    last: SomeRows
    stride: int
    n: int  # Number of rows that there have been.

    @classmethod
    def of(cls, rows, n):
        """Monitored rows after a first call, from some rows that stand for n."""
        some, n = rows.thinned(), int(n)
        return cls(some, some, max(1, n // len(some.X)), n)

    def after(self, rows, forgetting):
        """Monitored rows after one more call; the oldest go as they are forgotten."""
        n = len(rows.X)
        gone = -np.expm1(n * np.log1p(-forgetting))
        past = self.past.select(slice(int(gone * len(self.past.X)), None))
        past = past.joined(rows.select(np.arange(-self.n % self.stride, n, self.stride)))
        stride = self.stride
        while len(past.X) > 2 * _MAX_ROWS:
            past, stride = past.select(slice(None, None, 2)), 2 * stride
        return MonitoredRows(past, rows.thinned(), stride, self.n + n)


def warn_of_open_variance(state):
    """Warn where much of the variance of f is there for want of inducing inputs, not of rows.

    What they leave open of f at a row, a single observation there would lower to open noise /
    (open + noise) in the exact process. Where the difference is much of the whole variance, the
    exact process differs from predictions by about their own sd, and by three of them at one place
    of many. The rows of the last call are asked for by themselves too: few others may lie there.
    """
    model, theta = state.model, state.particles.theta[state.best]
    for X, noise_variance in (state.monitored.past, state.monitored.last):
        if not len(X):
            continue
        prior, known = model.covariance.diagonal(theta, X), model.whitened(theta, X)
        left = np.maximum(prior - np.einsum("ij,ij->j", known, known), 0.0)
        noise = model.covariance.noise(theta, X) + noise_variance
        share = left / np.maximum(left + noise, _TINY)  # Of what is left, not of all variance.
        if left.mean() < _MIN_OPEN * prior.mean() or share.mean() <= _MUCH_ADDED:
            continue
        left[_are_inducing(X, model.inducing)] = 0.0  # That of jitter: more would not help.
        variance = model.predict(theta, state.conditional(state.best), X)[1]
        if np.mean(share * left / np.maximum(variance, _TINY)) > _MUCH_ADDED:
            warn(
                f"The {model.n_inducing} inducing inputs leave a variance of {left.mean():.2g} of "
                f"the process open, and the noise is {noise.mean():.2g}: predictions may be far "
                "from those of the exact process. Raise n_inducing."
            )
            return


def _are_inducing(X, inducing):
    """Whether each row of X is an inducing input."""
    which = distinct(np.concatenate([inducing, X]))[1]
    return np.isin(which[len(inducing) :], which[: len(inducing)])
