"""Particles of a sparse GP: is their stacked average better than one of them?

Data sets, splits and scaling as in the study ``regression``; Matern-5/2 kernel, four sets of
hyperparameters with 1000 inducing inputs each, the rest by default. All learn from the rows that
are neither test nor validation.

* ``stacking``: the average with its stacking weights.
* ``chosen``: the particle of the best log loss on the validation part.
* ``single``: the default's one particle with 2000 inducing inputs, which costs as much (a pass is
  quadratic in their number).

Figures are of the test part; the validation part serves the choice of ``chosen`` alone.

``--quick``: generated data.
"""

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm

from ..harness import datasets
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from .regression import NAMES, SEEDS, estimator, split, waves
from .regression_scores import scored

KERNEL = "matern52"
N_PARTICLES, N_INDUCING = 4, 1000
MIN_SETS, MAX_LOSS = 6, 0.01


def run(config):
    """Fit and compare, one data set and split after the other."""
    cases = [("waves", 0)] if config.quick else [(n, s) for s in range(SEEDS) for n in NAMES]
    found = Parallel(n_jobs=config.jobs)(delayed(_case)(config, *case) for case in cases)
    return [row for rows in found for row in rows]


def _case(config, name, seed):
    parts = split(*(waves() if config.quick else datasets.regression(name, config.data)), seed)
    learn, valid, test = parts
    n_inducing = 100 if config.quick else N_INDUCING
    average, cpu = _fitted(learn, N_PARTICLES, n_inducing, seed)
    by_particle = [_losses(average, *part) for part in (valid, test)]
    chosen = int(by_particle[0].argmin())
    single, single_cpu = _fitted(learn, 1, 2 * n_inducing, seed)
    rows = {
        "stacking": {"cpu": cpu, **scored(average, *test)},
        "chosen": {"cpu": cpu, "nlpd": float(by_particle[1][chosen])},
        "single": {"cpu": single_cpu, **scored(single, *test)},
    }
    gap = rows["stacking"]["nlpd"] - rows["chosen"]["nlpd"]
    print(f"{name}, split {seed}: stacking less chosen {gap:.4f} nats", flush=True)
    return [{"kind": kind, "data": name, "seed": seed, **row} for kind, row in rows.items()]


def _fitted(learn, n_particles, n_inducing, seed):
    X, y = learn
    model = estimator(KERNEL, X.shape[1], "gaussian", n_inducing, seed)
    with cpu_clock() as clock:
        model.set_params(n_particles=n_particles).fit(X, y)
    return model, clock.cpu


def _losses(model, X, y):
    """Log loss of each particle by itself."""
    mixture = model.predict_proba(X)
    return -norm.logpdf(y, mixture.means, mixture.stds).mean(axis=1)


def _gaps(rows, other):
    """Log loss of stacking less that of another, mean over splits, by data set."""
    values = {(row["kind"], row["data"], row["seed"]): row["nlpd"] for row in rows}
    found = {}
    for kind, name, seed in values:
        if kind == "stacking":
            gap = values[kind, name, seed] - values[other, name, seed]
            found.setdefault(name, []).append(gap)
    return {name: float(np.mean(gap)) for name, gap in found.items()}


def gates(rows):
    """Data sets won, the largest loss, coverage of the default."""
    gaps = _gaps(rows, "chosen")
    coverage = [row["coverage"] for row in rows if row["kind"] == "single"]
    return [
        Gate(
            "data sets on which stacking is ahead of the chosen particle",
            sum(gap < 0.0 for gap in gaps.values()),
            MIN_SETS if len(gaps) > 1 else 0,
            ">=",
        ),
        Gate("largest loss beside the chosen particle, nats", max(gaps.values()), MAX_LOSS),
        Gate("coverage of the default's 90 % intervals", float(np.mean(coverage)), 0.88, ">="),
        Gate("coverage of the default's 90 % intervals", float(np.mean(coverage)), 0.92),
    ]


def plot(rows):
    """Draw the two differences, data set by data set."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.0), layout="constrained", sharey=True)
    for panel, other in zip(axes, ("chosen", "single"), strict=True):
        gaps = _gaps(rows, other)
        panel.plot(list(gaps.values()), range(len(gaps)), "o")
        panel.axvline(0.0, color="grey", linewidth=0.8)
        panel.set_yticks(range(len(gaps)), [name.removeprefix("uci_") for name in gaps])
        panel.set(xlabel=f"log loss: stacking minus {other}, nats\n(below 0: stacking ahead)")
        panel.margins(x=0.1, y=0.1)
        panel.grid(alpha=0.3)
    axes[0].locator_params(axis="x", nbins=5)
    axes[1].set_xscale("symlog", linthresh=0.01)
    axes[1].xaxis.set_major_formatter("{x:g}")
    return figure
