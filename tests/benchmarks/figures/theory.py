"""Figures of the page that derives what the engine computes."""

import numpy as np

from ._rows import significant, table_line

PAGE = "docs/theory.rst"
ALLOWED = (
    "reduce the ESS to 0.95 of the value with which it starts",
    "0.1 times the median distance between particles",
    "the central 90 % of the particles",
    r"An ESS of :math:`0.9\, m` ends the fit",
    "four standard errors and 0.02",
    "where they see more than 5 % of the posterior",
    "Above 0.7 averages over the particles are not to be trusted",
    "errors keeps with 95 % probability",
    "multiplied by 1.6 to account for what is of higher order",
    "above 0.2 there is a ``ConvergenceWarning``",
    "has a probability of 0.001",
    "the remark in section 3.1 of the paper",
)


def stream(rows):
    """True errors of a stream beside its own estimate of them."""
    largest = max(row["max_mean_error"] / row["estimate"] for row in rows)
    yield f"true errors of means were up to {significant(largest)} times as large, and"


def logistic(rows):
    """CPU from draws of the prior in nine dimensions."""

    def cpu(kind):
        return np.mean([r["cpu"] for r in rows if (r["kind"], r["data"]) == (kind, "keel_pima")])

    yield f"and in nine they cost {significant(cpu('prior') / cpu('pmd'))} times as much"


# ---------------------------------------------------------------------- one choice at a time
MIXTURE, BANANA, REGRESSION = PROBLEMS = ("mixture, TV", "banana, TV", "regression, sds")


def ablation(rows):
    """What each published choice costs."""
    found = {(row["setting"], row["problem"]): row for row in rows}
    yield from _steps(found)
    yield from _batches(found)
    yield from _kernels(found)
    yield from _rest(found)


def _ratio(found, setting, problem, key="error", than="defaults"):
    return found[setting, problem][key] / found[than, problem][key]


def _gaps(found, setting):
    """Of the errors to the defaults', in the larger of the two spreads."""
    for problem in PROBLEMS:
        one, own = found[setting, problem], found["defaults", problem]
        yield (one["error"] - own["error"]) / max(one["spread"], own["spread"])


def _steps(found):
    """ESS control, rejuvenation and shrinkage."""
    lost = [found[name, REGRESSION] for name in ("ESS control off", "rejuvenation: never")]
    off = {f"{row['error']:.0f}" for row in lost}
    unshrunk = found["shrinkage off", REGRESSION]
    assert len(off) == 1 and all(row["warned"] == 1.0 for row in [*lost, unshrunk])
    assert unshrunk["error"] > 10.0
    yield (
        f"ends {off.pop()} posterior standard deviations away, with a warning; the other defaults "
        f"err by {found['defaults', REGRESSION]['error']:.2f}"
    )
    times = significant(_ratio(found, "shrinkage off", REGRESSION, "cpu_s"))
    yield f"takes {times} times the CPU there and fails, with a warning"


def _batches(found):
    """Reweighting, and batches where none follows."""
    off = "10 batches, reweighting off"
    sd_error = found["reweighting off", REGRESSION]["sd_error"]
    worse = _ratio(found, f"{off}, replacement", REGRESSION, than=off)
    yield (
        f"is {_ratio(found, 'reweighting off', MIXTURE):.1f} times as large, and sds in the "
        f"regression are {100 * sd_error:.0f} % off"
    )
    yield f"make the regression's error {worse:.1f} times as large"


def _kernels(found):
    """Bandwidths."""
    published, plane = ("bandwidth: theorem", "bandwidth: median"), (MIXTURE, BANANA)
    cpu = [_ratio(found, name, problem, "cpu_s") for name in published for problem in plane]
    error = max(_ratio(found, name, problem) for name in published for problem in plane)
    theorem, median = (_ratio(found, name, REGRESSION, "cpu_s") for name in published)
    assert all(found[name, REGRESSION]["warned"] == 1.0 for name in published)
    gap, larger = (list(_gaps(found, name))[-1] for name in published)
    assert abs(gap) < 1.0 < larger
    worse = significant(_ratio(found, published[1], REGRESSION))
    scott, silverman = (
        f"{100 * _ratio(found, f'bandwidth: {name}', BANANA) - 100:.0f}"
        for name in ("scott", "silverman")
    )
    assert scott == silverman
    yield (
        f"save {100 - 100 * max(cpu):.0f} to {100 - 100 * min(cpu):.0f} % of the CPU in the plane "
        f"with an error that is {100 * error - 100:.0f} % larger at most; in ten dimensions they "
        f"take {theorem:.1f} and {median:.1f} times the CPU of the leave-one-out search and end "
        f"with a warning, and the median heuristic's error is {worse} times as large"
    )
    yield f"Scott's and Silverman's rules are {scott} % worse on the banana"


def _rest(found):
    """Rejuvenation before each step, resampling and the number of passes."""
    always = max(_ratio(found, "rejuvenation: always", one, "cpu_s") for one in PROBLEMS)
    assert min(_gaps(found, "rejuvenation: always")) > -1.0
    assert max(map(abs, _gaps(found, "resampling: multinomial"))) < 1.0
    least = min(_ratio(found, "20 passes", problem) for problem in PROBLEMS)
    yield f"costs up to {always:.1f} times the CPU and gains nothing beyond the spread"
    yield "The resampling scheme changes no error by more than the spread"
    yield (
        f"{100 * _ratio(found, '1 pass', MIXTURE) - 100:.0f} % larger with "
        f"{100 * _ratio(found, '1 pass', MIXTURE, 'cpu_s'):.0f} % of the CPU; twenty "
        f"passes reduce an error by {100 - 100 * least:.0f} % at most"
    )
    plain = "shrinkage off", "bandwidth: theorem"
    gains = [100 - 100 * _ratio(found, name, MIXTURE) for name in plain]
    assert all(-1.0 < next(_gaps(found, name)) < 0.0 for name in plain)
    yield (
        f"on the mixture the total variation distance is {gains[0]:.0f} % smaller without "
        f"shrinkage and {gains[1]:.0f} % smaller with the bandwidths of the theorem, less than the "
        "spread of five data sets"
    )


# ---------------------------------------------------------------------- exponents
def theory(rows):
    """A line of the table for each exponent."""
    for row in rows:
        if row["part"] == "slope":
            error = row["standard_error"]
            slope = f"{row['slope']:.2f}" + (f" ± {error:.2f}" if error is not None else "")
            yield table_line(
                row["of"].replace(", m_t ~ t^", ", p = "),
                slope.replace("-", "−"),
                f"{row['bound']:.2f}".replace("-", "−"),
                row["relation"],
                *(_distance(row.get(key)) for key in ("from_half", "from_double")),
            )


def _distance(value):
    """How many standard errors an exponent is away from a wrong one."""
    return "–" if value is None else f"{value:.1f}".replace("-", "−")


STUDIES = (stream, logistic, ablation, theory)
