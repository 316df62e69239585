"""Two threads against one: wall seconds of a step, and of a fit, of each estimator.

The step is a `partial_fit` of a single batch of many rows, after a fit to few: it takes a fifth of
a second or more. Moves take no steps, and a stream of a mixture's parameters fits all rows anew:
for them a fit is all there is. Each is run with ``n_jobs=1`` and ``n_jobs=2`` in turn, on made-up
data, in one process with one thread of BLAS. ``one_s`` and ``two_s`` are the least wall seconds of
the repeats, ``ratio`` is the first divided by the second. ``cpus_one`` and ``cpus_two`` are CPU
seconds in a wall second, that is the processors that were had: where two threads had no more than
one, others were at work on the machine and the ratio says nothing. ``equal`` says whether both gave
the same bits.
"""

import copy
import time
import warnings

import numpy as np
from scipy.sparse import csr_array

from ..harness import worker
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot

MIN_RATIO, MIN_FIT = 1.7, 0.95
FITS = (
    "logistic", "logistic moves", "multinomial", "mixture", "mixture parameters", "process",
    "process particles", "topics", "custom",
)  # fmt: skip
STEPS = tuple(case for case in FITS if case not in ("logistic moves", "mixture parameters"))
# Rows of a step, as a multiple of those of a fit.
STEP_SHARE = {"logistic": 5, "mixture": 10, "process": 15, "topics": 3, "custom": 5}
_FIRST = 2500  # Rows of the fit before a step.


def run(config):
    """One row a fit and a step, each in a process of its own."""
    job = {"repeats": 2, "share": 0.1 if config.quick else 1.0}
    cases = [("step", case) for case in STEPS] + [("fit", case) for case in FITS]
    return [worker.alone(measured, {**job, "what": what, "case": case}) for what, case in cases]


def measured(job):
    """The row of one fit or step."""
    warnings.simplefilter("ignore")
    call = (step_of if job["what"] == "step" else fit_of)(job["case"], job["share"])
    spent, digits = {1: [], 2: []}, {}
    call(2)  # Kernels are compiled, or read from the disk.
    for _ in range(job["repeats"]):
        for n_jobs, times in spent.items():
            wall, cpu, estimator = call(n_jobs)
            times.append((wall, cpu))
            digits[n_jobs] = digits_of(estimator)
    (one, one_cpu), (two, two_cpu) = (np.min(times, axis=0) for times in spent.values())
    return {
        "what": job["what"],
        "case": job["case"],
        "one_s": float(one),
        "two_s": float(two),
        "ratio": float(one / two),
        "cpus_one": float(one_cpu / one),
        "cpus_two": float(two_cpu / two),
        "equal": all(map(same, digits[1], digits[2])),
    }


def fit_of(case, share):
    """A fit as a function of the number of threads: wall seconds, CPU seconds, the estimator."""
    estimator, data = case_of(case, share)
    return lambda n_jobs: timed(estimator.set_params(n_jobs=n_jobs), estimator.fit, data)


def step_of(case, share):
    """The same of a step."""
    estimator, data = case_of(case, share * STEP_SHARE.get(case.partition(" ")[0], 1.0))
    known = estimator.get_params()
    # A kernel is fitted to the first rows alone.
    some = {"batch_size": data[0].shape[0], "n_subset": 500, "n_refine": 500}
    estimator.set_params(**{name: value for name, value in some.items() if name in known})
    first = min(_FIRST, data[0].shape[0] // 2)
    estimator.fit(*(some[:first] for some in data))

    def call(n_jobs):
        one = copy.deepcopy(estimator).set_params(n_jobs=n_jobs)
        return timed(one, one.partial_fit, [some[first:] for some in data])

    return call


def timed(estimator, function, data):
    """Wall and CPU seconds of a function of data, and its estimator."""
    wall, cpu = time.perf_counter(), time.process_time()
    function(*data)
    return time.perf_counter() - wall, time.process_time() - cpu, estimator


def same(one, other):
    """Whether two arrays have the same numbers; nan is equal to nan."""
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def digits_of(estimator):
    """Arrays that any difference would show in."""
    posterior = getattr(estimator, "posterior_", None)
    found = [v for v in vars(posterior).values() if isinstance(v, np.ndarray)] if posterior else []
    return [*found, *(np.asarray(v) for v in getattr(estimator, "history_", {}).values())]


def case_of(case, share):
    """The estimator of a case, and its data."""
    import skpmd

    rng = np.random.default_rng(0)

    def normal(n, p):
        return rng.standard_normal((int(share * n), p))

    kind, _, variant = case.partition(" ")
    if kind in ("logistic", "multinomial"):
        X = normal(10_000, 15) if kind == "multinomial" else normal(20_000, 20 if variant else 50)
        scores = X @ (0.3 * rng.standard_normal((X.shape[1], 2 if kind == "logistic" else 5)))
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        params = {"moves": "always", "n_particles": 200} if variant else {}
        return skpmd.BayesianLogisticRegressionPMD(random_state=0, **params), (X, y)
    if kind == "mixture":
        n, p, K = (500, 2, 3) if variant else (20_000, 15, 10)
        centres = 2.5 * rng.standard_normal((K, p))
        X = normal(n, p)
        X += centres[rng.integers(K, size=len(X))]
        params = {"strategy": "parameters", "n_particles": 100} if variant else {}
        return skpmd.GaussianMixturePMD(K, random_state=0, **params), (X,)
    if kind == "process":
        X = normal(2000, 5)
        y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, -1] + 0.3 * rng.standard_normal(len(X))
        params = {"n_particles": 4, "n_inducing": 300, "n_subset": 500} if variant else {}
        return skpmd.SparseGPRegressorPMD(random_state=0, **params), (X, y)
    if kind == "topics":
        topics = rng.dirichlet(np.full(2000, 0.05), 20)
        shares = rng.dirichlet(np.full(20, 0.2), int(share * 3000))
        X = np.array([rng.multinomial(100, row @ topics) for row in shares])
        return skpmd.LDATopicModelPMD(20, random_state=0), (csr_array(X),)
    X = normal(20_000, 8)
    y = X @ np.linspace(-1.0, 1.0, 8) + 0.7 * rng.standard_normal(len(X))
    return skpmd.ParticleMirrorDescent(*linear_regression(8), random_state=0), (X, y)


def linear_regression(p):
    """Log-likelihood, log prior and sampler: coefficients, and last the log of the noise's sd."""

    def log_likelihood(theta, X, y):
        error = y - theta[:, :-1] @ X.T
        np.square(error, out=error)
        sd = theta[:, -1]
        return -0.5 * error.sum(axis=1) * np.exp(-2.0 * sd) - len(y) * (sd + 0.9189385)

    def log_prior(theta):
        return -0.5 * (theta**2).sum(axis=1) - 0.5 * (p + 1) * np.log(2.0 * np.pi)

    return log_likelihood, log_prior, lambda rng, m: rng.standard_normal((m, p + 1))


def gates(rows):
    """A step is 1.7 times as fast with two threads, no fit is slower, and bits are the same."""
    least = {"step": MIN_RATIO, "fit": MIN_FIT}
    found = [
        Gate(f"{row['what']} of {row['case']}: one / two", row["ratio"], least[row["what"]], ">=")
        for row in rows
    ]
    return [*found, Gate("results with other bits", sum(not row["equal"] for row in rows), 0)]


def plot(rows):
    """Ratios as bars, and the target of each."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    names = [f"{row['what']}: {row['case']}" for row in rows]
    for what, target, color in (("step", MIN_RATIO, "C0"), ("fit", MIN_FIT, "C1")):
        places = [i for i, row in enumerate(rows) if row["what"] == what]
        ratios = [rows[i]["ratio"] for i in places]
        axes.barh(places, ratios, color=color, label=what)
        ends = min(places) - 0.5, max(places) + 0.5
        style = "--" if what == "step" else ":"
        axes.plot([target] * 2, ends, f"k{style}", label=f"target of a {what}: {target:g}")
        for place, ratio in zip(places, ratios, strict=True):
            axes.text(0.02, place, f"{ratio:.2f}", color="white", va="center")
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("wall seconds of one thread / of two")
    legend_above(figure, [axes], ncols=4)
    return figure
