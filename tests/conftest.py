"""What all tests share."""

import pytest
from threadpoolctl import threadpool_limits

import skpmd  # noqa: F401  Its libraries have to be loaded before their threads are limited.


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_linear_algebra():
    """Processes of the suite run beside each other, and their threads would only wait."""
    with threadpool_limits(1):
        yield
