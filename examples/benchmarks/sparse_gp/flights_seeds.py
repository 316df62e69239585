"""The flights by defaults with ten seeds on each split: how much a result depends on the seed.

The splits and scaling are those of ``neighbours``. A seed draws the order of the rows, the rows of
each search for the kernel and those that choose the approximation.

``--quick``: generated data and three seeds. ``--jobs N``: fits side by side.
"""

from joblib import Parallel, delayed

from ..harness import datasets
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from .neighbours import FLIGHTS
from .regression import SEEDS, joined, ours, split, waves
from .regression_scores import judged

N_SEEDS, QUICK_SEEDS = 10, 3
SPREAD, CPU = 0.005, 60.0


def run(config):
    """Fit and judge with each seed, split by split."""
    n_splits, n_seeds = (1, QUICK_SEEDS) if config.quick else (SEEDS, N_SEEDS)
    cases = [(one, seed) for one in range(n_splits) for seed in range(n_seeds)]
    return Parallel(n_jobs=config.jobs)(delayed(case)(config, *one) for one in cases)


def case(config, number, seed):
    """One seed on one split."""
    data = waves(1500) if config.quick else datasets.regression(FLIGHTS, config.data)
    learn, valid, test = split(*data, number)
    row = {"kind": "pmd", "split": number, "seed": seed}
    row |= judged(ours(seed), joined(learn, valid), test)
    print(
        f"split {number}, seed {seed}: {row['setting']}, {row['rmse']:.4f} / {row['nlpd']:.4f}, "
        f"{row['cpu']:.0f} s",
        flush=True,
    )
    return row


def gates(rows):
    """The spread over seeds of each split, and CPU with predictions."""
    spread = {key: max(_spreads(rows, key)) for key in ("rmse", "nlpd")}
    return [
        Gate("RMSE, largest less smallest of a split's seeds", spread["rmse"], SPREAD),
        Gate("log loss, largest less smallest of a split's seeds", spread["nlpd"], SPREAD),
        Gate("CPU seconds with predictions", max(row["cpu"] + row["predict_cpu"] for row in rows),
             CPU),
    ]  # fmt: skip


def _spreads(rows, key):
    found = {}
    for row in rows:
        found.setdefault(row["split"], []).append(row[key])
    return [max(values) - min(values) for values in found.values()]


def plot(rows):
    """RMSE and log loss of each seed, split by split."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    marks = {"vecchia": "o", "full_scale": "s", "fitc": "^"}
    known = [kind for kind in marks if any(row["setting"] == kind for row in rows)]
    for panel, key, text in zip(
        axes, ("rmse", "nlpd"), ("RMSE, sds", "log loss, nats"), strict=True
    ):
        for kind in known:
            some = [row for row in rows if row["setting"] == kind]
            places = [row["split"] + 0.05 * (row["seed"] - (N_SEEDS - 1) / 2) for row in some]
            panel.plot(places, [row[key] for row in some], marks[kind], label=kind, alpha=0.8)
        panel.set_xticks(sorted({row["split"] for row in rows}))
        panel.set(xlabel="split, a dot for each seed", ylabel=text)
    if len(known) > 1:
        legend_above(figure, axes, ncols=len(known))
    return figure
