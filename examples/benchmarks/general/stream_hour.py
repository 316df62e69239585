"""An hour of `partial_fit`: memory, CPU of a call, and the distance from a fit of all the rows.

A logistic regression of 20 columns, a mixture of three components in four columns and a Gaussian
process of two columns and 200 inducing inputs take turns in one process with one thread, each with
500 new rows a call, as many calls as fit in ``--minutes`` (60 by default). Rows are drawn for their
call and forgotten after it.

* ``calls``: twelfths of the time. Median CPU milliseconds of a call of each model, and of a fixed
  computation beside them, for the clock of a processor that others use too is not steady; and the
  largest memory of the process that is no file's.
* ``error``: after a sixteenth, a quarter and all of the calls, beside `fit` of the same rows, in
  blocks, in a process of its own. ``mean_error`` is the largest difference of a posterior mean
  (coefficients, means of components, values of the function at new rows) in the standard deviations
  of the fit, ``behind`` by how much its log score of new rows is better, in nats a row. The fit of
  the process has the kernel and inducing inputs of the stream.

``--quick``: half a minute.
"""

import time
import warnings

import numpy as np
from scipy.special import expit

from ..harness.memory import resident
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.worker import alone

MODELS = ("logistic", "mixture", "process")
ROWS, PARTS, N_NEW = 500, 12, 4000
AFTER = (1 / 16, 1 / 4, 1.0)  # Shares of the time after which a stream is held beside a fit.
_BLOCK = 20  # Calls whose rows are a block of the fit.


def run(config):
    """Stream, then fit what the streams have seen."""
    minutes = 0.5 if config.quick else config.minutes
    rows, snapshots = alone(stream, {"minutes": minutes})
    for name in MODELS:
        for known in snapshots:
            own = known["models"][name]
            job = {"name": name, "calls": known["calls"], **own["given"]}
            row = {"kind": "error", "model": name, "minute": known["minute"]}
            rows.append({**row, "rows": known["calls"] * ROWS, **distance(own, alone(refit, job))})
            print(rows[-1], flush=True)
    return rows


def stream(job):
    """The calls of all models: rows of the study, and what the models were at some times."""
    import_and_compile()
    seconds, models = 60.0 * job["minutes"], {name: made(name) for name in MODELS}
    calls, taken, snapshots, rows = 0, [], [], []
    start = time.perf_counter()
    while (now := time.perf_counter() - start) < seconds:
        times = [call(models[name], name, calls) for name in MODELS]
        taken.append([*times, reference(), resident("RssAnon")])
        calls += 1
        if now >= AFTER[len(snapshots)] * seconds:
            snapshots.append(snapshot(models, calls, now))
        if now >= (len(rows) + 1) / PARTS * seconds:
            rows.append(summary(taken, now, calls))
            print(rows[-1], flush=True)
            taken = []
    now = time.perf_counter() - start
    return [*rows, summary(taken, now, calls)], [*snapshots, snapshot(models, calls, now)]


def import_and_compile():
    """What happens once in a process is no part of the stream."""
    for name in MODELS:
        model = made(name)
        for number in range(3):
            call(model, name, number)


def made(name, **options):
    """An estimator of a model, by its defaults but for what the study says."""
    from skpmd import BayesianLogisticRegressionPMD, GaussianMixturePMD, SparseGPRegressorPMD

    if name == "logistic":
        return BayesianLogisticRegressionPMD(random_state=0)
    if name == "mixture":
        return GaussianMixturePMD(3, random_state=0)
    known = {"n_inducing": 200, "normalize_y": False, "random_state": 0}
    return SparseGPRegressorPMD(**{**known, **options})


def drawn(name, number, n=ROWS):
    """The rows of a call by its number, as (X, y) or (X,); -1 are the new ones."""
    rng = np.random.default_rng([MODELS.index(name), number + 1])
    if name == "logistic":
        X = rng.standard_normal((n, 20))
        return X, (rng.random(n) < expit(X @ np.linspace(-1.0, 1.0, 20) - 0.5)).astype(int)
    if name == "mixture":
        return (rng.standard_normal((n, 4)) + 4.0 * np.eye(4)[rng.integers(3, size=n)],)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, function(X) + 0.3 * rng.standard_normal(n)


def function(X):
    """What the rows of the process are noisy values of."""
    return np.sin(3.0 * X[:, 0]) + np.cos(2.0 * X[:, 1]) * X[:, 0]


def call(model, name, number):
    """One call of `partial_fit`; its CPU in milliseconds."""
    rows = drawn(name, number)
    known = {"classes": [0, 1]} if name == "logistic" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.partial_fit(*rows, **known)
        return 1e3 * (time.process_time() - start)


def reference():
    """CPU milliseconds of a fixed computation: products, exponentials and sums of a few MB."""
    start = time.process_time()
    table = np.random.default_rng(0).standard_normal((500, 200))
    for _ in range(4):
        np.logaddexp(0.0, table @ table[:200].T).sum(axis=0)
    return 1e3 * (time.process_time() - start)


def summary(taken, now, calls):
    """A row of the study."""
    *times, memory = np.transpose(taken)
    by_name = zip(MODELS, times, strict=False)
    medians = {f"{name}_ms": float(np.median(one)) for name, one in by_name}
    return {
        "kind": "calls", "minute": now / 60.0, "rows": calls * ROWS, **medians,
        "reference_ms": float(np.median(times[-1])), "memory_mb": float(memory.max()),
    }  # fmt: skip


def snapshot(models, calls, now):
    """What the models are now."""
    found = {name: {**answers(one, name, calls), "given": {}} for name, one in models.items()}
    process = models["process"]
    found["process"]["given"] = {
        "theta": process.kernel_.theta.tolist(),
        "inducing": process.inducing_.tolist(),
    }
    return {"minute": now / 60.0, "calls": calls, "models": found}


def answers(model, name, calls):
    """Posterior means, their standard deviations and the log score of new rows."""
    X, *y = drawn(name, -1, N_NEW)
    if name == "logistic":
        mean, sd = model.posterior_.mean(), model.posterior_.std()
        p = model.predict_proba(X)[:, 1]
        score = np.log(np.where(y[0] == 1, p, 1.0 - p)).mean()
    elif name == "mixture":
        order = np.argsort(model.means_ @ np.arange(4.0))  # Components are known by their places.
        mean, n = model.means_[order], calls * ROWS * model.weights_[order]
        sd = np.sqrt(np.diagonal(model.covariances_[order], axis1=1, axis2=2) / n[:, None])
        score = model.score(X)
    else:
        values = model.predict_proba(X, "f")
        mean, sd = values.mean(), values.std()
        score = np.mean(model.log_predictive_density(X, y[0]))
    return {"mean": np.ravel(mean).tolist(), "sd": np.ravel(sd).tolist(), "score": float(score)}


class Drawn:
    """The rows of so many calls in blocks, drawn anew whenever they are read."""

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def __len__(self):
        return -(-self.calls // _BLOCK)

    def __getitem__(self, i):
        numbers = range(i * _BLOCK, min((i + 1) * _BLOCK, self.calls))
        parts = [drawn(self.name, number) for number in numbers]
        X, *y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return (X, *y)


def refit(job):
    """What `fit` makes of the same rows."""
    from skpmd.data import Blocks

    options = {}
    if job["name"] == "process":
        kernel = made("process").fit(*drawn("process", 0)).kernel_
        options = {
            "kernel": kernel.clone_with_theta(np.array(job["theta"])),
            "optimizer": None, "inducing_init": np.array(job["inducing"]),
        }  # fmt: skip
    model = made(job["name"], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(Blocks(Drawn(job["name"], job["calls"])))
    return answers(model, job["name"], job["calls"])


def distance(own, fit):
    """How far the stream is from the fit."""
    error = np.abs(np.subtract(own["mean"], fit["mean"])) / fit["sd"]
    return {
        "mean_error": float(error.max()),
        "sd_error": float(np.abs(np.divide(own["sd"], fit["sd"]) - 1.0).max()),
        "behind": fit["score"] - own["score"],
    }


def gates(rows):
    """Growth of memory and of times after the first quarter, and of errors."""
    calls = [row for row in rows if row["kind"] == "calls"]
    early, late = calls[PARTS // 4 : PARTS // 2], calls[-PARTS // 4 :]
    grown = late[-1]["memory_mb"] - early[0]["memory_mb"]
    found = [Gate("memory at the end over that after a quarter, MB", grown, 20.0)]
    for name in MODELS:
        before, after = (
            np.mean([row[f"{name}_ms"] / row["reference_ms"] for row in some])
            for some in (early, late)
        )
        found.append(Gate(f"{name}, CPU of a call, last quarter over second", after / before, 1.1))
    for name in MODELS:
        first, *_, last = [row for row in rows if row.get("model") == name]
        label = f"{name}, error of means at the end, sd: of the first, or a fifth"
        found.append(Gate(label, last["mean_error"], max(first["mean_error"], 0.2)))
        label = f"{name}, nats a row behind at the end"
        found.append(Gate(label, last["behind"], max(first["behind"], 1e-3)))
    return found


def plot(rows):
    """CPU of the calls, memory and errors."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
    calls = [row for row in rows if row["kind"] == "calls"]
    minutes = [row["minute"] for row in calls]
    colors = dict(zip((*MODELS, "reference"), ("C0", "C1", "C2", "grey"), strict=True))
    for name, color in colors.items():
        label = "fixed computation" if name == "reference" else name
        times = [row[f"{name}_ms"] for row in calls]
        axes[0].plot(minutes, times, "o-", color=color, label=label, markersize=4)
        own = [row for row in rows if row.get("model") == name]
        places = [row["rows"] / 1e6 for row in own], [row["mean_error"] for row in own]
        axes[2].plot(*places, "o-", color=color)
    memory = [row["memory_mb"] for row in calls]
    axes[1].plot(minutes, memory, "ks-", label="memory of the process", markersize=4)
    axes[0].set(xlabel="minutes", ylabel="CPU of a call, ms", yscale="log")
    axes[1].set(xlabel="minutes", ylabel="memory, MB", ylim=(0.0, 1.1 * max(memory)))
    axes[2].set(xscale="log", yscale="log", xlabel="million rows")
    axes[2].set(ylabel="largest error of a mean, sds of the fit")
    plain_ticks(axes[0].yaxis)
    plain_ticks(axes[2].xaxis)
    legend_above(figure, axes[:2], ncols=5)
    return figure
