"""Gaussian processes of few rows: are predictive intervals calibrated, beside scikit-learn's?

Each cell is one function, number of rows, of columns and noise, pooled over generated tables
(``seeds``) with 100 new rows each; columns are standard normal. ``columns`` is the number of
columns and ``sd`` that of the noise.

* ``pmd``: `SparseGPRegressorPMD` by default.
* ``isotropic``, ``ard``: `GaussianProcessRegressor` in the same process, with an RBF kernel of one
  length scale or of one for each column, a constant and a WhiteKernel, and two restarts.

``--quick``: three cells and two tables each.
"""

import numpy as np

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from .regression_scores import scored, scores

FUNCTIONS = {
    "line": lambda X: X.sum(axis=1) / np.sqrt(X.shape[1]),
    "additive": lambda X: np.sin(1.5 * X[:, :3]).sum(axis=1),
    "sine": lambda X: np.sin(2.0 * X[:, 0]),
    "step": lambda X: 1.0 * (X[:, 0] > 0.0),
    "noise": lambda X: np.zeros(len(X)),
}
CELLS = (  # function, rows, columns, sd of the noise
    ("line", 8, 1, 0.3), ("line", 20, 10, 0.3), ("line", 30, 30, 0.5), ("additive", 12, 2, 0.3),
    ("additive", 20, 4, 0.2), ("additive", 60, 20, 0.3), ("sine", 12, 1, 0.2),
    ("sine", 30, 4, 0.3), ("sine", 40, 1, 1e-3), ("step", 40, 8, 0.1), ("noise", 20, 2, 1.0),
    ("noise", 100, 8, 1.0), ("additive", 100, 10, 0.3), ("sine", 150, 6, 0.3),
)  # fmt: skip
QUICK = (("line", 20, 10, 0.3), ("sine", 12, 1, 0.2), ("noise", 20, 2, 1.0))
SEEDS, N_NEW, MIN_COVERAGE = 12, 100, 0.86


def run(config):
    """Fit all kinds to all tables; one row for each cell and kind."""
    cells, seeds = (QUICK, 2) if config.quick else (CELLS, SEEDS)
    return [row for cell in cells for row in _pooled(cell, seeds)]


def _pooled(cell, seeds):
    function, n, p, sd = cell
    tables = [_of_table(*cell, seed) for seed in range(seeds)]
    rows = []
    for kind in tables[0]:
        means = {key: float(np.mean([one[kind][key] for one in tables])) for key in tables[0][kind]}
        rows.append({"kind": kind, "data": function, "rows": n, "columns": p, "sd": sd,
                     "seeds": seeds, **means})  # fmt: skip
    said = ", ".join(f"{row['kind']} {row['coverage']:.3f} / {row['nlpd']:.3f}" for row in rows)
    print(f"{function}, {n} x {p}: {said}", flush=True)
    return rows


def _of_table(function, n, p, sd, seed):
    from skpmd import SparseGPRegressorPMD

    rng = np.random.default_rng([n, p, seed])
    X = rng.standard_normal((n + N_NEW, p))
    y = FUNCTIONS[function](X) + sd * rng.standard_normal(len(X))
    known, new = (X[:n], y[:n]), (X[n:], y[n:])
    with cpu_clock() as clock:
        model = SparseGPRegressorPMD(random_state=seed).fit(*known)
    found = {"pmd": {"cpu": clock.cpu, **scored(model, *new)}}
    for kind, n_scales in (("isotropic", 1), ("ard", p)):
        peer = _peer(n_scales, p, seed)
        with cpu_clock() as clock:
            peer.fit(*known)
        mean, std = peer.predict(new[0], return_std=True)
        found[kind] = {"cpu": clock.cpu, **scores(new[1], mean, std**2)}
    return found


def _peer(n_scales, p, seed):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    shape = RBF(np.full(n_scales, np.sqrt(p)), (1e-2, 1e3))
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * shape + WhiteKernel(0.1, (1e-6, 10.0))
    return GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed
    )


def _of(rows, kind, key):
    return [row[key] for row in rows if row["kind"] == kind]


def gates(rows):
    """Coverage cell by cell, and the log loss of the pool."""
    least = min(_of(rows, "pmd", "coverage")) if rows[0]["seeds"] == SEEDS else 1.0
    loss = {kind: float(np.mean(_of(rows, kind, "nlpd"))) for kind in ("pmd", "isotropic")}
    return [
        Gate("coverage of 90 % intervals, the least of a cell", least, MIN_COVERAGE, ">="),
        Gate("log loss of the pool, ours less the isotropic process's",
             loss["pmd"] - loss["isotropic"], 0.0),
    ]  # fmt: skip


def plot(rows):
    """Coverage and log loss, cell by cell."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", sharey=True)
    names = [f"{row['data']}, {row['rows']} × {row['columns']}"
             for row in rows if row["kind"] == "pmd"]  # fmt: skip
    for panel, key, label in zip(
        axes, ("coverage", "nlpd"), ("coverage of 90 % intervals", "log loss, nats"), strict=True
    ):
        for kind, marker in zip(("pmd", "isotropic", "ard"), "osD", strict=True):
            panel.plot(_of(rows, kind, key), range(len(names)), marker, label=kind, alpha=0.8)
        panel.set(xlabel=label)
        panel.set_yticks(range(len(names)), names)
        panel.grid(alpha=0.3)
    axes[0].axvline(0.9, color="grey", linewidth=0.8)
    axes[1].set_xscale("symlog", linthresh=2.0)
    legend_above(figure, axes[:1], ncols=3)
    return figure
