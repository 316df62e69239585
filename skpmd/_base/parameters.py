"""Parameters by their names: of particles that functions get, and of a posterior."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from skpmd._base.utils import check_level, weighted_quantile
from skpmd._typing import Array, ArrayLike, RandomState

_SHOWN = 20  # So many names an error lists.
_NONE: Mapping[str, Any] = MappingProxyType({})


def columns_of(name, variables, names=()):
    """Places of a variable, of its shape, or of the coordinate of that name; KeyError without."""
    if name in variables:
        return np.asarray(variables[name].columns)
    if name in names:
        return np.array(list(names).index(name))
    known = list(dict.fromkeys([*variables, *names]))
    more = ", ..." * (len(known) > _SHOWN)
    raise KeyError(
        f"there is no parameter {name!r}; there are: {', '.join(known[:_SHOWN])}{more}"
    ) from None


def with_names(theta, variables):
    """A copy of particles (m, d), which a function may change; with names where there are some."""
    if variables is None:
        return theta.copy()
    found = theta.copy().view(NamedParameters)
    found.variables = variables
    return found


class NamedParameters(np.ndarray):
    """Particles (m, d) as functions of a user get them: an array that also takes names.

    ``theta["z"]`` has the shape (m, ...) of that parameter. Slices and results of arithmetic are
    plain arrays. In a call of a compiled function it is a plain array, too.

    Attributes
    ----------
    variables : dict of str to Variable
        The parameters.
    names : list of str
        Their names.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd._export import Variable
    >>> from skpmd._base.parameters import with_names
    >>> variables = {"mu": Variable(np.array(0)), "z": Variable(np.arange(1, 4))}
    >>> theta = with_names(np.ones((5, 4)), variables)
    >>> theta["mu"].shape, theta["z"].shape, theta[:, 1:].shape
    ((5,), (5, 3), (5, 3))
    >>> theta.names, "tau" in theta
    (['mu', 'z'], False)
    """

    variables: Mapping[str, Any] = _NONE

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return list(self.variables)

    def __contains__(self, key):
        return key in self.variables if isinstance(key, str) else super().__contains__(key)

    def __getitem__(self, key):
        """The parameter of a name, (m, ...), or what an array has there."""
        plain = self.view(np.ndarray)
        if not (isinstance(key, str) and self.variables):
            return plain[key]
        columns = columns_of(key, self.variables)
        places = columns.ravel()
        if places.size and (np.diff(places) == 1).all():  # A view, as a slice by hand is.
            places = slice(places[0], places[-1] + 1)
        return plain[:, places].reshape(len(plain), *columns.shape)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        """Results of arithmetic as plain arrays and numbers, but for arithmetic in place."""
        return self if array is self else np.asarray(array)[()]

    def copy(self, order="C"):
        """A copy, which has the names."""
        return with_names(np.asarray(self), self.variables)

    def __reduce__(self):
        return with_names, (np.asarray(self), dict(self.variables))


class WeightedDraws:
    """Quantiles of weighted draws: ``_weighted()`` are these, (m, ...), and their weights, (m,)."""

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles, of what there are draws of.

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (...) or (k, ...)
            Quantiles, interpolated linearly between draws at the middle of their weight.

        Raises
        ------
        ValueError
            If a probability does not lie in [0, 1].
        """
        return weighted_quantile(*self._weighted(), q)

    def interval(self, level: float = 0.9) -> Array:
        """Central credible intervals: lower and upper ends, along the last axis.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Posterior probability of each interval.

        Returns
        -------
        ndarray of shape (..., 2)
            `quantile` of (1 - level) / 2 and of (1 + level) / 2.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        return np.moveaxis(self.quantile(check_level(level)), 0, -1)

    def _p_positive(self, null=0.0):
        """Probability of a value above ``null``; ties count half."""
        draws, weights = self._weighted()
        return weights @ (0.5 * np.sign(draws - null) + 0.5)


class ParameterDraws(WeightedDraws):
    """One parameter of a posterior, a number or an array: ``posterior["tau"]``.

    Parameters
    ----------
    posterior : Posterior or GaussianPosterior
        Posterior of the entries of the parameter alone.
    shape : tuple of int
        Shape of the parameter.

    Attributes
    ----------
    draws : ndarray of shape (m, ...)
        The parameter of each particle. A `GaussianPosterior` has none.
    weights : ndarray of shape (m,)
        Weights of the particles. NumPy's functions, for which this is the array ``draws``, know
        nothing of them.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import Posterior
    >>> particles = np.random.default_rng(0).normal(size=(500, 2))
    >>> a = Posterior(particles, np.zeros(500), names=["a", "b"])["a"]
    >>> a.mean().shape, a.interval(level=0.9).shape, a.draws.shape
    ((), (2,), (500,))
    """

    def __init__(self, posterior: Any, shape: tuple[int, ...]) -> None:
        self._posterior, self.shape = posterior, shape

    @property
    def draws(self) -> Array:
        """The parameter of each particle, (m, ...)."""
        return self._shaped(self._posterior.particles)

    @property
    def weights(self) -> Array:
        """Weights of the particles, (m,)."""
        return self._posterior.weights

    def mean(self) -> Array:
        """Posterior mean, of the shape of the parameter.

        Returns
        -------
        ndarray
            Weighted average of the draws.
        """
        return self._shaped(self._posterior.mean())

    def std(self) -> Array:
        """Posterior standard deviation, of the shape of the parameter.

        Returns
        -------
        ndarray
            Weighted standard deviation of the draws.
        """
        return self._shaped(self._posterior.std())

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles, as `Posterior.quantile` has them.

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (...) or (k, ...)
            Quantiles.
        """
        return self._shaped(self._posterior.quantile(q))

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """Draws of equal weight, as `Posterior.sample` has them.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Draws in random order.
        """
        return self._shaped(self._posterior.sample(n_samples, random_state))

    def __array__(self, dtype=None, copy=None):
        return np.array(self.draws, dtype=dtype, copy=copy)

    def __repr__(self):
        return f"{type(self).__name__}(shape={self.shape}, {len(self.weights)} draws)"

    def _shaped(self, values):
        return values.reshape((*values.shape[:-1], *self.shape))[()]
