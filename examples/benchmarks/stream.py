"""Data in parts: `partial_fit` against the whole posterior, its own estimate of the error, memory.

Three kinds of rows, with the error of the means in posterior sds and the largest relative error
of an sd:

* ``stream``: one pass over ten parts, each row seen once and then gone.
* ``passes``: ``total_samples`` set, eight passes over ten parts in a new order each.
* ``endless``: 10 million generated rows of 20 columns, each chunk forgotten after its call, in a
  process of its own (`stream_worker`); the exact answer is Newton's method over the same chunks.

``auto`` is `BayesianLogisticRegressionPMD`, ``custom`` the same model given to
`ParticleMirrorDescent` as functions, 4000 particles each. ``estimate`` is
``diagnostics_["mean_error"]``, on which the warning rests. The truth is the NUTS reference of the
data set, prior N(0, 1).

``--quick``: scikit-learn's breast cancer table and generated data against ``fit``, 200,000 rows.
"""

import json
import os
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np

from . import datasets
from .baselines.references import cached_reference
from .study import FOLDER, Gate, pyplot

NAMES = ("keel_pima", "keel_german")
METHODS = ("auto", "custom")
SEEDS = 3
PARTS, PASSES = 10, 8
BAD, GOOD = 0.25, 0.1  # errors of means that must be, and must not be, warned of


def run(config):
    """Stream each data set by each method, then the endless stream."""
    if config.quick:
        parts = [datasets.breast_cancer(), datasets.generated(1000, 500, 8)]
        job = {"chunks": 20, "rows": 10_000, "columns": 20, "seed": 0}
    else:
        parts = [datasets.load(name, config.data) for name in NAMES]
        job = {"chunks": 100, "rows": 100_000, "columns": 20, "seed": 0}
    rows = []
    for data in parts:
        truth = _truth(data, config)
        for seed in range(SEEDS):
            rows += [_measure(data, truth, seed, method, 1) for method in METHODS]
            rows.append(_measure(data, truth, seed, "auto", PASSES))
        print(f"{data.name} done", flush=True)
    return [*rows, _endless(job)]


def _truth(data, config):
    if not config.quick:
        return cached_reference(data, config.out / "references")
    posterior = _estimator("auto", 0, None, data.X.shape[1] + 1).fit(data.X, data.y).posterior_
    return SimpleNamespace(mean=posterior.mean(), sd=posterior.std())


def _estimator(method, seed, total, d):
    from skpmd import BayesianLogisticRegressionPMD, ParticleMirrorDescent

    if method == "custom":
        return ParticleMirrorDescent(
            log_likelihood,
            lambda theta: -0.5 * (theta**2).sum(axis=1) - 0.5 * d * np.log(2 * np.pi),
            lambda rng, m: rng.standard_normal((m, d)),
            n_particles=4000,
            total_samples=total,
            random_state=seed,
        )
    return BayesianLogisticRegressionPMD(
        prior_scale=1.0,
        intercept_prior_scale=1.0,
        total_samples=total,
        random_state=seed,
    )


def log_likelihood(theta, X, y):
    """Logistic regression with the intercept last."""
    logits = theta[:, :-1] @ X.T + theta[:, -1:]
    return -np.logaddexp(0.0, np.where(y == 1, -1.0, 1.0) * logits).sum(axis=1)


def _measure(data, truth, seed, method, passes):
    """One stream: its row. The warning that counts is that of the last call."""
    rng = np.random.default_rng(seed)
    total = len(data.y) if passes > 1 else None
    model = _estimator(method, seed, total, data.X.shape[1] + 1)
    known = {} if method == "custom" else {"classes": [0, 1]}
    for _ in range(passes):
        for part in np.array_split(rng.permutation(len(data.y)), PARTS):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.partial_fit(data.X[part], data.y[part], **known)
    mean, sd = model.posterior_.mean(), model.posterior_.std()
    return {
        "kind": "passes" if passes > 1 else "stream",
        "data": data.name,
        "method": method,
        "seed": seed,
        "max_mean_error": float(np.abs((mean - truth.mean) / truth.sd).max()),
        "max_sd_error": float(np.abs(sd / truth.sd - 1.0).max()),
        "estimate": model.diagnostics_["mean_error"],
        "redraws": int(model.history_["rejuvenations"].sum()),
        "warned": bool(caught),
    }


def _endless(job):
    """Run the worker; threads are limited in the environment."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", f"{__package__}.stream_worker"],
        input=json.dumps(job),
        env={**os.environ, **threads},
        cwd=FOLDER.parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {"kind": "endless", **json.loads(done.stdout)}


def gates(rows):
    """Compare errors with the targets, warnings with errors."""
    found = []
    bounds = {("stream", "keel_pima"): (0.3, 0.1), ("passes", "keel_pima"): (0.1, None)}
    bounds["passes", "keel_german"] = (0.2, None)
    for (kind, name), (mean_bound, sd_bound) in bounds.items():
        own = [row for row in rows if row.get("data") == name and row["kind"] == kind]
        own = [row for row in own if row["method"] == "auto"]
        if own:
            worst = max(row["max_mean_error"] for row in own)
            found.append(Gate(f"{name} {kind}, max mean error, sd", worst, mean_bound))
        if own and sd_bound:
            worst = max(row["max_sd_error"] for row in own)
            found.append(Gate(f"{name} {kind}, max sd error", worst, sd_bound))
    endless = rows[-1]
    found.append(Gate("endless, max mean error, sd", endless["max_mean_error"], 0.2))
    found.append(Gate("endless, growth of memory, MB", endless["growth_mb"], 20.0))
    silent = sum(row["max_mean_error"] > BAD and not row["warned"] for row in rows)
    found.append(Gate(f"errors above {BAD:g} sd without a warning", silent, 0))
    false = sum(row["max_mean_error"] < GOOD and row["warned"] for row in rows) / len(rows)
    found.append(Gate(f"share of warnings at errors below {GOOD:g} sd", false, 0.1))
    return found


def plot(rows, path):
    """Estimate against error, filled where warned."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
    groups = {}
    for row in rows:
        name = row.get("data", "generated").removeprefix("keel_")
        label = f"{name}, {row['kind']} {row.get('method', '')}".strip()
        groups.setdefault(label, []).append(row)
    for number, (label, own) in enumerate(groups.items()):
        for row in own:
            fill = f"C{number % 10}" if row["warned"] else "none"
            place = row["max_mean_error"], row["estimate"]
            axes.plot(*place, "o", mec=f"C{number % 10}", mfc=fill, label=label)
            label = None
    ends = np.array([0.01, 2.0])
    axes.plot(ends, ends, "k:", linewidth=0.8)
    axes.axvline(BAD, color="grey", linewidth=0.8)
    axes.axvline(GOOD, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="largest error of a mean, posterior sds")
    axes.set(ylabel="estimate (filled: warned)")
    axes.legend(fontsize=6)
    figure.savefig(path, dpi=120)
    plt.close(figure)
