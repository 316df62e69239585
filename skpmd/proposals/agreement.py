"""What two estimates of one posterior disagree about, beyond their own errors."""

import numpy as np

from skpmd.engine.diagnostics import log_evidence, pareto_k
from skpmd.engine.particles import moments, weights

# Differences of a mean in sds, of a log sd and of the log evidence are worth a warning from here,
# and beyond so many standard errors.
_MEAN, _LOG_SD, _EVIDENCE, _ERRORS = 0.15, 0.15, 0.1, 3.0
# A log sd that differs by this much, which is wrong, need not be so far beyond its error.
_WRONG_LOG_SD, _FEW_ERRORS = 0.25, 2.5
_MAX_K = 0.5
_MAX_SQUARE = 1e100  # In units of the variance.


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


def evidence_of(outcome):
    """Log evidence and its standard error, nan where they are not known."""
    if outcome.evidence is not None:
        return outcome.evidence
    if np.isnan(outcome.particles.log_pi).any():
        return np.nan, np.nan
    return log_evidence(outcome.particles.log_ratio, outcome.pair)


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
    return np.array([pareto_k(column) for column in weighted.T]) > _MAX_K
