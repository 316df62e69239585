"""Intervals of topics against the topics that documents were drawn from.

Topics are not identified to the last digit, and the posterior is approximated: their calibration is
the share of 90 % intervals that hold the truth. The documentation states what it is.
"""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from skpmd import LDATopicModelPMD

REPLICATIONS, DOCUMENTS, LENGTH, TOPICS, WORDS, PRIOR = 200, 150, 30, 3, 40, 0.1


def coverage(n_replications, certain=None):
    """The share of intervals that hold the truth: of words that a topic had, and of rare ones."""
    inside = {"all": [], "seen": [], "rare": []}
    for seed in range(n_replications):
        rng = np.random.default_rng([20241124, seed])
        topics = rng.dirichlet(np.full(WORDS, PRIOR), TOPICS)
        mixes = rng.dirichlet(np.full(TOPICS, PRIOR), DOCUMENTS)
        X = np.array([rng.multinomial(LENGTH, mix @ topics) for mix in mixes])
        model = LDATopicModelPMD(
            TOPICS, doc_topic_prior=PRIOR, topic_word_prior=PRIOR, random_state=seed
        ).fit(X)
        distance = -np.sqrt(topics) @ np.sqrt(model.topic_word_).T
        place = linear_sum_assignment(distance)[1]
        low, high = np.moveaxis(model.topic_word_interval(0.9)[place], -1, 0)
        holds, expected = (low <= topics) & (topics <= high), topics * LENGTH * DOCUMENTS / TOPICS
        inside["all"].append(holds.mean())
        inside["seen"].append(holds[expected >= 1.0].mean())
        inside["rare"].append(holds[(topics > 1e-8) & (topics < 1e-5)].mean())
    return {key: np.nanmean(shares) for key, shares in inside.items()}


# Some draws of the prior have two topics that documents do not tell from each other.
@pytest.mark.slow_for("12")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n", [12, pytest.param(REPLICATIONS, marks=pytest.mark.slow)])
def test_intervals_hold_what_they_say(n):
    """The standard error of a share over 12 replications is below .02.

    Words that are chosen by their true probability have no share that is known exactly.
    """
    found = coverage(n)
    assert 0.86 < found["all"] < 0.95, found
    assert 0.8 < found["seen"] < 0.95 and found["rare"] > 0.8, found
