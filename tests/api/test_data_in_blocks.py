"""The same rows in an array and in blocks of any kind have the same posterior."""

import contextlib
import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd._rows import table
from skpmd._rows.table import BlockTable
from skpmd.data import ArrowBlocks, Blocks

N = 900
CUTS = (0, 10, 10, 250, 251, 600, N)  # Blocks of very different sizes, one of them empty.


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """So that these rows are several groups of blocks, and not held in memory."""
    monkeypatch.setattr("skpmd._rows.table._MAX_BLOCK", 16)
    monkeypatch.setattr("skpmd._rows.table._SPARSE_BLOCK", 16)
    monkeypatch.setattr("skpmd._rows.table._GROUP", 8)


def numbers(seed=0, p=3):
    return np.random.default_rng(seed).standard_normal((N, p))


def log_likelihood(theta, X, y):
    return -0.5 * ((np.asarray(X)[:, 0] - theta[:, :1]) ** 2).sum(axis=1)  # Blocks are frames.


def log_prior(theta):
    return -0.5 * (theta[:, 0] / 10) ** 2 - np.log(10 * np.sqrt(2 * np.pi))


def sample_prior(rng, m):
    return 10.0 * rng.standard_normal((m, 1))


def normal_mean(**params):
    """The posterior of a mean of normal rows, under steps of the engine."""
    params = {"n_particles": 200, "random_state": 0, **params}
    return ParticleMirrorDescent(log_likelihood, log_prior, sample_prior, **params)


def logistic(**params):
    X = numbers()
    y = np.where(X[:, 0] + np.random.default_rng(1).logistic(size=N) > 0, "yes", "no")
    y[X[:, 1] > 1.5] = params.pop("third", "yes")
    params = {"n_particles": 500, "random_state": 0, **params}
    return BayesianLogisticRegressionPMD(**params), X, y


def gp(**params):
    X = np.random.default_rng(0).uniform(-2, 2, (N, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.2 * np.random.default_rng(1).standard_normal(N)
    params = {
        "kernel": RBF(1.0) + WhiteKernel(0.1), "optimizer": None, "n_inducing": 30,
        "approximation": "fitc", "random_state": 0, **params,
    }  # fmt: skip
    return SparseGPRegressorPMD(**params), X, y


def mixture(**params):
    X = numbers() + 5.0 * np.random.default_rng(1).integers(3, size=(N, 1))
    return GaussianMixturePMD(3, **{"n_particles": 4, "random_state": 0, **params}), X, None


def topics(**params):
    rng = np.random.default_rng(0)
    words = rng.dirichlet(np.full(40, 0.1), size=3)
    shares = rng.dirichlet(np.full(3, 0.3), size=N)
    X = sparse.csr_matrix([rng.multinomial(20, one @ words) for one in shares], dtype=float)
    params = {"n_particles": 2, "max_iter": 2, "random_state": 0, **params}
    return LDATopicModelPMD(3, **params), X, None


CASES = {
    "custom": lambda: (normal_mean(), numbers(p=1), None),
    "custom, steps": lambda: (normal_mean(proposal="prior", max_iter=2), numbers(p=1), None),
    "logistic": logistic,
    "logistic, three classes": lambda: logistic(third="perhaps"),
    "logistic, steps": lambda: logistic(proposal="prior", max_iter=2),
    "logistic, moves": lambda: logistic(moves="always", n_particles=100),
    "logistic, mean field": lambda: logistic(covariance_type="diag"),
    "logistic, heavy tails": lambda: logistic(prior="cauchy", scale=None),
    "process": gp,
    "process, posterior": lambda: gp(
        weighting="posterior", n_particles=20, n_inducing=8, max_iter=1,
        kernel=RBF(1.0) + WhiteKernel(0.1, "fixed"),
    ),
    "process, stacking": lambda: gp(n_particles=2, kernel=RBF(1.0) + WhiteKernel(0.1, "fixed")),
    "mixture": mixture,
    "mixture, full batch": lambda: mixture(max_iter=0, covariance_type="diag"),
    "topics": topics,
    "topics, chains": lambda: topics(max_iter="auto"),
    "topics, in order": lambda: topics(shuffle=False, evaluate_every=1),
    "topics, full batch": lambda: topics(max_full_iter=2, early_stopping=True),
}  # fmt: skip


def fitted(model, *data, **weights):
    """All numbers of the posterior."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # They are few, for speed.
        model.fit(*data, **weights)
        if isinstance(model, LDATopicModelPMD):
            return model.components_
        if isinstance(model, SparseGPRegressorPMD):
            warnings.simplefilter("ignore", UserWarning)  # Some forms know names of columns.
            return model.predict(numbers(p=2)[:20])
    posterior = model.posterior_
    return np.append(np.ravel(getattr(posterior, "particles", 0)), posterior.mean())


def blocks_of(X, y):
    pairs = zip(CUTS[:-1], CUTS[1:], strict=True)
    return [X[a:b] if y is None else (X[a:b], y[a:b]) for a, b in pairs]


def as_arrow(X, y):
    pyarrow = pytest.importorskip("pyarrow")
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    table = pyarrow.table(columns if y is None else {**columns, "y": y})
    return ArrowBlocks(table, target=None if y is None else "y")


FORMS = {
    "sequence": lambda X, y: Blocks(blocks_of(X, y)),
    "iterable": lambda X, y: Blocks(lambda: iter(blocks_of(X, y))),
    "arrow": as_arrow,
}


# A posterior over hyperparameters follows gradients for hundreds of steps, and rounding with them.
TOLERANCE = {"process, posterior": 1e-8}


@pytest.mark.slow_but(
    "logistic",
    "logistic, heavy tails",
    "logistic, mean field",
    "mixture, full batch",
    "process",
    "topics",
)
@pytest.mark.parametrize("name", CASES)
def test_blocks_have_the_posterior_of_the_array(name):
    model, X, y = CASES[name]()
    expected = fitted(model, X, y)
    forms = ["sequence", "iterable"] if sparse.issparse(X) else FORMS
    for form in forms:
        found = fitted(model, FORMS[form](X, y))
        tolerance = TOLERANCE.get(name, 1e-10)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=form)


@pytest.mark.parametrize("name", ["custom", "logistic", "process", "mixture", "topics"])
def test_weights_and_rows_of_weight_zero_are_those_of_the_array(name):
    model, X, y = CASES[name]()
    if name == "custom":
        model.set_params(log_likelihood=weighted_likelihood)
    weight = np.random.default_rng(5).integers(3, size=N).astype(float)
    expected = fitted(model, X, y, sample_weight=weight)
    pairs = zip(CUTS[:-1], CUTS[1:], strict=True)
    items = [(X[a:b], None if y is None else y[a:b], weight[a:b]) for a, b in pairs]
    for data, given in ((Blocks(items), None), (Blocks(blocks_of(X, y)), weight)):
        found = fitted(model, data, sample_weight=given)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def weighted_likelihood(theta, X, y, sample_weight):
    return -0.5 * (X[:, 0] - theta[:, :1]) ** 2 @ sample_weight


def test_rows_in_memory_are_few(monkeypatch):
    """Neither a pass nor a step has more rows in memory than a group of blocks and a block."""
    X = numbers()
    most = []

    class Rows:
        def __len__(self):
            return N // 10

        def __getitem__(self, i):
            return X[10 * i : 10 * i + 10]

    table = Blocks(Rows())
    inner = BlockTable._read

    def read(self, *parts):
        out = inner(self, *parts)
        most.append(len(out))
        return out

    monkeypatch.setattr(BlockTable, "_read", read)
    GaussianMixturePMD(3, n_particles=2, random_state=0, batch_size=20).fit(table)
    # A group has 128 rows, and up to a batch is left of the one before. The reservoir and the
    # starts hold a sample, which for so few rows is all of them.
    assert sorted(set(most))[-1] <= N
    assert np.median(most) <= 128 + 20


def test_streams_take_blocks_part_by_part():
    model, X, y = logistic()
    size = table.group_size(X)
    model.partial_fit(Blocks(blocks_of(X, y)), classes=["no", "yes"])
    other, *_ = logistic()
    for start in range(0, N, size):
        other.partial_fit(X[start : start + size], y[start : start + size], classes=["no", "yes"])
    np.testing.assert_array_equal(model.posterior_.particles, other.posterior_.particles)


@pytest.mark.parametrize("name", ["y", "sample_weight", "noise_variance"])
def test_a_stream_refuses_values_of_more_rows_than_there_are(name):
    model, X, y = gp() if name == "noise_variance" else logistic()
    given = {"y": y, **({} if name == "noise_variance" else {"classes": ["no", "yes"]})}
    given[name] = np.append(y, y[:50]) if name == "y" else np.ones(len(X) + 50)
    message = f"{name} has {len(X) + 50} values, and X has {len(X)} rows"
    with pytest.raises(ValueError, match=message):
        model.partial_fit(Blocks(blocks_of(X, None)), **given)
    assert not model.__sklearn_is_fitted__()


def test_a_number_weighs_all_parts_of_a_stream():
    found = []
    for weight in (2.0, np.full(N, 2.0)):
        model, X, _ = mixture()
        model.partial_fit(Blocks(blocks_of(X, None)), sample_weight=weight)
        found.append(model.means_)
    np.testing.assert_array_equal(*found)


def test_a_part_of_a_stream_whose_rows_have_no_weight_is_passed_over():
    model, X, _ = mixture()
    weight = np.where(np.arange(N) < N // 4, 1.0, 0.0)
    model.partial_fit(Blocks(blocks_of(X, None)), sample_weight=weight)
    other = mixture()[0].partial_fit(Blocks(blocks_of(X[: N // 4], None)))
    np.testing.assert_allclose(model.means_, other.means_, rtol=1e-10)
    with pytest.raises(ValueError, match="zero"):
        mixture()[0].partial_fit(Blocks(blocks_of(X, None)), sample_weight=0.0 * weight)


def interrupted(items, last):
    """Blocks whose last one cannot be read after the first pass."""
    passes = []

    def again():
        passes.append(1)
        for i, item in enumerate(items):
            if len(passes) > 1 and i == last:
                raise KeyboardInterrupt
            yield item

    return Blocks(again)


@pytest.mark.parametrize("name", ["custom", "logistic", "process", "mixture", "topics"])
def test_an_interrupted_stream_of_blocks_takes_nothing_in(name):
    """Counts of topics change in place: those of the parts before are taken back too."""
    model, X, y = CASES[name]()
    if name == "logistic":
        model.partial_fit(X[:200], y[:200], classes=["no", "yes"])
    else:
        model.partial_fit(X[:200], None if y is None else y[:200])
    state, file = model._state, pickle.dumps(model._state)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(interrupted(blocks_of(X, y), last=5))
    assert model._state is state
    assert pickle.dumps(model._state) == file


def test_names_of_columns_are_learnt_and_held_on_to():
    model, X, y = logistic()
    model.fit(as_arrow(X, y))
    assert list(model.feature_names_in_) == ["x0", "x1", "x2"]
    table = as_arrow(X, y)
    table.columns = ["x1", "x0", "x2"]
    with pytest.raises(ValueError, match="feature names of the blocks"):
        model.partial_fit(table)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("value, message", [(np.nan, "contains NaN"), (np.inf, "infinity")])
def test_numbers_that_are_none_are_refused(few, value, message):
    model, X, _ = mixture()
    X[700, 1] = value
    X = X[690:710] if few else X
    with pytest.raises(ValueError, match=message):
        model.fit(Blocks([X[:10], X[10:]]))


def test_what_needs_all_rows_in_memory_says_so():
    model, X, y = gp()
    blocks = Blocks(blocks_of(X, y))
    assert model.set_params(approximation="auto").fit(blocks).approximation_ == "fitc"
    with pytest.raises(ValueError, match="approximation='vecchia' retains all rows"):
        model.set_params(approximation="vecchia").fit(blocks)
    with pytest.raises(ValueError, match="call partial_fit"):
        SparseGPClassifierPMD().fit(Blocks(blocks_of(X, y > 0)))
    mixed, X, _ = mixture(strategy="parameters")
    with pytest.raises(ValueError, match="strategy='conjugate'"):
        mixed.fit(Blocks(blocks_of(X, None)))
    with pytest.raises(ValueError, match="requires y"):
        model.set_params(approximation="fitc").fit(Blocks(blocks_of(X, None)))
    with pytest.raises(ValueError, match="log_joint_gradient"):
        normal_mean(log_joint_gradient=lambda theta, X, y: None).fit(Blocks(blocks_of(X, None)))
    with pytest.raises(TypeError, match="rows of each block"):
        model.sample_y(blocks)
    _, X, _ = topics()
    with pytest.raises(ValueError, match="Negative values"):
        LDATopicModelPMD(2).fit(Blocks(blocks_of(-X, None)))


def test_progress_counts_the_blocks(capsys):
    model, X, _ = mixture(verbose=1)
    model.fit(Blocks(blocks_of(X, None)))
    out = "".join(capsys.readouterr())
    assert "first pass over the blocks" in out


def test_a_memory_mapped_file_is_an_array(tmp_path):
    model, X, y = logistic()
    file = np.memmap(tmp_path / "rows", np.float64, "w+", shape=X.shape)
    file[:] = X
    np.testing.assert_array_equal(fitted(model, file, y), fitted(model, X, y))


@pytest.mark.slow_for("logistic, steps", "topics")
@pytest.mark.parametrize("name", ["logistic, steps", "process", "mixture", "topics"])
def test_a_fit_of_blocks_goes_on_from_its_checkpoint(name, tmp_path, monkeypatch):
    model, X, y = CASES[name]()
    items = blocks_of(X, y)
    expected = fitted(model, Blocks(items))
    monkeypatch.setattr("skpmd._base.checkpoint._SECONDS", 0.0)
    monkeypatch.setattr("skpmd._base.checkpoint._TIMES", 0.0)
    model.set_params(checkpoint=tmp_path / "fit")
    reads = []

    class Stopped:
        """Blocks that can be read so often: for the digest, the first pass, and some of the fit."""

        def __len__(self):
            return len(items)

        def __getitem__(self, i):
            reads.append(i)
            if len(reads) > 50:
                raise KeyboardInterrupt
            return items[i]

    with warnings.catch_warnings(), contextlib.suppress(KeyboardInterrupt):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Blocks(Stopped()))
    np.testing.assert_array_equal(fitted(model, Blocks(items)), expected)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["logistic", "process", "mixture", "topics"])
def test_predictions_of_blocks_are_those_of_all_rows(name):
    """One block has no rows. Scores take y and weights of the blocks."""
    model, X, y = CASES[name]()
    model.fit(X[:200], None if y is None else y[:200])
    blocks, weight = Blocks(blocks_of(X, None)), np.arange(N) % 3.0
    methods = "predict", "predict_proba", "predict_interval", "transform", "score_samples"
    for method in methods:
        if not hasattr(model, method) or (name, method) == ("process", "predict_proba"):
            continue
        found, expected = (getattr(model, method)(data) for data in (blocks, X))
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(found, expected)
    pairs = zip(CUTS[:-1], CUTS[1:], strict=True)
    items = [(X[a:b], None if y is None else y[a:b], weight[a:b]) for a, b in pairs]
    expected = model.score(X, y, sample_weight=weight)
    assert model.score(Blocks(items)) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="have no rows"):
        model.predict_proba(Blocks([X[:0]]))


# ------------------------------------------------------------------- frames of blocks
def log_likelihood_by_name(theta, X, y):
    return stats.norm.logpdf(y, theta["slope"][:, None] * np.asarray(X["dose"]))


def mean_by_name(theta, X):
    return theta["slope"][:, None] * np.asarray(X["dose"])


@pytest.mark.parametrize("n", [90, 300])  # In memory, and not.
@pytest.mark.parametrize("kind", ["frames", "arrow", "dask"])
def test_functions_of_rows_get_frames_wherever_rows_are(kind, n, monkeypatch):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"age": rng.normal(size=n), "dose": rng.normal(size=n)})
    y = 1.5 * table["dose"].to_numpy() + rng.normal(size=n)
    model = ParticleMirrorDescent(
        log_likelihood_pointwise=log_likelihood_by_name, predict_mean=mean_by_name,
        prior={"slope": stats.norm(0.0, 3.0)}, random_state=0,
    )  # fmt: skip
    expected = clone(model).fit(table, y)
    halves = slice(0, 40), slice(40, n)
    X, target = Blocks([(table[rows], y[rows]) for rows in halves]), None
    if kind == "arrow":
        pyarrow = pytest.importorskip("pyarrow")
        with_y = pyarrow.Table.from_pandas(table.assign(y=y))
        X = ArrowBlocks(with_y, target="y")
    elif kind == "dask":
        X = pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=2)
        target = y
        import dask

        monkeypatch.setitem(dask.config.config, "scheduler", "synchronous")  # No threads are left.
    found = model.fit(X, target)
    assert list(found.feature_names_in_) == ["age", "dose"]
    np.testing.assert_allclose(found.posterior_.mean(), expected.posterior_.mean(), rtol=1e-8)
    np.testing.assert_allclose(found.predict(X), expected.predict(table), rtol=1e-8)
    assert found.score(X, target) == pytest.approx(expected.score(table, y))
