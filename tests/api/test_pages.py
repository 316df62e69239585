"""Code on the pages of the documentation fits the column that it is shown in."""

import re
from pathlib import Path

import pytest

from tests.tools.source import ROOT, needs_source

WIDTH = 76  # Letters in a block of code of the guides, in a window of 1280 pixels.
GENERATED = ("auto_examples",), ("benchmarks",), ("generated",), ("_build",)


def pages():
    """The README, pages that people write, and examples of the gallery, relative to the root."""
    examples = (ROOT / "examples").rglob("plot_*.py")
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.rst"), *examples]
    found = [path.relative_to(ROOT) for path in sorted(found)]
    return [path.as_posix() for path in found if path.parts[1:2] not in GENERATED]


def code_of(path):
    """Lines of code on a page, without the indentation that their block has in common."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [line for one in re.findall(r"```.+\n([^`]*)```", text) for line in one.split("\n")]
    if path.suffix == ".py":
        return _of_example(text)
    included = re.findall(r"literalinclude:: (\S+\.py)", text)
    found = [(path.parent / one).read_text(encoding="utf-8").split("\n") for one in included]
    return [line for block in [*_blocks(text.split("\n")), *found] for line in block]


def _of_example(text):
    """All but its docstring and the comments that begin with a cell, which are the page's words."""
    text = re.sub(r'\A""".*?"""\n', "", text, flags=re.S)
    return re.sub(r"^# %%.*\n(#.*\n)*", "", text, flags=re.M).split("\n")


def _blocks(lines):
    """Blocks of a page, each a list of lines: doctests, and what is indented below two colons."""
    at = 0
    while at < len(lines):
        line, indent = lines[at], _indent(lines[at])
        end = at + 1
        if line.lstrip().startswith(">>> "):
            while end < len(lines) and lines[end].strip():
                end += 1
            yield [one[indent:] for one in lines[at:end]]
        elif re.match(r"\s*\.\. code-block::|(?!\s*\.\.).*::$", line):
            while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
                end += 1
            inner = [one for one in lines[at + 1 : end] if one.strip()]
            yield [one[min(map(_indent, inner)) :] for one in inner]
        at = end


def _indent(line):
    return len(line) - len(line.lstrip())


@needs_source
@pytest.mark.parametrize("page", pages())
def test_code_fits_its_column(page):
    wide = [line for line in code_of(ROOT / page) if len(line) > WIDTH]
    assert not wide


def test_code_is_found(tmp_path):
    page = Path(tmp_path, "page.rst")
    page.write_text("Words::\n\n    a\n      b\n\nMore\n\n>>> c\nd\n\n.. note::\n\n   >>> e\n")
    assert code_of(page) == ["a", "  b", ">>> c", "d", ">>> e"]
    example = Path(tmp_path, "plot_it.py")
    example.write_text('"""Title.\n"""\n\nimport a\n\n# %%\n# Words.\n\nb = 1\n# A comment.\n')
    assert [line for line in code_of(example) if line] == ["import a", "b = 1", "# A comment."]
