"""Logistic regression, eights against sixes (Fig. 2(1) of the paper), beside eighteen families.

The 11,769 original images on 50 principal axes, prior N(0, I) on the coefficients and the
intercept, batches of 100 rows for the stochastic methods (10 for IBIS, whose particles do not
survive more). Each runs for five passes of the data or ten times our CPU seconds, whichever is
later, but for 60 s at most, or to its own end. The truth is a cached NUTS reference. The main
metric ``mean_error`` is the root mean square over coordinates of the errors of posterior means, in
posterior sds; it contains what the reference itself does not know (the row ``reference``, from its
effective sample sizes). ``sd_error`` is the same of relative errors of sds; ``test_error`` and
``log_loss`` are those of the averaged probabilities on 1,932 test images. CPU seconds are of one
thread, without compilation and evaluation. Rows count once for all particles that share a reading.

Memory: our defaults have 4000 particles, and so have the other particle methods, tempered SMC also
fewer; chains keep 20,000 draws. The paper's 1000 are a row of ours.
Starts: our defaults climb to the mode themselves, in their own seconds, and so do Laplace and
whatever is whitened, "from Laplace" or "from the mode", in theirs; the others start from the prior,
as all do in the paper.

* ``curve``: means over the seeds. Of ours (``pmd``, `BayesianLogisticRegressionPMD`): the defaults;
  other numbers of particles; a stream by ``partial_fit`` with 1000 particles and five passes; steps
  from the prior with 1000 particles, which take values of the likelihood only, without reweighting
  at the end, and with our substeps and bandwidth in place of the paper's. Of each other method: the
  setting that is best in the end.
  ``spread`` is the standard deviation of ``mean_error`` over the seeds.
* ``setting``: every setting of the others, its best up to our CPU seconds and up to ten times
  those. All run on the first seed; the two that are best there, early or late, on all. One
  without an answer by then is not run again.
* ``verdict``: see `verdicts`; ours is the defaults, theirs the best of all settings of a family.

All points are kept in ``cache/paper_logistic-points.json``, from which `summarise` makes the
rows again.

``--quick``: scikit-learn's breast cancer table, a reference of ESS 2,000, two seeds, one setting
of each method but those that take longest to compile.
"""

import json

import numpy as np
from scipy.special import expit, softmax
from threadpoolctl import threadpool_limits

from ..harness import datasets
from ..harness.comparison import errors, warm
from ..harness.study import pyplot, stem
from ..harness.verdicts import Answer, best, verdict_gates, verdicts
from ..peers.references import cached_reference, log_loss

SEEDS, OWN_SEEDS = 5, 10  # of the others, of our defaults
PASSES, LONG, MAX_CPU = 5, 10.0, 60.0
POINTS = 7  # of a curve in the table
JUDGED = 1000  # particles that predict for the test images
METRICS = ("mean_error", "sd_error", "test_error", "log_loss")
DEFAULTS = "defaults"
OWN_MARKERS = "*svo^D"
PANELS = (  # of the picture, by lines: places, figures and their labels
    ("cpu", "mean_error", "CPU seconds", "error of posterior means, sd"),
    ("rows", "mean_error", "rows visited", "error of posterior means, sd"),
    ("cpu", "sd_error", "CPU seconds", "relative error of posterior sds"),
    ("cpu", "log_loss", "CPU seconds", "test log loss less the best, nats"),
)
KINDS = {  # its columns, and the families in each
    "approximations": ("Laplace", "JJ SVI", "SVI", "SGD NPV"),
    "stochastic gradients": ("SGLD", "SGHMC", "Fisher scoring"),
    "chains": ("Gibbs", "NUTS", "nutpie", "MCLMC"),
    "importance sampling and SMC": (
        "one-pass SMC", "IBIS", "tempered SMC", "Pathfinder + PSIS", "Laplace + PSIS", "AMIS",
        "AIS",
    ),
}  # fmt: skip
FLOOR, BANDS = "error of the reference itself", "bands: a standard deviation of the seeds"
SLOW_TO_COMPILE = ("SVI, full", "SVI, diagonal", "SVI, whitened", "NUTS")


def run(config):
    """Run ours, then the others with ours as the measure of time."""
    if config.quick:
        data, min_ess, seeds, own_seeds = datasets.breast_cancer(), 2_000, 2, 2
    else:
        data = datasets.load("mnist86", config.data)
        min_ess, seeds, own_seeds = 30_000, SEEDS, OWN_SEEDS
    truth = cached_reference(data, config.cache, min_ess=min_ess)
    warm(data)
    with threadpool_limits(limits=1):
        points = _measured(Judge(data, truth), seeds, own_seeds, config.quick)
    points["reference"] = {
        "ess": float(truth.ess.min()),
        "mean_error": float(np.sqrt(np.mean(truth.mean_variance))),
    }
    path = config.cache / f"{stem('paper_logistic', config)}-points.json"
    path.write_text(json.dumps(points), encoding="utf-8")
    return summarise(json.loads(path.read_text(encoding="utf-8")))


def _measured(judge, seeds, own_seeds, quick):
    """Points of all runs, {"pmd" or "others": {method: {setting: {seed: points}}}}."""
    from .paper_logistic_methods import others, ours

    own, methods = ours(judge.data), others(judge.data)
    if quick:
        own = _first(own)
        methods = {key: _first(methods[key]) for key in methods if key not in SLOW_TO_COMPILE}
    runs = {
        name: {
            str(seed): judge.curve(setting, seed, MAX_CPU)
            for seed in range(own_seeds if name == DEFAULTS else seeds)
        }
        for name, setting in own.items()
    }
    budget = _budget(runs)
    print(f"pmd: {budget:.3g} CPU s", flush=True)
    points = {"pmd": runs, "others": {}}
    for method, settings in methods.items():
        points["others"][method] = found = _runs(judge, settings, budget, seeds)
        print(method, {name: _mean_best(found[name], LONG * budget) for name in found}, flush=True)
    return points


def _budget(own):
    """Mean CPU seconds of our defaults."""
    return float(np.mean([points[-1]["cpu"] for points in own[DEFAULTS].values()]))


def _first(settings):
    return dict(list(settings.items())[:1])


class Judge:
    """Turns snapshots into points: CPU seconds, rows and `METRICS`."""

    def __init__(self, data, truth):
        self.data, self.truth = data, truth
        self.design = np.column_stack([data.X_test, np.ones(len(data.y_test))])

    def curve(self, setting, seed, long):
        """Points of one run, up to ``long`` seconds or five passes, whichever is later."""
        points, enough = [], PASSES * len(self.data.y)
        for found in setting(seed, MAX_CPU):
            points.append(self.point(found))
            if found.cpu > MAX_CPU or (found.cpu > long and found.rows >= enough):
                break
        return points

    def point(self, found):
        """One snapshot's numbers."""
        weights = softmax(found.log_weights)
        mean = weights @ found.particles
        sd = np.sqrt(weights @ (found.particles - mean) ** 2)
        mean_error, sd_error = (np.sqrt(np.mean(e**2)) for e in errors(mean, sd, self.truth))
        some = slice(None, None, -(-len(weights) // JUDGED))
        probability = expit(self.design @ found.particles[some].T) @ weights[some]
        probability /= weights[some].sum()
        return {
            "rows": int(found.rows),
            "cpu": float(found.cpu),
            "mean_error": float(mean_error),
            "sd_error": float(sd_error),
            "test_error": float(np.mean((probability > 0.5) != self.data.y_test)),
            "log_loss": log_loss(probability, self.data.y_test),
        }


def _runs(judge, settings, budget, seeds):
    """{setting: {seed: points}}: all on the first seed, the best early and late on the others."""
    runs = {name: {"0": judge.curve(run, 0, LONG * budget)} for name, run in settings.items()}
    for limit in (budget, LONG * budget):
        found = {name: _mean_best(runs[name], limit) for name in runs}
        if not np.isfinite(list(found.values())).any():
            continue
        name = min(found, key=lambda name: np.nan_to_num(found[name], nan=np.inf))
        for seed in range(len(runs[name]), seeds):
            runs[name][str(seed)] = judge.curve(settings[name], seed, LONG * budget)
    return runs


def summarise(points):
    """Rows of the study from its points."""
    rows = [{"kind": "reference", **points["reference"]}]
    own, budget = points["pmd"], _budget(points["pmd"])
    for name, found in own.items():
        rows += _curve_rows("pmd", name, found)
    curves = {}
    for method, runs in points["others"].items():
        late = {name: _mean_best(found, LONG * budget) for name, found in runs.items()}
        for name, found in runs.items():
            row = {"kind": "setting", "method": method, "setting": name, "seeds": len(found)}
            row |= {"at_our_cpu": _mean_best(found, budget), "at_ten_times": late[name]}
            rows.append(row)
            family = curves.setdefault(method.split(",")[0], {})
            for seed, answers in found.items():
                family.setdefault(seed, []).extend(_answers(answers))
        shown = min(runs, key=lambda name: (-len(runs[name]), np.nan_to_num(late[name], nan=9e9)))
        rows += _curve_rows(method, shown, runs[shown])
    ours_by_seed = {seed: _answers(found)[-1] for seed, found in own[DEFAULTS].items()}
    return rows + verdicts(ours_by_seed, curves, long=LONG)


def _answers(points):
    return [Answer(point["cpu"], point["mean_error"]) for point in points]


def _mean_best(found, limit):
    return float(np.mean([best(_answers(points), limit) for points in found.values()]))


def _curve_rows(method, setting, curves):
    """Means over seeds at a few points of a curve, which all seeds have."""
    length = min(len(points) for points in curves.values())
    rows = []
    for k in np.unique(np.linspace(0, length - 1, POINTS).round().astype(int)) if length else []:
        points = [curve[k] for curve in curves.values()]
        row = {"kind": "curve", "method": method, "setting": setting, "seeds": len(points)}
        row |= {key: float(np.mean([p[key] for p in points])) for key in ("rows", "cpu", *METRICS)}
        row["spread"] = float(np.std([point["mean_error"] for point in points]))
        rows.append(row)
    return rows


def gates(rows):
    """Hold the defaults against every other method at equal CPU seconds."""
    return verdict_gates(rows)


def plot(rows):
    """Errors against CPU seconds and rows: ours beside each kind of the other methods."""
    plt = pyplot()
    curves, floor = _shown(rows), rows[0]["mean_error"]
    figure, axes = plt.subplots(
        len(PANELS), len(KINDS), figsize=(13, 14), layout="constrained", sharex="row", sharey="row"
    )
    for column, (kind, families) in zip(axes.T, KINDS.items(), strict=True):
        for axis, (x, y, *labels) in zip(column, PANELS, strict=True):
            theirs, own = (
                [_draw(axis, points, x, y, style) for points, style in _styled(curves, chosen)]
                for chosen in (families, ("pmd",))
            )
            if y == "mean_error":
                own.append(axis.axhline(floor, color="grey", linestyle=":", label=FLOOR))
                handles = own
            axis.set(xscale="log", xlabel=labels[0])
            axis.set_yscale("log", nonpositive="mask")  # of log losses the best is 0
            axis.set_ylabel(labels[1] if axis in axes[:, 0] else None)
        place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
        column[0].legend(handles=theirs, title=kind, title_fontsize=12, fontsize=9, **place)
    figure.legend(handles=handles, loc="outside upper center", ncols=4, title=BANDS)
    return figure


def _shown(rows):
    """{(method, setting): points}; log losses are less the least of all."""
    own, curves = [row for row in rows if row["kind"] == "curve"], {}
    least = min(row["log_loss"] for row in own)
    for row in own:
        point = {**row, "log_loss": row["log_loss"] - least}
        curves.setdefault((row["method"], row["setting"]), []).append(point)
    return curves


def _styled(curves, families):
    """Points and style of some curves: a colour for each family, dashes for its variants."""
    found, seen = [], dict.fromkeys(families, 0)
    for (method, setting), points in curves.items():
        family = method.split(",")[0]
        if family not in families:
            continue
        number, seen[family] = seen[family], seen[family] + 1
        style = {"label": method, "color": f"C{families.index(family)}", "marker": "."}
        style |= {"linestyle": ("-", "--", ":")[number % 3]}
        if family == "pmd":
            style |= {"label": f"pmd, {setting}", "color": "black", "linestyle": "-"}
            style |= {"marker": OWN_MARKERS[number % len(OWN_MARKERS)]}
            style |= {"markersize": 12 if setting == DEFAULTS else 5}
        elif len(points) == 1:
            style |= {"marker": "oX"[number % 2], "linestyle": ""}
        found.append((points, style))
    return found


def _draw(axis, points, x, y, style):
    """One curve, with its spread over seeds where that is of the metric drawn."""
    at, values, spread = np.array([[point[x], point[y], point["spread"]] for point in points]).T
    if y == "mean_error":
        low, high = np.maximum(values - spread, 0.3 * values), values + spread
        axis.fill_between(at, low, high, color=style["color"], alpha=0.2, linewidth=0)
    return axis.plot(at, values, **style)[0]
