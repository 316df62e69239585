"""Columns of categories: their codes, and a kernel in which categories are equal or not.

A category is as far from every other one as it is from the next: of a column with the length scale
l two rows of different categories are 1 / l apart. A short length scale lets each category have a
function of its own, and under a long one they share one. The squared distances add up with those of
the other columns, so that the kernel is the RBF or Matern kernel of columns in which each category
has an axis, all of one length scale: it is positive definite, and for RBF it is the product of a
kernel for each column (Roustant et al. 2020 have more general ones).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Matern
from sklearn.utils import _safe_indexing

from skpmd._typing import ArrayLike, ArrayOrMore

# The names of types of categories, in pandas and in polars.
_DTYPES = ("category", "Categorical", "Enum")


class MixedKernel(Matern):
    """RBF or Matern kernel of columns of numbers and of codes of categories.

    The squared distance of two rows in length scales adds up the squared differences of numbers,
    and one for each column whose categories differ, over the square of its length scale.

    Parameters
    ----------
    length_scale : array-like of shape (n_features,), default=(1.0,)
        Length scales of columns. Different categories of a column are one over its length scale
        apart.
    length_scale_bounds : pair of floats, array-like of shape (n_features, 2) or "fixed"
        Bounds of the length scales.
    nu : {0.5, 1.5, 2.5, inf}, default=inf
        Smoothness; inf is the RBF kernel.
    categorical : sequence of int, default=()
        Places of the columns of categories.

    Raises
    ------
    ValueError
        On a call, if ``length_scale`` does not have a number for each column.

    References
    ----------
    Roustant, O., Padonou, E., Deville, Y., Clement, A., Perrin, G., Giorla, J. and Wynn, H. (2020).
    Group kernels for Gaussian process metamodels with categorical inputs. SIAM/ASA Journal on
    Uncertainty Quantification 8.

    Examples
    --------
    >>> from skpmd.sparse_gp import MixedKernel
    >>> kernel = MixedKernel([1.0, 2.0], categorical=[1])
    >>> kernel([[0.0, 3]], [[0.0, 3], [0.0, 4], [0.0, 7]]).round(3)
    array([[1.   , 0.882, 0.882]])
    """

    def __init__(
        self,
        length_scale: ArrayLike = (1.0,),
        length_scale_bounds: ArrayLike | str = (1e-5, 1e5),
        nu: float = np.inf,
        categorical: Sequence[int] = (),
    ) -> None:
        super().__init__(length_scale, length_scale_bounds, nu)
        self.categorical = categorical

    def __call__(
        self, X: ArrayLike, Y: ArrayLike | None = None, eval_gradient: bool = False
    ) -> ArrayOrMore:
        """Covariances (n, m), and with ``eval_gradient`` their gradient (n, n, d) by theta."""
        X = np.atleast_2d(np.asarray(X, dtype=np.float64))
        Y = None if Y is None else np.atleast_2d(np.asarray(Y, dtype=np.float64))
        rows = X if Y is None else np.concatenate([X, Y])
        axes, column = self._axes(rows)
        unit = Matern(np.ones(axes.shape[1]), nu=self.nu)
        if Y is not None:
            return unit(axes[: len(X)], axes[len(X) :])
        if not eval_gradient:
            return unit(axes)
        K, by_axis = unit(axes, eval_gradient=True)
        if self.hyperparameter_length_scale.fixed:
            return K, np.empty((*K.shape, 0))
        return K, by_axis @ (column[:, None] == np.arange(X.shape[1]))

    def _axes(self, X):
        """Rows in length scales with an axis for each category, and the column of each axis."""
        scale, parts, column = np.atleast_1d(self.length_scale), [], []
        if len(scale) != X.shape[1]:
            raise ValueError(
                f"length_scale has {len(scale)} numbers, and X has {X.shape[1]} columns."
            )
        for j, values in enumerate(X.T):
            part = values[:, None]
            if j in self.categorical:
                part = (part == np.unique(values)) / np.sqrt(2.0)
            parts.append(part / scale[j])
            column += [j] * part.shape[1]
        return np.concatenate(parts, axis=1), np.array(column)

    def __repr__(self) -> str:
        """As of the kernel of numbers, and which columns are categories."""
        name = "RBF" if np.isinf(self.nu) else f"Matern(nu={self.nu:g})"
        scales = ", ".join(
            f"{scale:.3g}{' (categories)' if j in self.categorical else ''}"
            for j, scale in enumerate(np.atleast_1d(self.length_scale))
        )
        return f"{name}(length_scale=[{scales}])"


class Categories(NamedTuple):
    """Columns of categories of the rows that an estimator has seen."""

    places: tuple[int, ...] = ()  # Of the columns.
    codes: tuple[dict[Any, int], ...] = ()  # Of each column's categories.

    @classmethod
    def of(cls, X, requested):
        """Those of a table, of which none has a code yet.

        ``requested`` is the parameter ``categorical_features``; ValueError where it does not fit.
        """
        names = list(getattr(X, "columns", ()))
        if requested is None or len(_shape(X)) != 2:
            return cls()
        if isinstance(requested, str):
            kinds = [str(_safe_indexing(X, j, axis=1).dtype) for j in range(len(names))]
            places = [j for j, kind in enumerate(kinds) if kind.startswith(_DTYPES)]
        else:
            n, given = _shape(X)[1], np.asarray(requested)
            if given.dtype == bool:
                known = given.shape == (n,)
                places = np.flatnonzero(given) if known else []
            elif given.dtype.kind == "i":
                known = given.ndim == 1 and ((given >= 0) & (given < n)).all()
                places = given if known else []
            else:
                known = given.ndim == 1 and all(one in names for one in given)
                places = [names.index(one) for one in given] if known else []
            if not known:
                what = f"the columns {names}" if names else f"{n} columns"
                raise ValueError(
                    f"categorical_features={requested!r} does not name columns of X, which has "
                    f"{what}: give names, places or a mask of all columns."
                )
        places = tuple(sorted({int(j) for j in places}))
        return cls(places, ({},) * len(places))

    def encoded(self, X, learns=False):
        """The table with codes for categories, and these with those that are new.

        Unless it ``learns`` the codes of new categories are negative, and are forgotten: a row
        differs from all that are known, and from those of other new categories.
        """
        if not self.places or len(_shape(X)) != 2 or _shape(X)[1] <= self.places[-1]:
            return X, self  # What is no such table is refused where it is checked.
        if not hasattr(X, "columns"):
            is_of_numbers = getattr(X, "dtype", np.dtype(object)).kind in "fiub"
            X = np.array(X, dtype=np.float64 if is_of_numbers else object)
        columns, codes = [], []
        for j, known in zip(self.places, self.codes, strict=True):
            column, known = _safe_indexing(X, j, axis=1), dict(known)
            values = [_key(one) for one in np.asarray(column, dtype=object)]
            new = [one for one in dict.fromkeys(values) if one not in known]
            places = count(len(known)) if learns else count(-1, -1)
            known.update(zip(new, places, strict=False))
            columns.append(np.array([known[one] for one in values], dtype=np.float64))
            codes.append(known)
        return _with_columns(X, self.places, columns), Categories(self.places, tuple(codes))


def _key(value):
    """A category; all that are missing are one."""
    try:
        return None if value is None or value != value else value
    except TypeError:  # That of pandas is neither equal nor unequal.
        return None


def _with_columns(X, places, columns):
    """The table with other columns in some places."""
    if hasattr(X, "with_columns"):
        names = [X.columns[j] for j in places]
        new = zip(names, columns, strict=True)
        return X.with_columns(*[type(X[name])(name, column) for name, column in new])
    X = X.copy()
    for j, column in zip(places, columns, strict=True):
        if hasattr(X, "isetitem"):
            X.isetitem(j, column)
        else:
            X[:, j] = column
    return X


def _shape(X):
    """Lengths of the axes of a data frame, an array or lists in a list; () of all else."""
    if hasattr(X, "columns") or isinstance(X, np.ndarray):
        return X.shape
    return np.shape(X) if isinstance(X, list | tuple) else ()


def refuse_kernel_without(kernel, categories, names):
    """ValueError where a user's kernel would take codes of categories for numbers."""
    known = sorted({j for one in _leaves(kernel) for j in getattr(one, "categorical", ())})
    if known == list(categories.places):
        return
    columns = [names[j] if names else j for j in categories.places]
    found = f"X has the columns {columns} of categories" if columns else "X has no such columns"
    takes = f"has {known} as categories" if known else "takes numbers"
    raise ValueError(
        f"kernel={kernel} {takes}, and {found}: leave kernel=None, name the same columns in "
        "categorical_features and in the categorical of a skpmd.sparse_gp.MixedKernel, or set "
        "categorical_features=None and encode them."
    )


def _leaves(kernel):
    parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")]
    parts = [one for one in parts if one is not None]
    return [leaf for one in parts for leaf in _leaves(one)] if parts else [kernel]
