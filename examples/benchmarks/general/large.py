"""Large fits from disk, and what time depends on: rows, columns, particles.

* ``fit``: 1.6 million generated rows of 50 columns (logistic), the 327,346 flights (process), the
  39,938 package descriptions (topics, from Parquet), 10 million generated rows of ten columns
  (mixture of four components), by the defaults, each in a process of its own with one thread. X is
  a memory-mapped file but for the documents. ``peak_mb`` is the largest memory that is no page of a
  file, Python and libraries included; y is in it.
* ``rows``, ``columns``, ``particles``: CPU of fits of generated data, one of the three at a time
  away from the middle, where ``value`` is what it is. ``process`` has the covariance of 500
  inducing inputs and ``approximation="fitc"`` here, for its other parameters change with the rows
  by default, and ``topics`` have ten topics.

``--quick``: generated data a thousandth of the size.
"""

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from ..harness.memory import Peak
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.worker import alone
from .large_data import COLUMNS, drawn, from_disk, write

ROWS = {"logistic": 1_600_000, "process": 327_346, "topics": 39_938, "mixture": 10_000_000}
# The middle of the curves, and what is varied there.
MIDDLE = {
    "logistic": {"rows": 100_000, "columns": 20, "particles": 2000},
    "process": {"rows": 20_000, "columns": 8, "particles": 1},
    "topics": {"rows": 8000, "columns": 2000, "particles": 4},
    "mixture": {"rows": 100_000, "columns": 10, "particles": 1},
}
VARIED = {"rows": (0.25, 1, 4), "columns": (0.5, 1, 2), "particles": (1, 2, 4)}
PEAK_MB = 2000.0


def run(config):
    """The large fits, then the curves."""
    rows, share = [], 1000 if config.quick else 1
    for name in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            shape = write(Path(folder), name, config, ROWS[name] // share)
            job = {"model": name, "folder": folder, "shape": shape}
            rows.append({"kind": "fit", **alone(large, job)})
        print(rows[-1], flush=True)
    for name in ROWS:
        rows += alone(curves, {"model": name, "share": 100 if config.quick else 1})
    return rows


def made(name, **options):
    """The estimator by its defaults; components and topics have to be given a number."""
    from skpmd import (
        BayesianLogisticRegressionPMD,
        GaussianMixturePMD,
        LDATopicModelPMD,
        SparseGPRegressorPMD,
    )

    classes = {
        "logistic": BayesianLogisticRegressionPMD, "process": SparseGPRegressorPMD,
        "topics": LDATopicModelPMD, "mixture": GaussianMixturePMD,
    }  # fmt: skip
    known = {"topics": {"n_components": 20}, "mixture": {"n_components": 4}}
    return classes[name](**{**known.get(name, {}), "random_state": 0, **options})


def large(job):
    """One large fit: time and memory."""
    warnings.simplefilter("ignore")
    name, folder = job["model"], Path(job["folder"])
    made(name).fit(*drawn(name, 500, COLUMNS[name]))  # What there is to compile, or to load.
    data, peak = from_disk(folder, name, job["shape"]), Peak()
    peak.start()
    start = time.perf_counter()
    with cpu_clock() as clock:
        made(name).fit(*data)
    seconds = time.perf_counter() - start
    rows, columns = job["shape"]
    return {
        "model": name, "rows": rows, "columns": columns, "cpu": clock.cpu, "seconds": seconds,
        "rows_per_cpu_s": rows / clock.cpu, "peak_mb": peak.stop(),
    }  # fmt: skip


def curves(job):
    """CPU of fits that differ from the middle in one number."""
    warnings.simplefilter("ignore")
    name, rows = job["model"], []
    middle = {**MIDDLE[name]}
    middle["rows"] //= job["share"]
    timed(name, middle)
    for kind, factors in VARIED.items():
        for factor in factors:
            values = {**middle, kind: int(middle[kind] * factor)}
            row = {"kind": kind, "model": name, "value": values[kind]}
            rows.append({**row, "cpu": timed(name, values)})
            print(rows[-1], flush=True)
    return rows


def timed(name, values):
    """CPU seconds of a fit of generated rows."""
    options = {"n_particles": values["particles"]}
    if name == "process":
        options |= {"approximation": "fitc", "n_inducing": 500}
    if name == "topics":
        options |= {"n_components": 10}
    data = drawn(name, values["rows"], values["columns"])
    with cpu_clock() as clock:
        made(name, **options).fit(*data)
    return clock.cpu


def slope(rows, model, kind):
    """Power of a quantity that time grows with, between the two largest values."""
    own = [row for row in rows if row["model"] == model and row["kind"] == kind]
    (low, fast), (high, slow) = ((row["value"], row["cpu"]) for row in own[-2:])
    return float(np.log(slow / fast) / np.log(high / low))


def gates(rows):
    """Memory of the large fits, and time that grows no faster than rows and particles."""
    fits = [row for row in rows if row["kind"] == "fit"]
    found = [Gate(f"{row['model']}: peak memory, MB", row["peak_mb"], PEAK_MB) for row in fits]
    for kind in ("rows", "particles"):
        for name in ROWS:
            label = f"{name}: power of {kind} that time grows with, at the end"
            found.append(Gate(label, slope(rows, name, kind), 1.2))
    return found


def plot(rows):
    """CPU seconds of each family by rows, columns and particles, the others as in the middle."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
    for panel, kind in zip(axes, VARIED, strict=True):
        for name in ROWS:
            own = [row for row in rows if row["model"] == name and row["kind"] == kind]
            places = [row["value"] for row in own], [row["cpu"] for row in own]
            panel.loglog(*places, "o-", label=name)
        panel.set(xlabel=kind)
    axes[0].set(ylabel="CPU seconds")
    legend_above(figure, axes, ncols=len(ROWS))
    return figure
