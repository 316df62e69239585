"""A file that is sorted by its label, of more rows than one group of blocks, as a shuffled one.

These are groups of the real size: 32 blocks of 16,384 rows, or of 2048 documents.
"""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skpmd import GaussianMixturePMD, LDATopicModelPMD
from skpmd._rows.table import group_size
from skpmd.data import Blocks

pytestmark = pytest.mark.slow

N, N_DOCUMENTS = 540_000, 70_000


def in_blocks(order, X, *y):
    """Rows in some order, 50,000 at a time."""
    starts = range(0, len(order), 50_000)
    parts = [order[start : start + 50_000] for start in starts]
    return Blocks([(X[part], *(one[part] for one in y)) for part in parts])


def fitted(model, label, X, *y):
    """The model of shuffled rows, and that of the same rows sorted by their label."""
    assert X.shape[0] > group_size(X)
    orders = np.random.default_rng(9).permutation(len(label)), np.argsort(label, kind="stable")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # They are short, for speed.
        return [model().fit(in_blocks(order, X, *y)) for order in orders]


def test_components_of_a_mixture():
    """One stochastic pass and nothing after it: a stream of sorted rows would be far off."""
    rng = np.random.default_rng(1)
    label = rng.integers(3, size=N)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    X = centres[label] + rng.standard_normal((N, 2))
    new = centres[rng.integers(3, size=20_000)] + rng.standard_normal((20_000, 2))
    shuffled, by_label = fitted(
        lambda: GaussianMixturePMD(
            3, n_particles=1, max_iter=1, max_full_iter=0, batch_size=4096, random_state=0
        ),
        label, X,
    )  # fmt: skip
    # Seeds of the shuffled ones differ by 1e-4 nats a row.
    assert by_label.score(new) == pytest.approx(shuffled.score(new), abs=1e-3)


def test_topics_of_documents():
    rng = np.random.default_rng(2)
    label = rng.integers(4, size=N_DOCUMENTS)
    words = (label[:, None] * 10 + 16 * rng.random((N_DOCUMENTS, 12)) ** 2).astype(int) % 40
    ends = np.arange(0, words.size + 1, 12)
    X = sparse.csr_matrix((np.ones(words.size), words.ravel(), ends), shape=(N_DOCUMENTS, 40))
    shuffled, by_label = fitted(
        lambda: LDATopicModelPMD(
            4, n_particles=1, max_iter=1, assignment="soft", batch_size=1024, random_state=0
        ),
        label, X,
    )  # fmt: skip
    perplexity = shuffled.perplexity(X[:2000])
    assert by_label.perplexity(X[:2000]) == pytest.approx(perplexity, rel=0.01)
