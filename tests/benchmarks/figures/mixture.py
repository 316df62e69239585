"""Figures of the page on the inside of mixtures."""

import numpy as np

PAGE = "docs/inside/mixture.rst"
# Settings, and a section of a book.
ALLOWED = (
    "(a concentration of 0.001, say)",
    "leave the best component ahead by less than 0.3",
    "([B06]_, section 2.3;",
)


def densities(rows):
    """One particle behind many."""

    def mean(kind, name):
        return np.mean([r["score"] for r in rows if (r["kind"], r["data"]) == (kind, name)])

    names = {row["data"] for row in rows}
    gains = [mean("pmd", name) - mean("pmd single", name) for name in names]
    assert len(names) == 4 and min(gains) > 0.0
    yield (
        "The prediction of one particle is worse than that of many: on the four tables of the "
        f"study ``densities`` by {min(gains):.1f} to {max(gains):.1f} nats a row."
    )


STUDIES = (densities,)
