"""The directive ``benchmark-results``: committed benchmark results as tables and pictures.

Each ``NAME.json`` of ``examples/benchmarks/results`` becomes a section with the docstring of the
study's module, the command that made it, its rows and targets as tables, and ``NAME.png``. The
directive's content names studies, one on a line; without any it shows what no directive before it
has shown. Nothing is measured here.
"""

import ast
import json
import os
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

RESULTS = Path(__file__).resolve().parents[2] / "examples" / "benchmarks" / "results"


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


def description(name):
    """Docstring of a study's module as lines: what is measured, and what its columns mean."""
    tree = ast.parse((RESULTS.parent / f"{name}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").splitlines()


def study_lines(path, folder):
    """One study as lines of reStructuredText; picture paths are relative to `folder`."""
    study = json.loads(path.read_text(encoding="utf-8"))
    used = [f"{name} {version}" for name, version in study["versions"].items() if version]
    lines = [path.stem, "~" * len(path.stem), "", *description(path.stem), ""]
    lines += [".. code-block:: console", "", f"   $ {study['command']}", ""]
    lines += table_lines(study["rows"])
    picture = path.with_suffix(".png")
    if picture.exists():
        shown = Path(os.path.relpath(picture, folder)).as_posix()
        lines += [f".. image:: {shown}", f"   :alt: Benchmark {path.stem}", ""]
    if study["gates"]:
        lines += ["The targets that the study is held against:", "", *table_lines(study["gates"])]
    return [*lines, f"Made with {', '.join(used)}.", ""]


class BenchmarkResults(Directive):
    """Insert the committed results of some studies, in alphabetical order if none is named."""

    has_content = True

    def run(self):
        """Return the sections, or one sentence if no result is there yet."""
        environment = self.state.document.settings.env
        environment.note_reread()  # results come and go beside it
        folder = Path(environment.doc2path(environment.docname)).parent
        shown = environment.temp_data.setdefault("benchmark-results", set())
        known = sorted(p.stem for p in RESULTS.glob("*.json") if not p.stem.endswith("-quick"))
        names = list(self.content) or [name for name in known if name not in shown]
        shown.update(names)
        lines = []
        for name in names:
            if name not in known:
                raise self.error(f"There is no result of a study {name!r}.")
            lines += study_lines(RESULTS / f"{name}.json", folder)
        if not lines:
            lines = ["No result is committed yet."]
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
