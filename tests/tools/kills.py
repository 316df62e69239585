"""Fits with a checkpoint that are killed at random moments: they end as if nobody had.

Run as ``python -m tests.tools.kills [kills [route ...]]``: 60 kills by default, spread over the
routes of `ROUTES` and over one thread and two. Prints a line for each, and exits with 1 where a bit
differs. Each fit is a process of its own, forked from this one, and is killed by its id (SIGKILL).
"""

import gzip
import os
import pickle
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
from sklearn.base import clone

from skpmd._base import checkpoint
from tests.api.test_max_time import ROUTES

# Attributes of models for what the last call has made, and the next makes again where it has not.
_MADE_AGAIN = {"_factors", "_factored", "_known", "_last"}


class Report(NamedTuple):
    """What came of a fit that was killed several times."""

    kills: int
    states: int  # Kills that have left a state to go on from.
    same: bool  # Whether the end has the bits of the fit that nobody killed.
    file_left: bool  # Whether there is a checkpoint after the end.

    def is_right(self):
        """Whether no bit differs and nothing is left."""
        return self.same and not self.file_left


def digest(estimator):
    """A number that all bits of a fitted estimator's state have a part in."""
    return joblib.hash(_plain(estimator._state))


def _plain(value):
    """A state as arrays, numbers and words: which of its parts are one object says nothing."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, dict):
        return sorted((repr(name), _plain(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if callable(value) or not hasattr(value, "__dict__"):
        return repr(value)
    known = {name: one for name, one in vars(value).items() if name not in _MADE_AGAIN}
    return type(value).__name__, _plain(known)


def fitted(route, **parameters):
    """A fit of a route, without its warnings."""
    estimator, X, y = ROUTES[route]
    estimator = clone(estimator).set_params(random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def killed(route, folder, kills, rng, **parameters):
    """The `Report` of a fit that is killed so many times, spread over the whole of it."""
    expected = digest(fitted(route, **parameters))
    path, end = Path(folder, "fit.ckpt"), Path(folder, "end")
    own = {**parameters, "checkpoint": path}
    start = time.perf_counter()
    end.write_text(digest(fitted(route, **own)))
    seconds = time.perf_counter() - start
    same, done, n_states = end.read_text() == expected, 0, 0
    while True:
        end.unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            end.write_text(digest(fitted(route, **own)))
            os._exit(0)
        if done < kills:
            # Each process comes so far that the kills are spread over the fit, and what is left
            # of it is done by the last.
            time.sleep(rng.uniform(0.0, 2.0 * seconds / (kills + 1)))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            done, n_states = done + 1, n_states + _has_state(path)
        else:
            break
    same = same and end.exists() and end.read_text() == expected
    return Report(done, n_states, same, path.exists())


def _has_state(path):
    if not path.exists():
        return False
    with gzip.open(path) as file:
        pickle.load(file)
        return bool(file.peek(1))


def main(total, *routes):
    """Spread so many kills over routes, by default all; returns whether all is right."""
    checkpoint._SECONDS = checkpoint._TIMES = 0.0  # Each state is written.
    routes = routes or tuple(ROUTES)
    # Some processes end before they are killed.
    rng, right, done, n = np.random.default_rng(0), True, 0, 1 + total // (2 * len(routes))
    for route in routes:
        for n_jobs in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                report = killed(route, folder, n, rng, n_jobs=n_jobs)
            done, right = done + report.kills, right and report.is_right()
            print(f"{route}, n_jobs={n_jobs}: {report}", flush=True)
    print(f"{done} kills, {'nothing' if right else 'SOMETHING'} differs")
    return right


if __name__ == "__main__":
    total, *routes = sys.argv[1:] or [60]
    sys.exit(not main(int(total), *routes))
