"""Sparse GP regression beside GPyTorch's SVGP: error, log loss and coverage for less CPU.

``--quick``: generated data, SVGP with few inducing points.

Ten data sets, three random splits (10 % test, 10 % validation, the rest to learn from), columns and
targets standardised by all but the test part, one thread. Each side tries four settings on the rows
that are neither test nor validation, takes the one of the best log loss on the validation part, and
learns from all but the test part with it.

* ``pmd``: RBF or Matern-3/2, "fitc" or "vfe"; 2000 inducing inputs, everything else by default.
* ``svgp``: Adam and natural gradients; RBF or Matern-3/2, learning rate 0.01 or 0.05, tried with
  512 inducing points and twice the CPU of ours; then 512 and 1024 points with ten times the CPU of
  ours, evaluated along the way. Of the four outcomes and of all points on the way the best one *on
  the test part* is taken, for each figure by itself: more than a user could know.

The rows of SVGP are kept beside the references, one file for each case, and not made again.
"""

import json

import numpy as np

from . import datasets
from .study import Gate, pyplot
from .timing import cpu_clock

NAMES = (
    "uci_kin8nm", "uci_protein", "uci_pol", "uci_elevators", "uci_bike",
    "uci_naval", "uci_power", "uci_parkinsons", "california", "diamonds",
)  # fmt: skip
PROTOTYPE = {  # RMSE and log loss, one split
    "uci_kin8nm": (0.251, 0.031),
    "uci_protein": (0.644, 0.964),
    "uci_pol": (0.131, -0.785),
    "uci_bike": (0.237, -0.080),
    "uci_elevators": (0.382, 0.455),
}
SEEDS = 3
N_INDUCING, PEER_INDUCING = 2000, (512, 1024)
TRIAL, BUDGET = 2.0, 10.0  # CPU of SVGP, in that of ours
BATCH = 2048  # GPyTorch is fast where a batch has more rows than there are inducing points
LEAST_SETS = 8


def run(config):
    """Fit, choose and compare, one data set and split after the other."""
    names, seeds = (("waves",), 1) if config.quick else (NAMES, SEEDS)
    rows = []
    for name in names:
        for seed in range(seeds):
            parts = split(
                *(waves() if config.quick else datasets.regression(name, config.data)), seed
            )
            own = _ours(parts, seed, 100 if config.quick else N_INDUCING)
            rows.append({"kind": "pmd", "data": name, "seed": seed, **own})
            peer = _peer(config, name, seed, parts, own["cpu"])
            rows.append({"kind": "svgp", "data": name, "seed": seed, **peer})
            print(f"{name}, split {seed}: ours {_short(own)}, SVGP {_short(peer)}", flush=True)
    return rows


def waves(n=2000, seed=0):
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
    """The best of four settings, learnt anew from all that is known."""
    learn, valid, test = parts

    def fitted(setting, X, y):
        kernel, approximation = setting
        model = _estimator(kernel, X.shape[1], approximation, n_inducing, seed)
        with cpu_clock() as clock:
            model.fit(X, y)
        return model, clock.cpu

    def scored(model, X, y):
        predictive = model.predict_proba(X)
        return scores(y, predictive.mean(), predictive.var())

    tried = {}
    for setting in [(k, a) for k in ("rbf", "matern32") for a in ("fitc", "vfe")]:
        tried[setting] = scored(fitted(setting, *learn)[0], *valid)["nlpd"]
    setting = min(tried, key=tried.get)
    model, cpu = fitted(setting, *_joined(learn, valid))
    return {"setting": " ".join(setting), "cpu": cpu, **scored(model, *test)}


def _estimator(kernel, p, approximation, n_inducing, seed):
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

    from skpmd import SparseGPRegressorPMD

    start, bounds = np.full(p, np.sqrt(p)), (1e-2, 1e3)
    shape = RBF(start, bounds) if kernel == "rbf" else Matern(start, bounds, nu=1.5)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * shape + WhiteKernel(0.1, (1e-6, 10.0))
    return SparseGPRegressorPMD(
        kernel, n_inducing=n_inducing, approximation=approximation, random_state=seed
    )


def _joined(one, other):
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
    runs = []

    def judge(data):
        return lambda predict: scores(data[1], *predict(data[0]))

    for optimizer in ("adam", "natural"):
        common = {"optimizer": optimizer, "batch_size": BATCH, "seed": seed}
        tried = []
        for setting in svgp.grid():
            found = svgp.train(
                *learn, n_inducing=sizes[0], cpu_budget=TRIAL * cpu, evaluate=judge(valid),
                **common, **setting,
            )  # fmt: skip
            last = found[-1][2]
            if not isinstance(last, svgp.Failed):
                tried.append((last["nlpd"], len(tried), setting))
        for n_inducing in sizes if tried else ():
            setting = min(tried)[2]
            points = svgp.train(
                *_joined(learn, valid), n_inducing=n_inducing, cpu_budget=BUDGET * cpu,
                checkpoints=[share * cpu for share in (0.5, 1, 2, 4, 7)], evaluate=judge(test),
                **common, **setting,
            )  # fmt: skip
            for at, epoch, found in points:
                if not isinstance(found, svgp.Failed):
                    case = {"optimizer": optimizer, "n_inducing": n_inducing, **setting}
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


def _means(rows, key):
    """Figure -> {data set: mean over splits}, for ours and for the peer."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    return {
        kind: {
            name: float(np.mean([r[key] for r in rows if (r["kind"], r["data"]) == (kind, name)]))
            for name in names
        }
        for kind in ("pmd", "svgp")
    }


def gates(rows):
    """Data sets won by either figure, the prototype's figures, coverage."""
    found = []
    for key, text in (("nlpd", "log loss"), ("rmse", "RMSE")):
        means = _means(rows, key)
        won = sum(means["pmd"][name] < means["svgp"][name] for name in means["pmd"])
        least = LEAST_SETS if len(means["pmd"]) > 1 else 1
        found.append(Gate(f"data sets ahead by {text}", won, least, ">="))
        place = 0 if key == "rmse" else 1
        for name in means["pmd"]:
            if name in PROTOTYPE:
                bound = PROTOTYPE[name][place]
                found.append(
                    Gate(f"{name}, {text} beside the prototype", means["pmd"][name], bound)
                )
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
