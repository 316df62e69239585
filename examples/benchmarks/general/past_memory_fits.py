"""One fit of the study `past_memory`, in a process whose memory may be limited."""

import resource
import time
import warnings
from pathlib import Path

import numpy as np

from ..harness.memory import Peak
from .past_memory_data import COLUMNS, Parts, counts_of, drawn_documents, drawn_rows, forget

_FEW = 2000  # Rows of a fit before, so that what there is to compile or to load is not in the time.
_TARGETS = {"logistic": "labels.npy", "process": "targets.npy"}


def fit(job):
    """The fit, and what it took."""
    name, form = job["model"], job["form"]
    if form != "memory":
        resource.setrlimit(resource.RLIMIT_DATA, (job["limit_mb"] << 20,) * 2)
    warnings.simplefilter("ignore")
    made(name).fit(*few_rows(name))
    data = opened(job)
    peak = Peak()
    peak.start()
    start, cpu, waited = time.perf_counter(), time.process_time(), core_wait()
    made(name).fit(*data)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    waited = core_wait() - waited
    return {
        "model": name, "form": form, "rows": job["rows"], "size_mb": size_mb(name, job["rows"]),
        "limit_mb": None if form == "memory" else job["limit_mb"], "peak_mb": peak.stop(),
        "seconds": seconds, "core_wait_s": waited, "cpu_s": cpu,
        "rows_per_s": job["rows"] / (seconds - waited),
    }  # fmt: skip


def made(name):
    """The estimator, by the parameters that the study says."""
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    from skpmd import (
        BayesianLogisticRegressionPMD,
        GaussianMixturePMD,
        LDATopicModelPMD,
        SparseGPRegressorPMD,
    )

    if name == "logistic":
        return BayesianLogisticRegressionPMD(n_particles=200, random_state=0)
    if name == "process":
        return SparseGPRegressorPMD(
            RBF(7.0) + WhiteKernel(0.1), optimizer=None, approximation="fitc", n_inducing=100,
            random_state=0,
        )  # fmt: skip
    if name == "mixture":
        return GaussianMixturePMD(3, n_particles=1, max_iter=1, max_full_iter=0, random_state=0)
    return LDATopicModelPMD(20, n_particles=1, max_iter=1, random_state=0)


def few_rows(name):
    """A few rows, and y where there is one."""
    if name == "topics":
        return (drawn_documents(0, _FEW),)
    X, labels, targets = drawn_rows(0)
    y = {"logistic": labels, "process": targets}
    return (X[:_FEW], *([y[name][:_FEW]] if name in y else []))


def opened(job):
    """X, and y where there is one, in the form of the job; no file is in the page cache."""
    folder, n, form = Path(job["folder"]), job["rows"], job["form"]
    forget(folder)
    if form == "parquet":
        return (of_parquet(folder),)
    if job["model"] == "topics":
        return (documents_in_memory(folder, n),)
    if form == "memmap":
        X = np.memmap(folder / "X.bin", float, "r", shape=(n, COLUMNS))
    elif form == "memory":
        X = np.fromfile(folder / "X.bin", count=n * COLUMNS).reshape(n, COLUMNS)
    else:
        from skpmd.data import Blocks

        X = Blocks(Parts(folder, n, forgotten=form.endswith("uncached")))
    if job["model"] not in _TARGETS:
        return (X,)
    return X, np.load(folder / _TARGETS[job["model"]])[:n]


def of_parquet(folder):
    """The documents as data in blocks."""
    from skpmd.data import ArrowBlocks

    return ArrowBlocks(folder, transform=counts_of)


def documents_in_memory(folder, n):
    """So many documents as one CSR matrix."""
    from scipy import sparse

    parts, found = [], 0
    for block in of_parquet(folder):
        parts.append(block.X)
        found += block.X.shape[0]
        if found >= n:
            break
    return sparse.vstack(parts, format="csr")[:n]


def size_mb(name, n):
    """What rows take in memory, in MB: documents as counts in single precision."""
    if name == "topics":
        return n * (8.0 * drawn_documents(0, _FEW).nnz / _FEW + 4.0) / 2**20
    return 8.0 * n * COLUMNS / 2**20


def core_wait():
    """Seconds in which the main thread of this process was ready and had no core; 0 if unknown."""
    path = Path("/proc/self/schedstat")
    return int(path.read_text(encoding="utf-8").split()[1]) / 1e9 if path.exists() else 0.0
