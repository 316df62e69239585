"""The figures of the guide to rows past memory."""

from examples.benchmarks.harness import study as studies

from ._rows import table_line

PAGE = "docs/user_guide/big_data.rst"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
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


def large(rows):
    """A line of the table for each large fit, with the ends of its curves."""
    study = studies.load("large")
    for row in rows:
        if row["kind"] == "fit":
            yield table_line(
                row["model"],
                f"{row['rows']:,} × {row['columns']:,}",
                f"{row['cpu']:.0f}",
                f"{row['peak_mb']:,.0f}",
                *(f"{study.slope(rows, row['model'], kind):.1f}" for kind in study.VARIED),
            )


def stream_hour(rows):
    """Memory, and a line of the table for each model."""
    study = studies.load("stream_hour")
    last = [row for row in rows if row["kind"] == "calls"][-1]
    measured = {gate.name: gate.measured for gate in study.gates(rows)}
    growth = measured["memory at the end over that after a quarter, MB"]
    assert last["minute"] > 59
    yield (
        f"In {last['rows'] // study.ROWS:,} calls of {study.ROWS} rows of each of three models "
        f"memory grew by {growth:.0f} MB after minute 20, to {last['memory_mb']:.0f} MB"
    )
    for name in study.MODELS:
        first, *_, end = [row for row in rows if row.get("model") == name]
        assert round(first["minute"]) == 4
        yield table_line(
            name,
            f"{measured[f'{name}, CPU of a call, last quarter over second']:.2f}",
            *(scientific(row[key]) for key in ("mean_error", "behind") for row in (first, end)),
        )
        if name == "mixture":
            error = f"{end['mean_error']:.1f}, above the study's target of 0.2"
            assert end["mean_error"] > 0.2 > first["mean_error"]
            yield f"its means in the posterior's narrowing standard deviations is {error}."


def scientific(number):
    """A number with one digit, by a power of ten where it is tiny."""
    digit, _, exponent = f"{number:.1g}".partition("e")
    power = f" × 10{str(int(exponent)).translate(RAISED)}" if exponent else ""
    return (digit + power).replace("-", "−")


STUDIES = (past_memory, large, stream_hour)
