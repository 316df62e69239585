"""The paper's topic models: perplexity against documents and CPU seconds, 100 topics, top words.

Section 6 and appendix H.4 of the paper: alpha = 0.1, eta = 0.01 and 100 topics for all methods,
five passes, 1000 held-out documents, on the lead sections of Wikipedia's vital articles (in place
of the paper's extract of Wikipedia) and on 20 Newsgroups. Five new random splits each, of corpora
that defaults were developed on; one thread. The judge of all is `topic_completion`: perplexity of
half of each held-out document, its topic proportions found from the other half by one Gibbs sampler
with the topics held fixed (the paper gives each method the sampler that it learns with). No side
learns its priors.

* ``pmd``: `LDATopicModelPMD` with its defaults (four particles, batches of 64, five passes).
* ``pmd one particle``: as in the paper, with its batches of 100 documents.
* ``sklearn``, ``gensim``: stochastic variational inference, after each pass; a last number among
  their settings is the largest number of iterations for a document.
* ``sklearn average``, ``scvb0 average``: the predictions of four runs, averaged as those of our
  four particles are, with the CPU of all four.
* ``scvb0``: stochastic collapsed variational Bayes (`peers.scvb0`), up to fifty passes.
* ``sgrld``: stochastic gradient Riemannian Langevin dynamics, the last sample; ``sgrld samples``:
  the average over the latter half of the points so far (`peers.sgrld`).
* ``smc``: one particle, each document once (`peers.canini_smc`).
* ``tomotopy``: a collapsed Gibbs sampler on all documents; ``tomotopy samples``: the average over
  the latter half of its points. Runs of 30 CPU seconds on wiki_vital, of 60 on newsgroups20: some
  six and three times ours.

The other methods try a few step sizes, batches or amounts of rejuvenation on the first split
(`paper_lda_runs`), and those that were best there, within our CPU seconds and within ten times as
many, on the rest. Runs end after five passes (``smc``: one, ``scvb0``: fifty), for ``theirs_long``
too. They are kept in the cache, and made again with other settings or on another processor: their
clocks may be of an earlier run than ours, when the machine was less busy, or more.
Compilation, the judge and turning counts into what a library reads are outside the clocks.

Rows of kind ``curve`` are means over the splits, of each method's setting with the best answer,
with the standard deviation over splits; ``setting`` rows the best answer of each setting on the
first split; ``verdict`` rows compare the end of ``pmd`` with the best that a method's settings have
had within our CPU seconds, and within ten times as many (`verdicts`; intervals are wider because
splits share documents), ``verdict, one particle`` rows that of ``pmd one particle``, a single model
as most others are. The standard deviations of newsgroups20 are those between splits, which move all
methods together. ``topic`` rows are the leading words of the largest topics of a fit of one
particle (Fig. 5), with their probabilities.

``--quick``: documents drawn from a topic model, ten topics, one split; nothing kept.
"""

import numpy as np

from ..harness import datasets
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import pyplot
from ..harness.verdicts import Answer, verdict_gates, verdicts
from ..lda.topic_cases import known
from .paper_lda_runs import own_points, peers, seeds

NAMES = ("wiki_vital", "newsgroups20")
SHOWN = 8  # points of a curve
N_TOPICS, N_WORDS = 6, 8  # whose words are shown, of the first corpus
THEIRS = (
    "sklearn", "sklearn average", "gensim", "tomotopy", "tomotopy samples", "scvb0",
    "scvb0 average", "sgrld", "sgrld samples", "smc",
)  # fmt: skip
STYLES = {
    "pmd": {"color": "black", "linewidth": 2.2, "marker": "."},
    "pmd one particle": {"color": "black", "linewidth": 1.5, "linestyle": "--", "marker": "."},
    **{
        method: {"color": f"C{i % 10}", "linewidth": 1.2, "marker": "os^Dv"[i % 5], "markersize": 4}
        for i, method in enumerate(THEIRS)
    },
}


def run(config):
    """Curves, verdicts, and topics."""
    rows = []
    for name in ("generated",) if config.quick else NAMES:
        points = []
        for seed in seeds(config):
            own, model = own_points(config, name, seed)
            points += own
            if not any(row["kind"] == "topic" for row in rows):
                rows += leading_words(model, name, vocabulary(config, name))
        ends = by([one for one in points if one["method"] == "pmd"], "seed").values()
        points += peers(config, name, float(np.mean([end[-1]["cpu"] for end in ends])))
        rows += curves(points, name) + settings(points, name)
        learn, test = known(config, name, seeds(config)[0])
        rows += compared(points, name, test.shape[0] / learn.shape[0])
    return rows


def vocabulary(config, name):
    """The words; those of generated documents have numbers for names."""
    return None if config.quick else datasets.vocabulary(name, config.data)


def leading_words(model, name, vocabulary):
    """Rows of the topics that most words are given to."""
    counts = model.components_
    phi, share = counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=1) / counts.sum()
    rows = []
    for topic in np.argsort(-share)[:N_TOPICS]:
        leading = np.argsort(-phi[topic])[:N_WORDS]
        names = leading if vocabulary is None else [vocabulary[word] for word in leading]
        words = ", ".join(f"{n} {p:.3f}" for n, p in zip(names, phi[topic, leading], strict=True))
        rows.append({"kind": "topic", "data": name, "share": float(share[topic]), "words": words})
    return rows


def by(points, key):
    """Points in groups, in order."""
    found = {}
    for point in points:
        found.setdefault(point[key], []).append(point)
    return found


def answer(points):
    """The best perplexity."""
    return min(point["perplexity"] for point in points)


def curves(points, name):
    """Means over the splits, of the setting of each method that is best on all splits."""
    rows = []
    for method, own in by(points, "method").items():
        n_seeds = len(by(own, "seed"))
        parts = [part for part in by(own, "setting").values() if len(by(part, "seed")) == n_seeds]
        best = min(parts, key=lambda part: sum(answer(p) for p in by(part, "seed").values()))
        at = {stop: part for stop, part in by(best, "documents").items() if len(part) == n_seeds}
        for stop in thinned(sorted(at)):
            scores = [point["perplexity"] for point in at[stop]]
            cpu = np.mean([point["cpu"] for point in at[stop]])
            case = {"kind": "curve", "data": name, "method": method, "setting": best[0]["setting"]}
            figures = {"cpu": float(cpu), "perplexity": float(np.mean(scores))}
            rows.append({**case, "documents": stop, **figures, "sd": float(np.std(scores))})
    return rows


def thinned(stops):
    """Some of them, evenly in their logarithms, the first and the last among them."""
    wanted = np.geomspace(stops[0], stops[-1], SHOWN)
    return sorted({min(stops, key=lambda stop: abs(np.log(stop / at))) for at in wanted})


def settings(points, name):
    """The best answer of each setting of the others on the first split."""
    first = min(point["seed"] for point in points)
    rows = []
    for method, own in by([p for p in points if p["seed"] == first], "method").items():
        parts = by(own, "setting")
        for text, part in parts.items() if len(parts) > 1 else ():
            case = {"kind": "setting", "data": name, "method": method, "setting": text}
            rows.append({**case, "cpu": part[-1]["cpu"], "perplexity": answer(part)})
    return rows


def compared(points, name, test_share):
    """The ends of our fits, by default and of one particle, beside the curves of the others."""
    found, rows = by(points, "method"), []
    others = {
        method: {seed: _answers(part) for seed, part in by(theirs, "seed").items()}
        for method, theirs in found.items()
        if not method.startswith("pmd")
    }
    for kind, method in {"verdict": "pmd", "verdict, one particle": "pmd one particle"}.items():
        own = {seed: _answers(part)[-1] for seed, part in by(found[method], "seed").items()}
        judged = verdicts(own, others, test_share=test_share)
        rows += [{**row, "kind": kind, "data": name} for row in judged]
    return rows


def _answers(points):
    return [Answer(point["cpu"], point["perplexity"]) for point in points]


def gates(rows):
    """Verdicts by corpus."""
    found = []
    for name, own in by([row for row in rows if row["kind"] == "verdict"], "data").items():
        found += verdict_gates(own, f"{name}: ")
    return found


def plot(rows):
    """Perplexity against documents and CPU seconds, and some topics."""
    plt = pyplot()
    names = by([row for row in rows if row["kind"] == "curve"], "data")
    heights = 3.6 * len(names) + 0.9, 2.8
    figure = plt.figure(figsize=(12, sum(heights)), layout="constrained")
    parts = figure.subfigures(2, 1, height_ratios=heights)
    axes = parts[0].subplots(len(names), 2, squeeze=False, sharey="row")
    for pair, (name, own) in zip(axes, names.items(), strict=True):
        for method, points in by(own, "method").items():
            _lines(pair, method, points)
        pair[0].set(ylabel="perplexity", title=name, xlabel="documents visited")
        pair[1].set(title=name, xlabel="CPU seconds")
    title = "lines: means of the splits; bands: a standard deviation of the splits"
    legend_above(parts[0], axes[:, 0], ncols=6, title=title)
    _bars(parts[1], [row for row in rows if row["kind"] == "topic"])
    return figure


def _lines(pair, method, points):
    score, sd = (np.array([point[key] for point in points]) for key in ("perplexity", "sd"))
    style = STYLES[method]
    for axis, key in zip(pair, ("documents", "cpu"), strict=True):
        at = [point[key] for point in points]
        axis.plot(at, score, label=method, **style)
        band = {"color": style["color"], "alpha": 0.1, "linewidth": 0.0}
        axis.fill_between(at, score - sd, score + sd, **band)
        axis.set(xscale="log", yscale="log")
        plain_ticks(axis.yaxis, at=(1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0))


def _bars(figure, topics):
    figure.suptitle("leading words of the largest topics, pmd with one particle", fontsize=11)
    panels = figure.subplots(1, len(topics), squeeze=False)[0]
    for axis, topic in zip(panels, topics, strict=True):
        pairs = [text.rsplit(" ", 1) for text in topic["words"].split(", ")]
        places = -np.arange(len(pairs))
        axis.barh(places, [float(p) for _, p in pairs])
        axis.set_yticks(places, [word for word, _ in pairs], fontsize=9)
        axis.locator_params(axis="x", nbins=3)
        axis.tick_params(axis="x", labelsize=9)
        axis.set_xlabel("probability", fontsize=9)
        axis.set_title(f"{topic['share']:.1%} of all words", fontsize=9)
