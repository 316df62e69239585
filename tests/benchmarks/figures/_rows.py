"""Rows of committed results, and numbers as pages write them."""

import json

from examples.benchmarks.harness import study as studies


def rows_of(name):
    """Rows of a study's committed results; None where a source distribution comes without."""
    path = studies.RESULTS / f"{name}.json"
    if not path.exists():
        return None
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def significant(number, digits=2):
    """A number with so many significant digits."""
    return f"{float(f'{number:.{digits}g}'):g}"


def table_line(*cells):
    """A line of a list table, as the page has it in one line."""
    return "* - " + " - ".join(map(str, cells))
