"""Estimators in files that run no code, by skops, and the types that skops has to trust."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from importlib import import_module
from pkgutil import walk_packages
from sys import modules
from typing import Any

from sklearn.metrics import get_scorer, get_scorer_names

from skpmd._base.checkpoint import portable
from skpmd._base.utils import replacing
from skpmd._export import library
from skpmd._typing import FilePath

__all__ = ["load", "save", "skops_trusted_types"]

# Where the classes are defined that fitted estimators consist of. A file can call the constructors
# of these classes and set attributes of their objects, with arrays, numbers, words and each other:
# none of these modules opens a file, starts a process or evaluates a text.
_MODULES = (
    *(f"skpmd.{name}" for name in (
        "_base.results", "_base.retained", "_base.steps", "_export",
        "_from_jax", "custom", "decision", "engine", "lda", "linear", "metrics", "mixture",
        "posterior", "proposals", "sparse_gp", "streams",
    )),
    # What searches, calibrated classifiers and Gaussian processes of scikit-learn hold, and skops
    # does not trust by itself.
    "sklearn.calibration",
    "sklearn.gaussian_process.kernels",
    "sklearn.metrics._scorer",
    "sklearn.model_selection._split",
    "sklearn.utils._metadata_requests",
)  # fmt: skip
# The dtype of features, and sparse rows that a stream retains.
_OTHERS = "numpy.dtype", "scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix"
# Labels of groups that are no numbers or words. Those of pandas have their names since version 3.
_LABELS = (
    *(f"datetime.{name}" for name in ("date", "datetime", "timedelta", "timezone")),
    "zoneinfo.ZoneInfo", "decimal.Decimal",
    "pandas.Interval", "pandas._libs.interval.Interval",
    "pandas.Period", "pandas._libs.tslibs.period.Period",
    *(f"pandas._libs.tslibs.offsets.{name}" for name in (
        "Hour", "Day", "Week", "MonthEnd", "QuarterEnd", "YearEnd",
    )),
)  # fmt: skip
# Scores for `skpmd.metrics.make_distribution_scorer`.
_SCORES = (
    "crps",
    "interval_coverage",
    "interval_width",
    "negative_log_predictive_density",
    "pinball_loss",
)


def skops_trusted_types() -> list[str]:
    """Names of the types that skops must trust to load any estimator or posterior of skpmd.

    They are the classes that estimators and posteriors of skpmd consist of, scikit-learn's kernels,
    scorers and splitters, which estimators and searches hold, and the dates and intervals that
    labels of groups may be. Loading with these types
    runs no code that is stored in the file. Objects that a user passed to an estimator are not
    among them and have to be added: the user's own functions and kernels, and distributions of a
    ``prior`` or ``hyperprior``.

    Returns
    -------
    list of str
        Names for ``trusted`` of `skops.io.load` and for ``skops_trusted_types`` of MLflow.

    Examples
    --------
    >>> import skops.io
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.persistence import skops_trusted_types
    >>> X, y = load_iris(return_X_y=True)
    >>> data = skops.io.dumps(BayesianLogisticRegressionPMD(random_state=0).fit(X, y))
    >>> model = skops.io.loads(data, trusted=skops_trusted_types())
    >>> model.predict(X[:2])
    array([0, 0])

    Names of all other types that a file holds:

    >>> set(skops.io.get_untrusted_types(data=data)) - set(skops_trusted_types())
    set()
    """
    scores = [get_scorer(name)._score_func for name in get_scorer_names()]
    return [
        *(name for one in _MODULES for name in _classes_of(one)),
        *(f"skpmd.metrics.{name}" for name in _SCORES),
        *sorted({f"{one.__module__}.{one.__qualname__}" for one in scores}),
        *_OTHERS,
        *_LABELS,
    ]


def _classes_of(name):
    """Names of the classes that a module, or the modules of a package, define."""
    package = import_module(name)
    inner = walk_packages(getattr(package, "__path__", ()), f"{name}.")
    for module in (package, *(import_module(one.name) for one in inner)):
        for attribute, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield f"{module.__name__}.{attribute}"


def save(estimator: object, path: FilePath) -> None:
    """Write an estimator to a file that runs no code when it is read.

    The file is written by skops (``pip install skpmd[skops]``). It replaces an earlier file in a
    single step: if the process is killed while writing, the earlier file remains.

    Parameters
    ----------
    estimator : estimator or posterior
        Object to write: an estimator, fitted or not, or a posterior of skpmd, or what holds one,
        such as a pipeline, a search or a list. Functions of the user's own, such as those of a
        `skpmd.ParticleMirrorDescent`, are written as names: they have to be in a module. The
        path of a ``checkpoint`` is not written.
    path : str or path-like
        Path of the file; an existing file is replaced.

    Raises
    ------
    TypeError
        If the estimator holds an object that no such file can represent; the error names it.
    ImportError
        If skops is not installed.
    OSError
        If the file cannot be written. An earlier file remains unchanged.

    See Also
    --------
    load : Read such a file.
    skops_trusted_types : For files that other tools write by skops.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import skpmd
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = skpmd.BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "iris.skops")
    ...     skpmd.save(model, path)
    ...     loaded = skpmd.load(path)
    >>> bool((loaded.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    path, name = _place_of(path), type(estimator).__name__
    skops = library("skops.io", "skops")
    try:
        with portable():
            data = skops.dumps(estimator, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    except (TypeError, RecursionError) as error:
        raise TypeError(f"{name} cannot be written by skops: {error} Use joblib.") from error
    unknown = [one for one in skops.get_untrusted_types(data=data) if not _is_found(one)]
    if unknown:
        raise TypeError(
            f"{name} holds {unknown[0]}, which no other process finds by this name: define it in a "
            "module, or use joblib with cloudpickle."
        )
    with replacing(path) as file:
        file.write(data)


def _place_of(path):
    """Where a path leads, a str; IsADirectoryError where that is a folder."""
    path = os.path.realpath(os.fspath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder: give the path of a file in it.")
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"There is no folder {folder}: make it, or give another path.")
    return path


def _is_found(name):
    """Whether a module that has been imported has something of this name."""
    module, _, attribute = name.rpartition(".")
    return hasattr(modules.get(module), attribute)


def load(path: FilePath, *, trusted: str | Sequence[str] = ()) -> Any:
    """Read a file that ``save`` has written; predictions and later fits are the same to the bit.

    Parameters
    ----------
    path : str or path-like
        A file that ``save`` has written, or skops.
    trusted : str or sequence of str, default=()
        Name, or names, of types and functions to take from the file beside those of skpmd and
        scikit-learn (`skops_trusted_types`). Loading may run code of these types: name those that
        you know.

    Returns
    -------
    estimator or posterior
        The object as it was saved, but that estimators in it have ``checkpoint=None``: the path may
        be one of another machine. If another version of skpmd saved it, there is a warning
        (``InconsistentVersionWarning``).

    Raises
    ------
    ValueError
        If the file is damaged, or in another format; the error names the file and what to do.
    TypeError
        If the file holds types that are not trusted, or not here; the error names them.
    ImportError
        If skops is not installed.

    See Also
    --------
    save : Write such a file.

    Examples
    --------
    A pipeline with a function that is neither of skpmd nor an estimator of scikit-learn:

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import skpmd
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> X, y = load_iris(return_X_y=True)
    >>> last = skpmd.BayesianLogisticRegressionPMD(random_state=0)
    >>> model = make_pipeline(FunctionTransformer(np.nan_to_num), last).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "iris.skops")
    ...     skpmd.save(model, path)
    ...     loaded = skpmd.load(path, trusted=["numpy.nan_to_num"])
    >>> bool((loaded.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    path = _place_of(path)
    _check_format(path)
    skops, exceptions = library("skops.io", "skops"), library("skops.io.exceptions", "skops")
    known = [*skops_trusted_types(), *([trusted] if isinstance(trusted, str) else trusted)]
    try:
        with portable():
            return skops.load(path, trusted=known)
    except exceptions.UntrustedTypesFoundException:
        others = sorted(set(skops.get_untrusted_types(file=path)) - set(known))
    except (MemoryError, Warning):
        raise
    except (ImportError, AttributeError) as error:
        raise TypeError(
            f"{path} names what is not here ({error}): define or import it before, as it was where "
            "the file was written."
        ) from error
    except Exception as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}: {error}): copy it anew from where it was "
            "written."
        ) from error
    raise TypeError(
        f"{path} holds types that are not trusted, {', '.join(others)}: if you know them, and who "
        f"wrote the file, call load(path, trusted={others!r})."
    )


def _check_format(path):
    """ValueError where a file is none of skops."""
    if not zipfile.is_zipfile(path):
        with open(path, "rb"):  # The error of a file that is not there, or may not be read.
            size = os.path.getsize(path)
        raise ValueError(
            f"{path} is not a file of skops, or not a whole one ({size} bytes): give the path of "
            "one that save has written."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(
            f"{path} is damaged ({error}): copy it anew from where it was written."
        ) from error
    if "skpmd.json" in names:
        raise ValueError(
            f"{path} is in the format that skpmd had up to version 0.1.0: fit the estimator anew, "
            "or load it by skpmd 0.1.0."
        )
    if "schema.json" not in names:
        raise ValueError(f"{path} is an archive of something else than skops: give another path.")
