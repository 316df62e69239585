"""Documents split in two for the perplexity by completion."""

import numpy as np
import scipy.sparse as sp

from skpmd.lda._averages import completion_split


def test_parts_add_up_and_chances_are_equal():
    X = sp.csr_matrix(np.random.default_rng(0).poisson(0.7, size=(400, 50)).astype(np.float32))
    X[0, 0], X[1, 1] = 500.0, 65.0
    X.eliminate_zeros()
    X.sort_indices()
    given, held_out = completion_split(X)
    np.testing.assert_array_equal((given + held_out).toarray(), X.toarray())
    for part in (given, held_out):
        assert (part.data == np.floor(part.data)).all() and part.data.min() > 0
    n = X.sum() - 500.0
    assert abs((given.sum() - given[0, 0]) / n - 0.5) < 3 * 0.5 / np.sqrt(n)
    twice = X.toarray() == 2
    both = (given.toarray() == 1)[twice].mean()
    assert abs(both - 0.5) < 3 * 0.5 / np.sqrt(twice.sum())
    by_word = np.asarray((given > 0).sum(axis=0)).ravel()
    assert by_word.min() > 50  # a word is not always on one side
    assert 218 <= given[0, 0] <= 282


def test_a_document_is_always_split_alike():
    X = sp.csr_matrix(np.random.default_rng(1).poisson(0.6, size=(50, 30)).astype(np.float32))
    given = completion_split(X)[0].toarray()
    np.testing.assert_array_equal(completion_split(X[10:20])[0].toarray(), given[10:20])
    np.testing.assert_array_equal(completion_split(X[::-1].tocsr())[0].toarray(), given[::-1])


def test_broken_counts_are_halved():
    X = sp.csr_matrix(np.array([[0.5, 2.0, 0.0], [1.0, 2.0, 5.0]], dtype=np.float32))
    given, held_out = completion_split(X)
    np.testing.assert_array_equal(given.toarray()[0], [0.25, 1.0, 0.0])
    np.testing.assert_array_equal(held_out.toarray()[0], [0.25, 1.0, 0.0])
    assert (given.data[2:] == np.floor(given.data[2:])).all()
