"""The posterior of a mixture beside long runs: posteriordb, galaxies, and what conjugate covers.

* ``low_dim``: posteriordb's ``low_dim_gauss_mix``, two components on 1000 rows, means ~ N(0, 2^2)
  in order, sds ~ half-normal(2), weight ~ Beta(5, 5), ``strategy="parameters"``, each particle's
  components put in the order of their means. Errors are in posterior sds of its reference draws.
* ``galaxies``: speeds of 82 galaxies, 3 to 6 components with a normal-Wishart prior: the total
  variation distance of the predictive density to that of tempered SMC (BlackJAX), on a grid.
* ``evidence``: the log evidence of all of these less that of tempered SMC, the mean of its runs. It
  is that of the prior on all labellings; on ordered means, without the factor K!, it has log K!
  less.
* ``coverage``: the share of true means inside ``component_interval(0.9)`` of
  ``strategy="conjugate"``, over data sets drawn from two components of known distance (in sds),
  300 rows each. That interval is of what the particles know given their responsibilities; it is no
  credible interval, and where components overlap it is too narrow, for it is then
  uncertain, too, who belongs where.

Runs of tempered SMC are kept in the cache. ``--quick``: generated rows, short runs, one
seed. ``--jobs N``: fits side by side.
"""

import math

import numpy as np
from joblib import Parallel, delayed

from ..harness import datasets
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..peers.mixture_prior import Prior

SEEDS = 3
N_PARTICLES = 8000
SIZES = (3, 4, 5, 6)
LOW_DIM = Prior("independent", mean=0.0, mean_scale=2.0, sd_scale=2.0, concentration=5.0)
GALAXIES = Prior(mean=20.0, mean_precision=0.05, dof=4.0, covariance=4.0)
LONG = {"n_particles": 4000, "n_moves": 5, "seeds": (0, 1, 2, 3, 4, 5)}
SHORT = {"n_particles": 2000, "n_moves": 2, "seeds": (0, 1, 2)}
NAMES = ("mu[1]", "mu[2]", "sigma[1]", "sigma[2]", "theta")
DISTANCES, REPLICATIONS, LEVEL = (8.0, 4.0, 2.0), 200, 0.9


def run(config):
    """References first, then the fits."""
    y, draws, speeds = _generated() if config.quick else _read(config.data)
    sizes = SIZES[:2] if config.quick else SIZES
    workers = Parallel(n_jobs=config.jobs)
    cases = [("low_dim", y, 2, LOW_DIM), *(("galaxies", speeds, K, GALAXIES) for K in sizes)]
    runs = workers(delayed(_reference)(config, *case) for case in cases)
    seeds = range(1 if config.quick else SEEDS)
    jobs = [delayed(low_dim)(config, y, draws, runs[0], seed) for seed in seeds]
    for (_, _, K, _), found in zip(cases[1:], runs[1:], strict=True):
        jobs += [delayed(galaxies)(config, speeds, K, found, seed) for seed in seeds]
    jobs += [delayed(coverage)(config, distance) for distance in DISTANCES]
    return [row for rows in workers(jobs) for row in rows]


def _read(data_dir):
    """Rows of the first case, its reference draws, and speeds."""
    return *datasets.low_dim_gauss_mix(data_dir), datasets.galaxies(data_dir)


def _generated():
    """Stand-ins for the same."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(150) < 0.4, -1.5, 1.5) + rng.standard_normal(150)
    groups = ((9.7, 0.4, 7), (20.0, 0.7, 40), (23.0, 1.5, 32), (33.0, 0.9, 3))
    speeds = np.concatenate([rng.normal(*group) for group in groups])
    from ..peers import tempered

    run = tempered.run(y, 2, LOW_DIM, **SHORT)
    return y, _ordered(run.weights, run.means, run.sds), speeds


def _reference(config, name, x, K, prior):
    from ..peers import tempered

    grid = np.linspace(x.min() - 15.0, x.max() + 15.0, 2001)
    if config.quick:
        return tempered.reference(x, K, prior, grid, **SHORT)
    path = config.cache / f"tempered-{name}-{K}.npz"
    return tempered.cached_reference(path, x, K, prior, grid, **LONG)


def _ordered(mixing, means, sds):
    """Draws of each parameter with components in the order of their means."""
    order = means.argsort(axis=1)
    parts = [np.take_along_axis(part, order, axis=1) for part in (means, sds, mixing)]
    columns = [parts[0][:, 0], parts[0][:, 1], parts[1][:, 0], parts[1][:, 1], parts[2][:, 0]]
    return dict(zip(NAMES, columns, strict=True))


def estimator(K, prior, seed, n_particles=N_PARTICLES):
    """Ours with the same prior."""
    from skpmd import GaussianMixturePMD

    common = {
        "strategy": "parameters",
        "n_particles": n_particles,
        "weight_concentration_prior": prior.concentration,
        "mean_prior": [prior.mean],
        "reg_covar": 0.0,
        "random_state": seed,
    }
    if prior.kind == "independent":
        scale = {"mean_scale_prior": prior.mean_scale, "covariance_prior": [[prior.sd_scale**2]]}
        return GaussianMixturePMD(K, component_prior="independent", **common, **scale)
    return GaussianMixturePMD(
        K, mean_precision_prior=prior.mean_precision, degrees_of_freedom_prior=prior.dof,
        covariance_prior=[[prior.covariance]], **common,
    )  # fmt: skip


def _fitted(config, x, K, prior, seed):
    model = estimator(K, prior, seed, 2000 if config.quick else N_PARTICLES)
    with cpu_clock() as clock:
        model.fit(x[:, None])
    return model, clock.cpu


def low_dim(config, y, draws, long_run, seed):
    """Moments of the five parameters, and the evidence."""
    model, cpu = _fitted(config, y, 2, LOW_DIM, seed)
    found, weights = _ordered(*_parameters(model)), model.posterior_.weights
    rows = []
    for name in NAMES:
        mean = weights @ found[name]
        sd = np.sqrt(weights @ (found[name] - mean) ** 2)
        true_mean, true_sd = draws[name].mean(), draws[name].std()
        rows.append(
            {
                "kind": "low_dim",
                "parameter": name,
                "seed": seed,
                "mean_error": float(abs(mean - true_mean) / true_sd),
                "sd_error": float(abs(sd / true_sd - 1.0)),
                "cpu": cpu,
            }
        )
    return [*rows, _evidence("low_dim", 2, seed, model, long_run)]


def _parameters(model):
    """Weights, means and sds of every particle, each (m, K)."""
    return np.split(model.posterior_.particles, 3, axis=1)


def _evidence(name, K, seed, model, long_run):
    exact = float(np.mean(long_run.log_evidence))
    runs = long_run.log_evidence
    return {
        "kind": "evidence",
        "data": name,
        "K": K,
        "seed": seed,
        "log_evidence": float(model.log_evidence_),
        "error": abs(float(model.log_evidence_) - exact),
        "less_labels": float(model.log_evidence_) - math.lgamma(K + 1),
        "se_of_reference": float(runs.std(ddof=1) / np.sqrt(len(runs))),
    }


def galaxies(config, speeds, K, long_run, seed):
    """Total variation of the predictive density on a grid, and the evidence."""
    model, cpu = _fitted(config, speeds, K, GALAXIES, seed)
    grid = long_run.grid
    gap = np.exp(model.score_samples(grid[:, None])) - long_run.density
    row = {
        "kind": "galaxies",
        "K": K,
        "seed": seed,
        "tv": float(0.5 * np.abs(gap).sum() * (grid[1] - grid[0])),
        "cpu": cpu,
        "cpu_of_reference": float(long_run.cpu),
    }
    return [row, _evidence("galaxies", K, seed, model, long_run)]


def coverage(config, distance):
    """Share of true means in the conjugate strategy's intervals."""
    from skpmd import GaussianMixturePMD

    inside, replications = [], 10 if config.quick else REPLICATIONS
    for number in range(replications):
        rng = np.random.default_rng([2026, number])
        truth = np.array([0.0, distance])
        x = truth[(rng.random(300) < 0.4).astype(int)] + rng.standard_normal(300)
        model = GaussianMixturePMD(2, strategy="conjugate", random_state=number).fit(x[:, None])
        low, high = np.moveaxis(model.component_interval(LEVEL)["means"], -1, 0)
        order = model.means_[:, 0].argsort()
        inside.append((low[order, 0] <= truth) & (truth <= high[order, 0]))
    return [
        {
            "kind": "coverage",
            "distance": distance,
            "level": LEVEL,
            "coverage": float(np.mean(inside)),
            "replications": replications,
        }
    ]


def gates(rows):
    """Compare the worst of all seeds with the targets."""
    kinds = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    low = kinds["low_dim"]
    evidence = [row["error"] for row in kinds["evidence"] if row["data"] == "low_dim"]
    found = [
        Gate("low_dim, max mean error, sd", max(row["mean_error"] for row in low), 0.05),
        Gate("low_dim, max sd error", max(row["sd_error"] for row in low), 0.05),
        Gate("low_dim, max error of log evidence", max(evidence), 0.1),
    ]
    for K in dict.fromkeys(row["K"] for row in kinds["galaxies"]):
        worst = max(row["tv"] for row in kinds["galaxies"] if row["K"] == K)
        found.append(Gate(f"galaxies, K={K}, max total variation", worst, 0.02))
    return found


def plot(rows):
    """Errors of the two cases, and coverage."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.5), layout="constrained")
    for row in rows:
        if row["kind"] == "low_dim":
            place = NAMES.index(row["parameter"])
            axes[0].plot(place - 0.12, row["mean_error"], "o", color="C0", mfc="none",
                         label="error of the mean, sds")  # fmt: skip
            axes[0].plot(place + 0.12, row["sd_error"], "x", color="C1",
                         label="relative error of the sd")  # fmt: skip
        elif row["kind"] == "galaxies":
            axes[1].plot(row["K"], row["tv"], "o", color="C2", mfc="none", label="a seed's density")
        elif row["kind"] == "coverage":
            axes[2].plot(row["distance"], row["coverage"], "s", color="C3", label="coverage")
    axes[0].set_xticks(range(len(NAMES)), NAMES, rotation=30)
    for panel, bound in zip(axes, (0.05, 0.02), strict=False):
        panel.axhline(bound, color="grey", linewidth=0.8, label="target")
    axes[2].axhline(LEVEL, color="grey", linewidth=0.8, ls="--", label="level of the intervals")
    axes[0].set(title="low_dim_gauss_mix", ylabel="error", ylim=(-0.001, None))
    axes[1].set(title="galaxies", xlabel="components", ylabel="total variation", ylim=(0.0, None))
    axes[2].set(title="intervals of conjugate", xlabel="distance of means, sds")
    axes[2].set(ylabel="share of true means inside", xlim=(0.0, None))
    axes[1].margins(x=0.1)
    legend_above(figure, axes, ncols=6)
    return figure
