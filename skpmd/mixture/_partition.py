"""Which rows go together: co-clustering probabilities and the partition of least expected loss.

Responsibilities of shape (m, n, K) say with which probability each row is of each component, for
each particle, and log weights what the particles count. Labels mean nothing by themselves, so
nothing here depends on them.
"""

from typing import NamedTuple

import numpy as np

from skpmd._base.utils import check_level

MAX_ROWS = 2000
# Losses are averages over so many partitions drawn from the posterior.
_DRAWS = 500
# Searches may start from so many draws, and from the most probable labels of as many particles.
_CANDIDATES = 40
# The best of them so many are improved, in at most so many rounds over the rows.
_IMPROVED, _MAX_ROUNDS = 8, 50
# All rows apart is a start for few rows only: a sweep costs as many clusters as rows.
_FEW_ROWS = 100
# Losses that differ by less are equal but for rounding.
_SAME = 1e-9
# Responsibilities are taken in blocks of about so many numbers.
_BLOCK = 1 << 22


class Partition(NamedTuple):
    """A Bayes clustering and its credible ball (Wade and Ghahramani 2018).

    Attributes
    ----------
    labels : ndarray of shape (n,), int
        Clusters of the rows, numbered as they come.
    expected_loss : float
        Its expected loss: the share of pairs of rows that are wrongly together or apart
        (``"binder"``), or the variation of information in nats (``"vi"``).
    radius : float
        Of the smallest ball around it, in the units of the loss, that holds ``level`` of the
        posterior.
    level : float
        Probability of the ball.
    horizontal : ndarray of shape (n,), int
        The partition drawn from the posterior that lies in the ball and furthest out.
    upper : ndarray of shape (n,), int
        That of the fewest clusters in the ball, the furthest out of them.
    lower : ndarray of shape (n,), int
        That of the most clusters in the ball, the furthest out of them.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import GaussianMixturePMD
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-5, 1, size=(20, 1)), rng.normal(5, 1, size=(20, 1))])
    >>> found = GaussianMixturePMD(2, random_state=0).fit(X).optimal_partition(X, random_state=0)
    >>> np.bincount(found.labels)
    array([20, 20])
    """

    labels: np.ndarray
    expected_loss: float
    radius: float
    level: float
    horizontal: np.ndarray
    upper: np.ndarray
    lower: np.ndarray


def check_rows(n):
    """Raise where rows are too many for a matrix of all pairs."""
    if n > MAX_ROWS:
        raise ValueError(
            f"X has {n} rows, and partitions are for at most {MAX_ROWS}: all pairs of rows are "
            f"looked at. Give a sample of the rows, such as X[::{-(-n // MAX_ROWS)}]."
        )


def co_clustering(responsibilities, log_weights):
    """Probability that two rows are of one component; shape (n, n), 1 on the diagonal.

    Responsibilities have the shape (m, n, K). Log weights (m,) are up to a constant.
    """
    m, n, n_components = responsibilities.shape
    check_rows(n)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    together, many = np.zeros((n, n)), max(1, _BLOCK // (n * n_components))
    for start in range(0, m, many):
        part = slice(start, start + many)
        root = np.sqrt(weights[part])[:, None, None] * responsibilities[part]
        root = root.transpose(1, 0, 2).reshape(n, -1)
        together += root @ root.T
    together = np.clip(0.5 * (together + together.T), 0.0, 1.0)
    np.fill_diagonal(together, 1.0)
    return together


def optimal_partition(responsibilities, log_weights, *, loss="vi", level=0.9, rng=None):
    """The partition of least expected loss among many, each improved row by row.

    Draws from the posterior over partitions and the particles' most probable labels are where the
    search starts from; sweeps then move one row at a time to where the expected loss is least
    (Dahl, Johnson and Mueller 2022), in time proportional to rows and clusters.

    The loss "vi" is the variation of information, averaged over draws, and "binder" is Binder's
    loss, by the co-clustering probabilities. ``level`` is the probability of the credible ball.
    Arrays are those of `co_clustering`. Without ``rng`` draws are the same in each call.
    """
    if loss not in ("vi", "binder"):
        raise ValueError(f"loss must be 'vi' or 'binder', got {loss!r}.")
    check_level(level)
    check_rows(responsibilities.shape[1])
    rng = np.random.default_rng(0) if rng is None else rng
    draws = draw_partitions(responsibilities, log_weights, _DRAWS, rng)
    if loss == "vi":
        search = _Information(draws)
    else:
        search = _Pairs(draws, co_clustering(responsibilities, log_weights))
    labels, expected = _search(search, _starts(responsibilities, log_weights, draws, rng))
    return _ball(labels, expected, draws, search.distances(labels), level)


def draw_partitions(responsibilities, log_weights, n_draws, rng):
    """Labels drawn from the posterior, those of each draw numbered as they come; (n_draws, n)."""
    weights = np.exp(log_weights - log_weights.max())
    particles = rng.choice(len(weights), size=n_draws, p=weights / weights.sum())
    draws = np.empty((n_draws, responsibilities.shape[1]), dtype=np.int64)
    for draw, particle in zip(draws, particles, strict=True):
        ends = np.cumsum(responsibilities[particle], axis=1)
        points = rng.random(len(ends)) * ends[:, -1]
        draw[:] = numbered((points[:, None] >= ends[:, :-1]).sum(axis=1))
    return draws


def numbered(labels):
    """The same partition with its clusters numbered in the order of their first rows."""
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which.ravel()]


def _starts(responsibilities, log_weights, draws, rng):
    """Where searches begin: draws, most probable labels, all rows together, few rows apart."""
    n = draws.shape[1]
    likely = np.argsort(-log_weights, kind="stable")[:_CANDIDATES]
    if len(log_weights) > _CANDIDATES and np.ptp(log_weights) < 1.0:
        likely = rng.choice(len(log_weights), size=_CANDIDATES, replace=False)
    labels = [numbered(responsibilities[i].argmax(axis=1)) for i in likely]
    apart = [np.arange(n)] if n <= _FEW_ROWS else []
    return [*draws[:_CANDIDATES], *labels, np.zeros(n, dtype=np.int64), *apart]


def _search(search, starts):
    """The best partition found from the most promising starts, and its expected loss."""
    starts = np.unique(np.array(starts), axis=0)
    losses = np.array([search.expected(labels) for labels in starts])
    best, lowest = None, np.inf
    order = np.argsort(losses, kind="stable")
    for i in order if starts.shape[1] <= _FEW_ROWS else order[:_IMPROVED]:
        labels = numbered(search.improve(starts[i]))
        expected = search.expected(labels)
        if expected < lowest:
            best, lowest = labels, expected
    return best, max(0.0, float(lowest))


class _Pairs:
    """Binder's loss, as a share of the pairs of rows."""

    def __init__(self, draws, together):
        self.draws, self.n_pairs = draws, max(1, len(together) * (len(together) - 1) // 2)
        # This is what a pair costs more together than apart.
        self.wrong = 1.0 - 2.0 * together
        np.fill_diagonal(self.wrong, 0.0)
        self.all_apart = 0.5 * (together.sum() - len(together))

    def expected(self, labels):
        one_hot = np.eye(labels.max() + 1)[labels]
        return (self.all_apart + 0.5 * (one_hot * (self.wrong @ one_hot)).sum()) / self.n_pairs

    def distances(self, labels):
        n, table = len(labels), _contingency(labels, self.draws)
        of_labels = (np.bincount(labels).astype(float) ** 2).sum()
        of_draws = (table.sum(axis=1).astype(float) ** 2).sum(axis=1)
        wrong = of_labels + of_draws - 2.0 * (table.astype(float) ** 2).sum(axis=(1, 2))
        return 0.5 * wrong / max(1, n * (n - 1) // 2)

    def improve(self, labels):
        labels = labels.copy()
        costs = self.wrong @ np.eye(_room(labels, self.draws))[labels]
        for _ in range(_MAX_ROUNDS):
            moved = False
            for i in range(len(labels)):
                new, old = int(np.argmin(costs[i])), labels[i]
                if costs[i, new] < costs[i, old] - _SAME:
                    costs[:, old] -= self.wrong[i]
                    costs[:, new] += self.wrong[i]
                    labels[i], moved = new, True
            if not moved:
                break
        return labels


class _Information:
    """Variation of information: H(a) + H(b) - 2 I(a, b), as sums of f(x) = x log x of counts."""

    def __init__(self, draws):
        self.draws, n = draws, draws.shape[1]
        x = np.arange(n + 2.0)
        self.f = x * np.log(np.maximum(x, 1.0))
        self.more = np.append(np.diff(self.f), 0.0)  # f(x + 1) - f(x)
        sizes = _contingency(np.zeros(n, dtype=np.int64), draws)[:, 0]
        self.of_draws = self.f[sizes].sum(axis=1)

    def expected(self, labels):
        return float(self.distances(labels).mean())

    def distances(self, labels):
        of_labels = self.f[np.bincount(labels)].sum()
        common = self.f[_contingency(labels, self.draws)].sum(axis=(1, 2))
        return np.maximum(of_labels + self.of_draws - 2.0 * common, 0.0) / len(labels)

    def improve(self, labels):
        labels, room = labels.copy(), _room(labels, self.draws)
        table = _contingency(labels, self.draws, room).transpose(0, 2, 1).copy()
        sizes, each = np.bincount(labels, minlength=room), np.arange(len(self.draws))
        for _ in range(_MAX_ROUNDS):
            moved = False
            for i in range(len(labels)):
                drawn, old = self.draws[:, i], labels[i]
                table[each, drawn, old] -= 1
                sizes[old] -= 1
                costs = self.more[sizes] - 2.0 * self.more[table[each, drawn]].mean(axis=0)
                new = int(np.argmin(costs))
                if not costs[new] < costs[old] - _SAME:
                    new = old
                table[each, drawn, new] += 1
                sizes[new] += 1
                moved |= new != old
                labels[i] = new
            if not moved:
                break
        return labels


def _room(labels, draws):
    """How many clusters a sweep may make: more than there are now."""
    return min(len(labels), max(labels.max(), draws.max()) + 3)


def _contingency(labels, draws, n_clusters=None):
    """How many rows each cluster shares with each cluster of each draw; (n_draws, k, l)."""
    n_draws, n_clusters = len(draws), n_clusters or labels.max() + 1
    n_drawn = draws.max() + 1
    places = (np.arange(n_draws)[:, None] * n_clusters + labels) * n_drawn + draws
    counts = np.bincount(places.ravel(), minlength=n_draws * n_clusters * n_drawn)
    return counts.reshape(n_draws, n_clusters, n_drawn)


def _ball(labels, expected, draws, distances, level):
    """The credible ball and the partitions at its edge."""
    radius = float(np.sort(distances)[int(np.ceil(level * len(draws))) - 1])
    inside = np.flatnonzero(distances <= radius + _SAME)
    clusters = draws.max(axis=1) + 1

    def furthest(places):
        return draws[places[np.argmax(distances[places])]]

    few, many = clusters[inside].min(), clusters[inside].max()
    return Partition(
        labels,
        expected,
        radius,
        level,
        furthest(inside),
        furthest(inside[clusters[inside] == few]),
        furthest(inside[clusters[inside] == many]),
    )
