"""Credible intervals of topics' word probabilities on documents drawn from the model.

All factors are fixed here, before any run: 3, 5 and 10 topics, 50 and 200 words, documents of 20
and of 100 tokens on average (Poisson, at least two), five simulations of each: 60 in all, of 500
documents each; topics and mixes are drawn from their priors, eta = 0.1 and alpha = 0.1, and the fit
has these priors, everything else by default. Topics are relabelled as the true ones (the assignment
with the least sum of Hellinger distances), and the true probabilities of words are looked up in the
90 % intervals. Counted are words that their topic is expected to have had at least once; in
``coverage_found`` the topics among them whose distance is below 0.3, since an interval around one
topic says nothing of another that it is a mixture with.

Coverage is reported and has no target: an interval may cover more or less than 90 % and the study
passes. Its only target is the number of simulations.

``--quick``: one simulation of each of the smallest four.
"""

from itertools import product

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..harness.datasets import drawn_documents, drawn_topics
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from .topic_cases import ours, warm_up

TOPICS, WORDS, LENGTHS = (3, 5, 10), (50, 200), (20, 100)
DOCUMENTS, REPEATS = 500, 5
PRIORS = {"alpha": 0.1, "eta": 0.1}
LEVEL, FOUND = 0.9, 0.3
FACTORS, COVERAGES = ("K", "V", "length"), ("coverage", "coverage_found")
UNITS = {"K": "topics", "V": "words", "length": "tokens"}  # of the factors' levels
LABELS = dict(zip(COVERAGES, ("all topics", "topics that were found"), strict=True))


def run(config):
    """All simulations, in the order of the factors."""
    warm_up(PRIORS)
    topics = TOPICS[:1] if config.quick else TOPICS
    repeats = range(1 if config.quick else REPEATS)
    rows = [simulated(*case) for case in product(topics, WORDS, LENGTHS, repeats)]
    return [*rows, *by_factor(rows)]


def simulated(K, V, length, repeat):
    """One data set, one fit."""
    rng = np.random.default_rng([K, V, length, repeat])
    truth = drawn_topics(K, V, PRIORS["eta"], rng)
    lengths = np.maximum(rng.poisson(length, DOCUMENTS), 2)
    X, mixes = drawn_documents(truth, PRIORS["alpha"], lengths, rng)
    model = ours(PRIORS, K, repeat)
    with cpu_clock() as clock:
        model.fit(X)
    place, distance = relabelled(model.topic_word_, truth)
    low, high = np.moveaxis(model.topic_word_interval(LEVEL)[place], -1, 0)
    inside = (low <= truth) & (truth <= high)
    present = truth * (lengths @ mixes)[:, None] >= 1.0
    found = present & (distance < FOUND)[:, None]
    return {
        "kind": "simulation", "K": K, "V": V, "length": length, "repeat": repeat,
        "words": int(present.sum()), "coverage": _share(inside, present),
        "topics_found": int((distance < FOUND).sum()), "coverage_found": _share(inside, found),
        "width": float(np.mean((high - low)[present])), "cpu": clock.cpu,
    }  # fmt: skip


def relabelled(words, truth):
    """Place of each true topic among those found, and the Hellinger distance to it."""
    affinity = np.sqrt(truth) @ np.sqrt(words).T
    distance = np.sqrt(np.clip(1.0 - affinity, 0.0, None))
    rows, place = linear_sum_assignment(distance)
    return place, distance[rows, place]


def _share(inside, chosen):
    return float(inside[chosen].mean()) if chosen.any() else float("nan")


def by_factor(rows):
    """Mean coverage at each level of each factor."""
    found = []
    for factor in FACTORS:
        for level in sorted({row[factor] for row in rows}):
            own = [row for row in rows if row[factor] == level]
            means = {key: float(np.nanmean([row[key] for row in own])) for key in COVERAGES}
            found.append({"kind": "factor", "factor": factor, "level": level, **means})
    return found


def gates(rows):
    """How many simulations."""
    return [Gate("simulations", sum(row["kind"] == "simulation" for row in rows), 50, ">=")]


def plot(rows):
    """Coverage by factor."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8, 4.4), layout="constrained")
    own = [row for row in rows if row["kind"] == "factor"]
    places = [i + 0.6 * FACTORS.index(row["factor"]) for i, row in enumerate(own)]
    for shift, (key, label) in zip((-0.2, 0.2), LABELS.items(), strict=True):
        axis.bar(np.add(places, shift), [row[key] for row in own], 0.4, label=label)
    level = f"level of the intervals, {LEVEL:g}; no target"
    axis.axhline(LEVEL, color="black", linestyle="--", label=level)
    axis.set_xticks(places, [f"{row['level']}\n{UNITS[row['factor']]}" for row in own])
    axis.set(xlabel="simulations with so many (means over them)", ylim=(0, 1))
    axis.set(ylabel="coverage: share of true values inside")
    legend_above(figure, [axis], ncols=3)
    return figure
