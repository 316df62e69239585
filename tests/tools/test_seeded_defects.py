"""The suite notices each of the seeded defects (slow: it runs parts of the suite for each)."""

import pytest

from tests.tools import seeded_defects
from tests.tools.source import needs_source


@pytest.mark.slow
@needs_source
def test_every_seeded_defect_is_noticed():
    assert seeded_defects.main() == 0


@needs_source
def test_each_defect_quotes_one_place():
    for defect in seeded_defects.all_defects():
        text = (seeded_defects.ROOT / "skpmd" / defect.file).read_text(encoding="utf-8")
        assert text.count(defect.right) == 1, defect.name
