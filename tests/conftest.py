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


@pytest.hookimpl(tryfirst=True)  # ahead of the choice that -m makes
def pytest_collection_modifyitems(items):
    """Parameters of a test are slow by their ids: all but those named, or those that are named."""
    for item in items:
        but, only = item.get_closest_marker("slow_but"), item.get_closest_marker("slow_for")
        if (but and item.callspec.id not in but.args) or (only and item.callspec.id in only.args):
            item.add_marker(pytest.mark.slow)
