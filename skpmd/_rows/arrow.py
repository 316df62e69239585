"""Arrow tables, and folders of Parquet files, as data in blocks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from skpmd._rows.blocks import Block, Blocks, Parts
from skpmd._rows.table import refuse_dates

_ROWS = 1 << 16  # Of a table in memory, or of a memory-mapped one, that are converted at a time.


class ArrowBlocks(Blocks):
    """Rows of Arrow tables or of Parquet files, a row group at a time.

    Parameters
    ----------
    data : str, path-like, list of these, pyarrow.Table or pyarrow.dataset.Dataset
        A Parquet file, a folder of them, or what pyarrow has opened. Files are read in the order of
        their names.
    target : str or list of str, optional
        Columns that are y.
    sample_weight : str, optional
        Column that holds weights of rows.
    columns : list of str, optional
        Columns that X is made of; by default all others.
    transform : callable, optional
        Makes X of a `pyarrow.Table` with these columns: an array or a CSR matrix with a row for
        each of its rows, as a vectorizer of texts does. By default columns are numbers.

    Raises
    ------
    ImportError
        If pyarrow is not installed (``pip install skpmd[arrow]``).
    ValueError
        If a column is not there.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.data import ArrowBlocks
    >>> x = np.linspace(-1, 1, 100)
    >>> table = pa.table({"x": x, "label": x + np.sin(40 * x) > 0})
    >>> rows = ArrowBlocks(table, target="label")
    >>> BayesianLogisticRegressionPMD(random_state=0).fit(rows).feature_names_in_
    array(['x'], dtype=object)
    """

    def __init__(
        self,
        data: Any,
        *,
        target: str | list[str] | None = None,
        sample_weight: str | None = None,
        columns: list[str] | None = None,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        parts, names = _parts(data)
        self.target = [target] if isinstance(target, str) else list(target or ())
        self.weight, self.transform = sample_weight, transform
        others = {*self.target, sample_weight}
        self.columns = [one for one in names if one not in others] if columns is None else columns
        missing = [one for one in [*self.columns, *self.target, sample_weight] if one not in names]
        missing = [one for one in missing if one is not None]
        if missing:
            raise ValueError(f"There is no column {missing[0]!r}: the columns are {names}.")
        super().__init__(Parts(parts, self._block))

    def _block(self, part):
        """A part as X, y and weights."""
        read = [*dict.fromkeys([*self.columns, *self.target, *filter(None, [self.weight])])]
        table = part(read)
        X = table.select(self.columns)
        names = None
        if self.transform is None:
            X, names = _numbers(X), np.array(self.columns, dtype=object)
        else:
            X = self.transform(X)
        y = None
        if self.target:
            y = [table[name].to_numpy() for name in self.target]
            y = y[0] if len(y) == 1 else np.column_stack(y)
        return Block(X, y, None if self.weight is None else table[self.weight].to_numpy(), names)


def _parts(data):
    """Functions that read some columns of a part of the rows, and the names of all columns."""
    try:
        import pyarrow as pa
        from pyarrow import dataset
    except ImportError as error:
        raise ImportError(
            "Arrow tables and Parquet files need pyarrow: pip install skpmd[arrow]."
        ) from error
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        starts = range(0, data.num_rows, _ROWS) or [0]
        return [_slice_of(data, start) for start in starts], data.column_names
    if not isinstance(data, dataset.Dataset):
        data = dataset.dataset(data)
    fragments = sorted(data.get_fragments(), key=lambda one: str(getattr(one, "path", "")))
    parts = []
    for fragment in fragments:
        has_groups = hasattr(fragment, "split_by_row_group")
        parts += fragment.split_by_row_group() if has_groups else [fragment]
    return [_fragment(one, data.schema) for one in parts], data.schema.names


def _slice_of(table, start):
    return lambda columns: table.select(columns).slice(start, _ROWS)


def _fragment(fragment, schema):
    # One thread: those of Arrow would take the cores that the fit has not been lent.
    return lambda columns: fragment.to_table(schema=schema, columns=columns, use_threads=False)


def _numbers(table):
    """The columns side by side, in single precision where all of them are."""
    columns = [column.to_numpy() for column in table.columns]
    kinds = {column.dtype for column in columns}
    X = np.empty((table.num_rows, len(columns)), np.float32 if kinds == {np.dtype("f4")} else float)
    for j, column in enumerate(columns):
        try:
            refuse_dates("X", column)  # NumPy takes them for numbers.
            X[:, j] = column
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Column {table.column_names[j]!r} is of the type {table.schema.types[j]}, which "
                "is no number: leave it out of columns, or make numbers of it by transform."
            ) from error
    return X
