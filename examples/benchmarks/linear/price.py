"""What a posterior of many rows costs beside scikit-learn's point estimate, and what is lost by it.

Fits of many rows weigh particles by an expansion of all rows and a sample of them. Kinds of rows:

* ``price``: CPU seconds of a fit with all defaults over those of scikit-learn's fit of the same
  rows, with its defaults: `LogisticRegression`, for counts `PoissonRegressor`. Columns are normal.
  Each pair is in a process of its own with one thread, and each time is the least of three, taken
  in turn after a fit of the first 20,000 rows, which compiles.
* ``error``: a fit with all defaults beside one of 16,000 particles that looks at all rows, which is
  kept in the cache: the largest error of a mean in posterior sds, that of an sd, relative, and the
  gap of the log evidence, whose standard error is that of both fits. ``by`` is what particles were
  weighed by: a ``sample``, ``all`` rows, or ``moves`` that followed, which have no evidence and
  more Monte Carlo error, and so have wider bounds; ``reference_by`` is that of the reference.
  Nothing public has a fit look at all rows: for references the number of rows from which samples
  are drawn is out of reach.

Shapes have two classes but for ``counts``: ``plain`` normal columns; ``heavy`` tails (Student's t
of 2.5 degrees of freedom); ``dummies`` of one factor with rates from 0.1 to 0.0001 (of 10,000 rows
a level has one, and no end to its coefficient but the prior's); ``units`` from 1e-6 to 1e6,
columns 100 sds from zero; classes that are ``separated``, and ``nearly`` so (coefficients of 20);
a ``rare`` class, one row in 10,000; and ``outliers``, five rows of 10,000 sds, where an answer is
to be right or to have a warning. All others are to be right, and to have none.

``--quick``: 20,000 rows of few columns, references of 2,000 particles.
"""

import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from scipy.special import expit

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..harness.worker import alone
from ..peers.references import fingerprint

ROWS, COLUMNS = (1000, 10_000, 100_000, 1_000_000), (5, 20, 50)
REPEATS, WARM = 3, 20_000
# Bounds of ratios by rows, and where another is said by rows and columns.
BOUNDS, WIDE = {10_000: 25.0, 100_000: 8.0, 1_000_000: 4.0}, {(1_000_000, 50): 5.0}
FIVE = {"family": "five classes", "n": 100_000, "d": 20}
FIVE_BOUND = 10.0
SIZES, SEEDS, N_PARTICLES = ((10_000, 20), (100_000, 5), (100_000, 20)), 2, 16_000
SIZES_OF = {"outliers": SIZES[:2]}  # Moves of 100,000 rows and 20 columns take minutes.
QUICK = (20_000, 3)
# Of means in sds, of sds, of the evidence in standard errors; means and sds where moves followed.
MEAN_BOUND, SD_BOUND, SES, OF_MOVES = 0.02, 0.02, 4.0, 0.1
RIGHT_OR_WARNED = "outliers"


def run(config):
    """Prices, then errors."""
    rows = []
    for n in QUICK[:1] if config.quick else ROWS:
        for d in COLUMNS[:1] if config.quick else COLUMNS:
            for family in ("two classes", "counts"):
                rows.append(alone(price_row, {"family": family, "n": n, "d": d}))
                print(rows[-1], flush=True)
    if not config.quick:
        rows.append(alone(price_row, FIVE))
    for name in ("plain", "units") if config.quick else SHAPES:
        for n, d in (QUICK,) if config.quick else SIZES_OF.get(name, SIZES):
            rows += error_rows(name, n, d, config)
    return rows


# ---------------------------------------------------------------------- rows, and who is fitted
def plain_columns(rng, n, d):
    """Normal columns and the linear predictor, whose sd is about one."""
    X = rng.standard_normal((n, d))
    return X, 0.3 + X @ (rng.standard_normal(d) / np.sqrt(d))


def labels(rng, eta):
    """Two classes, each of which has a row."""
    y = (rng.random(len(eta)) < expit(eta)).astype(int)
    y[[eta.argmin(), eta.argmax()]] = 0, 1
    return y


def plain(rng, n, d):
    """Normal columns."""
    X, eta = plain_columns(rng, n, d)
    return X, labels(rng, eta)


def heavy(rng, n, d):
    """Columns without a fourth moment, nearly without a variance."""
    X = rng.standard_t(2.5, (n, d))
    return X, labels(rng, 0.3 + X @ (rng.standard_normal(d) / np.sqrt(d)))


def dummies(rng, n, d):
    """Dummies of the levels of one factor but for the first."""
    rates = np.geomspace(1e-1, 1e-4, d)
    level = rng.choice(d + 1, n, p=[1.0 - rates.sum(), *rates])
    X = (level[:, None] == np.arange(1, d + 1)).astype(np.float64)
    return X, labels(rng, -0.5 + X @ rng.standard_normal(d))


def units(rng, n, d):
    """Plain rows in all sorts of units, far from zero."""
    X, y = plain(rng, n, d)
    return np.logspace(-6, 6, d) * (X + 100.0 * (-1.0) ** np.arange(d)), y


def separated(rng, n, d):
    """Classes on both sides of a plane."""
    X, eta = plain_columns(rng, n, d)
    return X, (eta > 0.3).astype(int)


def nearly(rng, n, d):
    """Coefficients of 20, of one sign or the other."""
    X = rng.standard_normal((n, d))
    return X, labels(rng, X @ rng.choice([-20.0, 20.0], d))


def rare(rng, n, d):
    """About one row in ten thousand is of the second class."""
    X, eta = plain_columns(rng, n, d)
    return X, labels(rng, eta - 0.8 - np.log(1e4))


def outliers(rng, n, d):
    """Five rows far away, whose classes are as likely as not."""
    X, y = plain(rng, n, d)
    X[:5] = 1e4 * rng.standard_normal((5, d))
    y[:5] = [0, 1, 0, 1, 1]
    return X, y


def counts(rng, n, d):
    """Numbers of a Poisson distribution with a mean of about 1.5."""
    X, eta = plain_columns(rng, n, d)
    return X, rng.poisson(np.exp(0.15 + 0.5 * eta))


def five_classes(rng, n, d):
    """Five classes."""
    X = rng.standard_normal((n, d))
    utility = X @ (rng.standard_normal((d, 5)) / np.sqrt(d)) + rng.gumbel(size=(n, 5))
    return X, utility.argmax(axis=1)


SHAPES = {
    one.__name__: one
    for one in (plain, heavy, dummies, units, separated, nearly, rare, outliers, counts)
}
FAMILIES = {"two classes": plain, "counts": counts, "five classes": five_classes}


def drawn(make, n, d):
    """X and y of one of the above, always the same."""
    return make(np.random.default_rng([n, d]), n, d)


def estimator(make, **options):
    """Ours, with defaults but for the options."""
    from skpmd import BayesianGLMRegressorPMD, BayesianLogisticRegressionPMD

    if make is counts:
        return BayesianGLMRegressorPMD(family="poisson", **options)
    return BayesianLogisticRegressionPMD(**options)


def peer(make):
    """scikit-learn's, with defaults."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor

    return PoissonRegressor() if make is counts else LogisticRegression()


# ---------------------------------------------------------------------- prices
def price_row(job):
    """CPU seconds of ours and of scikit-learn's."""
    warnings.simplefilter("ignore")
    make = FAMILIES[job["family"]]
    X, y = drawn(make, job["n"], job["d"])
    estimators = estimator(make, random_state=0), peer(make)
    spent = [[], []]
    for one in estimators:
        one.fit(X[:WARM], y[:WARM])
    for _ in range(REPEATS):
        for one, seconds in zip(estimators, spent, strict=True):
            with cpu_clock() as clock:
                one.fit(X, y)
            seconds.append(clock.cpu)
    cpu, peer_cpu = map(min, spent)
    return {
        "kind": "price", "family": job["family"], "rows": job["n"], "d": job["d"], "cpu": cpu,
        "peer_cpu": peer_cpu, "ratio": cpu / peer_cpu, "rows_weighed": rows_weighed(estimators[0]),
    }  # fmt: skip


def weighed_by(fitted):
    """What the weights of a fit are of."""
    if "moves" in fitted.diagnostics_["method"]:
        return "moves"
    return "all" if rows_weighed(fitted) is None else "sample"


def rows_weighed(fitted):
    """Size of the sample by which a fit has weighed its particles; None where by all rows."""
    return fitted.diagnostics_.get("n_rows_weighed")


# ---------------------------------------------------------------------- errors
class Truth(NamedTuple):
    """What weights by all rows say."""

    mean: np.ndarray
    sd: np.ndarray
    log_evidence: float
    log_evidence_se: float
    ess: float
    by: str
    fingerprint: np.ndarray


def fitted(make, X, y, **options):
    """A fit, its CPU seconds and the classes of its warnings or None."""
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        model = estimator(make, **options).fit(X, y)
    return model, clock.cpu, ", ".join(sorted({one.category.__name__ for one in caught})) or None


def moments(model):
    """Means, sds, the log evidence and its standard error (nan where there is none)."""
    posterior = model.posterior_
    try:
        evidence = posterior.log_evidence, posterior.log_evidence_se
    except AttributeError:  # Moves followed, which know of none.
        evidence = np.nan, np.nan
    return posterior.mean().ravel(), posterior.std().ravel(), *map(float, evidence)


def truth(make, X, y, path, n_particles):
    """The `Truth` from its file, where that is of these rows, or else from a fit."""
    expected = fingerprint(X, y)
    if path is not None and path.exists():
        with np.load(path) as archive:
            kept = Truth(**{key: archive[key][()] for key in archive.files})
        if np.allclose(kept.fingerprint, expected, rtol=1e-6, atol=1e-8):
            return kept
    import skpmd.linear  # noqa: F401 - what is imported while the number is another keeps that.
    from skpmd.proposals import control_variates

    with mock.patch.object(control_variates, "FEWEST", np.inf):
        model, _, _ = fitted(make, X, y, n_particles=n_particles, random_state=99)
    made = Truth(*moments(model), float(model.diagnostics_["ess"]), weighed_by(model), expected)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **made._asdict())
    return made


def error_rows(name, n, d, config):
    """A row a seed."""
    make = SHAPES[name]
    X, y = drawn(make, n, d)
    path = None if config.quick else Path(config.cache) / "price" / f"{name}-{n}-{d}.npz"
    known = truth(make, X, y, path, 2000 if config.quick else N_PARTICLES)
    rows = []
    for seed in range(1 if config.quick else SEEDS):
        model, cpu, warned = fitted(make, X, y, random_state=seed)
        mean, sd, log_evidence, se = moments(model)
        rows.append({
            "kind": "error", "shape": name, "rows": n, "d": d, "seed": seed, "cpu": cpu,
            "by": weighed_by(model), "rows_weighed": rows_weighed(model),
            "max_mean_error": float(np.abs((mean - known.mean) / known.sd).max()),
            "max_sd_error": float(np.abs(sd / known.sd - 1.0).max()),
            "evidence_gap": float(log_evidence - known.log_evidence),
            "evidence_se": float(np.hypot(se, known.log_evidence_se)),
            "reference_ess": float(known.ess), "reference_by": str(known.by), "warned": warned,
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


# ---------------------------------------------------------------------- targets and picture
def is_right(row):
    """Whether all of a fit's errors are within their bounds."""
    bounds = (OF_MOVES, OF_MOVES) if is_moved(row) else (MEAN_BOUND, SD_BOUND)
    is_near = row["max_mean_error"] <= bounds[0] and row["max_sd_error"] <= bounds[1]
    return is_near and (is_moved(row) or gap_in_errors(row) <= SES)


def is_moved(row):
    """Whether moves have a part in what is compared."""
    return "moves" in (row["by"], row["reference_by"])


def gap_in_errors(row):
    """The gap of the log evidence in its standard errors."""
    return abs(row["evidence_gap"]) / row["evidence_se"]


def gates(rows):
    """Ratios by family and number of rows, and errors of all shapes."""
    return [*price_gates([r for r in rows if r["kind"] == "price"]),
            *error_gates([r for r in rows if r["kind"] == "error"])]  # fmt: skip


def price_gates(rows):
    """The largest ratio of a family and a number of rows, of columns that have the same bound."""
    largest = {}
    for row in rows:
        n, d, family = row["rows"], row["d"], row["family"]
        bound = FIVE_BOUND if family == FIVE["family"] else WIDE.get((n, d), BOUNDS.get(n))
        if bound is not None:
            which = f", {d} columns" if (n, d) in WIDE else ""
            label = f"{family}, {n:,} rows{which}: CPU over scikit-learn's"
            largest[label, bound] = max(row["ratio"], largest.get((label, bound), 0.0))
    return [Gate(label, ratio, bound) for (label, bound), ratio in largest.items()]


def error_gates(rows):
    """The largest errors of shapes that are to be right, and counts of fits."""
    right = [row for row in rows if row["shape"] != RIGHT_OR_WARNED]
    far = [row for row in rows if row["shape"] == RIGHT_OR_WARNED]
    weighed = [row for row in right if not is_moved(row)]
    largest = {
        "error of a mean, sds": (_most(r["max_mean_error"] for r in weighed), MEAN_BOUND),
        "error of an sd": (_most(r["max_sd_error"] for r in weighed), SD_BOUND),
        "gap of the log evidence, standard errors": (_most(map(gap_in_errors, weighed)), SES),
    }
    wrong = sum(is_moved(row) and not is_right(row) for row in right)
    silent = sum(row["warned"] is None and not is_right(row) for row in far)
    return [
        *(Gate(f"largest {name}", *pair) for name, pair in largest.items()),
        Gate("fits by moves that are wrong", wrong, 0),
        Gate("fits with warnings", sum(row["warned"] is not None for row in right), 0),
        Gate("fits with rows far away, wrong without a warning", silent, 0),
    ]


def _most(values):
    """The largest, or nan where there is one: a number that is none is no small one."""
    return float(np.max(list(values)))


def plot(rows):
    """Ratios by rows, a panel a family; errors over their bounds by shape."""
    plt = pyplot()
    figure, axes = plt.subplots(
        1, 3, figsize=(12, 3.8), layout="constrained", width_ratios=(1.0, 1.0, 1.4)
    )
    prices = [row for row in rows if row["kind"] == "price"]
    for panel, family in zip(axes, ("two classes", "counts"), strict=False):
        own = [row for row in prices if row["family"] == family]
        for d in dict.fromkeys(row["d"] for row in own):
            at = [(row["rows"], row["ratio"]) for row in own if row["d"] == d]
            panel.loglog(*zip(*at, strict=True), "o-", label=f"{d} columns")
        panel.plot(list(BOUNDS), list(BOUNDS.values()), "k_", markersize=14, label="target")
        panel.set(title=family, xlabel="rows", ylabel="CPU over scikit-learn's")
    legend_above(figure, axes[:2], ncols=4)
    errors = [row for row in rows if row["kind"] == "error"]
    shapes = list(dict.fromkeys(row["shape"] for row in errors))
    shares = {
        "mean": lambda row: row["max_mean_error"] / MEAN_BOUND,
        "sd": lambda row: row["max_sd_error"] / SD_BOUND,
        "evidence": lambda row: gap_in_errors(row) / SES,
    }
    for k, (name, share) in enumerate(shares.items()):
        known = [row for row in errors if not is_moved(row)]
        places = [shapes.index(row["shape"]) + 0.2 * (k - 1) for row in known]
        axes[2].semilogy(places, [share(row) for row in known], ".", label=name)
    axes[2].axhline(1.0, color="k", linewidth=0.8)
    axes[2].set_xticks(range(len(shapes)), shapes, rotation=30)
    axes[2].set(ylabel="error over its bound")
    axes[2].legend(fontsize=9)
    return figure
