"""A model made of a user's three functions, with checks of what they return."""

import inspect

import numpy as np

from skpmd.models.base import Model


class CustomModel(Model):
    """Functions of a user as a model.

    Parameters
    ----------
    log_likelihood, log_prior, sample_prior : callable
        As `ParticleMirrorDescent` takes them.
    weighted : bool
        Whether ``log_likelihood`` is given ``sample_weight``.
    """

    def __init__(self, log_likelihood, log_prior, sample_prior, weighted):
        self._log_likelihood = log_likelihood
        self._log_prior = log_prior
        self._sample_prior = sample_prior
        self._weighted = weighted

    def sample_prior(self, rng, m):
        """Draw from the prior; see `Model`."""
        theta = np.asarray(self._sample_prior(rng, m), dtype=np.float64)
        if theta.ndim != 2 or len(theta) != m or not theta.shape[1]:
            raise ValueError(f"sample_prior must return shape ({m}, d), got {theta.shape}.")
        return theta

    def log_prior(self, theta):
        """Log prior density; see `Model`."""
        # A copy: a function may transform its argument in place.
        return _vector("log_prior", self._log_prior(theta.copy()), len(theta))

    def log_likelihood(self, theta, batch):
        """Log-likelihood of a batch; see `Model`."""
        weight = {"sample_weight": batch.weight} if self._weighted else {}
        values = self._log_likelihood(theta.copy(), batch.X, batch.y, **weight)
        return _vector("log_likelihood", values, len(theta))


def takes_weights(function):
    """Whether a function takes ``sample_weight``, and whether it cannot be called without."""
    try:
        parameters = inspect.signature(getattr(function, "py_func", function)).parameters
    except (TypeError, ValueError):  # a builtin: let the call itself decide
        return True, False
    if "sample_weight" in parameters:
        return True, parameters["sample_weight"].default is inspect.Parameter.empty
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()), False


def _vector(name, values, m):
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must return real numbers, got dtype {values.dtype}.")
    values = values.astype(np.float64, copy=False)
    if values.shape != (m,):
        raise ValueError(
            f"{name} must return one value per particle, shape ({m},), got {values.shape}."
        )
    if np.isnan(values).any() or (values == np.inf).any():
        raise FloatingPointError(
            f"{name} returned nan or +inf for some particles; return -inf where a parameter is "
            "impossible."
        )
    return values
