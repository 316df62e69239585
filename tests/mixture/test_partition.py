"""Partitions: co-clustering, Bayes clusterings beside all partitions of six rows, their balls."""

import numpy as np
import pytest
from scipy.special import entr

from skpmd.mixture._partition import (
    MAX_ROWS,
    check_rows,
    co_clustering,
    draw_partitions,
    numbered,
    optimal_partition,
)


def all_partitions(n):
    found = [[0]]
    for _ in range(1, n):
        found = [one + [k] for one in found for k in range(max(one) + 2)]
    return np.array(found)


def binder(a, b):
    pairs = np.triu_indices(len(a), 1)
    together = [(c[:, None] == c[None, :])[pairs] for c in (a, b)]
    return np.mean(together[0] != together[1])


def information(a, b):
    return informations(a[None], b[None])[0, 0]


def informations(first, second):
    """Variation of information between each of the first partitions and each of the second."""
    n = first.shape[1]
    one, two = ((rows[..., None] == np.arange(n)).astype(float) for rows in (first, second))
    table = np.einsum("ank,bnj->abkj", one, two, optimize=True) / n

    def entropy(p):
        return entr(p).sum(axis=-1)

    together = entropy(table.reshape(*table.shape[:2], -1))
    return 2 * together - entropy(table.sum(axis=-1)) - entropy(table.sum(axis=-2))


def posterior(seed, m=4, n=6):
    rng = np.random.default_rng(seed)
    n_components = rng.integers(1, 5)
    sharp = rng.choice([0.1, 0.5, 2.0])
    return rng.dirichlet(np.full(n_components, sharp), size=(m, n)), rng.normal(size=m)


def test_co_clustering():
    shares, log_weights = posterior(0)
    weights = np.exp(log_weights) / np.exp(log_weights).sum()
    expected = np.einsum("i,ijk,ilk->jl", weights, shares, shares)
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(co_clustering(shares, log_weights), expected, rtol=1e-12)
    np.testing.assert_allclose(co_clustering(shares[:, :, ::-1], log_weights + 5.0), expected)
    drawn = draw_partitions(shares, log_weights, 20_000, np.random.default_rng(0))
    together = (drawn[:, :, None] == drawn[:, None, :]).mean(axis=0)
    np.testing.assert_allclose(together, expected, atol=0.02)


@pytest.mark.parametrize(
    "loss, seed", [("binder", seed) for seed in range(8)] + [("vi", seed) for seed in range(3)]
)
def test_best_of_all_partitions_of_six_rows(loss, seed):
    own = posterior(seed)
    found = optimal_partition(*own, loss=loss, rng=np.random.default_rng(1))
    draws = draw_partitions(*own, 500, np.random.default_rng(1))
    if loss == "vi":
        each, counts = np.unique(draws, axis=0, return_counts=True)

        def expected(labels):
            return informations(np.atleast_2d(labels), each) @ counts / 500
    else:
        together = co_clustering(*own)[np.triu_indices(6, 1)]

        def expected(labels):
            same = (labels[:, None] == labels[None, :])[np.triu_indices(6, 1)]
            return np.where(same, 1.0 - together, together).mean()

    least = np.min([expected(one) for one in all_partitions(6)])
    assert expected(found.labels) == pytest.approx(least, abs=1e-10)
    assert found.expected_loss == pytest.approx(least, abs=1e-10)
    np.testing.assert_array_equal(found.labels, numbered(found.labels))


@pytest.mark.parametrize("loss, distance", [("binder", binder), ("vi", information)])
def test_credible_ball(loss, distance):
    own = posterior(3)
    found = optimal_partition(*own, loss=loss, level=0.7, rng=np.random.default_rng(1))
    draws = draw_partitions(*own, 500, np.random.default_rng(1))
    distances = np.array([distance(found.labels, draw) for draw in draws])
    inside = distances <= found.radius + 1e-9
    assert inside.mean() >= 0.7
    assert (distances < found.radius - 1e-9).mean() < 0.7
    clusters = draws.max(axis=1) + 1
    for edge, which in (
        (found.horizontal, inside),
        (found.upper, inside & (clusters == clusters[inside].min())),
        (found.lower, inside & (clusters == clusters[inside].max())),
    ):
        assert distance(found.labels, edge) == pytest.approx(distances[which].max())
    assert found.upper.max() + 1 == clusters[inside].min()
    assert found.lower.max() + 1 == clusters[inside].max()
    assert found.level == 0.7


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_clear_groups_are_found_whatever_the_labels(loss):
    rng = np.random.default_rng(4)
    groups = rng.integers(0, 4, size=150)
    shares = np.full((30, 150, 5), 0.01)
    for one in shares:  # each particle has its own labels
        one[np.arange(150), rng.permutation(5)[groups]] = 0.96
    found = optimal_partition(shares, np.zeros(30), loss=loss)
    np.testing.assert_array_equal(found.labels, numbered(groups))
    again = optimal_partition(shares, np.zeros(30), loss=loss)
    np.testing.assert_array_equal(found.labels, again.labels)


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_one_row_and_one_component(loss):
    one = optimal_partition(np.ones((3, 1, 2)) / 2, np.zeros(3), loss=loss)
    assert one.labels.tolist() == [0] and one.expected_loss == one.radius == 0.0
    same = optimal_partition(np.ones((3, 9, 1)), np.zeros(3), loss=loss)
    assert same.labels.tolist() == [0] * 9
    assert same.expected_loss == pytest.approx(0.0, abs=1e-12)


def test_bad_input():
    check_rows(MAX_ROWS)
    with pytest.raises(ValueError, match=rf"X has {MAX_ROWS + 1} rows.*at most {MAX_ROWS}.*X\[::2"):
        check_rows(MAX_ROWS + 1)
    shares = np.ones((1, MAX_ROWS + 1, 1))
    with pytest.raises(ValueError, match="rows"):
        co_clustering(shares, np.zeros(1))
    with pytest.raises(ValueError, match="rows"):
        optimal_partition(shares, np.zeros(1))
    with pytest.raises(ValueError, match="'rand'"):
        optimal_partition(*posterior(0), loss="rand")
    with pytest.raises(ValueError, match=r"1\.0"):
        optimal_partition(*posterior(0), level=1.0)
