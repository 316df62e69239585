"""Transitional: what families use until they hold their state in records. To be deleted."""

import copy
import warnings
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpmd._base.results import results_of


def reset(estimator):
    """Drop what an earlier fit left: a fit that fails must not look like a fitted one."""
    for name in [name for name in vars(estimator) if name.endswith("_") and name[0] != "_"]:
        delattr(estimator, name)
    estimator._stream = None


def set_results(estimator, outcome, **options):
    """Set posterior, evidence, history and diagnostics."""
    found = results_of(outcome, temperature=getattr(estimator, "temperature", 1.0), **options)
    estimator.posterior_, estimator.history_ = found.posterior, found.history
    estimator.diagnostics_ = found.diagnostics
    vars(estimator).pop("log_evidence_", None)
    if found.log_evidence is not None:
        estimator.log_evidence_ = found.log_evidence


def warn_of_convergence(estimator, remedy):
    """Warn the caller of what ``diagnostics_`` holds against the result, or hand on his Ctrl-C."""
    if estimator.diagnostics_["interrupted"]:
        raise KeyboardInterrupt
    reasons = estimator.diagnostics_["warnings"]
    if reasons:
        name = type(estimator).__name__
        message = f"{name}: {'; '.join(reasons)}. Do not trust this posterior; {remedy}."
        # The frames above: fit or partial_fit, scikit-learn's wrapper of it, the caller.
        warnings.warn(message, ConvergenceWarning, stacklevel=4)


@contextmanager
def rollback_on_error(estimator):
    """Leave an estimator, and a generator that it was given, as they were if anything fails."""
    before, generator = vars(estimator).copy(), estimator.random_state
    position = copy.deepcopy(generator)
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = position.bit_generator.state
        elif isinstance(generator, np.random.RandomState):
            generator.set_state(position.get_state())
        raise
