"""Topic models beside tomotopy, scikit-learn and gensim: held-out perplexity and CPU.

Three random splits of word counts: 1000 documents or a tenth for the test, as many for validation,
the rest to learn from; documents of fewer than two tokens left out, one thread. Each side tries six
settings on the first split's documents that are neither test nor validation and takes the one with
the best perplexity of the validation part; on every split it learns from all but the test part with
it. (Runs of ours differ by a per cent or so: three are tried of each setting, in less CPU than one
of tomotopy's.) The two pairs of priors are the same for all sides; so is the judge
(`topic_completion`: half of each test document predicted from the other half), which uses the prior
of mixes that a side was given or has fitted. Other settings: scikit-learn's and gensim's batches
and their schedule, how often tomotopy learns its prior of mixes, and our ``assignment``.

* ``pmd single``: `LDATopicModelPMD` with one particle, by default with five passes, on newsgroups20
  with nine and a step on all documents (chosen on the validation part, too); ``pmd``: with four
  particles (newsgroups20) or eight (ap) and five passes, as by default.
* ``tomotopy``, ``tomotopy long``: one chain after 300 and after 1000 sweeps.
* ``tomotopy samples``: the average of that chain's topics after 350, 400, ... 1000 sweeps.
* ``tomotopy average``: four chains averaged, at the first of a list of numbers of sweeps at which
  they have had at least the CPU of ``pmd``; ``tomotopy average long``: the same at 300 sweeps.
* ``sklearn``, ``gensim``: ten passes, or, where scikit-learn's batch method is best, 40 iterations.

Coherence is the mean NPMI of each topic's ten leading words on the training documents, diversity
the share of different words among the 25 leading ones of all topics. The runs of the others are
kept in the cache and not made again; their seconds do not contain the conversion of counts
to what they read.

``--quick``: documents drawn from a topic model, ten topics, fewer passes; nothing kept.
"""

import numpy as np

from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from .topic_cases import PRIORS, fitted, known, ours, parts, warm_up
from .topic_completion import Completion, perplexity
from .topic_runs import SPLITS, Rows, peers, splits, steps, summary

CASES = {("newsgroups20", 100): 4, ("ap", 100): 8, ("ap", 20): 8}  # particles of ``pmd``
OURS = [
    {**priors, "assignment": way} for way in ("sampled", "soft", "collapsed") for priors in PRIORS
]
SINGLE = {"newsgroups20": {"max_iter": 9, "max_full_iter": 1}}  # others: by default
TRIALS = 3
RIVALS = {"ap": ("tomotopy long", 1 / 10)}  # of one particle, and the share of CPU it may have
RIVAL = ("tomotopy", 1 / 8)  # elsewhere


def run(config):
    """Choose on the first split of each corpus, measure on all."""
    cases = {("generated", 10): 2} if config.quick else CASES
    rows = []
    for (name, K), n_particles in cases.items():
        theirs = peers(config, name, K)
        choices = chosen_of_ours(config, name, K, n_particles)
        for seed in splits(config):
            own = measured(config, name, K, seed, choices, n_particles)
            others = [row for row in theirs if row["seed"] == seed]
            rows += [*own, *reported(config, others, own[-1]["cpu"])]
    return rows


def reported(config, rows, cpu):
    """What of the others' points is set beside ours."""
    n_steps = steps(config)
    at = {kind: [row for row in rows if row["kind"] == kind] for kind in {r["kind"] for r in rows}}
    chain = {row["step"]: row for row in at["tomotopy"]}
    average = at["tomotopy average"]
    enough = next((row for row in average if row["cpu"] >= cpu), average[-1])
    return [
        chain[n_steps["short"]],
        {**chain[n_steps["long"]], "kind": "tomotopy long"},
        *at["tomotopy samples"],
        enough,
        {**average[-1], "kind": "tomotopy average long"},
        at["sklearn"][-1],
        at["gensim"][-1],
    ]


def chosen_of_ours(config, name, K, n_particles):
    """As for the others: one particle by the mean of three runs, several by their average."""
    learn, valid, _ = parts(config, name, SPLITS[0])
    judge = Completion(valid, 0)
    single = [trial_of_one(learn, judge, setting, name, K) for setting in OURS]
    average = [trial_of_several(learn, judge, setting, name, K, n_particles) for setting in OURS]
    return OURS[int(np.argmin(single))], OURS[int(np.argmin(average))]


def trial_of_one(learn, judge, setting, name, K):
    """Mean perplexity of fits of one particle that differ in their seed."""
    warm_up(setting)
    models = [one_particle(setting, name, K, seed) for seed in range(TRIALS)]
    runs = [fitted(model, learn)[0][0] for model in models]
    score = float(np.mean([judge.perplexity(topics) for topics in runs]))
    print(f"{name} {K} pmd single {setting}: {score:.1f} / {runs[0].cpu:.1f} s each", flush=True)
    return score


def trial_of_several(learn, judge, setting, name, K, n_particles):
    """Perplexity of an average."""
    warm_up(setting)
    found, weights = fitted(ours(setting, K, 0, n_particles=n_particles), learn)
    score = perplexity([judge.probabilities(topics) for topics in found], weights)
    print(f"{name} {K} pmd {setting}: {score:.1f} / {found[0].cpu:.1f} s", flush=True)
    return score


def one_particle(setting, name, K, seed):
    """The model of ``pmd single``."""
    return ours(setting, K, seed, n_particles=1, **SINGLE.get(name, {}))


def measured(config, name, K, seed, choices, n_particles):
    """One particle, and several."""
    learn, test = known(config, name, seed)
    judge, rows = Completion(test, seed), Rows(learn, data=name, K=K, seed=seed)
    single, several = choices
    warm_up(single)
    (topics,), _ = fitted(one_particle(single, name, K, seed), learn)
    rows.put("pmd single", single, topics, judge.perplexity(topics))
    warm_up(several)
    found, weights = fitted(ours(several, K, seed, n_particles=n_particles), learn)
    score = perplexity([judge.probabilities(topics) for topics in found], weights)
    rows.put_average("pmd", several, None, score, found[0].cpu)
    print(f"ours, {name} {K}, split {seed}: " + summary(rows), flush=True)
    return list(rows)


def gates(rows):
    """By corpus and number of topics: means over the splits, of CPU ratios the worst split's."""
    found = []
    for name, K in dict.fromkeys((row["data"], row["K"]) for row in rows):
        own = [row for row in rows if (row["data"], row["K"]) == (name, K)]
        found += [_renamed(gate, f"{name} {K}") for gate in _case_gates(own, name)]
    return found


def _case_gates(rows, name):
    rival, share = RIVALS.get(name, RIVAL)
    found = [
        Gate(f"one particle, perplexity over {rival}", ratio(rows, "pmd single", rival), 1.0),
        Gate(f"one particle, CPU over {rival}", worst(rows, "pmd single", rival, "cpu"), share),
        Gate("perplexity over average of chains", ratio(rows, "pmd", "tomotopy average"), 1.0),
    ]
    if name != "ap":
        found.append(Gate("perplexity over sklearn", ratio(rows, "pmd", "sklearn"), 0.95))
        for key in ("npmi", "diversity"):
            others = [mean(rows, kind, key) for kind in ("tomotopy", "tomotopy long", "sklearn")]
            gap = mean(rows, "pmd single", key) - max(others)
            found.append(Gate(f"one particle, {key} less the others' best, mean", gap, 0.0, ">="))
    return found


def _renamed(gate, case):
    return Gate(f"{case}: {gate.name}", gate.measured, gate.bound, gate.relation)


def by_split(rows, kind, key):
    """Figures of a kind, in the order of the splits."""
    own = sorted((row for row in rows if row["kind"] == kind), key=lambda row: row["seed"])
    return np.array([row[key] for row in own])


def ratio(rows, kind, other):
    """Perplexities of two kinds, means over the splits, one over the other."""
    return mean(rows, kind, "perplexity") / mean(rows, other, "perplexity")


def worst(rows, kind, other, key):
    """The largest ratio of two kinds over the splits."""
    return float(np.max(by_split(rows, kind, key) / by_split(rows, other, key)))


def mean(rows, kind, key):
    """Mean over the splits."""
    return float(np.mean(by_split(rows, kind, key)))


def plot(rows):
    """Perplexity against CPU, means over the splits."""
    plt = pyplot()
    cases = list(dict.fromkeys((row["data"], row["K"]) for row in rows))
    figure, axes = plt.subplots(
        1, len(cases), figsize=(4.2 * len(cases), 4.4), layout="constrained", squeeze=False
    )
    for axis, (name, K) in zip(axes[0], cases, strict=True):
        own = [row for row in rows if (row["data"], row["K"]) == (name, K)]
        for number, kind in enumerate(dict.fromkeys(row["kind"] for row in own)):
            is_ours = kind.startswith("pmd")
            style = {"marker": "*" if is_ours else "os^Dv"[number % 5], "linestyle": ""}
            style |= {"markersize": 13 if is_ours else 6, "label": kind, "color": f"C{number % 10}"}
            axis.plot(mean(own, kind, "cpu"), mean(own, kind, "perplexity"), **style)
        axis.set(xscale="log", xlabel="CPU seconds", title=f"{name}, {K} topics")
        plain_ticks(axis.xaxis)
    axes[0, 0].set(ylabel="perplexity, mean of the splits")
    legend_above(figure, axes[0], ncols=5)
    return figure
