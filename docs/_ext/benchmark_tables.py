"""Committed results of benchmarks as lines of reStructuredText."""

import json
from collections import Counter

from examples.benchmarks.harness import study as studies

CELLS = 3000  # of the tables of a page, which make some 150 kB of it
VERDICTS = ("ahead", "tied", "behind", "no answer in time")


def load(name):
    """The committed JSON of a study."""
    return json.loads((studies.RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def known():
    """Names of the studies that have results."""
    found = sorted(path.stem for path in studies.RESULTS.glob("*.json"))
    return [name for name in found if not name.endswith("-quick")]


# ---------------------------------------------------------------------- tables
def format_cell(value):
    """One value as a table shows it: four significant digits, and no empty cell."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
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
    """One cell of a CSV table, with the characters that mean something in it made plain."""
    for character in "\\*`|_":
        cell = cell.replace(character, "\\" + character)
    return '"' + cell.replace('"', '""') + '"'


# ---------------------------------------------------------------------- a study, shortly and whole
def short_lines(name, picture):
    """First words of a study, its picture, targets and verdicts, and where the rest is."""
    study = load(name)
    first = studies.description(name).split("\n\n", 1)[0].splitlines()
    lines = [*title(name, "~"), *first, ""]
    lines += [f".. image:: {picture}", f"   :alt: Benchmark {name}", ""]
    lines += gate_lines(study) + verdict_lines(study["rows"])
    return [*lines, *age_lines(study), f":doc:`{name}, all of it <benchmarks/{name}>`", ""]


def whole_lines(name, part, picture):
    """A page of a study: its words and picture on the first, rows on all, origin on the last."""
    study = load(name)
    found, lines = pages(study["rows"]), []
    if part == 0:
        lines += [*studies.description(name).splitlines(), ""]
        lines += [".. code-block:: console", "", f"   $ {study['command']}", ""]
        lines += [f".. image:: {picture}", f"   :alt: Benchmark {name}", ""]
        lines += gate_lines(study) + age_lines(study) + origin_lines(study)
    lines += table_lines(found[part])
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
    if not study["gates"]:
        return []
    return ["The targets that the study is held against:", "", *table_lines(study["gates"])]


def verdict_lines(rows):
    """Verdicts in few columns."""
    kept = ("kind", "data", "method", "ours", "theirs", "verdict", "theirs_long", "verdict_long")
    own = [row for row in rows if str(row.get("kind", "")).startswith("verdict")]
    return table_lines([{key: row[key] for key in kept if key in row} for row in own])


def age_lines(study):
    """A note where the code that a study measures has changed since, as lines."""
    changed = studies.changed_since(study)
    if changed == []:
        return []
    if changed is None:
        return [
            ".. note::",
            "",
            "   These figures do not say which code they are of; the words are of that as it is.",
            "",
        ]
    parts = Counter(name.split(".")[1] for name in changed)
    counts = ", ".join(f"{count} in ``{part}``" for part, count in parts.items())
    said = f"These figures are older than the code that they measure: of its {len(study['code'])} "
    said += f"modules so many have changed since, been added or removed: {counts}. The words are "
    said += "of the study as it is now."
    return [".. note::", "", f"   {said}", ""]


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
        place += (
            f", on {machine['cores']} cores of {machine['processor']} with "
            f"{machine['memory_gb']:g} GB, {machine['system']}"
        )
    return [f"Made{place}, with {used}.", ""]


# ---------------------------------------------------------------------- all studies in one table
def summary_rows(names):
    """A row for each study: targets met, verdicts counted, and whether it is of the code as is."""
    rows = []
    for name in names:
        study = load(name)
        gates = study["gates"]
        verdicts = Counter(row["verdict"] for row in study["rows"] if row.get("verdict"))
        row = {"study": f":doc:`{name} <benchmarks/{name}>`"}
        row["what"] = studies.discover()[name]
        row["targets met"] = f"{sum(g['met'] for g in gates)} of {len(gates)}" if gates else None
        row |= {verdict: verdicts[verdict] if verdicts else None for verdict in VERDICTS}
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
