"""Blocks of rows, of which the next is read by a thread while one is computed on."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

_WORTH_A_THREAD = 2e-3  # Seconds that a block takes to be read; handing it over takes a twentieth.


class ReadAhead:
    """The block that was read last, for any thread, and the one that is asked for after it.

    Blocks are read one at a time, and nobody depends on when: what fails in the thread is read
    again by whoever asks for it, and fails there. Blocks that are quickly read are read when they
    are asked for.
    """

    def __init__(self):
        self._lock, self._last = Lock(), (-1, None)
        self._thread, self._ahead = None, (-1, None)  # A place, and the future of its block.
        self._seconds = 0.0  # That the last block took.

    def block(self, place, read, following=None):
        """``read(place)``, and begin with that of the place that ``following`` is, if any."""
        with self._lock:
            known, rows = self._last
            if known == place:
                return rows
            del rows
            self._last = -1, None  # So that no more than two of them are in memory together.
            rows = self._taken(place)
            if rows is None:
                rows, self._seconds = timed(read, place)
            self._last = place, rows
            if following is not None and self._seconds >= _WORTH_A_THREAD:
                self._thread = self._thread or ThreadPoolExecutor(max_workers=1)
                self._ahead = following, self._thread.submit(timed, read, following)
            return rows

    def follows(self, place):
        """Whether the block that was read last is the one before this."""
        return self._last[0] == place - 1 >= 0

    def _taken(self, place):
        """The rows of a block that has been read ahead; None of another one, and of a failure."""
        (known, future), self._ahead = self._ahead, (-1, None)
        # Another block is waited for too: what is read need not bear two readers.
        if future is None or future.exception() is not None or known != place:
            return None
        rows, self._seconds = future.result()
        return rows

    def __reduce__(self):
        """What is pickled: no block, no lock and no thread."""
        return ReadAhead, ()


def timed(read, place):
    """The rows of a block, and the seconds that they took."""
    start = time.perf_counter()
    rows = read(place)
    return rows, time.perf_counter() - start
