"""What the studies of topic models share: splits and our estimator."""

import numpy as np

from ..harness import datasets
from ..harness.timing import cpu_clock
from ..peers.tokens import Topics

PRIORS = ({"alpha": 0.1, "eta": 0.01}, {"alpha": 0.05, "eta": 0.05})
N_TEST = 1000  # at most a tenth


def parts(config, name, seed):
    """Documents to learn from, for validation, for the test."""
    X, n = _shuffled(config, name, seed)
    return X[2 * n :], X[n : 2 * n], X[:n]


def known(config, name, seed):
    """Documents to learn from and for validation together, and for the test."""
    X, n = _shuffled(config, name, seed)
    return X[n:], X[:n]


def _shuffled(config, name, seed):
    X = quick_corpus() if config.quick else datasets.corpus(name, config.data)
    order = np.random.default_rng(1000 + seed).permutation(X.shape[0])
    return X[order], min(N_TEST, X.shape[0] // 10)


def quick_corpus(n_documents=1500, n_words=500, n_topics=10):
    """Documents drawn from a topic model."""
    rng = np.random.default_rng(0)
    topics = datasets.drawn_topics(n_topics, n_words, 0.05, rng)
    lengths = 2 + rng.poisson(60, n_documents)
    return datasets.drawn_documents(topics, 0.1, lengths, rng)[0]


def ours(setting, K, seed, **options):
    """Our estimator."""
    from skpmd import LDATopicModelPMD

    own = {key: value for key, value in setting.items() if key not in ("alpha", "eta")}
    return LDATopicModelPMD(
        K, doc_topic_prior=setting["alpha"], topic_word_prior=setting["eta"],
        random_state=seed, **own, **options,
    )  # fmt: skip


def fitted(model, X):
    """The topics of each particle after `fit`, and the particles' weights.

    What `posterior_` computes on its first use is counted.
    """
    with cpu_clock() as clock:
        model.fit(X)
        _ = model.posterior_.weights
    return particles(model, clock.cpu)


def particles(model, cpu):
    """The topics of each particle, and the particles' weights."""
    posterior = model.posterior_
    pairs = zip(posterior.topic_word, posterior.doc_topic_prior, strict=True)
    return [Topics(1, cpu, words, alpha) for words, alpha in pairs], posterior.weights


def warm_up(setting):
    """Compile what is compiled on a first call, for several particles and for one."""
    for n_particles in (1, 2):
        X = quick_corpus(200, 50)
        fitted(ours(setting, 3, 0, n_particles=n_particles, max_iter=10), X)
