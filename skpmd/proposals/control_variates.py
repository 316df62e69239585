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

from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from skpmd._rows.rows import stratified_sample
from skpmd._rows.table import is_in_memory
from skpmd._runtime.call import phase
from skpmd.engine.mirror import log_likelihood
from skpmd.engine.particles import weights
from skpmd.engine.variational import Gaussian, chol_of_inverse, laplace

_FEWEST = 4000  # Rows from which it may pay,
_LARGEST = 0.25  # and the share of them that is looked at instead, at most.
# Searches for the mode begin with so many rows, and a few for each coordinate, and go on with so
# many times as many, each to within so many posterior sds.
_FIRST, _PER_COORDINATE, _GROWTH, _NEAR = 2000, 20, 16, 0.1
# The centre of an expansion is as near to the mode, in posterior sds. Steps that lead there are so
# many at most, and each ends so much nearer.
_OFF, _MAX_STEPS, _NEARER = 0.3, 8, 0.5
_TRIMS = 10
_FAR = 5.0  # So many sds beyond the typical distance from the mode is the end,
_EDGE, _MAX_AT_EDGE = 0.85, 1e-3  # and beyond a share of that way is this share of the weights at most.
_UNIFORM = 0.1  # This share of the sample is drawn whatever remainders are.
_PILOT, _PARTS, _N_CHECKED = 512, 32, 64  # Rows and parts of a sample, and points that it is seen at.
TARGET_ERROR = 0.01  # Of log weights, in nats; means are off by as many posterior sds at most.
_SAFE = 1.2  # A sample is so many times as large as the pilot asks for.


class Expansion(NamedTuple):
    """A quadratic in theta that stands for the log-likelihood of rows."""

    centre: np.ndarray  # (d,): Its value there is ``constant``, its gradient ``slope``.
    slope: np.ndarray  # (d,): Gradient.
    precision: np.ndarray  # (d, d): Minus its second derivatives.
    constant: float = 0.0
    misfit: float = 0.0  # Spread, under the posterior, of what it lacks of the log-likelihood, in nats.
    # (d, d): It is -inf where (theta - centre) @ reach is longer than one; None where it ends nowhere.
    reach: np.ndarray | None = None

    def value(self, theta):
        """The quadratic at each row of theta, (m,)."""
        u = theta - self.centre
        curved = np.einsum("mi,mi->m", u @ self.precision, u)
        value = self.constant + u @ self.slope - 0.5 * curved
        if self.reach is None:
            return value
        return np.where(self.distances(theta) <= 1.0, value, -np.inf)

    def gradient(self, theta):
        """Its gradient, of the shape of theta."""
        return self.slope - (theta - self.centre) @ self.precision

    def distances(self, theta):
        """How far rows of theta are from the centre, (m,), as a share of the reach."""
        return np.linalg.norm((theta - self.centre) @ self.reach, axis=-1)

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

    @property
    def centre(self):
        """Near the mode, (d,)."""
        return self.rest.centre

    def times(self, power):
        """The same of a likelihood to a power."""
        batches = [batch._replace(weight=power * batch.weight) for batch in self.batches]
        return self._replace(rest=self.rest.times(power), batches=batches)


def expansion_of(model, mean, batches):
    """The `Expansion` of the log-likelihood of batches at a point (d,)."""
    slope, precision = model.derivatives(mean, batches)
    of_prior = model.derivatives(mean, [])
    constant = sum(float(model.log_likelihood(mean[None], batch)[0]) for batch in batches)
    return Expansion(mean, slope - of_prior[0], precision - of_prior[1], constant)


@phase("expansion of all rows")
def sampled(model, rows, power, rng):
    """The `Sample` of rows that suffices, or None where all are to be looked at.

    ``rows`` are `skpmd._rows.rows.Rows`; the model offers ``remainders`` beside what `laplace`
    wants, and ``power`` is that of the likelihood.
    """
    n = len(rows)
    if n < _FEWEST:
        return None
    start = _of_subsamples(model, rows, power, rng)
    # Of rows in memory one batch leaves more to large products of matrices.
    batches = [rows.data] if is_in_memory(rows.data.X) else rows.whole()
    if start is None:
        return None
    mean = _near_mode(model, batches, start, power)
    whole = expansion_of(model, mean, batches)
    precision = model.derivatives(mean, [])[1] + power * whole.precision
    gaussian = Gaussian(mean, chol_of_inverse(precision))
    # Far out the difference of two quadratics is no small thing beside a likelihood that is linear.
    # Nothing is there of a posterior like this, which is looked at below.
    reach = np.linalg.cholesky(precision) / (np.sqrt(len(mean)) + _FAR)
    found = [model.remainders(*gaussian, batch) for batch in batches]
    sizes = np.concatenate(found)
    if not np.isfinite(sizes).all():
        return None
    points = np.random.default_rng(0).standard_normal((_N_CHECKED, len(mean)))
    points = mean + points @ gaussian.chol.T
    drawn = partial(_drawn, model, rows, whole, reach, sizes)
    pilot = drawn(_PILOT, rng)
    error = power * error_of(model, pilot, points)
    n_rows = int(min(np.ceil(_SAFE * _PILOT * (error / TARGET_ERROR) ** 2), n))
    if n_rows > _LARGEST * n:
        return None
    return pilot if n_rows <= _PILOT else drawn(n_rows, rng)


def _of_subsamples(model, rows, power, rng):
    """Laplace's approximation by rows that stand for all; None where there may be several modes."""
    size, found = max(_FIRST, _PER_COORDINATE * model.n_coordinates), None
    while size <= _LARGEST * len(rows):
        places, counts = stratified_sample(rows.data.weight, size, rng)
        some = rows.take(places)
        some = some._replace(weight=counts * (rows.total / size))
        if found is None:
            starts = model.starts([some])
            if len(starts) > 1:
                return None
        found = laplace(model, [some], found.mean if found else starts[0], power, tol=_NEAR)
        size *= _GROWTH
    return found


def _near_mode(model, batches, start, power):
    """A point (d,) near the mode of all rows, by their gradients in the metric of ``start``.

    Where steps do not come nearer, as of columns that the rows of ``start`` do not know, they are
    Newton's.
    """
    (mean, chol), before = start, np.inf
    for _ in range(_MAX_STEPS):
        scaled = model.log_joint_gradient(mean[None], batches, power)[1][0] @ chol
        length = np.linalg.norm(scaled)
        if length < _OFF:
            return mean
        if not length < _NEARER * before:
            break
        mean, before = mean + chol @ scaled, length
    return laplace(model, batches, start.mean, power, tol=_NEAR).mean


def _drawn(model, rows, whole, reach, sizes, n, rng):
    """A `Sample` of so many rows, most of them drawn in proportion to sizes of their remainders."""
    weight = rows.data.weight
    for _ in range(_TRIMS):  # Rows of more than the share of one are there for certain, and once.
        sizes = np.minimum(sizes, sizes.sum() / ((1.0 - _UNIFORM) * n))
    share = _UNIFORM / weight.sum() * weight
    if sizes.any():
        share = share + (1.0 - _UNIFORM) / sizes.sum() * sizes
    places, counts = stratified_sample(share, n, rng)
    weight = weight[places] * counts * (share.sum() / n) / share[places]
    is_certain = np.isclose(weight, rows.data.weight[places], rtol=1e-9, atol=0.0)
    some = rows.take(places)._replace(weight=weight)
    free = np.flatnonzero(~is_certain)
    parts = [np.flatnonzero(is_certain), *(free[i::_PARTS] for i in range(_PARTS))]
    batches = [some.take(part) for part in parts]
    mean = whole.centre
    expansions = [expansion_of(model, mean, [batch] if len(batch.weight) else []) for batch in batches]
    rest = whole.plus(reduce(Expansion.plus, expansions).times(-1.0))._replace(reach=reach)
    return Sample(rest, batches, expansions, len(places))


def is_within(sample, particles):
    """Whether weights have ended long before the sample's reach."""
    is_far = sample.rest.distances(particles.theta) > _EDGE
    return weights(particles.log_ratio)[is_far].sum() < _MAX_AT_EDGE


def gap_of(model, sample, batches, theta):
    """What log weights by the sample differ by from those by all rows, root mean square, in nats."""
    by_sample = sample.rest.value(theta) + log_likelihood(model, theta, sample.batches)
    return float((by_sample - log_likelihood(model, theta, batches)).std())


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
