"""Topic models of everyday for the study ``honesty``: small collections and short documents.

Everything by default but the priors, which are those that documents are drawn from. An answer is
wrong where 90 % intervals hold less than 75 % of the true values, right from 85 % on; of documents
that are all equal, where the perplexity is beyond twice what one topic has.
"""

import numpy as np

from skpmd import LDATopicModelPMD

from ..lda.topic_calibration import collection, inside, relabelled
from .honesty_case import Case, hearing

LEVEL, WRONG, RIGHT = 0.9, 0.75, 0.85
SEEDS, N_SHORT = 4, 200
# Topics, words, documents, their length, alpha and eta.
SMALL = {
    "60 documents": (2, 40, 60, 40, 0.5, 0.3),
    "topics alike": (2, 25, 120, 25, 0.7, 0.7),
    "rare words": (3, 300, 150, 30, 0.3, 0.05),
    "long documents": (3, 150, 40, 300, 0.3, 0.1),
    "six topics": (6, 120, 250, 50, 0.2, 0.1),
    "documents of a line": (3, 40, 800, 6, 0.2, 0.2),
}
LENGTHS = (1, 2, 8, 30)


def cases(quick):
    """Yield the `Case` of every fit."""
    for seed in range(1 if quick else SEEDS):
        for name, setting in list(SMALL.items())[: 2 if quick else None]:
            yield from _small(name, setting, seed)
        for K in (4,) if quick else (3, 25):
            yield from _equal(K, seed)


def _small(name, setting, seed):
    """Words, and short documents drawn from the topics that a fit has found."""
    K, V, n, length, alpha, eta = setting
    rng = np.random.default_rng([seed, *setting[:4]])
    truth, _, X = collection(K, V, n, length, alpha, eta, rng)
    model = LDATopicModelPMD(K, doc_topic_prior=alpha, topic_word_prior=eta, random_state=seed)
    with hearing() as heard:
        model.fit(X)
    place, _ = relabelled(model.topic_word_, truth)
    share = float(inside(model.topic_word_interval(LEVEL)[place], truth).mean())
    yield _case("words", name, seed, share, heard.warned)
    length = LENGTHS[seed % len(LENGTHS)]
    mixes = rng.dirichlet(np.full(K, alpha), N_SHORT)
    shares = mixes @ truth
    new = np.array([rng.multinomial(length, one / one.sum()) for one in shares])
    ends = model.transform(new, return_interval=LEVEL)[1][:, place]
    share = float(inside(ends, mixes).mean())
    yield _case("documents", f"{name}, {length} words", seed, share, heard.warned)


def _equal(K, seed):
    """Documents that are all equal, of which no fit can tell more than one topic."""
    counts = np.random.default_rng(seed).integers(1, 6, 5)
    X = np.tile(counts, (200, 1))
    model = LDATopicModelPMD(K, random_state=seed)
    with hearing() as heard:
        model.fit(X)
    share = counts / counts.sum()
    ratio = model.perplexity(X, method="bound") / np.exp(-(share * np.log(share)).sum())
    # That the topics are alike is to be warned of: a fit in silence is wrong.
    yield Case(
        "lda", "perplexity", f"equal documents, {K} topics", seed, True, True,
        wrong=bool(ratio > 2.0 or not heard.warned), right=bool(ratio <= 2.0 and not heard.warned),
        warned=heard.warned, error=float(ratio / 2.0),
    )  # fmt: skip


def _case(setting, shape, seed, share, warned):
    return Case(
        "lda", setting, shape, seed, True, True, share < WRONG, share >= RIGHT, warned,
        (1.0 - share) / (1.0 - WRONG),
    )  # fmt: skip
