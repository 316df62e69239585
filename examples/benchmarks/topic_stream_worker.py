"""A million documents into a topic model, in a process of its own, so that its memory is its own.

Started by the ``topic_stream`` study as ``python -m examples.benchmarks.topic_stream_worker``; the
job comes as JSON on standard input, the answer goes out as JSON on standard output. Each call's
documents are drawn when they are needed, from the number of the call, and forgotten.
"""

import json
import sys

import numpy as np

from .datasets import drawn_documents, drawn_topics
from .large_fit_worker import resident
from .timing import cpu_clock
from .topic_cases import ours, particles
from .topic_completion import Completion, Topics, perplexity

_WORDS, _TOPICS = 2000, 20
_PRIORS = {"alpha": 0.1, "eta": 0.05}


def truth():
    """The topics that all documents are drawn from."""
    return drawn_topics(_TOPICS, _WORDS, _PRIORS["eta"], np.random.default_rng(0))


def drawn(number, n):
    """Documents of a call: 5 to 15 tokens each."""
    rng = np.random.default_rng([1, number])
    lengths = rng.integers(5, 16, size=n)
    return drawn_documents(truth(), _PRIORS["alpha"], lengths, rng)[0]


def main():
    """Warm up, stream, look at the memory, judge."""
    job = json.load(sys.stdin)
    calls, n = job["calls"], job["documents"]
    ours(_PRIORS, _TOPICS, 0).partial_fit(drawn(0, 200))  # compiles
    model = ours(_PRIORS, _TOPICS, 0, total_samples=calls * n)
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
    exact = Topics(0, 0.0, truth(), np.full(_TOPICS, _PRIORS["alpha"]))
    half = calls // 2
    answer = {
        "documents": calls * n,
        "tokens": tokens,
        "cpu": sum(times),
        "second_half_over_first": sum(times[half:]) / sum(times[:half]),
        "peak_mb_first_tenth": peaks[calls // 10 - 1],
        "peak_mb": peaks[-1],
        "perplexity": perplexity(tables, weights),
        "perplexity_truth": judge.perplexity(exact),
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
