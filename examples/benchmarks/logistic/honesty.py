"""Warnings against errors, over every fit of four other studies.

Reads what ``logistic``, ``stream``, ``priors`` and ``moves`` left in the output folder (with
``--quick``, what their quick variants left); nothing is fitted here. A case is one fit, or one
stream, whose largest error of a posterior mean was measured against a reference. It is

* bad, if that error is above 0.25 posterior sds; bad and without a warning is silent;
* good, if it is below 0.1; good and with a warning is a false alarm. Their share is that among the
  good cases.
"""

import json

import numpy as np

from ..harness.study import Gate, pyplot, stem

STUDIES = ("logistic", "stream", "priors", "moves")
BAD, GOOD = 0.25, 0.1
MAX_FALSE = 0.1


def run(config):
    """Count, for each study, setting and data set, and in all."""
    cases = [case for name in STUDIES for case in _cases(name, config)]
    groups = {}
    for case in cases:
        groups.setdefault((case["study"], case["setting"], case["data"]), []).append(case)
    counts = [_count(*key, own) for key, own in groups.items()]
    return [*counts, _count("all", "all", "all", cases), *cases]


def _cases(name, config):
    """Yield the fits of a study in one form."""
    path = config.out / f"{stem(name, config)}.json"
    if not path.exists():
        raise SystemExit(f"There is no {path.name} in the output folder: run that study first.")
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        if "max_mean_error" in row:
            setting = (row.get(key) for key in ("kind", "method", "prior"))
            yield {
                "study": name,
                "setting": " ".join(filter(None, setting)),
                "data": row.get("data", "generated"),
                "seed": row.get("seed", 0),
                "max_mean_error": row["max_mean_error"],
                "warned": bool(row["warned"]),
            }


def _count(study, setting, data, cases):
    errors = np.array(
        [np.inf if c["max_mean_error"] is None else c["max_mean_error"] for c in cases]
    )
    warned = np.array([case["warned"] for case in cases])
    bad, good = errors > BAD, errors < GOOD
    return {
        "study": study,
        "setting": setting,
        "data": data,
        "cases": len(cases),
        "largest_error": float(errors.max()),
        "warned": int(warned.sum()),
        "bad": int(bad.sum()),
        "silent": int((bad & ~warned).sum()),
        "good": int(good.sum()),
        "false_alarms": int((good & warned).sum()),
    }


def gates(rows):
    """No silent case; few false alarms."""
    total = next(row for row in rows if row["study"] == "all")
    share = total["false_alarms"] / max(1, total["good"])
    return [
        Gate(f"errors above {BAD:g} sd without a warning", total["silent"], 0),
        Gate(f"share of false alarms at errors below {GOOD:g} sd", share, MAX_FALSE),
    ]


def plot(rows):
    """The error of every case, a line for each study, filled where warned."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    rng = np.random.default_rng(0)
    for row in rows:
        if "max_mean_error" in row:
            place = STUDIES.index(row["study"]) + rng.uniform(-0.3, 0.3)
            colour = f"C{STUDIES.index(row['study'])}"
            fill = colour if row["warned"] else "none"
            axes.plot(row["max_mean_error"], place, "o", mec=colour, mfc=fill, markersize=5)
    for bound in (GOOD, BAD):
        axes.axvline(bound, color="grey", linewidth=0.8)
    axes.set_yticks(range(len(STUDIES)), STUDIES)
    axes.set(xscale="log", xlabel="largest error of a mean, posterior sds (filled: warned)")
    return figure
