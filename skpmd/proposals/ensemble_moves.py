"""Moves of particles by values of their density alone, and mixtures of Students fitted to them.

Two proposals take turns by lot. One adds a multiple of the difference of two other particles, in
all coordinates or in some (differential evolution; ter Braak 2006, ter Braak and Vrugt 2008): it
has the shape of what the particles have spread over, whatever that is, and differences between two
modes lead from one to the other. The other draws from a mixture of Students fitted to the other
half of them and, where searches have found several optima, from what stands at these. In a
hierarchy a third moves a scale, and what it scales with it (`skpmd.proposals.non_centred`). All are
accepted by Metropolis's rule. Half of the particles move at a time, by differences of the other
half, so that each half's density stays what it is (Goodman and Weare 2010).
"""

from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.special import gammaln

from skpmd._runtime.call import counted, out_of_time, tick
from skpmd.engine import mirror
from skpmd.engine.diagnostics import rank_correlation, ranks, variance_of_increment
from skpmd.engine.edges import without_errors
from skpmd.engine.importance import TAIL_DF, Proposal
from skpmd.engine.particles import (
    Particles,
    Rejuvenated,
    accepted,
    adapted_step,
    effective_sample_size,
    log_sum_exp,
    moments,
    systematic,
    weights,
    whitened,
)

_MIN_MOVES, MAX_MOVES = 3, 100  # Each particle makes so many moves after a segment.
_AT_THE_END = 3  # And so many times as many at the end.
_FORGOTTEN = 0.15  # Moves end at this rank correlation with where they started.
FROM_FITTED = 0.3  # This share of moves are draws from the mixture,
_OF_OTHERS = 0.3  # and this share of these from what else is known.
_ACCEPT = 0.25  # Of differences; their lengths are adapted to that,
_SPREAD = 0.3  # and vary by this on the log scale.
_OF_SCALES = 0.3  # And this share of all others are moves of the scales of a hierarchy.
_JUMP = 0.1  # This share of differences are taken whole.
_SOME = (1.0, 0.5)  # Shares of the coordinates that move, and a few, are equally likely.
_FEW = 1.5
MAX_COMPONENTS, _ITERATIONS = 5, 10  # Of the mixture, and of its fit.
_EACH_COMPONENT = 10.0  # A component has so many effective particles a coordinate.
_TOL = 1e-4
_NARROWEST, _JITTER = 1e-3, 1e-9  # Of components and of the whole, in units of the whole.
_OF_FAR = 0.25  # Share of the proposals where squares are large,
_SQUARES = 1e-12, 1e12  # as far as these.


class _State(NamedTuple):
    """Particles, and what their densities are made of."""

    theta: np.ndarray  # (m, d)
    log_prior: np.ndarray  # (m,)
    log_likelihood: np.ndarray  # (m,): To the power of the fit.

    def value(self, done):
        """Log density (m,) when the step has come so far."""
        with np.errstate(invalid="ignore"):
            value = self.log_prior + done * self.log_likelihood
        return np.where(np.isnan(value), -np.inf, value)


class Account(NamedTuple):
    """What moves have come to."""

    # Of the increments so far, and of the square of their error.
    log_evidence: float = 0.0
    variance: float = 0.0
    # The largest rank correlation that the last moves have left, of a coordinate or of the density.
    correlation: float = 0.0
    fitted: tuple = ()  # Components and shares of the mixture fitted after each segment.
    # Logs of the lengths of differences, and of moves of scales.
    log_step: float = 0.0
    log_scale_step: float = 0.0


class EnsembleMoves:
    """Strategy of rejuvenation: resampled particles, moved by a chain that leaves q as it is.

    The step goes from the prior to the posterior, whose log-likelihood has the ``power``. ``known``
    are components and shares of a mixture that knows places of modes, or None. Particles make
    ``max_moves`` after a segment, at most, of which the share ``from_fitted`` are draws from the
    mixture, which has at most ``max_components``. ``hierarchy`` are the scales that the prior has,
    or None. The ``account``, an `Account`, says what has come of them.
    """

    follows = True

    def __init__(
        self, model, batches, power, known=None, max_moves=MAX_MOVES, from_fitted=FROM_FITTED,
        max_components=MAX_COMPONENTS, hierarchy=None,
    ):  # fmt: skip
        self._model, self._batches, self._power, self._known = model, batches, power, known
        self._max_components, self._hierarchy = max_components, hierarchy
        self._scales = np.array([one.j for one in hierarchy.scales]) if hierarchy else None
        self._log_prior = without_errors(model.log_prior)
        self._max_moves, self._from_fitted = max_moves, from_fitted
        self.account = Account()

    def __call__(self, particles, model, settings, rng, *, n_particles, done):
        """Resampled and moved particles of q, r = 0."""
        log_ratio, w = particles.log_ratio, weights(particles.log_ratio)
        m, increment = len(w), log_sum_exp(log_ratio) - np.log(len(w))
        of_increment = variance_of_increment(m, 1.0 / (w @ w), self.account.correlation)
        variance = self.account.variance + of_increment
        kept = systematic(w, n_particles, rng)
        theta, log_prior = particles.theta[kept], particles.log_prior[kept]
        log_likelihood = self._likelihood(theta, log_prior)
        state = _State(theta, log_prior, log_likelihood)
        # Copies of one particle stand beside one another, in one half but for the middle one.
        first, n_moves, parts = _ranks(state, done), 0, np.array_split(np.arange(n_particles), 2)
        fitted = [self._fit(theta[part], rng) for part in parts]
        self.account = self.account._replace(
            log_evidence=self.account.log_evidence + increment, variance=variance,
            fitted=(*self.account.fitted, fitted[0]),
        )  # fmt: skip
        mixtures = [self._mixture(*one) for one in fitted]
        most = self._max_moves if done < 1.0 else _AT_THE_END * self._max_moves
        for t in counted(range(most), "moves"):
            tick(long=True)
            if t >= _MIN_MOVES and out_of_time("the steps from the prior"):
                break
            for own, others, mixture in zip(parts, parts[::-1], mixtures[::-1], strict=True):
                self._move(state, own, state.theta[others], mixture, done, t, rng)
            n_moves += 1
            correlation = rank_correlation(first, _ranks(state, done)).max()
            self.account = self.account._replace(correlation=correlation)
            if n_moves >= _MIN_MOVES and correlation < _FORGOTTEN:
                break
        fresh = Particles(
            state.theta, np.zeros(n_particles), state.value(done), state.log_prior,
            np.empty((n_particles, 0)),
        )  # fmt: skip
        record = {"power": done, "log_increment": increment, "n_moves": n_moves}
        return Rejuvenated(fresh, log_likelihood=state.log_likelihood / self._power, record=record)

    def _likelihood(self, theta, log_prior):
        def of(some):
            inside = log_prior if some is theta else self._log_prior(some)
            return mirror.log_likelihood_inside(self._model, some, self._batches, inside)

        with np.errstate(all="ignore"):
            return self._power * without_errors(of)(theta)

    def _fit(self, theta, rng):
        """Components and shares of a mixture fitted to particles (k, d)."""
        equal = np.zeros(len(theta))
        return student_mixture(theta, equal, rng, self._max_components, _ITERATIONS)

    def _mixture(self, parts, shares):
        """What to draw from."""
        if self._known is not None:
            parts = parts + self._known[0]
            shares = np.concatenate([(1.0 - _OF_OTHERS) * shares, _OF_OTHERS * self._known[1]])
        return StudentMixture(parts, shares)

    def _move(self, state, own, others, mixture, done, t, rng):
        """Move the ``own`` particles once, in place."""
        theta = state.theta[own]
        new = theta + _differences(others, theta.shape, np.exp(self.account.log_step), rng)
        fitted = rng.random(len(own)) < self._from_fitted
        new[fitted] = mixture.draws(int(fitted.sum()), rng)
        of_scales, log_volume = np.zeros(len(own), dtype=bool), np.zeros(len(own))
        if self._hierarchy:
            of_scales = ~fitted & (rng.random(len(own)) < _OF_SCALES)
            j = rng.choice(self._scales, of_scales.sum())
            step = np.exp(self.account.log_scale_step + rng.standard_normal(len(j)))
            step *= rng.standard_normal(len(j)) * others.std(axis=0)[j]
            new[of_scales], log_volume[of_scales] = self._hierarchy.moved(theta[of_scales], j, step)
        with np.errstate(all="ignore"):  # Scales go further than anything else.
            log_prior = self._log_prior(new)
        moved = _State(new, log_prior, self._likelihood(new, log_prior))
        before = _State(*(part[own] for part in state))
        log_ratio = moved.value(done) - before.value(done)
        log_ratio[fitted] += mixture.log_density(theta[fitted]) - mixture.log_density(new[fitted])
        log_ratio += log_volume
        taken, chance = accepted(log_ratio, rng)
        for part, fresh in zip(state, moved, strict=True):
            part[own[taken]] = fresh[taken]
        known = self.account
        self.account = known._replace(
            log_step=_adapted(known.log_step, chance[~fitted & ~of_scales], t),
            log_scale_step=_adapted(known.log_scale_step, chance[of_scales], t),
        )


def _adapted(log_step, chances, t):
    """The log length of moves after the ``t``-th of them."""
    if not len(chances):
        return log_step
    return adapted_step(log_step, float(chances.mean()), _ACCEPT, t)


def _differences(others, shape, factor, rng):
    """What moves by differences add, (k, d)."""
    k, d = shape
    one = rng.integers(len(others), size=k)
    other = (one + 1 + rng.integers(len(others) - 1, size=k)) % len(others)
    share = rng.choice([*_SOME, _FEW / d], size=(k, 1))
    moving = rng.random((k, d)) < share
    moving[np.arange(k), rng.integers(d, size=k)] = True
    length = 2.38 / np.sqrt(2.0 * moving.sum(axis=1)) * factor
    length = length * np.exp(_SPREAD * rng.standard_normal(k))
    length = np.where(rng.random(k) < _JUMP, 1.0, length)
    return moving * length[:, None] * (others[one] - others[other])


def _ranks(state, done):
    """Ranks of what is to be forgotten: of coordinates, and of the density, (d + 1, m)."""
    return ranks(np.vstack([state.theta.T, state.value(done)]))


# ------------------------------------------------------------------- mixtures of Students
class StudentMixture:
    """Independent draws, many times, from proposals with Student tails and no skewed axes."""

    def __init__(self, parts, shares):
        self._shares, d = shares, len(parts[0].mean)
        self._df = np.array([one.df for one in parts])
        self._means = np.stack([one.mean for one in parts])
        self._factors = np.stack([one.factor for one in parts])
        self._inverses = np.linalg.inv(self._factors)
        self._terms = np.log(shares) - np.linalg.slogdet(self._factors)[1]
        self._terms += gammaln(0.5 * (self._df + d)) - gammaln(0.5 * self._df)
        self._terms -= 0.5 * d * np.log(self._df * np.pi)

    def draws(self, n, rng):
        """Independent draws (n, d)."""
        which = rng.choice(len(self._shares), n, p=self._shares)
        z = rng.standard_normal((n, self._means.shape[1]))
        z /= np.sqrt(rng.chisquare(self._df[which]) / self._df[which])[:, None]
        return self._means[which] + (self._factors[which] @ z[:, :, None])[:, :, 0]

    def log_density(self, theta):
        """Log density at points (n, d), shape (n,)."""
        white = (theta - self._means[:, None]) @ self._inverses.transpose(0, 2, 1)
        of_tails = np.log1p((white**2).sum(axis=2).T / self._df)
        terms = self._terms - 0.5 * (self._df + theta.shape[1]) * of_tails
        return np.logaddexp.reduce(terms, axis=1)


def mixtures_of_particles(theta, log_ratio, hierarchy, rng):
    """Components and shares of mixtures fitted to particles (m, d) of log weights (m,).

    One fits their density and one their squares, and where there is a hierarchy two more do the
    same in its units.
    """
    parts, shares = [], []
    for scaled in (None,) if hierarchy is None else (None, hierarchy):
        places = theta if scaled is None else scaled.outward(theta)
        kept = np.isfinite(places).all(axis=1)
        places, own = places[kept], log_ratio[kept]
        for log_weights, share in ((own, 1.0 - _OF_FAR), (_by_squares(places, own), _OF_FAR)):
            found, of_each = student_mixture(places, log_weights, rng)
            parts += [one._replace(hierarchy=scaled) for one in found]
            shares.append(share * of_each)
    shares = np.concatenate(shares)
    return parts, shares / shares.sum()


def _by_squares(theta, log_ratio):
    """Log weights (m,) times the largest square of a standardised coordinate.

    A mean square is known best by draws of the density times the square. Where a percent of the
    mass has most of a variance, few particles of the density are there.
    """
    mean, covariance = moments(theta, log_ratio)
    variance = np.maximum(np.diag(covariance), np.finfo(float).tiny)
    with np.errstate(over="ignore"):  # Where all of the weight is one particle's.
        squares = ((theta - mean) ** 2 / variance).max(axis=1)
    return log_ratio + np.log(np.clip(squares, *_SQUARES))


def student_mixture(theta, log_weights, rng, max_components=10, max_iter=30):
    """Components (a `Proposal` each) and their shares, of particles (m, d) and log weights (m,).

    They are found by expectation maximisation of scale mixtures (Peel and McLachlan 2000), as many
    as the particles can tell apart. The mixture is a proposal, whose draws are weighed: it need not
    be the best one, but reach as far as the particles do. Covariances of few particles are drawn
    towards that of the whole.
    """
    alive = log_weights > -np.inf
    theta, log_weights = theta[alive], log_weights[alive]
    mean, covariance = moments(theta, log_weights)
    d, w, ess = len(mean), weights(log_weights), effective_sample_size(log_weights)
    # One particle may have all the weight, and a variance of next to nothing.
    reach = np.maximum(np.abs(theta - mean).max(axis=0), np.finfo(float).tiny ** 0.25)
    scale = np.maximum(np.sqrt(np.diag(covariance)), _JITTER * reach)
    correlation = covariance / scale / scale[:, None]
    chol = scale[:, None] * np.linalg.cholesky(correlation + _JITTER * np.eye(d))
    white = whitened(theta, mean, chol)
    n_components = int(np.clip(ess / (_EACH_COMPONENT * d), 1, max_components))
    shares, means, roots = _fitted(white, w, ess, _clusters(white, w, n_components, rng), max_iter)
    parts = [
        Proposal(mean + chol @ one, chol @ root, TAIL_DF)
        for one, root in zip(means, roots, strict=True)
    ]
    return parts, shares


def _clusters(white, w, n_components, rng):
    """Responsibilities (m, K) of 0 and 1, by k-means on draws of equal weight."""
    if n_components == 1:
        return np.ones((len(w), 1))
    draws = white[systematic(w, len(w), rng)]
    if not np.ptp(draws, axis=0).max() > np.sqrt(np.finfo(float).tiny):  # Distances are zero.
        return np.ones((len(w), 1))
    centres = np.unique(draws, axis=0)
    if len(centres) > n_components:
        centres, label = kmeans2(draws, n_components, minit="++", rng=rng)
        centres = centres[np.unique(label)]
    nearest = ((white[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    return np.eye(len(centres))[nearest]


def _fitted(white, w, ess, responsibility, max_iter):
    """Shares, means and Cholesky factors by expectation maximisation."""
    d, last = white.shape[1], -np.inf
    nearness = np.ones(responsibility.shape)
    for _ in range(max_iter):
        shares = w @ responsibility
        enough = shares * ess > d + 2.0
        enough[shares.argmax()] = True
        if not enough.all():
            responsibility, nearness = responsibility[:, enough], nearness[:, enough]
            responsibility = responsibility / np.maximum(
                responsibility.sum(axis=1, keepdims=True), np.finfo(float).tiny
            )
            shares = w @ responsibility
        table = w[:, None] * responsibility * nearness
        means = table.T @ white / table.sum(axis=0)[:, None]
        roots = [
            _root(white - mean, column / share, (d + 1.0) / (share * ess + d + 1.0))
            for mean, column, share in zip(means, table.T, shares, strict=True)
        ]
        squares = np.stack(
            [(whitened(white, *one) ** 2).sum(axis=1) for one in zip(means, roots, strict=True)],
            axis=1,
        )
        terms = np.log(shares) - [np.log(np.diag(root)).sum() for root in roots]
        terms = terms - 0.5 * (TAIL_DF + d) * np.log1p(squares / TAIL_DF)
        nearness = (TAIL_DF + d) / (TAIL_DF + squares)
        total = np.logaddexp.reduce(terms, axis=1)
        responsibility, mean_log = np.exp(terms - total[:, None]), w @ total
        if mean_log - last < _TOL:
            break
        last = mean_log
    shares = w @ responsibility
    return shares / shares.sum(), means, roots


def _root(centred, w, towards):
    """Cholesky factor of a covariance, which is drawn ``towards`` one as wide, but round."""
    d = centred.shape[1]
    covariance = (centred.T * w) @ centred
    width = min(1.0, np.trace(covariance) / d)
    round_part = (towards * width + _NARROWEST**2) * np.eye(d)
    return np.linalg.cholesky((1.0 - towards) * covariance + round_part)
