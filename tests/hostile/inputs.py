"""Tables, weights, labels, targets and parameters, as hypothesis strategies.

Each is drawn as names of what is done to plain numbers and a seed, so that a failure reads well and
shrinks to the plain case.
"""

from importlib.util import find_spec

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.gaussian_process import kernels

MAX_ROWS, MAX_COLUMNS = 25, 4
SEEDS = st.integers(0, 999)


def _one(X, rng, value):
    """X with one entry replaced."""
    X = X.copy()
    if X.size:
        X[rng.integers(len(X)), rng.integers(X.shape[1])] = value
    return X


def _column(X, rng, values):
    """X with one column replaced."""
    X = X.copy()
    X[:, rng.integers(X.shape[1])] = values
    return X


# What happens to the numbers of a table of shape (n, p).
NUMBERS = {
    "plain": lambda X, rng: X,
    "1e-300": lambda X, rng: X * 1e-300,
    "1e-12": lambda X, rng: X * 1e-12,
    "1e12": lambda X, rng: X * 1e12,
    "1e300": lambda X, rng: X * 1e300,
    "scales": lambda X, rng: X * 10.0 ** rng.uniform(-12, 12, X.shape[1]),
    "many scales": lambda X, rng: X * 10.0 ** rng.uniform(-300, 300, X.shape[1]),
    "time stamps": lambda X, rng: X + 1e10,
    "outlier": lambda X, rng: _one(X, rng, 10.0 ** rng.uniform(3, 90)),
    "constant column": lambda X, rng: _column(X, rng, 7.0),
    "columns alike": lambda X, rng: _column(X, rng, X[:, 0]),
    "equal rows": lambda X, rng: np.repeat(X[:1], len(X), axis=0),
    "zeros": lambda X, rng: np.zeros_like(X),
    "rounded": lambda X, rng: np.round(X),
    "separable": lambda X, rng: np.sign(X) * (1.0 + np.abs(X)),
    "nan": lambda X, rng: _one(X, rng, np.nan),
    "inf": lambda X, rng: _one(X, rng, np.inf),
    "-0.0": lambda X, rng: _one(X, rng, -0.0),
    "subnormal": lambda X, rng: _one(X, rng, 5e-324),
}


def _unsorted(X):
    """CSR with entries out of order, one given twice and one that is zero."""
    rows = sparse.coo_array(X)
    twice = np.concatenate([rows.data, 0.5 * rows.data[:1], [0.0]])
    i = np.concatenate([rows.coords[0], rows.coords[0][:1], [0]])[::-1]
    j = np.concatenate([rows.coords[1], rows.coords[1][:1], [0]])[::-1]
    return sparse.coo_array((twice[::-1], (i, j)), shape=X.shape).tocsr()


def _frame(X):
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def _missing(X):
    frame = _frame(X).astype("Float64")
    frame.iloc[0, 0] = pd.NA
    return frame


def _read_only(X):
    X = X.copy()
    X.setflags(write=False)
    return X


def _quietly(X, dtype):
    with np.errstate(all="ignore"):
        return X.astype(dtype)


# What a table comes as.
TABLES = {
    "array": lambda X: X,
    "float32": lambda X: _quietly(X, np.float32),
    "float16": lambda X: _quietly(X, np.float16),
    "int64": lambda X: _quietly(np.clip(np.round(np.nan_to_num(X)), -1e15, 1e15), np.int64),
    "uint8": lambda X: _quietly(np.clip(np.abs(np.nan_to_num(X)), 0, 255), np.uint8),
    "bool": lambda X: X > 0.0,
    "longdouble": lambda X: X.astype(np.longdouble),
    "big-endian": lambda X: X.astype(">f8"),
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::-2],
    "read-only": _read_only,
    "list": lambda X: X.tolist(),
    "object": lambda X: X.astype(object),
    "text": lambda X: X.astype(str),
    "words": lambda X: np.full(X.shape, "word"),
    "complex": lambda X: X + 1j,
    "masked": lambda X: np.ma.masked_greater(X, 1.0),
    "CSR": sparse.csr_array,
    "CSR, float32": lambda X: sparse.csr_array(_quietly(X, np.float32)),
    "CSC matrix": sparse.csc_matrix,
    "COO": sparse.coo_array,
    "CSR, unsorted": lambda X: _unsorted(X) if X.size else sparse.csr_array(X),
    "CSR, 64-bit indices": lambda X: _wide(sparse.csr_array(X)),
    "frame": _frame,
    "frame, nullable": lambda X: _frame(X).convert_dtypes(),
    "frame, pd.NA": lambda X: _missing(X) if X.size else _frame(X),
    "frame, categories": lambda X: _frame(X).astype("category"),
    "frame, names alike": lambda X: pd.DataFrame(X, columns=["x"] * X.shape[1]),
    "frame, numbered": pd.DataFrame,
    "frame, no unique rows": lambda X: _frame(X).set_axis(np.zeros(len(X), dtype=int)),
    "1-D": lambda X: X.ravel(),
    "3-D": lambda X: X[..., None],
    "number": lambda X: 3.0,
    "None": lambda X: None,
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "generator": lambda X: (row for row in X),
    "dates": lambda X: np.full(X.shape, np.datetime64("2024-02-29")),
    "durations": lambda X: np.full(X.shape, np.timedelta64(3, "D")),
    "frame, dates": lambda X: _frame(X).assign(x0=pd.Timestamp("2024-02-29")),
    "frame, words": lambda X: _frame(X).assign(x0="word"),
    "frame, bool": lambda X: _frame(X).assign(x0=True),
    "frame, sparse": lambda X: _frame(X).astype(pd.SparseDtype(float, 0.0)),
    "None inside": lambda X: _one(X.astype(object), np.random.default_rng(0), None),
    "rows of one more": lambda X: [*X.tolist(), [0.0]],
    "nested": lambda X: [[[value] for value in row] for row in X],
    "set": lambda X: set(X.ravel()),
    "dict": lambda X: dict(enumerate(X.T)),
}


def _columns(X):
    return {f"x{j}": column for j, column in enumerate(X.T.astype(float))}


def _polars(X, missing=False, lazy=False):
    import polars

    frame = polars.DataFrame(_columns(X))
    frame = frame.with_columns(polars.lit(None).alias("x0")) if missing else frame
    return frame.lazy() if lazy else frame


def _arrow(X):
    import pyarrow

    return pyarrow.table(_columns(X))


def _arrow_columns(X):
    return _frame(X).convert_dtypes(dtype_backend="pyarrow")


# Other libraries' frames, where they are installed.
if find_spec("polars"):
    TABLES["polars"] = _polars
    TABLES["polars, null"] = lambda X: _polars(X, missing=True)
    TABLES["polars, lazy"] = lambda X: _polars(X, lazy=True)
if find_spec("pyarrow"):
    TABLES["arrow"] = _arrow
    TABLES["frame, arrow"] = _arrow_columns


def _wide(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


WEIGHTS = {
    "none": lambda n, rng: None,
    "ones": lambda n, rng: np.ones(n),
    "uniform": lambda n, rng: rng.random(n),
    "some zero": lambda n, rng: rng.integers(0, 2, n).astype(float),
    "all zero": lambda n, rng: np.zeros(n),
    "1e-300": lambda n, rng: np.full(n, 1e-300),
    "1e300": lambda n, rng: np.full(n, 1e300),
    "many scales": lambda n, rng: 10.0 ** rng.uniform(-29, 12, n),
    "subnormal": lambda n, rng: np.full(n, 5e-324),
    "negative": lambda n, rng: -rng.random(n),
    "nan": lambda n, rng: np.full(n, np.nan),
    "inf": lambda n, rng: np.full(n, np.inf),
    "too long": lambda n, rng: np.ones(n + 1),
    "2-D": lambda n, rng: np.ones((n, 2)),
    "list": lambda n, rng: [1] * n,
    "number": lambda n, rng: 2.0,
    "text": lambda n, rng: ["heavy"] * n,
    "Series": lambda n, rng: pd.Series(rng.random(n), index=np.arange(n)[::-1]),
}
LABELS = {
    "0, 1": lambda n, rng: rng.integers(0, 2, n),
    "text": lambda n, rng: np.array(["no", "yes"])[rng.integers(0, 2, n)],
    "object": lambda n, rng: np.array(["no", "yes"], dtype=object)[rng.integers(0, 2, n)],
    "bool": lambda n, rng: rng.random(n) < 0.5,
    "floats": lambda n, rng: rng.integers(0, 2, n).astype(float),
    "three": lambda n, rng: rng.integers(0, 3, n),
    "all different": lambda n, rng: np.arange(n),
    "one": lambda n, rng: np.zeros(n, dtype=int),
    "rare": lambda n, rng: (np.arange(n) == 0).astype(int),
    "numbers": lambda n, rng: rng.standard_normal(n),
    "nan": lambda n, rng: np.full(n, np.nan),
    "None among text": lambda n, rng: np.array([None, "yes"], dtype=object)[rng.integers(0, 2, n)],
    "text and numbers": lambda n, rng: np.array([1, "yes"], dtype=object)[rng.integers(0, 2, n)],
    "too short": lambda n, rng: np.zeros(max(n - 1, 0), dtype=int),
    "column": lambda n, rng: rng.integers(0, 2, (n, 1)),
    "two columns": lambda n, rng: rng.integers(0, 2, (n, 2)),
    "Series": lambda n, rng: pd.Series(rng.integers(0, 2, n)),
    "categories": lambda n, rng: pd.Series(rng.integers(0, 2, n)).astype("category"),
    "nullable": lambda n, rng: pd.Series(rng.integers(0, 2, n)).astype("Int64"),
    "pd.NA": lambda n, rng: pd.Series([pd.NA] + [1] * (n - 1), dtype="Int64"),
    "strings": lambda n, rng: pd.Series(rng.integers(0, 2, n)).astype(str).astype("string"),
    "categories, one unused": lambda n, rng: pd.Categorical(["a"] * n, categories=["a", "b"]),
    "complex": lambda n, rng: rng.integers(0, 2, n) * 1j,
    "inf": lambda n, rng: np.where(rng.random(n) < 0.5, np.inf, 0.0),
    "1e300": lambda n, rng: 1e300 * rng.integers(0, 2, n),
    "dates": lambda n, rng: np.datetime64("2024-02-29") + rng.integers(0, 2, n),
    "bytes": lambda n, rng: np.array([b"no", b"yes"])[rng.integers(0, 2, n)],
    "list": lambda n, rng: rng.integers(0, 2, n).tolist(),
    "number": lambda n, rng: 1,
    "none": lambda n, rng: None,
}


def _own(y, is_first):
    """The labels of y in a first call, and none in others."""
    try:
        return None if y is None or not is_first else np.unique(np.asarray(y))
    except TypeError:  # Text and numbers have no order.
        return None


# The argument ``classes`` of a call with labels y, which may be the first.
CLASSES = {
    "own": _own,
    "none": lambda y, is_first: None,
    "two": lambda y, is_first: [0, 1],
    "three": lambda y, is_first: [0, 1, 2],
    "in another order": lambda y, is_first: [1, 0],
    "twice": lambda y, is_first: [0, 1, 1],
    "one": lambda y, is_first: [1],
    "empty": lambda y, is_first: [],
    "words": lambda y, is_first: ["no", "yes"],
    "nan": lambda y, is_first: [0.0, np.nan],
    "None": lambda y, is_first: np.array([None, "yes"], dtype=object),
    "number": lambda y, is_first: 3,
    "word": lambda y, is_first: "yes",
    "2-D": lambda y, is_first: [[0, 1]],
}
TARGETS = {
    "plain": lambda n, rng: rng.standard_normal(n),
    "1e-300": lambda n, rng: 1e-300 * rng.standard_normal(n),
    "1e-12": lambda n, rng: 1e-12 * rng.standard_normal(n),
    "1e12": lambda n, rng: 1e12 * rng.standard_normal(n),
    "1e300": lambda n, rng: 1e300 * rng.standard_normal(n),
    "time stamps": lambda n, rng: 1e10 + rng.standard_normal(n),
    "constant": lambda n, rng: np.full(n, 3.0),
    "zeros": lambda n, rng: np.zeros(n),
    "outlier": lambda n, rng: np.append(1e30, rng.standard_normal(max(n - 1, 0)))[:n],
    "float32": lambda n, rng: rng.standard_normal(n).astype(np.float32),
    "int": lambda n, rng: rng.integers(0, 5, n),
    "bool": lambda n, rng: rng.random(n) < 0.5,
    "column": lambda n, rng: rng.standard_normal((n, 1)),
    "two columns": lambda n, rng: rng.standard_normal((n, 2)),
    "too short": lambda n, rng: np.zeros(max(n - 1, 0)),
    "nan": lambda n, rng: np.full(n, np.nan),
    "inf": lambda n, rng: np.full(n, np.inf),
    "text": lambda n, rng: ["3.5"] * n,
    "words": lambda n, rng: ["much"] * n,
    "Series": lambda n, rng: pd.Series(rng.standard_normal(n)),
    "nullable": lambda n, rng: pd.Series(rng.standard_normal(n)).astype("Float64"),
    "pd.NA": lambda n, rng: pd.Series([pd.NA] + [1.0] * (n - 1), dtype="Float64"),
    "many scales": lambda n, rng: rng.standard_normal(n) * 10.0 ** rng.uniform(-90, 90, n),
    "subnormal": lambda n, rng: np.full(n, 5e-324),
    "complex": lambda n, rng: rng.standard_normal(n) * 1j,
    "object": lambda n, rng: rng.standard_normal(n).astype(object),
    "dates": lambda n, rng: np.datetime64("2024-02-29") + rng.integers(0, 2, n),
    "3-D": lambda n, rng: rng.standard_normal((n, 1, 1)),
    "no columns": lambda n, rng: np.empty((n, 0)),
    "sparse": lambda n, rng: sparse.csr_array(rng.standard_normal((n, 1))),
    "list": lambda n, rng: rng.standard_normal(n).tolist(),
    "number": lambda n, rng: 1.0,
    "none": lambda n, rng: None,
}
# Values for any parameter; those that a class offers by name come on top.
EDGES = (
    None, True, False, 0, 1, 2, 3, -1, 7, 0.0, 0.5, 1.0, 1.5, -0.5, 1e-300, 1e-12, 1e12, 1e300,
    np.nan, np.inf, "typo", "", b"auto", [], [1.0, 2.0], {}, (), np.float32(0.5), np.int64(2),
    np.array(2), np.ones(3), object, 1000, 2 + 1j, "nan", [None], {"x": 1}, [[0.5, 0.1]], pd.NA,
)  # fmt: skip
RBF, NOISE = kernels.RBF(), kernels.WhiteKernel()
# Values of parameters that few others are valid for. Random states are made anew for each case.
SPECIAL = {
    "kernel": st.sampled_from([
        RBF, NOISE, 2.0 * RBF + NOISE, kernels.Matern(nu=0.5), kernels.Matern(nu=np.inf),
        kernels.RationalQuadratic() + NOISE, kernels.ExpSineSquared(), kernels.DotProduct(),
        kernels.RBF(length_scale_bounds="fixed"), kernels.RBF([1.0, 1.0]), RBF * RBF,
        kernels.RBF(1e-300, "fixed"), kernels.RBF(1e300, "fixed"), kernels.ConstantKernel(),
        kernels.ConstantKernel(1e300, "fixed") * RBF, kernels.RBF(1.0, (1e-300, 1e300)),
        kernels.RBF(1.0, (2.0, 1.0)), kernels.RBF(-1.0), kernels.RBF(np.nan), RBF**2, RBF + 1.0,
        kernels.CompoundKernel([RBF, NOISE]), kernels.PairwiseKernel(metric="cosine"),
    ]),
    "hyperprior": st.sampled_from([
        [stats.gamma(2.0)], [stats.gamma(2.0)] * 2, [stats.gamma(2.0)] * 3, [stats.norm()],
        [stats.lognorm(3.0)], [stats.halfcauchy()], [stats.uniform(1.0, 1e-3)], [None],
    ]),
    "random_state": st.one_of(
        st.builds(np.random.RandomState, st.just(0)), st.builds(np.random.default_rng, st.just(0))
    ),
    "class_weight": st.sampled_from([
        {0: 1.0, 1: 2.0}, {0: -1.0, 1: 1.0}, {0: np.nan, 1: 1.0}, {0: 0.0, 1: 1.0}, {7: 1.0},
        {0: 1e300, 1: 1.0}, {0: "heavy", 1: 1.0}, {"no": 2.0},
    ]),
    **dict.fromkeys(
        ("mean_prior", "mean_scale_prior", "covariance_prior", "doc_topic_prior",
         "topic_word_prior", "alpha", "inducing_init"),
        st.sampled_from([
            [1.0], [1.0, 2.0], [0.0, 1.0], [-1.0, 1.0], [np.nan, 1.0], [np.inf, 1.0], [1e300, 1.0],
            [1e-300, 1.0], np.eye(2), -np.eye(2), np.ones((2, 2)), np.eye(3), np.ones((2, 4)),
            ["a", "b"], [[1.0], [2.0, 3.0]], [1j, 0.0], np.zeros((0, 2)), np.eye(2) * 1e300,
        ]),
    ),
}  # fmt: skip


def mostly(usual, table):
    """Names of a table, two of three the usual one."""
    return st.one_of(st.just(usual), st.just(usual), st.sampled_from(sorted(table)))


@st.composite
def tables(draw, positive=False):
    """What is done to a table, as a dict that `table` takes."""
    return {
        "n": draw(st.integers(1, MAX_ROWS)),
        "numbers": draw(mostly("plain", NUMBERS)),
        "comes_as": draw(mostly("array", TABLES)),
        "positive": positive and draw(st.booleans()),
        "seed": draw(SEEDS),
    }


def table(p, n, numbers, comes_as, positive, seed):
    """A table with p columns."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        X = NUMBERS[numbers](rng.standard_normal((n, p)), rng)
        return TABLES[comes_as](np.abs(X) if positive else X)


def of(rows, choices, name, n):
    """Weights, labels or targets for so many rows, by a name of theirs."""
    return choices[name](n, np.random.default_rng([rows["seed"], 1]))


def parameters(kind, fixed=()):
    """Names and values of up to two parameters of a class, valid ones and others."""
    offered = {
        name: sorted(str(one) for constraint in known for one in getattr(constraint, "options", ()))
        for name, known in kind._parameter_constraints.items()
        if name in kind._get_param_names() and name not in fixed
    }
    one = st.sampled_from(sorted(offered)).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.one_of(
                *([st.sampled_from(offered[name])] if offered[name] else []),
                *([SPECIAL[name]] if name in SPECIAL else []),
                st.sampled_from(EDGES),
            ),
        )
    )
    return st.one_of(st.just({}), st.lists(one, max_size=2).map(dict))
