"""Reweighting at the price of a few passes: an expansion of all rows, and remainders of some.

Near its mode the log-likelihood of many rows is a quadratic plus a small remainder, and the sum of
the rows' remainders is known well from a few thousand of them. So the particles are weighed by

    Q(theta) + sum over a sample of w_i (l_i(theta) - q_i(theta)),

Q the expansion of all rows at the mode and q_i that of a row: one quadratic, which tilts the prior,
and the weighted rows of the sample, which take the place of all. Rows are drawn in proportion to
the size of their remainders, most of them, so that far rows are all there. How far the weights are
off is seen between parts of the sample. (Control variates for subsampled likelihoods: Bardenet,
Doucet and Holmes 2017; Quiroz et al. 2019.)
"""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from skpmd._rows.rows import stratified_sample
from skpmd._runtime.call import phase
from skpmd.engine.variational import Gaussian, laplace

_FEWEST = 4000  # Rows from which it may pay,
_LARGEST = 0.25  # and the share of them that is looked at instead, at most.
# Searches for the mode begin with so many rows, and a few for each coordinate, and go on with so
# many times as many, each to within so many posterior sds.
_FIRST, _PER_COORDINATE, _GROWTH, _NEAR = 2000, 20, 16, 0.1
_OFF = 0.3  # The centre of an expansion is as near to the mode, in posterior sds,
_MAX_STEPS = 4  # after so many Newton steps on all rows, or there is none.
_UNIFORM = 0.1  # This share of the sample is drawn whatever remainders are.
_PILOT, _PARTS, _N_CHECKED = 1024, 32, 64  # Rows and parts of a sample, and points that it is seen at.
TARGET_ERROR = 0.005  # Of log weights, in nats; means are off by as many posterior sds at most.
_SAFE = 1.5  # A sample is so many times as large as the pilot asks for.


class Expansion(NamedTuple):
    """A quadratic in theta that stands for the log-likelihood of rows."""

    centre: np.ndarray  # (d,): Its value there is ``constant``, its gradient ``slope``.
    slope: np.ndarray  # (d,): Gradient.
    precision: np.ndarray  # (d, d): Minus its second derivatives.
    constant: float = 0.0
    misfit: float = 0.0  # Spread, under the posterior, of what it lacks of the log-likelihood, in nats.

    def value(self, theta):
        """The quadratic at each row of theta, (m,)."""
        u = theta - self.centre
        curved = np.einsum("mi,mi->m", u @ self.precision, u)
        return self.constant + u @ self.slope - 0.5 * curved

    def gradient(self, theta):
        """Its gradient, of the shape of theta."""
        return self.slope - (theta - self.centre) @ self.precision

    def plus(self, other):
        """The sum of two, about the centre of this one."""
        return Expansion(
            self.centre,
            self.slope + other.gradient(self.centre),
            self.precision + other.precision,
            self.constant + float(other.value(self.centre[None])[0]),
            float(np.hypot(self.misfit, other.misfit)),
        )

    def times(self, factor):
        """So many times the quadratic."""
        return self._replace(
            slope=factor * self.slope, precision=factor * self.precision,
            constant=factor * self.constant,
        )  # fmt: skip


class Sample(NamedTuple):
    """Rows that stand for all where an expansion of all is known."""

    rest: Expansion  # What the expansion of all rows has more than that of these.
    batches: list  # They, in parts with weights of their own; the first part has rows for certain.
    expansions: list  # Of each part.
    n_rows: int


def expansion_of(model, mean, batches):
    """The `Expansion` of the log-likelihood of batches at a point (d,)."""
    slope, precision = model.gaussian_target(mean, None, batches)
    of_prior = model.prior.expected(mean, None)
    own = of_prior[1] if np.ndim(of_prior[1]) == 2 else np.diag(of_prior[1])
    constant = sum(float(model.log_likelihood(mean[None], batch)[0]) for batch in batches)
    return Expansion(mean, slope - of_prior[0], precision - own, constant)


@phase("expansion of all rows")
def sampled(model, rows, power, rng):
    """The `Sample` of rows that suffices, or None where all are to be looked at.

    ``rows`` are `skpmd._rows.rows.Rows`; the model offers ``remainders`` beside what `laplace`
    wants, and ``power`` is that of the likelihood.
    """
    d, n = model.n_coordinates, len(rows)
    if n < _FEWEST:
        return None
    mode = _approximate_mode(model, rows, power, rng)
    found = None if mode is None else _centred(model, rows, mode, power)
    if found is None:
        return None
    whole, gaussian = found
    sizes = np.concatenate(
        [model.remainders(*gaussian, batch) for batch in rows.whole()]
    )
    if not np.isfinite(sizes).all():
        return None
    weight = rows.data.weight
    share = _UNIFORM * weight / weight.sum()
    if sizes.sum() > 0.0:
        share = share + (1.0 - _UNIFORM) * sizes / sizes.sum()
    checked = np.random.default_rng(0).standard_normal((_N_CHECKED, d))
    checked = gaussian.mean + checked @ gaussian.chol.T
    pilot = _drawn(model, rows, whole, share, _PILOT, rng)
    error = power * error_of(model, pilot, checked)
    n_rows = int(np.ceil(_SAFE * _PILOT * (error / TARGET_ERROR) ** 2))
    if not n_rows <= _LARGEST * n:
        return None
    return pilot if n_rows <= _PILOT else _drawn(model, rows, whole, share, n_rows, rng)


def _approximate_mode(model, rows, power, rng):
    """A point near the mode, by rows that stand for all; None where there may be several."""
    size, start = max(_FIRST, _PER_COORDINATE * model.n_coordinates), None
    while size <= _LARGEST * len(rows):
        places, counts = stratified_sample(rows.data.weight, size, rng)
        some = rows.take(places)
        some = some._replace(weight=counts * (rows.total / size))
        if start is None:
            starts = model.starts([some])
            if len(starts) > 1:
                return None
            start = starts[0]
        start = laplace(model, [some], start, power, tol=_NEAR).mean
        size *= _GROWTH
    return start


def _centred(model, rows, mean, power):
    """The `Expansion` of all rows near the mode, and Laplace's approximation there, or None."""
    for _ in range(_MAX_STEPS):
        whole = expansion_of(model, mean, rows.whole())
        gradient, own = model.prior.expected(mean, None)
        own = own if np.ndim(own) == 2 else np.diag(own)
        gradient, precision = gradient + power * whole.slope, own + power * whole.precision
        try:
            move = cho_solve(cho_factor(precision, lower=True), gradient)
            inverse = np.linalg.inv(precision)
            chol = np.linalg.cholesky(0.5 * (inverse + inverse.T))
        except (np.linalg.LinAlgError, ValueError):
            return None
        length = np.sqrt(gradient @ move)
        if not np.isfinite(length):
            return None
        if length < _OFF:
            return whole, Gaussian(mean, chol)
        mean = mean + move
    return None


def _drawn(model, rows, whole, share, n, rng):
    """A `Sample` of so many rows, drawn in proportion to their share."""
    places, counts = stratified_sample(share, n, rng)
    weight = rows.data.weight[places] * counts * (share.sum() / n) / share[places]
    is_certain = np.isclose(weight, rows.data.weight[places], rtol=1e-9, atol=0.0)
    some = rows.take(places)._replace(weight=weight)
    free = np.flatnonzero(~is_certain)
    parts = [np.flatnonzero(is_certain), *(free[i::_PARTS] for i in range(_PARTS))]
    batches = [some.take(part) for part in parts]
    mean = whole.centre
    expansions = [expansion_of(model, mean, [batch] if len(batch.weight) else []) for batch in batches]
    rest = whole.plus(reduce(Expansion.plus, expansions).times(-1.0))
    return Sample(rest, batches, expansions, len(places))


def error_of(model, sample, theta):
    """Standard error of log weights at points theta (m, d) by the sample, root mean square."""
    parts = [
        model.log_likelihood(theta, batch) - expansion.value(theta)
        for batch, expansion in zip(sample.batches[1:], sample.expansions[1:], strict=True)
        if len(batch.weight)
    ]
    gaps = np.array(parts) - np.mean(parts, axis=1, keepdims=True)
    k = len(gaps)
    if k < 2:
        return 0.0
    return float(np.sqrt((gaps - gaps.mean(axis=0)).var() * k * k / (k - 1)))
