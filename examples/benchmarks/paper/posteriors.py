"""Errors of posteriors beside long runs, of PMD and of its peers, on every reference posterior.

The truth is posteriordb's reference draws (10,000 each, so that its own errors are about 0.01 sd)
and, for logistic regression, our own long runs of NUTS. The models are those of
`reference_posteriors`; all methods get the same functions.

* ``pmd``: `ParticleMirrorDescent` with 4000 particles, else its defaults, by values only (the prior
  is a wide one in orthogonal coordinates, where the model's is flat);
  `BayesianLogisticRegressionPMD` with its defaults for logistic regression.
* ``nuts``: NumPyro's, eight chains of 500 draws after 200 of warm-up; ``svi``: NumPyro's, a
  Gaussian with a full covariance by 4000 steps of Adam, 4 draws each; ``laplace, psis``: 4000 draws
  at the mode. All three have gradients, in coordinates that the Laplace approximation whitens.
* ``pathfinder, psis``: BlackJAX's, eight paths from the prior with gradients, 4000 draws.
* ``smc, blackjax`` and ``smc, particles``: adaptive tempered SMC with 4000 particles, from the
  prior and by values only (20 random walk steps each time; waste-free, its defaults).
* ``emcee``: the affine-invariant ensemble, by values only, for ten times our CPU seconds.

One row for each posterior and method: errors of means, in posterior sds, and of sds, relative, are
the largest of all seeds over all coordinates (``rms_mean_error``: the root mean square over both);
``max_unwarned`` is the largest error of a mean among the fits that did not warn; ``k_hat`` is the
largest; ``cpu`` is the mean, without compilation and, for the three that are given the mode, with
the search for it; ``answers`` counts the seeds that were done (SMC is stopped after 10 CPU
seconds); ``warned`` counts warnings: ours, for NUTS a divergence or R-hat above 1.01, k-hat above
0.7, and emcee's of a short chain. Ours and NUTS have ten seeds, the others three.

``cpu_ratio``, of ours: CPU seconds that it would take for NUTS's error, by the rule that the square
of an error falls with time, over NUTS's. The error of the reference draws is in both.

``--quick``: a generated regression under a flat prior, with exact moments; one seed.
"""

import numpy as np
from threadpoolctl import threadpool_limits

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from . import reference_posteriors

SEEDS, FEW = 10, 3
LOGISTIC = ("keel_pima", "keel_wdbc", "keel_german", "keel_spambase")
SMALL, UNWARNED, K_HAT, SHARE = 30, 0.25, 0.7, 0.9
ERROR, SD_ERROR = 0.06, 0.08
FASTER, SLOWEST = 16, 10.0  # of posteriordb's: at NUTS's error in less CPU, and never longer


def run(config):
    """Every method on every posterior."""
    rows, seeds = [], range(1 if config.quick else SEEDS)
    few = range(1 if config.quick else FEW)
    for place in _places(config):
        with threadpool_limits(1):
            rows += _measured(place, seeds, few)
        print(f"{place['name']} done", flush=True)
    return rows


def _measured(place, seeds, few):
    """Rows of one posterior."""
    from .posteriors_methods import answers, loaded

    reference = loaded(place)
    found = answers(reference, place, seeds, few)
    rows = {method: _row(reference, method, own) for method, own in found.items()}
    ours, nuts = rows["pmd"], rows["nuts"]
    if nuts["answers"]:
        ratio = (ours["rms_mean_error"] / nuts["rms_mean_error"]) ** 2
        ours["cpu_ratio"] = ours["cpu"] * ratio / nuts["cpu"]
    return list(rows.values())


def _places(config):
    """Where each reference is loaded from, as `posteriors_methods.loaded` takes it."""
    if config.quick:
        return [{"kind": "generated", "name": "generated"}]
    names = [("posteriordb", name) for name in reference_posteriors.MODELS]
    names += [("logistic", name) for name in LOGISTIC]
    folders = {"data": str(config.data), "cache": str(config.cache)}
    return [{"kind": kind, "name": name, **folders} for kind, name in names]


def _row(reference, method, answers):
    """One line of the table; the worst of the seeds, as the docstring says."""
    row = {"data": reference.name, "d": reference.problem.d, "method": method}
    found = [answer for answer in answers if answer is not None]
    row["answers"] = len(found)
    if not found:
        return row
    means, sds, cpu, k_hats, warned = zip(*found, strict=True)
    error = np.abs(np.array(means) - reference.mean) / reference.sd
    silent = error[~np.array(warned)]
    known = [k_hat for k_hat in k_hats if k_hat is not None]
    return {
        **row,
        "max_mean_error": float(error.max()),
        "rms_mean_error": float(np.sqrt((error**2).mean())),
        "max_sd_error": float(np.abs(np.array(sds) / reference.sd - 1.0).max()),
        "max_unwarned": float(silent.max()) if len(silent) else None,
        "k_hat": float(max(known)) if known else None,
        "cpu": float(np.mean(cpu)),
        "warned": int(sum(warned)),
    }


def gates(rows):
    """Of ours: k-hat and errors where the dimension is small, and no silent error anywhere."""
    own = [row for row in rows if row["method"] == "pmd"]
    small = [row for row in own if row["d"] <= SMALL]
    silent = [row["max_unwarned"] for row in own if row["max_unwarned"] is not None]
    certified = np.mean([row["k_hat"] is not None and row["k_hat"] < K_HAT for row in small])
    return [
        Gate(f"share of posteriors with k-hat < {K_HAT}, d <= {SMALL}", certified, SHARE, ">="),
        Gate(f"max mean error, sd, d <= {SMALL}", _worst(small, "max_mean_error"), ERROR),
        Gate(f"max sd error, d <= {SMALL}", _worst(small, "max_sd_error"), SD_ERROR),
        Gate("max mean error without a warning, sd", max(silent, default=0.0), UNWARNED),
        *_beside_nuts([row for row in own if row["data"] in reference_posteriors.MODELS]),
    ]


def _beside_nuts(rows):
    """CPU at NUTS's error, on posteriordb's."""
    ratios = np.array([row["cpu_ratio"] for row in rows])
    if not len(ratios):  # the quick variant has none of them
        return []
    return [
        Gate(
            "posteriors of posteriordb at NUTS's error in less CPU",
            (ratios <= 1).sum(),
            FASTER,
            ">=",
        ),
        Gate("largest CPU ratio to NUTS at its error", ratios.max(), SLOWEST),
    ]


def _worst(rows, key):
    return max(row[key] for row in rows)


def plot(rows):
    """Errors of means by posterior, and against CPU seconds; a colour and a marker by method."""
    plt = pyplot()
    answered = [row for row in rows if row["answers"]]
    names = list(dict.fromkeys(row["data"] for row in answered))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(15, 8), layout="constrained", width_ratios=(1.1, 1.0)
    )
    for number, method in enumerate(dict.fromkeys(row["method"] for row in answered)):
        own = [row for row in answered if row["method"] == method]
        error = [row["max_mean_error"] for row in own]
        style = {"color": f"C{number % 10}", "alpha": 0.8, "label": method}
        style |= {"marker": "*os^vDPX"[number % 8], "linestyle": "", "zorder": 3}
        style |= {"color": "black", "markersize": 10} if method == "pmd" else {"markersize": 6}
        left.plot(error, [names.index(row["data"]) for row in own], **style)
        right.plot([row["cpu"] for row in own], error, **style)
    target = {"color": "grey", "linestyle": "--", "label": f"target of pmd, d <= {SMALL}: {ERROR}"}
    left.axvline(ERROR, **target)
    right.axhline(ERROR, **target)
    left.set_yticks(range(len(names)), names, fontsize=8)
    left.grid(axis="y", alpha=0.3)
    left.invert_yaxis()
    label = "largest error of a posterior mean, sds"
    left.set(xscale="log", xlabel=label)
    right.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel=label)
    legend_above(figure, [left], ncols=5)
    return figure
