"""What a call may end in: an answer in time, or an error that somebody meant and that helps."""

import linecache
import re
import signal
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy
import sklearn
from sklearn.exceptions import DataConversionWarning, UndefinedMetricWarning

import skpmd
from tests.hostile.models import TheirError

SECONDS = 60  # No call on such tiny data takes more CPU time.


def _folder(package):
    return str(Path(package.__file__).parent)


OURS, THEIRS = _folder(skpmd), _folder(sklearn)
INSIDE = OURS, THEIRS, _folder(np), _folder(scipy)
# Warnings of data come from here.
OF_DATA = str(Path(THEIRS) / "utils")
# Scores are theirs.
OF_SCORES = str(Path(THEIRS) / "metrics")
SAID_BY_OTHERS = "complex", "unique column names"
# Warnings that scikit-learn gives of its own input.
OF_INPUT = DataConversionWarning, UndefinedMetricWarning
ABOUT_INPUT = "The number of unique classes"
ERRORS = (
    ValueError, TypeError, AttributeError, IndexError, RuntimeError, FloatingPointError, TheirError
)  # fmt: skip


def outcome(call):
    """What a call hands back, and the error that it ends in; AssertionError if nobody meant it."""
    answer = error = None
    with in_time(), warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            answer = call()
        except ERRORS as raised:
            assert is_meant(raised), f"{type(raised).__name__} that nobody meant: {raised}"
            error = raised
    for one in given:
        assert not is_internal(one), f"a warning from inside, {one.filename}: {one.message}"
    return answer, error


def is_internal(warning):
    """Whether a warning points into a library and not at the user's line."""
    if issubclass(warning.category, OF_INPUT) or str(warning.message).startswith(ABOUT_INPUT):
        return False
    if warning.filename.startswith(OF_DATA):
        return False
    return warning.filename.startswith(INSIDE)


def _last_place(error, folders):
    """File and line of the last frame of some packages that an error came through."""
    frame, place = error.__traceback__, None
    while frame is not None:
        own = frame.tb_frame.f_code.co_filename, frame.tb_lineno
        place = own if own[0].startswith(folders) else place
        frame = frame.tb_next
    return place


def is_meant(error):
    """Whether skpmd or scikit-learn raises an error, and not an operation in it.

    Conversions by other libraries speak for themselves: "could not convert string to float: 'a'".
    """
    if isinstance(error, TheirError):
        return True
    place = _last_place(error, (OURS, THEIRS))
    if place is None:
        return False
    raised = linecache.getline(*place).strip().startswith("raise")
    by_others = any(words in str(error) for words in SAID_BY_OTHERS)
    return raised or by_others or _last_place(error, (OF_SCORES,)) is not None


def names_one(error, names):
    """Whether an error names one of these parameters."""
    return isinstance(error, TheirError) or any(
        re.search(rf"\b{re.escape(name)}\b", str(error)) for name in names
    )


@contextmanager
def in_time():
    """Context that ends a call which takes too long."""

    def too_long(*_):
        raise AssertionError(f"no answer within {SECONDS} CPU seconds")

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGPROF"):
        yield
        return
    before = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
