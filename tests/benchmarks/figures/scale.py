"""The figures of the page on scale: what studies have measured, and the model of costs."""

import numpy as np

from examples.benchmarks.harness import study as studies

from ._rows import table_line

PAGE = "docs/user_guide/scale.rst"
ALLOWED = (  # Arithmetic of bytes.
    "A disk of 1 GB a second reads 2.5 million rows of 50 columns a second",
    r"With 10\ :sup:`9` rows of 50 columns (400 GB) in 4,000 blocks of 100 MB",
    r"the process that fits, 16 GB of 10\ :sup:`9` rows",
    "a pass of them reads 400 GB through one process, 7 minutes at 1 GB a second",
)
ROWS, WORKERS, BLOCK = 1e9, 100, 250_000  # Of the prediction.


def cluster(rows):
    """Steps, what they predict, searches, and fits past the memory of workers."""
    study = studies.load("cluster")
    yield from steps(rows, study)
    yield from prediction(rows)
    yield f"do {study.gain(rows, 'cores'):.2f} times the work of one"
    yield f"is {study.gain(rows, 'search'):.2f} times as fast as one process"
    fits = [row for row in rows if row["case"] == "fit"]
    assert all(row["data_mb"] == 4 * study.LIMIT_MB for row in fits)
    yield (
        f"Collections of {fits[0]['data_mb']:,.0f} MB have been fitted with two workers of "
        f"{study.LIMIT_MB} MB each"
    )
    for row in fits:
        measured = [f"{row[key]:,.0f}" for key in ("seconds", "peak_mb", "here_mb")]
        yield table_line(row["model"], f"{row['rows']:,}", f"{row['blocks']:,}", *measured)


def costs(rows):
    """Rows of a large step, its seconds by one worker and two, ms of any step and of a block."""
    own = {row["workers"]: row for row in rows if row.get("blocks") == 16}
    small = [row for row in rows if row.get("overhead_ms") is not None]
    blocks, ms = ([row[key] for row in small] for key in ("blocks", "overhead_ms"))
    each, fixed = np.polyfit(blocks, ms, 1)
    return own[1]["rows"], own[1]["seconds"], own[2]["seconds"], fixed, each


def steps(rows, study):
    """A step of one worker and of two, and what the parts of its costs make of it."""
    n, one, two, fixed, each = costs(rows)
    m, p = study.PARTICLES, study.COLUMNS
    predicted = one / 2 + (fixed + 16 * each) / 1e3
    operations = (2 * p + 40) * m * n
    yield (
        f"A step of {m:,} particles on {n:,} rows of {p} columns, in 16 blocks, takes {one:.1f} s "
        f"with one worker and {two:.1f} s with two, {one / two:.2f} times less"
    )
    yield f"These are {operations / one / 1e9:.0f} billion operations a second on one core"
    yield f"no work takes {max(fixed, 0.0):.0f} ms, and {each:.1f} ms more for each block"
    yield (
        f"By these figures {one:.1f} / 2 s and the messages of 16 blocks make {predicted:.1f} s, "
        f"{100 * (1 - predicted / two):.0f} % less than was measured"
    )


def prediction(rows):
    """A step of many rows on many workers."""
    n, one, _, _, each = costs(rows)
    a_row = one / n
    compute, messages = a_row * ROWS / WORKERS, ROWS / BLOCK * each / 1e3
    yield f"takes {1e6 * a_row:.0f} microseconds of a core for a row"
    yield (
        f"on {WORKERS} workers of one core, a step has {compute:.0f} s of computing and "
        f"{messages:.0f} s of messages, {100 * messages / compute:.0f} % of it"
    )
    yield (
        f"A block takes {BLOCK * a_row:.1f} s, so that up to "
        f"{BLOCK * a_row / (each / 1e3):.0f} workers"
    )


def large(rows):
    """A whole fit."""
    (fit,) = (row for row in rows if (row["kind"], row["model"]) == ("fit", "logistic"))
    rate, slope = fit["rows"] / fit["cpu"], studies.load("large").slope
    powers = [slope(rows, "logistic", kind) for kind in ("rows", "particles", "columns")]
    assert all(0.85 < power < 1.15 for power in powers[:2]) and powers[2] < 0.85
    yield (
        "Time grows with the first power of the rows and of the particles, and with less than that "
        "of the columns"
    )
    yield (
        f"A whole fit by the defaults takes {ROWS / WORKERS / rate / 60:.0f} minutes, if each core "
        f"fits {rate:,.0f} rows a second, as one core did with {fit['rows'] / 1e6:g} million rows "
        "from disk"
    )


STUDIES = (cluster, large)
