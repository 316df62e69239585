"""The paper's sparse GP on a third of a million flights: error against rows and CPU seconds.

Figure 2(2) and appendix H.3.2 of the paper: 1024 inducing inputs, batches of 512 rows, 16
particles. Splits, scaling and the Matern-3/2 kernel are those of the study ``flights``; RMSE (the
main figure) and negative log predictive density are those of all test rows. A folder that holds
``YearPredictionMSD.txt``, the songs of the paper, is measured on those in place of the flights
(`datasets.songs`; files of its own).

* ``pmd``: `SparseGPRegressorPMD` by default, which takes the neighbours of each row besides, or
  instead: `fit` on 4096 rows, on 65,536, and on all.
* ``pmd, 16 particles``: what the paper has, by inducing inputs alone, on the first part of the
  rows. A pass of 16 particles costs 16 times that of one, so that 65,536 rows of 294,612 are what
  this study affords.
* ``pmd, one particle``: the same with one, up to all rows. Given kernel and inducing
  inputs one pass is exact, and a second adds nothing.
* ``svgp``: GPyTorch, the runs of the study ``flights``: 512 and 1024 inducing points, Adam with two
  rates and natural gradients, ten minutes each; shown is the least so far of all, figure by figure.
* ``subset``: the exact process on a random part of the rows (Quinonero-Candela and Rasmussen 2005),
  its kernel fitted by scikit-learn to 500, 1000 and 2000 rows; with each kernel also the exact
  process on 4000 rows, and with the latter two on 8000 and 16,000 (RMSE only: variances at all test
  rows would take longer than all else), where memory ends.
* ``smc``: one-pass SMC of 16 particles from the solution on 2000 rows on, as in the paper; q(u) in
  closed form; two widths of its kernels on split 0, on the others the one that ends better there.
  It is judged from its start on, and ends after 40,960 rows, when it has taken about as much CPU as
  the longest fit of 16 particles.
* ``trees``: gradient boosting by histograms (scikit-learn), without early stopping, of several
  sizes and rates; the strongest of what is no process. It has no density.
* ``paper``: the steps eta / (n0 + sqrt(t)) of the paper, two passes, with its fixed kernel: squared
  exponential, length scale the median distance of two rows. Its noise variance .01 is that of
  years mapped to [0, 1], two thirds of their variance; both numbers are tried, in units of the
  variance of y, with three pairs (eta, n0). It is no verdict's rival: its kernel is not fitted.

Points of the peers are kept in the cache, and made again with another protocol or on another
processor: their clocks, above all those of SVGP, may be of earlier runs than ours. Predictions are
outside of all clocks. No peer has run for ten times our CPU, SVGP for ten minutes; ``theirs_long``
is the best there is up to then. Verdicts compare the end of ``pmd`` with each peer's best at no
more CPU, by RMSE, again by log loss, and the ends of the other two. RMSE is in sds of the delays.
Splits of one table share rows, and intervals are wider for it (`verdicts`); they say nothing of
other data.

``--quick``: generated data in two columns.
"""

import itertools

import numpy as np

from skpmd import SparseGPRegressorPMD

from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import pyplot
from ..harness.timing import cpu_clock
from ..harness.verdicts import Answer, best, verdict_gates, verdicts
from ..peers.one_pass_smc import BANDWIDTHS
from ..sparse_gp import flights
from ..sparse_gp.regression import split, waves
from ..sparse_gp.regression_scores import scored
from .paper_flights_peers import (
    RIVALS,
    WITHOUT_DENSITY,
    Case,
    Sizes,
    case_of,
    peer,
    point_of,
)

OURS, SIXTEEN, ONE = "pmd", "pmd, 16 particles", "pmd, one particle"
SHOWN = 12  # points of SVGP's curve
PLACES = {"cpu": "CPU seconds", "rows": "rows read"}  # of the picture
LABELS = {"rmse": "RMSE, sds of y", "nlpd": "log loss, nats"}
TEST_SHARE = 1.0 / 9.0  # test rows per row to learn from, of each split
MORE = (8000, 16_000)  # rows of a subset: a matrix of 2 GB, and as much to make it
FULL = Sizes(
    seeds=3,
    n_inducing=1024,
    n_particles=16,
    rows={
        OURS: (4_096, 65_536, None),
        SIXTEEN: (4_096, 65_536),
        ONE: (4_096, 65_536, None),
    },
    subset={500: (500, 4000), 1000: (1000, 4000, *MORE), 2000: (2000, 4000, *MORE)},
    n_start=2000,
    smc_rows=(2_560, 4_096, 8_192, 16_384, 24_576, 40_960),
    widths=BANDWIDTHS,
    paper_rows=(65_536, 262_144),
    trees=tuple(itertools.product((31, 255, 1023), (0.05, 0.2), (50, 150, 500))),
    svgp={"sizes": flights.PEER_INDUCING, "cpu": flights.LONGEST},
)
QUICK = Sizes(
    seeds=1,
    n_inducing=200,
    n_particles=4,
    rows={OURS: (1_000, None), SIXTEEN: (1_000, 2_000), ONE: (1_000, None)},
    subset={100: (100, 400), 200: (200, 1000)},
    n_start=300,
    smc_rows=(1_000, 3_000),
    widths=BANDWIDTHS[:1],
    paper_rows=(1_000,),
    trees=((31, 0.2, 50),),
    svgp={"sizes": (50,), "cpu": 2.0},
)


def run(config):
    """Curves of ours and of the peers, split by split, and the verdicts."""
    sizes = QUICK if config.quick else FULL
    _warm()
    ours, peers, rows = {OURS: {}, SIXTEEN: {}, ONE: {}}, {}, []
    for seed in range(sizes.seeds):
        case = case_of(config, seed, sizes)
        for method in ours:
            ours[method][seed] = _fits(case, method)
            print(f"{method}, split {seed} done", flush=True)
        for method in (*RIVALS, "paper"):
            peers.setdefault(method, {})[seed] = peer(config, case, method)
            print(f"{method}, split {seed} done", flush=True)
        curves = [(name, points[seed]) for name, points in (ours | peers).items()]
        for method, points in curves:
            shown = _envelope(points) if method == "svgp" else points
            rows += [{"kind": "curve", "method": method, "seed": seed, **one} for one in shown]
    return rows + _verdicts(ours, peers)


def _warm():
    """Compile before any clock runs."""
    known, _, test = split(*waves(200), 0)
    sizes = QUICK._replace(n_inducing=10, rows=dict.fromkeys((OURS, SIXTEEN), (None,)))
    for method in sizes.rows:
        _fits(Case("", 0, known, test, sizes), method)


def _fits(case, method):
    """Fits of ours on more and more rows."""
    points = []
    for n in case.sizes.rows[method]:
        X, y = (part[:n] for part in case.known)
        if method == OURS:
            model = SparseGPRegressorPMD(random_state=case.seed)
        else:
            model = case.model(case.sizes.n_particles if method == SIXTEEN else 1)
        with cpu_clock() as clock:
            model.fit(X, y)
        points.append(point_of("default", len(y), clock.cpu, scored(model, *case.test)))
    return points


def _envelope(points, count=SHOWN):
    """The least of each figure so far, over all settings, at budgets alike in their logs."""
    shown = []
    times = [point["cpu"] for point in points]
    for budget in np.geomspace(1.05 * min(times), max(times), count):
        known = [point for point in points if point["cpu"] <= budget]
        least = min(known, key=lambda point: point["rmse"])
        nlpd = min(point["nlpd"] for point in known)
        shown.append({**least, "cpu": float(budget), "nlpd": nlpd})
    return shown


def _verdicts(ours, peers):
    """By RMSE, the main figure; by log loss; and of the other two of ours by RMSE."""
    kinds = {"verdict": (OURS, "rmse"), "verdict, log loss": (OURS, "nlpd")}
    kinds |= {"verdict, 16 particles": (SIXTEEN, "rmse"), "verdict, one particle": (ONE, "rmse")}
    rows = []
    for kind, (method, key) in kinds.items():
        own = {seed: _answers(points, key)[-1] for seed, points in ours[method].items()}
        others = {
            rival: {seed: _answers(points, key) for seed, points in peers[rival].items()}
            for rival in RIVALS
            if key == "rmse" or rival not in WITHOUT_DENSITY
        }
        # Log losses may be negative: their ratio says nothing.
        no_ratio = {"loss": None} if key == "nlpd" else {}
        found = verdicts(own, others, test_share=TEST_SHARE)
        rows += [{**row, "kind": kind, **no_ratio} for row in found]
    return rows


def _answers(points, key):
    return [Answer(point["cpu"], point[key]) for point in points if point[key] is not None]


def gates(rows):
    """Verdicts by RMSE."""
    return verdict_gates(rows)


def plot(rows):
    """RMSE and log loss against CPU seconds and rows, mean and range of the splits."""
    plt = pyplot()
    curves = [row for row in rows if row["kind"] == "curve"]
    figure, panels = plt.subplots(
        2, 2, figsize=(11, 9), layout="constrained", sharex="col", sharey="row"
    )
    for line, (key, ylabel) in zip(panels, LABELS.items(), strict=True):
        for panel, (axis, xlabel) in zip(line, PLACES.items(), strict=True):
            for number, method in enumerate(dict.fromkeys(row["method"] for row in curves)):
                if key == "rmse" or method not in WITHOUT_DENSITY:
                    _draw(panel, *_reached(curves, method, axis, key), method, number)
            panel.set(xscale="log", xlabel=xlabel, ylabel=ylabel if panel is line[0] else None)
            panel.tick_params(labelbottom=True)
    panels[0, 0].set_yscale("log")
    plain_ticks(panels[0, 0].yaxis, at=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0))
    title = "lines: means of the splits, ending in a point; bands: range of the splits"
    legend_above(figure, panels[:1, 0], ncols=4, title=title)
    return figure


def _draw(panel, places, values, method, number):
    """One method: ours in black, by dashes."""
    style = {"color": f"C{number}", "label": method, "markevery": [-1], "marker": "o"}
    if method in (OURS, SIXTEEN, ONE):
        dashes = dict(zip((OURS, SIXTEEN, ONE), ("-", "--", ":"), strict=True))
        style |= {"color": "black", "linestyle": dashes[method], "linewidth": 2.0}
    panel.plot(places, values.mean(axis=0), drawstyle="steps-post", **style)
    panel.fill_between(
        places, values.min(axis=0), values.max(axis=0), color=style["color"], step="post",
        alpha=0.13, linewidth=0.0,
    )  # fmt: skip


def _reached(curves, method, axis, key):
    """Places along an axis, and a method's figure on each split.

    Of the peers it is the best so far, of ours that of the last fit, better or not.
    """
    own = [row for row in curves if row["method"] == method and row[key] is not None]
    values = []
    places = np.geomspace(min(row[axis] for row in own), max(row[axis] for row in own), 300)
    for seed in sorted({row["seed"] for row in own}):
        points = [Answer(row[axis], row[key]) for row in own if row["seed"] == seed]
        shown = _latest if method in (OURS, SIXTEEN, ONE) else best
        values.append([shown(points, place) for place in places])
    return places, np.array(values)


def _latest(points, place):
    return ([np.nan] + [value for at, value in points if at <= place])[-1]
