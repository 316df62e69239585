"""Sparse GP regression beside GPyTorch's SVGP: error, log loss and coverage for less CPU.

``--quick``: generated data, SVGP with few inducing points. ``--jobs N``: cases side by side.

Ten data sets, three random splits (10 % test, 10 % validation, the rest to learn from), columns and
targets standardised by all but the test part, one thread for each case. On the first split each
side tries its settings on the rows that are neither test nor validation and takes the one of the
best log loss on the validation part; on every split it learns from all but the test part with it.

* ``pmd``: RBF, Matern-3/2 or Matern-5/2; 2000 inducing inputs, everything else by default.
* ``pmd student_t``: the same kernel with Student noise, and its log loss on the validation part.
* ``svgp``: the same three kernels; Adam with learning rates 0.01 and 0.05, and natural gradients
  with 0.05 for the rest. Tried with 512 inducing points and the CPU of ours; the chosen one
  has 512 and 1024 points and each time ten times the CPU of ours, evaluated along the way. The
  other splits have the number of points that ends with the better log loss on the first one's
  *test* part, and of all points on the way the best one *on the test part* is taken, for each
  figure by itself: more than a user could know.

The runs of SVGP are kept beside the references, one file for each case, and not made again.
"""

import json

import numpy as np
from joblib import Parallel, delayed

from . import datasets
from .study import Gate, pyplot
from .timing import cpu_clock

NAMES = (  # the longest first
    "uci_protein", "uci_bike", "uci_pol", "diamonds", "uci_elevators",
    "california", "uci_naval", "uci_parkinsons", "uci_power", "uci_kin8nm",
)  # fmt: skip
PROTOTYPE = {  # RMSE and log loss, one split
    "uci_kin8nm": (0.251, 0.031),
    "uci_protein": (0.644, 0.964),
    "uci_pol": (0.131, -0.785),
    "uci_bike": (0.237, -0.080),
    "uci_elevators": (0.382, 0.455),
}
SEEDS = 3
KERNELS = {"rbf": np.inf, "matern32": 1.5, "matern52": 2.5}
KINDS = {"pmd": "gaussian", "pmd student_t": "student_t"}  # of ours -> noise
N_INDUCING, PEER_INDUCING = 2000, (512, 1024)
PEER = (
    {"optimizer": "adam", "learning_rate": 0.01, "noise": 0.69},
    {"optimizer": "adam", "learning_rate": 0.05, "noise": 0.69},
    {"optimizer": "natural", "learning_rate": 0.05, "noise": 0.1},
)
TRIAL, BUDGET = 1.0, 10.0  # CPU of SVGP, in that of ours
BATCH = 2048  # GPyTorch is fast where a batch has more rows than there are inducing points
LEAST_SETS = 8


def run(config):
    """Fit, choose and compare: the first split of all data sets, then the others."""
    names = ("waves",) if config.quick else NAMES
    seeds = range(1, 1 if config.quick else SEEDS)
    workers = Parallel(n_jobs=config.jobs)
    firsts = dict(zip(names, workers(delayed(first)(config, name) for name in names), strict=True))
    cases = [(config, name, seed, firsts[name]) for seed in seeds for name in names]
    others = workers(delayed(other)(*case) for case in cases)
    return [row for rows in (*firsts.values(), *others) for row in rows]


def first(config, name):
    """Split 0: both sides choose."""
    parts = _parts(config, name, 0)
    learn, valid, _ = parts
    M = 100 if config.quick else N_INDUCING
    tried = {kernel: _judged(kernel, "gaussian", learn, valid, 0, M) for kernel in KERNELS}
    kernel = min(tried, key=lambda one: tried[one]["nlpd"])
    losses = {
        "gaussian": tried[kernel]["nlpd"],
        "student_t": _judged(kernel, "student_t", learn, valid, 0, M)["nlpd"],
    }
    own = _ours(parts, 0, M, kernel, losses)

    def cases():
        sizes = (50, 100) if config.quick else PEER_INDUCING
        setting = _chosen_setting(parts, sizes[0], own["pmd"]["cpu"])
        return [{"n_inducing": size, **setting} for size in sizes]

    return _rows(config, name, 0, parts, own, cases)


def other(config, name, seed, firsts):
    """Another split, with what was chosen on the first."""
    parts = _parts(config, name, seed)
    kinds = {row["kind"]: row for row in firsts}
    losses = {noise: kinds[kind]["valid_nlpd"] for kind, noise in KINDS.items()}
    own = _ours(parts, seed, N_INDUCING, kinds["pmd"]["setting"], losses)

    def cases():
        ends = {run["n_inducing"]: run for run in _known(config, name, 0)}  # the last of each
        best = min(ends.values(), key=lambda run: run["nlpd"])
        return [{key: best[key] for key in ("n_inducing", "kernel", *PEER[0])}]

    return _rows(config, name, seed, parts, own, cases)


def _rows(config, name, seed, parts, own, cases):
    """Rows of ours and of SVGP, whose runs are made where no file has them."""
    peer = _peer(config, name, seed, parts, own["pmd"]["cpu"], cases)
    print(f"{name}, split {seed}: ours {_short(own['pmd'])}, SVGP {_short(peer)}", flush=True)
    rows = {**own, "svgp": peer}
    return [{"kind": kind, "data": name, "seed": seed, **row} for kind, row in rows.items()]


def _parts(config, name, seed):
    return split(*(waves() if config.quick else datasets.regression(name, config.data)), seed)


def waves(n=600, seed=0):
    """Return two columns and a sum of waves with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + np.cos(3.0 * X[:, 1]) + 0.2 * rng.standard_normal(n)


def split(X, y, seed):
    """Return (rows to learn from, validation, test), each (X, y), standardised by all but test."""
    order = np.random.default_rng(seed).permutation(len(y))
    n = len(y) // 10
    test, valid, learn = order[:n], order[n : 2 * n], order[2 * n :]
    known = order[n:]
    X = X[:, X[known].std(axis=0) > 0.0]
    X = (X - X[known].mean(axis=0)) / X[known].std(axis=0)
    y = (y - y[known].mean()) / y[known].std()
    return tuple((X[rows], y[rows]) for rows in (learn, valid, test))


def scores(y, mean, variance):
    """Return RMSE, log loss, and the share of 90 % intervals that hold their target."""
    squared = (y - mean) ** 2
    return {
        "rmse": float(np.sqrt(squared.mean())),
        "nlpd": float(0.5 * np.mean(np.log(2.0 * np.pi * variance) + squared / variance)),
        "coverage": float(np.mean(squared < 1.6448536269514722**2 * variance)),
    }


def _ours(parts, seed, n_inducing, kernel, losses):
    """One kernel with either noise, learnt from all that is known."""
    learn, valid, test = parts
    return {
        kind: {
            "setting": kernel,
            "valid_nlpd": losses[noise],
            **_judged(kernel, noise, joined(learn, valid), test, seed, n_inducing),
        }
        for kind, noise in KINDS.items()
    }


def _judged(kernel, likelihood, known, held_out, seed, n_inducing):
    """CPU seconds of a fit, and its figures on rows held out."""
    X, y = known
    model = estimator(kernel, X.shape[1], likelihood, n_inducing, seed)
    with cpu_clock() as clock:
        model.fit(X, y)
    return {"cpu": clock.cpu, **scored(model, *held_out)}


def scored(model, X, y):
    """RMSE, log loss and coverage by the whole predictive distribution."""
    predictive = model.predict_proba(X)
    low, high = predictive.interval(0.9).T
    return {
        "rmse": float(np.sqrt(np.mean((y - predictive.mean()) ** 2))),
        "nlpd": float(-np.mean(predictive.log_pdf(y))),
        "coverage": float(np.mean((low <= y) & (y <= high))),
    }


def estimator(kernel, p, likelihood, n_inducing, seed):
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

    from skpmd import SparseGPRegressorPMD

    start, bounds, nu = np.full(p, np.sqrt(p)), (1e-2, 1e3), KERNELS[kernel]
    shape = RBF(start, bounds) if np.isinf(nu) else Matern(start, bounds, nu=nu)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * shape + WhiteKernel(0.1, (1e-6, 10.0))
    return SparseGPRegressorPMD(
        kernel, n_inducing=n_inducing, likelihood=likelihood, random_state=seed
    )


def joined(one, other):
    return tuple(np.concatenate(pair) for pair in zip(one, other, strict=True))


def _peer(config, name, seed, parts, cpu, cases):
    """SVGP's best figures, from the file of the split where there is one."""
    if config.quick:
        return _best(_train_peers(parts, seed, cpu, cases()))
    path = _file(config, name, seed)
    if not path.exists():
        runs = _train_peers(parts, seed, cpu, cases())
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    return _best(_known(config, name, seed))


def _file(config, name, seed):
    return config.out / "references" / f"svgp-{name}-{seed}.json"


def _known(config, name, seed):
    return json.loads(_file(config, name, seed).read_text(encoding="utf-8"))


def _chosen_setting(parts, n_inducing, cpu):
    """The setting whose short run ends with the best log loss on the validation part."""
    from .baselines import svgp

    learn, valid, _ = parts
    tried = []
    for setting in [{"kernel": kernel, **one} for kernel in KERNELS for one in PEER]:
        *_, (_, _, last) = svgp.train(
            *learn, n_inducing=n_inducing, cpu_budget=TRIAL * cpu, evaluate=_judge(valid),
            batch_size=BATCH, seed=0, **setting,
        )  # fmt: skip
        if not isinstance(last, svgp.Failed):
            tried.append((last["nlpd"], len(tried), setting))
    return min(tried)[2]


def _train_peers(parts, seed, cpu, cases):
    """Runs of ten times our CPU, judged on the test part on the way."""
    from .baselines import svgp

    learn, valid, test = parts
    runs = []
    for case in cases:
        points = svgp.train(
            *joined(learn, valid), cpu_budget=BUDGET * cpu, batch_size=BATCH, seed=seed,
            checkpoints=[share * cpu for share in (0.5, 1, 2, 4, 7)], evaluate=_judge(test),
            **case,
        )  # fmt: skip
        for at, epoch, found in points:
            if not isinstance(found, svgp.Failed):
                runs.append({**case, "cpu": at, "our_cpu": cpu, "epoch": epoch, **found})
    return runs


def _judge(data):
    return lambda predict: scores(data[1], *predict(data[0]))


def _best(runs):
    """The best of each figure, of all runs and of all points on the way."""
    by_loss = min(runs, key=lambda one: one["nlpd"])
    setting = f"{by_loss['optimizer']} {by_loss['kernel']} {by_loss['learning_rate']}"
    return {
        "setting": f"{setting} M{by_loss['n_inducing']}",
        "cpu": by_loss["cpu"],
        "rmse": min(one["rmse"] for one in runs),
        "nlpd": by_loss["nlpd"],
        "coverage": by_loss["coverage"],
    }


def _short(row):
    return f"{row['rmse']:.4f} / {row['nlpd']:.4f} / {row['cpu']:.0f} s"


def _means(rows, key, kinds=("pmd", "svgp")):
    """Kind -> {data set: mean over splits}."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    return {
        kind: {
            name: float(np.mean([r[key] for r in rows if (r["kind"], r["data"]) == (kind, name)]))
            for name in names
        }
        for kind in kinds
    }


def _chosen(rows):
    """Of ours, the noise of the better log loss on the validation part, case by case."""
    cases = {}
    for row in rows:
        if row["kind"] != "svgp":
            cases.setdefault((row["data"], row["seed"]), []).append(row)
    best = [min(pair, key=lambda row: row["valid_nlpd"]) for pair in cases.values()]
    return [{**row, "kind": "chosen"} for row in best]


def gates(rows):
    """Data sets won by either figure, the prototype's figures, coverage, budgets."""
    found = []
    for place, (key, text) in enumerate((("rmse", "RMSE"), ("nlpd", "log loss"))):
        means = _means(rows, key)
        won = sum(means["pmd"][name] < means["svgp"][name] for name in means["pmd"])
        least = LEAST_SETS if len(means["pmd"]) > 1 else 1
        found.append(Gate(f"data sets ahead by {text}", won, least, ">="))
        chosen = _means(_chosen(rows), key, ("chosen",))["chosen"]
        for name in (name for name in chosen if name in PROTOTYPE):
            bound = PROTOTYPE[name][place]
            found.append(Gate(f"{name}, {text} beside the prototype", chosen[name], bound))
    coverage = float(np.mean(list(_means(rows, "coverage")["pmd"].values())))
    found.append(Gate("coverage of 90 % intervals", coverage, 0.88, ">="))
    found.append(Gate("coverage of 90 % intervals", coverage, 0.92))
    return found


def plot(rows, path):
    """Differences of log loss and of RMSE, data set by data set."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    for panel, key, text in zip(axes, ("nlpd", "rmse"), ("log loss, nats", "RMSE"), strict=True):
        means = _means(rows, key)
        names = list(means["pmd"])
        gap = [means["svgp"][name] - means["pmd"][name] for name in names]
        panel.barh(range(len(names)), gap)
        panel.axvline(0.0, color="grey", linewidth=0.8)
        panel.set_yticks(range(len(names)), [name.removeprefix("uci_") for name in names])
        panel.set(xlabel=f"{text}: SVGP less skpmd", xscale="symlog" if key == "nlpd" else "linear")
    figure.savefig(path, dpi=120)
    plt.close(figure)
