"""Speed of topic models: tokens per second, two threads, and cost against size.

newsgroups20, 100 topics, the first split's documents but its test part, one particle, one thread
unless said; compiled code is warm.

* ``pass``: CPU of three passes, for each ``assignment`` of ours and for scikit-learn's online
  method with batches of 100 and of 1000. ``tokens_per_s`` counts each token once a pass.
* ``sweeps``: tomotopy's first 200 sweeps. ``token_sweeps_per_s`` counts a token in every visit of a
  document, of which each ``assignment`` has its default number in a pass (``"sampled"``: two soft
  steps, the draw that the chain starts with, and three sweeps); soft and collapsed visits treat the
  tokens of one word alike, and all of them are counted. ``draws_per_s`` counts drawn topics alone.
* ``threads``: wall seconds of three passes with one and with two threads, medians of three runs in
  turn, of four particles, as by default, and of one. The machine must be idle.
* ``size``: CPU of a pass for each token, all documents beside half of them.

``--quick``: documents drawn from a topic model, ten topics.
"""

import time

import numpy as np

from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock
from ..peers.topic_libraries import sklearn_passes, tomotopy_sweeps
from .topic_cases import PRIORS, known, ours, warm_up

PASSES, SWEEPS, REPEATS = 3, 200, 3
ASSIGNMENTS = {"sampled": 6, "soft": 20, "collapsed": 10}  # visits of a document, as by default
DRAWS = 4  # of a token's topic in a pass with ``"sampled"``
BATCHES = (100, 1000)
RATES = {  # of the picture
    "tokens_per_s": "tokens, once a pass or chain",
    "token_sweeps_per_s": "tokens, in every visit",
    "draws_per_s": "drawn topics",
}
LEFT = 0.02  # its left edge, million a second


def run(config):
    """All measurements; the threads last."""
    K = 10 if config.quick else 100
    X, _ = known(config, "newsgroups20", 0)
    for way in ASSIGNMENTS:
        warm_up({**PRIORS[0], "assignment": way})
    rows = [own_passes(X, K, way) for way in ASSIGNMENTS]
    rows += [sklearn_rate(X, K, size) for size in BATCHES]
    rows += [tomotopy_rate(X, K)]
    half = X[: X.shape[0] // 2]
    rows += [size_row(part, K, way) for way in ASSIGNMENTS for part in (half, X)]
    return [*rows, *(threads_row(X, K, way, m) for m in (4, 1) for way in ASSIGNMENTS)]


def _model(K, way, n_particles=1, **options):
    setting = {**PRIORS[0], "assignment": way}
    return ours(setting, K, 0, n_particles=n_particles, max_iter=PASSES, **options)


def _rate(kind, side, setting, tokens, visits, sweeps, cpu, draws=None):
    return {
        "kind": kind, "side": side, "setting": str(setting), "tokens": tokens, "sweeps": sweeps,
        "cpu": cpu, "tokens_per_s": tokens * visits / cpu,
        "token_sweeps_per_s": None if sweeps is None else tokens * visits * sweeps / cpu,
        "draws_per_s": None if draws is None else tokens * visits * draws / cpu,
    }  # fmt: skip


def own_passes(X, K, way):
    """Passes of ours."""
    model = _model(K, way)
    with cpu_clock() as clock:
        model.fit(X)
    own = PASSES, ASSIGNMENTS[way], clock.cpu, DRAWS if way == "sampled" else None
    return _rate("pass", "pmd", way, int(X.sum()), *own)


def sklearn_rate(X, K, batch_size):
    """Passes of the online method."""
    setting = {**PRIORS[0], "batch_size": batch_size}
    cpu = sklearn_passes(X, K, setting, 0, PASSES)[-1].cpu
    return _rate("pass", "sklearn", batch_size, int(X.sum()), PASSES, None, cpu)


def tomotopy_rate(X, K):
    """Sweeps of a chain."""
    cpu = tomotopy_sweeps(X, K, {**PRIORS[0], "optim_interval": 10}, 0, (SWEEPS,))[-1].cpu
    return _rate("sweeps", "tomotopy", "every 10", int(X.sum()), 1, SWEEPS, cpu, SWEEPS)


def size_row(X, K, way):
    """CPU for each token."""
    with cpu_clock() as clock:
        _model(K, way).fit(X)
    tokens = int(X.sum())
    return {
        "kind": "size", "setting": way, "documents": X.shape[0], "tokens": tokens,
        "cpu_per_token_us": 1e6 * clock.cpu / (PASSES * tokens),
    }  # fmt: skip


def threads_row(X, K, way, n_particles):
    """Wall seconds with one thread and with two, in turn."""
    times = {1: [], 2: []}
    for _ in range(REPEATS):
        for n_jobs, seconds in times.items():
            start = time.perf_counter()
            _model(K, way, n_particles, n_jobs=n_jobs).fit(X)
            seconds.append(time.perf_counter() - start)
    one, two = (float(np.median(seconds)) for seconds in times.values())
    return {
        "kind": "threads", "setting": way, "particles": n_particles, "wall_1": one, "wall_2": two,
        "ratio": one / two,
    }  # fmt: skip


def gates(rows):
    """The slowest of ours against the mean of scikit-learn's rates and tomotopy's."""
    own = [row for row in rows if row["kind"] == "pass" and row["side"] == "pmd"]
    others = [row["tokens_per_s"] for row in rows if row.get("side") == "sklearn"]
    tomotopy = next(row for row in rows if row["kind"] == "sweeps")
    chain, found = tomotopy["token_sweeps_per_s"], []
    for row in own:
        way, over = row["setting"], row["tokens_per_s"] / float(np.mean(others))
        found.append(Gate(f"{way}: tokens per second over sklearn's", over, 5.0, ">="))
        over = row["token_sweeps_per_s"] / chain
        found.append(Gate(f"{way}: token-sweeps per second over tomotopy's", over, 1.0, ">="))
        if row["draws_per_s"] is not None:
            over = row["draws_per_s"] / tomotopy["draws_per_s"]
            found.append(Gate(f"{way}: drawn topics per second over tomotopy's", over, 1.0, ">="))
        found += _size_gates([r for r in rows if r["kind"] == "size" and r["setting"] == way], way)
    found += [
        Gate(f"{row['setting']}: two threads over one", row["ratio"], 1.7, ">=")
        for row in rows if row["kind"] == "threads" and row["particles"] == 4
    ]  # fmt: skip
    return found


def _size_gates(rows, way):
    half, whole = (row["cpu_per_token_us"] for row in rows)
    name = f"{way}: cost per token of all documents over half of them"
    return [Gate(name, whole / half, 1.25), Gate(name, whole / half, 0.8, ">=")]


def plot(rows):
    """Rates of passes and sweeps; "none" where a side has none."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(9, 5.2), layout="constrained")
    own = [row for row in rows if row["kind"] in ("pass", "sweeps")]
    for number, (key, label) in enumerate(RATES.items()):
        color, shift = f"C{number}", 0.27 * (number - 1)
        found = {i + shift: row[key] and row[key] / 1e6 for i, row in enumerate(own)}
        known = {place: rate for place, rate in found.items() if rate is not None}
        axis.plot(list(known.values()), list(known), "os^"[number], color=color, label=label)
        for place, rate in found.items():
            text, at = ("none", LEFT) if rate is None else (f"{rate:.3g}", rate)
            axis.annotate(
                text, (at, place), (7, 0), textcoords="offset points", va="center", color=color,
                fontsize=9,
            )  # fmt: skip
    axis.set_yticks(range(len(own)), [_name(row) for row in own])
    axis.set_yticks(np.arange(len(own) - 1) + 0.5, minor=True)
    axis.grid(axis="y", which="minor", alpha=0.5)
    axis.tick_params(which="minor", left=False)
    axis.set_ylim(len(own) - 0.5, -0.5)
    axis.set(xscale="log", xlabel="million per CPU second", xlim=(LEFT, 3.0 * axis.get_xlim()[1]))
    plain_ticks(axis.xaxis, at=(1.0,))
    legend_above(figure, [axis], ncols=3)
    return figure


def _name(row):
    """A side and its setting in words."""
    if row["kind"] == "sweeps":
        return f"{row['side']},\n{row['sweeps']} sweeps"
    return f"{row['side']},\n{'batches of ' * (row['side'] == 'sklearn')}{row['setting']}"
