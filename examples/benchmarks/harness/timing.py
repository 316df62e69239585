"""CPU clocks: one BLAS thread and `time.process_time`; and what a whole run takes."""

import os
import time
from contextlib import contextmanager
from types import SimpleNamespace

from threadpoolctl import threadpool_limits


@contextmanager
def cpu_clock():
    """Run a block with one BLAS and OpenMP thread; ``clock.cpu`` is then its CPU seconds."""
    clock = SimpleNamespace(cpu=float("nan"))
    with threadpool_limits(limits=1):
        start = time.process_time()
        yield clock
        clock.cpu = time.process_time() - start


def spent_so_far():
    """Wall and CPU seconds of this process and of those that it has started and that have ended.

    Workers of joblib wait for more to do, and are ended for this.
    """
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor(reuse=True).shutdown(wait=True)
    times = os.times()
    return {"seconds": times.elapsed, "cpu_seconds": sum(times[:4])}
