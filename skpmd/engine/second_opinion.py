"""A fit by stochastic steps from the prior, held against a fit of the same posterior by its values.

Steps may lose a narrow mode, or the neck of a funnel, which kernels of one covariance do not enter;
the particles that are left know nothing of it, and their weights are good. The other fit comes from
somewhere else, and where it is sound the two must agree.
"""

import numpy as np

from skpmd.engine.course import counted
from skpmd.engine.diagnostics import log_evidence, pareto_k
from skpmd.engine.from_values import from_values, is_thin
from skpmd.engine.particles import moments, weights

# Differences of a mean in sds, of a log sd and of the log evidence are worth a warning from here,
# and beyond so many standard errors.
_MEAN, _LOG_SD, _EVIDENCE, _ERRORS = 0.15, 0.15, 0.1, 3.0
# A log sd that differs by this much, which is wrong, need not be so far beyond its error.
_WRONG_LOG_SD, _FEW_ERRORS = 0.25, 2.5
_MAX_K = 0.5
_MAX_LOG_SD_ERROR = 0.15  # A log sd with a larger standard error is not known by its own draws.


def compared(outcome, model, batches, options, rng):
    """States of an outcome, for `skpmd.engine.loop.drive`: the last has reasons not to trust it.

    These are what a fit by values contradicts, or a spread that rests on few draws. The draws of
    that fit come from a generator of their own, so that ``rng`` is left as it is.
    """
    yield outcome
    _, _, _, of_log_sd = _moments(outcome.particles)
    j = int(of_log_sd.argmax())
    if of_log_sd[j] > _MAX_LOG_SD_ERROR:
        unknown = (
            f"the sd of theta[:, {j}] rests on few draws (standard error {of_log_sd[j]:.0%}): "
            "raise n_particles or max_iter"
        )
        yield outcome._replace(infos=[], reasons=(*outcome.reasons, unknown))
        return
    fits = from_values(model, batches, options, rng.spawn(1)[0])
    *_, other = counted(fits, "comparison with another fit")
    if not (other.n_left_out or other.reasons or is_thin(other.particles)):
        found = tuple(f"{text}: set proposal='auto'" for text in _differences(outcome, other))
        reasons = outcome.reasons + found
        yield outcome._replace(infos=[], reasons=reasons)


def _differences(outcome, other):
    """In words, what two estimates of a posterior disagree about."""
    (mean, sd, *errors), (expected, expected_sd, *its_errors) = (
        _moments(one.particles) for one in (outcome, other)
    )
    unknown = _is_heavy(other.particles, expected)
    of_mean, of_log_sd = (np.hypot(one, its) for one, its in zip(errors, its_errors, strict=True))
    gap = np.where(unknown, 0.0, (np.abs(mean - expected) - _ERRORS * of_mean) / expected_sd)
    least = np.maximum(_WRONG_LOG_SD, _FEW_ERRORS * of_log_sd)
    least = np.minimum(least, _LOG_SD + _ERRORS * of_log_sd)
    ratio = np.where(unknown, 0.0, np.abs(np.log(sd / expected_sd)) / least)
    found, what = [], "a fit with proposal='auto' finds"
    j, k = int(gap.argmax()), int(ratio.argmax())
    if gap[j] > _MEAN:
        away = abs(mean[j] - expected[j]) / expected_sd[j]
        found.append(f"{what} a mean of theta[:, {j}] that is {away:.2f} sds away")
    if ratio[k] > 1.0:
        found.append(f"{what} {expected_sd[k] / sd[k]:.2f} times the sd of theta[:, {k}]")
    if outcome.reweighted and not np.isnan(outcome.particles.log_pi).any():
        (value, error), (expected, its_error) = (
            log_evidence(one.particles.log_ratio, one.pair) for one in (outcome, other)
        )
        if abs(value - expected) > _EVIDENCE + _ERRORS * np.hypot(error, its_error):
            found.append(f"{what} a log evidence that is {expected - value:+.2f} away")
    return found


def _moments(particles):
    """Means and sds, and the standard errors of the means and of the log sds, (d,) each.

    They are those of self-normalised weights (delta method).
    """
    w = weights(particles.log_ratio)
    mean, covariance = moments(particles.theta, particles.log_ratio)
    variance = np.maximum(np.diag(covariance), np.finfo(float).tiny)
    squares = (particles.theta - mean) ** 2
    of_mean = np.sqrt(w**2 @ squares)
    of_log_sd = 0.5 * np.sqrt(w**2 @ (squares / variance - 1.0) ** 2)
    return mean, np.sqrt(variance), of_mean, of_log_sd


def _is_heavy(particles, mean):
    """Coordinates with tails so heavy that there is no relying on the mean of a square, (d,).

    There k-hat of weight times square is above 0.7 (Vehtari et al. 2024); as it is an estimate
    itself, the bound is lower.
    """
    with np.errstate(divide="ignore"):
        weighted = particles.log_ratio[:, None] + np.log((particles.theta - mean) ** 2)
    return np.array([pareto_k(column) for column in weighted.T]) > _MAX_K
