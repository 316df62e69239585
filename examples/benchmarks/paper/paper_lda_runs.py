"""Runs of the study ``paper_lda``: points of each method on one split, and what is kept of them."""

import numpy as np

from ..harness.cache import CachedRuns
from ..harness.timing import cpu_clock
from ..lda.topic_cases import PRIORS, fitted, known, ours, particles, warm_up
from ..lda.topic_completion import BURN_IN, KEPT, Completion, perplexity
from ..peers.canini_smc import one_particle_smc
from ..peers.scvb0 import scvb0
from ..peers.sgrld import sgrld
from ..peers.topic_libraries import gensim_passes, sklearn_passes, tomotopy_sweeps

SEEDS, PASSES = (20, 21, 22, 23, 24), 5  # splits that nothing was developed on
N_TOPICS, QUICK_TOPICS = 100, 10
OURS = {"pmd": {}, "pmd one particle": {"n_particles": 1, "batch_size": 100}}
MORE_PASSES = (10, 20, 50)  # of SCVB0
SAMPLED = ("tomotopy", "sgrld")  # whose samples are averaged, too
SWEEPS = (10, *range(25, 2001, 25))
GRIDS = {
    "sklearn": (
        {"batch_size": 100, "learning_offset": 10.0, "learning_decay": 0.7},
        {"batch_size": 100, "learning_offset": 100.0, "learning_decay": 0.9},
        {"batch_size": 1000, "learning_offset": 10.0, "learning_decay": 0.7},
        {"batch_size": 1000, "learning_offset": 1.0, "learning_decay": 0.5},
        {"batch_size": 100, "learning_offset": 10.0, "learning_decay": 0.7,
         "max_doc_update_iter": 20},
        {"batch_size": 100, "learning_offset": 10.0, "learning_decay": 0.7,
         "max_doc_update_iter": 500, "mean_change_tol": 1e-4},
    ),
    "gensim": (
        {"chunksize": 100, "offset": 10.0, "decay": 0.7},
        {"chunksize": 1000, "offset": 10.0, "decay": 0.7},
        {"chunksize": 2000, "offset": 1.0, "decay": 0.5},
        {"chunksize": 100, "offset": 10.0, "decay": 0.7, "iterations": 15},
        {"chunksize": 100, "offset": 10.0, "decay": 0.7, "iterations": 500},
    ),
    "tomotopy": ({"optim_interval": 0},),
    "scvb0": (
        {"batch_size": 100, "scale": 10.0, "offset": 1000.0, "burn_in": 1},
        {"batch_size": 100, "scale": 10.0, "offset": 100.0, "burn_in": 1},
        {"batch_size": 100, "scale": 10.0, "offset": 100.0, "burn_in": 5},
        {"batch_size": 100, "scale": 10.0, "offset": 100.0, "burn_in": 20},
        {"batch_size": 100, "scale": 1.0, "offset": 10.0, "burn_in": 5},
    ),
    "sgrld": tuple(
        {"batch_size": 100, "step": step, "offset": offset, "decay": decay}
        for step, offset, decay in (
            (0.1, 100.0, 0.6), (0.1, 100.0, 0.9), (0.3, 10.0, 0.9), (1.0, 3.0, 1.0),
        )
    ),
    "smc": (
        {"first": 0.0, "sweeps": 0, "past": 16},
        {"first": 0.1, "sweeps": 100, "past": 16},
        {"first": 0.1, "sweeps": 100, "past": 64},
    ),
}  # fmt: skip
AVERAGED, N_AVERAGED = ("sklearn", "scvb0"), 4  # runs of single models, as many as our particles
BUDGETS = {"wiki_vital": 30.0, "newsgroups20": 60.0, "generated": 1.0}  # of tomotopy, CPU seconds


def n_topics(config):
    """Of all models."""
    return QUICK_TOPICS if config.quick else N_TOPICS


def seeds(config):
    """Of the splits."""
    return SEEDS[: 1 if config.quick else None]


def stops(n, batch):
    """Documents visited at the points of a curve: whole batches in the first pass, then passes."""
    early = [max(1, round(n * part / batch)) * batch for part in (0.125, 0.25, 0.5)]
    return [stop for stop in early if stop < n] + [n * (one + 1) for one in range(PASSES)]


def label(setting):
    """A setting in the rows."""
    return " ".join(f"{value:g}" for value in setting.values()) or "defaults"


def row(method, setting, seed, documents, cpu, score):
    """A point of a curve."""
    case = {"method": method, "setting": label(setting), "seed": seed, "documents": int(documents)}
    return {**case, "cpu": cpu, "perplexity": score}


# ---------------------------------------------------------------------- ours
def own_points(config, name, seed):
    """Curves of our fits, each with `fit` at its end; and the model of one particle."""
    learn, test = known(config, name, seed)
    judge, rows, K = Completion(test, seed), [], n_topics(config)
    warm_up(PRIORS[0])
    for method, options in OURS.items():
        for documents, (found, weights) in _streamed(learn, K, seed, options):
            score = perplexity([judge.probabilities(topics) for topics in found], weights)
            rows.append(row(method, options, seed, documents, found[0].cpu, score))
        model = ours(PRIORS[0], K, seed, **options)
        found, weights = fitted(model, learn)
        score = perplexity([judge.probabilities(topics) for topics in found], weights)
        rows.append(row(method, options, seed, PASSES * learn.shape[0], found[0].cpu, score))
    print(f"ours, {name}, split {seed}: {rows[-1]['perplexity']:.1f}", flush=True)
    return rows, model


def _streamed(learn, K, seed, options):
    """The fit in parts, up to the pass before its last: (documents, particles and weights)."""
    n, rng = learn.shape[0], np.random.default_rng(seed)
    model = ours(PRIORS[0], K, seed, total_samples=n, **options)
    order, cpu, before = rng.permutation(n), 0.0, 0
    for stop in stops(n, options.get("batch_size", 64))[:-1]:
        part = learn[order[before % n : (stop - 1) % n + 1]]
        with cpu_clock() as clock:
            model.partial_fit(part)
        cpu, before = cpu + clock.cpu, stop
        yield stop, particles(model, cpu)
        if stop % n == 0:
            order = rng.permutation(n)


# ---------------------------------------------------------------------- others
def peers(config, name, budget):
    """Rows of the other methods on all splits; what the file has is not made again.

    On the first split each method runs with all of its settings, on the others with those that were
    best there within ``budget`` CPU seconds, ours, and within ten times as many.
    """
    protocol = {
        "settings": GRIDS, "averaged": N_AVERAGED, "priors": PRIORS[0], "passes": PASSES,
        "topics": n_topics(config),
        "judge": [BURN_IN, KEPT], "budget": BUDGETS[name], "splits": SEEDS,
    }  # fmt: skip
    kept = CachedRuns(config, f"paper_lda-{name}", protocol)
    rows, choices = kept.content["rows"], kept.content["choices"]
    for seed in seeds(config):
        for method, ways in GRIDS.items():
            done = {
                one["setting"] for one in rows if (one["method"], one["seed"]) == (method, seed)
            }
            for setting in choices.get(method, ways):
                if label(setting) not in done:
                    rows += _points(config, name, seed, method, setting)
            if method not in choices:
                choices[method] = _best(rows, method, ways, budget)
            averages = {
                one["setting"]
                for one in rows
                if (one["method"], one["seed"]) == (f"{method} average", seed)
            }
            for setting in choices[method] if method in AVERAGED else ():
                if label(setting) not in averages:
                    rows += _averages(config, name, seed, method, setting)
            kept.save()
    return rows


def _points(config, name, seed, method, setting):
    """Points of one run; of some methods also with the samples of its latter half averaged."""
    learn, test = known(config, name, seed)
    judge, n, tables, rows = Completion(test, seed), learn.shape[0], [], []
    points = list(_run(config, name, seed, method, setting, learn))
    per_step = 1 if method in ("sgrld", "scvb0", "smc") else n
    for topics in points:
        tables.append(judge.probabilities(topics))
        place = seed, topics.step * per_step, topics.cpu
        rows.append(row(method, setting, *place, perplexity(tables[-1:])))
        if method in SAMPLED:
            late = [t for t, p in zip(tables, points, strict=False) if 2 * p.step > topics.step]
            rows.append(row(f"{method} samples", setting, *place, perplexity(late)))
    end = rows[-1]
    print(f"{name}, split {seed}: {method} {end['setting']}: {end['perplexity']:.1f} / "
          f"{end['cpu']:.1f} s", flush=True)  # fmt: skip
    return rows


def _averages(config, name, seed, method, setting):
    """Points of the average of several runs, each at the end of as many documents."""
    learn, test = known(config, name, seed)
    judge = Completion(test, seed)
    runs = [
        list(_run(config, name, seed, method, setting, learn, seed + 1000 * k))
        for k in range(N_AVERAGED)
    ]
    rows = []
    for several in zip(*runs, strict=True):
        tables = [judge.probabilities(topics) for topics in several]
        documents = several[0].step * (1 if method == "scvb0" else learn.shape[0])
        cpu = sum(topics.cpu for topics in several)
        place = seed, N_AVERAGED * documents, cpu
        rows.append(row(f"{method} average", setting, *place, perplexity(tables)))
    return rows


def _run(config, name, seed, method, setting, learn, own_seed=None):
    """Topics of one run; its seed is the split's unless it has one of its own."""
    case = learn, n_topics(config), {**PRIORS[0], **setting}, seed if own_seed is None else own_seed
    n = learn.shape[0]
    if method == "sklearn":
        return sklearn_passes(*case, PASSES)
    if method == "gensim":
        return gensim_passes(*case, PASSES)
    if method == "tomotopy":
        return tomotopy_sweeps(*case, SWEEPS, BUDGETS[name])
    if method == "sgrld":
        later = [n * part // 2 for part in range(3, 2 * PASSES + 1)]
        return sgrld(*case, [stop for stop in stops(n, 100) if stop <= n] + later)
    if method == "scvb0":  # a tenth of the others' time, so that it may take more passes
        return scvb0(*case, stops(n, 100) + [n * passes for passes in MORE_PASSES])
    return one_particle_smc(*case, [stop for stop in stops(n, 1) if stop <= n])


def _best(rows, method, ways, budget):
    """The settings that were best within our CPU seconds, and within ten times as many."""
    own = [one for one in rows if one["method"] in (method, f"{method} samples")]
    leaders = set()
    for limit in (budget, 10.0 * budget):
        within = [one for one in own if one["cpu"] <= limit] or own
        leaders.add(min(within, key=lambda one: one["perplexity"])["setting"])
    return [way for way in ways if label(way) in leaders]
