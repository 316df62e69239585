"""What a first fit compiles: seconds of each kernel, with an empty cache.

From the root of a checkout::

    python -m tests.tools.compile_times [part of a case's name]

Each case runs in a process of its own, whose only work is a small fit with its predictions. Seconds
are of the processor, so that a busy machine changes them little; of a kernel they are without those
of the kernels that it calls.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings

CASES = {
    "logistic, 2 classes": "skpmd.BayesianLogisticRegressionPMD().fit(X, two).predict_proba(X)",
    "logistic, 3 classes": "skpmd.BayesianLogisticRegressionPMD().fit(X, three).predict_proba(X)",
    "process, 200 rows": "skpmd.SparseGPRegressorPMD().fit(X, x).predict(X, return_std=True)",
    "process, 5000 rows": "skpmd.SparseGPRegressorPMD().fit(many, many[:, 0]).predict(X)",
    "process, classes": "skpmd.SparseGPClassifierPMD().fit(X, two).predict_proba(X)",
    "mixture": "skpmd.GaussianMixturePMD(2).fit(X).predict_proba(X)",
    "topics": "m = skpmd.LDATopicModelPMD(3).fit(words); m.transform(words); m.top_words()",
}
_KEPT = 0.02  # Seconds; kernels of fewer are not listed.


def work(case):
    """Run a case in this process; print what it compiles."""
    import numpy as np
    from numba.core import event

    import skpmd

    class Times(event.Listener):
        def __init__(self):
            self.open, self.rows = [], []

        def on_start(self, event):
            self.open.append([time.thread_time(), 0.0])

        def on_end(self, event):
            start, inner = self.open.pop()
            total, kernel = time.thread_time() - start, event.data["dispatcher"].py_func
            if self.open:
                self.open[-1][1] += total
            types = ", ".join(str(one).partition(", al")[0] for one in event.data["args"])
            self.rows.append((total - inner, f"{kernel.__module__}.{kernel.__name__}", types))

    rng, times = np.random.default_rng(0), Times()
    X, many = rng.standard_normal((200, 4)), rng.standard_normal((5000, 4))
    x, two = X[:, 0], (X[:, 0] + rng.standard_normal(200) > 0.0).astype(int)
    three, words = two + (X[:, 1] > 0.0), rng.poisson(0.3, (60, 50)).astype(float)
    data = {"X": X, "many": many, "x": x, "two": two, "three": three, "words": words}
    warnings.simplefilter("ignore")
    with event.install_listener("numba:compile", times):
        exec(CASES[case], {"skpmd": skpmd, **data})
    print(f"{case}: {sum(row[0] for row in times.rows):.2f} s, {len(times.rows)} functions")
    for seconds, kernel, types in sorted(times.rows, reverse=True):
        if seconds > _KEPT:
            print(f"    {seconds:.2f} s {kernel}({types})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="?", default="", help="cases with it in the name")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    own = parser.parse_args()
    if own.worker:
        work(own.worker)
        return
    for case in (case for case in CASES if own.only in case):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-m", "tests.tools.compile_times", "--worker", case]
            subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)


if __name__ == "__main__":
    main()
