"""Ten minutes of other Gaussian processes on each split of the flights; the runs are kept.

SVGP in float64 with 1024 inducing points and rates that fall over the budget, and SGPR with 1000
inducing inputs, which choose their kernel by the bound of some rows. For SVGP kernel and optimizer
have the best log loss of the validation part of the first split after short runs.
"""

from importlib.metadata import version
from itertools import product

from ..harness.cache import CachedRuns
from .flights import PEER
from .regression_peers import LIBRARIES, best_setting, sgpr_row, svgp_row

BUDGET, TRIAL = 600.0, 30.0  # CPU seconds
SETTINGS = [
    {"kernel": kernel, **optimizer}
    for kernel, optimizer in product(("rbf", "matern32", "matern52"), PEER)
]
COMMON = {"n_inducing": 1024, "dtype": "float64", "decay": True, "batch_size": 2048}
SGPR_INDUCING = 1000


def kept(config, seed, parts, known):
    """{"svgp": row, "sgpr": row} of one split; the first is to be run before the others."""
    protocol = {
        "budget": BUDGET, "trial": TRIAL, "settings": SETTINGS, "common": COMMON,
        "sgpr": SGPR_INDUCING, "versions": {one: version(one) for one in LIBRARIES},
    }  # fmt: skip
    first = CachedRuns(config, "neighbours-flights-0", protocol)
    if "svgp" not in first.content["choices"]:
        first.content["choices"]["svgp"] = best_setting(SETTINGS, parts, TRIAL, COMMON)
        first.save()
    runs = CachedRuns(config, f"neighbours-flights-{seed}", protocol)
    found = {row["kind"]: row for row in runs.content["rows"]}
    setting = first.content["choices"]["svgp"] | COMMON
    for kind, run, choice in (("svgp", svgp_row, setting), ("sgpr", sgpr_row, SGPR_INDUCING)):
        if kind not in found:
            found[kind] = {"kind": kind, **run(known, parts[2], seed, BUDGET, choice)}
            runs.content["rows"] = list(found.values())
            runs.save()
    return {kind: {key: row[key] for key in row if key != "kind"} for kind, row in found.items()}
