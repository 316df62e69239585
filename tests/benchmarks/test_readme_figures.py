"""Every figure of the README is that of a committed study, or says nothing measured."""

import re

import pytest

pytest.importorskip("examples.benchmarks.harness.study", reason="examples are not installed")
from examples.benchmarks.harness import study as studies  # noqa: E402
from tests.benchmarks import figures  # noqa: E402

NUMBER = re.compile(r"(?<![\w./-])\.?\d[\d,]*(?:\.\d+)?")


def readme():
    """The README in one line, without its code blocks, addresses and words in backticks."""
    path = studies.FOLDER.parents[1] / "README.md"
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return " ".join(text.split())


def sentences(study):
    rows = figures.rows_of(study.__name__)
    if rows is None:
        pytest.skip("results are not in a source distribution")
    return list(study(rows))


@pytest.mark.parametrize("study", figures.STUDIES, ids=lambda study: study.__name__)
def test_the_readme_says_what_a_study_has_found(study):
    text = readme()
    for sentence in sentences(study):
        assert sentence in text, sentence


def test_no_figure_of_the_readme_is_without_a_study():
    text = readme()
    said = [sentence for study in figures.STUDIES for sentence in sentences(study)]
    for part in sorted([*said, *figures.ALLOWED], key=len, reverse=True):
        text = text.replace(part, " … ")
    left = [text[max(0, m.start() - 60) : m.end() + 30] for m in NUMBER.finditer(text)]
    assert not left, "\n".join(left)
