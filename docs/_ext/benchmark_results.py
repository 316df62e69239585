"""The directive ``benchmark-results``: committed benchmark results as tables and pictures.

Each ``NAME.json`` of ``examples/benchmarks/results`` becomes a section with the docstring of the
study's module, the command that made it, its rows and targets as tables, and its picture, which is
drawn from the JSON into the folder of doctrees. The directive's content names studies, one on a
line; without any it shows what no directive before it has shown. Nothing is measured here, and no
package that skpmd is compared with is imported.

A source distribution comes without results. There the directive leaves a note in place of them.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

sys.path.append(str(Path(__file__).resolve().parents[2]))

from examples.benchmarks.harness import study as studies  # noqa: E402

RESULTS = studies.RESULTS
NO_RESULTS = [
    ".. note::",
    "",
    "   The results of the benchmarks are in the repository, not in the source distribution that",
    "   this page was built from.",
]


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


def table_lines(rows):
    """Rows, one mapping each, as CSV tables: one table for each set of columns."""
    kinds = {}
    for row in rows:
        kinds.setdefault(tuple(row), []).append([format_cell(value) for value in row.values()])
    lines = []
    for columns, cells in kinds.items():
        lines += [".. csv-table::", "   :header-rows: 1", "   :class: benchmark", ""]
        for line in [columns, *cells]:
            lines.append("   " + ", ".join(quote(cell) for cell in line))
        lines.append("")
    return lines


def quote(cell):
    """One cell of a CSV table, with the characters that mean something in it made plain."""
    for character in "\\*`|_":
        cell = cell.replace(character, "\\" + character)
    return '"' + cell.replace('"', '""') + '"'


def drawn(path, folder):
    """The picture of a JSON file, drawn where it is missing or older than what it is made of."""
    picture = folder / f"{path.stem}.png"
    sources = [path, *(path.parent / "cache").glob(f"{path.stem}-*"), *studies.FOLDER.rglob("*.py")]
    newest = max(source.stat().st_mtime for source in sources)
    if not picture.exists() or picture.stat().st_mtime < newest:
        folder.mkdir(parents=True, exist_ok=True)
        studies.draw(path, picture)
    return picture


def study_lines(path, picture):
    """One study as lines of reStructuredText; `picture` is relative to the page."""
    study = json.loads(path.read_text(encoding="utf-8"))
    text = studies.description(path.stem).splitlines()
    lines = [path.stem, "~" * len(path.stem), "", *text, ""]
    lines += [".. code-block:: console", "", f"   $ {study['command']}", ""]
    lines += table_lines(study["rows"])
    lines += [f".. image:: {picture}", f"   :alt: Benchmark {path.stem}", ""]
    if study["gates"]:
        lines += ["The targets that the study is held against:", "", *table_lines(study["gates"])]
    return [*lines, *age_lines(study), *origin_lines(study)]


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


class BenchmarkResults(Directive):
    """Insert the committed results of some studies, in alphabetical order if none is named."""

    has_content = True

    def run(self):
        """Return the sections, or a note where there are no results."""
        environment = self.state.document.settings.env
        environment.note_reread()  # results come and go beside it
        page = Path(environment.doc2path(environment.docname)).parent
        pictures = Path(environment.doctreedir) / "benchmark_pictures"
        shown = environment.temp_data.setdefault("benchmark-results", set())
        known = sorted(p.stem for p in RESULTS.glob("*.json") if not p.stem.endswith("-quick"))
        if not known:
            first = not environment.temp_data.setdefault("benchmark-note", False)
            environment.temp_data["benchmark-note"] = True
            return self.parsed(NO_RESULTS) if first else []
        names = list(self.content) or [name for name in known if name not in shown]
        shown.update(names)
        lines = []
        for name in names:
            if name not in known:
                raise self.error(f"There is no result of a study {name!r}.")
            path = RESULTS / f"{name}.json"
            picture = os.path.relpath(drawn(path, pictures), page)
            lines += study_lines(path, Path(picture).as_posix())
        return self.parsed(lines)

    def parsed(self, lines):
        """Nodes of lines of reStructuredText, which may have titles."""
        container = nodes.section()
        container.document = self.state.document
        nested_parse_with_titles(
            self.state, StringList(lines, source="benchmark-results"), container
        )
        return container.children


def setup(app):
    """Register the directive."""
    app.add_directive("benchmark-results", BenchmarkResults)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
