"""Rows of a design and weighted particles of coefficients, which tiles of rows are made of."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import prod
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse, vstack

from skpmd._base.utils import as_floats
from skpmd._runtime.threads import each
from skpmd._typing import ArrayLike
from skpmd.linear._families import FAMILIES
from skpmd.linear._family import LINKS, Parameters
from skpmd.predictive import PredictiveDistribution

LANES = 64  # Rows of a tile: of 4,000 particles it has 2 MB.
Rows = TypeVar("Rows", bound="ParticleRows")


class ParticleRows(PredictiveDistribution):
    """What `FamilyMixture` is made of: an array of rows, and how functions of them are computed."""

    def __init__(
        self,
        family: str,
        coefficients: ArrayLike,
        design: Any,
        *,
        dispersion: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        link: str = "identity",
        offset: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> None:
        for name, value, known in (("family", family, FAMILIES), ("link", link, LINKS)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}.")
        self.family, self.link = family, link
        self.coefficients = _finite("coefficients", coefficients)
        self.design = design.tocsr() if issparse(design) else _finite("design", design)
        if self.coefficients.ndim != 2 or self.design.shape[1:] != self.coefficients.shape[1:]:
            raise ValueError(
                "coefficients and design must have shapes (m, w) and (n, w), got "
                f"{self.coefficients.shape} and {self.design.shape}."
            )
        m, n = len(self.coefficients), self.design.shape[0]
        names = FAMILIES[family].dispersion
        dispersion = np.empty((m, 0)) if dispersion is None else dispersion
        self.dispersion = _finite("dispersion", dispersion, (m, len(names)))
        if not (self.dispersion > 0.0).all():
            raise ValueError(f"dispersion must be above 0, got {self.dispersion.min()}.")
        self.weights = _finite("weights", np.full(m, 1.0 / m) if weights is None else weights, (m,))
        if (self.weights < 0.0).any() or not np.isclose(self.weights.sum(), 1.0):
            raise ValueError(
                f"weights must be probabilities which add up to 1 over the {m} particles: divide "
                f"them by their sum, {self.weights.sum()}."
            )
        self.offset = np.zeros(n) if offset is None else _finite("offset", offset, (n,))
        if (trials is None) != (family != "binomial"):
            raise ValueError(f"trials are for binomial, and needed there, got family={family!r}.")
        self.trials = None if trials is None else _finite("trials", trials, (n,))
        if trials is not None and ((self.trials < 0) | (self.trials % 1 != 0)).any():
            raise ValueError(f"trials must be integers of at least 0, got {self.trials}.")
        alive = self.weights > 0.0
        self.coefficients, self.dispersion = self.coefficients[alive], self.dispersion[alive]
        self.weights = self.weights[alive] / self.weights[alive].sum()

    @classmethod
    def from_means(cls: type[Rows], family: str, mu: ArrayLike, **options: Any) -> Rows:
        """Distributions from the means of each particle and row, for few rows.

        Parameters
        ----------
        family : str
            Its name.
        mu : array-like of shape (m, n)
            Means; of student_t locations, of binomial probabilities.
        **options : dict
            ``dispersion``, ``weights`` and ``trials`` as in the constructor.

        Returns
        -------
        FamilyMixture
            Distributions of n rows, which take memory of n^2.
        """
        mu = as_floats("mu", mu)
        return cls(family, mu, np.eye(mu.shape[-1]), **options)

    @classmethod
    def joined(cls: type[Rows], parts: Sequence[Rows]) -> Rows:
        """Join the rows of several distributions into one.

        Parameters
        ----------
        parts : sequence of FamilyMixture
            At least one distribution; all must have the same particles.

        Returns
        -------
        FamilyMixture
            Rows of all parts, in this order.

        Raises
        ------
        ValueError
            If families, links or particles differ.
        """
        first, whole = parts[0], copy(parts[0])
        for other in parts[1:]:
            same = (first.family, first.link) == (other.family, other.link) and all(
                np.array_equal(getattr(first, name), getattr(other, name))
                for name in ("coefficients", "dispersion", "weights")
            )
            if not same:
                raise ValueError(f"parts must have the same particles, got {first} and {other}.")
        designs = [one.design for one in parts]
        if any(map(issparse, designs)):
            whole.design = vstack(designs, format="csr")
        else:
            whole.design = np.concatenate(designs)
        whole.offset = np.concatenate([one.offset for one in parts])
        if first.trials is not None:
            whole.trials = np.concatenate([one.trials for one in parts])
        return whole

    # ------------------------------------------------------------------ an array of rows
    @property
    def is_count(self) -> bool:
        """Whether targets are counts, which have probabilities in the place of densities."""
        return self._family.kind == "count"

    @property
    def _family(self):
        return FAMILIES[self.family]()

    def __len__(self):
        return self.design.shape[0]

    def _part(self, rows):
        part = copy(self)
        part.design, part.offset = self.design[rows], self.offset[rows]
        part.trials = None if self.trials is None else self.trials[rows]
        return part

    def __repr__(self):
        return f"FamilyMixture({self.family!r}, {len(self)} rows, {len(self.weights)} particles)"

    # ------------------------------------------------------------------ tiles
    def _tile(self, start):
        """`Parameters` of all particles for the rows of the tile that starts there, and these."""
        rows, link, family = slice(start, start + LANES), LINKS[self.link], self._family
        some = self.design[rows]
        tile = np.zeros((LANES, self.design.shape[1]))  # Sums of a product depend on its shape.
        tile[: some.shape[0]] = some.toarray() if issparse(some) else some
        eta = (tile @ self.coefficients.T)[: some.shape[0]] + self.offset[rows, None]
        rest = link.rest(eta) if family.needs_rest else None
        trials = None if self.trials is None else self.trials[rows, None]
        return Parameters(
            link.mean(eta), rest, tuple(self.dispersion.T), trials, self.weights
        ), rows

    def _by_tiles(self, function):
        """Results (..., n) of a function of the `Parameters` of a tile and of its rows."""

        def one(start):
            with np.errstate(all="ignore"):
                return function(*self._tile(start))

        return np.concatenate(each(one, range(0, max(len(self), 1), LANES)), axis=-1)

    def _at(self, y, function):
        """Values of a function of parameters and of targets (r,), for each row of y."""
        y, n = self._targets(y), len(self)
        y = y if y.ndim else np.full(n, y)
        table = y.reshape(prod(y.shape[:-1]), n)

        def values(p, rows):
            found = [function(p, one[rows]) for one in table]
            return np.reshape(found, (len(table), len(p.mu)))

        return self._by_tiles(values).reshape(y.shape)


def _finite(name, values, shape=None):
    """An array of finite numbers, of that shape if one is given."""
    values = as_floats(name, values)
    if shape is not None and values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite, got nan or infinite values.")
    return values
