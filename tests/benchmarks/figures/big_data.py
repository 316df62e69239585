"""The figures of the guide to rows past memory."""

from examples.benchmarks.harness import study as studies

from ._rows import table_line

PAGE = "docs/user_guide/big_data.rst"
ALLOWED = ("A group is in memory, 256 MB at most of dense rows in double precision",)


def past_memory(rows):
    """A line of the table for each fit that reads."""
    shares = studies.load("past_memory").shares(rows)
    for row in rows:
        if row["form"] != "memory":
            yield table_line(
                row["model"],
                row["form"],
                f"{row['rows']:,}",
                f"{row['size_mb']:,.0f}",
                f"{row['limit_mb']:,}",
                f"{row['peak_mb']:,.0f}",
                f"{row['rows_per_s']:,.0f}",
                f"{100 * shares[row['model'], row['form']]:.0f} %",
            )


STUDIES = (past_memory,)
