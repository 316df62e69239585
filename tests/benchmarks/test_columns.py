"""The pages of benchmarks say of every column what it means."""

import importlib.util
import json
import re

import pytest

studies = pytest.importorskip(
    "examples.benchmarks.harness.study", reason="examples are not installed"
)

PLACE = studies.FOLDER.parents[1] / "docs" / "_ext" / "benchmark_columns.py"
LENGTH, OF_SETTINGS = 90, 300  # A study may say the order of the numbers of its settings.


@pytest.fixture(scope="module")
def columns():
    if not PLACE.exists():
        pytest.skip("the documentation is in the repository only")
    spec = importlib.util.spec_from_file_location("benchmark_columns", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def committed():
    """Names of the studies with results; a source distribution comes without."""
    found = sorted(path.stem for path in studies.RESULTS.glob("*.json"))
    return [name for name in found if not name.endswith("-quick")]


def test_every_column_of_the_results_has_a_meaning(columns):
    if not committed():
        pytest.skip("the results of the benchmarks are in the repository only")
    missing = []
    for name in committed():
        rows = json.loads((studies.RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        said = set(re.findall(r"``([^`]+)``", studies.description(name)))
        said |= {*columns.COLUMNS, *columns.IN_STUDY.get(name, {})}
        missing += [(name, column) for column in dict.fromkeys(k for row in rows for k in row)
                    if column not in said]  # fmt: skip
    assert not missing


def test_meanings_are_short_and_without_a_full_stop(columns):
    for name, meanings in {"": columns.COLUMNS, **columns.IN_STUDY}.items():
        assert list(meanings) == sorted(meanings, key=str.lower), name
        for column, text in meanings.items():
            most = OF_SETTINGS if name and column == "setting" else LENGTH
            assert text.strip() == text and 0 < len(text) <= most, (name, column)
            assert not text.endswith("."), (name, column)
