"""Rows: every row once in a pass, batches of nearly equal size, weight zero is absence."""

import numpy as np
import pytest

from skpmd._rows.rows import Rows, merge_copies, stratified_sample


def numbered(n, **kwargs):
    """Rows whose only feature and target are the row's number."""
    index = np.arange(n, dtype=np.float64)
    arguments = {"weight": None, "batch_size": 10, **kwargs}
    return Rows(index[:, None], index, arguments["weight"], arguments["batch_size"])


def visited(batches):
    return np.concatenate([batch.X[:, 0] for batch in batches])


@pytest.mark.parametrize("n, batch_size", [(1, 1), (10, 10), (11, 10), (95, 10), (7, 3), (20, 1)])
def test_an_epoch_visits_each_row_once(n, batch_size):
    rows = numbered(n, batch_size=batch_size)
    batches = list(rows.one_pass("epoch", np.random.default_rng(0)))
    assert len(batches) == rows.n_batches == -(-n // batch_size)
    np.testing.assert_array_equal(np.sort(visited(batches)), np.arange(n))
    np.testing.assert_array_equal(visited(rows.whole()), np.arange(n))


@pytest.mark.parametrize("batch_size", [7, 49])
def test_batches_are_of_nearly_equal_size(batch_size):
    for n in range(1, 250):
        sizes = [len(batch.X) for batch in numbered(n, batch_size=batch_size).whole()]
        assert max(sizes) <= batch_size
        assert min(sizes) >= 1
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("n, expected", [(1, 1), (1000, 1), (1001, 2), (2500, 3)])
def test_an_automatic_batch_has_at_most_a_thousand_rows(n, expected):
    assert numbered(n, batch_size="auto").n_batches == expected


def test_features_targets_and_weights_stay_together():
    weight = np.arange(1.0, 31.0)
    rows = numbered(30, weight=weight, batch_size=7)
    for batch in [*rows.one_pass("epoch", np.random.default_rng(1)), *rows.whole()]:
        np.testing.assert_array_equal(batch.y, batch.X[:, 0])
        np.testing.assert_array_equal(batch.weight, batch.X[:, 0] + 1.0)


def test_rows_of_weight_zero_are_left_out():
    weight = np.tile([1.0, 0.0, 2.5], 10)
    rows = numbered(30, weight=weight, batch_size=6)
    kept = np.flatnonzero(weight)
    assert rows.total == weight.sum()
    assert rows.n_batches == -(-len(kept) // 6)
    np.testing.assert_array_equal(visited(rows.whole()), kept)
    batches = list(rows.one_pass("epoch", np.random.default_rng(0)))
    np.testing.assert_array_equal(np.sort(visited(batches)), kept)
    np.testing.assert_array_equal(rows.data.y, kept)


@pytest.mark.parametrize("weight", [None, np.array([1.0, 0.0, 1.0, 3.0])])
def test_targets_may_be_missing(weight):
    rows = Rows(np.zeros((4, 2)), None, weight, 2)
    batches = [*rows.whole(), *rows.one_pass("epoch", np.random.default_rng(0))]
    assert all(batch.y is None for batch in batches)


def test_targets_may_have_columns():
    y = np.arange(20.0).reshape(10, 2)
    batches = Rows(np.arange(10.0)[:, None], y, None, 4).whole()
    np.testing.assert_array_equal(np.concatenate([batch.y for batch in batches]), y)


def test_a_single_batch_spends_no_randomness():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    (batch,) = numbered(10, batch_size=10).one_pass("epoch", rng)
    assert rng.bit_generator.state == before
    np.testing.assert_array_equal(batch.X[:, 0], np.arange(10))


@pytest.mark.parametrize("batch_size", [10, 60])
def test_replacement_draws_rows_independently(batch_size):
    # Each of 60 rows is drawn binomial(60, 1/60) times a pass, variance 59/60. Over 400 passes
    # the mean count of a row has standard error 0.05, and the pooled variance of the 24000
    # counts a relative one of about sqrt(3 / 24000) = 0.011; the tolerances are 4.5 of these.
    rows, rng = numbered(60, batch_size=batch_size), np.random.default_rng(0)
    passes = [visited(rows.one_pass("replacement", rng)).astype(int) for _ in range(400)]
    assert all(len(drawn) == 60 for drawn in passes)
    counts = np.array([np.bincount(drawn, minlength=60) for drawn in passes])
    assert np.abs(counts.mean(axis=0) - 1.0).max() < 4.5 * 0.05
    assert abs(counts.var() / (59 / 60) - 1.0) < 4.5 * 0.011


def test_the_whole_is_made_of_views():
    rows = numbered(95)
    for batch in rows.whole():
        for piece, full in zip(batch, rows.data, strict=True):
            assert piece is full is None or np.shares_memory(piece, full)


def test_without_dropped_rows_nothing_is_copied():
    X = np.zeros((20, 3))
    weight = np.ones(20)
    rows = Rows(X, None, weight, 5)
    assert rows.data.X is X
    assert rows.data.weight is weight


@pytest.mark.parametrize("levels", [2, 10**9], ids=["many ties", "none in two columns"])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_merged_rows_are_the_distinct_ones_in_order_with_their_weight(p, levels):
    rng = np.random.default_rng(0)
    X = rng.integers(levels, size=(60, p)).astype(float)
    y, weight = rng.integers(2, size=60), rng.integers(1, 5, size=60).astype(float)
    places, total = merge_copies(weight, X, y)
    together = np.column_stack([y, X])
    distinct, which = np.unique(together, axis=0, return_inverse=True)
    np.testing.assert_array_equal(together[places], distinct)
    np.testing.assert_array_equal(total, np.bincount(which.ravel(), weight))


def test_a_sample_of_rows_of_one_weight_is_that_of_any_weights():
    one, many = (
        stratified_sample(weight, 30, np.random.default_rng(0))
        for weight in (np.broadcast_to(1.0, 1000), np.ones(1000))
    )
    np.testing.assert_array_equal(one, many)


@pytest.mark.slow_but("equal", "nearly all")
@pytest.mark.parametrize(
    "weight",
    [
        np.ones(130),
        np.linspace(0.3, 0.99, 150),
        np.r_[np.full(90, 1.0), 40.0, 7.0, np.full(60, 0.5)],
        np.full(101, 3e9),
    ],
    ids=["equal", "unequal", "heavy", "nearly all"],
)
def test_no_light_row_of_a_sample_is_there_twice(weight):
    n, times, total = 100, 3000, np.zeros(len(weight))
    for seed in range(times):
        places, counts = stratified_sample(weight, n, np.random.default_rng(seed))
        assert (np.diff(places) > 0).all() and len(places) <= n
        total[places] += counts
    share = weight * n / weight.sum()
    np.testing.assert_allclose(counts.sum(), n)
    heavy = share >= 1.0
    np.testing.assert_allclose(total[heavy], times * share[heavy])
    # Rows are drawn in proportion to their weight: binomial, five standard deviations.
    sd = np.sqrt(times * np.maximum(share * (1.0 - share), 1e-9))
    assert (np.abs(total - times * share)[~heavy] < 5.0 * sd[~heavy]).all()


def test_sorted_rows_are_all_represented_in_a_sample():
    for seed in range(50):
        places, _ = stratified_sample(np.ones(1000), 50, np.random.default_rng(seed))
        np.testing.assert_array_equal(places // 20, np.arange(50))


# ------------------------------------------------------------------ passes past one group of blocks
@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr("skpmd._rows.table._MAX_BLOCK", 5)
    monkeypatch.setattr("skpmd._rows.table._GROUP", 4)


@pytest.mark.parametrize("n, batch_size", [(20, 7), (21, 7), (103, 10), (400, 33), (41, 1)])
def test_a_pass_over_groups_visits_each_row_once(small_groups, n, batch_size):
    rows = numbered(n, batch_size=batch_size)
    batches = list(rows.one_pass("epoch", np.random.default_rng(0)))
    assert [len(batch.X) for batch in batches] == [len(batch.X) for batch in rows.whole()]
    np.testing.assert_array_equal(np.sort(visited(batches)), np.arange(n))


def test_a_group_is_of_blocks_from_all_over_the_rows(small_groups):
    rows = numbered(400, batch_size=20)
    passes = [rows.one_pass("epoch", np.random.default_rng(seed)) for seed in range(50)]
    first = [next(one).X[:, 0] for one in passes]
    # A batch of 20 rows is a quarter of each of four blocks of 80: blocks are all as probable.
    counts = np.bincount(np.concatenate(first).astype(int) // 5, minlength=80)
    assert (counts > 0).sum() > 60
    assert np.mean([len(np.unique(one // 5)) for one in first]) == 4.0


def test_one_group_is_a_plain_permutation():
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    found = visited(numbered(95).one_pass("epoch", rng))
    order = np.arange(95)
    again.shuffle(order)
    edges = np.linspace(0, 95, 11).astype(int)
    expected = [np.sort(order[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    np.testing.assert_array_equal(found, np.concatenate(expected))


def test_rows_drawn_with_replacement_are_of_all_groups(small_groups):
    drawn = visited(numbered(400).one_pass("replacement", np.random.default_rng(0)))
    counts = np.bincount(drawn.astype(int), minlength=400)
    assert counts.sum() == 400
    # Counts within groups are multinomial: a share exp(-1) of the rows is missing, to 4 sds.
    assert abs((counts == 0).mean() - np.exp(-1.0)) < 4 * 0.5 / 20
    np.testing.assert_array_equal(np.bincount(drawn.astype(int) // 5).sum(), 400)


def test_the_rows_of_a_group_are_mixed(small_groups):
    batches = list(numbered(400, batch_size=5).one_pass("epoch", np.random.default_rng(0)))
    # Five rows of twenty at random are of three blocks of four on average, at most of four.
    n_blocks = [len(np.unique(batch.X[:, 0] // 5)) for batch in batches]
    assert np.mean(n_blocks) > 2.5
