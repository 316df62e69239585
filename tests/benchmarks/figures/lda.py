"""Figures of the page on the inside of topic models."""

import numpy as np

from ._rows import table_line

PAGE = "docs/inside/lda.rst"
ALLOWED = (
    "``transform(X, return_interval=0.9)`` returns credible intervals",
    # What tests hold, and their settings: `tests.lda.test_proportions`, `test_calibration`,
    # `test_results`.
    "intervals of 90 % contain at least 86 % of the exact posterior on average, and 70 % for each",
    "differ from those of the second by less than 0.4 of their standard deviations",
    "a test requires a coverage above 80 %",
    "between 5 and 15 % of a word's draws on either side of an interval of 80 %",
    # Constants and settings.
    "how often intervals of 90 % contain the truth",
    "moves a count of 2.5 in three pieces",
)
CASES = ("newsgroups20", 100), ("ap", 100), ("ap", 20)
LINES = {
    "pmd single": "one particle",
    "pmd": "four (newsgroups) or eight",
    "tomotopy": "tomotopy, 300 sweeps",
    "tomotopy long": "tomotopy, 1000 sweeps",
    "tomotopy samples": "the average of that chain's topics from 350 sweeps on",
    "tomotopy average": "four chains of tomotopy averaged, at the CPU of the second row or more",
    "tomotopy average long": "the same after 300 sweeps",
    "sklearn": "scikit-learn",
    "gensim": "gensim",
}
LEVEL = 0.01  # Perplexities that differ by no more of them are level.


def topic_calibration(rows):
    """Share of intervals that hold the truth."""
    own = [row["coverage"] for row in rows if row["kind"] == "simulation"]
    three, ten = (
        row["coverage"] for row in rows if row.get("factor") == "K" and row["level"] in (3, 10)
    )
    yield (
        f"{100 * np.mean(own):.0f} % of the time, {100 * three:.0f} with three topics and "
        f"{100 * ten:.0f} with ten."
    )


def topics(rows):
    """The table, and what is said of it."""
    found = {case: means(rows, *case) for case in CASES}
    for kind, text in LINES.items():
        yield table_line(text, *(cell(found[case][kind]) for case in CASES))
    assert all(of["tomotopy average"]["cpu"] >= of["pmd"]["cpu"] for of in found.values())
    yield from of_one_chain(found.values())
    yield from of_averages(found)
    yield from of_coherence(found[CASES[0]])


def means(rows, name, K):
    """Means over three splits, kind -> {figure: mean}."""
    found = {}
    for kind in LINES:
        own = [row for row in rows if (row["data"], row["K"], row["kind"]) == (name, K, kind)]
        assert len(own) == 3
        keys = [key for key in ("perplexity", "cpu", "npmi", "diversity") if own[0][key]]
        found[kind] = {key: np.mean([row[key] for row in own]) for key in keys}
    return found


def cell(of):
    """Perplexity and CPU seconds."""
    digits = 0 if of["cpu"] >= 10 else 1 if of["cpu"] >= 1 else 2
    return f"{of['perplexity']:.0f} / {of['cpu']:.{digits}f}"


def over(of, kind, other, key="perplexity"):
    """A figure of a kind over that of another."""
    return of[kind][key] / of[other][key]


def of_one_chain(found):
    """One particle beside one chain."""
    pairs = [(of, chain) for of in found for chain in ("tomotopy", "tomotopy long")]
    assert all(over(of, "pmd single", chain) < 1.0 + LEVEL for of, chain in pairs)
    times = [over(of, chain, "pmd single", "cpu") for of, chain in pairs]
    yield (
        "One particle is level with one chain or ahead, and the chain takes "
        f"{min(times):.0f} to {max(times):.0f} times its CPU."
    )


def of_averages(found):
    """Several particles beside averages of chains and of a chain."""
    news, ap, few = (found[case] for case in CASES)
    chains, chain = "tomotopy average long", "tomotopy samples"
    assert over(news, chains, "pmd") < 1.0 - LEVEL and over(few, chains, "pmd") > 1.0 + LEVEL
    assert abs(over(ap, chains, "pmd") - 1.0) < LEVEL > abs(over(news, chain, "pmd") - 1.0)
    assert min(over(of, chain, "pmd") for of in (ap, few)) > 1.0 + LEVEL
    yield (
        "the long average of four chains is ahead on newsgroups for "
        f"{over(news, chains, 'pmd', 'cpu'):.0f} times the CPU, level on AP with 100 topics for "
        f"{over(ap, chains, 'pmd', 'cpu'):.0f} times, and behind with 20; the average of "
        "one chain's topics is level on newsgroups for "
        f"{over(news, chain, 'pmd', 'cpu'):.0f} times the CPU, and behind on AP."
    )


def of_coherence(news):
    """Coherence and diversity of topics."""
    kinds = "tomotopy", "pmd single", "sklearn"
    npmi, diversity = ([news[kind][key] for kind in kinds] for key in ("npmi", "diversity"))
    assert npmi == sorted(npmi, reverse=True) and max(diversity) == diversity[-1]
    assert abs(diversity[0] - diversity[1]) < 0.02
    chain, ours, theirs = (f"{value:.3f}" for value in npmi)
    yield f"(mean NPMI {chain} after 300 sweeps, ours {ours}, scikit-learn's {theirs})"
    chain, ours, theirs = (f"{value:.3f}" for value in diversity)
    yield f"({chain}, ours {ours}); scikit-learn's are more diverse ({theirs})"


STUDIES = topic_calibration, topics
