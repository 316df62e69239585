"""Mixtures of everyday tables in raw units for the study ``honesty``.

Each fit has a table that something is wrong or unusual with, and is judged by new rows of the
ordinary kind: by the nats that each loses beside the same mixture of the table without the fault
(standardised, without mistyped rows or sentinels, groups near each other), and by the adjusted
Rand index that labels lose. Rows that are a fault's own have a component more.

Wrong is a loss of more than a quarter of a nat or of .2 of the index, right is one of up to a tenth
and .1.
"""

import numpy as np
from sklearn.metrics import adjusted_rand_score

from skpmd import GaussianMixturePMD

from .honesty_case import Case, hearing

TYPES = ("full", "tied", "diag", "spherical")
SEEDS = 2
WRONG, RIGHT = (0.25, 0.2), (0.1, 0.1)


def cases(quick):
    """Yield the `Case` of every fit."""
    for seed in range(1 if quick else SEEDS):
        for name, make in SHAPES.items():
            for kind in ("full", "diag") if quick else TYPES:
                yield _case(name, kind, seed, *make(np.random.default_rng(seed), kind))


def _case(name, kind, seed, table, clean, more):
    """Judge a fit to a table by the fit to the clean one.

    Both are rows, new rows, labels of these, and what to add to log densities of the new rows.
    """
    found = []
    for (X, new, labels, constant), extra in ((clean, 0), (table, more)):
        n_components = len(np.unique(labels)) + extra
        model = GaussianMixturePMD(n_components, covariance_type=kind, random_state=seed)
        with hearing() as heard:
            model.fit(X)
        agreement = adjusted_rand_score(labels, model.predict(new))
        found.append((model.score(new) + constant, agreement))
    (best, of_best), (score, agreement) = found
    losses = np.array([best - score, of_best - agreement])
    return Case(
        "mixture", f"raw units, {kind}", name, seed, True, True,
        wrong=bool((losses > WRONG).any()), right=bool((losses <= RIGHT).all()),
        warned=heard.warned, error=float(max(losses / WRONG)),
    )  # fmt: skip


# ---------------------------------------------------------------------- tables
def _groups(rng, n, centres, kind):
    """Rows and labels of groups with unit variances, the first two columns correlated."""
    labels = rng.integers(0, len(centres), n)
    noise = rng.standard_normal((n, centres.shape[1]))
    if kind in ("full", "tied"):
        noise[:, 1] = 0.6 * noise[:, 0] + 0.8 * noise[:, 1]
    return noise + centres[labels], labels


def _plain(rng, kind, n=400, p=2, away=4.0):
    """Rows and new rows with their labels."""
    centres = away * np.eye(p)[:2]
    X, _ = _groups(rng, n, centres, kind)
    return X, *_groups(rng, 1000, centres, kind)


def _one_mistyped(rng, kind):
    X, new, labels = _plain(rng, kind)
    wrong = X.copy()
    wrong[7, 1] = 4e6
    return (wrong, new, labels, 0.0), (X, new, labels, 0.0), 1


def _several_mistyped(rng, kind):
    X, new, labels = _plain(rng, kind)
    wrong = X.copy()
    wrong[[3, 50]] = [[1e9, -2.0], [-3e3, 3e3]]
    return (wrong, new, labels, 0.0), (X, new, labels, 0.0), 2


def _sentinels(rng, kind):
    X, new, labels = _plain(rng, kind)
    wrong = X.copy()
    wrong[::12, 1] = -9999.0
    clean = np.delete(X, np.s_[::12], axis=0)
    return (wrong, new, labels, -np.log(len(clean) / len(X))), (clean, new, labels, 0.0), 1


def _far_groups(rng, kind):
    X, new, labels = _plain(rng, kind, away=9.0)
    far = np.array([2500.0, -4000.0])

    def moved(rows):
        return rows + far * (rows[:, :1] > rows[:, 1:])

    return (moved(X), moved(new), labels, 0.0), (X, new, labels, 0.0), 0


def _units(rng, kind):
    X, new, labels = _plain(rng, kind)
    scale = np.array([1e-9, 1e12]) if kind != "spherical" else np.array([1e-9, 1e-9])
    shift = np.array([3.0, 2000.0]) * scale

    def in_units(rows):
        return rows * scale + shift

    constant = np.log(scale).sum()
    return (in_units(X), in_units(new), labels, constant), (X, new, labels, 0.0), 0


def _wide(rng, kind):
    """Half the columns tell groups apart; beside it, those alone and the density of the others."""
    p = 12 if kind in ("full", "tied") else 60
    X, new, labels = _plain(rng, kind, n=300, p=p, away=6.0)
    rest = 0.5 * (new[:, p // 2 :] ** 2 + np.log(2.0 * np.pi)).sum(axis=1).mean()
    # Each parameter more costs half a nat of all rows.
    more = p - p // 2
    of_covariances = {
        "full": p * (p + 1) - (p - more) * (p - more + 1), "diag": 2 * more, "spherical": 0,
        "tied": (p * (p + 1) - (p - more) * (p - more + 1)) // 2,
    }  # fmt: skip
    rest += 0.5 * (2 * more + of_covariances[kind]) / len(X)
    return (X, new, labels, rest), (X[:, : p // 2], new[:, : p // 2], labels, 0.0), 0


def _rounded(rng, kind):
    """Values to tenths: ties, and gaps of 0."""
    X, new, labels = _plain(rng, kind)
    return (X.round(1), new, labels, 0.0), (X, new, labels, 0.0), 0


def _counts(rng, kind):
    """A column of counts, whose values are tied, beside a mistyped row."""
    X, new, labels = _plain(rng, kind)
    X, new = (np.column_stack([rows, rng.poisson(4.0, len(rows))]) for rows in (X, new))
    wrong = X.copy()
    wrong[11, 0] = -7e4
    return (wrong, new, labels, 0.0), (X, new, labels, 0.0), 1


SHAPES = {
    "one mistyped row": _one_mistyped,
    "two mistyped rows": _several_mistyped,
    "sentinels": _sentinels,
    "far groups": _far_groups,
    "tiny and huge units": _units,
    "many columns": _wide,
    "rounded": _rounded,
    "counts, one mistyped": _counts,
}
