"""How far to trust draws: Pareto k-hat and evidence of weighted ones, R-hat and ESS of chains.

And what two estimates of one posterior disagree about, beyond their own errors.
"""

from typing import NamedTuple

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import ndtri

from skpmd.engine.particles import log_sum_exp, log_weights, moments, weights

# Above this k-hat averages over the particles are not to be trusted (Vehtari et al. 2024).
MAX_K = 0.7
MAX_R_HAT = 1.05  # Above this R-hat chains are at different places.
# A weight of this many times the mean weight is visible in averages over the particles.
_LARGE = 50.0
# The number of draws, over all coordinates, that diagnostics of chains work on at a time.
_BLOCK = 1 << 17
# Differences of a mean in sds, of a log sd and of the log evidence are worth a warning from here,
# and beyond so many standard errors.
_MEAN, _LOG_SD, _EVIDENCE, _ERRORS = 0.15, 0.15, 0.1, 3.0
# A log sd that differs by this much, which is wrong, need not be so far beyond its error.
_WRONG_LOG_SD, _FEW_ERRORS = 0.25, 2.5
_MAX_K_OF_SQUARES = 0.5
_MAX_SQUARE = 1e100  # In units of the variance.
_MAX_CORRELATION = 0.9  # A larger one of moves says no more about what particles are worth.


def max_k(n):
    """The k-hat up to which averages over n effective draws are to be trusted, at most 0.7.

    It is 1 - 1 / log10(n), from where on more draws than these are needed (Vehtari et al. 2024).
    """
    return min(1.0 - 1.0 / np.log10(max(n, 2.0)), MAX_K)


def heavy_tail(log_ratio, k, most=MAX_K):
    """Whether k-hat is above 0.7 and the tail that it describes would carry visible weight.

    k-hat has no scale: among nearly equal weights it is the shape of tiny differences, and no
    reason to worry. The size that the largest weight would have among ten times as many draws
    separates the two cases: the excess of the largest over the tail's start grows by 10^k. Another
    bound than 0.7 is ``most``.
    """
    if not k > most:
        return False
    tail = len(log_ratio) * np.exp(_largest(log_weights(log_ratio)))  # In units of the mean.
    return bool(tail[0] + 10.0**k * (tail[-1] - tail[0]) > _LARGE)


def pareto_k(log_ratio):
    """Shape of the generalised Pareto tail of importance weights (PSIS k-hat).

    Vehtari, Simpson, Gelman, Yao and Gabry, "Pareto smoothed importance sampling" (JMLR 2024): the
    min(0.2 m, 3 sqrt(m)) largest weights are fitted by the estimator of Zhang and Stephens
    (Technometrics 2009) with a weak prior at k = 0.5. Above 0.7 averages over the particles are not
    to be trusted. A small value is necessary, not sufficient: a tail that no particle reached does
    not show.

    ``log_ratio``, of shape (m,), holds unnormalised log weights of independent draws. k-hat is nan
    below 25 particles with a weight, -inf where fewer than five weights are above the tail's
    cutoff, or none is by more than rounding.
    """
    tail = _largest(log_ratio)
    if len(tail) < 6:
        return np.nan
    tail = np.exp(tail - tail[-1])
    excess = tail[1:] - tail[0]
    excess = excess[excess > 0.0]
    if len(excess) < 5 or excess[-1] <= 1e-12:
        return -np.inf
    k, _ = _generalised_pareto(excess)
    return float(_regularised(k, len(excess)))


def pareto_smoothed(log_ratio):
    """Normalised log weights (m,) and k-hat, from unnormalised ones.

    The largest are replaced by quantiles of the generalised Pareto distribution that fits them, and
    none is larger than the largest was (Vehtari et al. 2024, algorithm 1). k-hat is nan where too
    few are above the tail's cutoff, and nothing is replaced; it is -inf where these differ by no
    more than rounding.
    """
    out = log_ratio - log_ratio.max()
    n_tail = tail_length(np.isfinite(out).sum())
    if n_tail < 5:
        return log_weights(out), np.nan
    order = np.argsort(out)
    cutoff = np.exp(out[order[-n_tail - 1]])
    tail = order[-n_tail:]
    tail = tail[np.exp(out[tail]) > cutoff]  # Equal draws may be at the cutoff.
    excess = np.exp(out[tail]) - cutoff
    if len(tail) < 5 or excess[-1] <= 1e-12:
        return log_weights(out), -np.inf
    k, scale = _generalised_pareto(excess)
    k = _regularised(k, len(excess))
    if np.isfinite(k) and scale > 0.0:
        p = (np.arange(len(tail)) + 0.5) / len(tail)
        out[tail] = np.minimum(np.log(cutoff + _quantile(p, k, scale)), 0.0)
    return log_weights(out), float(k)


def _quantile(p, k, scale):
    """Quantiles of a generalised Pareto distribution that begins at 0."""
    if k == 0.0:
        return -scale * np.log1p(-p)
    return scale * np.expm1(-k * np.log1p(-p)) / k


def _regularised(k, n):
    """A shape from n values, with a weak prior at 0.5 as of ten."""
    return (k * n + 0.5 * 10) / (n + 10)


def _largest(log_ratio):
    """The tail of the log weights in ascending order, after its cutoff."""
    values = np.sort(log_ratio[log_ratio > -np.inf])
    return values[len(values) - tail_length(len(values)) - 1 :]


def tail_length(n):
    """How many of n weights are the tail."""
    return int(min(0.2 * n, 3.0 * np.sqrt(n)))


def _generalised_pareto(excess):
    """Shape and scale of a generalised Pareto distribution from ascending positive excesses."""
    n = len(excess)
    n_grid = 30 + int(np.sqrt(n))
    quartile = excess[int(n / 4 + 0.5) - 1]
    theta = 1.0 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))
    theta = theta / (3.0 * quartile) + 1.0 / excess[-1]
    k = np.log1p(-theta[:, None] * excess).mean(axis=1)
    inverse = np.full(n_grid, 1.0 / excess.mean())  # Of an exponential, where theta is zero.
    profile = n * (np.log(np.divide(-theta, k, out=inverse, where=k != 0.0)) - k - 1.0)
    best = weights(profile) @ theta
    k = np.log1p(-best * excess).mean()
    return k, -k / best


def log_evidence(log_ratio, group=None):
    """Log mean exponential of r and its standard error (delta method), both in nats.

    Unbiased for the evidence itself after a step of a = b = 1 on all data that nothing split, from
    particles whose density pi and prior are both normalised.

    ``log_ratio`` is r after the step, shape (m,). Particles of the same ``group``, (m,) integers
    from 0, were drawn together (antithetic pairs): the standard error then comes from the groups'
    means, which are independent.
    """
    total = log_sum_exp(log_ratio)
    if total == -np.inf:
        return -np.inf, np.nan
    m = len(log_ratio)
    relative = np.exp(log_ratio - total) * m  # mean one
    if group is not None:
        relative = np.bincount(group, relative) / np.bincount(group)
    if len(relative) < 2:
        return float(total - np.log(m)), np.nan
    error = relative.std(ddof=1) / np.sqrt(len(relative))
    return float(total - np.log(m)), float(error)


def evidence_of(outcome):
    """Log evidence and its standard error, nan where they are not known."""
    if outcome.evidence is not None:
        return outcome.evidence
    if np.isnan(outcome.particles.log_pi).any():
        return np.nan, np.nan
    value, error = log_evidence(outcome.particles.log_ratio, outcome.pair)
    sample = outcome.findings.sample
    return value, error if sample is None else float(np.hypot(error, sample.error))


class RankDiagnostics(NamedTuple):
    """Rank-normalised diagnostics of Markov chains, each an ndarray of shape (d,)."""

    # Rank-normalised R-hat of half chains: the larger one of two, of the draws and of their
    # distances from the median, each replaced by the normal scores of its ranks. It is near 1 where
    # all half chains have the same location and the same scale.
    r_hat: np.ndarray
    ess_bulk: np.ndarray  # Effective sample size of the normal scores.
    # The smaller one of the effective sample sizes of the 5 % and of the 95 % quantile.
    ess_tail: np.ndarray


def rank_diagnostics(draws):
    """R-hat and effective sample sizes of each coordinate that are defined for any distribution.

    Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization, folding, and localization:
    an improved R-hat for assessing convergence of MCMC" (Bayesian Analysis 2021).

    Draws have the shape (n_chains, n, d), n at least 4; the draw in the middle of chains of odd
    length is left out. All values are nan for a coordinate that never moved.
    """
    return RankDiagnostics(*np.concatenate([_by_ranks(x) for x in _half_chains(draws)], axis=1))


def ess_mean(draws):
    """Effective sample size of the mean of each coordinate, shape (d,).

    Draws are as of `rank_diagnostics`. The size may exceed their number where successive draws are
    negatively correlated; it is nan for a coordinate that never moved.
    """
    return np.concatenate([_ess(x) for x in _half_chains(draws)])


def _half_chains(draws):
    """Half chains of a few coordinates at a time: arrays of shape (k, 2 n_chains, n // 2)."""
    half = draws.shape[1] // 2
    width = max(1, _BLOCK // (2 * half * len(draws)))
    for first in range(0, draws.shape[2], width):
        some = draws[:, :, first : first + width]
        split = np.concatenate([some[:, :half], some[:, -half:]])
        yield np.ascontiguousarray(split.transpose(2, 0, 1), dtype=float)


def _by_ranks(x):
    """Compute the fields of `RankDiagnostics` from half chains x of shape (k, chains, n)."""
    flat = x.reshape(len(x), -1)
    n = flat.shape[1]
    order = np.argsort(flat, axis=1)
    ordered = np.take_along_axis(flat, order, axis=1)
    lower, upper = (ordered[:, int(p * (n - 1)), None, None] for p in (0.05, 0.95))
    # Distances of sorted draws from their median fall and then rise, which a stable sort uses.
    distance = np.abs(ordered - 0.5 * (ordered[:, [n // 2 - 1]] + ordered[:, [n // 2]]))
    by_distance = np.argsort(distance, axis=1, kind="stable")
    scores = _normal_scores(order, ordered).reshape(x.shape)
    folded = _normal_scores(
        np.take_along_axis(order, by_distance, axis=1),
        np.take_along_axis(distance, by_distance, axis=1),
    ).reshape(x.shape)
    # Where more than 5 % of the draws equal the largest one, no draw is above the upper quantile,
    # its effective sample size is nan, and the lower quantile alone counts.
    tail = np.fmin(*(_ess((x <= bound).astype(float)) for bound in (lower, upper)))
    return np.fmax(_r_hat(scores), _r_hat(folded)), _ess(scores), tail


def _normal_scores(order, ordered):
    """Normal quantiles of (rank - 3/8) / (n + 1/4); equal draws share their mean rank.

    ``order`` says where each of the sorted draws ``ordered`` stands. All shapes are (k, n), and the
    scores are in the order of the draws.
    """
    n = ordered.shape[1]
    at = np.arange(n)
    first, last = np.zeros(ordered.shape, int), np.full(ordered.shape, n - 1)
    new = ordered[:, 1:] != ordered[:, :-1]
    first[:, 1:] = np.maximum.accumulate(np.where(new, at[1:], 0), axis=1)
    last[:, :-1] = np.minimum.accumulate(np.where(new, at[:-1], n - 1)[:, ::-1], axis=1)[:, ::-1]
    table = ndtri((np.arange(2 * n - 1) / 2.0 + 0.625) / (n + 0.25))  # mean ranks are half integers
    scores = np.empty(ordered.shape)
    np.put_along_axis(scores, order, table[first + last], axis=1)
    return scores


def _r_hat(x):
    """Root of the ratio of the pooled variance to the variance within chains x (k, chains, n)."""
    n = x.shape[2]
    within = x.var(axis=2, ddof=1).mean(axis=1)
    between = x.mean(axis=2).var(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((n - 1) / n + between / within)


def _ess(x):
    """Effective sample size of the mean of chains x of shape (k, chains, n).

    Sums of two successive autocorrelations are positive and fall with the lag (Geyer 1992): they
    are added up to the first that is not positive, and made to fall. Of the pair that ends the
    sum, the first member counts once where it is positive (Vehtari et al. 2021).
    """
    chains, n = x.shape[1:]
    mean = x.mean(axis=2, keepdims=True)
    length = next_fast_len(2 * n, real=True)
    spectrum = np.fft.rfft(x - mean, length, axis=2)
    power = np.einsum("kct,kct->kt", spectrum.real, spectrum.real)
    power += np.einsum("kct,kct->kt", spectrum.imag, spectrum.imag)
    covariance = np.fft.irfft(power, length, axis=1)[:, :n] / (chains * n)
    within, total = covariance[:, :1] * n / (n - 1), covariance[:, :1] + mean.var(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1.0 - (within - covariance) / total
    correlation[:, 0] = 1.0
    n_pairs = max(1, (n - 1) // 2)
    pairs = correlation[:, : 2 * n_pairs].reshape(len(x), n_pairs, 2)
    sums = pairs.sum(axis=2)
    ends = sums <= 0.0
    ends[:, -1] = True
    end = ends.argmax(axis=1)
    counted = np.where(np.arange(n_pairs) < end[:, None], np.minimum.accumulate(sums, axis=1), 0.0)
    last, of_pair = (v[np.arange(len(x)), end] for v in (pairs[:, :, 0], sums))
    last = np.where(of_pair > 0.0, last, np.maximum(last, 0.0))
    tau = np.maximum(2.0 * counted.sum(axis=1) + last - 1.0, 1.0 / np.log10(chains * n))
    constant = (x == x[:, :1, :1]).all(axis=(1, 2))
    return np.where(constant, np.nan, chains * n / tau)


# ------------------------------------------------------------------- how far moves have come
def ranks(values):
    """Ranks along the last axis, less their mean; equal values get different ones.

    SciPy's take six times as long, for they share ranks among equal values; a tenth of a fit.
    """
    order = np.argsort(np.argsort(values, axis=-1), axis=-1)
    return order - 0.5 * (order.shape[-1] - 1)


def rank_correlation(first, second):
    """Spearman's correlation along the last axis of `ranks`: tails do not speak for all."""
    return (first * second).sum(axis=-1) / (first**2).sum(axis=-1)


def variance_of_increment(m, ess, correlation):
    """Variance of the log mean weight of m particles of an effective sample size.

    Particles whose moves have left them a ``correlation`` with where they were resampled are worth
    fewer.
    """
    left = min(max(correlation, 0.0), _MAX_CORRELATION)
    return (m / ess - 1.0) / (m * (1.0 - left) / (1.0 + left))


# ------------------------------------------------------------------- two estimates of one posterior
def differences(outcome, other, what, tolerance=1.0):
    """In words, what the ``other`` outcome, ``what`` finds it, says otherwise than the first.

    What is worth a warning is multiplied by the ``tolerance``.
    """
    (mean, sd, *errors), (expected, expected_sd, *its_errors) = (
        moments_and_errors(one.particles) for one in (outcome, other)
    )
    unknown = _is_heavy(other.particles, expected)
    of_mean, of_log_sd = (np.hypot(one, its) for one, its in zip(errors, its_errors, strict=True))
    gap = np.where(unknown, 0.0, (np.abs(mean - expected) - _ERRORS * of_mean) / expected_sd)
    least = np.maximum(tolerance * _WRONG_LOG_SD, _FEW_ERRORS * of_log_sd)
    least = np.minimum(least, tolerance * _LOG_SD + _ERRORS * of_log_sd)
    ratio = np.where(unknown, 0.0, np.abs(np.log(sd / expected_sd)) / least)
    found = []
    j, k = int(gap.argmax()), int(ratio.argmax())
    if gap[j] > tolerance * _MEAN:
        away = abs(mean[j] - expected[j]) / expected_sd[j]
        found.append(f"{what} a mean of theta[:, {j}] that is {away:.2f} sds away")
    if ratio[k] > 1.0:
        found.append(f"{what} {expected_sd[k] / sd[k]:.2f} times the sd of theta[:, {k}]")
    (value, error), (expected, its_error) = (evidence_of(one) for one in (outcome, other))
    if outcome.reweighted and not np.isnan([value, expected]).any():
        if abs(value - expected) > tolerance * _EVIDENCE + _ERRORS * np.hypot(error, its_error):
            found.append(f"{what} a log evidence that is {expected - value:+.2f} away")
    return found


def finds_more(outcome, other):
    """Whether an outcome has more evidence than the other one, beyond their errors.

    Where both are right on average, the other one lacks a part of the posterior.
    """
    (value, error), (expected, its_error) = (evidence_of(one) for one in (outcome, other))
    return bool(value - expected > _EVIDENCE + _ERRORS * np.hypot(error, its_error))


def moments_and_errors(particles):
    """Means and sds, and the standard errors of the means and of the log sds, (d,) each.

    They are those of self-normalised weights (delta method).
    """
    w = weights(particles.log_ratio)
    mean, covariance = moments(particles.theta, particles.log_ratio)
    variance = np.maximum(np.diag(covariance), np.finfo(float).tiny)
    squares = (particles.theta - mean) ** 2
    of_mean = np.sqrt(w**2 @ squares)
    with np.errstate(over="ignore"):  # Where all of the weight is one particle's.
        standardised = np.minimum(squares / variance, _MAX_SQUARE)
    of_log_sd = 0.5 * np.sqrt(w**2 @ (standardised - 1.0) ** 2)
    return mean, np.sqrt(variance), of_mean, of_log_sd


def _is_heavy(particles, mean):
    """Coordinates with tails so heavy that there is no relying on the mean of a square, (d,).

    There k-hat of weight times square is above 0.7 (Vehtari et al. 2024); as it is an estimate
    itself, the bound is lower.
    """
    with np.errstate(divide="ignore"):
        weighted = particles.log_ratio[:, None] + np.log((particles.theta - mean) ** 2)
    return np.array([pareto_k(column) for column in weighted.T]) > _MAX_K_OF_SQUARES
