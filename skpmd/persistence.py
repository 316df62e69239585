"""Fitted estimators in files of skpmd's own, and the types that files of skops are to trust."""

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

    Loading with them runs no code that a file brings along. What a user has given to an estimator
    is not among them and is named beside them: own functions and kernels, and distributions of a
    ``hyperprior``. Nor are scikit-learn's scorers and splitters, which a search holds; see the
    examples.

    Returns
    -------
    list of str
        For ``trusted`` of `skops.io.load` and ``skops_trusted_types`` of MLflow.

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

    Names of what else a file holds:

    >>> set(skops.io.get_untrusted_types(data=data)) - set(skops_trusted_types())
    set()
    """
    return [*ESTIMATORS, *POSTERIORS, *STATES, *_FUNCTIONS, *_OTHERS]


def save(estimator, path):
    """Write a fitted estimator to a file that no code is run from when it is read.

    The file is a zip archive of arrays and a JSON document. It takes its place at once: a process
    that is killed in mid-write leaves what was there before.

    Parameters
    ----------
    estimator : estimator or posterior of skpmd
        What to write. Functions of a user's own, such as those of a `skpmd.ParticleMirrorDescent`,
        are not written: `load` is given them again.
    path : str or path-like
        Where to; a file that is there is replaced.

    Raises
    ------
    TypeError
        If the estimator holds something that has no form in such a file; the error names it.
    OSError
        If the file cannot be written. What was there before is as it was.

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
    """Read what `save` has written: it predicts, and goes on, to the same bits.

    Parameters
    ----------
    path : str or path-like
        A file that `save` has written.
    **callables : callable
        Functions that the estimator had as parameters, by the names of these.

    Returns
    -------
    estimator or posterior
        As it was saved. After a load by another version of skpmd than has saved it there is a
        warning (``InconsistentVersionWarning``).

    Raises
    ------
    ValueError
        If the file is torn, foreign, or of a newer version than this skpmd reads; the error names
        the file and what to do.
    TypeError
        If a function that the estimator had is not given, or one that it did not have is.

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
            f"the estimator in {path} had functions as parameters, which are not in the file: call "
            f"load(path, {', '.join(f'{name}=...' for name in names)})."
        )
    others = [name for name in callables if name not in names]
    if others:
        raise files.CallableError(
            f"the estimator in {path} had no function called {others[0]}: leave it out, and set "
            "parameters of the loaded estimator by set_params."
        )
