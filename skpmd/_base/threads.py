"""Threads that share the documents of a batch, or the particles; no answer depends on them.

A document's shares need nothing of another document in the batch, and a word's counts are added up
in the order of the documents, by whichever thread.
"""

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import numpy as np
from joblib import effective_n_jobs

_FEW = 4  # documents, for fewer of which a thread takes longer to start than they do


class Workers:
    """What runs the two halves of a step: words shared out, and put to the counts.

    Parameters
    ----------
    n_jobs : int
        Threads, the caller's among them.
    pool : ThreadPoolExecutor or None
        Of the others.
    """

    def __init__(self, n_jobs, pool):
        self.n_jobs, self._pool = n_jobs, pool

    def of(self, n_documents):
        """As many threads as pay for a number of documents: all, or none but the caller's."""
        return self if n_documents >= _FEW else Workers(1, None)

    def each(self, m, shape, share, put):
        """Both halves, for each of m particles.

        Parameters
        ----------
        m : int
            Particles.
        shape : tuple of int
            Of one particle's shares, which ``share`` fills and ``put`` takes.
        share, put : tuple of (callable, int)
            ``function(i, shares, start, stop)`` and the number of documents, or words, that can be
            cut anywhere.
        """
        if m >= self.n_jobs:  # whole particles: no thread waits for another
            self.map(lambda i: self._particle(i, shape, share, put), range(m))
            return
        for i in range(m):
            shares = np.empty(shape, dtype=np.float32)
            for function, n in (share, put):
                edges = np.linspace(0, n, self.n_jobs + 1).astype(int)
                pieces = list(zip(edges[:-1], edges[1:], strict=True))
                self.map(lambda piece, f=function, i=i, s=shares: f(i, s, *piece), pieces)

    def map(self, function, items):
        """Results of a function of each item, in their order; no thread is at work afterwards."""
        items = list(items)
        results = [None] * len(items)

        def answer(places):
            for place in places:
                results[place] = function(items[place])

        # The caller takes its part: a thread is woken for each of the others only.
        first, *others = [range(i, len(items), self.n_jobs) for i in range(self.n_jobs)]
        futures = [self._pool.submit(answer, places) for places in others if places]
        try:
            answer(first)
        finally:  # after Ctrl-C, too: whoever undoes what has been done must be the last to write
            wait(futures)
        for future in futures:
            future.result()
        return results

    def _particle(self, i, shape, share, put):
        shares = np.empty(shape, dtype=np.float32)
        for function, n in (share, put):
            function(i, shares, 0, n)


@contextmanager
def workers(n_jobs):
    """Threads in the sense of joblib's ``n_jobs``, for as long as the context lasts."""
    n_jobs = effective_n_jobs(n_jobs)
    if n_jobs == 1:
        yield Workers(1, None)
        return
    with ThreadPoolExecutor(n_jobs - 1) as pool:
        yield Workers(n_jobs, pool)
