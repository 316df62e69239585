"""Fitted estimators in skpmd's own file format, and the types that skops has to trust."""

from skpmd._base import files
from skpmd._base.encoding import RefusedError, decoded, encoded, name_of
from skpmd._base.known_types import ESTIMATORS, KERNELS, POSTERIORS, STATES

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


def skops_trusted_types():
    """Names of the types that skops must trust to load any estimator or posterior of skpmd.

    Loading with these types runs no code that is stored in the file. Objects that a user passed to
    an estimator are not among them and have to be added: the user's own functions and kernels, and
    distributions of a ``hyperprior``. Nor are scikit-learn's scorers and splitters, which a search
    holds; see the examples.

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
    """Write a fitted estimator to a file that runs no code when it is read.

    The file is a zip archive of arrays and a JSON document. It replaces an earlier file in a single
    step: if the process is killed while writing, the earlier file remains.

    Parameters
    ----------
    estimator : estimator or posterior of skpmd
        Object to write. The user's own functions, such as those of a `skpmd.ParticleMirrorDescent`,
        are not written: pass them to `load` again.
    path : str or path-like
        Path of the file; an existing file is replaced.

    Raises
    ------
    TypeError
        If the estimator holds an object that such a file cannot represent; the error names it.
    OSError
        If the file cannot be written. An earlier file remains unchanged.

    See Also
    --------
    load : Read such a file.
    skops_trusted_types : For files of skops, which hold pipelines and searches too.

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
    if name_of(type(estimator)) not in (*ESTIMATORS, *POSTERIORS):
        raise TypeError(
            f"save writes estimators and posteriors of skpmd, got {name_of(type(estimator))}: use "
            "skops or joblib for subclasses, pipelines and searches."
        )
    functions = {}
    try:
        node, arrays = encoded(estimator, functions)
    except RefusedError as error:
        raise TypeError(f"{type(estimator).__name__}: {error} Use skops or joblib.") from error
    content = {"functions": list(functions), "estimator": node}
    files.write(files.place_of(path), "estimator", content, arrays)


def load(path, **callables):
    """Read a file that ``save`` has written; predictions and later fits are the same to the bit.

    Parameters
    ----------
    path : str or path-like
        A file that ``save`` has written.
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
        have.

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

    def decode(content, array):
        _check_given(path, content["functions"], callables)
        return decoded(content["estimator"], array, callables)

    return files.read(path, "estimator", decode)


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
