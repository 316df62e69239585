"""Warnings that point at the line of the user's own code."""

import sys
import warnings

from sklearn.exceptions import ConvergenceWarning

_INSIDE = ("skpmd", "sklearn.base", "contextlib")


def warn(message, category=ConvergenceWarning):
    """Warn from the first frame that is neither ours nor scikit-learn's wrapper of ``fit``."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_inside(module):
    return any(module == one or module.startswith(f"{one}.") for one in _INSIDE)
