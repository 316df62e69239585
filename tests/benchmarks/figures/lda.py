"""Figures of the page on the inside of topic models."""

import numpy as np

PAGE = "docs/inside/lda.rst"
ALLOWED = (
    "``transform(X, return_interval=0.9)`` returns credible intervals",
    # What tests hold, and their settings: `tests.lda.test_proportions`, `test_calibration`,
    # `test_results`.
    "intervals of 90 % contain at least 86 % of the exact posterior on average, and 70 % for each",
    "differ from those of the second by less than 0.4 of their standard deviations",
    "a test requires a coverage above 80 %",
    "between 5 and 15 % of a word's draws on either side of an interval of 80 %",
    # Constants and settings.
    "how often intervals of 90 % contain the truth",
    "moves a count of 2.5 in three pieces",
)


def topic_calibration(rows):
    """Share of intervals that hold the truth."""
    own = [row["coverage"] for row in rows if row["kind"] == "simulation"]
    three, ten = (
        row["coverage"] for row in rows if row.get("factor") == "K" and row["level"] in (3, 10)
    )
    yield (
        f"{100 * np.mean(own):.0f} % of the time, {100 * three:.0f} with three topics and "
        f"{100 * ten:.0f} with ten."
    )


STUDIES = (topic_calibration,)
