"""A million short documents through `partial_fit` of a topic model.

Documents of 5 to 15 tokens, 2000 words, drawn from 20 fixed topics when they are needed and then
forgotten, 10,000 to a call, in a process of its own (`topic_stream_worker`), one thread, everything
by default: CPU of the calls, peak memory of the process after a tenth of the stream and after all
of it, and the perplexity of new documents beside that of the topics they are drawn from.

``--quick``: 40,000 documents.
"""

import json
import os
import subprocess
import sys

from .study import FOLDER, Gate, pyplot

CALLS, DOCUMENTS = 100, 10_000
QUICK_CALLS, QUICK_DOCUMENTS = 20, 2_000


def run(config):
    """One stream; threads are limited in the environment."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    size = (QUICK_CALLS, QUICK_DOCUMENTS) if config.quick else (CALLS, DOCUMENTS)
    done = subprocess.run(
        [sys.executable, "-m", f"{__package__}.topic_stream_worker"],
        input=json.dumps(dict(zip(("calls", "documents"), size, strict=True))),
        env={**os.environ, **threads},
        cwd=FOLDER.parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(done.stdout)]


def gates(rows):
    """Memory and time of the later documents."""
    row = rows[0]
    growth = row["peak_mb"] - row["peak_mb_first_tenth"]
    return [
        Gate("growth of memory after a tenth, MB", growth, 10.0),
        Gate("CPU of the second half over the first", row["second_half_over_first"], 1.2),
    ]


def plot(rows, path):
    """Perplexity and memory."""
    plt = pyplot()
    row = rows[0]
    figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
    axes[0].bar(["pmd", "truth"], [row["perplexity"], row["perplexity_truth"]])
    axes[0].set(ylabel="perplexity of new documents")
    axes[1].bar(["a tenth", "all"], [row["peak_mb_first_tenth"], row["peak_mb"]])
    axes[1].set(ylabel="peak memory, MB")
    figure.savefig(path, dpi=120)
    plt.close(figure)
