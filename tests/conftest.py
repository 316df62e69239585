"""What all tests share."""

import pytest
from threadpoolctl import threadpool_limits

import skpmd  # noqa: F401  Its libraries have to be loaded before their threads are limited.


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_linear_algebra():
    """Processes of the suite run beside each other, and their threads would only wait.

    Processes that tests start read the variables.
    """
    with threadpool_limits(1), pytest.MonkeyPatch.context() as patch:
        for library in ("OMP", "OPENBLAS", "MKL"):
            patch.setenv(f"{library}_NUM_THREADS", "1")
        yield
