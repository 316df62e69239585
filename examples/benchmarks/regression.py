"""Sparse GP regression beside GPyTorch's SVGP: error, log loss and coverage for less CPU.

``--quick``: generated data, SVGP with few inducing points. ``--jobs N``: cases side by side.

Ten data sets, three random splits (10 % test, 10 % validation, the rest to learn from), columns and
targets standardised by all but the test part, one thread for each case. Each side tries its
settings on the rows that are neither test nor validation, takes the one of the best log loss on the
validation part, and learns from all but the test part with it.

* ``pmd``: RBF, Matern-3/2 or Matern-5/2; 2000 inducing inputs, everything else by default.
* ``pmd student_t``: the same kernel with Student noise, and its log loss on the validation part.
* ``svgp``: the same three kernels; Adam with learning rates 0.01 and 0.05, and natural gradients
  with 0.05 for the rest. Tried with 512 inducing points and the CPU of ours; the chosen one
  has 512 and 1024 points and each time ten times the CPU of ours, evaluated along the way. Of both
  and of all points on the way the best one *on the test part* is taken, for each figure by itself:
  more than a user could know.

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
    """Fit, choose and compare, one data set and split after the other."""
    cases = [("waves", 0)] if config.quick else [(n, s) for s in range(SEEDS) for n in NAMES]
    found = Parallel(n_jobs=config.jobs)(delayed(_case)(config, *case) for case in cases)
    return [row for rows in found for row in rows]


def _case(config, name, seed):
    parts = split(*(waves() if config.quick else datasets.regression(name, config.data)), seed)
    own, student = _ours(parts, seed, 100 if config.quick else N_INDUCING)
    peer = _peer(config, name, seed, parts, own["cpu"])
    print(f"{name}, split {seed}: ours {_short(own)}, SVGP {_short(peer)}", flush=True)
    rows = {"pmd": own, "pmd student_t": student, "svgp": peer}
    return [{"kind": kind, "data": name, "seed": seed, **row} for kind, row in rows.items()]


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


def _ours(parts, seed, n_inducing):
    """The best kernel, learnt anew from all that is known; the same with Student noise."""
    learn, valid, test = parts

    def fitted(kernel, likelihood, X, y):
        model = estimator(kernel, X.shape[1], likelihood, n_inducing, seed)
        with cpu_clock() as clock:
            model.fit(X, y)
        return model, clock.cpu

    def judged(kernel, likelihood, valid_nlpd):
        model, cpu = fitted(kernel, likelihood, *joined(learn, valid))
        found = {"setting": kernel, "cpu": cpu, "valid_nlpd": valid_nlpd}
        return {**found, **scored(model, *test)}

    tried = {
        kernel: scored(fitted(kernel, "gaussian", *learn)[0], *valid)["nlpd"] for kernel in KERNELS
    }
    kernel = min(tried, key=tried.get)
    student = scored(fitted(kernel, "student_t", *learn)[0], *valid)["nlpd"]
    return judged(kernel, "gaussian", tried[kernel]), judged(kernel, "student_t", student)


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


def _peer(config, name, seed, parts, cpu):
    """SVGP's best figures, from the file of the case where there is one."""
    from .baselines import svgp

    path = config.out / "references" / f"svgp-{name}-{seed}.json"
    if config.quick or not path.exists():
        runs = _train_peers(svgp, parts, seed, cpu, (50, 100) if config.quick else PEER_INDUCING)
        if config.quick:
            return _best(runs)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    return _best(json.loads(path.read_text(encoding="utf-8")))


def _train_peers(svgp, parts, seed, cpu, sizes):
    learn, valid, test = parts
    common = {"batch_size": BATCH, "seed": seed}

    def judge(data):
        return lambda predict: scores(data[1], *predict(data[0]))

    tried = []
    for setting in [{"kernel": kernel, **one} for kernel in KERNELS for one in PEER]:
        found = svgp.train(
            *learn, n_inducing=sizes[0], cpu_budget=TRIAL * cpu, evaluate=judge(valid),
            **common, **setting,
        )  # fmt: skip
        last = found[-1][2]
        if not isinstance(last, svgp.Failed):
            tried.append((last["nlpd"], len(tried), setting))
    runs, setting = [], min(tried)[2]
    for n_inducing in sizes:
        points = svgp.train(
            *joined(learn, valid), n_inducing=n_inducing, cpu_budget=BUDGET * cpu,
            checkpoints=[share * cpu for share in (0.5, 1, 2, 4, 7)], evaluate=judge(test),
            **common, **setting,
        )  # fmt: skip
        for at, epoch, found in points:
            if not isinstance(found, svgp.Failed):
                case = {"n_inducing": n_inducing, **setting}
                runs.append({**case, "cpu": at, "our_cpu": cpu, "epoch": epoch, **found})
    return runs


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
