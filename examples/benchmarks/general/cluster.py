"""Workers of Dask on one machine: what a step costs beyond its work, and what two of them gain.

All is generated. A step is the log-likelihood of all rows for all particles of a logistic
regression: the sum that weights are made of. "step" rows of the table are steps on blocks that the
workers hold: ``seconds`` is the shortest of three, for what else the machine does can only add to
it. ``overhead_ms`` is what a step of next to no work takes beyond the same step in this process,
the median of thirty. "fit" rows are whole fits of a lazy collection by two workers, which draw its
blocks anew in each pass: twice the memory that both may have.
``peak_mb`` is the largest memory of a worker, Python and libraries included, ``here_mb`` what this
process has taken beyond what it had before. The logistic regression has 200 particles, the mixture
three components and one particle, the process a kernel and 100 inducing inputs.
"search" rows are `GridSearchCV` with one process and with two, without Dask. "cores" rows say what
the machine gives to two processes that have nothing to do with each other: fits like those of the
search, eight in one process, or four in each of two at the same time. Each worker and each process
has one thread; runs alternate, and ``seconds`` are the shortest of three.

``--quick``: a fiftieth of the rows.
"""

import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context

import numpy as np

from ..harness.memory import Peak, resident
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot

COLUMNS, PARTICLES, LARGE, SMALL = 50, 2000, 400_000, 16_000
LIMIT_MB = 700  # Of each of two workers.
ROUNDS = 3
MANY = 30  # Steps of next to no work.


def run(config):
    """Searches, steps and fits, one after the other.

    A cluster on this machine leaves ``MALLOC_TRIM_THRESHOLD_`` in the environment, with which fits
    in processes that start later take two fifths longer: so searches come before.
    """
    share, rows = 50 if config.quick else 1, []
    for row in chain(searches(share), steps(share), fits(share)):
        print(row, flush=True)
        rows.append(row)
    return rows


# ------------------------------------------------------------------ steps
def steps(share):
    """Steps of seconds by one worker and by two, and of next to no work on 2, 8 and 32 blocks."""
    yield from large_steps(LARGE // share)
    for n_blocks in (2, 8, 32):
        yield small_step(n_blocks, max(SMALL // share, 32))


def large_steps(n):
    """Steps of many particles, of 16 blocks."""
    seconds = {1: [], 2: []}
    theta = 0.1 * np.random.default_rng(0).standard_normal((PARTICLES, COLUMNS + 1))
    for _ in range(ROUNDS):
        for n_workers in seconds:
            with cluster(n_workers) as client:
                batches = table_of(client, n, 16)
                step(theta[:1], batches)  # It reads compiled code.
                seconds[n_workers].append(timed(step, theta, batches))
    for k, times in seconds.items():
        yield {"case": "step", "workers": k, "rows": n, "blocks": 16, "seconds": min(times)}


def small_step(n_blocks, n):
    """Steps of one particle, whose work is a millisecond, beside those in this process."""
    theta = np.zeros((1, COLUMNS + 1))
    with cluster(2) as client:
        batches = table_of(client, n, n_blocks)
        here = batches_of(*generated(np.random.default_rng(0), n))
        with client.as_current():
            for one in (batches, here):
                step(theta, one)
            times = [(timed(step, theta, batches), timed(step, theta, here)) for _ in range(MANY)]
    elsewhere, inside = np.median(times, axis=0).tolist()
    return {
        "case": "step", "workers": 2, "rows": n, "blocks": n_blocks, "seconds": elsewhere,
        "overhead_ms": 1e3 * (elsewhere - inside),
    }  # fmt: skip


def step(theta, batches):
    """Log-likelihoods of all rows."""
    from skpmd.engine.mirror import log_likelihood

    return log_likelihood(model(), theta, batches)


def model():
    """Binary logistic regression under a normal prior."""
    from skpmd.linear._bernoulli import LogisticModel
    from skpmd.linear._priors import NormalPrior

    return LogisticModel(NormalPrior(np.ones(COLUMNS + 1)), True)


def generated(rng, n):
    """Rows and labels -1 and 1."""
    X = rng.random((n, COLUMNS))
    X -= 0.5
    signal = 2.0 * X[:, :5].sum(axis=1)
    return X, np.where(signal + rng.logistic(size=n) > 0, 1.0, -1.0)


def batches_of(X, y):
    """All rows as the fit goes through them."""
    from skpmd._rows.rows import Rows

    return Rows(X, y, None, "auto").whole()


def table_of(client, n, n_blocks):
    """The same of a collection that the workers hold."""
    from skpmd._rows.opening import as_table

    with client.as_current():
        X, y = collection(n, n_blocks)
        X, y = (one.persist() for one in (X, y))
        return batches_of(*as_table(X, y)[:2])


def collection(n, n_blocks):
    """Lazy rows and labels."""
    import dask
    import dask.array as da

    seeds = np.random.SeedSequence(0).spawn(n_blocks)
    edges = np.linspace(0, n, n_blocks + 1).astype(int)
    both = [
        dask.delayed(drawn, nout=2)(seed, int(b - a))
        for seed, a, b in zip(seeds, edges[:-1], edges[1:], strict=True)
    ]
    sizes = np.diff(edges)
    X = [da.from_delayed(one[0], (k, COLUMNS), float) for one, k in zip(both, sizes, strict=True)]
    y = [da.from_delayed(one[1], (k,), float) for one, k in zip(both, sizes, strict=True)]
    return da.concatenate(X), da.concatenate(y)


def drawn(seed, n):
    """A block of rows and labels."""
    return generated(np.random.default_rng(seed), n)


def cluster(n_workers, memory_limit=0):
    """A client of so many new workers, which end with it."""
    from distributed import Client

    return Client(
        n_workers=n_workers, threads_per_worker=1, memory_limit=memory_limit,
        dashboard_address=":0",
    )  # fmt: skip


def timed(function, *arguments):
    """Seconds of a call."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


# ------------------------------------------------------------------ fits
def fits(share):
    """Fits of a collection twice as large as the workers' memory together."""
    n_bytes = 2 * 2 * LIMIT_MB * 2**20 // share
    n = n_bytes // (8 * COLUMNS)
    n_blocks = max(4, n_bytes // (24 * 2**20))
    for name, estimator, has_y in estimators():
        with cluster(2, f"{LIMIT_MB}MiB") as client:
            data = collection(n, n_blocks)[: 1 + has_y]
            start, peak = resident("RssAnon"), Peak()
            peak.start()
            seconds = timed(estimator().fit, *data)
            here = peak.stop() - start
            there = max(client.run(partial(resident, "VmHWM")).values())
        yield {
            "case": "fit", "model": name, "workers": 2, "rows": n, "blocks": n_blocks,
            "data_mb": n_bytes / 2**20, "seconds": seconds, "peak_mb": there, "here_mb": here,
        }  # fmt: skip


def estimators():
    """Names, estimators and whether they have a y."""
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    from skpmd import BayesianLogisticRegressionPMD, GaussianMixturePMD, SparseGPRegressorPMD

    kernel = RBF(3.0) + WhiteKernel(0.5)
    return [
        ("logistic", partial(BayesianLogisticRegressionPMD, n_particles=200, random_state=0), True),
        (
            "mixture",
            partial(
                GaussianMixturePMD, 3, n_particles=1, max_iter=1, max_full_iter=1, random_state=0
            ),
            False,
        ),
        (
            "process",
            partial(
                SparseGPRegressorPMD, kernel, optimizer=None, n_inducing=100, random_state=0,
                approximation="fitc",
            ),
            True,
        ),
    ]  # fmt: skip


# ------------------------------------------------------------------ searches
def searches(share):
    """A search over widths of the prior, with one process and with two, and the same without it."""
    from sklearn.model_selection import GridSearchCV

    from skpmd import BayesianLogisticRegressionPMD

    n = 60_000 // share
    X, y = generated(np.random.default_rng(0), n)
    seconds = {(case, k): [] for case in ("search", "cores") for k in (1, 2)}
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for _ in range(ROUNDS + 1):
            for k in (1, 2):
                search = GridSearchCV(
                    BayesianLogisticRegressionPMD(random_state=0),
                    {"prior_scale": [0.1, 0.3, 1.0, 3.0]}, cv=4, n_jobs=k,
                )  # fmt: skip
                seconds["search", k].append(timed(search.fit, X, y))
                seconds["cores", k].append(timed(list, pool.map(fits_alone, k * [8 // k], k * [n])))
    for (case, k), times in seconds.items():  # The first of each starts processes and loads code.
        yield {"case": case, "workers": k, "rows": n, "seconds": min(times[1:])}


def fits_alone(times, n):
    """So many fits of three quarters of the rows, one after another."""
    from skpmd import BayesianLogisticRegressionPMD

    X, y = generated(np.random.default_rng(0), 3 * n // 4)
    for _ in range(times):
        BayesianLogisticRegressionPMD(random_state=0).fit(X, y)


# ------------------------------------------------------------------ targets
def gates(rows):
    """The targets of the issue that asks for Dask."""
    return [
        *(
            Gate(f"overhead of a step on {one['blocks']} blocks, ms", one["overhead_ms"], 20.0)
            for one in rows
            if "overhead_ms" in one and one["blocks"] == 2
        ),
        Gate("two workers beside one, steps", gain(rows, "step", blocks=16), 1.6, ">="),
        Gate("two processes of a search beside one", gain(rows, "search"), 1.7, ">="),
        *(
            Gate(f"largest memory of a worker, {one['model']}, MB", one["peak_mb"], LIMIT_MB)
            for one in rows
            if one["case"] == "fit"
        ),
    ]


def gain(rows, case, **known):
    """Seconds of one worker over those of two."""
    some = {
        one["workers"]: one["seconds"]
        for one in rows
        if one["case"] == case and all(one.get(key) == value for key, value in known.items())
    }
    return some[1] / some[2]


def plot(rows):
    """What two workers gain, and what a step costs beyond its work."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    pairs = {"a step": ("step", {"blocks": 16}), "a search": ("search", {}), "cores": ("cores", {})}
    values = [gain(rows, case, **known) for case, known in pairs.values()]
    left.barh(list(pairs), values, color="C0")
    left.axvline(2.0, color="0.4", linestyle=":", label="ideal: 2")
    left.set(xlabel="seconds of one over those of two", xlim=(0.0, max(2.2, 1.1 * max(values))))
    left.locator_params(axis="x", nbins=5)
    left.invert_yaxis()
    some = [one for one in rows if one.get("overhead_ms") is not None]
    right.plot([one["blocks"] for one in some], [one["overhead_ms"] for one in some], "o-")
    right.set(xlabel="blocks", ylabel="ms of a step beyond its work", ylim=(0.0, None))
    legend_above(figure, [left], ncols=1)
    return figure
