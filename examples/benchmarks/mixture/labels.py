"""Labels without classes: adjusted Rand index of mixtures and of scikit-learn's on two tables.

All rows, standardised, integer columns made continuous by uniform noise, and as many components as
there are classes, or two or five more. Thirty-six settings on each side: the form of covariances,
the number of components, and three kinds; and five of `HDBSCAN`, which has neither.

* ``pmd``: the conjugate strategy by default; ``pmd one``: one particle from k-means; ``pmd wide``:
  particles from k-means that count alike, with thirty times the rows' covariance as prior scatter,
  which is for groups more than for densities.
* ``gm`` and ``bgm``: `GaussianMixture` and `BayesianGaussianMixture` by default; ``bgm wide``: with
  the prior scatter of ``pmd wide``.
* ``hdbscan``: groups by density, of a smallest size that stands in the place of K; the rows that it
  leaves as noise are a group of their own.

The labels are held against the classes; the mean over five seeds counts, of the setting that is
best on the table (on either side more than a user could know).

``--quick``: scikit-learn's digits. ``--jobs N``: seeds side by side.
"""

import itertools

import numpy as np
from joblib import Parallel, delayed
from sklearn.cluster import HDBSCAN
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from .densities import fitted, table, warm_up

NAMES = ("keel_penbased", "keel_texture")
SEEDS = 5
COVARIANCES = ("full", "tied", "diag", "spherical")
WIDE = 30.0  # prior scatter, in covariances of the rows
SMALLEST = (5, 15, 50, 100, 200)  # group of HDBSCAN
EXTRA = (0, 2, 5)  # components beyond the number of classes


def run(config):
    """Every setting on each table, seed by seed."""
    names = ("digits",) if config.quick else NAMES
    cases = itertools.product(range(1 if config.quick else SEEDS), names)
    workers = Parallel(n_jobs=config.jobs)
    found = workers(delayed(labels)(config, name, seed) for seed, name in cases)
    return [row for rows in found for row in rows]


def labels(config, name, seed):
    """Adjusted Rand index of every setting of both sides."""
    warm_up()
    X, y = table(config, name)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    extra = EXTRA[:1] if config.quick else EXTRA
    rows = []

    def add(who, kind, K, found, cpu):
        case = {"data": name, "seed": seed, "who": who, "covariance": kind, "K": K}
        rows.append({**case, "ari": float(adjusted_rand_score(y, found)), "cpu": cpu})

    for size in SMALLEST[:1] if config.quick else SMALLEST:
        model = HDBSCAN(min_cluster_size=size, copy=True)
        with cpu_clock() as clock:
            model.fit(X)
        add("hdbscan", "none", size, model.labels_, clock.cpu)
    for more, kind in itertools.product(extra, COVARIANCES):
        K = len(np.unique(y)) + more
        for who, model in _labellers(X, K, kind, seed):
            found, cpu = fitted(model, X)
            add(who, kind, K, found.predict(X), cpu)
    print(f"{name}, seed {seed} done", flush=True)
    return rows


def _labellers(X, K, kind, seed):
    from skpmd import GaussianMixturePMD

    common = {"n_components": K, "covariance_type": kind, "random_state": seed}
    variance = X.var(axis=0)
    scatter = {"diag": variance, "spherical": float(variance.mean())}.get(kind, np.cov(X.T))
    wide = {"covariance_prior": WIDE * scatter}
    groups = {"weighting": "uniform", "init_params": "kmeans", **wide}
    one = {"n_particles": 1, "init_params": "kmeans"}
    for who, options in {"pmd": {}, "pmd one": one, "pmd wide": groups}.items():
        yield who, GaussianMixturePMD(**common, strategy="conjugate", **options)
    yield "gm", GaussianMixture(**common)
    yield "bgm", BayesianGaussianMixture(**common)
    yield "bgm wide", BayesianGaussianMixture(**common, **wide)


def _aris(rows):
    """Data set -> {setting: mean over seeds}."""
    found = {}
    for row in rows:
        setting = row["who"], row["covariance"], row["K"]
        found.setdefault(row["data"], {}).setdefault(setting, []).append(row["ari"])
    return {
        name: {setting: float(np.mean(values)) for setting, values in settings.items()}
        for name, settings in found.items()
    }


def gates(rows):
    """The best setting of ours less the best of scikit-learn's."""
    found = []
    for name, aris in _aris(rows).items():
        best = {
            ours: max(value for (who, *_), value in aris.items() if ("pmd" in who) == ours)
            for ours in (True, False)
        }
        found.append(Gate(f"{name}, gain of Rand index", best[True] - best[False], 0.0, ">="))
    return found


def plot(rows):
    """Rand index of every setting, the number of components as size."""
    plt = pyplot()
    aris = _aris(rows)
    figure, axes = plt.subplots(
        1, len(aris), figsize=(5 * len(aris), 3.8), layout="constrained", squeeze=False
    )
    for axis, (name, settings) in zip(axes[0], aris.items(), strict=True):
        least = min(K for who, _, K in settings if who != "hdbscan")
        whos = [who for who in dict.fromkeys(who for who, *_ in settings) if who != "hdbscan"]
        for (who, kind, K), value in settings.items():
            if who == "hdbscan":
                axis.axhline(value, color="grey", lw=0.7, ls=":", label="hdbscan, of each size")
                continue
            place = COVARIANCES.index(kind) + 0.13 * (whos.index(who) - (len(whos) - 1) / 2)
            place += 0.03 * (EXTRA.index(K - least) - 1)
            axis.plot(place, value, "o", color=f"C{whos.index(who)}", markersize=4 + K - least,
                      alpha=0.7, label=who if K == least else None)  # fmt: skip
        for more in EXTRA:
            label = f"{more} components more" if more else "a component for each class"
            axis.plot([], [], "o", color="grey", markersize=4 + more, label=label)
        axis.set_xticks(range(len(COVARIANCES)), COVARIANCES)
        axis.set(title=name.removeprefix("keel_"), ylabel="adjusted Rand index")
        axis.set(xlabel="form of covariances")
    legend_above(figure, axes[0], ncols=5)
    return figure
