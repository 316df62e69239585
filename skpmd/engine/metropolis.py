"""What Markov chain moves share: Metropolis decisions, step sizes, and how far they have come."""

import numpy as np

_DECAY = 0.6  # The step size is adapted with gain t^-0.6 (Robbins and Monro 1951).
_MAX_CORRELATION = 0.9  # A larger one says no more about what particles are worth.


def probability(log_ratio):
    """Acceptance probabilities given log acceptance ratios; nan is refused."""
    return np.exp(np.minimum(0.0, np.where(np.isnan(log_ratio), -np.inf, log_ratio)))


def accept(log_ratio, rng):
    """Metropolis decisions given log acceptance ratios; nan is refused.

    For ratios of shape (m,), returns which proposals are accepted, a mask, and the acceptance
    probabilities, of the same shape both.
    """
    chance = probability(log_ratio)
    return rng.random(len(chance)) < chance, chance


def select(taken, new, old):
    """Arrays of the accepted proposals, and of the old states elsewhere."""
    return (
        np.where(taken.reshape(-1, *[1] * (before.ndim - 1)), after, before)
        for after, before in zip(new, old, strict=True)
    )


def adapted(log_step, accepted, target, t):
    """Log step size after move t = 0, 1, ... of some mean acceptance probability."""
    return log_step + (accepted - target) * (t + 1.0) ** -_DECAY


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
