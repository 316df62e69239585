"""Other methods of the study ``regression``, of which the longest runs are kept."""

from importlib.metadata import version
from itertools import product

import numpy as np

from ..harness.cache import CachedRuns
from ..harness.timing import cpu_clock
from .regression_scores import LEVELS, crps, scores

SETTINGS = [
    {"kernel": kernel, **optimizer}
    for kernel, optimizer in product(
        ("matern32", "matern52"),
        ({"optimizer": "adam", "learning_rate": 0.01, "noise": 0.69},
         {"optimizer": "adam", "learning_rate": 0.05, "noise": 0.69},
         {"optimizer": "natural", "learning_rate": 0.05, "noise": 0.1}),
    )
]  # fmt: skip
COMMON = {"n_inducing": 1024, "dtype": "float64", "decay": True, "batch_size": 2048}
TRIAL = 0.25  # CPU of a setting of SVGP that is tried, in that of ours
# Runs with less than this share of what they would have now are made again. One machine's CPU
# seconds differ by nearly two, by what else it does: budgets are ours of the run that made them.
MIN_SHARE = 0.5
MANY_ROWS, M_FEW, M_MANY = 16_000, 2000, 1000  # of SGPR
MAX_PEER_ROWS, MAX_PEER_COLUMNS = 20_000, 10  # of GPBoost
EXACT_ROWS, EXACT_EVALUATIONS = 11_000, 6
TREES = [
    {"max_iter": steps, "max_leaf_nodes": leaves, "learning_rate": rate}
    for steps, leaves, rate in product((100, 300), (31, 127), (0.1, 0.05))
]
LIBRARIES = ("numpy", "scipy", "torch", "gpytorch")


def kept(config, name, seed, parts, known, cpu):
    """Runs of SVGP, SGPR and the exact process, from the file of the case where it has them."""
    protocol = {
        "settings": SETTINGS, "common": COMMON, "trial": TRIAL,
        "inducing": [MANY_ROWS, M_FEW, M_MANY], "exact": [EXACT_ROWS, EXACT_EVALUATIONS],
        "versions": {one: version(one) for one in LIBRARIES},
    }  # fmt: skip
    runs = CachedRuns(config, f"regression-{name}-{seed}", protocol)
    found = {row["kind"]: row for row in runs.content["rows"]}
    wanted = ["svgp", "sgpr"]
    if not seed and not config.quick and len(known[1]) <= EXACT_ROWS:
        wanted.append("exact")
    for kind in wanted:
        budget = 0.0 if kind == "exact" else cpu
        if kind not in found or found[kind]["budget"] < MIN_SHARE * budget:
            if kind == "svgp" and "svgp" not in runs.content["choices"]:
                setting = _best_setting(parts, TRIAL * cpu)
                runs.content["choices"]["svgp"] = setting
            row = _MADE[kind](known, parts[2], seed, budget, runs.content["choices"])
            found[kind] = {"kind": kind, "budget": budget, **row}
            runs.content["rows"] = list(found.values())
            runs.save()
    return {kind: {key: found[kind][key] for key in found[kind] if key != "kind"}
            for kind in wanted}  # fmt: skip


def _best_setting(parts, budget):
    """SVGP's setting whose short run ends with the best log loss on the validation part."""
    from ..peers import svgp

    learn, valid, _ = parts
    tried = []
    for setting in SETTINGS:
        *_, (_, _, last) = svgp.train(
            *learn, cpu_budget=budget, evaluate=_judge(valid), seed=0,
            **_fitting(setting | COMMON, learn),
        )  # fmt: skip
        if not isinstance(last, svgp.Failed):
            tried.append((last["nlpd"], len(tried), setting))
    return min(tried)[2]


def _fitting(setting, known):
    return {**setting, "n_inducing": min(setting["n_inducing"], len(known[1]) // 2)}


def _svgp(known, test, seed, budget, choices):
    from ..peers import svgp

    setting = _fitting(choices["svgp"] | COMMON, known)
    points = svgp.train(*known, cpu_budget=budget, evaluate=_judge(test), seed=seed, **setting)
    cpu, _, last = points[-1]
    if isinstance(last, svgp.Failed):
        last = dict.fromkeys(("rmse", "nlpd", "coverage", "crps"), float("inf"))
    label = f"{setting['optimizer']} {setting['kernel']} {setting['learning_rate']}"
    return {"setting": f"{label} M{setting['n_inducing']}", "cpu": cpu, **last}


def _sgpr(known, test, seed, budget, choices):
    from ..peers import sgpr

    M = M_FEW if len(known[1]) <= MANY_ROWS else M_MANY
    points = sgpr.train(*known, n_inducing=M, cpu_budget=budget, evaluate=_judge(test), seed=seed)
    cpu, M, kernel, last = points[-1]
    return {"setting": f"{kernel} M{M}", "cpu": cpu, **last}


def _exact(known, test, seed, budget, choices):
    from ..peers import exact_gp

    with cpu_clock() as clock:
        model = exact_gp.fit(*known, EXACT_EVALUATIONS, seed)
    return {"setting": model.name, "cpu": clock.cpu, **scores(test[1], *model.predict(test[0]))}


_MADE = {"svgp": _svgp, "sgpr": _sgpr, "exact": _exact}


def _judge(data):
    return lambda predict: scores(data[1], *predict(data[0]))


def gpboost(known, test):
    """GPBoost's neighbours, where there are not too many rows and columns."""
    n, p = known[0].shape
    if n > MAX_PEER_ROWS or p > MAX_PEER_COLUMNS:
        return {}
    import gpboost

    with cpu_clock() as clock:
        model = gpboost.GPModel(
            gp_coords=known[0], cov_function="matern_ard", cov_fct_shape=1.5,
            gp_approx="vecchia", num_neighbors=20, likelihood="gaussian", seed=0,
            num_parallel_threads=1,
        )  # fmt: skip
        model.fit(y=known[1])
    with cpu_clock() as predicting:
        model.set_prediction_data(num_neighbors_pred=100)
        found = model.predict(gp_coords_pred=test[0], predict_var=True, predict_response=True)
    return {"gpboost": {
        "setting": "matern32", "cpu": clock.cpu, "predict_cpu": predicting.cpu,
        **scores(test[1], found["mu"], found["var"]),
    }}  # fmt: skip


def trees(parts, known):
    """Boosted trees by default and chosen: squared error and quantiles."""
    learn, valid, test = parts
    errors = [_rmse(_boosted({**one}).fit(*learn), valid) for one in TREES]
    chosen = TREES[int(np.argmin(errors))]
    return {"trees": _trees({}, known, test), "trees chosen": _trees(chosen, known, test)}


def _boosted(setting, **others):
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=0, **setting, **others)


def _rmse(model, data):
    return float(np.sqrt(np.mean((data[1] - model.predict(data[0])) ** 2)))


def _trees(setting, known, test):
    with cpu_clock() as clock:
        model = _boosted(setting).fit(*known)
    rmse = _rmse(model, test)
    with cpu_clock() as of_quantiles:
        quantiles = np.column_stack([
            _boosted(setting, loss="quantile", quantile=one).fit(*known).predict(test[0])
            for one in LEVELS
        ])  # fmt: skip
    label = " ".join(f"{key}={value}" for key, value in setting.items()) or "default"
    low, high = quantiles[:, 0], quantiles[:, -1]  # They are those of .05 and .95.
    inside = float(np.mean((low <= test[1]) & (test[1] <= high)))
    return {
        "setting": label, "cpu": clock.cpu, "quantiles_cpu": of_quantiles.cpu, "rmse": rmse,
        "crps": crps(test[1], np.sort(quantiles, axis=1)), "coverage": inside,
    }  # fmt: skip
