"""Speed of the engine's step, of the imports and of the first fit.

* ``step``: one mirror step at m = 1000 particles, B = 1000 rows, d = 50 in which neither ESS
  control nor a rejuvenation has anything to do, against bare NumPy: ``Z = X @ theta.T`` and
  ``np.logaddexp(0, Z).sum(axis=0)``. One thread, float64, CPU milliseconds, medians of many
  alternating repetitions.
* ``import``: CPU seconds of an import in a fresh process, skpmd against scikit-learn, medians of
  alternating processes.
* ``first fit``: a process with an empty Numba cache imports skpmd and fits (wall clock, import
  included), and a second process does the same with what the first left in the cache. Compilations
  are the cache misses of all skpmd kernels, over three kinds of fit: the default, from the prior,
  and `ParticleMirrorDescent` with a plain NumPy model.
"""

import sys
import tempfile
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from ..harness import worker
from ..harness.study import Gate, pyplot

N_PARTICLES, N_ROWS, N_FEATURES = 1000, 1000, 50
IMPORTS = {
    "package": ("import skpmd", "import sklearn"),
    "estimator": (
        "from skpmd import BayesianLogisticRegressionPMD",
        "from sklearn.linear_model import LogisticRegression",
    ),
}


def run(config):
    """Measure the three."""
    repetitions, processes = (50, 3) if config.quick else (300, 15)
    rows = [step_row(repetitions)]
    rows += [import_row(name, *pair, processes) for name, pair in IMPORTS.items()]
    return rows + first_fit_rows()


def engine_step(rng):
    """Return a function without arguments that takes one engine step, always the same one.

    This is the one place that knows the engine's functions. The particles are spread like a
    posterior of these rows and the step is a small one, so it is taken in full: one visit of the
    rows, the checks of the effective sample size, and the new log ratios.
    """
    from skpmd.engine.mirror import Settings, step
    from skpmd.engine.model import Batch
    from skpmd.engine.particles import draw_prior
    from skpmd.linear._bernoulli import LogisticModel
    from skpmd.linear._priors import NormalPrior

    model = LogisticModel(NormalPrior(np.full(N_FEATURES, 0.05)), fit_intercept=False)
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    signs = np.where(rng.random(N_ROWS) < 0.5, -1.0, 1.0)
    batches = [Batch(X, signs, np.ones(N_ROWS))]
    particles = draw_prior(model, N_PARTICLES, rng)

    def take():
        return step(particles, model, batches, 0.01, 0.01, Settings(), rng)

    info = take()[1]
    if info.substeps or info.rejuvenations:
        raise RuntimeError(f"The step to be timed was not a plain one: {info}")
    return take, X, particles.theta


def step_row(repetitions):
    """Time the engine's step and bare NumPy in turn."""
    take, X, theta = engine_step(np.random.default_rng(0))

    def bare():
        logits = X @ theta.T
        return np.logaddexp(0.0, logits).sum(axis=0)

    seconds = {take: [], bare: []}
    with threadpool_limits(limits=1):
        take(), bare()
        for _ in range(repetitions):
            for work, spent in seconds.items():
                start = time.process_time()
                work()
                spent.append(time.process_time() - start)
    ours, numpy_ms = (1e3 * float(np.median(spent)) for spent in seconds.values())
    return {"what": "step", "skpmd_ms": ours, "numpy_ms": numpy_ms, "ratio": ours / numpy_ms}


def import_row(name, ours, theirs, processes):
    """Time two imports in fresh processes, in turn."""
    spent = {ours: [], theirs: []}
    for repetition in range(processes + 1):
        for statement, seconds in spent.items():
            code = (
                f"import time; start = time.process_time(); {statement}\n"
                "print(time.process_time() - start)"
            )
            measured = float(worker.python("-c", code))
            if repetition:  # the first one reads the files from disk
                seconds.append(measured)
    medians = {statement: float(np.median(seconds)) for statement, seconds in spent.items()}
    return {
        "what": "import",
        "of": name,
        "skpmd_s": medians[ours],
        "sklearn_s": medians[theirs],
        "ratio": medians[ours] / medians[theirs],
    }


def first_fit_rows():
    """Fit in two processes one after the other that share a Numba cache, empty at first."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for what in ("first fit", "second process"):
            rows.append({"what": what, **worker.alone(first_fit, NUMBA_CACHE_DIR=cache)})
    return rows


def first_fit(job):
    """Import skpmd and fit breast cancer, standardised, with defaults; then the other fits."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import scale

    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    warnings.simplefilter("ignore")
    wall, cpu = time.perf_counter(), time.process_time()
    from skpmd import BayesianLogisticRegressionPMD

    BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    in_default_fit = compilations()
    other_fits(X, y)
    return {
        "fit_wall_s": wall,
        "fit_cpu_s": cpu,
        "compilations_default_fit": in_default_fit,
        "compilations": compilations(),
        "kernels": len(kernels()),
    }


def kernels():
    """Every Numba dispatcher in the loaded skpmd modules, once."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name == "skpmd" or name.startswith("skpmd."):
            for value in vars(module).values():
                if hasattr(value, "stats") and hasattr(value, "py_func"):
                    found[id(value)] = value
    return list(found.values())


def compilations():
    """Cache misses of all kernels so far: each one is a compilation."""
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels())


def other_fits(X, y):
    """Fits whose kernels the default fit need not touch."""
    from skpmd import BayesianLogisticRegressionPMD, ParticleMirrorDescent

    BayesianLogisticRegressionPMD(proposal="prior", random_state=0).fit(X[:, :3], y)
    ParticleMirrorDescent(
        lambda theta, X, y: -0.5 * ((X[None, :, 0] - theta) ** 2).sum(axis=1),
        lambda theta: -0.5 * theta[:, 0] ** 2 - 0.5 * np.log(2.0 * np.pi),
        lambda rng, m: rng.standard_normal((m, 1)),
        proposal="prior",
        random_state=0,
    ).fit(X[:50])


def _named(rows, what):
    return [row for row in rows if row["what"] == what]


def gates(rows):
    """Step <= 0.5 x NumPy, imports <= 1.5 x scikit-learn, first fit <= 15 s, nothing compiled."""
    found = [Gate("step / bare NumPy", _named(rows, "step")[0]["ratio"], 0.5)]
    found += [
        Gate(f"import of the {row['of']} / scikit-learn's", row["ratio"], 1.5)
        for row in _named(rows, "import")
    ]
    found.append(Gate("first fit, s", _named(rows, "first fit")[0]["fit_wall_s"], 15.0))
    compiled = _named(rows, "second process")[0]["compilations"]
    return [*found, Gate("compilations in a second process", compiled, 0)]


def plot(rows):
    """Three pairs of bars."""
    plt = pyplot()
    figure, panels = plt.subplots(
        1, 3, figsize=(13, 3.8), layout="constrained", width_ratios=(1.0, 1.7, 1.0)
    )
    step = _named(rows, "step")[0]
    panels[0].bar(["skpmd's step", "bare NumPy"], [step["skpmd_ms"], step["numpy_ms"]])
    panels[0].set_ylabel("CPU milliseconds")
    labels, heights = [], []
    for row in _named(rows, "import"):
        labels += [f"skpmd\n{row['of']}", f"scikit-learn\n{row['of']}"]
        heights += [row["skpmd_s"], row["sklearn_s"]]
    panels[1].bar(labels, heights)
    panels[1].set_ylabel("import, CPU seconds")
    fits = _named(rows, "first fit") + _named(rows, "second process")
    panels[2].bar([row["what"] for row in fits], [row["fit_wall_s"] for row in fits])
    panels[2].set_ylabel("import and fit, wall seconds")
    for axes in panels:
        axes.bar_label(axes.containers[0], fmt="{:#.3g}", padding=2)
        axes.margins(y=0.12)
    return figure
