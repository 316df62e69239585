"""What names the version: the changelog, the citation and the recipe say the same."""

import re

import pytest

import skpmd
from tests.tools.source import ROOT

SAYS = {
    "CHANGELOG.md": r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$",
    "CITATION.cff": r"^version: (\S+)$",
    ".ci/conda/recipe.yaml": r'^  version: "([^"]+)"$',
}


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="needs the repository")
@pytest.mark.parametrize("name", SAYS)
def test_the_version_is_one(name):
    """A version in development is named by the release that it comes after."""
    found = re.search(SAYS[name], (ROOT / name).read_text(encoding="utf-8"), flags=re.M)
    assert found is not None and found.group(1) == re.sub(r"\.dev\d+$", "", skpmd.__version__)
