"""A million short documents through `partial_fit` of a topic model.

Documents of 5 to 15 tokens, 2000 words, drawn from 20 fixed topics when they are needed and then
forgotten, 10,000 to a call, in a process of its own, one thread, everything
by default: CPU of the calls, peak memory of the process after a tenth of the stream and after all
of it, and the perplexity of new documents beside that of the topics they are drawn from.

``--quick``: 40,000 documents.
"""

import numpy as np

from ..harness.datasets import drawn_documents, drawn_topics
from ..harness.memory import resident
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.worker import alone
from ..peers.tokens import Topics
from .topic_cases import ours, particles
from .topic_completion import Completion, perplexity

CALLS, DOCUMENTS = 100, 10_000
QUICK_CALLS, QUICK_DOCUMENTS = 20, 2_000
WORDS, TOPICS = 2000, 20
PRIORS = {"alpha": 0.1, "eta": 0.05}


def run(config):
    """One stream, in a process of its own."""
    size = (QUICK_CALLS, QUICK_DOCUMENTS) if config.quick else (CALLS, DOCUMENTS)
    return [alone(streamed, dict(zip(("calls", "documents"), size, strict=True)))]


def streamed(job):
    """Warm up, stream, look at the memory, judge."""
    calls, n = job["calls"], job["documents"]
    ours(PRIORS, TOPICS, 0).partial_fit(drawn(0, 200))  # compiles
    model = ours(PRIORS, TOPICS, 0, total_samples=calls * n)
    times, peaks, tokens = [], [], 0
    for number in range(calls):
        X = drawn(number, n)
        with cpu_clock() as clock:
            model.partial_fit(X)
        times.append(clock.cpu)
        peaks.append(resident("VmHWM"))
        tokens += int(X.sum())
    judge = Completion(drawn(calls, min(n, 2000)), 0)
    found, weights = particles(model, sum(times))
    tables = [judge.probabilities(topics) for topics in found]
    exact = Topics(0, 0.0, truth(), np.full(TOPICS, PRIORS["alpha"]))
    half = calls // 2
    return {
        "documents": calls * n,
        "tokens": tokens,
        "cpu": sum(times),
        "second_half_over_first": sum(times[half:]) / sum(times[:half]),
        "peak_mb_first_tenth": peaks[calls // 10 - 1],
        "peak_mb": peaks[-1],
        "perplexity": perplexity(tables, weights),
        "perplexity_truth": judge.perplexity(exact),
    }


def truth():
    """The topics that all documents are drawn from."""
    return drawn_topics(TOPICS, WORDS, PRIORS["eta"], np.random.default_rng(0))


def drawn(number, n):
    """Documents of a call: 5 to 15 tokens each."""
    rng = np.random.default_rng([1, number])
    lengths = rng.integers(5, 16, size=n)
    return drawn_documents(truth(), PRIORS["alpha"], lengths, rng)[0]


def gates(rows):
    """Memory and time of the later documents."""
    row = rows[0]
    growth = row["peak_mb"] - row["peak_mb_first_tenth"]
    return [
        Gate("growth of memory after a tenth, MB", growth, 10.0),
        Gate("CPU of the second half over the first", row["second_half_over_first"], 1.2),
    ]


def plot(rows):
    """Perplexity and memory."""
    plt = pyplot()
    row = rows[0]
    figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    names = ["of pmd", "that the documents\nare drawn from"]
    axes[0].bar(names, [row["perplexity"], row["perplexity_truth"]])
    axes[0].set(xlabel="topics", ylabel="perplexity of new documents")
    counts = [f"{count:,}" for count in (row["documents"] // 10, row["documents"])]
    axes[1].bar(counts, [row["peak_mb_first_tenth"], row["peak_mb"]])
    axes[1].set(xlabel="documents read", ylabel="peak memory of the process, MB")
    for axis in axes:
        axis.bar_label(axis.containers[0], fmt="%.1f", padding=2)
        axis.margins(y=0.1)
    return figure
