"""Warnings against errors: fits of every estimator, on posteriors with exact references.

An answer is wrong where a mean is off by more than 0.25 posterior sds, a sd by more than 25 % or
the log evidence by more than three of its standard errors and 0.1; right where no mean is off by
more than 0.1 sds, no sd by more than 10 %, and the evidence is not wrong; between the two it is
neither (``between`` in the picture). Where 4,000 exact draws do not know the moments either (they
miss these typically by more than 5 %), quantiles count instead: the true probability below an
estimated quantile of 5, 25, 50, 75 or 95 % is right where it is off by 0.03 or less, wrong by more
than 0.075. A fit is warned where it warns. Silent: wrong without a warning. A false alarm: right
with one; their share is that among the right fits.

* ``custom``: `ParticleMirrorDescent` on 25 posteriors. ``auto`` is its default; ``300`` has 300
  particles; ``prior`` is ``proposal="prior"``; ``stream`` comes in four parts. ``wrong prior`` are
  pairs of ``log_prior`` and ``sample_prior`` that disagree, where each fit should warn, and
  ``right prior`` pairs that agree.
  ``generated`` are over 400 posteriors drawn at random, by default: a seed gives the family, one
  to twenty coordinates and all numbers. Those of odd seeds count; even ones are for whoever changes
  the estimator. The families are mixtures of rotated normals, stars, kinks, truncated and ordered
  parameters, exponentials, change points, changes of slope, robust regressions, hierarchies,
  horseshoes, and bounds that the rows set; references are exact draws (`honesty_generated`). They
  have totals of their own, ``generated, all``; a fit that ends in an error is wrong and warned.
  Where fewer than three of 4,000 draws of the prior are expected in the basin of a mode, the fit is
  ``outside`` and in no gate.
* ``logistic``: one feature and the intercept, against quadrature: few rows and many, separable or
  not, four priors; with moves and without; in four parts, in the order of the classes, of the
  feature, and mixed. ``everyday`` are columns in everyday units, by default: years, time stamps,
  prices, sentinels, dummies, constants, in one table, a stream or shards.
* ``mixture``: ``strategy="parameters"`` on few rows: the expected density at four points, in units
  of its posterior sd, and the evidence, against a sum over all assignments of rows to components.
  In ``raw units`` tables with mistyped rows, sentinels, far groups, many columns, ties and odd
  units are judged by new rows, beside the same mixture of the table without them
  (`honesty_everyday_mixture`).
* ``gp``: predictions of the process at 40 points against the exact process with the same kernel,
  hence of one particle.
  With fewer inducing inputs than rows the process has less to go by, and its sds say so: wrong is
  a mean more than three of its own sds away, or a sd 25 % below the exact one.
* ``lda``: an answer is wrong where 90 % intervals contain less than 75 % of the true probabilities
  of words, right from 85 % on.

``documented`` are fits in the regime that the documentation names: everything by default and, for
custom models, modes that draws of the prior reach; ``outside`` are the others. ``named`` are shapes
and settings on which a fit was once wrong in silence. ``needle`` is a mode that no search can
reach, a limit that the documentation states: it has a row of its own and is in no total.

``--quick``: one seed, a few shapes of each estimator. ``--jobs``: kinds of fits side by side.
"""

from joblib import Parallel, delayed

from ..harness.study import Gate, pyplot

N_FITS, NAMED, FALSE, SILENT = 600, 0.4, 0.05, 0.02
# Of posteriors drawn at random.
N_GENERATED, SILENT_GENERATED, FALSE_GENERATED, LOUD_GENERATED = 400, 0.005, 0.03, 0.08
KINDS = ("custom", "logistic", "mixture", "gp", "lda")


def run(config):
    """A row for each group of fits, and one for each estimator and for all."""
    from . import (
        honesty_custom,
        honesty_everyday_gp,
        honesty_everyday_lda,
        honesty_everyday_logistic,
        honesty_everyday_mixture,
        honesty_families,
        honesty_generated,
    )

    everyday = (
        honesty_everyday_logistic,
        honesty_everyday_mixture,
        honesty_everyday_gp,
        honesty_everyday_lda,
    )
    # The longest comes first.
    modules = (honesty_generated, honesty_custom, honesty_families, *everyday)
    work = Parallel(n_jobs=config.jobs)
    parts = work(delayed(_fitted)(module.cases, config.quick) for module in modules)
    cases, groups = [case for part in parts for case in part], {}
    for case in cases:
        key = (case.estimator, case.setting, case.shape, case.documented, case.named)
        groups.setdefault(key, []).append(case)
    rows = [_count(*key, own) for key, own in groups.items()]
    generated = [case for case in cases if case.setting == "generated"]
    for documented in (True, False):
        part = [case for case in generated if case.documented == documented]
        if part:
            rows.append(_count("custom", "generated", "all", documented, None, part))
            silent_means = sum(case.silent and case.of_means for case in part)
            rows[-1]["of_means"] = silent_means
    counted = [case for case in cases if case.shape != "needle" and case.setting != "generated"]
    for estimator in KINDS:
        own = [case for case in counted if case.estimator == estimator]
        for documented in (True, False):
            part = [case for case in own if case.documented == documented]
            if part:
                where = "documented" if documented else "outside"
                rows.append(_count(estimator, where, "all", documented, None, part))
    rows.append(_count("all", "all", "all", None, None, counted))
    named = sum(case.named for case in counted) / max(1, len(counted))
    rows[-1]["share_named"] = named
    return rows


def _fitted(cases, quick):
    """All cases of one module, those that are wrong in silence printed as they come."""
    found = []
    for case in cases(quick):
        found.append(case)
        if case.silent:
            print(f"silent: {case}", flush=True)
    return found


def _count(estimator, setting, shape, documented, named, cases):
    warned_right = sum(case.right and case.warned for case in cases)
    return {
        "estimator": estimator,
        "setting": setting,
        "shape": shape,
        "documented": documented,
        "named": named,
        "fits": len(cases),
        "right": int(sum(case.right for case in cases)),
        "wrong": int(sum(case.wrong for case in cases)),
        "warned": int(sum(case.warned for case in cases)),
        "silent": int(sum(case.silent for case in cases)),
        "false_alarms": int(warned_right),
        "largest_error": float(max(case.error for case in cases)),
    }


def gates(rows):
    """Enough fits; no silent error in the documented regime and few outside; few false alarms."""
    total = next(row for row in rows if row["estimator"] == "all")
    inside = {row["estimator"]: row for row in rows if row["setting"] == "documented"}
    outside = {row["estimator"]: row for row in rows if row["setting"] == "outside"}
    return [
        *_generated_gates(rows),
        Gate("fits", total["fits"], N_FITS, ">="),
        Gate("share of shapes and settings once silent", total["share_named"], NAMED, ">="),
        *[
            Gate(f"{kind}: silent in the documented regime", inside[kind]["silent"], 0)
            for kind in KINDS
        ],
        *[
            Gate(f"{kind}: share silent outside of it", row["silent"] / row["fits"], SILENT)
            for kind, row in outside.items()
        ],
        Gate(
            "share of right fits that warned", total["false_alarms"] / max(1, total["right"]), FALSE
        ),
    ]


def _generated_gates(rows):
    (row,) = (row for row in rows if _is_generated_total(row) and row["documented"])
    silent, loud = row["silent"], row["wrong"] - row["silent"]
    alarms = row["false_alarms"] / max(1, row["right"])
    return [
        Gate("generated: fits", row["fits"], N_GENERATED, ">="),
        Gate("generated: share silent", silent / row["fits"], SILENT_GENERATED),
        Gate("generated: silent and a mean is wrong", row["of_means"], 0),
        Gate("generated: share of right fits that warned", alarms, FALSE_GENERATED),
        Gate("generated: share wrong and warned", loud / row["fits"], LOUD_GENERATED),
    ]


def _regime(row):
    outside = _is_generated_total(row) and not row["documented"]
    return f"{row['setting']}, outside" if outside else row["setting"]


def _is_generated_total(row):
    return row["setting"] == "generated" and row["shape"] == "all"


def plot(rows):
    """Shares of right, wrong and other fits, warned or not, for each estimator and regime."""
    plt = pyplot()
    own = [
        row for row in rows
        if row["setting"] in ("documented", "outside") or _is_generated_total(row)
    ]  # fmt: skip
    figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
    left = [0.0] * len(own)
    for label, colour, part in (
        ("right", "#1b7837", lambda row: row["right"] - row["false_alarms"]),
        ("right, warned", "#a6dba0", lambda row: row["false_alarms"]),
        ("between", "#bbbbbb", lambda row: row["fits"] - row["right"] - row["wrong"]),
        ("wrong, warned", "#fdae61", lambda row: row["wrong"] - row["silent"]),
        ("wrong, unwarned", "#d7191c", lambda row: row["silent"]),
    ):
        width = [part(row) / row["fits"] for row in own]
        axis.barh(range(len(own)), width, left=left, color=colour, label=label)
        left = [a + b for a, b in zip(left, width, strict=True)]
    labels = [f"{row['estimator']}, {_regime(row)} ({row['fits']})" for row in own]
    axis.set_yticks(range(len(own)), labels, fontsize=8)
    axis.invert_yaxis()
    axis.set(xlim=(0.0, 1.0), xlabel="share of the fits")
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    return figure
