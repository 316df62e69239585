"""Data in parts: `partial_fit` against the whole posterior, its own estimate of the error, memory.

Three kinds of rows, with the error of the means in posterior sds and the largest relative error
of an sd:

* ``stream``: one pass over ten parts, each row read once and then gone.
* ``passes``: ``total_samples`` set, eight passes over ten parts in a new order each.
* ``endless``: 10 million generated rows of 20 columns, each chunk forgotten after its call, in a
  process of its own; the exact answer is Newton's method over the same chunks.

``auto`` is `BayesianLogisticRegressionPMD`, ``custom`` the same model given to
`ParticleMirrorDescent` as functions, 4000 particles each. ``estimate`` is
``diagnostics_["mean_error"]``, on which the warning rests. The truth is the NUTS reference of the
data set, prior N(0, 1).

``--quick``: generated data of few columns against ``fit``, 200,000 rows.
"""

import warnings
from types import SimpleNamespace

import numpy as np
from scipy.special import expit

from ..harness import datasets
from ..harness.memory import resident
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.worker import alone
from ..peers.references import cached_reference

NAMES = ("keel_pima", "keel_german")
METHODS = ("auto", "custom")
SEEDS = 3
PARTS, PASSES = 10, 8
NEWTON_STEPS = 4  # from the streamed mean: the last moves by less than 1e-9 sd
BAD, GOOD = 0.25, 0.1  # errors of means that must be, and must not be, warned of


def run(config):
    """Stream each data set by each method, then the endless stream."""
    if config.quick:
        parts = [datasets.generated(1000, 500, 8)]
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
    return [*rows, {"kind": "endless", **alone(endless, job)}]


def _truth(data, config):
    if not config.quick:
        return cached_reference(data, config.cache)
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
        scale=None,
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
        "rejuvenations": int(model.history_["rejuvenations"].sum()),
        "warned": bool(caught),
    }


def endless(job):
    """Warm up, stream generated chunks, look at the memory, compare with the exact answer."""
    from skpmd import BayesianLogisticRegressionPMD

    params = {"prior_scale": 1.0, "intercept_prior_scale": 1.0, "random_state": job["seed"]}
    X, y = chunk(job, 0)
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        BayesianLogisticRegressionPMD(**params).partial_fit(X[:1000], y[:1000], classes=[0, 1])
        caught.clear()
        before, peaks = resident("VmRSS"), []
        model = BayesianLogisticRegressionPMD(**params)
        for number in range(job["chunks"]):
            caught.clear()
            model.partial_fit(*chunk(job, number), classes=[0, 1])
            peaks.append(resident("VmHWM"))
    mean, sd = model.posterior_.mean(), model.posterior_.std()
    mode, exact = newton(job, mean)
    return {
        "rows": job["chunks"] * job["rows"],
        "max_mean_error": float(np.abs((mean - mode) / exact).max()),
        "max_sd_error": float(np.abs(sd / exact - 1.0).max()),
        "estimate": model.diagnostics_["mean_error"],
        "rejuvenations": int(model.history_["rejuvenations"].sum()),
        "cpu": clock.cpu,
        "peak_mb": peaks[-1] - before,
        "growth_mb": peaks[-1] - peaks[len(peaks) // 5],
        "warned": bool(caught),
    }


def chunk(job, number):
    """Correlated columns and labels from a logistic model, all from the number of the chunk."""
    d = job["columns"]
    fixed = np.random.default_rng(job["seed"])
    mixing = np.eye(d) + 0.2 * fixed.standard_normal((d, d))
    coef = fixed.normal(0.0, 0.5, d)
    rng = np.random.default_rng([job["seed"], number])
    X = (rng.standard_normal((job["rows"], d)) @ mixing).astype(np.float32)
    y = (rng.random(job["rows"]) < expit(X @ coef - 0.5)).astype(np.int64)
    return X, y


def newton(job, theta):
    """Mode and standard deviations of the Laplace approximation, prior N(0, 1) throughout."""
    for _ in range(NEWTON_STEPS):
        gradient, hessian = -theta, np.eye(len(theta))
        for number in range(job["chunks"]):
            X, y = chunk(job, number)
            X = np.column_stack([X.astype(np.float64), np.ones(len(X))])
            probability = expit(X @ theta)
            gradient = gradient + X.T @ (y - probability)
            hessian += (X.T * (probability * (1.0 - probability))) @ X
        theta = theta + np.linalg.solve(hessian, gradient)
    return theta, np.sqrt(np.diag(np.linalg.inv(hessian)))


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


def plot(rows):
    """Estimate against error, filled where warned."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 6.5), layout="constrained")
    groups = {}
    for row in rows:
        name = row.get("data", "generated").removeprefix("keel_")
        label = ", ".join([name, row["kind"], *([row["method"]] if "method" in row else [])])
        groups.setdefault(label, []).append(row)
    for number, (label, own) in enumerate(groups.items()):
        style = {"marker": "os^Dv*P"[number % 7], "linestyle": "", "mec": f"C{number % 10}"}
        for row in own:
            fill = f"C{number % 10}" if row["warned"] else "none"
            axes.plot(row["max_mean_error"], row["estimate"], mfc=fill, **style)
        axes.plot([], [], label=label, mfc="none", **style)
    axes.plot([], [], "o", color="black", label="filled: warned")
    axes.set(xscale="log", yscale="log", xlabel="largest error of a mean, posterior sds")
    axes.set(ylabel="its estimate, posterior sds")
    ends = [min(row["max_mean_error"] for row in rows), max(row["estimate"] for row in rows)]
    axes.plot(ends, ends, "k:", linewidth=1.0, label="estimate = error")
    axes.axvline(GOOD, color="grey", linestyle="-.", label=f"no warning due below {GOOD:g}")
    axes.axvline(BAD, color="grey", linestyle="--", label=f"a warning due above {BAD:g}")
    plain_ticks(axes.xaxis, at=(1.0,))
    plain_ticks(axes.yaxis, at=(1.0,))
    legend_above(figure, [axes], ncols=3)
    return figure
