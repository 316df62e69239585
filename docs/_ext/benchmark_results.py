"""Directives for committed benchmark results, and a page of its own for each study.

``benchmark-summary`` is a table of all studies. ``benchmark-results`` shows the studies that it
names, one on a line, shortly: the first paragraph of a study's docstring, its picture, which is
drawn from the JSON into the folder of doctrees, its targets and verdicts. ``benchmark-study`` shows
all of one on the pages that are written before each build, as many as its rows need. Nothing is
measured here, and no package that skpmd is compared with is imported.

A source distribution comes without results. There the directives leave a note in place of them.
"""

import os
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

sys.path.append(str(Path(__file__).resolve().parents[2]))

import benchmark_tables as tables  # noqa: E402

from examples.benchmarks.harness import study as studies  # noqa: E402

PAGES = "benchmarks"  # folder of the pages of single studies
NO_SIDEBAR = ":html_theme.sidebar_secondary.remove:"  # tables have its room
NO_RESULTS = [
    ".. note::",
    "",
    "   The results of the benchmarks are in the repository, not in the source distribution that",
    "   this page was built from.",
]


def drawn(name, folder):
    """The picture of a study, drawn where it is missing or older than what it is made of."""
    path, picture = studies.RESULTS / f"{name}.json", folder / f"{name}.png"
    sources = [path, *(path.parent / "cache").glob(f"{name}-*"), *studies.FOLDER.rglob("*.py")]
    newest = max(source.stat().st_mtime for source in sources)
    if not picture.exists() or picture.stat().st_mtime < newest:
        folder.mkdir(parents=True, exist_ok=True)
        studies.draw(path, picture)
    return picture


class Results(Directive):
    """What the directives share."""

    has_content = True

    def run(self):
        """Return the sections, or a note where there are no results."""
        environment = self.state.document.settings.env
        environment.note_reread()  # results come and go beside it
        if tables.known():
            return self.parsed(self.lines(environment))
        first = not environment.temp_data.setdefault("benchmark-note", False)
        environment.temp_data["benchmark-note"] = True
        return self.parsed(NO_RESULTS) if first else []

    def picture(self, name, environment):
        """Places of a study's picture: beside the page's source, and as the site has it."""
        page = Path(environment.doc2path(environment.docname)).parent
        pictures = Path(environment.doctreedir) / "benchmark_pictures"
        place = Path(os.path.relpath(drawn(name, pictures), page)).as_posix()
        return place, "../" * environment.docname.count("/") + f"_images/{name}.png"

    def parsed(self, lines):
        """Nodes of lines of reStructuredText, which may have titles."""
        container = nodes.section()
        container.document = self.state.document
        nested_parse_with_titles(
            self.state, StringList(lines, source="benchmark-results"), container
        )
        return container.children


class Short(Results):
    """Studies, each with its picture, targets and verdicts."""

    def lines(self, environment):
        """Of all that are named."""
        lines = []
        for name in self.content:
            if name not in tables.known():
                raise self.error(f"There is no result of a study {name!r}.")
            lines += tables.short_lines(name, *self.picture(name, environment))
        return lines


class Whole(Results):
    """A page of a study."""

    required_arguments = 1
    option_spec = {"part": directives.nonnegative_int}

    def lines(self, environment):
        """Of one page."""
        (name,) = self.arguments
        picture = self.picture(name, environment)
        return tables.whole_lines(name, self.options.get("part", 0), *picture)


class Summary(Results):
    """One table of all studies, and the list of their pages for the site's navigation."""

    def lines(self, environment):
        """Of all that have results."""
        names = tables.known()
        lines = [*tables.summary_lines(names), ".. toctree::", "   :hidden:", ""]
        for name in names:
            count = len(tables.pages(tables.load(name)["rows"]))
            lines += [f"   {PAGES}/{tables.page_name(name, part)}" for part in range(count)]
        return [*lines, ""]


def write_pages(app):
    """Write the pages of single studies, and remove those of others."""
    folder = Path(app.srcdir) / PAGES
    folder.mkdir(exist_ok=True)
    wanted = {}
    for name in tables.known():
        count = len(tables.pages(tables.load(name)["rows"]))
        for part in range(count):
            heading = name if count == 1 else f"{name}, page {part + 1} of {count}"
            lines = [NO_SIDEBAR, "", *tables.title(heading, "="), f".. benchmark-study:: {name}"]
            wanted[f"{tables.page_name(name, part)}.rst"] = [*lines, f"   :part: {part}", ""]
    for path in folder.glob("*.rst"):
        if path.name not in wanted:
            path.unlink()
    for file, lines in wanted.items():
        path, text = folder / file, "\n".join(lines)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app):
    """Register the directives, and the pages before each build."""
    app.add_directive("benchmark-results", Short)
    app.add_directive("benchmark-study", Whole)
    app.add_directive("benchmark-summary", Summary)
    app.connect("builder-inited", write_pages)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}
