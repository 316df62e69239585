"""The suite notices each of the seeded defects (slow: it runs parts of the suite for each)."""

import pytest

from tests.tools import seeded_defects


@pytest.mark.slow
@pytest.mark.skipif(not (seeded_defects.ROOT / "skpmd").exists(), reason="needs the source tree")
def test_every_seeded_defect_is_noticed():
    assert seeded_defects.main() == 0
