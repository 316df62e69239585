"""Ten minutes of other Gaussian processes on each split of the flights; the runs are kept.

SVGP in float64 with 1024 inducing points and rates that fall over the budget, and SGPR with 1000
inducing inputs, which choose their kernel by the bound of some rows. For SVGP kernel and optimizer
have the best log loss of the validation part of the first split after short runs.
"""

from importlib.metadata import version
from itertools import product

from ..harness.cache import CachedRuns
from .regression_scores import scores

BUDGET, TRIAL = 600.0, 30.0  # CPU seconds
OPTIMIZERS = (
    {"optimizer": "adam", "learning_rate": 0.01, "noise": 0.69},
    {"optimizer": "adam", "learning_rate": 0.05, "noise": 0.69},
    {"optimizer": "natural", "learning_rate": 0.05, "noise": 0.1},
)
SETTINGS = [
    {"kernel": kernel, **optimizer}
    for kernel, optimizer in product(("rbf", "matern32", "matern52"), OPTIMIZERS)
]
COMMON = {"n_inducing": 1024, "dtype": "float64", "decay": True, "batch_size": 2048}
SGPR_INDUCING = 1000
LIBRARIES = ("numpy", "scipy", "torch", "gpytorch")


def kept(config, seed, parts, known):
    """{"svgp": row, "sgpr": row} of one split; the first is to be run before the others."""
    protocol = {
        "budget": BUDGET, "trial": TRIAL, "settings": SETTINGS, "common": COMMON,
        "sgpr": SGPR_INDUCING, "versions": {one: version(one) for one in LIBRARIES},
    }  # fmt: skip
    first = CachedRuns(config, "neighbours-flights-0", protocol)
    if "svgp" not in first.content["choices"]:
        first.content["choices"]["svgp"] = _setting(parts)
        first.save()
    runs = CachedRuns(config, f"neighbours-flights-{seed}", protocol)
    found = {row["kind"]: row for row in runs.content["rows"]}
    for kind, run in (("svgp", _svgp), ("sgpr", _sgpr)):
        if kind not in found:
            row = run(known, parts[2], seed, first.content["choices"]["svgp"])
            found[kind] = {"kind": kind, **row}
            runs.content["rows"] = list(found.values())
            runs.save()
    return {kind: {key: row[key] for key in row if key != "kind"} for kind, row in found.items()}


def _setting(parts):
    from ..peers import svgp

    learn, valid, _ = parts
    tried = []
    for setting in SETTINGS:
        *_, (_, _, last) = svgp.train(
            *learn, cpu_budget=TRIAL, evaluate=_judge(valid), seed=0, **setting, **COMMON
        )
        if not isinstance(last, svgp.Failed):
            tried.append((last["nlpd"], len(tried), setting))
    return min(tried)[2]


def _svgp(known, test, seed, setting):
    from ..peers import svgp

    *_, (cpu, _, last) = svgp.train(
        *known, cpu_budget=BUDGET, evaluate=_judge(test), seed=seed, **setting, **COMMON
    )
    label = f"{setting['optimizer']} {setting['kernel']} {setting['learning_rate']}"
    if isinstance(last, svgp.Failed):
        last = dict.fromkeys(("rmse", "nlpd", "coverage", "crps"), float("inf"))
    return {"setting": label, "cpu": cpu, **last}


def _sgpr(known, test, seed, setting):
    from ..peers import sgpr

    *_, (cpu, n_inducing, kernel, last) = sgpr.train(
        *known, n_inducing=SGPR_INDUCING, cpu_budget=BUDGET, evaluate=_judge(test), seed=seed
    )
    return {"setting": f"{kernel} M{n_inducing}", "cpu": cpu, **last}


def _judge(data):
    return lambda predict: scores(data[1], *predict(data[0]))
