"""CPU clocks: one BLAS thread and `time.process_time`."""

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
