"""Files of rows and of documents for the study `past_memory`, written and read a part at a time."""

import os
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import expit

COLUMNS, PART = 50, 20_000  # Of the rows, and rows of a part.
WORDS, TOPICS, TOKENS, GROUP = 5000, 20, 100, 2048  # Of the documents; GROUP is a row group's.
_GROUPS = 50  # Row groups of a Parquet file.


def write_rows(folder, n):
    """X in a file of doubles, row by row, and two kinds of y: about so many rows, in parts."""
    parts = -(-n // PART)
    labels, targets = np.empty(parts * PART, np.int8), np.empty(parts * PART)
    with open(folder / "X.bin", "wb") as file:
        for number in range(parts):
            own = slice(number * PART, (number + 1) * PART)
            X, labels[own], targets[own] = drawn_rows(number)
            X.tofile(file)
    np.save(folder / "labels.npy", labels)
    np.save(folder / "targets.npy", targets)
    return parts * PART


def drawn_rows(number):
    """A part by its number: three clusters, labels of a logistic model, values of a function."""
    rng = np.random.default_rng([24, number])
    X = rng.standard_normal((PART, COLUMNS), dtype=np.float32).astype(float)
    X[:, :3] += 3.0 * np.eye(3)[rng.integers(3, size=PART)]
    labels = rng.random(PART) < expit(X @ np.linspace(-0.5, 0.5, COLUMNS))
    targets = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(PART)
    return X, labels, targets


class Parts:
    """Parts of the file of rows, by places; ``forgotten`` leaves none in the page cache."""

    def __init__(self, folder, n, forgotten=False):
        self.path, self.n, self.forgotten = Path(folder) / "X.bin", n, forgotten

    def __len__(self):
        return self.n // PART

    def __getitem__(self, i):
        size = PART * COLUMNS
        with open(self.path, "rb") as file:
            file.seek(8 * size * i)
            rows = np.fromfile(file, count=size).reshape(PART, COLUMNS)
            if self.forgotten:
                drop(file.fileno(), 8 * size * i, 8 * size)
        return rows


def write_documents(folder, n):
    """A folder of Parquet files of so many documents, about: numbers of words, and counts."""
    import pyarrow as pa
    from pyarrow import parquet

    size, done = GROUP * _GROUPS, 0
    while done < n:
        X = drawn_documents(done // size, size)
        columns = [pa.ListArray.from_arrays(X.indptr, one) for one in (X.indices, X.data)]
        table = pa.table(dict(zip(("words", "counts"), columns, strict=True)))
        path = folder / f"documents-{done // size:05d}.parquet"
        parquet.write_table(table, path, row_group_size=GROUP)
        done += size
    return done


def drawn_documents(number, n):
    """Documents of one file, by its number: each has words of two topics, of a hundred tokens."""
    rng = np.random.default_rng([25, number])
    topics = rng.integers(TOPICS, size=(n, 2))
    first = rng.random((n, TOKENS)) < rng.random((n, 1))
    topic = np.where(first, topics[:, :1], topics[:, 1:])
    # Words of a topic are frequent near its place, and those of all topics overlap.
    place = WORDS * rng.random((n, TOKENS)) ** 4 + topic * (WORDS // TOPICS)
    words = place.astype(np.int32) % WORDS
    ends = np.arange(0, n * TOKENS + 1, TOKENS, dtype=np.int32)
    X = sparse.csr_matrix((np.ones(n * TOKENS, np.float32), words.ravel(), ends), shape=(n, WORDS))
    X.sum_duplicates()
    return X


def counts_of(table):
    """Counts of words of an Arrow table of documents, as a CSR matrix."""
    words, counts = (table[name].combine_chunks() for name in ("words", "counts"))
    ends = words.offsets.to_numpy()
    values = counts.flatten().to_numpy(), words.flatten().to_numpy(), ends - ends[0]
    return sparse.csr_matrix(values, shape=(len(words), WORDS))


def forget(folder):
    """Take all files of a folder out of the page cache."""
    os.sync()
    for path in Path(folder).iterdir():
        with open(path, "rb") as file:
            drop(file.fileno(), 0, 0)


def drop(number, start, size):
    """Take a part of an open file out of the page cache, where the system does so."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(number, start, size, os.POSIX_FADV_DONTNEED)
