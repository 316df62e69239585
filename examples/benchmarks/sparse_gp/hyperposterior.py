"""The posterior of a kernel's hyperparameters by posterior weights, beside posteriordb's draws.

``gp_regr`` of posteriordb: 11 rows, squared exponential kernel, length scale rho ~ Gamma(25, 4),
alpha ~ half-normal(2), noise variance sigma ~ half-normal(1). All rows are inducing inputs, so that
the evidence of each particle is exact; particles start from the prior, are reweighted by mirror
steps and rejuvenated by the kernel density estimate. Errors of the means are in posterior standard
deviations. scikit-learn has no posterior of them: `GaussianProcessRegressor` gives one point.

The second part has 2,000 generated rows of three columns, each given 15 neighbours, and NUTS on the
same likelihood (two chains of 300 draws; one seed, for NUTS takes minutes).

``--quick``: eleven generated rows, and an exact posterior on a grid of 90^3 in place of draws.
"""

import itertools

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from ..harness import datasets
from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock

SEEDS = 3
N_PARTICLES = 1000
N_ROWS, N_NEIGHBORS = 2000, 15
PRIORS = {  # in the order of the kernel's theta: alpha is the root of the constant
    "alpha": stats.halfnorm(0.0, 2.0),
    "rho": stats.gamma(25.0, scale=0.25),
    "sigma": stats.halfnorm(0.0, 1.0),
}


class _Squared:
    """The distribution of the square of a positive variable."""

    def __init__(self, root):
        self.root = root

    def rvs(self, size=None, random_state=None):
        return self.root.rvs(size=size, random_state=random_state) ** 2

    def logpdf(self, value):
        root = np.sqrt(value)
        return self.root.logpdf(root) - np.log(2.0 * root)

    def cdf(self, value):
        return self.root.cdf(np.sqrt(value))


def run(config):
    """Fit with each seed; compare moments."""
    X, y, truth = _generated() if config.quick else _posteriordb(config.data)
    rows = []
    for seed in range(SEEDS):
        model = _estimator(seed)
        with cpu_clock() as clock:
            model.fit(X, y)
        draws = _own_scale(model.posterior_.particles)
        weights = model.posterior_.weights
        for name, (mean, sd) in truth.items():
            own = weights @ draws[name]
            spread = np.sqrt(weights @ (draws[name] - own) ** 2)
            rows.append(
                {
                    "process": "exact",
                    "parameter": name,
                    "seed": seed,
                    "mean": float(own),
                    "sd": float(spread),
                    "mean_error": float(abs(own - mean) / sd),
                    "sd_error": float(abs(spread / sd - 1.0)),
                    "ess": float(model.posterior_.ess),
                    "cpu": clock.cpu,
                }
            )
    return rows if config.quick else rows + _near(0)


def _near(seed):
    """Rows of the posterior by neighbours, and NUTS on its likelihood."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    from skpmd import SparseGPRegressorPMD

    from ..peers import vecchia_nuts

    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (N_ROWS, 3))
    y = np.sin(2.0 * X[:, 0]) + np.cos(X[:, 1]) * X[:, 2] + 0.3 * rng.standard_normal(N_ROWS)
    bounds = (1e-3, 1e3)
    kernel = ConstantKernel(1.0, bounds) * RBF(np.ones(3), bounds) + WhiteKernel(0.1, bounds)
    model = SparseGPRegressorPMD(
        kernel, approximation="vecchia", n_neighbors=N_NEIGHBORS, weighting="posterior",
        n_particles=N_PARTICLES, normalize_y=False, random_state=seed,
    )  # fmt: skip
    with cpu_clock() as clock:
        model.fit(X, y)
    logs, weights = np.log(model.posterior_.particles), model.posterior_.weights
    mean = weights @ logs
    found = model._state.model  # The same order and neighbours; the density is NUTS's own.
    sites, before = found.sites, found.before(np.arange(N_ROWS))
    own, cpu, ess = vecchia_nuts.draws(
        sites.X, sites.y[:, 0], before, mean, np.cov(logs.T, aweights=weights), seed
    )
    sd = np.sqrt(weights @ (logs - mean) ** 2)
    names = ("variance", *(f"length_scale {i}" for i in range(3)), "noise")
    return [
        {
            "process": "neighbours", "parameter": f"log {name}", "seed": seed,
            "mean": float(mean[i]), "sd": float(sd[i]),
            "mean_error": float(abs(mean[i] - own[:, i].mean()) / own[:, i].std()),
            "sd_error": float(abs(sd[i] / own[:, i].std() - 1.0)),
            "ess": float(model.posterior_.ess), "cpu": clock.cpu, "nuts_cpu": cpu,
            "nuts_ess": ess,
        }
        for i, name in enumerate(names)
    ]  # fmt: skip


def _estimator(seed):
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    from skpmd import SparseGPRegressorPMD

    bounds = (1e-9, 1e4)
    kernel = ConstantKernel(1.0, bounds) * RBF(1.0, bounds) + WhiteKernel(0.1, bounds)
    hyperprior = [_Squared(PRIORS["alpha"]), PRIORS["rho"], PRIORS["sigma"]]
    return SparseGPRegressorPMD(
        kernel, weighting="posterior", n_particles=N_PARTICLES, hyperprior=hyperprior,
        optimizer=None, normalize_y=False, random_state=seed,
    )  # fmt: skip


def _own_scale(particles):
    constant, rho, sigma = particles.T
    return {"alpha": np.sqrt(constant), "rho": rho, "sigma": sigma}


def _posteriordb(data_dir):
    X, y, draws = datasets.gp_regr(data_dir)
    truth = {name: (draws[name].mean(), draws[name].std()) for name in PRIORS}
    return X, y, truth


def _generated(n_grid=90):
    rng = np.random.default_rng(0)
    X = np.linspace(-10.0, 10.0, 11)[:, None]
    y = 2.0 * np.sin(X[:, 0] / 4.0) + 0.5 * rng.standard_normal(11)
    axes = [prior.ppf((np.arange(n_grid) + 0.5) / n_grid) for prior in PRIORS.values()]
    squared = (X - X.T) ** 2
    grid = np.array(list(itertools.product(*axes)))  # cells of equal prior mass
    value = np.empty(len(grid))
    for part in np.array_split(np.arange(len(grid)), 100):
        alpha, rho, sigma = grid[part].T[:, :, None, None]
        K = alpha**2 * np.exp(-0.5 * squared / rho**2) + (sigma + 1e-10) * np.eye(11)
        factor = np.linalg.cholesky(K)
        solved = np.linalg.solve(factor, np.broadcast_to(y[:, None], (len(part), 11, 1)))
        log_det = np.log(np.einsum("kii->ki", factor)).sum(axis=1)
        value[part] = -0.5 * (solved**2).sum(axis=(1, 2)) - log_det
    weight = np.exp(value - logsumexp(value))
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    return X, y, dict(zip(PRIORS, zip(mean, sd, strict=True), strict=True))


def gates(rows):
    """Compare the worst of all parameters and seeds with the targets."""
    found = []
    for process in dict.fromkeys(row["process"] for row in rows):
        own = [row for row in rows if row["process"] == process]
        found += [
            Gate(f"{process}: max mean error, sd", max(row["mean_error"] for row in own), 0.1),
            Gate(f"{process}: max sd error", max(row["sd_error"] for row in own), 0.1),
        ]
    return found


def plot(rows):
    """Errors of means and of standard deviations, by parameter, one posterior beside the other."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    names = list(dict.fromkeys((row["process"], row["parameter"]) for row in rows))
    labels = {
        "mean_error": "error of the mean, sds",
        "sd_error": "relative error of the sd",
    }
    for panel, (key, label) in zip(axes, labels.items(), strict=True):
        places = [names.index((row["process"], row["parameter"])) for row in rows]
        panel.plot(places, [row[key] for row in rows], "o", color="C0", mfc="none", label="a seed")
        panel.axhline(0.1, color="grey", linewidth=0.8, label="target: 0.1")
        for process in dict.fromkeys(process for process, _ in names):
            own = [place for place, (one, _) in enumerate(names) if one == process]
            if own[0]:
                panel.axvline(own[0] - 0.5, color="grey", linestyle=":")
            panel.text(np.mean(own), 1.01, process, transform=panel.get_xaxis_transform(),
                       ha="center", va="bottom")  # fmt: skip
        panel.set_xticks(range(len(names)), [name for _, name in names], rotation=40, ha="right")
        panel.set(ylabel=label, ylim=(0.0, None), xlim=(-0.5, len(names) - 0.5))
    legend_above(figure, axes, ncols=2)
    return figure
