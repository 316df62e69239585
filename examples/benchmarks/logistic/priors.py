"""Five priors on the coefficients against long Markov chains: errors of means and of sds.

Scale 1 everywhere, 4 degrees of freedom of ``student_t``, N(0, 1) on the intercept. The references
are those of `peers.make_references`; errors of means are in posterior sds, those of sds are
relative. ``arcsinh(coef)`` in ``coordinates``: errors are those of the arcsinh of the coefficients,
because they have no moments (see `peers.references`). Two settings of the estimator:

* ``auto``: its defaults. The gates are on these.
* ``never``: ``moves="never"`` where the defaults moved, so that importance sampling has to do; not
  under the horseshoe, which has none. Not gated here: ``honesty`` checks whether the warnings are
  right.

``--quick``: generated data of 5 coordinates under two of the priors, references of ESS 5,000.
"""

from ..harness import datasets
from ..harness.comparison import estimator, measure, warm
from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..peers.make_references import CATALOGUE
from ..peers.references import cached_reference

NAMES = ("keel_pima", "keel_wdbc", "prostate50")
SEEDS = 3
MEAN_BOUND, SD_BOUND = 0.1, 0.12
MAX_R_HAT = 1.01  # of a reference


def run(config):
    """Fit every prior to its data sets and compare."""
    rows = []
    for data, prior, transform, sampler, min_ess in _cases(config):
        truth = cached_reference(
            data,
            config.cache,
            prior=prior,
            transform=transform,
            sampler=sampler,
            min_ess=min_ess,
        )
        label = "coef" if transform is None else f"{transform.__name__}(coef)"
        case = {"data": data.name, "prior": prior, "coordinates": label, "d": len(truth.mean)}
        warm(data, prior=prior)
        for seed in range(SEEDS):
            for moves in ("auto", "never"):
                model = estimator(seed, prior=prior, moves=moves)
                numbers, _ = measure(model, data, truth, transform)
                rows.append({"kind": moves, **case, "seed": seed, **numbers})
                if numbers["r_hat"] is None or prior == "horseshoe":
                    break
        rows.append(_reference_row(data, prior, truth))
        print(f"{data.name} {prior} done", flush=True)
    return rows


def _cases(config):
    """Yield data set, prior, transform, sampler and smallest ESS of the reference."""
    if config.quick:
        data = datasets.generated(500, 1, 4)
        yield from ((data, prior, None, "nuts", 5_000) for prior in ("laplace", "horseshoe"))
        return
    for name, *rest in CATALOGUE:
        if name in NAMES:
            yield datasets.load(name, config.data), *rest


def _reference_row(data, prior, truth):
    return {
        "kind": "reference",
        "data": data.name,
        "prior": prior,
        "n_draws": int(truth.n_draws),
        "n_divergent": int(truth.n_divergent),
        "min_ess": float(min(truth.ess.min(), truth.ess_second_moment.min())),
        "r_hat": float(truth.r_hat.max()),
        "cpu": float(truth.sampling_cpu),
    }


def gates(rows):
    """Largest errors over the seeds, for each data set and prior."""
    found = []
    fits = [row for row in rows if row["kind"] == "auto"]
    for name, prior in dict.fromkeys((row["data"], row["prior"]) for row in fits):
        own = [row for row in fits if (row["data"], row["prior"]) == (name, prior)]
        for key, bound in (("max_mean_error", MEAN_BOUND), ("max_sd_error", SD_BOUND)):
            worst = max(row[key] for row in own)
            found.append(Gate(f"{name} {prior}, {key.replace('_', ' ')}", worst, bound))
    worst = max(row["r_hat"] for row in rows if row["kind"] == "reference")
    found.append(Gate("largest R-hat of a reference", worst, MAX_R_HAT))
    return found


def plot(rows):
    """Errors of means and sds by prior, a colour for each data set, filled where warned."""
    plt = pyplot()
    fits = [row for row in rows if row["kind"] != "reference"]
    names, priors = (list(dict.fromkeys(row[key] for row in fits)) for key in ("data", "prior"))
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    panels = (
        ("max_mean_error", MEAN_BOUND, "mean, sds"),
        ("max_sd_error", SD_BOUND, "sd, relative"),
    )
    for panel, (key, bound, label) in zip(axes, panels, strict=True):
        for row in fits:
            number, auto = names.index(row["data"]), row["kind"] == "auto"
            place = priors.index(row["prior"]) + 0.15 * (number - (len(names) - 1) / 2)
            colour = f"C{number}"
            fill = colour if row["warned"] else "none"
            panel.plot(place, row[key], "o" if auto else "v", mec=colour, mfc=fill)
        panel.axhline(bound, color="grey", linestyle="--", label="target of the defaults")
        panel.annotate(
            f"{bound:g}", (0.005, bound), xycoords=panel.get_yaxis_transform(), va="bottom"
        )
        panel.set_xticks(range(len(priors)), priors)
        panel.set(yscale="log", xlabel="prior", ylabel=f"largest error of a {label}")
        plain_ticks(panel.yaxis)
    for number, name in enumerate(names):
        axes[0].plot([], [], "s", color=f"C{number}", label=name.removeprefix("keel_"))
    for marker, fill, label in (
        ("o", "none", "defaults"), ("v", "none", 'moves="never"'), ("o", "black", "filled: warned"),
    ):  # fmt: skip
        axes[0].plot([], [], marker, mec="black", mfc=fill, label=label)
    legend_above(figure, axes[:1], ncols=7)
    return figure
