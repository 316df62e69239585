"""Figures of the page on the inside of logistic regression."""

PAGE = "docs/inside/logistic.rst"
# Settings, sizes, constants, and what a test holds.
ALLOWED = (
    "Standard errors below 0.005 posterior standard deviations",
    "its means on iris to be within 0.05 standard deviations",
    "less than 0.3 of the first round's draws",
    "At most 2 % of the rows, or 32",
    "adapted to an acceptance of 0.8",
    "the inner step to an acceptance of 0.9",
    "by less than 0.01 nats from one position to another",
    ":math:`\\hat R < 1.02` and a quarter of ``n_particles`` draws",
    "there is a warning if :math:`\\hat R` is above 1.05",
    "where less than 0.3 of the draws are effective under it",
    "for the rows, 16 MB at most",
    "a covariance of them would take 205 GB",
)


def moves(rows):
    """Posteriors that weights do not reach."""
    width = {row["data"]: row["d"] for row in rows if row["kind"] != "cost"}
    assert all(row["warned"] for row in rows if row["kind"] == "never")
    assert not any(row["warned"] for row in rows if row["kind"] == "auto")
    yield (
        "no mixture of Gaussians covers enough of the posterior for weights, neither in "
        f"{width['adult']} dimensions nor in {width['keel_optdigits']}"
    )


def stream(rows):
    """Ten parts, each read once."""
    small, large = (
        [row for row in rows if (row["kind"], row.get("method"), row.get("data")) == of]
        for of in (("stream", "auto", "keel_pima"), ("stream", "auto", "keel_german"))
    )
    one, two, three = (row["max_mean_error"] for row in small)
    means, sds = ([row[key] for row in large] for key in ("max_mean_error", "max_sd_error"))
    assert not any(row["warned"] for row in small)
    warned = f"{sum(row['warned'] for row in large)} of {len(large)}"
    yield (
        f"the largest error of a mean is {one:.2f}, {two:.2f} and {three:.2f} standard deviations "
        "over three orders of the rows"
    )
    yield f"9 coefficients cost up to {max(one, two, three):.2f} posterior standard deviations"
    yield (
        f"{min(means):.2f} to {max(means):.2f}, with a warning in {warned} orders; there the "
        f"largest error of a posterior standard deviation is {100 * min(sds):.0f} to "
        f"{100 * max(sds):.0f} %"
    )


STUDIES = moves, stream
