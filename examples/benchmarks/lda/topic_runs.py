"""Runs of the study ``topics`` by the other sides: settings, choices, and points along the way."""

import numpy as np

from ..harness.cache import CachedRuns
from ..peers.topic_libraries import gensim_passes, sklearn_passes, tomotopy_sweeps
from .topic_cases import PRIORS, known, parts
from .topic_completion import BURN_IN, KEPT, Completion, coherence, diversity, perplexity

SPLITS, CHAINS = (10, 11, 12), 4  # splits that nothing was developed on
CHAIN_SEEDS = 100  # between the seeds of two splits
FITS = {"sklearn": sklearn_passes, "gensim": gensim_passes, "tomotopy": tomotopy_sweeps}
SMALL = {  # settings for thousands of documents
    "sklearn": (
        {"batch_size": 100, "learning_offset": 10.0},
        {"batch_size": 30, "learning_offset": 10.0},
        {"learning_method": "batch", "max_iter": 40},
    ),
    "gensim": (
        {"chunksize": 100, "decay": 0.7, "offset": 10.0},
        {"chunksize": 30, "decay": 0.7, "offset": 10.0},
        {"chunksize": 2000, "decay": 0.5, "offset": 1.0},
    ),
}
LARGE = {
    "sklearn": (
        {"batch_size": 100, "learning_offset": 100.0},
        {"batch_size": 1000, "learning_offset": 10.0},
        {"batch_size": 2000, "learning_offset": 10.0},
    ),
    "gensim": (
        {"chunksize": 1000, "decay": 0.7, "offset": 10.0},
        {"chunksize": 2000, "decay": 0.7, "offset": 10.0},
        {"chunksize": 2000, "decay": 0.5, "offset": 1.0},
    ),
}
INTERVALS = ({"optim_interval": 0}, {"optim_interval": 10}, {"optim_interval": 50})


def steps(config, trial=False):
    """Passes, and numbers of sweeps at which tomotopy is looked at, with its short and its long."""
    short, long = (30, 60) if config.quick else (300, 1000)
    passes = 3 if config.quick else 5 if trial else 10
    early = (10, 20) if config.quick else (20, 30, 50, 70, 100, 150, 200)
    late = range(short + 5, long + 1, 5) if config.quick else range(short + 50, long + 1, 50)
    sweeps = (short,) if trial else (*early, short, *late)
    return {"sklearn": passes, "gensim": passes, "tomotopy": sweeps, "short": short, "long": long}


def splits(config):
    """Seeds of the splits."""
    return SPLITS[: 1 if config.quick else None]


def settings(name, side):
    """Six of them: three ways, two pairs of priors."""
    ways = {**(LARGE if name == "newsgroups20" else SMALL), "tomotopy": INTERVALS}
    return [{**priors, **way} for way in ways[side] for priors in PRIORS]


def peers(config, name, K):
    """Rows of the other sides on all splits; what the file has is not made again."""
    protocol = {
        "settings": {side: settings(name, side) for side in FITS},
        "trial": steps(config, trial=True),
        "steps": steps(config),
        "judge": [BURN_IN, KEPT],
        "splits": SPLITS,
    }
    kept = CachedRuns(config, f"topics-{name}-{K}", protocol)
    choices, rows = kept.content["choices"], kept.content["rows"]
    for side in FITS:
        if side not in choices:
            choices[side] = chosen_of_theirs(config, name, K, side)
            kept.save()
    for seed in splits(config):
        if not any(row["seed"] == seed for row in rows):
            rows += theirs_on(config, name, K, seed, choices)
            kept.save()
    return rows


def chosen_of_theirs(config, name, K, side):
    """The setting with the best perplexity of the first split's validation part."""
    learn, valid, _ = parts(config, name, SPLITS[0])
    judge, n_steps = Completion(valid, 0), steps(config, trial=True)[side]
    tried = []
    for setting in settings(name, side):
        last = FITS[side](learn, K, setting, 0, n_steps)[-1]
        tried.append(judge.perplexity(last))
        print(f"{name} {K} {side} {setting}: {tried[-1]:.1f} / {last.cpu:.1f} s", flush=True)
    return settings(name, side)[int(np.argmin(tried))]


class Rows(list):
    """Rows of one split."""

    def __init__(self, learn, **case):
        super().__init__()
        self._learn, self._case = learn, case

    def put(self, kind, setting, topics, score):
        """Add a model."""
        figures = {"npmi": coherence(topics, self._learn), "diversity": diversity(topics)}
        self._add(kind, setting, topics.step, score, topics.cpu, **figures)

    def put_average(self, kind, setting, step, score, cpu):
        """Add an average, which has no topics of its own."""
        self._add(kind, setting, step, score, cpu, npmi=None, diversity=None)

    def _add(self, kind, setting, step, score, cpu, **figures):
        text = " ".join(str(value) for value in setting.values())
        one = {"kind": kind, **self._case, "setting": text, "step": step}
        self.append({**one, "perplexity": score, "cpu": cpu, **figures})


def theirs_on(config, name, K, seed, choices):
    """Points of all other sides on one split."""
    learn, test = known(config, name, seed)
    judge, n_steps = Completion(test, seed), steps(config)
    rows = Rows(learn, data=name, K=K, seed=seed)
    for side in ("sklearn", "gensim"):
        for topics in FITS[side](learn, K, choices[side], seed, n_steps[side]):
            rows.put(side, choices[side], topics, judge.perplexity(topics))
    _chains(rows, learn, judge, n_steps, choices["tomotopy"], K, seed)
    print(f"others, {name} {K}, split {seed}: " + summary(rows), flush=True)
    return list(rows)


def _chains(rows, learn, judge, n_steps, setting, K, seed):
    """One chain all the way, and three more up to the short number of sweeps."""
    sweeps, short = n_steps["tomotopy"], n_steps["short"]
    first = tomotopy_sweeps(learn, K, setting, CHAIN_SEEDS * seed, sweeps)
    found = [judge.probabilities(topics) for topics in first]
    for topics, one in zip(first, found, strict=True):
        rows.put("tomotopy", setting, topics, perplexity([one]))
    late = [one for topics, one in zip(first, found, strict=True) if topics.step > short]
    rows.put_average("tomotopy samples", setting, sweeps[-1], perplexity(late), first[-1].cpu)
    early = [step for step in sweeps if step <= short]
    cpu, tables = [first[i].cpu for i in range(len(early))], [[one] for one in found[: len(early)]]
    for chain in range(1, CHAINS):
        points = tomotopy_sweeps(learn, K, setting, CHAIN_SEEDS * seed + chain, early)
        for i, topics in enumerate(points):
            cpu[i] += topics.cpu
            tables[i].append(judge.probabilities(topics))
    for step, table, spent in zip(early, tables, cpu, strict=True):
        rows.put_average("tomotopy average", setting, step, perplexity(table), spent)


def summary(rows):
    """The last figures of each kind, for the log."""
    ends = {row["kind"]: row for row in rows}.values()
    return ", ".join(f"{r['kind']} {r['perplexity']:.1f} / {r['cpu']:.1f} s" for r in ends)
