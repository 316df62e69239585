"""Mixtures beside scikit-learn's: held-out log density and CPU on four tables.

Three random splits (20 % test, 16 % validation, the rest to learn from), columns standardised by
all but the test part, integer columns made continuous by uniform noise, columns that repeat another
left out, one thread. On the first split each side tries eight settings on the rows that are neither
test nor validation, and takes the one with the best log density of the validation part; on every
split it learns from all but the test part with it. Thirty components of full covariance:

* ``pmd``: `GaussianMixturePMD`, ``strategy="conjugate"``, as many particles as by default. Settings
  are how particles start, the prior of the covariances and the concentration of the weights.
* ``pmd single``: the same with one particle.
* ``gm average``: the average of the densities of as many `GaussianMixture` as ours has particles,
  sixteen, or eight of many columns; settings are how they start and ``reg_covar``.
* ``gm stacked``: the same with the weights that make the validation part most probable under those
  fitted to the rows to learn from alone (the log density of an average is concave in them).
* ``flow``: a neural spline flow, trained on the rows to learn from until the validation part's log
  density grows no more, or for two minutes, and then on both for as many passes (`peers.flow`).
  Settings are its width and depth.
* ``gm``: the best of its own objective among as many starts as fit into the CPU of ``pmd single``.
* ``gm first``: the first of those starts, to its end, whatever the CPU.
* ``bgm``: the best so of `BayesianGaussianMixture` with the prior and the CPU of ``pmd``.
* ``gm bic``: `GaussianMixture` of the number of components with the best BIC, up to 60.

``--quick``: scikit-learn's digits, ten components. ``--jobs N``: cases side by side.
"""

import warnings

import numpy as np
from joblib import Parallel, delayed
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from ..harness import datasets
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock

NAMES = ("keel_magic", "htru2", "keel_penbased", "keel_texture")
SEEDS = 3
N_COMPONENTS, N_AVERAGED = 30, 16
FLOWS = ({"transforms": 3, "hidden": (64, 64)}, {"transforms": 5, "hidden": (128, 128)})
FLOW_CPU = 120.0
INITS = ("k-means++", "random_from_data")
OURS = [
    {"init_params": init, "floor": floor, "concentration": concentration}
    for init in INITS
    for floor in (1e-2, 1e-3)
    for concentration in (None, 1.0)
]
PEERS = [
    {"init_params": init, "reg_covar": floor}
    for init in ("kmeans", "random_from_data")
    for floor in (1e-6, 1e-4, 1e-3, 1e-2)
]
BIC_SIZES = (2, 5, 10, 20, 30, 45, 60)
CPU_SHARE, MIN_WON, WORST_LOSS = 0.2, 3, -0.1


def run(config):
    """Choose on the first split of each table, measure on all."""
    names = ("digits",) if config.quick else NAMES
    seeds = range(1, 1 if config.quick else SEEDS)
    workers = Parallel(n_jobs=config.jobs)
    choices = workers(delayed(chosen)(config, name) for name in names)
    choices = dict(zip(names, choices, strict=True))
    cases = [(config, name, seed, choices[name]) for seed in (0, *seeds) for name in names]
    found = workers(delayed(measured)(*case) for case in cases)
    return [row for rows in found for row in rows]


def warm_up():
    """Compile what is compiled on a first call, in this process."""
    X = np.random.default_rng(0).standard_normal((100, 3))
    for n in (1, 2):
        setting = {"init_params": INITS[0], "floor": 1e-2, "concentration": None}
        fitted(ours(setting, X, 0, n, 2), X)


def parts(config, name, seed):
    """Rows to learn from, validation, test; standardised by all but the test."""
    X, _ = table(config, name)
    order = np.random.default_rng(seed).permutation(len(X))
    n = len(X) // 5
    known = order[n:]
    X = (X - X[known].mean(axis=0)) / X[known].std(axis=0)
    n_valid = len(known) // 5
    return X[known[n_valid:]], X[known[:n_valid]], X[order[:n]]


def table(config, name):
    """All rows, continuous, and their classes.

    Columns that are constant or repeat another one are left out: there is no density with them
    (three of keel_texture's forty).
    """
    X, y = digits() if config.quick else datasets.labelled(name, config.data)
    first = np.sort(np.unique(X, axis=1, return_index=True)[1])
    X = X[:, first]
    return datasets.dequantised(X[:, X.std(axis=0) > 0.0]), y


def digits():
    """scikit-learn's digits, ten principal components."""
    images, y = load_digits(return_X_y=True)
    mean, axes = datasets.principal_axes(images, 10)
    return (images - mean) @ axes, y


def chosen(config, name):
    """Setting of each kind with the best log density of the first split's validation part."""
    warm_up()
    learn, valid, _ = parts(config, name, 0)
    K, n_averaged = _sizes(config)
    own, single, peer, average = [], [], [], []
    for setting in OURS:
        model, cpu = fitted(ours(setting, learn, 0, "auto", K), learn)
        own.append((model.score(valid), model, cpu))
        single.append(fitted(ours(setting, learn, 0, 1, K), learn)[0].score(valid))
    for setting in PEERS:
        models = [fitted(theirs(setting, seed, K), learn)[0] for seed in range(n_averaged)]
        peer.append(np.mean([model.score(valid) for model in models]))
        average.append(averaged(models, valid))
    flows = [flow(setting, learn, valid, 0, config)[0](valid).mean() for setting in FLOWS]
    place = int(np.argmax([score for score, _, _ in own]))
    _, model, cpu = own[place]
    bayes = {init: bayesian(model, init, learn, cpu)[0].score(valid) for init in INITS}
    return {
        "pmd": OURS[place],
        "pmd single": OURS[int(np.argmax(single))],
        "gm average": PEERS[int(np.argmax(average))],
        "gm": PEERS[int(np.argmax(peer))],
        "bgm": {"init_params": max(bayes, key=bayes.get)},
        "flow": FLOWS[int(np.argmax(flows))],
    }


def measured(config, name, seed, choices):
    """All kinds on one split, with the settings chosen."""
    warm_up()
    learn, valid, test = parts(config, name, seed)
    known = np.concatenate([learn, valid])
    K, n_averaged = _sizes(config)
    rows = []

    def add(kind, score, cpu, setting):
        text = " ".join("1/K" if value is None else f"{value}" for value in setting.values())
        case = {"kind": kind, "data": name, "seed": seed, "setting": text}
        rows.append({**case, "score": float(score), "cpu": cpu})

    model, cpu = fitted(ours(choices["pmd"], known, seed, "auto", K), known)
    add("pmd", model.score(test), cpu, choices["pmd"])
    n_averaged = int(model.history_["n_particles"][-1])
    init = choices["bgm"]["init_params"]
    add("bgm", *_scored(bayesian(model, init, known, cpu, seed), test), choices["bgm"])
    model, cpu = fitted(ours(choices["pmd single"], known, seed, 1, K), known)
    add("pmd single", model.score(test), cpu, choices["pmd single"])
    peer = within(lambda start: theirs(choices["gm"], 100 * seed + start, K), known, cpu)
    add("gm", *_scored(peer, test), choices["gm"])
    peer = fitted(theirs(choices["gm"], 100 * seed, K), known)
    add("gm first", *_scored(peer, test), choices["gm"])
    starts = range(100 * seed, 100 * seed + n_averaged)
    models = [fitted(theirs(choices["gm average"], start, K), known) for start in starts]
    cpu = sum(one for _, one in models)
    models = [one for one, _ in models]
    add("gm average", averaged(models, test), cpu, choices["gm average"])
    first = [fitted(theirs(choices["gm average"], start, K), learn) for start in starts]
    cpu += sum(one for _, one in first)
    log_weights, search = stacking([one for one, _ in first], valid)
    add("gm stacked", averaged(models, test, log_weights), cpu + search, choices["gm average"])
    density, cpu = flow(choices["flow"], learn, valid, seed, config)
    add("flow", density(test).mean(), cpu, choices["flow"])
    sizes = (2, 5, 10) if config.quick else BIC_SIZES
    models = [fitted(theirs(choices["gm"], seed, size), known) for size in sizes]
    best = min((one for one, _ in models), key=lambda one: one.bic(known))
    cpu = sum(one for _, one in models)
    add("gm bic", best.score(test), cpu, {**choices["gm"], "K": best.n_components})
    print(f"{name}, split {seed}: " + _short(rows), flush=True)
    return rows


def _sizes(config):
    return (10, 3) if config.quick else (N_COMPONENTS, N_AVERAGED)


def _scored(found, test):
    model, cpu = found
    return model.score(test), cpu


def _short(rows):
    return ", ".join(f"{row['kind']} {row['score']:.3f} / {row['cpu']:.1f} s" for row in rows)


def ours(setting, X, seed, n_particles, K):
    """Our estimator; the floor is the prior's covariance as a share of that of the rows."""
    from skpmd import GaussianMixturePMD

    return GaussianMixturePMD(
        K, strategy="conjugate", n_particles=n_particles, random_state=seed,
        init_params=setting["init_params"], covariance_prior=setting["floor"] * np.cov(X.T),
        weight_concentration_prior=setting["concentration"],
    )  # fmt: skip


def theirs(setting, seed, K):
    """GaussianMixture."""
    return GaussianMixture(K, random_state=seed, **setting)


def fitted(model, X):
    """The fitted model and its CPU seconds, those of a first prediction included.

    Ours finds the weights of the average on their first use.
    """
    with warnings.catch_warnings(), cpu_clock() as clock:
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X).score_samples(X[:1])
    return model, clock.cpu


def averaged(models, X, log_weights=None):
    """Mean log of the average density, by weights or of all alike."""
    if log_weights is None:
        log_weights = np.full(len(models), -np.log(len(models)))
    table = np.stack([model.score_samples(X) for model in models])
    return float(np.mean(logsumexp(table + log_weights[:, None], axis=0)))


def stacking(models, valid, steps=1000):
    """Log weights of the best average by the validation part, and the CPU of the search."""
    with cpu_clock() as clock:
        table = np.stack([model.score_samples(valid) for model in models])
        log_weights = np.full(len(models), -np.log(len(models)))
        for _ in range(steps):  # of EM
            shares = table + log_weights[:, None]
            shares -= logsumexp(shares, axis=0)
            log_weights = logsumexp(shares, axis=1) - np.log(shares.shape[1])
    return log_weights, clock.cpu


def flow(setting, learn, valid, seed, config):
    """A spline flow's log density, and the CPU seconds of its training."""
    from ..peers.flow import spline_flow

    return spline_flow(
        learn, valid, seed=seed, max_cpu=2.0 if config.quick else FLOW_CPU, **setting
    )


def bayesian(model, init_params, X, cpu, seed=0):
    """BayesianGaussianMixture with the prior of a fitted mixture of ours, and CPU of at least its.

    scikit-learn's prior of a covariance is the one of ours: an inverse Wishart distribution.
    """
    return within(
        lambda start: BayesianGaussianMixture(
            n_components=model.n_components,
            init_params=init_params,
            weight_concentration_prior_type="dirichlet_distribution",
            weight_concentration_prior=model.weight_concentration_prior_,
            mean_prior=model.mean_prior_,
            mean_precision_prior=model.mean_precision_prior_,
            degrees_of_freedom_prior=model.degrees_of_freedom_prior_,
            covariance_prior=model.covariance_prior_,
            random_state=100 * seed + start,
        ),
        X,
        cpu,
    )


def within(make, X, budget, n_steps=10, most=100):
    """Start after start, each to its end, until the CPU is spent; the best and the CPU.

    Ten steps at a time, so that CPU ends soon after the budget; a hundred steps at most, as by
    default.
    """
    best, cpu, starts = None, 0.0, 0
    while cpu < budget:
        model = make(starts).set_params(warm_start=True, max_iter=n_steps)
        starts += 1
        for _ in range(most // n_steps):
            model, spent = fitted(model, X)
            cpu += spent
            if model.converged_ or cpu >= budget:
                break
        if best is None or model.lower_bound_ > best.lower_bound_:
            best = model
    return best, cpu


def _means(rows, kind, key="score"):
    """Data set -> mean over splits."""
    own = [row for row in rows if row["kind"] == kind]
    return {
        name: float(np.mean([row[key] for row in own if row["data"] == name]))
        for name in dict.fromkeys(row["data"] for row in own)
    }


def gates(rows):
    """Log densities by data set, and CPU."""
    kinds = dict.fromkeys(row["kind"] for row in rows)
    score = {kind: _means(rows, kind) for kind in kinds}
    names = list(score["pmd"])

    def gaps(kind, other):
        return [score[kind][name] - score[other][name] for name in names]

    over = gaps("pmd", "gm average")
    single = gaps("pmd single", "gm") + gaps("pmd single", "gm first")
    cpu = {kind: _means(rows, kind, "cpu") for kind in ("pmd", "gm average")}
    share = max(cpu["pmd"][name] / cpu["gm average"][name] for name in names)
    won = min(MIN_WON, len(names))
    return [
        Gate("data sets not behind the average", sum(gap >= 0 for gap in over), won, ">="),
        Gate("least gain over the average, nats", min(over), WORST_LOSS, ">="),
        Gate("largest share of the CPU of the average", share, CPU_SHARE),
        Gate(
            "least gain over stacked mixtures, nats",
            min(gaps("pmd", "gm stacked")),
            WORST_LOSS,
            ">=",
        ),
        Gate("least gain over a spline flow, nats", min(gaps("pmd", "flow")), WORST_LOSS, ">="),
        Gate("least gain over BayesianGaussianMixture", min(gaps("pmd", "bgm")), 0.0, ">="),
        Gate("least gain over the best BIC", min(gaps("pmd", "gm bic")), 0.0, ">="),
        Gate("one particle, least gain over one mixture", min(single), 0.0, ">="),
    ]


def plot(rows):
    """Gains of log density, and CPU, by table and peer."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    own, cpu = _means(rows, "pmd"), _means(rows, "pmd", "cpu")
    known = {row["kind"] for row in rows}
    shown = ("gm average", "gm stacked", "flow", "bgm", "gm bic", "pmd single")
    shown = [kind for kind in shown if kind in known]
    height = 0.8 / len(shown)
    for place, kind in enumerate(shown):
        at = np.arange(len(own)) + height * (place - (len(shown) - 1) / 2)
        means, times = _means(rows, kind), _means(rows, kind, "cpu")
        axes[0].barh(at, [own[name] - means[name] for name in own], 0.9 * height, label=kind)
        axes[1].plot([times[name] / cpu[name] for name in own], at, "o")
    axes[0].axvline(0.0, color="grey", linewidth=0.8)
    axes[0].set_yticks(range(len(own)), [name.removeprefix("keel_") for name in own])
    axes[0].set(xlabel="log density per row: pmd minus the other, nats")
    axes[0].invert_yaxis()
    axes[1].axvline(1.0, color="grey", linewidth=0.8)
    axes[1].set(xlabel="CPU of the other over that of pmd (line: equal)", xscale="log")
    axes[1].grid(axis="x", alpha=0.3)
    plain_ticks(axes[1].xaxis)
    legend_above(figure, axes, ncols=len(shown))
    return figure
