"""Rows whose predictive distributions come from several fits, such as those of cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature

import numpy as np

from skpmd._base.utils import as_floats, as_generator
from skpmd._typing import Array, ArrayLike
from skpmd.predictive import PredictiveDistribution

# What the methods of `PredictiveDistribution` ask of a distribution.
_HOOKS = {"_mean", "_var", "_log_pdf", "_probability", "_quantiles", "_energy", "_crps"}


class JoinedDistribution(PredictiveDistribution):
    """Distributions of n rows, some from one fit and some from others, which have other particles.

    It has the methods that its parts have, with their arguments and shapes: ``mean``, ``std``,
    ``cdf``, ``ppf``, ``interval``, ``crps`` and so on; draws of different parts are independent.
    Indexing selects rows. Conversion to an array gives means and standard deviations, shape (n, 2).

    Parameters
    ----------
    parts : sequence of k PredictiveDistribution
        The distributions, all of one kind.
    places : sequence of k array-likes of shape (n_rows,)
        Of each part the places (int) of its rows; all together are 0 to n - 1.

    Examples
    --------
    >>> from skpmd import FamilyMixture
    >>> from skpmd.wrappers import JoinedDistribution
    >>> parts = [FamilyMixture("poisson", [[1.0]], [[mean]]) for mean in (2.0, 3.0)]
    >>> JoinedDistribution(parts, [[1], [0]]).mean()
    array([3., 2.])
    """

    def __init__(
        self, parts: Sequence[PredictiveDistribution], places: Sequence[ArrayLike]
    ) -> None:
        self._parts, self._places = list(parts), [np.asarray(one, dtype=int) for one in places]

    @property
    def is_count(self) -> bool:
        """See `PredictiveDistribution`."""
        return self._parts[0].is_count

    def _to_skpro(self, index, columns):
        return type(self._parts[0])._to_skpro(self, index, columns)

    def __len__(self):
        return sum(map(len, self._places))

    def _part(self, rows):
        parts, places = [], []
        for one, own in zip(self._parts, self._places, strict=True):
            at, order = np.flatnonzero(np.isin(rows, own)), np.argsort(own)
            parts.append(one[order[np.searchsorted(own, rows[at], sorter=order)]])
            places.append(at)
        return JoinedDistribution(parts, places)

    def __repr__(self):
        return f"JoinedDistribution({len(self)} rows, {self._parts})"

    def __getattr__(self, name: str) -> Callable[..., Array]:
        """A method of all parts, of which each has the y of its own rows."""
        is_known = name in _HOOKS or not name.startswith("_")  # Copies ask for others.
        methods = [getattr(one, name) for one in self._parts] if is_known else []
        if not methods or not callable(methods[0]):
            raise AttributeError(f"JoinedDistribution has no {name}: its parts have their own.")
        taken = signature(methods[0])

        def called(*args, **kwargs):
            given = taken.bind(*args, **kwargs).arguments
            if "random_state" in taken.parameters:
                given["random_state"] = as_generator(given.get("random_state"))
            each = [given] * len(methods)
            if np.ndim(given.get("y")):
                y, n = as_floats("y", given["y"]), len(self)
                if y.shape[-1] != n:
                    raise ValueError(f"y must have as many values as rows, {n}, got {y.shape}.")
                each = [{**given, "y": y[..., own]} for own in self._places]
            found = [method(**some) for method, some in zip(methods, each, strict=True)]
            axis = -1 if {"y", "random_state", "tails"} & set(taken.parameters) else 0
            order = np.argsort(np.concatenate(self._places))
            return np.take(np.concatenate(found, axis=axis), order, axis=axis)

        return called
