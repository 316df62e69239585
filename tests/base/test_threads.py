"""Threads: what is left of them after an error."""

import time
from threading import current_thread, main_thread

import pytest

from skpmd._runtime.threads import each, threads


def test_no_thread_is_at_work_after_an_error():
    """A rollback must be the last to write."""
    begun, done = [], []

    def work(item):
        if current_thread() is main_thread():
            while not begun:
                time.sleep(0.001)
            raise KeyboardInterrupt
        begun.append(item)
        time.sleep(0.2)
        done.append(item)

    with threads(2):
        with pytest.raises(KeyboardInterrupt):
            each(work, range(2))
        assert len(begun) == len(done) == 1
