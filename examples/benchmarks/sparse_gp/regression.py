"""Gaussian process regression beside sparse, neighbour and exact processes, and boosted trees.

Ten data sets, two random splits (10 % test, 10 % validation, the rest to learn from), columns and
targets standardised by all but the test part, one thread for each case. What is said to be chosen
has the best log loss (trees: RMSE) on the validation part, after learning from the rows that are
neither test nor validation; all then learn from all but the test part. CPU seconds are those of the
last fit: ours contain the search for the kernel.

* ``pmd``: `SparseGPRegressorPMD` by default; ``pmd chosen``: its approximation chosen, on the first
  split.
* ``svgp``: GPyTorch's SVGP in float64 with 1024 inducing points, noise above 1e-6, rates that fall
  over the budget, the CPU of ``pmd``; Matern-3/2 or Matern-5/2 and Adam with 0.01 or 0.05 or
  natural gradients with 0.05 for the rest are chosen, each with a quarter of our CPU.
* ``sgpr``: the collapsed bound by L-BFGS with the same budget, 2000 inducing inputs (1000 where
  rows are above 16,000), the kernel by the bound.
* ``gpboost``: GPBoost's neighbours, Matern-3/2, 20 neighbours and 100 for predictions, as ours; up
  to 20,000 rows and ten columns, for it takes long.
* ``exact``: the exact process, on the first split, up to 11,000 rows: the kernel of the larger
  evidence of 2000 rows, and a few steps of L-BFGS on all.
* ``trees``, ``trees chosen``: `HistGradientBoostingRegressor`, squared error for RMSE and ten
  quantiles for CRPS; steps, leaves and rate chosen.

Runs of SVGP, SGPR and the exact process are kept in the cache, with protocol, versions and budget,
and made again where one of these is another (the budget: less than half). The budget of a kept run
is our CPU in the run that made it: one machine's seconds differ by nearly two.

``--quick``: generated data, no exact process. ``--jobs N``: cases side by side.
"""

import numpy as np
from joblib import Parallel, delayed

from ..harness import datasets
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from . import regression_peers as peers
from .regression_scores import judged, mean_of, of_first_split, score

NAMES = (  # the longest first
    "uci_protein", "uci_pol", "uci_bike", "uci_elevators", "uci_kin8nm",
    "diamonds", "california", "uci_naval", "uci_power", "uci_parkinsons",
)  # fmt: skip
SEEDS = 2
APPROXIMATIONS = ("fitc", "vecchia", "full_scale")
KERNELS = {"rbf": np.inf, "matern32": 1.5, "matern52": 2.5}
SPARSE = ("svgp", "sgpr", "gpboost")
MIN_SETS, MAX_BEHIND, EXACT_NATS, EXACT_RMSE, EXACT_CPU = 8, 0.02, 0.01, 1.01, 1.0 / 3.0


def run(config):
    """Fit, choose and compare, case by case; the first splits come first."""
    cases = [(name, seed) for seed in range(SEEDS) for name in NAMES]
    cases = [("waves", 0)] if config.quick else cases
    found = Parallel(n_jobs=config.jobs)(delayed(case)(config, *one) for one in cases)
    return [row for rows in found for row in rows]


def case(config, name, seed):
    """One split of one data set."""
    data = waves() if config.quick else datasets.regression(name, config.data)
    parts = split(*data, seed)
    learn, valid, test = parts
    known = joined(learn, valid)
    rows = {"pmd": judged(ours(seed), known, test)}
    if not seed:
        tried = {one: judged(ours(seed, one), learn, valid)["nlpd"] for one in APPROXIMATIONS}
        best = min(tried, key=tried.get)
        rows["pmd chosen"] = {"setting": best, **judged(ours(seed, best), known, test)}
    rows |= peers.trees(parts, known)
    rows |= peers.gpboost(known, test)
    rows |= peers.kept(config, name, seed, parts, known, rows["pmd"]["cpu"])
    short = [f"{kind} {row['rmse']:.4f} / {score(row, 'nlpd'):.4f} / {row['cpu']:.0f} s"
             for kind, row in rows.items()]  # fmt: skip
    print(f"{name}, split {seed}: {', '.join(short)}", flush=True)
    return [{"kind": kind, "data": name, "seed": seed, **row} for kind, row in rows.items()]


def ours(seed, approximation="auto"):
    """The estimator by default, or with an approximation."""
    from skpmd import SparseGPRegressorPMD

    return SparseGPRegressorPMD(approximation=approximation, random_state=seed)


def waves(n=600, seed=0):
    """Return two columns and a sum of waves with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + np.cos(3.0 * X[:, 1]) + 0.2 * rng.standard_normal(n)


def split(X, y, seed):
    """Return (rows to learn from, validation, test), each (X, y), standardised by all but test."""
    order = np.random.default_rng(seed).permutation(len(y))
    n = len(y) // 10
    test, valid, learn = order[:n], order[n : 2 * n], order[2 * n :]
    known = order[n:]
    X = X[:, X[known].std(axis=0) > 0.0]
    X = (X - X[known].mean(axis=0)) / X[known].std(axis=0)
    y = (y - y[known].mean()) / y[known].std()
    return tuple((X[rows], y[rows]) for rows in (learn, valid, test))


def estimator(kernel, p, likelihood, n_inducing, seed):
    """Inducing inputs and a kernel by name, for other studies."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

    from skpmd import SparseGPRegressorPMD

    start, bounds, nu = np.full(p, np.sqrt(p)), (1e-2, 1e3), KERNELS[kernel]
    shape = RBF(start, bounds) if np.isinf(nu) else Matern(start, bounds, nu=nu)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * shape + WhiteKernel(0.1, (1e-6, 10.0))
    return SparseGPRegressorPMD(
        kernel, n_inducing=n_inducing, likelihood=likelihood, n_particles=1, random_state=seed
    )


def joined(one, other):
    """Two parts, each (X, y), as one."""
    return tuple(np.concatenate(pair) for pair in zip(one, other, strict=True))


def gates(rows):
    """Beside each sparse process, the exact one, and trees; coverage."""
    found = []
    for kind in SPARSE:
        for key, text in (("nlpd", "log loss"), ("rmse", "RMSE")):
            pairs = _pairs(rows, kind, key)
            won = sum(own < other for own, other in pairs)
            least = MIN_SETS if len(pairs) == len(NAMES) else len(pairs) * MIN_SETS / len(NAMES)
            found.append(Gate(f"data sets ahead of {kind} by {text}, of {len(pairs)}", won, least,
                              ">="))  # fmt: skip
        behind = max((own - other for own, other in _pairs(rows, kind, "nlpd")), default=0.0)
        found.append(Gate(f"most behind {kind}, nats", behind, MAX_BEHIND))
    first = of_first_split(rows)
    if any(row["kind"] == "exact" for row in first):
        gaps, ratios, cpu = (_pairs(first, "exact", key) for key in ("nlpd", "rmse", "cpu"))
        found += [
            Gate("most behind the exact process, nats", max(a - b for a, b in gaps), EXACT_NATS),
            Gate("RMSE over the exact process's", max(a / b for a, b in ratios), EXACT_RMSE),
            Gate("CPU over the exact process's", max(a / b for a, b in cpu), EXACT_CPU),
        ]
    coverage = list(mean_of(rows, "pmd", "coverage").values())
    found += [
        Gate("coverage of 90 % intervals, mean", float(np.mean(coverage)), 0.88, ">="),
        Gate("coverage of 90 % intervals, mean", float(np.mean(coverage)), 0.92),
        Gate("coverage, the least of a data set", min(coverage), 0.86, ">="),
        Gate("coverage, the largest of a data set", max(coverage), 0.94),
    ]
    return found


def _pairs(rows, kind, key):
    """Means over splits of ours and another's, set by set; ours is of the same splits."""
    other = mean_of(rows, kind, key)
    splits = {(row["data"], row["seed"]) for row in rows if row["kind"] == kind}
    own = mean_of([row for row in rows if (row["data"], row["seed"]) in splits], "pmd", key)
    return [(own[name], other[name]) for name in other]


def plot(rows):
    """Differences of log loss and of RMSE, data set by data set."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(11, 5.4), layout="constrained", sharey=True)
    kinds = (*SPARSE, "exact", "trees chosen")
    for panel, key, text in zip(axes, ("nlpd", "rmse"), ("log loss, nats", "RMSE"), strict=True):
        own = mean_of(rows, "pmd", key)
        names = list(own)
        for kind, marker in zip(kinds, "osD^v", strict=True):
            other = mean_of([row for row in rows if row.get(key) is not None], kind, key)
            gaps = [other.get(name, np.nan) - own[name] for name in names]
            panel.plot(gaps, range(len(names)), marker, label=kind, alpha=0.8)
        panel.axvline(0.0, color="grey", linewidth=0.8)
        panel.set_yticks(range(len(names)), [name.removeprefix("uci_") for name in names])
        panel.grid(alpha=0.3)
        panel.set_xlabel(f"{text}: others less ours (right of 0: ours is ahead)")
    axes[0].set_xscale("symlog", linthresh=0.1)
    axes[0].set_xticks([-0.1, -0.05, 0.0, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0])
    axes[0].xaxis.set_major_formatter("{x:g}")
    axes[0].margins(x=0.08)
    legend_above(figure, axes[:1], ncols=5)
    return figure
