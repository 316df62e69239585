"""The paper's tied mixture beside other methods: total variation against rows read and CPU.

Section 6 and appendix H.1 of the paper (figures 1 and 3): 1000 rows of N(theta1, 2.5^2) / 2 +
N(theta1 + theta2, 2.5^2) / 2 at theta = (1, -2), prior N(0, I), two modes; ten runs, each with data
of its own; 1500 particles, draws or components for every other method, as in the paper, all started
from the prior, batches of 10 rows for those that take batches:

* ``pmd``: ParticleMirrorDescent as it comes, with its 1000 particles. Its five runs, with
  ``max_iter`` from 1 to 5, are the same fit five times: the default fits proposals to the posterior
  of all rows, and ``max_iter`` counts passes of mirror steps, of which it takes none. The curve is
  hence a point. ``pmd 1500``: with 1500. ``pmd stream``: `partial_fit` of 10 rows a call, each read
  once but for substeps, with 1500.
* ``one-pass SMC``, setting: the bandwidth; ``IBIS`` and ``tempered SMC`` of the package particles,
  waste-free or standard with 4 or 9 moves.
* ``SGLD`` (blackjax), burn-in of 1000 steps, ``chains x step size``, one chain as in the paper or
  ten; ``Gibbs``, burn-in of 50 scans, one chain as in the paper, ten or a hundred; ``NUTS``
  (NumPyro), four chains.
* ``SVI`` (NumPyro), a Gaussian of full or diagonal covariance and a learning rate; ``SGD NPV`` with
  1500 components (the paper's memory) or fewer (more steps in the same time), and a learning rate.
* ``nested sampling`` (dynesty), by its live points, which answers when it ends; ``grid``: the
  posterior on grids of 21 to 321 points a side. It is exact here, as it would be for up to three
  parameters: whoever has so few needs none of the others. The targets leave it out.
* ``exact draws`` (a row of kind ``floor``): 1500 independent draws from the grid, made a density as
  those of the peers are. What comes near it is limited by memory and the density estimate alone,
  and who kept more draws would come nearer. What has a density of its own may be below it: ours,
  and Gibbs sampling, whose density is the average of its conditional Gaussians.

``tv`` is the total variation to the exact posterior on a grid, ``kl`` is KL(exact, estimate), which
is the paper's ``cross_entropy`` less the entropy of the exact posterior. Other draws and particles
of peers become densities by the best of three ways, judged by ``tv`` on each: this library's kernel
density estimate (leave-one-out), the paper's with 0.1 times the median distance, and one Gaussian.
Ours is `Posterior.log_density`.

``rows`` counts rows read, once where they are read for several particles or chains at once. Peers
run to ten times our CPU seconds or to their own end. ``curve`` rows are means over runs at the last
answer up to 0.1, 0.3, 1, 3 and 10 times our CPU seconds. ``verdict`` rows compare at equal CPU as
`verdicts` says, a peer's best setting and answer taken in each run. Contours in the picture are of
averages over runs, ours with its defaults, peers at their ends in each run's best setting (two
modes there need not be two in any one run); they are in a NumPy archive of the cache.

``--jobs N``: runs side by side.
"""

import warnings
from collections import defaultdict
from contextlib import contextmanager
from functools import partial

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from skpmd import ParticleMirrorDescent
from skpmd.engine import kde

from ..harness.pictures import legend_above
from ..harness.study import pyplot, stem
from ..harness.timing import cpu_clock
from ..harness.verdicts import Answer, verdict_gates, verdicts
from ..peers.problem import Snapshot
from . import tied_mixture
from .mixture_peers import BATCH, GRID, peers, problem

SEEDS, PASSES = 10, 5
BUDGETS = (0.1, 0.3, 1.0, 3.0, 10.0)  # of our CPU seconds, at which peers are judged
SUPPORT = 1e-9  # of the exact density's peak: what is below has a mass of 1e-9
SHOWN = np.linspace(-3.5, 3.5, 71)  # axis of the pictures
LEVELS = (0.03, 0.1, 0.3, 0.6, 0.9)  # of their contours, as shares of the exact density's peak
LABELS = {
    "rows": "rows read",
    "cpu": "CPU seconds",
    "tv": "total variation",
    "kl": "KL(exact, estimate), nats",
}


def run(config):
    """All runs, their means and the verdicts; the picture's densities go to an archive."""
    seeds = range(1 if config.quick else SEEDS)
    work = Parallel(n_jobs=config.jobs)
    found = work(delayed(one_run)(config.quick, seed) for seed in seeds)
    points = [point for measured, _ in found for point in measured]
    densities = defaultdict(list)
    for _, shown in found:
        for method, density in shown.items():
            densities[method].append(density)
    averages = {method: np.mean(kept, axis=0) for method, kept in densities.items()}
    path = _archive(config.cache, stem("paper_mixture", config))
    np.savez_compressed(path, **{k: v.astype(np.float16) for k, v in averages.items()})
    return curves(points) + compared(points)


def one_run(quick, seed):
    """Points of all methods' curves, and {method: density on the pictures' grid}."""
    n_rows, size = (300, 300) if quick else (1000, tied_mixture.N_PARTICLES)
    X = tied_mixture.data(n_rows, seed)
    judge = Judge(X)
    points, shown = [], {"exact": judge.exact}
    with quiet_clock():  # compiles
        ours(seed)[0].fit(X)

    def add(method, setting, place, cpu, rows, density):
        case = {"method": method, "setting": setting, "place": place, "seed": seed}
        points.append({**case, "cpu": cpu, "rows": rows, **judge.distances(density)})

    for method, options in {"pmd 1500": {"n_particles": size}, "pmd": {}}.items():
        for place, (cpu, rows, density) in enumerate(passes(X, seed, options)):
            add(method, "1 to 5 passes", place, cpu, rows, density)
    own, shown["pmd"] = cpu, judge.picture(density)
    add("exact draws", "", 0, np.nan, 0, judge.best(judge.draws(size, seed)))
    for place, (cpu, rows, density) in enumerate(stream(X, size, seed)):
        add("pmd stream", "once", place, cpu, rows, density)
    for method, kinds in peers(quick).items():
        best = np.inf
        for setting, (peer, options) in kinds.items():
            budget = {"n_particles": size, "seed": seed, "max_cpu": BUDGETS[-1] * own}
            snapshots = peer(problem(), X, None, **{**budget, **options})
            with threadpool_limits(1):
                answers = judged(list(snapshots), own, judge)
            for place, snapshot, density in answers:
                add(method, setting, place, snapshot.cpu, snapshot.rows, density)
            if answers and points[-1]["tv"] < best:
                best, shown[method] = points[-1]["tv"], judge.picture(density)
    return points, shown


def judged(snapshots, cpu, judge):
    """For each share of the budget: (place, last snapshot within it, its best log density)."""
    answers = []
    for place, share in enumerate(BUDGETS):
        within = [snapshot for snapshot in snapshots if snapshot.cpu <= share * cpu]
        if within and answers and within[-1] is answers[-1][1]:
            answers.append((place, *answers[-1][1:]))
        elif within:
            answers.append((place, within[-1], judge.best(within[-1])))
    return answers


@contextmanager
def quiet_clock():
    """A CPU clock, without the warnings of short fits and of streams."""
    with warnings.catch_warnings(), cpu_clock() as clock:
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield clock


def passes(X, seed, options):
    """Yield (CPU, rows read, log density) of fits of one pass, two, and so on to the default."""
    for max_iter in range(1, PASSES + 1):
        model, read = ours(seed, **options)
        with quiet_clock() as clock:
            model.set_params(max_iter=max_iter).fit(X)
        yield clock.cpu, sum(read), model.posterior_.log_density


def stream(X, size, seed):
    """Yield the same of a stream of batches, at points evenly spaced in the logarithm."""
    model, read = ours(seed, n_particles=size)
    cpu, ends = 0.0, range(BATCH, len(X) + 1, BATCH)
    shown = set(np.geomspace(1, len(ends), len(BUDGETS)).round())
    for step, end in enumerate(ends, start=1):
        with quiet_clock() as clock:
            model.partial_fit(X[end - BATCH : end])
        cpu += clock.cpu
        if step in shown:
            yield cpu, sum(read), model.posterior_.log_density


def ours(seed, **options):
    """Return the estimator, and a list that takes the rows of each reading."""
    read = []

    def log_likelihood(theta, X, y):
        read.append(len(X))
        return tied_mixture.log_likelihood(theta, X, y)

    prior = tied_mixture.log_prior, tied_mixture.sample_prior
    return ParticleMirrorDescent(log_likelihood, *prior, random_state=seed, **options), read


class Judge:
    """The exact posterior where it is not negligible, and distances to it."""

    def __init__(self, X):
        grid = tied_mixture.Grid(X, 161)
        kept = grid.density > SUPPORT * grid.density.max()
        self.points, self.cell = grid.points[kept], grid.cell
        self.log_density, self.density = grid.log_density[kept], grid.density[kept]
        self.grid = grid
        self.entropy = -(self.density @ self.log_density) * self.cell
        self.shown = np.stack(np.meshgrid(SHOWN, SHOWN, indexing="ij"), axis=-1).reshape(-1, 2)
        log_joint = tied_mixture.log_prior(self.shown) + tied_mixture.log_likelihood(
            self.shown, X, None
        )
        self.exact = np.exp(log_joint - grid.log_evidence)

    def distances(self, log_density):
        """Total variation, divergence and cross entropy of a normalised density."""
        found = log_density(self.points)
        overlap = np.minimum(self.density, np.exp(found)).sum() * self.cell
        # Where an estimate vanishes the divergence is infinite; the floor keeps it printable.
        cross = -(self.density @ np.maximum(found, -700.0)) * self.cell
        return {"tv": 1.0 - overlap, "kl": cross - self.entropy, "cross_entropy": cross}

    def best(self, snapshot):
        """The log density of a snapshot, or the best of three estimates from its particles."""
        if snapshot.log_density is not None:
            return snapshot.log_density
        particles = snapshot.particles, snapshot.log_weights
        estimates = [
            kde.fit(*particles, bandwidth="loo"),
            kde.fit(*particles, bandwidth="median", shrinkage=False),
            kde.fit(*particles, bandwidth=1.0),  # one Gaussian
        ]
        densities = [partial(kde.log_density, estimate) for estimate in estimates]
        return min(densities, key=lambda density: self.distances(density)["tv"])

    def draws(self, size, seed):
        """Exact draws as a snapshot."""
        draws = self.grid.draw(size, np.random.default_rng(seed))
        return Snapshot(np.nan, 0, draws, np.zeros(size))

    def picture(self, log_density):
        """Density on the pictures' grid."""
        return np.exp(log_density(self.shown))


def curves(points):
    """Means over runs, a row for each setting and place; places where nothing is new left out."""
    groups = defaultdict(list)
    for point in points:
        groups[point["method"], point["setting"], point["place"]].append(point)
    rows = []
    for (method, setting, _), group in groups.items():
        kind = "floor" if method == "exact draws" else "curve"
        row = {"kind": kind, "method": method, "setting": setting, "runs": len(group)}
        for key in ("rows", "cpu", "tv", "kl", "cross_entropy"):
            row[key] = float(np.mean([point[key] for point in group]))
        row["tv_sd"] = float(np.std([point["tv"] for point in group]))
        if not rows or rows[-1] != row:
            rows.append(row)
    return rows


def compared(points):
    """Verdicts on all peers, by total variation at equal CPU."""
    own, others = {}, defaultdict(lambda: defaultdict(list))
    for point in points:
        answer = Answer(point["cpu"], point["tv"])
        if point["method"] == "pmd":
            own[point["seed"]] = answer  # the last one is that of the defaults
        elif point["method"] not in ("pmd 1500", "pmd stream", "exact draws"):
            others[point["method"]][point["seed"]].append(answer)
    return verdicts(own, others)


def gates(rows):
    """Level with most methods, far behind none but the grid."""
    return verdict_gates([row for row in rows if row["method"] != GRID])


def shown(results):
    """The densities that the picture shows, from the archive beside the results."""
    with np.load(_archive(results.parent / "cache", results.stem)) as archive:
        return {"averages": {name: archive[name].astype(float) for name in archive.files}}


def _archive(cache, name):
    return cache / f"{name}-densities.npz"


def plot(rows, averages):
    """Contours of the averages over runs; total variation and divergence."""
    plt = pyplot()
    figure = plt.figure(figsize=(12, 10), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(3, 2.4))
    axes = top.subplots(2, -(-len(averages) // 2), sharex=True, sharey=True, squeeze=False)
    _contours(axes, averages)
    kept = [row for row in rows if row["kind"] == "curve"]
    styles = _styles(list(dict.fromkeys(row["method"] for row in kept)))
    (floor,) = (row for row in rows if row["kind"] == "floor")
    panels = bottom.subplots(1, 3)
    for axis, (x, y) in zip(panels, (("rows", "tv"), ("cpu", "tv"), ("rows", "kl")), strict=True):
        for method, style in styles.items():
            line = _best_setting([row for row in kept if row["method"] == method])
            axis.plot([row[x] for row in line], [row[y] for row in line], **style)
        axis.axhline(floor[y], color="grey", linestyle=":", label="exact draws")
        axis.set(xlabel=LABELS[x], ylabel=LABELS[y], xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    legend_above(bottom, panels[:1], ncols=7)
    return figure


def _contours(axes, averages):
    """Densities on the pictures' grid, the exact one and ours in bold frames."""
    levels = averages["exact"].max() * np.array(LEVELS)
    for axis, (method, density) in zip(axes.flat, averages.items(), strict=False):
        table = density.reshape(len(SHOWN), -1).T
        drawn = axis.contour(SHOWN, SHOWN, table, levels=levels, cmap="viridis", linewidths=1.0)
        axis.set(title=method, aspect="equal")
        if method in ("exact", "pmd"):
            axis.set_title(method, fontweight="bold")
            axis.spines[:].set_linewidth(2.0)
    for axis in axes[-1]:
        axis.set_xlabel(r"$\theta_1$")
    for axis in axes[:, 0]:
        axis.set_ylabel(r"$\theta_2$")
    names = [f"{level:g}" for level in LEVELS]
    axes[0, 0].figure.legend(
        drawn.legend_elements()[0], names, loc="outside upper center", ncols=len(LEVELS),
        title="average posterior density, as a share of the exact one's peak", fontsize=9,
    )  # fmt: skip


def _styles(methods):
    """Ours in black, a colour and a marker for each of the others."""
    others = [method for method in methods if not method.startswith("pmd")]
    own = [method for method in methods if method not in others]
    styles = {
        method: {"color": "black", "marker": marker, "markersize": 8, "linewidth": 2.0}
        for method, marker in zip(own, "Xv*", strict=False)
    }
    for k, method in enumerate(others):
        styles[method] = {"color": f"C{k % 10}", "marker": "os^D"[k % 4], "markersize": 5}
    return {method: {"label": method, **styles[method]} for method in methods}


def _best_setting(rows):
    """The curve of the setting that ends with the least total variation."""
    lines = defaultdict(list)
    for row in rows:
        lines[row["setting"]].append(row)
    return min(lines.values(), key=lambda line: line[-1]["tv"])
