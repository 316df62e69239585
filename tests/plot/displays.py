"""One small case of each display, for the tests that all of them share."""

from functools import cache

import numpy as np
from sklearn.datasets import load_iris

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    NormalMixture,
    Posterior,
)
from skpmd.effects import predictions
from skpmd.plot import (
    EffectsDisplay,
    GroupEffectsDisplay,
    MixtureDensityDisplay,
    PairDisplay,
    PosteriorIntervalDisplay,
    PosteriorPredictiveCheckDisplay,
    PredictiveBandDisplay,
    ReliabilityDisplay,
    TopicDisplay,
)

X, Y = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
PARTICLES = RNG.normal(size=(200, 3)) * [1.0, 2.0, 0.5] + [0.0, 3.0, -1.0]
POSTERIOR = Posterior(PARTICLES, 0.3 * PARTICLES[:, 0], names=["first", "second", "third"])


@cache
def classifier():
    return BayesianLogisticRegressionPMD(n_particles=300, random_state=0).fit(X, Y)


@cache
def groups():
    rng = np.random.default_rng(0)
    group, x = np.repeat(np.arange(9), 8), rng.normal(size=72)
    y = 3.0 * x + group + rng.normal(size=72)
    X = np.column_stack([x, group])
    model = BayesianGLMRegressorPMD(groups=[1], slopes={1: [0]}, random_state=0)
    return model.fit(X, y)


@cache
def mixture():
    return GaussianMixturePMD(2, strategy="conjugate", n_particles=4, random_state=0).fit(X[:, 2:3])


@cache
def topics():
    counts = [[3, 2, 0, 0], [2, 4, 0, 0], [0, 0, 3, 1], [0, 0, 2, 5]] * 5
    model = LDATopicModelPMD(2, doc_topic_prior=0.1, n_particles=3, random_state=0)
    return model.fit(np.array(counts))


def bands(**options):
    x = np.linspace(0.0, 1.0, 20)
    return PredictiveBandDisplay.from_predictions(
        x, NormalMixture(np.sin(x), np.full(20, 0.1)), data=(x, np.sin(x)), **options
    )


def reliability(**options):
    y = np.random.default_rng(0).integers(2, size=50)
    prob = np.random.default_rng(1).random(50)
    return ReliabilityDisplay.from_predictions(y, prob, **options)


def check(**options):
    y = np.random.default_rng(0).normal(size=60)
    y_rep = np.random.default_rng(1).normal(size=(40, 60))
    return PosteriorPredictiveCheckDisplay.from_predictions(y, y_rep, **options)


# Functions of ``ax`` and options of ``plot``, and how many Axes there are.
CASES = {
    "intervals": (lambda **o: PosteriorIntervalDisplay.from_posterior(POSTERIOR, **o), 1),
    "pairs": (lambda **o: PairDisplay.from_posterior(POSTERIOR, **o), 9),
    "bands": (bands, 1),
    "reliability": (reliability, 2),
    "check": (check, 1),
    "frequencies": (lambda **o: check(kind="frequency", **o), 1),
    "statistic": (lambda **o: check(statistic="std", **o), 1),
    "topics": (lambda **o: TopicDisplay.from_estimator(topics(), n_words=3, **o), 2),
    "groups": (lambda **o: GroupEffectsDisplay.from_estimator(groups(), **o), 1),
    "effects": (
        lambda **o: EffectsDisplay.from_effects(predictions(groups(), [[1.0, 2.0]]), **o),
        1,
    ),
    "mixture": (lambda **o: MixtureDensityDisplay.from_estimator(mixture(), X[:, 2:3], **o), 1),
}
