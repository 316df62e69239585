"""Figures of the guide to priors."""

PAGE = "docs/user_guide/priors.rst"
ALLOWED = ("by more than 0.6 nats (root mean square)",)


def halves(rows):
    """The posterior of one half as the prior of the other."""

    def largest(model, *names):
        own = [row for row in rows if row["model"] == model]
        return max(row["gap"] for row in own if not names or row["set"] in names)

    density = "logistic, density"
    cancer, wine = (f"{largest(density, name):.2f}" for name in ("breast_cancer", "wine"))
    assert all(row["warned"] for row in rows if row["model"] == density and row["gap"] > 0.08)
    assert len({row["order"] for row in rows}) == 5 and largest("logistic") < 1e-8
    yield "the same to the last digits"
    yield f"{cancer} standard deviations off with 31 coefficients and {wine} with 42"
    yield (
        "with five orders of the rows of each set, the largest gap of a mean with up to eleven "
        f"parameters is {largest('custom'):.2f} standard deviations"
    )


STUDIES = (halves,)
