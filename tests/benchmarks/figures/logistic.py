"""Figures of the page on the inside of logistic regression."""

import numpy as np

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


def priors(rows):
    """The horseshoe on separable rows."""
    own = [row for row in rows if row["data"] == "prostate50" and row["kind"] == "auto"]
    found = [row["r_hat"] for row in own]
    assert len(own) == 3 and all(row["prior"] == "horseshoe" for row in own)
    yield f"on 102 rows of 50 columns ended with {min(found):.2f} to {max(found):.2f}"


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
    assert all(row["warned"] for row in large) and not any(row["warned"] for row in small)
    yield (
        f"the largest error of a mean is {one:.2f}, {two:.2f} and {three:.2f} standard deviations "
        "over three orders of the rows"
    )
    yield f"9 coefficients cost up to {max(one, two, three):.2f} posterior standard deviations"
    yield (
        f"{min(means):.1f} to {max(means):.1f}, with a warning; there the largest error of a "
        f"posterior standard deviation is {100 * min(sds):.0f} to {100 * max(sds):.0f} %"
    )


TABLE = {
    "LogisticRegression": "``LogisticRegression``",
    "diag, T = 1": "averages, temperature 1",
    "diag, any T": "averages, any temperature",
    "LogisticRegression, calibrated": "``LogisticRegression``, calibrated",
    "diag, calibrated": "averages, calibrated",
}
SCORES = "log_loss_cv", "log_loss", "ece_cv", "ece"


def text(rows):
    """Words, two newsgroups and all of them."""
    yield dropped({row["C"]: row for row in rows if row["kind"] == "words"})
    two, all_groups = (
        {row["method"]: row for row in rows if row["kind"] == kind}
        for kind in ("binary", "classes")
    )
    for name, label in TABLE.items():
        row = all_groups[name]
        temperature = f"{row['temperature']:g}" if name.startswith("diag") else '""'
        numbers = ", ".join(f"{row[key]:.3f}" for key in SCORES)
        yield f'"{label}", {row["C"]:g}, {temperature}, {numbers}'
    coldest = {found["diag, any T"]["temperature"] for found in (two, all_groups)}
    (least,) = coldest
    yield f"The lowest temperature on offer, {least:g}, is the best in this study"
    yield f"its log loss ends within {behind(all_groups):g} of ours"
    yield from repairs({name: row["log_loss_cv"] for name, row in two.items()})


def dropped(words):
    """What correlations are worth where they can be had."""
    change = {C: row["log_loss_diag"] - row["log_loss_full"] for C, row in words.items()}
    assert list(change) == [10.0, 30.0] and abs(change[10.0]) < 0.001
    return (
        "it changes the log loss by less than 0.001 at prior variance 10 and costs "
        f"{change[30.0]:.3f} at 30"
    )


def behind(found):
    """A bound on the gap of log losses between both calibrated; all gain, by narrower priors."""
    plain, ours = (found[name] for name in ("LogisticRegression, calibrated", "diag, calibrated"))
    for sharp, raw in ((plain, "LogisticRegression"), (ours, "diag, T = 1")):
        assert sharp["C"] < found[raw]["C"]
        assert all(sharp[key] < found[raw][key] for key in ("log_loss_cv", "log_loss"))
    gaps = [abs(plain[key] - ours[key]) for key in ("log_loss_cv", "log_loss")]
    return np.ceil(100 * max(gaps)) / 100


def repairs(loss):
    """Held-out log losses with two of the groups."""
    assert loss["LogisticRegression"] < loss["LogisticRegression, converged"]
    yield (
        "ends level with a calibrated ``LogisticRegression`` (held-out log loss "
        f"{loss['diag, calibrated']:.3f} and {loss['LogisticRegression, calibrated']:.3f}), the "
        "second level with one that runs to convergence "
        f"({loss['diag, any T']:.3f} and {loss['LogisticRegression, converged']:.3f})"
    )
    yield f"which happens to help: {loss['LogisticRegression']:.3f}"


STUDIES = priors, moves, stream, text
