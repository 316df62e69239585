"""What is exactly true of a shape, and how far an answer is from it.

Moments are no fair question where they do not exist or where 4,000 exact draws do not know them:
whether they do is measured, on the draws themselves, and where they do not the answer is held
against quantiles.
"""

from typing import NamedTuple

import numpy as np

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
# Mean in sds, sd relative, and the true probability below an estimated quantile.
RIGHT_MEAN, RIGHT_SD, RIGHT_QUANTILE = 0.1, 0.1, 0.03
WRONG_MEAN, WRONG_SD, WRONG_QUANTILE = 0.25, 0.25, 0.075
_GRID = np.arange(1, 1000) / 1000.0
_FEW, _REPEATS, _MAX_MISS = 4000, 100, 0.05


class Truth(NamedTuple):
    """Means and sds (d,), quantiles at a fine grid (999, d), log evidence, and the rule.

    ``miss`` is by how much 4,000 exact draws typically miss a mean, in sds, or a sd, relative: the
    median over repetitions of the largest over coordinates.
    """

    mean: np.ndarray
    sd: np.ndarray
    quantiles: np.ndarray
    log_evidence: float
    miss: float

    @property
    def by_quantiles(self):
        """Whether quantiles count in place of moments."""
        return self.miss > _MAX_MISS


class Errors(NamedTuple):
    """The largest errors of one answer over all coordinates; nan for those that do not count."""

    mean: float
    sd: float
    quantile: float
    log_evidence: float

    @property
    def right(self):
        """Whether all that counts is close to the truth."""
        return self._within(RIGHT_MEAN, RIGHT_SD, RIGHT_QUANTILE)

    @property
    def wrong(self):
        """Whether something that counts is far from the truth, or is no number."""
        return not self._within(WRONG_MEAN, WRONG_SD, WRONG_QUANTILE)

    def _within(self, mean, sd, quantile):
        if np.isnan(self.quantile):
            return bool(self.mean <= mean and self.sd <= sd)
        return bool(self.quantile <= quantile)


def truth(draws, log_evidence):
    """The truth as exact draws (n, d) have it."""
    rng = np.random.default_rng(0)
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    misses = []
    for _ in range(_REPEATS):
        few = draws[rng.integers(len(draws), size=_FEW)]
        errors = np.abs(few.mean(axis=0) - mean) / sd, np.abs(few.std(axis=0) / sd - 1.0)
        misses.append(np.max(errors))
    quantiles = np.quantile(draws, _GRID, axis=0)
    return Truth(mean, sd, quantiles, float(log_evidence), float(np.median(misses)))


def errors(true, theta, weights, log_evidence):
    """How far weighted particles (m, d) are from the truth."""
    evidence = abs(log_evidence - true.log_evidence)
    if true.by_quantiles:
        return Errors(np.nan, np.nan, _quantile_error(true, theta, weights), evidence)
    mean = weights @ theta
    sd = np.sqrt(weights @ (theta - mean) ** 2)
    gap, ratio = np.abs(mean - true.mean) / true.sd, np.abs(sd / true.sd - 1.0)
    return Errors(float(gap.max()), float(ratio.max()), np.nan, evidence)


def _quantile_error(true, theta, weights):
    """How far the true probabilities below the estimated quantiles are from their levels."""
    worst = 0.0
    for column, exact in zip(theta.T, true.quantiles.T, strict=True):
        order = column.argsort()
        below = np.cumsum(weights[order]) - 0.5 * weights[order]
        estimated = np.interp(LEVELS, below, column[order])
        probability = np.interp(estimated, exact, _GRID, left=0.0, right=1.0)
        worst = max(worst, np.abs(probability - LEVELS).max())
    return float(worst)
