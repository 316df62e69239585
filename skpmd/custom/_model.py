"""Functions of a user as a model."""

import inspect
from contextlib import contextmanager, suppress

import numpy as np

from skpmd._base.parameters import with_names
from skpmd._base.utils import as_floats
from skpmd._runtime.threads import each
from skpmd.engine.edges import NotANumberError
from skpmd.engine.model import Model

# Functions are called for particles in parts of so many numbers, rows times particles: that fits a
# cache, and whatever the number of threads the parts are the same.
AT_ONCE = 1 << 18


class CustomModel(Model):
    """Functions of a user as a model.

    Parameters
    ----------
    log_likelihood, log_prior, sample_prior : callable
        As `ParticleMirrorDescent` takes them.
    weighted : bool
        Whether ``log_likelihood`` is given ``sample_weight``.
    likelihood_name : str
        What errors call ``log_likelihood``, which may be the sum of another function.
    names : list of str, optional
        Of the coordinates; there have to be as many.
    variables : dict of str to Variable, optional
        Parameters by which functions may take parts of theta.
    """

    def __init__(
        self, log_likelihood, log_prior, sample_prior, weighted,
        likelihood_name="log_likelihood", names=None, variables=None,
    ):  # fmt: skip
        check_arguments(likelihood_name, log_likelihood, "theta, X, y")
        check_arguments("log_prior", log_prior, "theta")
        check_arguments("sample_prior", sample_prior, "rng, m")
        self._log_likelihood = log_likelihood
        self._log_prior = log_prior
        self._sample_prior = sample_prior
        self._weighted = weighted
        self.likelihood_name = likelihood_name
        self._names, self.variables = names, variables
        self._d = None  # Coordinates of a particle, once draws of the prior have been seen.

    def sample_prior(self, rng, m):
        """Draw from the prior; see `Model`."""
        with _noted("sample_prior was called as sample_prior(rng, m), with a numpy Generator."):
            theta = self._sample_prior(rng, m)
        theta = as_floats("sample_prior", theta)
        if theta.ndim != 2 or len(theta) != m or not theta.shape[1]:
            raise ValueError(f"sample_prior must return shape ({m}, d), got {theta.shape}.")
        if theta.shape[1] != (self._d or theta.shape[1]):
            raise ValueError(
                f"sample_prior returned {theta.shape[1]} columns, and {self._d} before: a particle "
                "must have the same coordinates in all calls."
            )
        if self._names is not None and len(self._names) != theta.shape[1]:
            raise ValueError(
                f"names has {len(self._names)} entries, {self._names}, and theta has "
                f"{theta.shape[1]} coordinates: give one name for each."
            )
        if not np.isfinite(theta).all():
            raise FloatingPointError(
                "sample_prior returned nan or infinite numbers for some draws."
            )
        self._d = theta.shape[1]
        return theta

    def log_prior(self, theta):
        """Log prior density; see `Model`."""
        # A copy: a function may transform its argument in place.
        with noted("log_prior", theta):
            values = self._log_prior(theta.copy())
        return _vector("log_prior", values, theta)

    def log_likelihood(self, theta, batch):
        """Log-likelihood of a batch; see `Model`."""
        weight = {"sample_weight": batch.weight} if self._weighted else {}

        def of(some):
            with noted(self.likelihood_name, some, batch.X):
                values = self._log_likelihood(
                    with_names(some, self.variables), batch.X, batch.y, **weight
                )
            return _vector(self.likelihood_name, values, some)

        return np.concatenate(each(of, parts_of(theta, len(batch.weight))))


def noted(name, theta, X=None):
    """Add to an error of a user's function of particles the shape that it was called with."""
    words = f"{name} was called with theta of shape {theta.shape}, a row for each particle"
    if X is not None:
        words += " (of a parameter by its name, theta[name][:, None] goes along the rows of X)"
    if hasattr(X, "columns"):
        words += (
            f", and with X as a {type(X).__name__}: np.asarray(X) is its array, and "
            f"np.asarray(X[{X.columns[0]!r}]) that of a column"
        )
    return _noted(f"{words}.")


@contextmanager
def _noted(words):
    try:
        yield
    except Exception as error:
        if words not in getattr(error, "__notes__", ()):
            with suppress(Exception):  # An error may refuse to be changed.
                error.add_note(words)
        raise


def parts_of(theta, n):
    """Particles in parts that fit a cache with n rows."""
    n_parts = -(-len(theta) * n // AT_ONCE)
    return np.array_split(theta, min(n_parts, len(theta)))


def checked_names(names):
    """Names of coordinates as a list, or None; ValueError where they are no different words."""
    if names is None:
        return None
    names = list(names) if np.iterable(names) and not isinstance(names, str) else [names]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"names must be a different str for each coordinate, got {names}.")
    return names


def gradient_given(function, data, sample_weight):
    """A user's log joint density and its gradient given all rows, as a function of particles."""
    check_arguments("log_joint_gradient", function, "theta, X, y")
    given = is_given_weights("log_joint_gradient", function, sample_weight)
    weight = {"sample_weight": data.weight} if given else {}

    def gradient(theta):
        with noted("log_joint_gradient", theta, data.X):
            found = function(theta.copy(), data.X, data.y, **weight)
        if not (isinstance(found, (tuple, list)) and len(found) == 2):
            raise ValueError(
                "log_joint_gradient must return two arrays, the log joint density and its "
                f"gradient, got {type(found).__name__}."
            )
        values, gradients = (as_floats("log_joint_gradient", one) for one in found)
        if gradients.shape != theta.shape:
            raise ValueError(
                "log_joint_gradient must return the log joint density and its gradient of "
                f"shape {theta.shape}, got {gradients.shape}."
            )
        if values.shape != (len(theta),):
            raise ValueError(
                f"log_joint_gradient must return one value per particle, shape "
                f"({len(theta)},), got {values.shape}."
            )
        return values, gradients

    return gradient


def is_given_weights(name, function, sample_weight):
    """Whether a user's function is to be called with ``sample_weight``; ValueError if it cannot."""
    takes, needs = takes_weights(function)
    if sample_weight is not None and not takes:
        raise ValueError(
            f"sample_weight was given, but {name} takes none: add a keyword argument "
            f"sample_weight of shape (n,) to {name}, or fit without."
        )
    return needs or sample_weight is not None


def takes_weights(function):
    """Whether a function takes ``sample_weight``, and whether it cannot be called without."""
    signature = _signature(function)
    if signature is None:
        return True, False
    parameters = signature.parameters
    if "sample_weight" in parameters:
        return True, parameters["sample_weight"].default is inspect.Parameter.empty
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()), False


def check_arguments(name, function, arguments):
    """ValueError where a function cannot be called with so many arguments in a row."""
    signature = _signature(function)
    if signature is None:
        return
    weight = {"sample_weight": None} if takes_weights(function)[1] else {}
    try:
        signature.bind(*arguments.split(", "), **weight)
    except TypeError as error:
        raise ValueError(
            f"{name} is called as {name}({arguments}), and cannot be: {error}. It takes "
            f"{signature} now."
        ) from error


def _signature(function):
    """The signature of a function; None for a builtin, where the call itself decides."""
    try:
        return inspect.signature(getattr(function, "py_func", function))
    except (TypeError, ValueError):
        return None


def _vector(name, values, theta):
    values, m = np.asarray(values), len(theta)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must return real numbers, got dtype {values.dtype}.")
    values = values.astype(np.float64, copy=False)
    if values.shape != (m,):
        raise ValueError(
            f"{name} must return one value per particle, shape ({m},), got {values.shape}."
        )
    refuse_no_numbers(name, np.isnan(values) | (values == np.inf), theta, values)
    return values


def refuse_no_numbers(name, wrong, theta, values):
    """NotANumberError, with the values (m,), where some particles are ``wrong``, a mask (m,)."""
    if wrong.any():
        first = np.array2string(theta[wrong.argmax()], precision=4, threshold=10)
        raise NotANumberError(
            f"{name} returned nan or +inf for {wrong.sum()} of {len(theta)} particles, the first "
            f"of them theta = {first}; return -inf where a parameter is impossible.",
            values,
        )
