"""One function of a study in a process of its own, so that its memory and first calls are its own.

`alone` starts ``python -m examples.benchmarks.harness.worker MODULE FUNCTION`` with one thread for
linear algebra. The job goes in as JSON on standard input, the answer comes out as JSON on standard
output; what the function prints goes to standard error.
"""

import contextlib
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def alone(function, job=None, **environment):
    """Return ``function(job)``, called in a new process with more variables of the environment.

    The function stands at the top of its module; job and answer are what JSON can hold.
    """
    place = function.__module__, function.__name__
    return json.loads(python("-m", __name__, *place, given=json.dumps(job), **environment))


def python(*arguments, given=None, **environment):
    """Run Python with some arguments and one thread; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        input=given,
        env={**os.environ, **THREADS, **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def main():
    """Do the job that stands on standard input."""
    module, name = sys.argv[1:]
    with contextlib.redirect_stdout(sys.stderr):
        answer = getattr(importlib.import_module(module), name)(json.load(sys.stdin))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
