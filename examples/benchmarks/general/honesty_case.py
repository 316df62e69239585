"""One fit of the study ``honesty``: how far it is from the truth, and whether it warns."""

import warnings
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .honesty_truth import RIGHT_MEAN, RIGHT_SD, WRONG_MEAN, WRONG_QUANTILE, WRONG_SD, errors

EVIDENCE, STANDARD_ERRORS = 0.1, 3.0


class Case(NamedTuple):
    """A fit, judged."""

    estimator: str
    setting: str
    shape: str
    seed: int
    documented: bool  # Whether it is in the regime that the documentation names.
    named: bool  # Whether such fits were once wrong in silence.
    wrong: bool
    right: bool
    warned: bool
    error: float  # The largest, 1 being wrong.
    # Whether a mean is wrong, or, where quantiles count in place of moments, one of these.
    of_means: bool = False

    @property
    def silent(self):
        """Whether it is wrong without a warning."""
        return self.wrong and not self.warned


class Heard:
    """Whether something warned of convergence."""

    warned = False


@contextmanager
def hearing():
    """Context that records whether a warning about the result was given."""
    heard = Heard()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield heard
    heard.warned = any(
        issubclass(one.category, ConvergenceWarning) or "log_evidence_ is off" in str(one.message)
        for one in caught
    )


def judged(place, seed, posterior, truth, warned, log_evidence=None, log_evidence_se=0.0):
    """The `Case` of weighted particles.

    A place is (estimator, setting, shape, documented, named).
    """
    evidence = truth.log_evidence if log_evidence is None else log_evidence
    found = errors(truth, posterior.particles, posterior.weights, evidence)
    beyond = found.log_evidence / (EVIDENCE + STANDARD_ERRORS * log_evidence_se)
    off = beyond > 1.0
    if np.isnan(found.quantile):
        size = max(found.mean / WRONG_MEAN, found.sd / WRONG_SD)
    else:
        size = found.quantile / WRONG_QUANTILE
    estimator, setting, shape, documented, named = place
    return Case(
        estimator, setting, shape, seed, documented, named,
        wrong=bool(found.wrong or off), right=bool(found.right and not off), warned=warned,
        error=float(max(size, beyond)),
        of_means=bool(found.mean > WRONG_MEAN or found.quantile > WRONG_QUANTILE),
    )  # fmt: skip


def by_moments(place, seed, gap, ratio, warned, beyond=0.0):
    """The `Case` of errors of means in sds, of relative errors of sds, and of the evidence."""
    estimator, setting, shape, documented, named = place
    gap, ratio = float(np.max(gap)), float(np.max(np.abs(ratio)))
    return Case(
        estimator, setting, shape, seed, documented, named,
        wrong=gap > WRONG_MEAN or ratio > WRONG_SD or beyond > 1.0,
        right=gap <= RIGHT_MEAN and ratio <= RIGHT_SD and beyond <= 1.0, warned=warned,
        error=max(gap / WRONG_MEAN, ratio / WRONG_SD, beyond),
    )  # fmt: skip
