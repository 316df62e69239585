"""The paper's theorems and costs, measured: fitted exponents beside those of the bounds.

* Theorem 2: where the prior is a hundred points every prox-mapping is exact. (a) With
  gamma_t = 2 / (t + 1) KL(q*, q_T) falls like 1 / T, and the recurrence holds at each state that is
  looked at: ``largest_share`` is the largest of its left side over its right. (b) With
  gamma = 1 / sqrt(T) the average of all iterates has an excess KL(average, q*) of at most the order
  of T^(-1/2). Ten rows N(theta, 1), one a step.
* Theorem 3: the error of an integral after one step of m particles falls like m^(-1/2), in 1 to 64
  dimensions alike where the constant is the same.
* Theorem 5: with fixed particles and gamma_t = 1/t the error of integrals falls like m^(-1/2). A
  normal mean, 25 rows, one a step, m prior particles: mean absolute errors of E[tanh(theta)]
  after T = m steps; the same m particles reweighted once by all data show the part of the error
  that the particles alone make.
* Section 3.3: few particles by kernels first, then many by weights (`theory_switch`).
* Theorem 4: the expected L1 error of one step's kernel density estimate, h = 2 m^(-1/(d + 2 beta)),
  Gaussian kernel, falls at least like m^(-beta / (d + 2 beta)), beta = 1.
* Theorem 6: KL(exact, estimate) after T steps of Algorithm 1 with the compact kernel, the same h,
  gamma_t = min{2 / (t + 1), Delta / M m_t^(-beta / (d + 2 beta))} (``step_schedule="theorem6"``,
  its constant estimated as by default) and m_t = m_1 t^p. With s = p beta / (d + 2 beta) the bound
  falls like T^-min(1, 2 s - 1, s): 1 for the theorem's own p = 2 + d / beta, less for a slower
  growth. Stochastic gradients: 20 rows N(theta, 40 I) drawn with replacement for each step, prior
  N(0, I). The theorem needs a bounded support Omega on which densities are bounded away from 0, and
  a compact kernel is 0 somewhere: Omega is the ball that holds half of the posterior, in
  three and four dimensions a tenth, both densities are those given Omega (its Lemma 18), and where
  an estimate is 0 at one of the exact draws there, the divergence is infinite and the target is
  missed.
* Table 1: CPU seconds and peak memory of one iteration against m in 20 dimensions: weights
  linear, a rejuvenation quadratic in time, memory at most linear in both. Of the other methods
  (`theory_peers`): one-pass SMC linear, NPV quadratic, Langevin dynamics no cost for being longer,
  variational inference linear in the dimension; and the m^(-1/3) of Langevin dynamics.

``slope`` is the exponent of the fitted power, ``bound`` that of the theory, and ``from_half`` and
``from_double`` say how many standard errors the slope is from half and from twice that exponent, on
its side of them: below two a wrong exponent is not excluded. The theorems bound errors from above.
In 2(a), 3 and 5 the errors of these examples attain the order, as do the rate of Langevin dynamics
and the times of Table 1: the slope must agree to 0.1 or to two standard errors. That of memory must
not be above by more (a buffer of fixed size makes it smaller). In 2(b), 4 and 6 the slope may be
steeper, and must not be less steep by more than two of its standard errors. In one dimension it
cannot be much steeper: in Theorem 6 at its own growth the noise of the gradients attains the bound
(after steps of 2 / (t + 1) it falls like (2 T + 1) / (T (T + 1)), an exponent of 0.91 from T = 2 to
8). In Theorem 4 the noise of the kernel estimate has the order of the bound in every d, and with
more dimensions so few particles leave more bias, which falls faster; that is no better rate. Few T
are affordable in Theorem 6 where m_t grows fast: in three and four dimensions slopes are less steep
than the bound, whose order is not reached at such T.

``--jobs N``: runs of Theorem 6 side by side.
"""

import numpy as np
from threadpoolctl import threadpool_limits

from ..harness.pictures import plain_ticks
from ..harness.study import Gate, pyplot
from . import theory_costs as costs
from . import theory_densities as densities
from . import theory_integrals as integrals
from . import theory_mirror as mirror
from . import theory_peers as peers
from . import theory_switch as switch
from .theory_slopes import fitted

TOLERANCE, STANDARD_ERRORS = 0.1, 2.0
LARGEST_SHARE = 1.0  # of the two sides of Theorem 2(a)
COSTS = {  # exponents of Table 1
    ("weights", "cpu_s"): 1.0,
    ("weights", "peak_mb"): 1.0,
    ("rejuvenation", "cpu_s"): 2.0,
    ("rejuvenation", "peak_mb"): 1.0,
}


def run(config):
    """Measure all parts, and fit their slopes."""
    rows = []
    with threadpool_limits(1):
        for part in (
            mirror.measured,
            integrals.one_step_integrals,
            integrals.measured,
            densities.one_step_errors,
            switch.measured,
            costs.measured,
            peers.measured,
        ):
            rows += part(config.quick)
            print(f"{rows[-1].get('of', rows[-1]['part'])} done", flush=True)
        rows += densities.divergences(config.quick, config.jobs)
    return rows + slopes(rows)


def slopes(rows):
    """Fitted powers of Table 1."""
    found = []
    for (task, key), bound in COSTS.items():
        what, relation = ("time", "equal") if key == "cpu_s" else ("memory", "at most")
        curve = _curve(rows, "table 1", "m", key, task=task)
        found.append(fitted(f"table 1, {what} of {task}", *curve, bound, relation))
    return found


def _curve(rows, part, x, y, **case):
    """Points of one curve, shape (2, k)."""
    own = [row for row in rows if row["part"] == part]
    own = [row for row in own if all(row[key] == value for key, value in case.items())]
    return np.array([[row[x], row[y]] for row in own]).T


def _distinct(rows, part, *keys):
    """Values of one key, or tuples of several, in the order of the rows."""
    own = [tuple(row[key] for key in keys) for row in rows if row["part"] == part]
    own = list(dict.fromkeys(own))
    return own if len(keys) > 1 else [key for (key,) in own]


def gates(rows):
    """Exponents against the theory's."""
    found = []
    for row in rows:
        if row["part"] == "recurrence":
            name = "theorem 2(a): largest share of the recurrence's sides"
            found.append(Gate(name, row["largest_share"], LARGEST_SHARE))
        if row["part"] != "slope":
            continue
        gap = row["slope"] - row["bound"]
        if row["relation"] == "equal":
            allowed = max(TOLERANCE, STANDARD_ERRORS * (row["standard_error"] or 0.0))
            found.append(Gate(f"{row['of']}: |slope - bound|", abs(gap), allowed))
        elif row["standard_error"] is None or "memory" in row["of"]:
            found.append(Gate(f"{row['of']}: slope - bound", gap, TOLERANCE))
        else:
            gap = gap / row["standard_error"]
            name = f"{row['of']}: (slope - bound) / standard error"
            found.append(Gate(name, gap, STANDARD_ERRORS))
    return found


def plot(rows):
    """The parts that there are, each with its fitted slopes."""
    plt = pyplot()
    found = {(row["part"], key) for row in rows for key in row}
    parts = [
        part
        for part, needed in {
            _plot_mirror: ("theorem 2", "kl_last"),
            _plot_one_integral: ("theorem 3", "error"),
            _plot_integrals: ("theorem 5", "error_steps"),
            _plot_one_step: ("theorem 4", "l1_error"),
            _plot_divergences: ("theorem 6", "kl"),
            _plot_switch: ("section 3.3", "error"),
            _plot_costs: ("table 1", "cpu_s"),
            _plot_peers: ("table 1, peers", "cpu_s"),
        }.items()
        if needed in found
    ]
    shape = (-(-len(parts) // 3), 3) if len(parts) % 2 else (len(parts) // 2, 2)
    size = 5.2 * shape[1], 4.6 * shape[0] + 0.5
    figure, axes = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False)
    for part, axis in zip(parts, axes.flat, strict=False):
        part(axis, rows)
        for one in (axis.xaxis, axis.yaxis):
            low, high = one.get_view_interval()
            if high < 100.0 * low:
                plain_ticks(one)
    for axis in axes.flat[len(parts) :]:
        axis.set_axis_off()
    (dotted,) = axes[0, 0].plot([], [], "k:", label="dotted: the power of the theory")
    figure.legend(handles=[dotted], loc="outside upper center")
    return figure


def _label(axis, title, xlabel, ylabel, ncols=2):
    """Names of the axes, and the legend above them with the title."""
    axis.set(xlabel=xlabel, ylabel=ylabel)
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
    axis.legend(title=title, title_fontsize=12, fontsize=9, ncols=ncols, columnspacing=1.0, **place)


def _plot_mirror(axis, rows):
    names = {"kl_last": ("(a) last iterate", -1.0), "kl_average": ("(b) average", -0.5)}
    for key, (label, bound) in names.items():
        _line(axis, _curve(rows, "theorem 2", "T", key), label, bound)
    _label(axis, "Theorem 2, exact prox-mappings", "steps T", "KL, nats")


def _plot_one_integral(axis, rows):
    for d in _distinct(rows, "theorem 3", "d"):
        _line(axis, _curve(rows, "theorem 3", "m", "error", d=d), f"d = {d}", -0.5)
    _label(axis, "Theorem 3, one step", "particles m", "error of E[tanh]")


def _plot_switch(axis, rows):
    own = [row for row in rows if row["part"] == "section 3.3"]
    colors = dict(zip(_distinct(rows, "section 3.3", "way"), ("C0", "grey", "C3"), strict=True))
    sizes = _distinct(rows, "section 3.3", "m")
    for way, m in _distinct(rows, "section 3.3", "way", "m"):
        line = [row for row in own if (row["way"], row["m"]) == (way, m)]
        axis.loglog(
            [row["cpu_s"] for row in line], [row["error"] for row in line],
            marker="os^Dv*"[sizes.index(m) % 6], markersize=4, linewidth=1.0,
            color=colors[way], label=f"{way}, m = {m:,}",
        )  # fmt: skip
    _label(axis, "Section 3.3", "CPU seconds", "error of integrals")


def _plot_peers(axis, rows):
    for method in _distinct(rows, "table 1, peers", "method"):
        curve = _curve(rows, "table 1, peers", "size", "cpu_s", method=method)
        _line(axis, curve, f"{method}, CPU s", peers.BOUNDS[method])
    curve = _curve(rows, "rate of SGLD", "m", "error")
    _line(axis, curve, "SGLD, error", -1.0 / 3.0)
    xlabel = "particles, components, steps m; dimensions of SVI"
    _label(axis, "Table 1, other methods", xlabel, "CPU seconds an iteration; error")


def _plot_integrals(axis, rows):
    names = {"error_steps": "T = m steps", "error_reweighted": "reweighted once"}
    for key, label in names.items():
        _line(axis, _curve(rows, "theorem 5", "m", key), label, -0.5)
    _label(axis, "Theorem 5", "particles m", "error of E[tanh]")


def _plot_one_step(axis, rows):
    for d in _distinct(rows, "theorem 4", "d"):
        curve = _curve(rows, "theorem 4", "m", "l1_error", d=d)
        _line(axis, curve, f"d = {d}", -densities.one_step_exponent(d))
    _label(axis, "Theorem 4", "particles m", "L1 error of one step")


def _plot_divergences(axis, rows):
    for d, growth in _distinct(rows, "theorem 6", "d", "growth"):
        curve = _curve(rows, "theorem 6", "T", "kl", d=d, growth=growth)
        label = f"d = {d}, $m_t \\sim t^{growth}$"
        _line(axis, curve, label, -densities.divergence_exponent(d, growth))
    _label(axis, "Theorem 6", "steps T", "KL(exact, estimate), nats")


def _plot_costs(axis, rows):
    for task in _distinct(rows, "table 1", "task"):
        for key, unit in (("cpu_s", "CPU s"), ("peak_mb", "MB")):
            curve = _curve(rows, "table 1", "m", key, task=task)
            _line(axis, curve, f"{task}, {unit}", COSTS[task, key])
    _label(axis, "Table 1, one iteration", "particles m", "CPU seconds or MB", ncols=1)


def _line(axis, curve, label, bound):
    """Measured points, and the power of the theory through the first of them, dotted."""
    slope = fitted(label, *curve, bound, "")["slope"]
    (line,) = axis.loglog(*curve, "o-", label=f"{label}: slope {slope:.2f}")
    power = curve[1, 0] * (curve[0] / curve[0, 0]) ** bound
    axis.loglog(curve[0], power, ":", color=line.get_color())
