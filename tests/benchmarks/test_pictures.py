"""Pictures are drawn from the committed results alone, where no other package is installed."""

import subprocess
import sys

import pytest

studies = pytest.importorskip(
    "examples.benchmarks.harness.study", reason="examples are not installed"
)

DRAW = """
import importlib.abc
import sys
from pathlib import Path

PEERS = "blackjax gensim gpytorch jax jaxlib numpyro particles tomotopy torch".split()

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in PEERS:
            raise ImportError(f"{name} is not needed for a picture")

sys.meta_path.insert(0, Missing())
from examples.benchmarks.harness import study

folder, names = Path(sys.argv[1]), sys.argv[2:]
for name in study.discover():
    study.load(name)
for name in names:
    study.draw(study.RESULTS / f"{name}.json", folder / f"{name}.png")
"""


def committed():
    """Names of the studies with results; a source distribution comes without."""
    found = sorted(path.stem for path in studies.RESULTS.glob("*.json"))
    return [name for name in found if not name.endswith("-quick")]


def draw(folder, names):
    if not committed():
        pytest.skip("the results of the benchmarks are in the repository only")
    pytest.importorskip("matplotlib", reason="pictures need the extra plot")
    command = [sys.executable, "-c", DRAW, folder, *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=studies.FOLDER.parents[1])
    assert done.returncode == 0, done.stderr
    assert all((folder / f"{name}.png").stat().st_size > 1000 for name in names)


@pytest.mark.slow
def test_studies_import_no_peer_and_a_picture_needs_none(tmp_path):
    draw(tmp_path, ["gp_small"])


@pytest.mark.slow  # the documentation draws them, too
def test_all_pictures(tmp_path):
    draw(tmp_path, committed())


def test_every_result_is_of_a_study_and_every_study_has_one():
    if not committed():
        pytest.skip("the results of the benchmarks are in the repository only")
    assert committed() == sorted(studies.discover())
