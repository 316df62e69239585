"""Credible intervals of topics' word probabilities on documents drawn from the model.

All factors are fixed here, before any run: 3, 5 and 10 topics, 50 and 200 words, documents of 20
and of 100 tokens on average (Poisson, at least two), five simulations of each: 60 in all, of 500
documents each; topics and mixes are drawn from their priors, eta = 0.1 and alpha = 0.1, and the fit
has these priors, everything else by default. Topics are relabelled as the true ones (the assignment
with the least sum of Hellinger distances), and the true probabilities of words are looked up in the
90 % intervals. Counted are words that their topic is expected to have had at least once; in
``coverage_found`` the topics among them whose distance is below 0.3, since an interval around one
topic says nothing of another that it is a mixture with.

``small`` are 19 settings of 2 to 20 topics, 30 to 2,000 documents and 5 to 1,000 words each, with
priors of their own that the fit has, three simulations of each. Here the intervals of all words of
all topics count, and those of the proportions of the first 100 documents; ``warned`` is the share
of fits that warn. ``documents`` are 1,000 documents each of ``length`` words, whose topics are
known, of ``alpha`` and ``K``: what `transform` claims for its largest topic, what that topic's
proportion is on average, and the share of the proportions, of all topics and of the largest, in
their intervals.

Mixes are drawn by their logs: `numpy.random.Generator.dirichlet` breaks a stick, so that small
proportions of late topics are 0, which no posterior contains.

Words that are chosen by their true probability have no coverage that is known exactly: that of the
60 simulations is reported. Targets are those of the 19 settings and of the short documents.

``--quick``: one simulation of each of the smallest four, of two settings and of four short
documents.
"""

import warnings
from itertools import product

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from ..harness.datasets import drawn_documents, drawn_topics
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from .topic_cases import ours, warm_up

TOPICS, WORDS, LENGTHS = (3, 5, 10), (50, 200), (20, 100)
DOCUMENTS, REPEATS = 500, 5
PRIORS = {"alpha": 0.1, "eta": 0.1}
LEVEL, FOUND, ROUNDING = 0.9, 0.3, 1e-9
# Topics, words, documents, their length, alpha and eta of the 19 settings.
SMALL = (
    (2, 30, 100, 30, 0.5, 0.5), (2, 100, 30, 100, 0.5, 0.1), (2, 50, 1000, 5, 0.3, 0.3),
    (3, 60, 300, 20, 0.5, 0.2), (3, 30, 2000, 10, 1.0, 0.5), (4, 100, 60, 200, 0.2, 0.1),
    (5, 200, 100, 50, 0.1, 0.1), (5, 50, 500, 30, 0.5, 0.3), (5, 300, 30, 1000, 0.2, 0.1),
    (8, 200, 300, 60, 0.2, 0.05), (8, 500, 200, 100, 0.1, 0.05), (10, 100, 1000, 20, 0.1, 0.1),
    (10, 300, 2000, 40, 0.1, 0.05), (10, 500, 500, 150, 0.2, 0.1), (12, 200, 60, 300, 0.1, 0.1),
    (15, 400, 400, 100, 0.1, 0.05), (20, 500, 1000, 60, 0.05, 0.05), (20, 300, 300, 30, 0.1, 0.1),
    (20, 1000, 500, 400, 0.1, 0.05),
)  # fmt: skip
SMALL_REPEATS, ASKED = 3, 100
SHORT, ALPHAS, MANY = (1, 3, 12, 50), (0.02, 0.1, 0.5), (2, 10, 50)
N_SHORT = 1000
FACTORS, COVERAGES = ("K", "V", "length"), ("coverage", "coverage_found")
UNITS = {"K": "topics", "V": "words", "length": "tokens"}  # of the factors' levels
LABELS = dict(zip(COVERAGES, ("all topics", "topics that were found"), strict=True))


def run(config):
    """All simulations, in the order of the factors."""
    warm_up(PRIORS)
    topics = TOPICS[:1] if config.quick else TOPICS
    repeats = range(1 if config.quick else REPEATS)
    rows = [simulated(*case) for case in product(topics, WORDS, LENGTHS, repeats)]
    settings = SMALL[:2] if config.quick else SMALL
    for case in settings:
        rows += [small(*case, repeat) for repeat in range(1 if config.quick else SMALL_REPEATS)]
    many = MANY[:1] if config.quick else MANY
    alphas = ALPHAS[1:2] if config.quick else ALPHAS
    rows += [short(*case) for case in product(many, alphas, SHORT)]
    return [*rows, *by_factor(rows)]


def collection(K, V, documents, length, alpha, eta, rng):
    """Topics, mixes (documents, K), and counts of words."""
    truth, mixes = rng.dirichlet(np.full(V, eta), K), drawn_mixes(alpha, documents, K, rng)
    shares = mixes @ truth
    shares /= shares.sum(axis=1, keepdims=True)
    return truth, mixes, np.array([rng.multinomial(length, share) for share in shares])


def drawn_mixes(alpha, n, K, rng):
    """Draws (n, K) from the Dirichlet distribution, with small proportions as exact as large ones.

    A gamma variable of shape a is one of shape a + 1 times u^(1 / a), u uniform (Stuart 1962).
    """
    logs = np.log(rng.gamma(alpha + 1.0, size=(n, K))) + np.log(rng.random((n, K))) / alpha
    return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))


def inside(ends, truth):
    """Which true values lie in their intervals, up to the rounding of numbers near 1."""
    low, high = ends[..., 0] * (1.0 - ROUNDING), ends[..., 1] * (1.0 + ROUNDING)
    return (low <= truth) & (truth <= high)


def small(K, V, documents, length, alpha, eta, repeat):
    """One data set of a setting of its own, one fit: all words, and some documents."""
    rng = np.random.default_rng([K, V, documents, length, repeat])
    truth, mixes, X = collection(K, V, documents, length, alpha, eta, rng)
    model = ours({"alpha": alpha, "eta": eta}, K, repeat)
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        model.fit(X)
    place, distance = relabelled(model.topic_word_, truth)
    of_words = inside(model.topic_word_interval(LEVEL)[place], truth)
    ends = model.transform(X[:ASKED], return_interval=LEVEL)[1][:, place]
    return {
        "kind": "small", "K": K, "V": V, "documents": documents, "length": length, "alpha": alpha,
        "eta": eta, "repeat": repeat, "passes": model.n_iter_, "coverage": float(of_words.mean()),
        "of_documents": float(inside(ends, mixes[:ASKED]).mean()),
        "topics_found": int((distance < FOUND).sum()), "warned": len(caught) > 0, "cpu": clock.cpu,
    }  # fmt: skip


def short(K, alpha, length):
    """Short documents whose topics are known: those of a fit, from which they are drawn anew."""
    rng = np.random.default_rng([K, length, int(1000 * alpha)])
    model = with_topics(K, alpha, rng)
    mixes = drawn_mixes(alpha, N_SHORT, K, rng)
    shares = mixes @ model.topic_word_
    shares /= shares.sum(axis=1, keepdims=True)
    X = np.array([rng.multinomial(length, share) for share in shares])
    with cpu_clock() as clock:
        claimed, ends = model.transform(X, return_interval=LEVEL)
    every, top = np.arange(N_SHORT), claimed.argmax(axis=1)
    holds = inside(ends, mixes)
    return {
        "kind": "documents", "K": K, "alpha": alpha, "length": length,
        "claimed": float(claimed[every, top].mean()), "share": float(mixes[every, top].mean()),
        "coverage": float(holds.mean()), "of_largest": float(holds[every, top].mean()),
        "cpu": clock.cpu,
    }  # fmt: skip


def with_topics(K, alpha, rng, V=200):
    """One particle fitted with one topic to each document: its topics are near Dirichlet(0.1)."""
    X = np.array([rng.multinomial(2000, topic) for topic in rng.dirichlet(np.full(V, 0.1), K)])
    seeds = np.maximum(X, 1e-3)
    model = ours({"alpha": alpha, "eta": seeds}, K, 0, n_particles=1, max_iter=1)
    return model.fit(X)


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
    holds = (low <= truth) & (truth <= high)
    present = truth * (lengths @ mixes)[:, None] >= 1.0
    found = present & (distance < FOUND)[:, None]
    return {
        "kind": "simulation", "K": K, "V": V, "length": length, "repeat": repeat,
        "words": int(present.sum()), "coverage": _share(holds, present),
        "topics_found": int((distance < FOUND).sum()), "coverage_found": _share(holds, found),
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
    rows = [row for row in rows if row["kind"] == "simulation"]
    for factor in FACTORS:
        for level in sorted({row[factor] for row in rows}):
            own = [row for row in rows if row[factor] == level]
            means = {key: float(np.nanmean([row[key] for row in own])) for key in COVERAGES}
            found.append({"kind": "factor", "factor": factor, "level": level, **means})
    return found


def gates(rows):
    """How many simulations, and the least calibrated of the settings and of short documents.

    A setting is the mean of its simulations. That of 1,000 documents has a standard error of .01.
    """
    found = [Gate("simulations", sum(row["kind"] == "simulation" for row in rows), 50, ">=")]
    settings = {}
    for row in rows:
        if row["kind"] == "small":
            settings.setdefault((row["K"], row["V"], row["documents"]), []).append(row)
    for key, things in (("coverage", "words"), ("of_documents", "documents")):
        shares = [float(np.mean([row[key] for row in own])) for own in settings.values()]
        off = sum(not 0.85 <= share <= 0.95 for share in shares)
        found.append(Gate(f"small settings with {things} outside .85 to .95", off, 0))
    own = [row for row in rows if row["kind"] == "documents"]
    gap = max(abs(row["claimed"] - row["share"]) for row in own)
    found.append(Gate("short documents, claimed less true share", gap, 0.03))
    off = sum(not 0.86 <= row["coverage"] <= 0.94 for row in own)
    found.append(Gate("cells of short documents with coverage outside .86 to .94", off, 0))
    return found


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
