"""Functions of a user as a model, of rows of any kind, and what the functions say of each row.

Data are arrays, tables, lists of objects, dicts of them, or none.
"""

import inspect
from contextlib import contextmanager, suppress

import numpy as np

from skpmd._base.parameters import with_names
from skpmd._base.utils import as_floats
from skpmd._base.validation import checked_weights, count_rows, select_rows
from skpmd._rows.rows import Rows
from skpmd._runtime.threads import each
from skpmd.engine.edges import NotANumberError
from skpmd.engine.model import Model

# Functions are called for particles in parts of so many numbers, rows times particles: that fits a
# cache, and whatever the number of threads the parts are the same.
AT_ONCE = 1 << 18
_ROUNDING = 1e-8  # Of a sum over rows.
POINTWISE = "log_likelihood_pointwise"
_N_LOOKED_AT, _NEXT_TO_NOTHING = 100, 1e-3  # Draws of the prior, and rows, at most; and a share.
_N_COMPARED, _SAME_SUM = 4, 1e-5  # Particles whose sums over rows are compared, and how closely.


class CustomModel(Model):
    """Functions of a user as a model, as `ParticleMirrorDescent` takes them.

    ``weighted`` says whether ``log_likelihood`` is given ``sample_weight``, and ``likelihood_name``
    is what errors call it, for it may be the sum of another function. There have to be as many
    ``names`` as coordinates. By ``variables``, a dict of `Variable`, functions may take parts of
    theta.
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


# ------------------------------------------------------------------- rows
def rows_of(X, y, sample_weight, batch_size):
    """The weighted `Rows` of data whose X, y or both may be None.

    Without either there are no rows to divide: the model has no data, or holds them itself. It is
    then evaluated whole, as one row is.
    """
    n = count_rows(X, y)
    if sample_weight is None:
        weight = np.ones(n)
    elif X is None and y is None:
        raise ValueError(
            "sample_weight was given without X and y: there are no rows for it to weigh."
        )
    else:
        weight = checked_weights(sample_weight, np.zeros(n))
    return Rows(X, y, weight, batch_size, select_rows)


# ------------------------------------------------------------------- values of each row
def values_table(name, values, m, n, *, by_targets=True, numbers=True):
    """What a function returned as an array of shape (m, n) or, ``by_targets``, (m, n, t).

    ``n`` is None where there are no rows that could be counted. With ``numbers`` they are float64.
    """
    values = np.asarray(values)
    shapes = (2, 3) if by_targets else (2,)
    if values.ndim not in shapes or len(values) != m or n not in (None, values.shape[1]):
        rows = "n" if n is None else n
        many = f" or ({m}, {rows}, t)" if by_targets else ""
        raise ValueError(
            f"{name} must return shape ({m}, {rows}){many}, a row for each particle and a column "
            f"for each row of X, got {values.shape}."
        )
    if not numbers:
        return values
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must return real numbers, got dtype {values.dtype}.")
    return values.astype(np.float64, copy=False)


def parts_of_table(X, y, m):
    """All rows as batches that fit a cache with m particles; one where there are no data."""
    return rows_of(X, y, None, max(1, AT_ONCE // m)).whole()


def count(batch):
    """How many columns a table of a batch has; None where there are no data to say so."""
    return None if batch.X is None and batch.y is None else len(batch.weight)


def likelihood_of(log_likelihood, pointwise):
    """What errors call the log-likelihood of all rows, and the function; one of the two is given.

    The sum of values for each row takes ``sample_weight``, as a user's function may.
    """
    if log_likelihood is not None:
        return "log_likelihood", log_likelihood
    if pointwise is None:
        raise ValueError(
            "There is no likelihood: give log_likelihood, or log_likelihood_pointwise, whose sum "
            "over the rows takes its place, or distribution, which has them both."
        )

    def summed(theta, X, y, sample_weight):
        n = None if X is None and y is None else len(sample_weight)
        table = values_table(POINTWISE, pointwise(theta, X, y), len(theta), n, by_targets=False)
        with np.errstate(over="ignore", invalid="ignore"):  # What is no number is refused later.
            # Rows that only the function knows have no weights.
            return table.sum(axis=1) if n is None else table @ sample_weight

    return POINTWISE, summed


def pointwise_table(model, pointwise, theta, batch):
    """Log-likelihood of each row under each particle, (m, n), without weights.

    ``pointwise`` is the user's function. Where it is None the model is called for one row after
    another.
    """
    if pointwise is None:
        single = rows_of(batch.X, batch.y, None, 1).whole()
        return np.column_stack([model.log_likelihood(theta, row) for row in single])

    def of(some):
        values = pointwise(with_names(some, model.variables), batch.X, batch.y)
        table = values_table(POINTWISE, values, len(some), count(batch), by_targets=False)
        wrong = (np.isnan(table) | (table == np.inf)).any(axis=1)
        refuse_no_numbers(POINTWISE, wrong, some, np.where(wrong, np.nan, 0.0))
        return table

    return np.concatenate(each(of, parts_of(theta, len(batch.weight))))


def check_sum(table, whole, pointwise):
    """ValueError where log-likelihoods of all rows (m,) are not the sums of those of each."""
    sums = table.sum(axis=1)
    is_close = np.isclose(sums, whole, rtol=_ROUNDING, atol=_ROUNDING)
    if is_close.all():
        return
    if pointwise is None:
        raise ValueError(
            "log_likelihood of all rows is not the sum of that of each: rows are not "
            "independent given theta, and no row has a log-likelihood of its own."
        )
    i = int(is_close.argmin())
    raise ValueError(
        f"log_likelihood is not the sum of {POINTWISE} over the rows: {whole[i]:.8g} and "
        f"{sums[i]:.8g} under one particle. Make the two agree, constants included, or set "
        "log_likelihood=None, which takes the sum."
    )


def never_negative(model, pointwise, rows):
    """A reason to warn where a log-likelihood looks like a density itself; "" by default.

    Draws of the prior that do not fit rows make logs of densities negative, and densities zero.
    ``pointwise`` is the user's function of each row, or None.
    """
    batch = next(iter(rows.whole()))
    if batch.X is None and batch.y is None:
        return ""
    batch = batch.take(slice(_N_LOOKED_AT), select_rows)
    with suppress(Exception), np.errstate(all="ignore"):  # The fit itself says what is wrong.
        theta = model.sample_prior(np.random.default_rng(0), _N_LOOKED_AT)
        if pointwise is None:
            values = model.log_likelihood(theta, batch)
        else:
            values = pointwise_table(model, pointwise, theta, batch)
        low, high = np.min(values), np.max(values)
        is_probability = pointwise is not None and high <= 1.0
        if 0.0 <= low < high and (low <= _NEXT_TO_NOTHING * high or is_probability):
            return (
                f"values of {model.likelihood_name} are negative at no draw of the prior, but from "
                f"{low:.3g} to {high:.3g}: they must be logs of densities or of probabilities "
                "(logpdf or logpmf of SciPy, not pdf or pmf), and minus sums of squares, not plus"
            )
    return ""


def of_parts(model, rows, theta):
    """A reason to warn where the log-likelihood of rows is not the sum over parts of them.

    Functions that hold the data themselves, or their number, would count them once for each part.
    """
    if rows.n_batches < 2:
        return ()
    batch, theta = next(iter(rows.whole())), theta[:_N_COMPARED]
    n = len(batch.weight)
    if n < 2:
        return ()
    parts = [batch.take(part, select_rows) for part in (slice(n // 2), slice(n // 2, None))]
    whole = model.log_likelihood(theta, batch)
    both = sum(model.log_likelihood(theta, one) for one in parts)
    if np.allclose(both, whole, rtol=_SAME_SUM, atol=_SAME_SUM):
        return ()
    return (
        f"log_likelihood of {n} rows is {whole[0]:.6g}, and the sum over both halves of them "
        f"{both[0]:.6g}: rows come in parts, so that it must be the sum over the rows that it is "
        "given, of X and y and of no other data or number of rows; where rows depend on each "
        "other, set batch_size to their number",
    )
