"""Rows whose predictive distributions come from several fits, such as those of cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from skpmd._base.utils import as_floats, as_generator
from skpmd._typing import Array, ArrayLike
from skpmd.predictive import PredictiveDistribution


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

    @property
    def shape(self) -> tuple[int, int]:
        """(n, 2), the shape of the array of means and standard deviations."""
        return len(self), 2

    def to_skpro(self, index: Any = None, columns: Any = None) -> Any:
        """Convert to a distribution object of skpro that asks this one; see `FamilyMixture`.

        Parameters
        ----------
        index, columns : pandas.Index, default=None
            Names of the n rows and of the one column; numbers by default.

        Returns
        -------
        skpro.distributions.base.BaseDistribution
            Distributions of the rows.
        """
        kind: Any = type(self._parts[0])
        return kind.to_skpro(self, index, columns)

    def __len__(self):
        return sum(map(len, self._places))

    def __getitem__(self, rows):
        rows = np.atleast_1d(np.arange(len(self))[rows])
        parts, places = [], []
        for one, own in zip(self._parts, self._places, strict=True):
            at, order = np.flatnonzero(np.isin(rows, own)), np.argsort(own)
            parts.append(one[order[np.searchsorted(own, rows[at], sorter=order)]])
            places.append(at)
        return JoinedDistribution(parts, places)

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("a JoinedDistribution is no array: leave copy=False out.")
        table = np.column_stack([self.mean(), self.std()])
        return table if dtype is None else table.astype(dtype)

    def __repr__(self):
        return f"JoinedDistribution({len(self)} rows, {self._parts})"

    def __getattr__(self, name: str) -> Callable[..., Array]:
        """A method of all parts, of which each has the y of its own rows."""
        methods = [] if name.startswith("_") else [getattr(one, name) for one in self._parts]
        if not methods or not callable(methods[0]):  # Copies ask for the former, too.
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
            axis = -1 if {"y", "random_state"} & set(taken.parameters) else 0
            order = np.argsort(np.concatenate(self._places))
            return np.take(np.concatenate(found, axis=axis), order, axis=axis)

        return called
