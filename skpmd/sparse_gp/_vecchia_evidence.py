"""The best kernel by the likelihood of rows given their neighbours."""

import copy
from operator import itemgetter

import numpy as np

from skpmd._runtime.call import out_of_time, phase, write
from skpmd.sparse_gp._evidence import SEARCH, best_of, descended, minimised, objective_of
from skpmd.sparse_gp._starts import (
    are_length_scales,
    has_units,
    placed_starts,
    shortened,
    starts_around,
    with_other_noise,
)
from skpmd.sparse_gp._vecchia import VecchiaGP

# Rounds of a search: the rows whose density it maximises, which it takes from so many of all, its
# evaluations, and times how many neighbours unless these are given. In each the neighbours are
# those in the length scales that the round before has found. More of them tell better what is noise
# and what is smooth, and rows are many enough to decide when a round has eight thousand. From there
# on few evaluations are enough: rounds begin with the curvature that the one before has found.
_FIRST = 1000, 50_000, 20
_EARLY = 3  # Searches begin under so many covariances; the others are tried where rows decide.
_ROUNDS = (2000, 50_000, 25, 1), (8000, None, 8, 1)
_LAST_ROUNDS = ((20_000, None, 6, 2),)
# Of more rows than that all have a part at the end as well, with the neighbours of the rounds
# before, for where tails are heavy a few decide the density of thousands: most of the way is gone
# among some of them. After the first of these rounds length scales that are far from where they
# began come nearer by these factors, if its rows allow.
_MANY_ROWS = _LAST_ROUNDS[0][0]
_ROUNDS_OF_MANY = (40_000, None, 8, 1), (60_000, None, 25, 1), (300_000, None, 4, 1)
_NEARER = 30.0, 5.0
# A round of so many rows goes on with its best start alone. One of fewer leaves out those that are
# behind by more than so many standard errors, and those that are at the place of the best: their
# rows are as dense as its to so many nats.
_DECISIVE, _CLEARLY, _SAME = 8000, 3.0, 1e-3
# Length scales of another covariance begin at these times those of the first.
_FACTORS = 1.0, 0.3, 3.0, 10.0
_LEFT_OUT = 500  # Predictions of so many rows from all others have a part in the decision.
# A search ends where a step gains fewer nats, among some or very many rows and among all. In the
# first of the rounds of many it is more nats in proportion, and the second comes to its end where
# a third follows.
_MIN_GAIN, _LAST_MIN_GAIN = 0.2, 1e-5
# Neighbours of searches may be further than the nearest by this share: they are found in a quarter
# of the time, and nineteen of twenty are the same. Any neighbours make a likelihood.
_EPS = 0.8
# Where noise is more of the variance, searches among so many rows, of so many evaluations, begin
# with one length scale this much shorter, for so many columns at most.
_NOISY, _ONE_SHORT, _SHORT, _MANY_SCALES = 1.0 / 3.0, (2000, 25), 1e-3, 16
_CONVERGED = 1e-3  # Rounds on the same rows end when no log hyperparameter moves by more.


@phase("search for a kernel")
def best_kernel(parameters, covariances, sites, sample, rng, start=None):
    """The covariance and hyperparameters of the largest likelihood of minibatches of rows.

    There may be several covariances, with the same hyperparameters (d,): one of them is chosen.
    ``start`` (d,) are those of an earlier fit; without it searches begin at the kernel's own, at
    others around it and at short length scales, and several of their ends may go on from round to
    round, until eight thousand rows or all of them decide.
    """
    covariance, optimizer = covariances[0], parameters.search.optimizer
    if optimizer is None or not covariance.kernel.n_dims:
        return covariance, covariance.kernel.theta
    if callable(optimizer):
        kernel = covariance.kernel
        rows = some_rows(len(sites.weight), _ROUNDS_OF_MANY[0][0], rng)
        batch = _Batch(parameters, covariance, sites, kernel.theta, rows)
        theta, *_ = minimised(batch.gradient, kernel.theta, kernel.bounds, optimizer)
        return covariance, np.asarray(theta, dtype=np.float64)
    if start is not None:
        ends = _through(_ROUNDS, parameters, (), [(covariance, start, None)], sites, sample, rng)
    else:
        ends = _anew(parameters, covariances, sites, sample, rng)
    n = len(sites.weight)
    # Few thousand rows of many may have decided against what is rough by chance.
    again = covariances[_EARLY:] if n > _ROUNDS_OF_MANY[0][0] else ()
    return _through(_last_rounds(n), parameters, again, ends, sites, None, rng)[0][:2]


def _last_rounds(n):
    """The last rounds among n rows, until one has all of them or no more are allowed."""
    if n <= _MANY_ROWS:
        return _LAST_ROUNDS
    n_first = sum(one[0] < n for one in _ROUNDS_OF_MANY) + 1
    return _ROUNDS_OF_MANY[:n_first]


def _anew(parameters, covariances, sites, sample, rng):
    """The end [(covariance, theta)] of searches that nothing but the kernel's own value begins."""
    many, has_restarts = len(sites.weight) > _DECISIVE, parameters.search.n_restarts_optimizer > 0
    early = [one for one in _ROUNDS if one[0] < _DECISIVE] if many else _ROUNDS
    ends = _first(parameters, covariances[:_EARLY], sites, sample, rng)
    ends = _through(early, parameters, covariances, ends, sites, sample, rng, has_restarts)
    if many and has_restarts and are_length_scales(covariances[0].kernel).any():
        noise = ends[0][0].term(ends[0][1]).noise
        if noise > _NOISY * np.average(sites.y**2, axis=0, weights=sites.weight).mean():
            rough = covariances[:2][-1]  # Of several the second is rough.
            end = _with_one_short(parameters, rough, 0.5 * noise, sites, rng)
            ends = [*ends, (rough, end, None)]
    return _through(_ROUNDS[len(early) :], parameters, covariances, ends, sites, sample, rng)


def _through(rounds, parameters, covariances, ends, sites, sample, rng, tries_short=False):
    """Ends [(covariance, theta, curvature), ...] of searches in rounds that go on from others.

    In the first that decides the best goes on under each covariance: searches under the others may
    not have come to where it is.
    """
    for one in rounds:
        if out_of_time(SEARCH):
            break
        n_rows, n_all, n_evaluations, times = one
        some = _first_of(sites, n_all)
        rows = some_rows(len(some.weight), n_rows, rng)
        is_all = len(rows) == len(sites.weight)
        decides = is_all or n_rows >= _DECISIVE
        starts = []
        for own, theta, curvature in ends:
            batch = _Batch(parameters, own, some, theta, rows, times)
            batch.curvature = curvature if decides else None
            starts.append((batch, theta))
        starts = _starts_of(starts, sample, tries_short, decides)
        if decides:
            (batch, theta), *_ = starts
            others = [batch.under(o) for o in covariances if o is not batch.covariance]
            for other in others if one in _ROUNDS_OF_MANY else ():
                other.curvature = None  # Its scales may lie far from those of the best.
            # Few evaluations follow.
            starts = [(batch, theta), *((other, _scaled_alike(other, theta)) for other in others)]
            covariances = ()
        write(f"kernel: search by the likelihood of {len(rows)} rows")
        gain, is_last_but_one = _MIN_GAIN, one is _ROUNDS_OF_MANY[1] and one is not rounds[-1]
        if one is _ROUNDS_OF_MANY[0] and not is_all:
            gain *= len(rows) / _DECISIVE
        elif is_last_but_one or (is_all and len(rows) <= _MANY_ROWS):
            gain = _LAST_MIN_GAIN
        if sample is None:  # In the last rounds the more directions the more there is to mend.
            n_evaluations += len(starts[0][1]) // 4
        searched = [batch.search(at, n_evaluations, gain) for batch, at in starts]
        found = [
            (batch, end.theta, end.inverse_hessian)
            for (batch, _), end in zip(starts, searched, strict=True)
        ]
        if decides:
            found = [_decided(found)]
        if one is _ROUNDS_OF_MANY[0] and not is_all:
            found = [(batch, _with_sensible_scales(batch, at), known) for batch, at, known in found]
        ends = [(batch.covariance, theta, known) for batch, theta, known in found]
        if is_all and np.abs(ends[0][1] - starts[0][1]).max() < _CONVERGED:
            break
    return ends


def _first(parameters, covariances, sites, sample, rng):
    """Ends [(covariance, theta, None), ...] of searches on few rows, one of each covariance.

    The first covariance is searched from several places, and the others from where the best of
    these searches has ended and, as that was, from short length scales.
    """
    covariance, (n_rows, n_all, n_evaluations) = covariances[0], _FIRST
    sites = _first_of(sites, n_all)
    kernel, n = covariance.kernel, len(sites.weight)
    some, rows = some_rows(n, n_rows, rng), some_rows(n, n_rows, rng)

    def batch_of(theta, rows=some):
        return _Batch(parameters, covariance, sites, theta, rows)

    def best_end(covariance, starts):
        write(f"kernel: searches by the likelihood of {n_rows} rows")
        ends = [batch.under(covariance).search(at, n_evaluations).theta for batch, at in starts]
        # They are compared on other rows: a bad end must not win by those of its search.
        values = [batch_of(end, rows).under(covariance).value(end) for end in ends]
        return ends[int(np.argmax(values))]

    batch = batch_of(kernel.theta)
    first = _with_best_noise(batch, kernel.theta, sample)
    n_restarts = parameters.search.n_restarts_optimizer
    placed = ()
    if n_restarts and has_units(kernel, sample):
        placed = placed_starts(covariance, sample, batch.value)
    starts = starts_around(covariance, first, n_restarts, rng, placed)
    if len(starts) == len(covariances) == 1:
        return [(covariance, first, None)]
    # Other noise than the kernel's leaves length scales and neighbours as they are.
    starts = [(batch, starts[0]), *((batch_of(one), one) for one in starts[1:])]
    best = best_end(covariance, starts)
    # The last of several is the one of short length scales.
    again = [(batch_of(best), best), *starts[1:][-1:]]
    others = ((other, best_end(other, again), None) for other in covariances[1:])
    return [(covariance, best, None), *others]


def _with_one_short(parameters, covariance, noise, sites, rng):
    """The best end of searches that start at the kernel's own but with one very short length scale.

    Rows may be alike where one column is nearly equal, whatever the others are, as the flights of
    an hour are. As long as all columns have a part in who are neighbours this looks like noise.
    """
    theta = covariance.with_noise(covariance.kernel.theta, noise)
    rows = some_rows(len(sites.weight), _ONE_SHORT[0], rng)
    scales = np.flatnonzero(are_length_scales(covariance.kernel))[:_MANY_SCALES]
    write(f"kernel: searches by the likelihood of {len(rows)} rows")

    def ended(place):
        start = theta + np.log(_SHORT) * (np.arange(len(theta)) == place)
        start = np.clip(start, *covariance.kernel.bounds.T)
        batch = _Batch(parameters, covariance, sites, start, rows)
        end = batch.search(start, _ONE_SHORT[1]).theta
        return batch.value(end), end

    return max((ended(place) for place in scales), key=itemgetter(0))[1]


def _starts_of(starts, sample, tries_short, decides):
    """Where the searches of a round start, [(batch, theta), ...], the best by its rows first.

    Unless ``sample`` is None other noise is tried, for where there is hardly any no slope leads to
    more. With ``tries_short``, and unless the round ``decides``, the best has a companion of short
    length scales: what more rows show may be nothing that fewer did.
    """
    if decides and len(starts) > 1:
        starts = _undecided(starts, decides)
    if sample is not None:
        starts = [(batch, _with_best_noise(batch, theta, sample)) for batch, theta in starts]
    if len(starts) > 1:
        starts = _undecided(starts, decides)
    batch, theta = starts[0]
    short = shortened(batch.covariance, theta)
    if tries_short and not decides and not np.array_equal(short, theta):
        starts = [*starts, (batch, short)]
    return starts


def _with_best_noise(batch, theta, sample):
    """Theta with its own noise or another, whichever makes the rows of a batch denser."""
    return best_of(batch.value, with_other_noise(batch.covariance, theta, sample))


def _scaled_alike(batch, theta):
    """Theta with all length scales by the factor by which they make the rows of a batch densest.

    Those of a rougher covariance are longer where it says the same of near rows, by up to ten.
    """
    kernel = batch.covariance.kernel
    steps = np.log(_FACTORS)[:, None] * are_length_scales(kernel)
    return best_of(batch.value, list(np.clip(theta + steps, *kernel.bounds.T)))


def _with_sensible_scales(batch, theta):
    """Theta with its far too long or too short length scales nearer to where they began.

    Far out no slope leads back, and a few rows of many may tell: what the rows of the batch do not
    clearly speak against is a better start for a search among more.
    """
    kernel = batch.covariance.kernel
    own = batch.densities(theta)
    for place in np.flatnonzero(are_length_scales(kernel)):
        away = theta[place] - kernel.theta[place]
        for step in np.log(_NEARER):
            if abs(away) > step:
                other = theta - step * np.sign(away) * (np.arange(len(theta)) == place)
                found = batch.densities(other)
                mean, error = _behind(own, found)
                if mean <= _CLEARLY * error:
                    theta, own = other, found
                    break
    return theta


def _undecided(starts, decide):
    """Those of [(batch, theta), ...] that may be the best by their rows, the best first."""
    found = np.array([batch.densities(theta) for batch, theta in starts])
    order = np.argsort(-found.sum(axis=1))
    if decide:
        return [starts[order[0]]]
    mean, error = _behind(found[order[0]], found)
    same = (mean < _SAME) & (error < _SAME)  # Searches that have ended at one place.
    some = np.flatnonzero(~same[order] & (mean <= _CLEARLY * error)[order])
    # One companion is enough: under other covariances the best goes on where rows decide.
    return [starts[i] for i in (order[0], *order[some][:1])]


def _decided(ends):
    """The best of [(batch, theta, curvature), ...] by their rows of those that predict well.

    Smoothness that the rows given 20 neighbours allow may be wrong by many sds given 100, so that
    those whose predictions are clearly behind are left out.
    """
    if len(ends) == 1:
        return ends[0]
    found = np.array([batch.left_out(theta) for batch, theta, _ in ends])
    mean, error = _behind(found[found.sum(axis=1).argmax()], found)
    ends = [ends[i] for i in np.flatnonzero(~(mean > _CLEARLY * error))]
    return max(ends, key=lambda end: end[0].value(end[1]))


def _behind(best, found):
    """By how many nats a row log densities (..., k) are behind others, and the standard error."""
    behind = best - found
    return behind.mean(axis=-1), behind.std(axis=-1) / np.sqrt(behind.shape[-1])


def _first_of(sites, n):
    """The first of the rows, which are in random order: neighbours come before a row."""
    return sites if n is None or len(sites.weight) <= n else sites.select(slice(n))


class _Batch:
    """Some rows, with their neighbours in the length scales of ``metric_of``."""

    curvature = None  # Inverse of it, (d, d), that a search among fewer rows has found.

    def __init__(self, parameters, covariance, sites, metric_of, rows, times=1):
        self.covariance, self._rows, self._weight = covariance, rows, np.ones(len(rows))
        # Per distinct row, the first step of a search has a sensible length, and copies of rows, of
        # which each counts, do not make gains look small.
        self._unit = 1.0 / len(rows)
        metric = covariance.term(metric_of).length_scale
        self._model = VecchiaGP(covariance, None, sites, metric, parameters.form.n_neighbors, _EPS)
        if parameters.form.n_neighbors == "auto":
            self._model.n_before *= times
        self._model.neighbourhoods(rows)  # Else several threads would look for them at once.
        self._bounds = covariance.kernel.bounds

    def densities(self, theta):
        """Log densities of the rows, (k,)."""
        return self._model.densities(theta, self._rows)

    def value(self, theta):
        """Log density of a row, on average."""
        return float(self.densities(theta).sum() * self._unit)

    def left_out(self, theta):
        """Log densities of some of the rows, 500 at most, each given the nearest of all others."""
        return self._model.log_density_left_out(
            theta, self._rows[:: -(-len(self._rows) // _LEFT_OUT)]
        )

    def gradient(self, theta):
        """Log density of a row, on average, and its slope."""
        value, slope = self._model.gradient(theta, self._rows, self._weight)
        return value * self._unit, slope * self._unit

    def search(self, theta, n_evaluations, min_gain=_MIN_GAIN):
        """The `End` of a search from theta, with the curvature of one among other rows or None."""
        start = np.clip(theta, *self._bounds.T)
        return descended(
            objective_of(self.gradient), start, self._bounds, n_evaluations, min_gain * self._unit,
            self.curvature,
        )  # fmt: skip

    def under(self, covariance):
        """The same rows and neighbours under another covariance of the same hyperparameters."""
        batch = copy.copy(self)
        batch.covariance, batch._model = covariance, self._model.under(covariance)
        return batch


def some_rows(n, n_some, rng):
    """Places of some of n rows, in order; all of them, without randomness, if they are no more."""
    if n <= n_some:
        return np.arange(n)
    return np.sort(rng.choice(n, n_some, replace=False))
