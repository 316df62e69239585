"""The paper's scale: logistic regression on 1.6 million deformed images of eights and sixes.

The features are those of `deformed_digits`. Each method fits in a process of its own, warm, on one
thread, with X in memory as float32; the row tells its CPU seconds, the peak of its resident memory
over what it held before the fit (X included), and its log loss on the 1,932 test images. The
Laplace approximation (Newton's method in float64 to convergence, prior N(0, 1) on every coordinate)
stands for the posterior: with so many rows it is off by far less than the errors below. Errors of
means are in its sds, errors of sds are relative.

With thirty thousand rows for each coefficient there is nothing left for a posterior to say of a
prediction: the log loss of scikit-learn's point estimate is that of the posterior. Whoever wants
predictions needs no more, and whoever wants standard deviations has them from the Hessian.

* `METHODS`, a row each: means over ten seeds, or one where there is no randomness.
* ``curve``: the paper's peers and what came later, on batches of 100 or 1000 rows from the
  prior (`mnist8m_peers`), root mean square errors over coordinates at shares of our CPU seconds;
  means over ten seeds. Of each the setting that is best on the first seed runs on the others.
  ``verdict``: see `verdicts`. These runs go into the cache as they end, so that a study that was
  stopped goes on; they are made again with other settings, on another processor, or where ours
  takes longer than they had or much less: the processor is then not as busy as it was for them.

``--quick``: 30,000 generated rows of 50 features, two seeds, with the same comparisons.
"""

import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit

from ..harness.cache import CachedRuns
from ..harness.datasets import generated
from ..harness.deformed_digits import DeformedDigits, deformed_digits
from ..harness.memory import resident
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.verdicts import Answer, best, verdicts
from ..harness.worker import alone
from ..peers.laplace import laplace
from ..peers.references import log_loss
from .mnist8m_peers import BATCH, MEMORY, PEERS, curve

RANDOM = ("skpmd", "SGDClassifier")
METHODS = ("laplace", "skpmd", "LogisticRegression", "SGDClassifier")
N_ROWS = 1_600_000
SEEDS = 10
SHARES = (0.03, 0.1, 0.2, 0.5, 1.0)  # of our CPU seconds, at which curves are shown


def run(config):
    """Make the data where they are missing, then fit each method in a fresh process."""
    with tempfile.TemporaryDirectory() as scratch:
        if config.quick:
            data = _generated(Path(scratch))
        else:
            data = deformed_digits(config.data, config.out / "generated", N_ROWS)
        arrays = Path(scratch) / "arrays.npz"
        np.savez(arrays, y=data.y, X_test=data.X_test, y_test=data.y_test)
        job, seeds = (
            {"features": str(data.path), "arrays": str(arrays)},
            2 if config.quick else SEEDS,
        )
        # Ours beside others, too; answers as they come.
        workers = Parallel(n_jobs=config.jobs, backend="threading", return_as="generator")
        cases = [(m, seed) for m in METHODS for seed in range(seeds if m in RANDOM else 1)]
        found = workers(
            delayed(alone)(fit_from_file, {**job, "method": method, "seed": seed})
            for method, seed in cases
        )
        answers = {}
        for (method, _), answer in zip(cases, found, strict=True):
            answers.setdefault(method, []).append(answer)
        (exact,) = answers["laplace"]
        own = [one["cpu"] for one in answers["skpmd"]]
        runs = _cached(config, max(own))
        limit = runs.content["choices"]["max_cpu"]
        job |= {"mean": exact["mean"], "sd": exact["sd"], "max_cpu": limit}
        shown = 1 if config.quick else None
        points = _runs(runs, workers, job, seeds, float(np.mean(own)), shown)
        rows = [_row(method, answers, len(data.y)) for method in METHODS]
        return rows + _beside(answers["skpmd"], exact, points)


def _cached(config, longest):
    """The peers' runs so far; none where the longest of ours is not what it was beside them."""
    protocol = {"rows": N_ROWS, "batch_size": BATCH, "memory": MEMORY}
    runs = CachedRuns(config, "mnist8m-curves", protocol)
    limit = runs.content["choices"].get("max_cpu", 0.0)
    if not 0.8 * limit < longest <= limit:
        runs.content |= {"choices": {"max_cpu": 1.1 * longest}, "rows": []}
    return runs


def _runs(runs, workers, job, seeds, budget, shown):
    """All settings, or the first few, on the first seed; on the others each method's best there."""
    peers = {method: list(several)[:shown] for method, several in PEERS.items()}
    known = {(*one["case"],): one["points"] for one in runs.content["rows"]}

    def measured(cases):
        missing = [case for case in cases if case not in known]
        found = workers(
            delayed(alone)(curve, {**job, "method": method, "setting": setting, "seed": seed})
            for method, setting, seed in missing
        )
        for case, points in zip(missing, found, strict=True):
            known[case] = points
            runs.content["rows"].append({"case": case, "points": points})
            runs.save()
            print(f"{len(known)} runs of peers done", flush=True)
        return {case: known[case] for case in cases}

    first = measured([(m, setting, 0) for m, several in peers.items() for setting in several])
    chosen = {
        method: min(several, key=lambda setting: _error(first[method, setting, 0], budget))
        for method, several in peers.items()
    }
    later = measured([(m, s, seed) for m, s in chosen.items() for seed in range(1, seeds)])
    return {case: points for case, points in (first | later).items() if chosen[case[0]] == case[1]}


def _error(points, budget):
    """The smallest error of means up to a budget."""
    return np.nan_to_num(best([_answer(point) for point in points], budget), nan=np.inf)


def _answer(point):
    return Answer(point["cpu"], point["mean_error"])


def _beside(ours, exact, points):
    """Means of the peers' curves, and verdicts on their errors of means."""
    mean, sd = np.array(exact["mean"]), np.array(exact["sd"])
    own = {
        seed: Answer(
            one["cpu"], float(np.sqrt(np.mean(((np.array(one["mean"]) - mean) / sd) ** 2)))
        )
        for seed, one in enumerate(ours)
    }
    budget = float(np.mean([one.cpu for one in own.values()]))
    places, curves = {}, {}
    for (method, setting, seed), some in points.items():
        curves.setdefault(method, {})[seed] = [_answer(point) for point in some]
        for share in SHARES:
            within = [point for point in some if point["cpu"] <= share * budget]
            if within:
                places.setdefault((method, setting, share), []).append(within[-1])
    rows = []
    for (method, setting, _), some in places.items():
        row = {"kind": "curve", "method": method, "setting": setting, "seeds": len(some)}
        for key in ("rows", "cpu", "mean_error", "sd_error", "log_loss"):
            row[key] = float(np.mean([point[key] for point in some]))
        rows.append(row)
    return rows + verdicts(own, curves, long=1.0)


def _generated(folder):
    """Write the stand-in's features to a file, as `deformed_digits` does."""
    made = generated()
    path = folder / "features.npy"
    np.save(path, made.X.astype(np.float32))
    return DeformedDigits(path, made.y.astype(np.int8), made.X_test, made.y_test)


def fit_from_file(job):
    """Warm up on a few rows, load the features into memory, fit, answer."""
    with np.load(job["arrays"]) as archive:
        arrays = dict(archive)
    y = arrays["y"]
    # Copies, so that no page of the file counts as memory of the fit.
    few = np.array(np.load(job["features"], mmap_mode="r")[:200])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FITS[job["method"]](few, y[:200], 0)
    X = np.load(job["features"])
    before, peak_before = resident("VmRSS"), resident("VmHWM")
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        mean, sd, probability, details = FITS[job["method"]](X, y, job["seed"])
    peak = resident("VmHWM")
    return {
        "mean": mean.tolist(),
        "sd": None if sd is None else sd.tolist(),
        "cpu": clock.cpu,
        # A peak from before the fit (imports, loading) is no memory of the fit.
        "peak_mb": peak - before if peak > peak_before else 0.0,
        "warned": ",".join(sorted({warning.category.__name__ for warning in caught})) or None,
        "log_loss": log_loss(probability(arrays["X_test"]), arrays["y_test"]),
        **details,
    }


def fit_laplace(X, y, seed):
    """Newton's method; the plug-in probability at the mode."""
    approximation = laplace(X, y)
    mode = approximation.mode
    return mode, approximation.std(), lambda rows: expit(rows @ mode[:-1] + mode[-1]), {}


def fit_pmd(X, y, seed):
    """Defaults; the probability averaged over the posterior."""
    from skpmd import BayesianLogisticRegressionPMD

    model = BayesianLogisticRegressionPMD(
        prior_scale=1.0, intercept_prior_scale=1.0, scale=None, random_state=seed
    ).fit(X, y)
    posterior, diagnostics = model.posterior_, model.diagnostics_
    details = {"ess": diagnostics["ess"], "k_hat": diagnostics["pareto_k"]}
    details = {key: None if value is None else float(value) for key, value in details.items()}
    return posterior.mean(), posterior.std(), lambda rows: model.predict_proba(rows)[:, 1], details


def fit_sklearn(X, y, seed, *, method):
    """Fit a point estimate: L2 penalty of the same strength, no penalty on the intercept."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    if method == "LogisticRegression":
        model = LogisticRegression(C=1.0, max_iter=1000)
    else:
        model = SGDClassifier(loss="log_loss", alpha=1.0 / len(X), random_state=seed)
    model.fit(X, y)
    mean = np.concatenate([model.coef_[0], model.intercept_])
    return (
        mean,
        None,
        lambda rows: model.predict_proba(rows)[:, 1],
        {"n_iter": int(np.max(model.n_iter_))},
    )


FITS = {
    "laplace": fit_laplace,
    "skpmd": fit_pmd,
    "LogisticRegression": partial(fit_sklearn, method="LogisticRegression"),
    "SGDClassifier": partial(fit_sklearn, method="SGDClassifier"),
}


def _row(method, answers, n_rows):
    (exact,), several = answers["laplace"], answers[method]
    mean, sd = np.array(exact["mean"]), np.array(exact["sd"])
    errors = np.array([one["mean"] for one in several]) - mean
    row = {
        "kind": "method",
        "method": method,
        "rows": n_rows,
        "seeds": len(several),
        "cpu": float(np.mean([one["cpu"] for one in several])),
        "peak_mb_over_X": max(one["peak_mb"] for one in several),
        "log_loss": float(np.mean([one["log_loss"] for one in several])),
        "max_mean_error": float(np.abs(errors / sd).max()),
        "max_sd_error": None,
        "ess": several[0].get("ess"),
        "k_hat": max((one["k_hat"] for one in several), default=None)
        if several[0].get("k_hat") is not None
        else None,
        "warned": next((one["warned"] for one in several if one["warned"]), None),
    }
    if exact is not several[0] and several[0]["sd"] is not None:
        sds = np.array([one["sd"] for one in several])
        row["max_sd_error"] = float(np.abs(sds / sd - 1.0).max())
    return row


def gates(rows):
    """Agreement with the Laplace approximation and memory; CPU and log loss are for reading."""
    row = next(row for row in rows if row["method"] == "skpmd")
    return [
        Gate("max mean error, sd", row["max_mean_error"], 0.2),
        Gate("max sd error", row["max_sd_error"], 0.1),
        Gate("peak memory over X, MB", row["peak_mb_over_X"], 300.0),
    ]


def plot(rows):
    """CPU seconds, memory and log loss of the methods; peers' curves below, if any."""
    plt = pyplot()
    peers = [row for row in rows if row.get("kind") == "curve"]
    rows = [row for row in rows if row.get("kind", "method") == "method"]
    figure = plt.figure(figsize=(11, 7.0 if peers else 3.4), layout="constrained")
    top, *below = figure.subfigures(2 if peers else 1, 1, squeeze=False)[:, 0]
    _bars(top.subplots(1, 3, sharey=True), rows)
    for part in below:
        _curves(part, rows, peers)
    return figure


def _bars(panels, rows):
    """What each method costs, and its log loss."""
    columns = {
        "cpu": "CPU seconds",
        "peak_mb_over_X": "peak memory over X, MB",
        "log_loss": "test log loss, nats",
    }
    for axes, (key, label) in zip(panels, columns.items(), strict=True):
        values = [row[key] for row in rows]
        bars = axes.barh([row["method"] for row in rows], values)
        axes.bar_label(bars, fmt="%.3g", padding=2)
        axes.set(xlabel=label, xlim=(0.0, 1.28 * max(values)))
    panels[0].invert_yaxis()


def _curves(figure, rows, peers):
    """Errors against CPU seconds."""
    own = next(row for row in rows if row["method"] == "skpmd")
    labels = {"mean_error": "error of means, sds", "log_loss": "test log loss, nats"}
    panels = figure.subplots(1, 2)
    for axes, (key, label) in zip(panels, labels.items(), strict=True):
        for method in dict.fromkeys(row["method"] for row in peers):
            line = [row for row in peers if row["method"] == method]
            axes.plot([row["cpu"] for row in line], [row[key] for row in line], ".-", label=method)
        axes.axvline(own["cpu"], color="black", lw=0.8, label="CPU seconds of skpmd")
        axes.set(xlabel="CPU seconds", ylabel=label, yscale="log")
        plain_ticks(axes.yaxis)
    legend_above(figure, panels, ncols=6)
