"""Threads that divide a batch's documents, or the particles; no result depends on them.

The local update of a document needs no other document of the batch, and a word's counts are summed
in the order of the documents by whichever thread. (joblib's threads take 1.4 to 1.7 times as long
for batches of 64 documents, 50 topics and 4 particles, and 5 times for a single particle.)
"""

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import numpy as np
from joblib import effective_n_jobs

_MIN_DOCUMENTS = 4  # to start a thread takes longer than the local update of fewer documents


class Workers:
    """Threads that run both phases of a step: words are assigned, and their counts deposited.

    ``n_jobs`` counts the caller's thread too. The pool has the others, and is None if there are
    none.
    """

    def __init__(self, n_jobs, pool):
        self.n_jobs, self._pool = n_jobs, pool

    def of(self, n_documents):
        """All threads, or the caller's alone where documents are too few for others to pay."""
        return self if n_documents >= _MIN_DOCUMENTS else Workers(1, None)

    def each(self, m, shape, assign, deposit):
        """Both phases, for each of m particles.

        The first phase writes a particle's expected counts, a float32 array of this shape.
        ``assign`` and ``deposit`` are pairs of ``function(i, expected, start, stop)`` and the
        number of documents, or words, whose range can be cut anywhere.
        """
        if m >= self.n_jobs:  # whole particles: no thread waits for another
            self.map(lambda i: _particle(i, shape, assign, deposit), range(m))
            return
        for i in range(m):
            expected = np.empty(shape, dtype=np.float32)
            for function, n in (assign, deposit):
                edges = np.linspace(0, n, self.n_jobs + 1).astype(int)
                pieces = list(zip(edges[:-1], edges[1:], strict=True))
                self.map(lambda piece, f=function, i=i, e=expected: f(i, e, *piece), pieces)

    def map(self, function, items):
        """Results of a function of each item, in their order; no thread is at work afterwards."""
        items = list(items)
        results = [None] * len(items)

        def run(places):
            for place in places:
                results[place] = function(items[place])

        # The caller does a part itself: a thread is woken for each of the others only.
        first, *others = [range(i, len(items), self.n_jobs) for i in range(self.n_jobs)]
        futures = [self._pool.submit(run, places) for places in others if places]
        try:
            run(first)
        finally:  # also after Ctrl-C, for a rollback must be the last to write
            wait(futures)
        for future in futures:
            future.result()
        return results


def _particle(i, shape, assign, deposit):
    expected = np.empty(shape, dtype=np.float32)
    for function, n in (assign, deposit):
        function(i, expected, 0, n)


@contextmanager
def workers(n_jobs):
    """Threads in the sense of joblib's ``n_jobs``, for as long as the context lasts."""
    n_jobs = effective_n_jobs(n_jobs)
    if n_jobs == 1:
        yield Workers(1, None)
        return
    with ThreadPoolExecutor(n_jobs - 1) as pool:
        yield Workers(n_jobs, pool)
