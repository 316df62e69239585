"""Reweighting at the price of a few passes: an expansion of all rows, and remainders of some.

Near its mode the log-likelihood of many rows is a quadratic, or a cubic, plus a small remainder,
and the sum of the rows' remainders is known well from a few hundred of them, or thousands. So the
particles are weighed by

    Q(theta) + sum over a sample of w_i (l_i(theta) - q_i(theta)),

Q the expansion of all rows at the mode and q_i that of a row: one polynomial, and the weighted rows
of the sample. A `SampledModel` takes the place of the model, with the sample for its batches. Rows
are drawn in proportion to the size of their remainders, most of them, so that far rows are all
there. How far the weights are off is seen between parts of the sample, and at a few particles by
all rows. (Control variates for subsampled likelihoods: Bardenet, Doucet and Holmes 2017; Quiroz et
al. 2019.)
"""

from functools import reduce
from typing import NamedTuple

import numpy as np

from skpmd._runtime.call import phase
from skpmd.engine.mirror import log_likelihood
from skpmd.engine.particles import random_draws, weights
from skpmd.engine.variational import Gaussian, chol_of_inverse, laplace

FEWEST = 4000  # Rows from which it may pay,
_LARGEST = 0.25  # and the share of them that is looked at instead, at most.
# Searches for the mode begin with so many rows, and a few for each coordinate, and go on with so
# many times as many, each to within so many posterior sds.
_FIRST, _PER_COORDINATE, _GROWTH, _NEAR = 2000, 20, 16, 0.1
# The centre of an expansion is as near to the mode, in posterior sds. Steps that lead there are so
# many at most, and each ends so much nearer.
_OFF, _MAX_STEPS, _NEARER = 0.3, 8, 0.5
# A cubic of so few products is found at once; else where a quadratic asks for so many rows that
# their weights cost as much, and a thirtieth of them, or less, of which is few enough: those of a
# row cost so many products for each coordinate.
_FEW_PRODUCTS, _WORTH, _HOPE = 1e8, 10_000, 16
# Rows whose products stay in the cache, and numbers along directions that are there at once.
_AT_ONCE, _TABLE = 1024, 1 << 18
_PILOT, _N_CHECKED = 512, 64  # Terms of the first sample, and points that it is seen at.
# Of log weights by a sample, in nats; means are off by as many posterior sds at most.
TARGET_ERROR = 0.0125
# The error is seen at so many particles, at one of so many of them by all rows, and is at most so
# large.
_N_SEEN, _EVERY, _MAX_ERROR = 128, 16, 0.02
_SAFE = 1.2  # A sample is so many times as large as the first one asks for.
# So many sds beyond the typical distance from the mode is the end, and beyond this share of that
# way is this share of the weights at most.
_FAR, _EDGE, _MAX_AT_EDGE = 5.0, 0.85, 1e-3

_UNCHECKED = "weights by a sample of rows have not been compared with those by all rows"


class Expansion(NamedTuple):
    """A quadratic or cubic in theta that stands for the log-likelihood of rows."""

    centre: np.ndarray  # (d,): Its value there is ``constant``, its gradient ``slope``.
    slope: np.ndarray  # (d,): Gradient.
    precision: np.ndarray  # (d, d): Minus its second derivatives.
    constant: float = 0.0
    # Spread, under the posterior, of what it lacks of the log-likelihood, in nats.
    misfit: float = 0.0
    # Third derivatives, of a cubic: (d, d, d), or of few rows `Cubes`.
    third: "np.ndarray | Cubes | None" = None

    def value(self, theta):
        """The polynomial at each row of theta, (m,)."""
        u = theta - self.centre
        value = u @ self.slope - 0.5 * np.einsum("mi,mi->m", u @ self.precision, u)
        if isinstance(self.third, Cubes):
            value += self.third.value(u) / 6.0
        elif self.third is not None:
            value += _cubic_form(self.third, u) / 6.0
        return self.constant + value

    def gradient(self, theta):
        """Its gradient at a point (d,)."""
        u = theta - self.centre
        gradient = self.slope - u @ self.precision
        return gradient if self.third is None else gradient + 0.5 * _along(self.third, u) @ u

    def curvature(self, theta):
        """Minus its second derivatives at a point (d,)."""
        if self.third is None:
            return self.precision
        return self.precision - _along(self.third, theta - self.centre)

    def averaged(self, mean, cov):
        """The quadratic of its mean gradient and curvature under a Gaussian."""
        slope, value = self.gradient(mean), float(self.value(mean[None])[0])
        if self.third is not None:
            slope = slope + 0.5 * np.einsum("ijk,jk->i", _dense(self.third), cov)
        return Expansion(mean, slope, self.curvature(mean), value, self.misfit)

    def plus(self, other):
        """The sum of two, about the centre of this one."""
        return Expansion(
            self.centre,
            self.slope + other.gradient(self.centre),
            self.precision + other.curvature(self.centre),
            self.constant + float(other.value(self.centre[None])[0]),
            float(np.hypot(self.misfit, other.misfit)),
            _sum_of(self.third, other.third),
        )

    def times(self, factor):
        """So many times the polynomial."""
        return self._replace(
            slope=factor * self.slope, precision=factor * self.precision,
            constant=factor * self.constant,
            third=_times(self.third, factor),
        )  # fmt: skip


class Cubes(NamedTuple):
    """Third derivatives sum_n factor_n x_n x_n x_n, which few rows are quicker as."""

    rows: np.ndarray  # (n, d)
    factors: np.ndarray  # (n,)

    def value(self, u):
        """They along rows of u (m, d), three times: (m,)."""
        value, n_rows = np.zeros(len(u)), 1 + _TABLE // len(u)
        for start in range(0, len(self.rows), n_rows):
            some = slice(start, start + n_rows)
            along = u @ self.rows[some].T
            value += (along * along * along) @ self.factors[some]  # NumPy's powers take long.
        return value


def _along(third, u):
    """Third derivatives of either kind along a direction (d,): (d, d)."""
    if isinstance(third, Cubes):
        return (third.rows.T * (third.factors * (third.rows @ u))) @ third.rows
    return np.tensordot(u, third, 1)


def _dense(third):
    """Third derivatives as an array (d, d, d)."""
    if not isinstance(third, Cubes):
        return third
    return _third_of([third], third.rows.shape[1])


def _third_of(cubes, d):
    """The sum (d, d, d) of `Cubes`, or of pairs like them."""
    third = np.zeros((d, d, d))
    for rows, factors in cubes:
        for start in range(0, len(rows), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            columns, times = np.ascontiguousarray(rows[some].T), factors[some]
            for a, column in enumerate(columns):  # Others follow by symmetry.
                rest = columns[a:]
                third[a, a:, a:] += (rest * (times * column)) @ rest.T
    for a in range(d):
        third[a:, a, a:] = third[a:, a:, a] = third[a, a:, a:]
    return third


def _cubic_form(third, u):
    """Third derivatives (d, d, d) along rows of u (m, d), three times: (m,).

    By symmetry a product of three coordinates is found once, with the first of them.
    """
    value = np.zeros(len(u))
    for a in range(len(third)):
        rest, of_first = u[:, a:], 3.0 * third[a, a:, a:]
        of_first[0] *= 0.5
        of_first[:, 0] *= 0.5
        of_first[0, 0] *= 4.0 / 3.0
        value += u[:, a] * np.einsum("mi,mi->m", rest @ of_first, rest)
    return value


def _times(third, factor):
    """So many times third derivatives of either kind, or None."""
    if isinstance(third, Cubes):
        return third._replace(factors=factor * third.factors)
    return None if third is None else factor * third


def _sum_of(one, other):
    """The sum of third derivatives of either kind, either of which may be None."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, Cubes) and isinstance(other, Cubes):
        return Cubes(*map(np.concatenate, zip(one, other, strict=True)))
    return _dense(one) + _dense(other)


class Sample(NamedTuple):
    """Rows that stand for all where an expansion of all is known."""

    rest: Expansion  # What all rows have more than these, by expansions of both.
    reach: np.ndarray  # (d, d): The sample ends where (theta - centre) @ reach is longer than one.
    batches: list  # They, with weights of their own.
    # The same in strata, each of several parts that are drawn alike: batches and their expansions.
    strata: list
    n_rows: int
    times: float = 1.0  # How often the log-likelihood of the batches counts.
    error: float = np.nan  # Standard error of log weights at the particles, in nats.
    # Spread, under the posterior, of what a quadratic of all rows lacks, in nats.
    misfit: float = np.inf

    @property
    def centre(self):
        """Near the mode, (d,)."""
        return self.rest.centre

    def distances(self, theta):
        """How far rows of theta are from the centre, (m,), as a share of the reach."""
        return np.linalg.norm((theta - self.centre) @ self.reach, axis=1)


class SampledModel:
    """A model whose likelihood of all rows is that of a `Sample` and of what the expansion adds.

    It is the model in all else; the batches that it is given are those of the sample, or none.
    """

    def __init__(self, model, sample):
        self._model, self._sample = model, sample

    def __getattr__(self, name):
        """What the likelihood does not change; gradients are of the rows of the sample alone."""
        if name.endswith("_gradient"):
            raise AttributeError(f"A sample of rows has no {name}.")
        return getattr(self._model, name)

    def log_likelihood(self, theta, batch):
        """Weighted sum over the rows; what they lack of all comes with the first batch.

        Out of reach it goes on along chords from the centre, which are above a concave one, so that
        `error_of_weights` sees where this matters: by a quadratic a rare level's tail weighed
        nothing, unseen, and its sd was 5 % off.
        """
        distance = self._sample.distances(theta)
        far = np.flatnonzero(distance > 1.0)
        if not len(far):
            return self._within_reach(theta, batch)
        centre, times, theta = self._sample.centre, distance[far], theta.copy()
        theta[far] = centre + (theta[far] - centre) / times[:, None]
        value = self._within_reach(np.vstack([theta, centre]), batch)
        value[far] = value[-1] + times * (value[far] - value[-1])
        return value[:-1]

    def _within_reach(self, theta, batch):
        """The same where an expansion does."""
        known = self._sample.times * self._model.log_likelihood(theta, batch)
        is_first = batch is self._sample.batches[0]
        return known + self._sample.rest.value(theta) if is_first else known

    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian of the log joint density under a Gaussian."""
        gradient, precision = self._model.gaussian_target(mean, cov, batches, b)
        if not len(batches):
            return gradient, precision
        rest = self._sample.rest
        return gradient + b * rest.gradient(mean), precision + b * rest.curvature(mean)


def of_power(sample, power):
    """The same of a likelihood to a power; None stays None."""
    if sample is None:
        return None
    batches = [batch._replace(weight=power * batch.weight) for batch in sample.batches]
    return sample._replace(rest=sample.rest.times(power), batches=batches)


def expansion_of(model, mean, batches, chol=None):
    """The `Expansion` of the log-likelihood of batches, of few rows, at a point (d,).

    It is a cubic where the root of the covariance is given, with third derivatives that are
    averages under the Gaussian: a few more of the far ones of rows are in it so.
    """
    slope, precision = model.derivatives(mean, batches)
    of_prior = model.derivatives(mean, [])
    constant = sum(float(model.log_likelihood(mean[None], batch)[0]) for batch in batches)
    found = Expansion(mean, slope - of_prior[0], precision - of_prior[1], constant)
    if chol is None:
        return found
    return found._replace(third=reduce(_sum_of, _cubes(model, mean, batches, chol)))


def _cubes(model, mean, batches, chol):
    """Third derivatives of pieces of the batches."""
    inverse = np.linalg.inv(chol)
    for white, factor in model.third_derivatives(mean, chol, batches):
        yield Cubes(white @ inverse, factor)


@phase("expansion of all rows")
def sampled(model, terms, batches, power, rng, after=None):
    """The `Sample` of rows that suffices, or None where all are to be looked at.

    ``terms`` are what adds up to a log-likelihood, rows or groups, as `skpmd._rows.samples` has
    them, and ``batches`` are all rows; the model offers ``remainders`` and ``derivatives`` beside
    what `laplace` wants, and ``power`` is that of the likelihood. In a stream ``after`` are the
    model whose prior is what was known before, and a point near its mode.
    """
    n = len(terms.weight)
    if n < FEWEST:
        return None
    if after is None:
        start = _of_subsamples(model, terms, power, rng)
        if start is None:
            return None
        mean, target = _near_mode(model, batches, start, power), model
    else:
        target, mean = after
        mean = laplace(target, batches, mean, power, tol=_NEAR).mean
    whole = expansion_of(model, mean, batches)
    precision = target.gaussian_target(mean, None, [])[1] + power * whole.precision
    try:
        gaussian = Gaussian(mean, chol_of_inverse(precision))
        reach = reach_of(np.linalg.cholesky(precision))
    except np.linalg.LinAlgError:  # It is no mode: dispersions have no concave density.
        return None
    sizes = np.concatenate([model.remainders(*gaussian, batch) for batch in batches])
    if not np.isfinite(sizes).all():
        return None
    points = np.random.default_rng(0).standard_normal((_N_CHECKED, len(mean)))
    points = mean + points @ gaussian.chol.T

    def drawn(expansion, chol, n):
        return _sample_of(model, *terms.drawn(sizes, n, rng), reach, expansion, chol)

    def looked_at(expansion, chol=None):
        pilot = drawn(expansion, chol, _PILOT)
        error = power * error_of(model, pilot, points)
        return pilot, np.ceil(_SAFE * _PILOT * (error / TARGET_ERROR) ** 2)

    expansion, chol, n_drawn = whole, None, n
    n_products = n * model.n_logits * len(mean) ** 2 if model.has_third_derivatives else np.inf
    if n_products * len(mean) > _FEW_PRODUCTS:
        pilot, n_drawn = looked_at(expansion)
    if n_products < min(n_drawn, n) * _WORTH and n_drawn < _HOPE * n:
        chol = gaussian.chol
        expansion = whole._replace(third=_third_of(_cubes(model, mean, batches, chol), len(mean)))
        pilot, n_drawn = looked_at(expansion, chol)
    if n_drawn > _LARGEST * n:
        return None
    found = pilot if n_drawn <= _PILOT else drawn(expansion, chol, int(n_drawn))
    misfit = log_likelihood(SampledModel(model, pilot), points, pilot.batches) - whole.value(points)
    return found._replace(misfit=power * float(misfit.std()))


def reach_of(root):
    """Where an expansion ends, by a root of the precision of the posterior.

    Far out the difference of two quadratics is no small thing beside a likelihood that is linear.
    Nothing is there of a posterior like this, which `error_of_weights` looks at.
    """
    return root / (np.sqrt(len(root)) + _FAR)


def _of_subsamples(model, terms, power, rng):
    """Laplace's approximation by rows that stand for all; None where there may be several modes."""
    n, found = len(terms.weight), None
    size = min(max(_FIRST, _PER_COORDINATE * model.n_coordinates), n // 2)
    while found is None or size <= _LARGEST * n:
        some = terms.uniform(size, rng)
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


def _sample_of(model, batches, strata, reach, expansion, chol):
    """The `Sample` of batches, and of strata of parts, whose expansions are alike."""
    mean = expansion.centre
    strata = [
        [(part, expansion_of(model, mean, [part], chol)) for part in parts if len(part.weight)]
        for parts in strata
    ]
    of_parts = reduce(Expansion.plus, [one for parts in strata for _, one in parts])
    n_rows = sum(len(batch.weight) for batch in batches)
    rest = expansion.plus(of_parts.times(-1.0))
    return Sample(rest, reach, batches, strata, n_rows)


def checked(states, model, sample, batches, power, is_sound):
    """States of weights by a sample, and a last one that says how far these are off.

    It is there, and True is returned, where ``is_sound(last)`` and all rows agree; see
    `error_of_weights`.
    """
    for last in states:
        notes = {**last.findings.notes, "n_rows_weighed": sample.n_rows}
        last = last.with_findings(sample=sample, notes=notes)
        yield last.with_findings(reasons=(*last.findings.reasons, _UNCHECKED))
    error = error_of_weights(model, sample, batches, last.particles, power)
    if error is None or not is_sound(last):
        return False
    notes, sample = {**notes, "log_weight_error": error}, sample._replace(error=error)
    yield last._replace(infos=[]).with_findings(notes=notes, sample=sample)  # They are recorded.
    return True


def error_of_weights(model, sample, batches, particles, power):
    """Standard error of log weights of `Particles` by the sample, in nats; None of a large one.

    It is the larger of two: what parts of the sample say, and at a few particles what all rows do.
    There is none where weights reach as far as the expansion does, either.
    """
    w = weights(particles.log_ratio)
    if w[sample.distances(particles.theta) > _EDGE].sum() > _MAX_AT_EDGE:
        return None
    theta = particles.theta[random_draws(w, _N_SEEN, np.random.default_rng(0))]
    error = power * error_of(model, sample, theta)
    if error > _MAX_ERROR:
        return None
    some = theta[::_EVERY]
    gap = SampledModel(model, sample)
    gap = log_likelihood(gap, some, sample.batches) - log_likelihood(model, some, batches)
    error = max(error, power * float(gap.std()))
    return error if error <= _MAX_ERROR else None


def error_of(model, sample, theta):
    """Standard error of log weights at points theta (m, d) by the sample, root mean square."""
    variance = 0.0
    for parts in sample.strata:
        k = len(parts)
        if k > 1:
            gaps = [model.log_likelihood(theta, part) - one.value(theta) for part, one in parts]
            variance += k * np.var(gaps, axis=0, ddof=1).mean()
    return float(np.sqrt(variance))
