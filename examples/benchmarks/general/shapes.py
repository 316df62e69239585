"""Hard shapes from values only: what is right, what is wrong, and whether a warning says so.

`ParticleMirrorDescent` with its defaults but 4000 particles, and with 1000 (its default), on
eighteen posteriors whose truth is known, ten seeds each: Neal's funnel, a banana, a ring, unequal
modes, Student and Cauchy tails, mass at the edge of a uniform prior, a covariance of condition
10^6, a plateau, a likelihood with noise; and models with data: predators and prey (an ODE), eight
schools in both parametrisations, logistic regression on 20 and 50 columns. The truth is a million
exact draws, or importance sampling with k-hat below 0.3 (the models but eight schools, where all
is Gaussian given tau). All are in the coordinates that the sampler sees.

Peers get the same functions, no gradients, and three seeds: ``smc, blackjax`` is adaptive tempered
SMC with 4000 particles, temperatures where half of them are effective, and 20 steps of a random
walk with their covariance; ``smc, particles`` the waste-free one with 4000 particles and the
defaults of its package, and with ten times as many (``x10``); ``emcee`` the ensemble sampler with
64 walkers or more from draws of the prior, in ten times our CPU seconds, its first half left out.
None of them runs longer than 10 CPU seconds; one whose package is missing is left out.

An answer is wrong where a mean is off by more than 0.25 posterior sds or a sd by more than 25 %,
and right where none is off by more than 0.1 and 10 %. Where 4,000 exact draws typically (the median
of 100 times) miss these by 5 % or where they do not exist, quantiles count instead: the true
probability below an estimated quantile of 5, 25, 50, 75 or 95 % is right where it is off by 0.03 or
less, wrong by more than 0.075. In a row, errors are medians over seeds of the largest over
coordinates (``evidence_error``: of the log evidence); ``right``, ``wrong`` and ``warned`` are
shares of the seeds, ``unwarned_wrong`` and ``unwarned_right`` of those two without a warning;
``k_hat`` and ``ess`` (a share) are medians, ``proposals`` the share of fits that ended with
importance reweighting of fitted proposals rather than mirror steps; ``cpu`` is the mean, and
``answers`` counts the runs that came to an end. ``emcee`` warns where its chains are shorter than
50 autocorrelation times.

``--quick``: four shapes, two seeds, and one of each peer within a CPU second.
"""

import numpy as np
from threadpoolctl import threadpool_limits

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot

SEEDS, QUICK_SEEDS = (10, 3), (2, 1)  # Ours, and the peers'.
MAX_CPU, QUICK_CPU = 10.0, 1.0  # Seconds of one run of a peer.
SIZES = (4000, 1000)
QUICK = ("funnel2", "modes2", "noisy", "eight_noncentred")
TIMES = 10.0  # Times our CPU that a peer gets.
MAIN = f"pmd, {SIZES[0]}"
NEEDED = ("funnel2", "funnel5", "banana", "ring", "modes2", "modes5", "condition")
SHARE_RIGHT, N_RIGHT, WARNED_RIGHT = 0.8, 11, 0.1


def run(config):
    """Every method on every shape."""
    from . import shapes_methods as methods

    seeds = QUICK_SEEDS if config.quick else SEEDS
    max_cpu = QUICK_CPU if config.quick else MAX_CPU
    peers, rows = methods.peers(), []
    for name in QUICK if config.quick else makers():
        rows += measured(name, peers, seeds, max_cpu)
        print(f"{name} done", flush=True)
    return rows


def makers():
    """{name: function that makes a shape} of all of them."""
    from .shapes_models import MODELS
    from .shapes_targets import TARGETS

    return {**TARGETS, **MODELS}


def measured(name, peers, seeds, max_cpu):
    """Rows of one shape; ``seeds`` are the numbers of ours and of the peers'."""
    from . import shapes_methods as methods

    ours, theirs = seeds
    with threadpool_limits(1):
        shape = makers()[name]()
        methods.pmd(shape, 200, 0)  # compiles what there is to compile
        found = {
            f"pmd, {size}": [methods.pmd(shape, size, seed) for seed in range(ours)]
            for size in SIZES
        }
        budget = TIMES * float(np.mean([answer.cpu for answer in found[MAIN]]))
        for peer, answer in peers.items():
            found[peer] = [
                answer(shape, seed, max_cpu, min(budget, max_cpu)) for seed in range(theirs)
            ]
    return [_row(name, shape, method, answers) for method, answers in found.items()]


def _row(name, shape, method, answers):
    """One line of the table, as the docstring says."""
    from .shapes_truth import errors

    true = shape.truth
    rule = "quantiles" if true.by_quantiles else "moments"
    answered = [answer for answer in answers if answer is not None]
    made = [errors(true, one.theta, one.weights, one.log_evidence) for one in answered]
    right = np.array([one.right for one in made], dtype=bool)
    wrong = np.array([one.wrong for one in made], dtype=bool)
    warned = np.array([one.warned for one in answered], dtype=bool)
    ours = method.startswith("pmd")
    return {
        "shape": name,
        "d": shape.problem.d,
        "rule": rule,
        "method": method,
        "answers": len(answered),
        "mean_error": _median([one.mean for one in made]),
        "sd_error": _median([one.sd for one in made]),
        "quantile_error": _median([one.quantile for one in made]),
        "evidence_error": _median([one.log_evidence for one in made]),
        "right": _share(right),
        "wrong": _share(wrong),
        "warned": _share(warned),
        "unwarned_right": _share(right & ~warned),
        "unwarned_wrong": _share(wrong & ~warned),
        "k_hat": _median([one.k_hat for one in answered]),
        "ess": _median([one.ess for one in answered]),
        "proposals": _share([one.method.startswith("importance") for one in answered if ours]),
        "cpu": float(np.mean([one.cpu for one in answered])) if answered else None,
    }


def _median(values):
    """The median of those that there are, None without any."""
    known = [value for value in values if value is not None and np.isfinite(value)]
    return float(np.median(known)) if known else None


def _share(flags):
    return float(np.mean(flags)) if len(flags) else None


def gates(rows):
    """No silent error, few needless warnings, and right answers where they should be."""
    own = [row for row in rows if row["method"] == MAIN]
    default = [row for row in rows if row["method"] == f"pmd, {SIZES[1]}"]
    reached = {row["shape"] for row in own if row["unwarned_right"] >= SHARE_RIGHT}
    right = sum(row["right"] * row["answers"] for row in own)
    needless = sum((row["right"] - row["unwarned_right"]) * row["answers"] for row in own)
    return [
        Gate("fits wrong without a warning", _silent(own), 0.0),
        Gate(f"fits wrong without a warning, {SIZES[1]} particles", _silent(default), 0.0),
        Gate("share of right fits that warned", needless / max(right, 1.0), WARNED_RIGHT),
        Gate(f"shapes right unwarned in {SHARE_RIGHT:.0%} of fits", len(reached), N_RIGHT, ">="),
        Gate(f"of them: {', '.join(NEEDED)}", len(reached & set(NEEDED)), len(NEEDED), ">="),
    ]


def _silent(rows):
    return round(sum(row["unwarned_wrong"] * row["answers"] for row in rows))


def plot(rows):
    """Shares of right and wrong answers, warned or not, for each shape and method."""
    plt = pyplot()
    names = list(dict.fromkeys(row["shape"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    shape = (-(-len(methods) // 3), min(3, len(methods)))
    size = 3.6 * shape[1] + 1.8, (0.23 * len(names) + 0.6) * shape[0] + 1.2
    figure, axes = plt.subplots(
        *shape, figsize=size, sharex=True, sharey=True, layout="constrained", squeeze=False
    )
    for axis, method in zip(axes.flat, methods, strict=False):
        _shares(axis, names, [row for row in rows if row["method"] == method and row["answers"]])
        axis.set(title=method, xlim=(0.0, 1.0), xticks=(0.0, 0.5, 1.0))
        axis.xaxis.set_major_formatter("{x:g}")
    for axis in axes.flat[len(methods) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("share of the seeds")
    axes[0, 0].set_yticks(range(len(names)), names)
    axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
    for axis in axes[:, 0]:
        axis.tick_params(axis="y", labelsize=9)
    legend_above(figure, axes.flat, ncols=4)
    return figure


def _shares(axis, names, rows):
    """Bars of one method; a shape without an answer has an empty one."""
    own, left = {row["shape"]: row for row in rows}, np.zeros(len(names))
    for label, color, share in _PARTS:
        width = np.array([share(own[name]) if name in own else 0.0 for name in names])
        axis.barh(range(len(names)), width, left=left, color=color, label=label)
        left += width
    none = [float(name not in own) for name in names]
    axis.barh(range(len(names)), none, color="white", ec="0.6", hatch="///", label="no answer")


def _between(row, warned):
    """The share of answers that are neither right nor wrong, with or without a warning."""
    silent = 1.0 - row["warned"] - row["unwarned_right"] - row["unwarned_wrong"]
    return 1.0 - row["right"] - row["wrong"] - silent if warned else silent


_PARTS = (
    ("right", "#1b7837", lambda row: row["unwarned_right"]),
    ("right, warned", "#a6dba0", lambda row: row["right"] - row["unwarned_right"]),
    ("between", "#bbbbbb", lambda row: _between(row, warned=False)),
    ("between, warned", "#dddddd", lambda row: _between(row, warned=True)),
    ("wrong, warned", "#fdae61", lambda row: row["wrong"] - row["unwarned_wrong"]),
    ("wrong, unwarned", "#d7191c", lambda row: row["unwarned_wrong"]),
)
