"""Data in blocks: what they may be, what they read as, and what is refused."""

import pickle
import threading
import time

import numpy as np
import pytest
from scipy import sparse

from skpmd._rows.opening import as_table
from skpmd._rows.table import BlockTable, mapped
from skpmd.data import ArrowBlocks, Blocks

CUTS = (0, 7, 7, 30, 31, 100)


def parts(*columns):
    """Pieces of arrays, one of them empty."""
    pairs = zip(CUTS[:-1], CUTS[1:], strict=True)
    return [tuple(column[a:b] for column in columns) for a, b in pairs]


@pytest.fixture
def few(monkeypatch):
    """So that a hundred rows are more than are held in memory."""
    monkeypatch.setattr("skpmd._rows.table._MAX_BLOCK", 4)
    monkeypatch.setattr("skpmd._rows.table._SPARSE_BLOCK", 4)
    monkeypatch.setattr("skpmd._rows.table._GROUP", 3)


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((100, 3))


FORMS = {
    "sequence": lambda items: Blocks(items),
    "iterable": lambda items: Blocks(iter_again(items)),
    "callable": lambda items: Blocks(lambda: iter(items)),
}


class iter_again:
    """What can be gone through again and again, but not by places."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["dense", "sparse", "float32"])
def test_blocks_read_as_the_array_that_they_are(few, X, form, kind):
    whole = {"dense": X, "sparse": sparse.csr_matrix(X), "float32": X.astype(np.float32)}[kind]
    table, y, weight = as_table(FORMS[form]([part for (part,) in parts(whole)]))
    assert y is None and weight is None
    assert table.array is None
    assert (table.shape, table.dtype, len(table)) == (whole.shape, whole.dtype, 100)
    assert (table.low, table.high) == (X.astype(whole.dtype).min(), X.astype(whole.dtype).max())
    rng = np.random.default_rng(1)
    for rows in (
        slice(3, 40), slice(None), slice(90, 200), slice(5, 5), slice(0, 100, 9),
        np.sort(rng.choice(100, 20)), rng.permutation(100), rng.random(100) < 0.1,
        np.array([], dtype=int),
    ):  # fmt: skip
        found, expected = table[rows], whole[rows]
        assert type(found) is type(expected)
        if kind == "sparse":
            found, expected = found.toarray(), expected.toarray()
        np.testing.assert_array_equal(found, expected)


def test_some_rows_read_as_those(few, X):
    table = as_table(Blocks([part for (part,) in parts(X)]))[0]
    mask = np.random.default_rng(2).random(100) < 0.5
    some = table[mask]
    twice = some[np.arange(len(some)) % 2 == 0]
    np.testing.assert_array_equal(some[3:20], X[mask][3:20])
    np.testing.assert_array_equal(twice[:], X[mask][::2])
    np.testing.assert_array_equal(table[:], X)


def test_few_rows_become_an_array(X):
    table, y, weight = as_table(Blocks(parts(X, X[:, 0], X[:, 1] ** 2)))
    np.testing.assert_array_equal(table.array, X)
    np.testing.assert_array_equal(y, X[:, 0])
    np.testing.assert_array_equal(weight, X[:, 1] ** 2)


def test_a_table_can_be_pickled(few, X):
    table = pickle.loads(pickle.dumps(as_table(Blocks([part for (part,) in parts(X)]))[0]))
    np.testing.assert_array_equal(table[10:90], X[10:90])


def test_numbers_of_different_size_are_read_in_the_larger(few, X):
    items = [part for (part,) in parts(X)]
    items[0] = items[0].astype(np.float32)
    table = as_table(Blocks(items))[0]
    assert table.dtype == table[:2].dtype == np.float64


def test_all_rows_are_not_read_at_once(few, X):
    with pytest.raises(TypeError, match="take some of the rows"):
        np.asarray(as_table(Blocks([X]))[0])


def test_a_generator_is_refused(X):
    with pytest.raises(TypeError, match=r"read only once.*skpmd.data.Blocks.*partial_fit"):
        Blocks(X[i : i + 2] for i in range(10))
    with pytest.raises(TypeError, match="has no items"):
        Blocks(3)


@pytest.mark.parametrize(
    "items, message",
    [
        ([np.zeros((3, 2)), np.zeros((3, 4))], "Block 1 of X is dense with 4 columns"),
        ([np.zeros((3, 2)), sparse.csr_matrix((3, 2))], "Block 1 of X is sparse with 2 columns"),
        ([(np.zeros((3, 2)), np.zeros(2))], r"Block 0 has 3 rows of X and y of the shape \(2,\)"),
        ([(np.zeros((3, 2)), np.zeros(3)), np.zeros((3, 2))], "Block 1 has no y"),
        ([(np.zeros((3, 2)), None, np.zeros(3), 1)], "got 4 things"),
        ([], "no rows"),
        ([np.zeros((0, 2))], "no rows"),
    ],
)
def test_what_does_not_go_together_is_named(items, message):
    with pytest.raises(ValueError, match=message):
        as_table(Blocks(items))


def test_y_comes_from_one_place(X):
    with pytest.raises(ValueError, match="y is given, and in the blocks of X too"):
        as_table(Blocks(parts(X, X[:, 0])), X[:, 0])


def test_blocks_that_change_are_noticed(few, X):
    items = [X[:50], X[50:]]
    table = as_table(Blocks(items))[0]
    items[1] = X[50:90]
    with pytest.raises(ValueError, match=r"Block 1 of X has the shape \(40, 3\), and had"):
        table[60:70]
    again = as_table(Blocks(lambda: iter(items)))[0]
    del items[1]
    with pytest.raises(ValueError, match="fewer than when they were read first"):
        again[60:70]


def test_a_file_of_integers_is_read_in_pieces(few, X, tmp_path):
    whole = (10 * X).astype(np.int16)
    file = np.memmap(tmp_path / "rows", np.int16, "w+", shape=whole.shape)
    file[:] = whole
    table = as_table(file)[0]
    assert isinstance(table, BlockTable)
    np.testing.assert_array_equal(table[20:60], whole[20:60])


def arrow(X):
    pyarrow = pytest.importorskip("pyarrow")
    names = [f"x{j}" for j in range(X.shape[1])]
    columns = dict(zip(names, X.T, strict=True))
    return pyarrow.table({"label": X[:, 0] > 0, **columns, "weight": X[:, 1] ** 2})


def test_an_arrow_table_knows_its_columns(few, X):
    blocks = ArrowBlocks(arrow(X), target="label", sample_weight="weight")
    table, y, weight = as_table(blocks)
    assert list(table.names) == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(table[:], X)
    np.testing.assert_array_equal(y, X[:, 0] > 0)
    np.testing.assert_array_equal(weight, X[:, 1] ** 2)


def test_parquet_files_are_read_by_row_group(few, X, tmp_path):
    table = arrow(X)
    parquet = pytest.importorskip("pyarrow.parquet")
    for i in range(2):
        parquet.write_table(table.slice(50 * i, 50), tmp_path / f"{i}.parquet", row_group_size=20)
    blocks = ArrowBlocks(tmp_path, target=["x0", "x1"], columns=["x2", "x1"])
    assert sum(1 for _ in blocks) == 6
    table, y, _ = as_table(blocks)
    np.testing.assert_array_equal(table[15:70], X[15:70, [2, 1]])
    np.testing.assert_array_equal(y, X[:, :2])


def test_a_transform_makes_rows_of_columns(few):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"text": ["a b", "b", "a a"]})

    def counts(part):
        return sparse.csr_matrix([[t.count("a"), t.count("b")] for t in part["text"].to_pylist()])

    found = as_table(ArrowBlocks(table, transform=counts))[0].array
    np.testing.assert_array_equal(found.toarray(), [[1, 1], [0, 1], [2, 0]])


def test_columns_that_are_no_numbers_or_not_there_are_named():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"x": [1.0, 2.0], "name": ["a", "b"]})
    with pytest.raises(ValueError, match="'name' is of the type string.*transform"):
        as_table(ArrowBlocks(table))
    with pytest.raises(ValueError, match="There is no column 'z'"):
        ArrowBlocks(table, target="z")


def test_arrow_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install skpmd\[arrow\]"):
        ArrowBlocks("folder")


class Slow:
    """Blocks that take their time, and who has read them."""

    def __init__(self, items, fail=()):
        self.items, self.fail, self.reads = items, set(fail), []

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        time.sleep(0.004)
        self.reads.append((i, threading.current_thread() is threading.main_thread()))
        if i in self.fail:
            raise OSError(f"no block {i}")
        return self.items[i]


def slow_table(X, **how):
    items = Slow([X[i : i + 10] for i in range(0, 100, 10)], **how)
    table = as_table(Blocks(items))[0]
    items.reads.clear()
    return items, table


def test_the_next_block_is_read_while_one_is_computed_on(few, X):
    """Each once, in order; none of another pass, and none past the end."""
    items, table = slow_table(X)
    for _ in range(2):
        rows = [table[i : i + 5] for i in range(0, 100, 5)]
        np.testing.assert_array_equal(np.concatenate(rows), X)
    assert [i for i, _ in items.reads] == 2 * list(range(10))
    # Two that are read one after the other say that the next will be, too.
    assert [here for _, here in items.reads] == 2 * ([True] * 2 + [False] * 8)
    places = np.array([3, 15, 17, 42, 81, 99])
    items.reads.clear()
    np.testing.assert_array_equal(table[places], X[places])
    assert items.reads == [(0, True), *((i, False) for i in (1, 4, 8, 9))]


def test_another_block_than_the_next_is_the_one_that_is_read(few, X):
    items, table = slow_table(X)
    table[0:20], table[20:30]  # Block 3 is being read.
    np.testing.assert_array_equal(table[75:80], X[75:80])
    np.testing.assert_array_equal(table[30:40], X[30:40])
    copies = pickle.loads(pickle.dumps(as_table(Blocks([X[:50], X[50:]]))[0]))
    np.testing.assert_array_equal(copies[40:60], X[40:60])


def test_a_block_that_fails_ahead_fails_where_it_is_asked_for(few, X):
    items, table = slow_table(X)
    items.fail = {3}
    table[0:20], table[20:30]
    with pytest.raises(OSError, match="no block 3"):
        table[30:40]
    items.fail = set()
    np.testing.assert_array_equal(table[30:40], X[30:40])


def test_blocks_without_places_are_read_by_one_thread(few, X):
    items = Slow([X[i : i + 10] for i in range(0, 100, 10)])
    table = as_table(Blocks(lambda: (items[i] for i in range(10))))[0]
    np.testing.assert_array_equal(np.concatenate([table[i : i + 5] for i in range(0, 100, 5)]), X)
    assert all(here for _, here in items.reads)


def test_a_function_of_rows_is_not_given_those_read_before(few, X):
    table = as_table(Blocks([X[:50], X[50:]]))[0]
    np.testing.assert_array_equal(table[:5], X[:5])
    np.testing.assert_array_equal(mapped(np.negative, table)[:5], -X[:5])
