"""What a bug report needs to know about the machine."""

import importlib.metadata
import platform
import sys

_CORE = ("scikit-learn", "numpy", "scipy", "numba", "llvmlite", "joblib", "threadpoolctl")
_OPTIONAL = ("matplotlib", "tqdm", "pandas", "pytest", "jax", "numpyro", "sphinx")
_OPTIONAL += ("skops", "mlflow", "arviz-base", "skpro", "pyarrow", "formulaic")


def _installed_version(distribution):
    """Version of an installed distribution, or None; imports nothing."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _thread_pools():
    """One line for each BLAS or OpenMP library that skpmd's dependencies load."""
    # threadpoolctl sees loaded libraries only, hence the two imports.
    import numpy  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    return [
        f"{pool['internal_api']} {pool['version'] or '(version unknown)'}, "
        f"{pool['num_threads']} threads, prefix {pool['prefix']}"
        for pool in threadpool_info()
    ]


def show_versions() -> None:
    """Print the versions of Python, skpmd, its dependencies and the BLAS in use.

    Optional packages that are not installed are shown as such. The output belongs in
    every bug report.

    Examples
    --------
    >>> import skpmd
    >>> skpmd.show_versions()  # doctest: +SKIP
    """
    # A source tree that is on the path but not installed has a version too.
    from skpmd import __version__

    sections = {
        "System": {"python": sys.version.replace("\n", " "), "platform": platform.platform()},
        "Dependencies": {
            "skpmd": __version__,
            **{name: _installed_version(name) for name in _CORE},
        },
        "Optional": {name: _installed_version(name) for name in _OPTIONAL},
    }
    for title, entries in sections.items():
        print(f"{title}:")
        for name, value in entries.items():
            print(f"  {name:>14}: {value or 'not installed'}")
    print("Thread pools:")
    for line in _thread_pools():
        print(f"  {line}")
