"""Fits with a checkpoint that are killed at random moments: they end as if nobody had.

Run as ``python -m tests.tools.kills [kills [route ...]]``: 200 kills by default, spread over the
routes of `ROUTES` and over one thread and two, in a minute or two. Prints a line for each, and
exits with 1 where a bit differs or work that had been written was done again. Each fit is a
process of its own, forked from this one, and is killed by its id (SIGKILL).
"""

import hashlib
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from skpmd._base.checkpoint import Checkpoint
from skpmd._base.encoding import encoded
from tests.api.test_max_time import ROUTES


class Report(NamedTuple):
    """What came of a fit that was killed several times."""

    kills: int
    same: bool  # Whether the end has the bits of the fit that nobody killed.
    written: int  # States that were written, by all processes together,
    expected: int  # and by the fit that nobody killed.
    file_left: bool  # Whether there is a checkpoint after the end.

    def is_right(self):
        """Whether nothing that had been written was done again, and no bit differs."""
        return self.same and self.written <= self.expected and not self.file_left


def digest(estimator):
    """A number that all bits of a fitted estimator's state have a part in."""
    node, arrays = encoded(estimator._state, {})
    sums = hashlib.sha256(json.dumps(node).encode())
    for one in arrays:
        sums.update(one.dtype.str.encode() + one.tobytes())
    return sums.hexdigest()


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
    path, log, end = (Path(folder, name) for name in ("fit.ckpt", "log", "end"))
    own = {**parameters, "checkpoint": path, "checkpoint_every": 0.0}
    start = time.perf_counter()
    _logged(route, log, end, own)
    seconds, n_expected = time.perf_counter() - start, _states(log)
    log.unlink()
    end.unlink()
    done = 0
    while True:
        pid = os.fork()
        if pid == 0:
            _logged(route, log, end, own)
            os._exit(0)
        if done < kills:
            # Each process comes so far that the kills are spread over the fit, and what is left
            # of it is done by the last.
            time.sleep(rng.uniform(0.0, 2.0 * seconds / (kills + 1)))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            break
        if log.exists() and not path.exists():  # It was killed when the fit had ended.
            log.unlink()
        else:
            done += 1
    same = end.exists() and end.read_text() == expected
    return Report(done, same, _states(log), n_expected, path.exists())


def _logged(route, log, end, parameters):
    """A fit that writes a line to a file after each state that is on the disk, and its digest."""
    write = Checkpoint.write

    def logged(self, entries):
        write(self, entries)
        with open(log, "ab") as file:
            file.write(b".")

    Checkpoint.write = logged
    try:
        found = digest(fitted(route, **parameters))
    finally:
        Checkpoint.write = write
    end.write_text(found)


def _states(log):
    return log.stat().st_size if log.exists() else 0


def main(total, *routes):
    """Spread so many kills over routes, by default all; returns whether all is right."""
    routes = routes or tuple(ROUTES)
    # Some processes end before they are killed.
    rng, right, done, n = np.random.default_rng(0), True, 0, 1 + total // (2 * len(routes))
    for route in routes:
        for n_jobs in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                report = killed(route, folder, n, rng, n_jobs=n_jobs)
            done, right = done + report.kills, right and report.is_right()
            print(f"{route}, n_jobs={n_jobs}: {report}", flush=True)
    print(f"{done} kills, {'nothing' if right else 'SOMETHING'} was done again or differs")
    return right


if __name__ == "__main__":
    total, *routes = sys.argv[1:] or [200]
    sys.exit(not main(int(total), *routes))
