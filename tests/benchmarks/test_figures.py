"""Every figure of the README and of the guides is a committed study's, or measures nothing."""

import importlib
import pkgutil
import re

import pytest

pytest.importorskip("examples.benchmarks.harness.study", reason="examples are not installed")
from examples.benchmarks.harness import study as studies  # noqa: E402
from tests.benchmarks import figures  # noqa: E402
from tests.benchmarks.figures._rows import rows_of  # noqa: E402

ROOT = studies.FOLDER.parents[1]
PAGES = {
    module.PAGE: module
    for _, name, _ in pkgutil.iter_modules(figures.__path__)
    if not name.startswith("_")
    for module in [importlib.import_module(f"{figures.__name__}.{name}")]
}
CASES = [(page, study) for page, module in PAGES.items() for study in module.STUDIES]
# Of the README every number counts; of a guide, which has settings and examples, what is written
# like a measurement: with a point, or before a unit.
NUMBER = re.compile(r"(?<![\w./-])\.?\d[\d,]*(?:\.\d+)?")
MEASURED = re.compile(
    r"(?<![\w./])(?:\d[\d,]*)?\.\d+"
    r"|(?<![\w.])\d[\d,]*(?= (?:%|times|s|ms|[MG]B|CPU|seconds?|minutes?|hours?)\b|\s%)|× \d+"
)
MOST_WORDS = 700  # Of the README, code included: two screens.
GENERATED = ("auto_examples", "benchmarks", "generated")


def guides():
    """Pages that people write."""
    found = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.rst")]
    return [
        path.as_posix()
        for path in sorted(found)
        if path.parts[1] not in GENERATED and path.name != "sg_execution_times.rst"
    ]


def prose(page):
    """A page in one line, without code, formulas set apart, addresses and references."""
    path = ROOT / page
    if not path.exists():
        pytest.skip("a source distribution comes without this page")
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return " ".join("\n".join(_without_blocks(text.splitlines())).split())


def _without_blocks(lines):
    """Lines but for examples and the blocks of directives that are no prose."""
    margin, printed = None, False
    for line in lines:
        start = line.lstrip()
        indent = len(line) - len(start)
        printed = bool(start) and (printed or start.startswith(">>>"))
        if margin is not None and (not start or indent > margin):
            continue
        margin = None
        if re.match(r"\.\. (code-block|math|testcode|doctest|image|figure|_|\[)", start):
            margin = indent
        elif not printed:
            yield line


@pytest.mark.parametrize(
    ("page", "study"), CASES, ids=[f"{page}-{study.__name__}" for page, study in CASES]
)
def test_a_page_says_what_a_study_has_found(page, study):
    text = prose(page)
    for sentence in sentences(study):
        assert sentence in text, sentence


def sentences(study):
    rows = rows_of(study.__name__)
    if rows is None:
        pytest.skip("results are not in a source distribution")
    return [" ".join(sentence.split()) for sentence in study(rows)]


@pytest.mark.parametrize("page", ["README.md", *guides()])
def test_no_figure_is_without_a_study(page):
    text, module = prose(page), PAGES.get(page)
    said, pattern = [], NUMBER if page == "README.md" else MEASURED
    if module is not None:
        said = [sentence for study in module.STUDIES for sentence in sentences(study)]
        said += module.ALLOWED
        unused = [part for part in module.ALLOWED if part not in text]
        assert not unused, unused
    for part in sorted(said, key=len, reverse=True):
        text = text.replace(part, " … ")
    if page != "README.md":
        text = re.sub(r"``[^`]*``", "", text)  # what a reader types is no measurement
    left = [text[max(0, m.start() - 60) : m.end() + 30] for m in pattern.finditer(text)]
    assert not left, "\n".join(left)


def test_the_readme_is_read_in_two_minutes():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS
