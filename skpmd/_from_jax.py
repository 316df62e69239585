"""Models written in JAX: values and gradients for `skpmd.ParticleMirrorDescent`."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from skpmd._export import library

_MIN_ROWS = 8  # Calls with fewer particles are filled up to so many.


def from_jax(
    log_likelihood: Callable[..., Any], log_prior: Callable[..., Any]
) -> dict[str, Callable[..., Any]]:
    """Turn two JAX functions of one parameter vector into callables for many vectors.

    They are vectorised over particles, differentiated and compiled, in double precision whatever
    JAX's own settings are; these settings are not changed. Needs the extra: ``pip install
    skpmd[jax]``.

    Parameters
    ----------
    log_likelihood : callable
        ``log_likelihood(theta, X, y)`` of one parameter vector, shape (d,), returns a scalar: the
        log-likelihood summed over the rows given. ``y`` is None if `fit` got no y, and a data frame
        X comes as its array. If the function has a keyword ``sample_weight`` of shape (n,), the
        model accepts weights.
    log_prior : callable
        ``log_prior(theta)`` of one parameter vector returns a scalar, which is ``-inf`` outside the
        support.

    Returns
    -------
    dict of str to callable
        ``log_likelihood``, ``log_prior`` and ``log_joint_gradient``, as `ParticleMirrorDescent`
        takes them. They can be pickled if the given functions can.

    Raises
    ------
    ImportError
        If JAX is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import jax.numpy as jnp  # doctest: +SKIP
    >>> from skpmd import ParticleMirrorDescent, from_jax
    >>> def log_likelihood(theta, X, y):
    ...     return -0.5 * jnp.sum((y - X @ theta) ** 2)
    >>> def log_prior(theta):
    ...     return -0.5 * jnp.sum(theta**2 + jnp.log(2 * jnp.pi))
    >>> def sample_prior(rng, m):
    ...     return rng.standard_normal((m, 2))
    >>> functions = from_jax(log_likelihood, log_prior)  # doctest: +SKIP
    >>> model = ParticleMirrorDescent(sample_prior=sample_prior, **functions)  # doctest: +SKIP
    """
    library("jax", "jax")
    return {
        "log_likelihood": _Values(log_likelihood),
        "log_prior": _Values(log_prior),
        "log_joint_gradient": _JointGradient(log_likelihood, log_prior),
    }


class _Compiled:
    """A function of one vector, compiled for many; what is compiled is neither copied nor pickled.

    ``function`` is the one whose signature users see.
    """

    def __init__(self, function):
        functools.update_wrapper(self, function, updated=())

    def __call__(self, theta, *data, **weight):
        """Values of particles, (m, ...): compiled once for each power of two of particles."""
        m, jax = len(theta), library("jax", "jax")
        # JAX knows of arrays alone, and a data frame is a table of numbers to it.
        data = [np.asarray(one) if hasattr(one, "columns") else one for one in data]
        filled = np.concatenate([theta, np.repeat(theta[-1:], _filled(m) - m, axis=0)])
        with _double_precision(jax):
            found = self._compiled(filled, *data, **weight)
            return jax.tree.map(lambda values: np.asarray(values)[:m], found)

    @functools.cached_property
    def _compiled(self):
        jax = library("jax", "jax")

        def many(thetas, *data, **weight):
            return jax.vmap(lambda theta: self._one(theta, *data, **weight))(thetas)

        return jax.jit(many)

    def __getstate__(self):
        """What is pickled; annotations may be of any types, and those of ``function`` are there."""
        left_out = "_compiled", "__annotations__"
        return {key: value for key, value in self.__dict__.items() if key not in left_out}

    def __deepcopy__(self, memo):
        return self  # `clone` copies parameters; compiled functions never change.


class _Values(_Compiled):
    """Values of one function."""

    def _one(self, *arguments, **weight):
        return self.__wrapped__(*arguments, **weight)


class _JointGradient(_Compiled):
    """Values and gradients of the sum of the log-likelihood and the log prior."""

    def __init__(self, log_likelihood, log_prior):
        super().__init__(log_likelihood)
        self._log_prior = log_prior

    def _one(self, theta, *data, **weight):
        def log_joint(theta):
            return self.__wrapped__(theta, *data, **weight) + self._log_prior(theta)

        return library("jax", "jax").value_and_grad(log_joint)(theta)


def _filled(m):
    return max(_MIN_ROWS, 1 << (m - 1).bit_length())


def _double_precision(jax):
    """Context in which JAX computes in double precision, in this thread alone."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # Before JAX 0.8.

    return enable_x64()
