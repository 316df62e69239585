"""Rows several times larger than the memory that the process may have, beside rows in memory.

6 GB of rows of 50 columns in double precision, and a folder of Parquet files of documents. Each
fit has a process of its own with one thread. One that reads has its memory limited by RLIMIT_DATA
(``limit_mb``); ``peak_mb`` is the largest memory that is no page of a file, and ``size_mb`` what
the rows would take in memory. Files are taken out of the page cache before the fit.

* ``blocks``: `skpmd.data.Blocks` of a sequence that reads 20,000 rows at a place of the file;
  "uncached" takes what it has read out of the page cache too, so that each pass comes from the
  disk, as it does of files larger than the machine's memory.
* ``memmap``: ``numpy.memmap`` of the file, given as X.
* ``parquet``: `skpmd.data.ArrowBlocks` of a folder with 2048 documents in a row group.
* ``memory``: the first rows as an array, a fifth of them (documents: a quarter), once before the
  fits that read and once after them, with the same parameters and so steps a row.

``rows_per_s`` are rows of the fit by seconds; of these ``core_wait_s``, in which the process was
ready and had no core, are left out, for other processes may be there. y is in memory. The
parameters that are not defaults keep the fits short: 200 particles of the logistic regression; for
the process 100 inducing inputs and a kernel that is given; for the mixture three components, one
particle and one pass; for the topics 20 of them, one particle and one pass.

``--quick``: 40,000 rows in place of 15 million, which are in memory anyway.
"""

import tempfile
from pathlib import Path

import numpy as np

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.worker import alone
from .past_memory_data import write_documents, write_rows
from .past_memory_fits import fit

ROWS, DOCUMENTS, QUICK = 15_000_000, 4_000_000, 40_000
LIMIT, LIMIT_DOCUMENTS = 1024, 640  # MB
CASES = (
    ("mixture", ("memmap", "blocks")),
    ("topics", ("parquet",)),
    ("process", ("memmap", "blocks", "blocks, uncached")),
    ("logistic", ("blocks",)),
)
SHARE = 0.7


def run(config):
    """Write the files, and fit from them and from memory in turn."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name in ("rows", "documents"):
            (folder / name).mkdir()
        n = write_rows(folder / "rows", QUICK if config.quick else ROWS)
        n_documents = write_documents(folder / "documents", QUICK if config.quick else DOCUMENTS)
        for model, forms in CASES:
            is_topics = model == "topics"
            job = {"model": model, "folder": str(folder / ("documents" if is_topics else "rows"))}
            job["limit_mb"] = LIMIT_DOCUMENTS if is_topics else LIMIT
            job["rows"] = n_documents if is_topics else n
            few = {**job, "rows": job["rows"] // (4 if is_topics else 5), "form": "memory"}
            for one in (few, *({**job, "form": form} for form in forms), few):
                rows.append(alone(fit, one))
                print(rows[-1], flush=True)
    return rows


def shares(rows):
    """(model, form): throughput as a share of the mean of that in memory."""
    found = {}
    for row in rows:
        if row["form"] != "memory":
            own = [one for one in rows if one["model"] == row["model"]]
            memory = np.mean([one["rows_per_s"] for one in own if one["form"] == "memory"])
            found[row["model"], row["form"]] = row["rows_per_s"] / memory
    return found


def gates(rows):
    """Memory within the limit, and throughput."""
    found = []
    for row in rows:
        if row["form"] != "memory":
            name = f"{row['model']}, {row['form']}"
            found.append(Gate(f"{name}: peak memory, MB", row["peak_mb"], row["limit_mb"]))
            share = shares(rows)[row["model"], row["form"]]
            found.append(Gate(f"{name}: throughput as a share of memory's", share, SHARE, ">="))
    return found


def plot(rows):
    """Throughput as a share of that in memory, and peak memory beside the size of the rows."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    own = [row for row in rows if row["form"] != "memory"]
    names = [f"{row['model']}, {row['form']}" for row in own]
    bars = axes[0].barh(names, list(shares(rows).values()), color="C0")
    axes[0].bar_label(bars, fmt="%.2f", padding=3)
    axes[0].axvline(SHARE, color="black", linestyle="--", label=f"target: at least {SHARE:g}")
    axes[0].set(xlabel="throughput, as a share of that in memory")
    axes[0].margins(x=0.15)
    axes[1].barh(names, [row["size_mb"] for row in own], color="lightgrey", label="the rows")
    peaks = axes[1].barh(names, [row["peak_mb"] for row in own], color="C1", label="peak memory")
    axes[1].bar_label(peaks, fmt="%.0f", padding=3)
    axes[1].set(xlabel="MB", xlim=(0.0, None))
    axes[0].invert_yaxis()
    legend_above(figure, axes, ncols=3)
    return figure
