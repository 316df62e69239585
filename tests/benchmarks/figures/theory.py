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


STUDIES = (stream, logistic, theory)
