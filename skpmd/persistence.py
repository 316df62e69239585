"""Estimators in files that run no code, and the types that skops has to trust."""

import zipfile
from sys import modules

from sklearn.metrics import get_scorer, get_scorer_names

from skpmd._base import files
from skpmd._base.encoding import RefusedError, decoded, encoded, name_of
from skpmd._base.known_types import ESTIMATORS, KERNELS, POSTERIORS, STATES
from skpmd._export import library

__all__ = ["load", "save", "skops_trusted_types"]

# Functions that estimators and searches hold: scorers of `skpmd.metrics`, and what `from_jax` makes
# of a user's functions, which are named beside them.
_FUNCTIONS = (
    "skpmd._from_jax._JointGradient",
    "skpmd._from_jax._Values",
    "skpmd.metrics._DistributionScorer",
    "skpmd.metrics.crps",
    "skpmd.metrics.interval_coverage",
    "skpmd.metrics.interval_width",
    "skpmd.metrics.negative_log_predictive_density",
    "skpmd.metrics.pinball_loss",
)
# Of other libraries, but not trusted by skops: the dtype of features, sparse rows that a stream
# retains, and kernels of Gaussian processes.
_OTHERS = (
    "numpy.dtype",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    *KERNELS,
)
# What searches and calibrated classifiers of scikit-learn hold: plain data, and numbers of folds.
_OF_SCIKIT_LEARN = (
    *(f"sklearn.calibration.{name}" for name in (
        "_CalibratedClassifier", "_SigmoidCalibration", "_TemperatureScaling",
    )),
    *(f"sklearn.metrics._scorer.{name}" for name in (
        "_CurveScorer", "_MultimetricScorer", "_PassthroughScorer", "_Scorer",
    )),
    *(f"sklearn.model_selection._split.{name}" for name in (
        "GroupKFold", "GroupShuffleSplit", "KFold", "LeaveOneGroupOut", "LeaveOneOut",
        "LeavePGroupsOut", "LeavePOut", "PredefinedSplit", "RepeatedKFold",
        "RepeatedStratifiedKFold", "ShuffleSplit", "StratifiedGroupKFold", "StratifiedKFold",
        "StratifiedShuffleSplit", "TimeSeriesSplit", "_CVIterableWrapper",
    )),
    *(f"sklearn.utils._metadata_requests.{name}" for name in (
        "MetadataRequest", "MethodMetadataRequest",
    )),
)  # fmt: skip


def skops_trusted_types():
    """Names of the types that skops must trust to load any estimator or posterior of skpmd.

    Loading with these types runs no code that is stored in the file. Objects that a user passed to
    an estimator are not among them and have to be added: the user's own functions and kernels, and
    distributions of a ``hyperprior``. Nor are scikit-learn's scorers and splitters, which a search
    holds, and which `load` trusts; see the examples.

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
    return [*ESTIMATORS, *POSTERIORS, *STATES, *_FUNCTIONS, *_OTHERS]


def save(estimator, path):
    """Write an estimator to a file that runs no code when it is read.

    The file is a zip archive of arrays and a JSON document: of skpmd's own for its estimators and
    posteriors, which needs nothing else, and of skops for pipelines, searches and whatever else
    holds them, which needs the extra: ``pip install skpmd[skops]``. It replaces an earlier file in
    a single step: if the process is killed while writing, the earlier file remains.

    Parameters
    ----------
    estimator : estimator or posterior
        Object to write, fitted or not: an estimator or posterior of skpmd, or an estimator of
        scikit-learn's kind, such as a pipeline or a search around one. The user's own functions
        that are parameters of an estimator of skpmd, such as those of a
        `skpmd.ParticleMirrorDescent`, are not written: pass them to `load` again. Within pipelines
        they are written as names, and have to be in a module.
    path : str or path-like
        Path of the file; an existing file is replaced.

    Raises
    ------
    TypeError
        If the estimator holds an object that no such file can represent; the error names it.
    ImportError
        If skops is needed and not installed.
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
    ...     path = Path(folder, "iris.skpmd")
    ...     skpmd.save(model, path)
    ...     loaded = skpmd.load(path)
    >>> bool((loaded.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    path, functions = files.place_of(path), {}
    try:
        if name_of(type(estimator)) not in (*ESTIMATORS, *POSTERIORS):
            raise RefusedError(f"a {name_of(type(estimator))} is no estimator of skpmd.")
        node, arrays = encoded(estimator, functions)
    except RefusedError as error:
        _save_by_skops(estimator, path, error)
        return
    content = {"functions": list(functions), "estimator": node}
    files.write(path, "estimator", content, arrays)


def _save_by_skops(estimator, path, refused):
    """Write what skpmd's own format has no place for, as an error says that has refused it."""
    name = type(estimator).__name__
    if not hasattr(estimator, "get_params"):
        raise TypeError(f"save writes estimators and posteriors, got {name_of(type(estimator))}.")
    skops = library("skops.io", "skops")
    try:
        data = skops.dumps(estimator, compression=zipfile.ZIP_DEFLATED)
    except (TypeError, RecursionError) as error:
        raise TypeError(f"{name} cannot be written: {refused} {error} Use joblib.") from error
    unknown = [one for one in skops.get_untrusted_types(data=data) if not _is_found(one)]
    if unknown:
        raise TypeError(
            f"{name} holds {unknown[0]}, which no other process finds by this name: define it in a "
            "module, or use joblib with cloudpickle."
        )
    with files.replaced(path) as file:
        file.write(data)


def _is_found(name):
    """Whether a module that has been imported has something of this name."""
    module, _, attribute = name.rpartition(".")
    return hasattr(modules.get(module), attribute)


def load(path, *, trusted=(), **callables):
    """Read a file that ``save`` has written; predictions and later fits are the same to the bit.

    Parameters
    ----------
    path : str or path-like
        A file that ``save`` has written, or skops.
    trusted : sequence of str, default=()
        Names of types to build beside those of skpmd and scikit-learn, in a file of a pipeline, a
        search and the like. Loading may run code of these types: name those that you know.
    **callables : callable
        Functions that the estimator had as parameters, by the names of these parameters.

    Returns
    -------
    estimator or posterior
        The object as it was saved. If another version of skpmd saved it, there is a warning
        (``InconsistentVersionWarning``).

    Raises
    ------
    ValueError
        If the file is damaged, in another format, or of a newer version than this skpmd can read;
        the error names the file and what to do.
    TypeError
        If a function that the estimator had is not given, or a function is given that it did not
        have, or the file holds types that are not trusted; the error names them.

    See Also
    --------
    save : Write such a file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import skpmd
    >>> def log_likelihood(theta, X, y):
    ...     return -0.5 * ((X[:, 0] - theta) ** 2).sum(axis=1)
    >>> from scipy import stats
    >>> model = skpmd.ParticleMirrorDescent(log_likelihood, prior={"mean": stats.norm()})
    >>> model = model.fit(np.ones((20, 1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mean.skpmd")
    ...     skpmd.save(model, path)
    ...     loaded = skpmd.load(path, log_likelihood=log_likelihood)
    >>> bool(loaded.posterior_.mean() == model.posterior_.mean())
    True
    """
    path = files.place_of(path)
    if files.is_of_skops(path):
        return _load_by_skops(path, trusted, callables)

    def decode(content, array):
        _check_given(path, content["functions"], callables)
        return decoded(content["estimator"], array, callables)

    return files.read(path, "estimator", decode)


def _load_by_skops(path, trusted, callables):
    """What skops has written, of types that are trusted."""
    skops = library("skops.io", "skops")
    _check_given(path, [], callables)
    scores = [get_scorer(name)._score_func for name in get_scorer_names()]
    known = [*skops_trusted_types(), *_OF_SCIKIT_LEARN, *map(name_of, scores), *trusted]
    try:
        others = sorted(set(skops.get_untrusted_types(file=path)) - set(known))
        if not others:
            return skops.load(path, trusted=known)
    except (MemoryError, Warning):
        raise
    except (ImportError, AttributeError) as error:
        raise TypeError(
            f"{path} names what is not here ({error}): define or import it before, as it was where "
            "the file was written."
        ) from error
    except Exception as error:
        raise files.torn(path, error) from error
    raise TypeError(
        f"{path} holds types that are not trusted, {', '.join(others)}: if you know them, and who "
        f"wrote the file, call load(path, trusted={others!r})."
    )


def _check_given(path, names, callables):
    """Raise where functions are missing, or are none that the estimator in the file had."""
    missing = [name for name in names if name not in callables]
    if missing:
        raise files.CallableError(
            f"the estimator in {path} had functions as parameters, which are not in the file, and "
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not given: call "
            f"load(path, {', '.join(f'{name}=...' for name in names)})."
        )
    others = [name for name in callables if name not in names]
    if others:
        raise files.CallableError(
            f"the estimator in {path} had no function called {others[0]}: leave it out, and set "
            "parameters of the loaded estimator by set_params."
        )
