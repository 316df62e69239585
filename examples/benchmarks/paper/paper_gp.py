"""The paper's one-dimensional example of a sparse GP: error against passes, beside SVGP.

Appendix H.3.1 of the paper: 2048 rows of y = 3 x^2 + (sin(3.53 pi x) + cos(7.7 pi x))
exp(-1.6 pi abs(x)) + 0.1 e on [-0.5, 0.5], 128 inducing inputs, batches of 128 rows, squared
exponential kernel. The error is the RMSE of the posterior mean against the function without noise,
at 500 places.

* ``exact``: `partial_fit` of each batch once, kernel fitted to the first call's rows.
* ``exact, fixed kernel`` and ``paper``: length scale a tenth of the median distance of two rows,
  as in the paper, and the noise of the data; each row once, or the paper's stochastic mirror steps
  eta / (n0 + sqrt(t)) (`peers.mirror_gp`), eta and n0 those of a grid that end best.
* ``svgp``: GPyTorch, Adam with learning rates 0.01 and 0.05, natural gradients with 0.05; kernel
  and inducing inputs are fitted. The least error so far of all three is shown.

The exact posterior of all rows, by scikit-learn's `GaussianProcessRegressor`, is the floor.
"""

import itertools

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..peers.mirror_gp import mirror_gp
from ..sparse_gp.flights import PEER
from ..sparse_gp.regression import estimator

N, N_INDUCING, BATCH, PASSES, SEEDS = 2048, 128, 128, 20, 3
NOISE = 0.01
GRID = tuple(itertools.product((0.5, 1.0, 2.0), (1.0, 4.0, 16.0)))  # eta, n0
PLACES = np.linspace(-0.5, 0.5, 500)[:, None]
SHOWN = (1, 2, 16)  # batches after which the posterior is drawn
KINDS = {  # of the picture's curves
    "exact": "pmd, exact",
    "exact, fixed kernel": "pmd, exact, fixed kernel",
    "paper": "the paper's steps",
    "svgp": "svgp",
}


def truth(X):
    """The function without noise."""
    x = X[:, 0]
    waves = np.sin(3.53 * np.pi * x) + np.cos(7.7 * np.pi * x)
    return 3.0 * x**2 + waves * np.exp(-1.6 * np.pi * np.abs(x))


def data(seed):
    """Rows in random order."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (N, 1))
    return X, truth(X) + 0.1 * rng.standard_normal(N)


def run(config):
    """Error after each batch of the first pass and after each pass."""
    rows = []
    for seed in range(1 if config.quick else SEEDS):
        X, y = data(seed)
        rows.append({"kind": "floor", "seed": seed, "passes": 1.0, "rmse": _floor(X, y, seed)})
        for kind, params in {"exact": {}, "exact, fixed kernel": _fixed(X)}.items():
            model = _model(seed).set_params(**params)
            rows += [{"kind": kind, "seed": seed, **one} for one in _stream(model, X, y)]
        passes = 5 if config.quick else PASSES
        rows += [{"kind": "paper", "seed": seed, **one} for one in _paper(X, y, seed, passes)]
        rows += [{"kind": "svgp", "seed": seed, **one} for one in _peer(X, y, seed, config.quick)]
    return rows


def _model(seed):
    return estimator("rbf", 1, "gaussian", N_INDUCING, seed)


def _kernel(X):
    distances = np.abs(X - X.T)[np.triu_indices(len(X), 1)]
    signal = ConstantKernel(1.0, "fixed") * RBF(0.1 * np.median(distances), "fixed")
    return signal + WhiteKernel(NOISE)


def _fixed(X):
    return {"kernel": _kernel(X), "optimizer": None, "normalize_y": False}


def _error(model):
    return float(np.sqrt(np.mean((model.predict(PLACES) - truth(PLACES)) ** 2)))


def _stream(model, X, y):
    """Error after each batch of a pass."""
    for start in range(0, N, BATCH):
        part = slice(start, start + BATCH)
        model.partial_fit(X[part], y[part])
        yield {"passes": part.stop / N, "rmse": _error(model)}


def _paper(X, y, seed, passes):
    """The steps of the paper that end with the least error."""
    shown = [*range(BATCH, N, BATCH), *range(N, passes * N + 1, N)]
    found = mirror_gp(
        X, y, _kernel(X), n_inducing=N_INDUCING, steps=GRID, noises=(NOISE,), batch_size=BATCH,
        passes=passes, seed=seed, checkpoints=shown,
    )  # fmt: skip
    curves = {}
    for _, n_read, setting, particles in found:
        error = np.mean((particles.predict_proba(PLACES).mean() - truth(PLACES)) ** 2)
        point = {"passes": n_read / N, "rmse": float(np.sqrt(error))}
        curves.setdefault(setting, []).append(point)
    return min(curves.values(), key=lambda points: points[-1]["rmse"])


def _floor(X, y, seed):
    kernel = _model(seed).fit(X, y).kernel_
    exact = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, y)
    return _error(exact)


def _peer(X, y, seed, quick):
    """The least error so far of all settings: more than a user could know."""
    from ..peers import svgp

    centre, scale = y.mean(), y.std()  # SVGP starts from the scales of standardised data

    def judge(predict):
        mean = predict(PLACES / X.std())[0] * scale + centre
        return float(np.sqrt(np.mean((mean - truth(PLACES)) ** 2)))

    best = {}
    for setting in PEER:
        points = svgp.train(
            X / X.std(), (y - centre) / scale,
            n_inducing=N_INDUCING, batch_size=BATCH, seed=seed, evaluate=judge,
            cpu_budget=np.inf, max_epochs=3 if quick else PASSES,
            checkpoints=tuple(np.arange(0.0, 60.0, 0.02)), **setting,
        )  # fmt: skip
        for _, epoch, error in points:
            if not isinstance(error, svgp.Failed):
                best[epoch] = min(error, best.get(epoch, np.inf))
    passes = np.array(sorted(best))
    errors = np.minimum.accumulate([best[epoch] for epoch in passes])
    batches = np.arange(1, N // BATCH + 1) * BATCH / N
    shown = np.append(batches, np.arange(2.0, passes[-1] + 0.5))
    last = np.searchsorted(passes, shown, side="right") - 1  # evaluated by then
    return [
        {"passes": float(p), "rmse": float(errors[k])}
        for p, k in zip(shown, last, strict=True)
        if k >= 0
    ]


def _last(rows, kind):
    own = {row["seed"]: row["rmse"] for row in rows if row["kind"] == kind}
    return float(np.mean(list(own.values())))


def gates(rows):
    """One exact pass beside all passes of the others, and beside the exact process."""
    exact = _last(rows, "exact")
    return [
        Gate(
            "error after one pass, in that of the exact process", exact / _last(rows, "floor"), 1.05
        ),
        Gate("the same, in that of SVGP's last pass", exact / _last(rows, "svgp"), 1.0),
        Gate(
            "the same, in that of the paper's steps, last pass", exact / _last(rows, "paper"), 1.0
        ),
    ]


def plot(rows):
    """The posterior as batches come in, and errors against passes."""
    plt = pyplot()
    figure = plt.figure(figsize=(14, 4.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(3.0, 1.4))
    axes = left.subplots(1, len(SHOWN), sharey=True)
    _posteriors(axes)
    axes[0].set_ylabel("y")
    legend_above(left, axes[:1], ncols=4, title="pmd, exact, fixed kernel")
    axis = right.subplots()
    for color, (kind, label) in enumerate(KINDS.items()):
        own = [row for row in rows if row["kind"] == kind and row["seed"] == 0]
        style = "o" if kind == "exact, fixed kernel" else "-"
        passes, errors = zip(*((row["passes"], row["rmse"]) for row in own), strict=True)
        axis.plot(passes, errors, f"C{color}{style}", label=label, markersize=4)
    floor = "exact process, all rows"
    axis.axhline(_last(rows[:1], "floor"), color="grey", linestyle=":", label=floor)
    axis.set(xscale="log", yscale="log", xlabel="passes", ylabel="RMSE to the function")
    plain_ticks(axis.xaxis)
    plain_ticks(axis.yaxis)
    legend_above(right, [axis], ncols=2, title="the first seed")
    return figure


def _posteriors(axes):
    """The posterior of the fixed kernel after some batches, a panel each."""
    X, y = data(0)
    model, x = _model(0).set_params(**_fixed(X)), PLACES[:, 0]
    for panel, (start, stop) in zip(axes, itertools.pairwise((0, *SHOWN)), strict=True):
        model.partial_fit(X[start * BATCH : stop * BATCH], y[start * BATCH : stop * BATCH])
        low, high = model.predict_interval(PLACES, level=0.95, target="f").T
        rows = X[: stop * BATCH, 0], y[: stop * BATCH]
        panel.plot(*rows, ".", color="0.7", markersize=2, label="rows so far")
        panel.plot(x, model.predict(PLACES), "C3", label="posterior mean")
        panel.fill_between(x, low, high, color="C3", alpha=0.3, label="its 95 % interval")
        panel.plot(x, truth(PLACES), "C0--", linewidth=1.0, label="function without noise")
        panel.set(title=f"{stop * BATCH} rows", xlabel="x")
