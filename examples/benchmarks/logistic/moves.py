"""Posteriors that importance sampling does not reach, by HMC: error, R-hat, CPU against NUTS.

Data sets: adult (93 coordinates, every column standardised, so that rare dummies become large
values), optdigits (10 classes, 650 coordinates) and splice (3 classes, 864 coordinates), under
N(0, 1) on every coefficient and intercept, in float64. Three kinds of rows:

* ``auto``: `BayesianLogisticRegressionPMD` with its defaults. CPU seconds include the importance
  sampling that was tried and given up, and not the compilation.
* ``never``: the same with ``moves="never"``, which has to warn.
* ``cost``: CPU at equal error. Let e2 be the squared error of a mean in posterior sds, averaged
  over coordinates and seeds, less the reference's own variance (never below it). That of NUTS is
  the average of 1 / ESS and falls like 1 / CPU, so it reaches that of the particles after::

      nuts_cpu_at_equal_error = cpu * mean(1 / ESS) / e2,

  with CPU seconds and ESS of the reference: eight chains in one compiled call, whitened by the
  Laplace approximation. (Four chains in turn took 1.4 times as long for the same on optdigits.) The
  warm-up of NUTS is left out of it, so ``ratio``, over the CPU seconds of an ``auto`` fit, is a
  lower bound.

``--quick``: generated data with rare dummies, a reference of ESS 3,000.
"""

import numpy as np

from ..harness import datasets
from ..harness.comparison import estimator, measure, squared, warm
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..peers.references import cached_reference

NAMES = ("adult", "keel_optdigits", "keel_splice")
SEEDS = 3
MIN_ESS = 800
MEAN_BOUND, MAX_R_HAT, MAX_REFERENCE_R_HAT = 0.15, 1.05, 1.01


def run(config):
    """Fit with and without moves, and compare with the references."""
    names = ("rare dummies",) if config.quick else NAMES
    rows, folder = [], config.cache
    for name in names:
        data = rare_dummies() if config.quick else datasets.load(name, config.data)
        truth = cached_reference(data, folder, min_ess=MIN_ESS)
        warm(data, 2, moves="always", n_particles=200)
        warm(data, 2)
        fits = []
        for moves in ("auto", "never"):
            for seed in range(SEEDS):
                numbers, error = measure(estimator(seed, moves=moves), data, truth)
                case = {"kind": moves, "data": data.name, "d": len(truth.mean), "seed": seed}
                fits.append(({**case, **numbers}, error))
            print(f"{name}, moves {moves}, done", flush=True)
        rows += [row for row, _ in fits]
        rows.append(_cost(data, truth, fits[:SEEDS]))
    return rows


def rare_dummies(n_rows=600, n_columns=30, share=0.01, seed=0):
    """Return 0/1 columns of which few rows are 1, standardised, and labels that follow them."""
    rng = np.random.default_rng(seed)
    dummies = rng.random((n_rows, n_columns)) < share
    logits = dummies @ rng.normal(0.0, 3.0, n_columns) - 0.5
    y = (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-logits))).astype(np.int64)
    return datasets.Dataset("rare_dummies", datasets.standardised(dummies)[0], y)


def _cost(data, truth, fits):
    """CPU of NUTS at the error of the particles, over the CPU of the particles."""
    e2 = squared([error[0] for _, error in fits], truth.mean_variance)
    nuts_cpu = truth.sampling_cpu * np.mean(truth.mean_variance) / e2
    cpu = float(np.mean([row["cpu"] for row, _ in fits]))
    return {
        "kind": "cost",
        "data": data.name,
        "rms": e2**0.5,
        "cpu": cpu,
        "nuts_cpu_at_equal_error": float(nuts_cpu),
        "ratio": float(nuts_cpu / cpu),
        "reference_draws": int(truth.n_draws),
        "reference_min_ess": float(truth.ess.min()),
        "reference_r_hat": float(truth.r_hat.max()),
        "reference_cpu": float(truth.sampling_cpu),
    }


def gates(rows):
    """Errors and R-hat with moves, cost against NUTS, warnings without moves."""
    found = []
    for name in dict.fromkeys(row["data"] for row in rows):
        auto, never, (cost,) = (
            [row for row in rows if (row["data"], row["kind"]) == (name, kind)]
            for kind in ("auto", "never", "cost")
        )
        # A fit whose weights were good enough has no R-hat, and the gate is not met.
        r_hat = max(np.nan if row["r_hat"] is None else row["r_hat"] for row in auto)
        error = max(row["max_mean_error"] for row in auto)
        silent = sum("ConvergenceWarning" not in (row["warned"] or "") for row in never)
        found += [
            Gate(f"{name}, max mean error, sd", error, MEAN_BOUND),
            Gate(f"{name}, largest R-hat", r_hat, MAX_R_HAT),
            Gate(f"{name}, R-hat of the reference", cost["reference_r_hat"], MAX_REFERENCE_R_HAT),
            Gate(f"{name}, NUTS CPU / PMD CPU at equal error", cost["ratio"], 1.0, ">="),
            Gate(f"{name}, fits without moves or a warning", silent, 0),
        ]
    return found


def plot(rows):
    """Errors with and without moves on the left, CPU ratios on the right."""
    plt = pyplot()
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.0), layout="constrained")
    for kind, marker in (("auto", "o"), ("never", "v")):
        own = [row for row in rows if row["kind"] == kind]
        places = [names.index(row["data"]) for row in own]
        left.plot(places, [row["max_mean_error"] for row in own], marker, label=f'moves="{kind}"')
    left.axhline(MEAN_BOUND, color="grey", lw=0.8, label=f"target of errors: {MEAN_BOUND:g}")
    left.set(yscale="log", ylabel="largest error of a posterior mean, sds")
    for row in rows:
        if row["kind"] == "cost":
            place = names.index(row["data"]), row["ratio"]
            right.plot(*place, "s", color="C0")
            right.annotate(
                f"{row['ratio']:.3g}", place, (0, 7), textcoords="offset points", ha="center"
            )
    right.axhline(1.0, color="grey", lw=0.8, ls="--", label="equal CPU, the target: 1")
    right.set(yscale="log", ylabel="CPU of NUTS over that of skpmd at equal error")
    right.margins(y=0.12)
    for axes in (left, right):
        plain_ticks(axes.yaxis)
        axes.set_xticks(range(len(names)), [name.removeprefix("keel_") for name in names])
        axes.set_xlim(-0.5, len(names) - 0.5)
    legend_above(figure, (left, right), ncols=4)
    return figure
