"""Groups: posteriors against long runs, odd designs, NUTS's cost, and many groups beside GPBoost.

Priors are those of `BayesianGLMRegressorPMD` with ``prior_scale=2.5``. References of contraction
(60 districts, single trials), epil (59 patients, counts), radon (85 counties, numbers) and
sleepstudy (18 people, numbers, a slope each) are shipped with these sets, with moments of each
group's effects; those of odd designs are sums over grids of the few coordinates, in which trapezium
rules integrate effects: of one group NUTS's sd of the group sd was 2.4 % off. Errors of means are
in posterior sds, those of sds relative; coefficients, intercept, sigma, group sds and a correlation
count. Kinds of rows:

* ``posterior``: a fit with defaults but for ``prior_scale``, a row a seed. Each fit was made once
  before, so that all is compiled. ``max_effect`` is the largest error of a group's effect, in its
  posterior sds.
* ``cost``: CPU seconds of NUTS (NumPyro, float64, one thread; effects in units of their sds) for as
  many effective draws as the particles have (by the smallest effective sample size of a mean), its
  warm-up in, compilation not, over those of the fit: four chains in turn, 1,000 steps of warm-up,
  which adapt a diagonal mass matrix, and 1,000 draws a chain.
* ``point``: estimates of GPBoost, and of statsmodels for numbers: CPU, and the largest distance of
  an estimated group sd from the posterior mean of the reference, in posterior sds.
* ``design``: a fit of 5,000 groups of two to five single trials, of one, two and three groups, of
  groups without effects, of unbalanced numbers, of counts with exposure and weights, of a group
  with 300 of 314 rows, and of 60 groups of one row. A row whose errors are past the bounds of
  posteriors is to have a warning.
* ``many``: single trials, ten columns: 100,000 and 1,000,000 rows in 10,000 groups, in a process of
  its own with one thread. ``memory`` is the largest memory above that before the fit over that of
  X. GPBoost's point estimates of the same rows beside.
* ``crossed``: a factor beside another. Ratings of insteval, 2,972 students by 1,128 teachers, whose
  ``sd_gap`` is the largest distance of a posterior mean of a group sd from GPBoost's estimate, in
  posterior sds; and 7,584 right or wrong answers that are drawn, of 316 people to 24 items, beside
  a run of NUTS of 4,000 draws a chain. ``ratio`` is NUTS's CPU for an effective draw over ours.

``--quick``: a design of 20 counts, 2,000 rows in 200 groups.
"""

import re
import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd

from ..harness import group_sets
from ..harness.comparison import at_means
from ..harness.memory import Peak, resident
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.worker import alone

SEEDS = 3
MEAN_BOUND, SD_BOUND, EFFECT_BOUND, RATIO = 0.05, 0.05, 0.05, 10.0
SECONDS, MEMORY = {100_000: 6.0, 1_000_000: 30.0}, 10.0
NUTS, STEPS = {"n_chains": 4, "n_warmup": 1000, "adapt_mass": True}, 1000
COLUMNS = 10  # of many rows


def run(config):
    """All kinds, one after the other."""
    rows = []
    for name in [] if config.quick else group_sets.SHIPPED:
        rows += shipped_rows(*group_sets.shipped(name, config.data))
    for data in group_sets.designs():
        if data.name == "groups-1" or not config.quick:
            rows += design_rows(data, 1 if config.quick else SEEDS)
    rows += crossed_rows(config)
    for n in [2000] if config.quick else SECONDS:
        n_groups = min(10_000, n // 10)
        for method in many_methods():
            rows.append(alone(many, {"method": method, "n": n, "n_groups": n_groups}))
            print(rows[-1], flush=True)
    return rows


def estimator(data, seed):
    """The estimator under the references' prior."""
    from skpmd import BayesianGLMRegressorPMD

    p = data.columns.shape[1]
    columns, factors = data.names[:p], data.names[p:]
    slopes = None if data.slope is None else {factors[0]: [columns[data.slope]]}
    return BayesianGLMRegressorPMD(
        data.family, groups=factors, slopes=slopes, prior_scale=2.5, random_state=seed,
        exposure=None if data.exposure is None else "exposure",
    )  # fmt: skip


def frame(data):
    """X as a user has it."""
    p = data.columns.shape[1]
    X = pd.DataFrame(data.columns, columns=data.names[:p])
    for name, codes in zip(data.names[p:], data.codes.reshape(len(X), -1).T, strict=True):
        X[name] = codes
    if data.exposure is not None:
        X["exposure"] = data.exposure
    return X


def fit_row(data, seed, truth, effects=None):
    """A fit held against moments by their names, and against those of effects (G, k)."""
    model, cpu, warned = _fitted(data, seed)
    posterior = model.posterior_
    places = [list(posterior.names).index(name) for name in truth]
    expected = np.array(list(truth.values()))
    theta = at_means(posterior, np.average(data.columns, axis=0, weights=data.weight))[:, places]
    mean = posterior.weights @ theta
    gaps = (mean - expected[:, 0]) / expected[:, 1]
    ratios = np.sqrt(posterior.weights @ (theta - mean) ** 2) / expected[:, 1] - 1.0
    row = {
        "seed": seed,
        "d": len(truth),
        "max_mean_error": float(np.abs(gaps).max()),
        "max_sd_error": float(np.abs(ratios).max()),
        "max_effect": None,
        "ess": float(model.diagnostics_["ess"]),
        "cpu": cpu,
        "warned": warned,
    }
    if effects is not None:
        mean, sd = effects
        error = np.abs(np.reshape(model.group_effects_.mean, mean.shape) - mean) / sd
        row["max_effect"] = float(error.max())
    return row


def _fitted(data, seed):
    """A fit, its CPU seconds when all is compiled, and the classes of its warnings or None."""
    X, model = frame(data), estimator(data, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, data.y, sample_weight=data.weight)
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        model.fit(X, data.y, sample_weight=data.weight)
    names = sorted({one.category.__name__ for one in caught})
    return model, clock.cpu, ",".join(names) or None


def shipped_rows(data, reference):
    """Fits of one set, NUTS's cost, and point estimates."""
    names = [re.sub(r"^b\[(.*)\]$", r"\1", str(name)) for name in reference["names"]]
    names[names.index("a")] = "intercept"  # As posteriors have it.
    truth = dict(zip(names, zip(reference["mean"], reference["sd"], strict=True), strict=True))
    effects = tuple(reference[f"{kind}_{data.names[-1]}"] for kind in ("u_mean", "u_sd"))
    fits = [fit_row(data, seed, truth, effects) for seed in range(SEEDS)]
    case = {"data": data.name, "family": data.family}
    rows = [{"kind": "posterior", **case, **row} for row in fits]
    print(f"{data.name}, fits done", flush=True)
    cpu, ess = (float(np.mean([row[key] for row in fits])) for key in ("cpu", "ess"))
    rows.append({"kind": "cost", **case, **_cost(data, cpu, ess)})
    print(rows[-1], flush=True)
    at = f"sd[{data.names[-1]}]"
    for method, estimate in POINT.items():
        if not find_spec(method) or (method == "statsmodels" and data.family != "normal"):
            continue
        estimate(data)
        with cpu_clock() as clock:
            sd = estimate(data)
        gap = float((sd - truth[at][0]) / truth[at][1])
        rows.append({"kind": "point", **case, "method": method, "cpu": clock.cpu, "sd_gap": gap})
    return rows


def crossed_rows(config):
    """Two factors: ratings, and right or wrong answers beside a run of NUTS."""
    rows = []
    if not config.quick:
        data = group_sets.insteval(config.data)
        estimates = np.sqrt(list(_gpboost_sds(data).values())) if find_spec("gpboost") else np.nan
        names = [f"sd[{name}]" for name in data.names[-2:]]
        row = {"kind": "crossed", "data": data.name, "family": data.family}
        model, cpu, warned = _fitted(data, 0)
        posterior = model.posterior_
        places = [list(posterior.names).index(name) for name in names]
        gap = (posterior.mean()[places] - estimates) / posterior.std()[places]
        ess = float(model.diagnostics_["ess"])
        more = {"sd_gap": float(np.abs(gap).max()), "ess": ess, "cpu": cpu, "warned": warned}
        rows.append({**row, **more})
        print(rows[-1], flush=True)
    data = group_sets.crossed(*((40, 6) if config.quick else ()))
    run, ess_of_run = _nuts(data, 200 if config.quick else 4 * STEPS)
    from ..peers.group_targets import names as names_of

    k = len(names_of(data))
    moments = run.flat.mean(axis=0)[:k], run.flat.std(axis=0)[:k]
    truth = dict(zip(names_of(data), zip(*moments, strict=True), strict=True))
    for seed in range(1 if config.quick else SEEDS):
        row = fit_row(data, seed, truth)
        nuts = (run.sampling_cpu + run.warmup_cpu) / ess_of_run
        more = {"nuts_cpu": run.sampling_cpu, "nuts_min_ess": ess_of_run}
        more["ratio"] = nuts * row["ess"] / row["cpu"]
        rows.append({"kind": "crossed", "data": data.name, "family": data.family, **row, **more})
        print(rows[-1], flush=True)
    return rows


def _nuts(data, n_steps):
    """A run of NUTS, and the smallest effective sample size of a mean of no effect."""
    from ..peers.group_targets import joint_target, names
    from ..peers.nuts import Nuts

    target = joint_target(data)
    with cpu_clock():
        run = Nuts(target, **NUTS).run(1, n_steps)
    return run, float(run.ess()[: len(names(data))].min())


def _cost(data, cpu, ess):
    """CPU of NUTS for as many effective draws over ours."""
    run, nuts_ess = _nuts(data, STEPS)
    ratio = run.sampling_cpu * ess / nuts_ess / cpu
    return {
        "pmd_cpu": cpu,
        "pmd_ess": ess,
        "nuts_cpu": run.sampling_cpu,
        "nuts_warmup": run.warmup_cpu,
        "nuts_min_ess": nuts_ess,
        "nuts_divergent": run.n_divergent,
        "ratio": ratio + run.warmup_cpu / cpu,
    }


def _gpboost(data):
    """The group sd of GPBoost's estimate."""
    return float(np.sqrt(next(iter(_gpboost_sds(data).values()))))


def _gpboost_sds(data):
    """Variances of groups' effects that GPBoost estimates, by the factors' places."""
    import gpboost

    likelihood = {"binomial": "bernoulli_logit", "poisson": "poisson", "normal": "gaussian"}
    kinds = {}
    if data.slope is not None:
        kinds = {
            "group_rand_coef_data": data.columns[:, [data.slope]],
            "ind_effect_group_rand_coef": [1],
        }
    model = gpboost.GPModel(
        group_data=data.codes, likelihood=likelihood[data.family], num_parallel_threads=1, **kinds
    )
    X = np.column_stack([np.ones(len(data.y)), data.columns - data.columns.mean(axis=0)])
    model.fit(y=data.y, X=X)
    n_factors = data.codes.reshape(len(X), -1).shape[1]
    parameters = model.get_cov_pars()
    return {j: float(parameters[f"Group_{j + 1}"].iloc[0]) for j in range(n_factors)}


def _statsmodels(data):
    """The group sd of the estimate by restricted maximum likelihood."""
    import statsmodels.api as sm

    X = data.columns - data.columns.mean(axis=0)
    kinds = None if data.slope is None else sm.add_constant(X[:, [data.slope]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sm.MixedLM(data.y, sm.add_constant(X), data.codes, exog_re=kinds)
        return float(np.sqrt(model.fit().cov_re[0, 0]))


POINT = {"gpboost": _gpboost, "statsmodels": _statsmodels}


def design_rows(data, n_seeds):
    """Fits of an odd design."""
    from ..peers.group_targets import exact_moments, names

    truth = dict(zip(names(data), zip(*exact_moments(data), strict=True), strict=True))
    rows = [fit_row(data, seed, truth) for seed in range(n_seeds)]
    print(f"{data.name} done", flush=True)
    case = {"kind": "design", "data": data.name, "family": data.family}
    return [{**case, **row} for row in rows]


def many_methods():
    """Ours, and GPBoost where it is installed."""
    return ["skpmd", *(["gpboost"] if find_spec("gpboost") else [])]


def many(job):
    """One fit of many single trials: CPU and memory."""
    n, n_groups = job["n"], job["n_groups"]
    data = _many_rows(n, n_groups)
    few = _many_rows(500, 50)
    warnings.simplefilter("ignore")
    if job["method"] == "gpboost":
        fit, made = _gpboost, data
    else:
        estimator(few, 0).fit(frame(few), few.y)  # compiles
        X = frame(data)

        def fit(rows):
            return estimator(rows, 0).fit(X, rows.y)

        made = data
    before, peak = resident("RssAnon"), Peak()
    peak.start()
    with cpu_clock() as clock:
        found = fit(made)
    memory = (peak.stop() - before) * 2**20 / (8.0 * n * (COLUMNS + 1))
    sd = found
    if job["method"] == "skpmd":
        posterior = found.posterior_
        sd = float(posterior.mean()[list(posterior.names).index("sd[group]")])
    return {"kind": "many", **job, "cpu": clock.cpu, "memory": memory, "sd": float(sd)}


def _many_rows(n, n_groups):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, COLUMNS))
    codes = rng.integers(0, n_groups, n)
    eta = X @ np.linspace(-0.5, 0.5, COLUMNS) + 0.9 * rng.standard_normal(n_groups)[codes]
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(np.float64)
    names = [f"x{j}" for j in range(COLUMNS)]
    return group_sets.GroupedRows("many", "binomial", X, y, codes, [*names, "group"])


def gates(rows):
    """Errors, warnings, costs, seconds and memory."""
    by = {kind: [row for row in rows if row["kind"] == kind]
          for kind in ("posterior", "cost", "design", "many", "crossed")}  # fmt: skip
    found = []
    for name in dict.fromkeys(row["data"] for row in by["posterior"]):
        own = [row for row in by["posterior"] if row["data"] == name]
        cost = next(row for row in by["cost"] if row["data"] == name)
        found += [
            Gate(f"{name}, max mean error, sd", _worst(own, "max_mean_error"), MEAN_BOUND),
            Gate(f"{name}, max sd error", _worst(own, "max_sd_error"), SD_BOUND),
            Gate(f"{name}, max effect error, sd", _worst(own, "max_effect"), EFFECT_BOUND),
            Gate(f"{name}, NUTS CPU / ours", cost["ratio"], RATIO, ">="),
        ]
    warned = sum(row["warned"] is not None for row in by["posterior"])
    found.append(Gate("fits of real sets with a warning", warned, 0))
    wrong = [row for row in by["design"] if _is_wrong(row) and row["warned"] is None]
    found.append(Gate("odd designs that are wrong without a warning", len(wrong), 0))
    for name in dict.fromkeys(row["data"] for row in by["crossed"]):
        own = [row for row in by["crossed"] if row["data"] == name]
        if name == "insteval":
            found.append(Gate(f"{name}, CPU s", own[0]["cpu"], 60.0))
            continue
        found += [
            Gate(f"{name}, max mean error, sd", _worst(own, "max_mean_error"), 0.06),
            Gate(f"{name}, max sd error", _worst(own, "max_sd_error"), 0.06),
            Gate(f"{name}, NUTS CPU / ours", min(row["ratio"] for row in own), 5.0, ">="),
        ]
    for row in by["many"]:
        if row["method"] == "skpmd":
            bound, case = SECONDS.get(row["n"], 6.0), f"{row['n']:,} rows"
            found.append(Gate(f"{case}, CPU s", row["cpu"], bound))
            found.append(Gate(f"{case}, memory over that of X", row["memory"], MEMORY))
    return found


def _is_wrong(row):
    return row["max_mean_error"] > MEAN_BOUND or row["max_sd_error"] > SD_BOUND


def _worst(rows, key):
    return max(row[key] for row in rows)


def plot(rows):
    """Errors of all posteriors, and CPU seconds of ours and of others."""
    plt = pyplot()
    figure, (errors, costs) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    fits = [row for row in rows if row["kind"] in ("posterior", "design")]
    names = list(dict.fromkeys(row["data"] for row in fits))
    at = [names.index(row["data"]) for row in fits]
    for key, marker, label in (
        ("max_mean_error", "o", "error of a mean, sds"),
        ("max_sd_error", "x", "error of an sd"),
        ("max_effect", "+", "error of an effect, sds"),
    ):
        values = [np.nan if row[key] is None else row[key] for row in fits]
        errors.plot(at, values, marker, label=label)
    errors.axhline(MEAN_BOUND, color="grey", linewidth=0.8, linestyle="--", label="target")
    errors.set(yscale="log", ylabel="largest error over coordinates")
    errors.set_xticks(range(len(names)), names, rotation=40, ha="right")
    bars = [(f"{row['data']}, skpmd", row["pmd_cpu"], "C0") for row in _kind(rows, "cost")]
    bars += [(f"{row['data']}, NUTS", row["nuts_cpu"] + row["nuts_warmup"], "C1")
             for row in _kind(rows, "cost")]  # fmt: skip
    for row in _kind(rows, "many"):
        color = "C0" if row["method"] == "skpmd" else "C2"
        bars.append((f"{row['n']:,} rows, {row['method']}", row["cpu"], color))
    bars.sort(key=lambda bar: bar[0], reverse=True)
    labels, cpus, colors = zip(*bars, strict=True)
    costs.barh(labels, cpus, color=colors)
    costs.set(xscale="log", xlabel="CPU seconds")
    plain_ticks(costs.xaxis)
    legend_above(figure, [errors], ncols=2)
    return figure


def _kind(rows, kind):
    return [row for row in rows if row["kind"] == kind]
