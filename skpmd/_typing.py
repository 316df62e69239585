"""Types of public signatures, for type checkers and for ``typing.get_type_hints``."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpmd._rows.blocks import Blocks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from skpmd.lda import TopicPosterior
    from skpmd.linear import GaussianPosterior
else:  # A running program imports no library or family for the sake of its types.
    Axes = DataFrame = GaussianPosterior = TopicPosterior = Any


class Sparse(Protocol):
    """Sparse matrices and arrays of SciPy."""

    def tocsr(self) -> Any: ...  # noqa: D102


Array: TypeAlias = NDArray[Any]
# Rows: an array, a data frame or a table of Arrow or Dask (all have `__array__`), or these.
MatrixLike: TypeAlias = ArrayLike | Sparse | Blocks
# Results that are no array, or not one alone, where a parameter asks for more.
ArrayOrMore: TypeAlias = NDArray[Any] | Any
# Estimators take no generator, as those of scikit-learn; their methods do.
Seed: TypeAlias = int | np.random.RandomState | None
RandomState: TypeAlias = Seed | np.random.Generator
FilePath: TypeAlias = str | PathLike[str]
Columns: TypeAlias = int | str | Sequence[int] | Sequence[str] | NDArray[Any]
# There is no class that all of scikit-learn's estimators have: any object with their methods.
Estimator: TypeAlias = Any
E = TypeVar("E")  # One class of estimators.
Method = TypeVar("Method", bound=Callable[..., Any])
Value = TypeVar("Value")
Frame: TypeAlias = DataFrame
AxesLike: TypeAlias = Axes | Sequence[Axes] | NDArray[Any]
