"""The recipe for Spark: a stream on each partition, and a merge; else on Arrow data."""

import pickle

import numpy as np
import pytest

import skpmd
from skpmd import BayesianLogisticRegressionPMD

pyarrow = pytest.importorskip("pyarrow")

N, COLUMNS = 4000, ["a", "b", "c"]


def fit_partition(batches):
    """The recipe: one estimator of all batches of a partition, as bytes."""
    model = BayesianLogisticRegressionPMD(random_state=0)
    for batch in batches:
        X = np.column_stack([batch[name].to_numpy() for name in COLUMNS])
        model.partial_fit(X, batch["label"].to_numpy(), classes=[0, 1])
    yield pyarrow.RecordBatch.from_pydict({"model": [pickle.dumps(model)]})


def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    return X, (X @ [1.0, -1.0, 0.5] + rng.logistic(size=N) > 0).astype(int)


def as_table(X, y):
    return pyarrow.table({**dict(zip(COLUMNS, X.T, strict=True)), "label": y})


def holds(shards):
    """The merged posterior is that of a fit of all rows, to a tenth of its standard deviations."""
    whole = BayesianLogisticRegressionPMD(random_state=0).fit(*rows())
    merged = skpmd.merge([pickle.loads(one) for one in shards])
    assert (np.abs(merged.coef_ - whole.coef_) < 0.1 * whole.coef_std_).all()
    assert np.abs(merged.coef_std_ / whole.coef_std_ - 1.0).max() < 0.1


def test_the_recipe_on_arrow_data():
    table = as_table(*rows())
    shards = []
    for start in range(0, N, N // 2):
        batches = table.slice(start, N // 2).to_batches(max_chunksize=500)
        (found,) = fit_partition(iter(batches))
        shards.append(found["model"][0].as_py())
    holds(shards)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_recipe_on_local_spark():
    """Two partitions, each with a Python process of its own."""
    sql = pytest.importorskip("pyspark.sql")
    builder = sql.SparkSession.builder.master("local[2]")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.createDataFrame(as_table(*rows())).repartition(2)
        found = frame.mapInArrow(fit_partition, "model binary").collect()
        shards = [bytes(one["model"]) for one in found]
    finally:
        session.stop()
    assert len(shards) == 2
    holds(shards)
