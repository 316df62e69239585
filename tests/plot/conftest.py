"""What tests of pictures share: a backend without windows, and nothing left behind."""

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("matplotlib") else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def no_windows():
    import matplotlib

    matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    """Figures are closed, and global settings are as they were."""
    import matplotlib
    import matplotlib.pyplot as plt

    before = matplotlib.rcParams.copy()
    yield
    assert matplotlib.rcParams == before
    plt.close("all")
