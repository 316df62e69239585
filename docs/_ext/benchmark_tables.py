"""Committed results of benchmarks as lines of reStructuredText."""

import json
import re
from collections import Counter

from benchmark_columns import COLUMNS, IN_STUDY

from examples.benchmarks.harness import study as studies

CELLS = 3000  # of the tables of a page, which make some 150 kB of it
VERDICTS = ("ahead", "tied", "behind", "no answer in time")
# Columns that a table has even where all of its rows agree in them.
SHOWN = {"method", "verdict"}
# Below this size a number is the rounding error of a zero.
ROUNDING = 1e-9


def load(name):
    """The committed JSON of a study."""
    return json.loads((studies.RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def known():
    """Names of the studies that have results."""
    found = sorted(path.stem for path in studies.RESULTS.glob("*.json"))
    return [name for name in found if not name.endswith("-quick")]


# ---------------------------------------------------------------------- tables
def format_cell(value):
    """One value as a table shows it: four significant digits or all, and no empty cell."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if abs(value) < ROUNDING:
            return f"{value:.1g}"
        return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(format_cell(item) for item in value)
    return str(value)


def by_columns(rows):
    """Rows in groups that have the same columns: {columns: rows}."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row), []).append(row)
    return found


def pages(rows):
    """Rows in groups for a page each, none with more than `CELLS` cells."""
    found, left = [[]], CELLS
    for columns, group in by_columns(rows).items():
        while group:
            if left < len(columns):
                found.append([])
                left = CELLS
            some = left // len(columns)
            found[-1] += group[:some]
            left -= len(group[:some]) * len(columns)
            group = group[some:]
    return found


def row_lines(rows):
    """Rows as tables, with what all rows of a table agree in above it instead of in columns."""
    lines = []
    for columns, group in by_columns(rows).items():
        empty = {name for name in columns if all(row[name] is None for row in group)}
        group = [{k: v for k, v in row.items() if k not in empty} for row in group]
        values = {name: {format_cell(row[name]) for row in group} for name in group[0]}
        agreed = {
            name: found.pop()
            for name, found in values.items()
            if len(group) > 2 and len(found) == 1 and name not in SHOWN
        }
        if agreed and len(agreed) < len(values):
            said = ", ".join(f"``{name}`` {plain(value)}" for name, value in agreed.items())
            lines += [f"In all rows: {said}.", ""]
            group = [{k: v for k, v in row.items() if k not in agreed} for row in group]
        lines += table_lines(group)
    return lines


def table_lines(rows):
    """Rows, one mapping each, as CSV tables: one table for each set of columns."""
    lines = []
    for columns, group in by_columns(rows).items():
        lines += [".. csv-table::", "   :header-rows: 1", "   :class: benchmark", ""]
        for line in [columns, *([format_cell(v) for v in row.values()] for row in group)]:
            lines.append("   " + ", ".join(quote(cell) for cell in line))
        lines.append("")
    return lines


def quote(cell):
    """One cell of a CSV table."""
    return '"' + plain(cell).replace('"', '""') + '"'


def plain(text):
    """Text with the characters that mean something in reStructuredText made plain."""
    for character in "\\*`|_":
        text = text.replace(character, "\\" + character)
    return text


def words(text):
    """A docstring for a page: names in single backticks, which lead nowhere there, as code."""
    text = re.sub(r"(?<![`:])`verdicts`(?!`)", ":doc:`verdicts </benchmarks>`", text)
    return re.sub(r"(?<![`:])`([^`<>]+)`(?!`)", r"``\1``", text).splitlines()


def column_lines(name, rows):
    """What the columns of a study mean, where its own words do not say so."""
    found = {column: None for row in rows for column in row}
    own = IN_STUDY.get(name, {})
    said = {column: own.get(column) or COLUMNS.get(column) for column in found}
    lines = [f"* ``{column}``: {text}" for column, text in said.items() if text]
    return ["The columns of the tables:", "", *lines, ""] if lines else []


# ---------------------------------------------------------------------- a study, shortly and whole
def short_lines(name, picture, file):
    """First words of a study, its picture, targets and verdicts, and where the rest is.

    ``picture`` is the place of the picture beside the page's source, ``file`` beside the page.
    """
    study = load(name)
    first = words(studies.description(name).split("\n\n", 1)[0])
    lines = [*title(name, "~"), *first, "", *image_lines(name, picture, file)]
    lines += gate_lines(study) + verdict_lines(study["rows"])
    return [*lines, *age_lines(study), f":doc:`{name}, all of it <benchmarks/{name}>`", ""]


def image_lines(name, picture, file):
    """The picture of a study, which leads to itself in full size."""
    options = {"alt": f"Benchmark {name}", "target": file, "class": "benchmark"}
    return [f".. image:: {picture}", *(f"   :{k}: {v}" for k, v in options.items()), ""]


def whole_lines(name, part, picture, file):
    """A page of a study: its words and picture on the first, rows on all, origin on the last."""
    study = load(name)
    found, lines = pages(study["rows"]), []
    if part == 0:
        lines += [*words(studies.description(name)), ""]
        lines += [".. code-block:: console", "", f"   $ {study['command']}", ""]
        lines += image_lines(name, picture, file)
        lines += gate_lines(study) + age_lines(study) + origin_lines(study)
        lines += column_lines(name, study["rows"])
    else:
        lines += [f":doc:`What the study and its columns are <{name}>`", ""]
    lines += row_lines(found[part])
    if part + 1 < len(found):
        lines += [f":doc:`More rows <{page_name(name, part + 1)}>`", ""]
    return lines


def page_name(name, part):
    """File of a page of a study, without its ending."""
    return name if part == 0 else f"{name}-{part + 1}"


def title(text, line):
    """A title with the line below it."""
    return [text, line * len(text), ""]


def gate_lines(study):
    """Targets, where there are any."""
    gates = study["gates"]
    if not gates:
        return []
    space = "\N{NO-BREAK SPACE}"  # A relation and its number stay on one line.
    gates = [{**gate, "target": gate["target"].replace(" ", space)} for gate in gates]
    return ["The targets that the study is held against:", "", *table_lines(gates)]


def verdict_lines(rows):
    """Verdicts in few columns."""
    kept = ("kind", "data", "method", "ours", "theirs", "verdict", "theirs_long", "verdict_long")
    own = [row for row in rows if str(row.get("kind", "")).startswith("verdict")]
    return row_lines([{key: row[key] for key in kept if key in row} for row in own])


def age_lines(study):
    """A note where the code that a study measures has changed since, as lines."""
    changed = studies.changed_since(study)
    if changed == []:
        return []
    if changed is None:
        return [
            ".. note::",
            "",
            "   Which modules these figures are of was not recorded, so that changes since are not",
            "   known. The words are of the study as it is now.",
            "",
        ]
    old = [name for name in changed if name in study["code"]]
    said = f"These figures are older than the code that they measure: {len(old)} of its "
    said += f"{len(study['code'])} modules have changed or been removed since{counted(old)}, and "
    said += f"{len(changed) - len(old)} are new. The words are of the study as it is now."
    return [".. note::", "", f"   {said}", ""]


def counted(names):
    """How many modules are of which part of skpmd, in brackets."""
    parts = Counter(name.split(".")[1] for name in names)
    counts = ", ".join(f"{count} in ``{part}``" for part, count in parts.items())
    return f" ({counts})" if counts else ""


def origin_lines(study):
    """Commit, day, machine and versions of a study, as lines."""
    used = ", ".join(f"{name} {version}" for name, version in study["versions"].items() if version)
    place, machine = "", study.get("machine")
    if study.get("commit"):
        head = study["commit"].lstrip("<=")
        when = "at or before" if study["commit"].startswith("<=") else "at"
        place = f" {when} commit ``{head[:10]}``"
        place += ", with changes that were not committed" if head.endswith("+") else ""
        place += f", {study['date']}" if study.get("date") else ""
    if machine:
        cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
        place += (
            f", on {cores} of {machine['processor']} with "
            f"{machine['memory_gb']:g} GB, {machine['system']}"
        )
    if "seconds" in study:
        place += f", in {study['seconds'] / 60:.1f} minutes"
    return [f"Made{place}, with {used}.", ""]


# ---------------------------------------------------------------------- all studies in one table
def summary_rows(names):
    """A row for each study: targets met, verdicts counted, and whether it is of the code as is."""
    rows = []
    for name in names:
        study = load(name)
        gates = study["gates"]
        found = Counter(row["verdict"] for row in study["rows"] if row.get("verdict"))
        verdicts = ", ".join(f"{one}: {found[one]}" for one in VERDICTS if found[one])
        row = {"study": f":doc:`{name} <benchmarks/{name}>`"}
        row["what"] = studies.discover()[name]
        row["targets met"] = f"{sum(g['met'] for g in gates)} of {len(gates)}" if gates else None
        row["ours is"] = verdicts or None
        row["of this code"] = studies.changed_since(study) == []
        rows.append(row)
    return rows


def summary_lines(names):
    """The same as a table, whose first column has links."""
    rows = summary_rows(names)
    lines = [".. list-table::", "   :header-rows: 1", "   :class: benchmark", ""]
    for row in [dict(zip(rows[0], rows[0], strict=True)), *rows]:
        cells = [format_cell(value) for value in row.values()]
        lines += [f"   {'* -' if k == 0 else '  -'} {cell}" for k, cell in enumerate(cells)]
    return [*lines, ""]
