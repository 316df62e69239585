"""The figures of the page on the inside of Gaussian processes."""

from ._rows import rows_of, table_line

PAGE = "docs/inside/sparse_gp.rst"
ALLOWED = (
    # Thresholds and settings.
    "the 90 % intervals for them, given all others, hold less than three quarters",
    "the 90 % intervals for them, each given all others, hold less than three quarters",
    "if more than 2 % of the rows keep more than half of their variance",
    "the range of the middle 80 % take the place of mean and standard deviation",
    "normal around their mean with a standard deviation of 0.5",
    "it is raised tenfold, up to 0.01, above which there is an error",
    "inducing input, 268 MB at most by default",
    # What tests hold.
    "be within 10 % of those of long elliptical slice sampling, and means to be within 0.1",
    "a test requires probabilities to be within 0.05 of those of one fit",
    # A section of a book.
    "([RW06]_, section 5.4.2; [SK01]_)",
)


def many_rows(rows):
    """A line of the table of times and memory for each fit."""
    for row in rows:
        yield table_line(
            f"{row['rows']:,}",
            f"{row['approximation']}: {row['taken']}",
            f"{row['cpu']:.0f}",
            f"{row['predict_cpu']:.1f}",
            f"{row['peak_mb']:.0f}",
        )


def paper_flights(rows):
    """One particle on a fifth of the rows and on all."""
    found = {}
    for row in rows:
        if (row["kind"], row["method"]) == ("curve", "pmd, one particle"):
            found.setdefault(row["seed"], []).append((row["rows"], row["rmse"]))
    pairs = [sorted(curve)[-2:] for curve in found.values()]
    few, n = pairs[0][0][0], pairs[0][1][0]
    worse = [(after, before) for (_, before), (_, after) in pairs if after > before]
    assert 0.15 < few / n < 0.25 and (len(worse), len(pairs)) == (2, 3)
    neighbours = max(row["rmse"] for row in rows_of("flights") if row["kind"] == "default")
    assert neighbours < min(rmse for pair in pairs for _, rmse in pair)
    after, before = max(worse, key=lambda pair: pair[0])
    yield (
        f"has a larger error on all {n:,} flights than on a fifth of the same rows on two of three "
        f"splits, {after:.2f} and {before:.2f} on the worst. Neighbours do better there"
    )


def classification(rows):
    """Beside SVGP, whose time is that of ours."""
    ours, svgp = (
        {row["data"]: row for row in rows if row["method"] == method}
        for method in ("SparseGPClassifierPMD", "SVGP")
    )
    assert len(ours) == 4
    assert all(svgp[name]["log_loss"] > row["log_loss"] for name, row in ours.items())
    assert all(0.95 < svgp[name]["cpu"] / row["cpu"] < 1.05 for name, row in ours.items())
    yield "at equal CPU the log loss of SVGP is larger on all four data sets"


STUDIES = (many_rows, paper_flights, classification)
