"""A mixture in parts: twenty calls beside one pass of `fit`, and rows from a memory map.

* ``parts``: each table of the study ``densities``, 80 % of the rows in twenty calls of
  ``partial_fit``, by default, and in one pass of ``fit`` (``max_iter=1``,
  ``max_full_iter=0``), thirty
  components; log density of the other rows.
* ``map``: generated rows of ten columns, written to a file in a temporary folder, and read from
  there through a memory map in calls of 100,000 rows, in a process of its
  own: CPU for each million rows after the first call, which finds the starts,
  the peak of the memory that is not the file's, and how far the log density of new rows is below
  that of the mixture they are drawn from.

``--quick``: scikit-learn's digits, and fewer rows. ``--jobs N``: cases of ``parts`` side by side.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..harness.memory import Peak, resident
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.worker import alone
from .densities import NAMES, parts, warm_up

SEEDS, PARTS = 3, 20
N_COMPONENTS = 30
ROWS = (1_000_000, 10_000_000)
QUICK_ROWS = (400_000, 800_000)
COLUMNS, TRUE_COMPONENTS, CALL = 10, 8, 100_000  # of the map, and the rows of a call


def run(config):
    """Measure the streams of all tables, then the maps one after the other."""
    names = ("digits",) if config.quick else NAMES
    workers = Parallel(n_jobs=config.jobs)
    cases = [(config, name, seed) for seed in range(SEEDS) for name in names]
    rows = workers(delayed(in_parts)(*case) for case in cases)
    sizes = QUICK_ROWS if config.quick else ROWS
    return [*rows, *(from_map(n) for n in sizes)]


def in_parts(config, name, seed):
    """Both log densities."""
    from skpmd import GaussianMixturePMD

    warm_up()
    learn, valid, test = parts(config, name, seed)
    known = np.concatenate([learn, valid])
    K = 10 if config.quick else N_COMPONENTS
    stream = GaussianMixturePMD(K, strategy="conjugate", random_state=seed)
    whole = clone(stream).set_params(max_iter=1, max_full_iter=0)
    with warnings.catch_warnings(), cpu_clock() as clock:
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole.fit(known)
    cpu = clock.cpu
    with warnings.catch_warnings(), cpu_clock() as clock:
        warnings.simplefilter("ignore", ConvergenceWarning)
        for rows in np.array_split(known, PARTS):
            stream.partial_fit(rows)
    score, in_calls = float(whole.score(test)), float(stream.score(test))
    print(f"{name}, split {seed}: {in_calls:.3f} in parts, {score:.3f} at once", flush=True)
    return {
        "kind": "parts",
        "data": name,
        "seed": seed,
        "fit": score,
        "partial_fit": in_calls,
        "behind": score - in_calls,
        "cpu_fit": cpu,
        "cpu_partial_fit": clock.cpu,
    }


def from_map(n):
    """Write the file, and stream it in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write(path, n)
        return {"kind": "map", **alone(streamed, {"path": str(path)})}


def streamed(job):
    """Stream the file that stands in the job."""
    from skpmd import GaussianMixturePMD

    rows = np.load(job["path"], mmap_mode="r")
    options = {"strategy": "conjugate", "random_state": 0}
    GaussianMixturePMD(2, **options).partial_fit(drawn(0)[:1000])  # compiles
    before, peak, times = resident("RssAnon"), Peak(), []
    peak.start()
    model = GaussianMixturePMD(2 * TRUE_COMPONENTS, **options)
    for start in range(0, len(rows), CALL):
        with cpu_clock() as clock:
            model.partial_fit(rows[start : start + CALL])
        times.append(clock.cpu)
    peak_mb = peak.stop() - before
    X = drawn(-(-len(rows) // CALL))[:10_000]
    later = np.array(times[1:])  # the first call finds the starts
    half = len(later) // 2
    return {
        "rows": len(rows),
        "cpu": sum(times),
        "cpu_per_million": float(later.mean()) / CALL * 1e6,
        "second_half_over_first": float(later[half:].mean() / later[:half].mean()),
        "peak_mb": peak_mb,
        "below_truth": float(np.mean(log_density(X)) - model.score(X)),
    }


def write(path, n):
    """Write rows of the mixture to a file, a call's worth at a time."""
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, COLUMNS))
    for number, start in enumerate(range(0, n, CALL)):
        stop = min(start + CALL, n)
        rows[start:stop] = drawn(number)[: stop - start]
    rows.flush()


def drawn(number):
    """Rows of a call, from its number."""
    means, factors = truth()
    rng = np.random.default_rng([1, number])
    labels = rng.integers(TRUE_COMPONENTS, size=CALL)
    noise = rng.standard_normal((CALL, COLUMNS))
    return means[labels] + np.einsum("nij,nj->ni", factors[labels], noise)


def truth():
    """Means, and Cholesky factors of the covariances, of components of equal weight."""
    rng = np.random.default_rng(0)
    means = 3.0 * rng.standard_normal((TRUE_COMPONENTS, COLUMNS))
    skew = np.tril(0.3 * rng.standard_normal((TRUE_COMPONENTS, COLUMNS, COLUMNS)), -1)
    return means, skew + np.eye(COLUMNS)


def log_density(X):
    """True log density of rows."""
    table = np.empty((len(X), TRUE_COMPONENTS))
    for k, (mean, factor) in enumerate(zip(*truth(), strict=True)):
        z = np.linalg.solve(factor, (X - mean).T)
        table[:, k] = -0.5 * (z**2).sum(axis=0)  # the factor's determinant is one
    constant = 0.5 * COLUMNS * np.log(2.0 * np.pi) + np.log(TRUE_COMPONENTS)
    return logsumexp(table, axis=1) - constant


def gates(rows):
    """Nats behind one pass; memory and time of more rows beside fewer."""
    own = [row for row in rows if row["kind"] == "parts"]
    few, many = (row for row in rows if row["kind"] == "map")
    means = {}
    for row in own:
        means.setdefault(row["data"], []).append(row["behind"])
    found = [
        Gate(f"{name}, nats behind one pass, mean", float(np.mean(values)), 0.05)
        for name, values in means.items()
    ]
    times = many["cpu_per_million"] / few["cpu_per_million"]
    return [
        *found,
        Gate("map, growth of memory with rows, MB", many["peak_mb"] - few["peak_mb"], 20.0),
        Gate("map, CPU per row of many rows over that of few", times, 1.2),
        Gate("map, CPU of the second half over the first", many["second_half_over_first"], 1.2),
    ]


def plot(rows):
    """Log densities at once and in parts; CPU of the calls."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    own = [row for row in rows if row["kind"] == "parts"]
    names = list(dict.fromkeys(row["data"] for row in own))
    places = [names.index(row["data"]) for row in own]
    left.plot(places, [-row["behind"] for row in own], "o", color="C0", alpha=0.7, label="a split")
    left.axhline(-0.05, color="grey", linewidth=0.8, label="target: 0.05 behind in the mean")
    left.set_xticks(range(len(names)), [name.removeprefix("keel_") for name in names])
    left.set(ylabel="log density in parts minus\nthat of one pass, nats")
    left.set_xlim(-0.5, len(names) - 0.5)
    maps = [row for row in rows if row["kind"] == "map"]
    millions, cpu = [row["rows"] / 1e6 for row in maps], [row["cpu"] for row in maps]
    right.plot(millions, cpu, "o-", color="C0")
    right.set(xlim=(0.0, 1.5 * max(millions)), ylim=(0.0, 1.1 * max(cpu)))
    right.set(xlabel="rows of the map, millions", ylabel="CPU seconds of all calls")
    for row, *place in zip(maps, millions, cpu, strict=True):
        text = f"peak {row['peak_mb']:.0f} MB"
        right.annotate(text, place, (7, -9), textcoords="offset points", va="center")
    legend_above(figure, [left], ncols=2)
    return figure
