"""Figures of what surprises users of every estimator."""

PAGE = "docs/sharp_bits.rst"
ALLOWED = (
    "off by less than three standard errors and 15 % of a standard deviation together",
    "beyond the 16 MB of them that it retains",
)


def ablation(rows):
    """The published algorithm on the mixture, good by its own ESS, often without a warning."""
    own, letter = (
        next(r for r in rows if (r["problem"], r["setting"]) == ("mixture, TV", setting))
        for setting in ("defaults", "Algorithm 1")
    )
    assert letter["warned"] < 1.0
    yield (
        f"its total variation to the exact posterior is {letter['error']:.2f} on the paper's "
        f"mixture, with {100 * letter['ess']:.0f} % of the particles effective and a warning from "
        f"{100 * letter['warned']:.0f} % of the fits, and that of the "
        f'defaults with ``proposal="prior"`` is {own["error"]:.2f}'
    )


STUDIES = (ablation,)
