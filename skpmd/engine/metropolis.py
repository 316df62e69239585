"""What Markov chain moves share: the Metropolis decision, and the adaptation of the step size."""

import numpy as np

_DECAY = 0.6  # The step size is adapted with gain t^-0.6 (Robbins and Monro 1951).


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
