"""Blocks of rows, of which the next is read by a thread while one is computed on."""

import time
from threading import Lock, Thread

_WORTH_A_THREAD = 2e-3  # Seconds that a block takes to be read; starting a thread takes a tenth.


class ReadAhead:
    """The block that was read last, for any thread, and the one that is asked for after it.

    Blocks are read one at a time, and nobody depends on when: what fails in the thread is read
    again by whoever asks for it, and fails there. Blocks that are quickly read are read when they
    are asked for.
    """

    def __init__(self):
        self._lock, self._last, self._ahead = Lock(), (-1, None), None
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
                self._ahead = _Reading(read, following)
            return rows

    def follows(self, place):
        """Whether the block that was read last is the one before this."""
        return self._last[0] == place - 1 >= 0

    def _taken(self, place):
        """The rows of a block that has been read ahead; None of another one, and of a failure."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        ahead.join()  # Of another block too: what is read need not bear two readers.
        if ahead.place != place or ahead.found is None:
            return None
        rows, self._seconds = ahead.found
        return rows

    def __reduce__(self):
        """What is pickled: no block, no lock and no thread."""
        return ReadAhead, ()


class _Reading(Thread):
    """A block that is being read; ``found`` are its rows and the seconds, None if that failed."""

    def __init__(self, read, place):
        super().__init__(daemon=True)
        self._read, self.place, self.found = read, place, None
        self.start()

    def run(self):
        try:
            self.found = timed(self._read, self.place)
        except BaseException:  # Whoever asks for the block reads it again, and hears of it.
            self.found = None
        finally:
            del self._read


def timed(read, place):
    """The rows of a block, and the seconds that they took."""
    start = time.perf_counter()
    rows = read(place)
    return rows, time.perf_counter() - start
