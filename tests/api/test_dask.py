"""Collections of Dask: the posterior of the array, whatever the workers, and lazy predictions."""

import os
import signal
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from skpmd import SparseGPClassifierPMD
from skpmd._rows import dask_table, table
from skpmd._rows.dask_table import DaskBlocks, DaskTable
from tests.api.test_data_in_blocks import (
    CASES,
    TOLERANCE,
    N,
    fitted,
    gp,
    logistic,
    mixture,
    normal_mean,
    numbers,
    topics,
)

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

CHUNKS = (10, 240, 1, 349, 300)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """So that these rows are several groups of blocks, and not held in memory."""
    monkeypatch.setattr("skpmd._rows.table._MAX_BLOCK", 16)
    monkeypatch.setattr("skpmd._rows.table._SPARSE_BLOCK", 16)
    monkeypatch.setattr("skpmd._rows.table._GROUP", 8)
    with dask.config.set(scheduler="synchronous"):
        yield


def as_collection(X):
    """An array of Dask of these rows, in chunks of its own; a matrix in chunks of columns too."""
    if X is None or X.ndim == 1:
        return None if X is None else da.from_array(X, chunks=450)
    if not sparse.issparse(X):
        return da.from_array(X, chunks=(CHUNKS, 1))
    ends = np.cumsum(CHUNKS)
    parts = [
        da.from_delayed(
            dask.delayed(X[end - n : end]), (n, X.shape[1]), meta=sparse.csr_matrix((0, 0))
        )
        for n, end in zip(CHUNKS, ends, strict=True)
    ]
    return da.concatenate(parts)


@pytest.mark.slow_but("logistic", "process", "mixture", "topics")
@pytest.mark.parametrize("name", CASES)
def test_collections_have_the_posterior_of_the_array(name):
    """Sums in another order round otherwise, and what comes of it is known to 1e-10."""
    model, X, y = CASES[name]()
    expected = fitted(model, X, y)
    found = fitted(model, as_collection(X), as_collection(y))
    tolerance = TOLERANCE.get(name, 1e-10)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["logistic", "process", "mixture", "topics"])
def test_weights_and_rows_of_weight_zero_are_those_of_the_array(name):
    model, X, y = CASES[name]()
    weight = np.random.default_rng(5).integers(3, size=N).astype(float)
    expected = fitted(model, X, y, sample_weight=weight)
    data = as_collection(X), as_collection(y)
    found = fitted(model, *data, sample_weight=da.from_array(weight, chunks=300))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def counted_calls(monkeypatch, name):
    """The arguments of each call of a method of `DaskTable`, as a list that grows."""
    inner, calls = getattr(DaskTable, name), []

    def called(self, *args, **kwargs):
        calls.append(args)
        return inner(self, *args, **kwargs)

    monkeypatch.setattr(DaskTable, name, called)
    return calls


@pytest.mark.slow_but("False")
@pytest.mark.parametrize("replaces", [False, True])
def test_large_batches_go_to_the_rows_and_rows_come_for_small_ones(monkeypatch, replaces):
    """A batch as large as a block is sent. Both find what they find of the array."""
    sampling = "replacement" if replaces else "epoch"
    for size in (8, 64, N):
        params = {"proposal": "prior", "max_iter": 1, "reweight": False, "sampling": sampling}
        model, X = normal_mean(batch_size=size, **params), numbers(p=1)
        expected = fitted(model, X)
        with monkeypatch.context() as patch:
            sent, taken = counted_calls(patch, "total"), counted_calls(patch, "_read")
            found = fitted(model, as_collection(X))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
        batches = [places for *_, places in sent if places is not None]
        assert bool(batches) == (size == 64 or replaces and size == N)
        assert (len(taken) > 1) == (size == 8)  # One batch tells whether the likelihood is a sum.


def test_sums_of_a_mixture_are_made_where_the_rows_are(monkeypatch):
    """No pass over all rows brings them here: starts and the reservoir alone are of rows."""
    taken = counted_calls(monkeypatch, "_read")
    for max_full_iter in (1, 6):
        model, X, _ = mixture(max_iter=0, max_full_iter=max_full_iter)
        expected, before = fitted(model, X), len(taken)
        found = fitted(model, as_collection(X))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
        assert len(taken) - before == 5


def test_data_frames_know_names_and_few_rows_are_an_array():
    pandas = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    model, X, y = logistic()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"]).assign(label=y)
    frames = dd.from_pandas(frame, npartitions=4)
    expected = fitted(model, frame[["a", "b", "c"]], frame["label"])
    for some in (frames, frames.repartition(npartitions=1)):
        found = fitted(model, some[["a", "b", "c"]], some["label"])
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
        assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names of the blocks"):
        model.partial_fit(frames[["b", "a", "c"]], frames["label"])
    proba = model.predict_proba(frames[["a", "b", "c"]])
    assert isinstance(proba, da.Array)
    np.testing.assert_array_equal(proba, model.predict_proba(frame[["a", "b", "c"]]))
    few = frames[["a", "b", "c"]].partitions[:1], frames["label"].partitions[:1]
    np.testing.assert_array_equal(  # The group of the patch is no more than these rows.
        fitted(model, few[0].head(100), few[1].head(100)),
        fitted(model, frame[["a", "b", "c"]][:100], frame["label"][:100]),
    )


def test_streams_take_collections_part_by_part():
    model, X, y = logistic()
    model.partial_fit(as_collection(X), as_collection(y), classes=["no", "yes"])
    other, size = clone(model), table.group_size(X)
    for start in range(0, N, size):
        other.partial_fit(X[start : start + size], y[start : start + size], classes=["no", "yes"])
    np.testing.assert_array_equal(model.posterior_.particles, other.posterior_.particles)


def flat(values):
    """All numbers of a prediction of any kind."""
    if isinstance(values, tuple):
        return np.concatenate([flat(one) for one in values])
    if hasattr(values, "means"):
        return np.concatenate([values.means, values.stds, values.weights]).ravel()
    return np.ravel(np.asarray(values))


def process_classifier():
    X = np.random.default_rng(0).uniform(-2, 2, (N, 2))
    return SparseGPClassifierPMD(n_inducing=10, random_state=0), X, X[:, 0] > 0


PREDICTIONS = {
    "logistic": (logistic, {
        "predict": {}, "predict_proba": {"return_interval": 0.9}, "decision_function": {},
        "predict_log_proba": {}, "predict_proba_interval": {"level": 0.5},
        "predict_uncertainty": {},
    }),
    "process": (gp, {
        "predict": {"return_std": True}, "predict_proba": {}, "predict_interval": {},
        "predict_quantiles": {"alpha": [0.1, 0.5]}, "predict_uncertainty": {},
    }),
    "process classifier": (process_classifier, {"predict": {}, "predict_proba": {}}),
    "mixture": (mixture, {
        "predict": {}, "predict_proba": {}, "score_samples": {}, "predict_proba_interval": {},
    }),
    "topics": (topics, {
        "transform": {"return_std": True}, "predict_proba": {}, "score_samples": {},
    }),
}  # fmt: skip


@pytest.mark.slow_but("logistic", "process")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", PREDICTIONS)
def test_predictions_of_collections_are_lazy_and_those_of_the_array(name):
    case, methods = PREDICTIONS[name]
    model, X, y = case()
    model.fit(X[:200], None if y is None else y[:200])
    collection = as_collection(X)
    for method, arguments in methods.items():
        found = getattr(model, method)(collection, **arguments)
        expected = getattr(model, method)(X, **arguments)
        assert type(found) is (da.Array if isinstance(expected, np.ndarray) else type(expected))
        if flat(expected).dtype.kind == "f":
            np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(flat(found), flat(expected))
    assert model.score(collection, as_collection(y)) == pytest.approx(model.score(X, y), rel=1e-12)


def test_what_is_wrong_with_a_collection_is_named():
    model, X, y = logistic()
    data = as_collection(X), as_collection(y)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[900, 450\]"):
        model.fit(data[0], data[1][:450])
    with pytest.raises(ValueError, match="2D array"):
        model.fit(data[0][:, 0], data[1])
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(da.where(data[0] > 3.0, np.nan, data[0]), data[1])
    model.fit(X, y)
    with pytest.raises(ValueError, match="3 features"):
        model.predict(data[0][:, :2])  # Before any block is computed.
    process, X, y = gp()
    with pytest.raises(ValueError, match="return_cov=True is of all rows"):
        process.fit(X, y).predict(as_collection(X), return_cov=True)
    with pytest.raises(ValueError, match="call partial_fit"):
        SparseGPClassifierPMD().fit(as_collection(X), as_collection(y > 0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_of_a_collection_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    """To the same bits; that of other rows is refused."""
    model, X, y = logistic(proposal="prior", max_iter=3, batch_size=64)
    data = as_collection(X), as_collection(y)
    inner, calls, stop = DaskBlocks.total, [], [None]

    def total(self, *args, **kwargs):
        calls.append(args)
        if len(calls) == stop[0]:
            raise KeyboardInterrupt
        return inner(self, *args, **kwargs)

    monkeypatch.setattr(DaskBlocks, "total", total)
    expected = fitted(model, *data)
    n = len(calls)
    stop[0] = n + n // 2
    monkeypatch.setattr("skpmd._base.checkpoint._SECONDS", 0.0)
    monkeypatch.setattr("skpmd._base.checkpoint._TIMES", 0.0)
    model.set_params(checkpoint=tmp_path / "fit.ckpt")
    with pytest.raises(KeyboardInterrupt):
        fitted(model, *data)
    with pytest.raises(ValueError, match="X has other values"):
        fitted(model, data[0] + 1.0, data[1])
    np.testing.assert_array_equal(fitted(model, *data), expected)
    assert n < len(calls) - n < 2 * n  # The first pass is not taken again.


# ---------------------------------------------------------------------- workers
@pytest.fixture(scope="module")
def cluster():
    """Two workers, processes of their own; Dask starts a new one where one is lost."""
    distributed = pytest.importorskip("distributed")
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=":0") as workers,
    ):
        yield workers


def on(cluster, model, *data):
    """The posterior of a fit of collections on a cluster."""
    from distributed import Client

    with Client(cluster), dask.config.set(scheduler=None):
        return fitted(model, *map(as_collection, data))


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 4])
def test_every_route_has_the_same_posterior_on_any_number_of_workers(n_workers):
    distributed = pytest.importorskip("distributed")
    off = {}
    with distributed.LocalCluster(
        n_workers, threads_per_worker=1, dashboard_address=":0"
    ) as workers:
        for name in CASES:
            model, X, y = CASES[name]()
            expected, found = fitted(model, X, y), on(workers, model, X, y)
            error = np.max(abs(found - expected) / (1.0 + abs(expected)))
            if not error <= TOLERANCE.get(name, 1e-10):
                off[name] = error
    assert not off


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(cluster, monkeypatch):
    """The third sum loses the process of a worker while it is made."""
    model, X, y = logistic()
    expected = fitted(model, X, y)
    inner, calls = DaskBlocks.total, []

    def total(self, function, add, *columns, places):
        calls.append(places)
        if len(calls) == 3:
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        return inner(self, function, add, *columns, places=places)

    monkeypatch.setattr(DaskBlocks, "total", total)
    np.testing.assert_allclose(on(cluster, model, X, y), expected, rtol=1e-10, atol=1e-10)
    assert len(calls) > 3


# ---------------------------------------------------------------------- what others make of them
def three_blocks():
    """600 rows of two classes, and the same as collections of three blocks."""
    _, X, y = logistic()
    X, y = X[:600], (y[:600] == "yes").astype(int)
    return X, y, da.from_array(X, chunks=(200, 3)), da.from_array(y, chunks=200)


def test_wrappers_of_dask_ml_run_unchanged():
    wrappers = pytest.importorskip("dask_ml.wrappers")
    X, y, rows, labels = three_blocks()
    model = logistic()[0]
    later = wrappers.ParallelPostFit(clone(model)).fit(X, y)
    expected = clone(model).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(later.predict_proba(rows).compute(), expected)
    stream = wrappers.Incremental(clone(model), shuffle_blocks=False)
    found = stream.fit(rows, labels, classes=[0, 1]).estimator_.coef_
    for start in range(0, 600, 200):
        model.partial_fit(X[start : start + 200], y[start : start + 200], classes=[0, 1])
    np.testing.assert_array_equal(found, model.coef_)


@pytest.mark.slow
def test_searches_run_on_the_workers(cluster):
    """And a task of a worker may itself fit a collection."""
    from distributed import Client
    from joblib import parallel_config
    from sklearn.model_selection import GridSearchCV

    X, y, rows, labels = three_blocks()
    model = logistic()[0]
    search = GridSearchCV(model, {"prior_scale": [0.1, 1.0]}, cv=2)
    expected = search.fit(X, y).cv_results_["mean_test_score"]
    with Client(cluster) as client, dask.config.set(scheduler=None):
        with parallel_config("dask"):
            found = search.fit(X, y).cv_results_["mean_test_score"]
        inside = client.submit(_coefficients_of_collections, X, y).result(timeout=60)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(inside, model.fit(X, y).coef_, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_fits_in_tasks_make_room_for_what_they_wait_for(cluster):
    """As many fits as there are threads, which would else wait for each other."""
    from distributed import Client

    X, y, *_ = three_blocks()
    expected = logistic()[0].fit(X, y).coef_
    with Client(cluster) as client, dask.config.set(scheduler=None):
        tasks = [client.submit(_coefficients_of_collections, X, y, key=key) for key in "abc"]
        for task in tasks:
            np.testing.assert_allclose(task.result(timeout=60), expected, rtol=1e-10)


@pytest.mark.slow
def test_the_client_that_is_set_is_the_one_that_is_waited_for(cluster):
    from distributed import Client

    X, y, *collections = three_blocks()
    expected = logistic()[0].fit(X, y).coef_
    with Client(cluster, set_as_default=False) as client, dask.config.set(scheduler=client):
        np.testing.assert_allclose(logistic()[0].fit(*collections).coef_, expected, rtol=1e-10)


def _coefficients_of_collections(X, y):
    data = da.from_array(X, chunks=(200, 3)), da.from_array(y, chunks=200)
    return logistic()[0].fit(*data).coef_


@pytest.mark.parametrize("n_blocks", [1, 7, 8, 9, 65, 100])
def test_sums_are_of_all_blocks_in_their_order(n_blocks):
    blocks = DaskBlocks(da.from_array(np.arange(2.0 * n_blocks).reshape(n_blocks, 2), (1, 2)))
    found = blocks.total(_with_place, _joined, range(n_blocks), places=range(n_blocks))
    assert found == [(2.0 * i, i) for i in range(n_blocks)]


def _with_place(X, i):
    return [(float(X[0, 0]), i)]


def _joined(one, other):
    return one + other


def test_what_is_delayed_is_refused_by_name():
    model, X, y = logistic()
    for name, given in {
        "X": (dask.delayed(X), y),
        "y": (da.from_array(X), dask.delayed(y)),
    }.items():
        with pytest.raises(TypeError, match=f"{name} is Delayed.* its shape is not known"):
            model.fit(*given)


def test_a_row_of_the_data_says_what_a_made_up_one_cannot():
    """Columns of numbers as words are read where they are read in memory."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    model, X, y = logistic()
    X = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model.fit(X, y)
    words = X.astype(str).astype(object)
    found = model.predict_proba(dd.from_pandas(words, npartitions=3)).compute()
    np.testing.assert_allclose(found, model.predict_proba(words), rtol=1e-10)


def test_a_wait_for_workers_hands_on_the_errors_of_others(monkeypatch):
    distributed = pytest.importorskip("distributed")

    def at_once(futures, timeout):
        raise TimeoutError("of a handler")

    monkeypatch.setattr(distributed, "wait", at_once)
    with pytest.raises(TimeoutError, match="of a handler"):
        dask_table._n_done([])
    monkeypatch.setattr(dask_table, "_PATIENCE", 0.0)
    assert dask_table._n_done([]) == 0


def test_a_thread_that_cannot_leave_a_task_says_what_to_do(monkeypatch):
    distributed = pytest.importorskip("distributed")

    def secede():
        raise AttributeError("executor")

    monkeypatch.setattr(distributed, "secede", secede)
    with pytest.raises(RuntimeError, match="set n_jobs=1"), dask_table._no_task():
        pass
