"""Logistic regression posteriors against long NUTS runs: error, diagnostics, CPU at equal error.

The truth is the cached NUTS reference of each data set (`peers.references`), prior N(0, 1) on
the coefficients of the standardised features and on the intercept. Errors of posterior means are
in posterior sds, those of sds are relative. Three kinds of rows:

* ``pmd``: `BayesianLogisticRegressionPMD` with its defaults, one row a seed. CPU seconds are those
  of a warm fit: a fit on 200 rows came before it and compiled what there is to compile.
* ``prior``: the same with ``proposal="prior"``, values of the likelihood only.
* ``cost``: CPU at equal error. Let e2 be the squared error of a mean in posterior sds, averaged
  over coordinates and over independent runs, less the reference's own Monte Carlo variance (and
  never below that variance, for what lies below cannot be resolved). NUTS runs for a moderate
  time, in the faster of two layouts of chains (``NUTS_LAYOUTS``); its e2 falls like 1 / CPU, so
  it reaches the e2 of the particles after ``nuts_e2 * nuts_cpu / pmd_e2`` CPU seconds, and::

      ratio = (nuts_e2 * nuts_cpu) / (pmd_e2 * pmd_cpu).

  Neither compilation nor the chains' warm-up is in ``nuts_cpu``, so the gated ratio is a lower
  bound; ``ratio_warmup`` adds the warm-up of one run once. ``ratio_sd`` is the ratio for the errors
  of sds, ``ratio_ess`` the plain one: NUTS's CPU per smallest ESS of any coordinate's mean
  against the particles' CPU per ESS of their weights.

``--quick``: scikit-learn's breast cancer table and, for the prior, generated data of 5
coordinates; references of ESS 10,000 and fewer runs.
"""

import numpy as np

from ..harness import datasets
from ..harness.comparison import errors, estimator, measure, squared, warm
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..peers.references import cached_reference, log_loss

NAMES = (*datasets.KEEL, "mnist86")
FROM_PRIOR = ("keel_pima", "keel_wdbc", "keel_spambase")
SEEDS = 3  # rows and gates on errors
COST_SEEDS = 8  # fits whose errors and CPU seconds enter the ratios
NUTS_RUNS = 4
NUTS_STEPS = 500
NUTS_LAYOUTS = ("4 in turn", "8 at once")
MEAN_BOUND = {"keel_spambase": 0.1}  # every other data set: 0.06
SD_BOUND = 0.1
PRIOR_BOUND = 0.3


def run(config):
    """Fit everything and compare with the references."""
    if config.quick:
        parts = [datasets.breast_cancer(), datasets.generated(1000, 500, 4)]
        from_prior, min_ess, cost_seeds, nuts_runs = ("generated",), 10_000, 3, 2
        layouts = ("8 at once",)
    else:
        parts = [datasets.load(name, config.data) for name in NAMES]
        from_prior, min_ess, cost_seeds, nuts_runs = FROM_PRIOR, 30_000, COST_SEEDS, NUTS_RUNS
        layouts = NUTS_LAYOUTS
    rows = []
    for data in parts:
        print(f"{data.name}: {data.X.shape[0]} rows, {data.X.shape[1] + 1} coordinates", flush=True)
        truth = cached_reference(data, config.cache, min_ess=min_ess)
        warm(data)
        fits = [_measure(data, truth, seed, "auto") for seed in range(cost_seeds)]
        rows += [row for row, _ in fits[:SEEDS]]
        if data.name in from_prior:
            warm(data, 2, proposal="prior")
            rows += [_measure(data, truth, seed, "prior")[0] for seed in range(SEEDS)]
        if not (config.quick and data.name in from_prior):
            rows.append(_cost(data, truth, fits, nuts_runs, layouts))
    return rows


def _measure(data, truth, seed, proposal):
    """One fit: its row, and its two error vectors for `_cost`."""
    model = estimator(seed, proposal=proposal)
    numbers, error = measure(model, data, truth)
    row = {
        "kind": "pmd" if proposal == "auto" else proposal,
        "data": data.name,
        "d": len(truth.mean),
        "seed": seed,
        **numbers,
        "log_loss_gap": _log_loss_gap(model, data, truth),
    }
    return row, error


def _log_loss_gap(model, data, truth):
    """Test log loss of the averaged probabilities, less that of the reference posterior."""
    if data.X_test is None:
        return None
    return log_loss(model.predict_proba(data.X_test)[:, 1], data.y_test) - truth.test_log_loss


def _cost(data, truth, fits, n_runs, layouts):
    """CPU of NUTS at the error of the particles, over the CPU of the particles."""
    from ..peers.nuts import fastest
    from ..peers.targets import target

    layout, sampler = fastest(target(data), layouts, NUTS_STEPS)
    runs = []
    for seed in range(1, n_runs + 1):
        with cpu_clock():
            runs.append(sampler.run(seed, NUTS_STEPS))
    variances = (1.0 / truth.ess, 0.5 / truth.ess_second_moment)
    nuts_errors = [errors(run.flat.mean(axis=0), run.flat.std(axis=0), truth) for run in runs]
    pmd = [
        squared([error[k] for _, error in fits], variance) for k, variance in enumerate(variances)
    ]
    nuts = [
        squared([error[k] for error in nuts_errors], variance)
        for k, variance in enumerate(variances)
    ]
    pmd_cpu = float(np.mean([row["cpu"] for row, _ in fits]))
    nuts_cpu = float(np.mean([run.sampling_cpu for run in runs]))
    nuts_ess = float(np.mean([run.ess().min() for run in runs]))
    warmup = float(np.mean([run.warmup_cpu for run in runs]))
    pmd_ess = float(np.mean([row["ess"] or np.nan for row, _ in fits]))
    ratio = nuts[0] * nuts_cpu / (pmd[0] * pmd_cpu)
    return {
        "kind": "cost",
        "data": data.name,
        "pmd_rms": pmd[0] ** 0.5,
        "pmd_cpu": pmd_cpu,
        "nuts_chains": layout,
        "nuts_rms": nuts[0] ** 0.5,
        "nuts_cpu": nuts_cpu,
        "nuts_warmup": warmup,
        "nuts_min_ess": nuts_ess,
        "nuts_r_hat": float(max(run.r_hat().max() for run in runs)),
        "ratio": ratio,
        "ratio_warmup": ratio + warmup / pmd_cpu,
        "ratio_sd": nuts[1] * nuts_cpu / (pmd[1] * pmd_cpu),
        "ratio_ess": (nuts_cpu / nuts_ess) / (pmd_cpu / pmd_ess),
        "reference_min_ess": float(min(truth.ess.min(), truth.ess_second_moment.min())),
        "reference_r_hat": float(truth.r_hat.max()),
        "reference_cpu": float(truth.sampling_cpu),
    }


def gates(rows):
    """Compare errors over the seeds, the geometric mean of the ratios, the prior's honesty."""
    found = []
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name and row["kind"] == "pmd"]
        bound = MEAN_BOUND.get(name, 0.06)
        found.append(Gate(f"{name} max mean error, sd", _worst(own, "max_mean_error"), bound))
        found.append(Gate(f"{name} max sd error", _worst(own, "max_sd_error"), SD_BOUND))
        if name == "mnist86":
            gap = max(abs(row["log_loss_gap"]) for row in own)
            found.append(Gate(f"{name} test log loss gap to NUTS", gap, 0.0005))
        from_prior = [row for row in rows if row["data"] == name and row["kind"] == "prior"]
        if from_prior and name != "keel_spambase":
            worst = _worst(from_prior, "max_mean_error")
            found.append(Gate(f"{name} from the prior, max mean error, sd", worst, PRIOR_BOUND))
        elif from_prior:
            bad = [row for row in from_prior if row["max_mean_error"] > PRIOR_BOUND]
            silent = sum("ConvergenceWarning" not in (row["warned"] or "") for row in bad)
            found.append(Gate(f"{name} from the prior, bad fits without warning", silent, 0))
    if {row["data"] for row in rows} == set(NAMES):  # the target is for these, not for stand-ins
        found.append(Gate("NUTS CPU / PMD CPU, geometric mean", _geometric(rows), 12.0, ">="))
    return found


def _worst(rows, key):
    return max(row[key] for row in rows)


def _geometric(rows):
    return float(np.exp(np.mean([np.log(r["ratio"]) for r in rows if r["kind"] == "cost"])))


def plot(rows):
    """Errors by data set on the left, CPU ratios on the right."""
    plt = pyplot()
    names = list(dict.fromkeys(row["data"] for row in rows))
    places = range(len(names))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.0), layout="constrained")
    for kind, marker, label in (("pmd", "o", "defaults"), ("prior", "x", 'proposal="prior"')):
        own = [row for row in rows if row["kind"] == kind]
        at = [names.index(row["data"]) for row in own]
        left.plot(at, [row["max_mean_error"] for row in own], marker, label=label)
    bounds = [MEAN_BOUND.get(name, 0.06) for name in names]
    left.hlines(bounds, [k - 0.4 for k in places], [k + 0.4 for k in places], color="grey", lw=0.8,
                label="target of defaults")  # fmt: skip
    left.set(yscale="log", ylabel="largest error of a posterior mean, sds")
    for row in rows:
        if row["kind"] == "cost":
            place = names.index(row["data"]), row["ratio"]
            right.plot(*place, "s", color="C0")
            right.annotate(
                f"{row['ratio']:.3g}", place, (0, 7), textcoords="offset points", ha="center"
            )
    right.axhline(12.0, color="grey", lw=0.8, ls="--", label="target of the geometric mean: 12")
    right.set(yscale="log", ylabel="CPU of NUTS over that of skpmd at equal error")
    right.margins(y=0.12)
    for axes in (left, right):
        plain_ticks(axes.yaxis)
        axes.set_xticks(places, [name.removeprefix("keel_") for name in names])
        axes.set_xlim(-0.5, len(names) - 0.5)
    legend_above(figure, (left, right), ncols=4)
    return figure
