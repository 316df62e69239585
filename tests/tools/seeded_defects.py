"""Does the suite notice a broken engine? Seed one defect at a time and expect a failure.

Run as ``python -m tests.tools.seeded_defects [part of a file's path]``. Each folder of tests lists
its own defects in ``defects.py``. The package and its tests are copied to a temporary folder, the
defect is written into the copy, and the tests that should notice are run there, the fast ones
first; where they do not, the whole default suite is. Those tests must pass in the copy as it is.
Exits with 1 if a defect goes unnoticed.
"""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Defect(NamedTuple):
    """One change of one file, and the test file that should notice it."""

    name: str
    file: str
    right: str
    wrong: str
    test: str


def all_defects():
    """Those of all folders."""
    folders = ["api", "base", "engine", "lda", "linear", "mixture", "plot", "sparse_gp"]
    parts = [importlib.import_module(f"tests.{folder}.defects").DEFECTS for folder in folders]
    return [defect for part in parts for defect in part]


def main(only=""):
    """Seed every defect in turn; returns the number that went unnoticed."""
    unnoticed, defects = 0, [one for one in all_defects() if only in one.file]
    if not defects:
        raise SystemExit(f"No seeded defect is in a file with {only!r} in its path.")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("skpmd", "tests", "pyproject.toml"):
            source = ROOT / name
            if source.is_dir():
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, copy / name, ignore=ignore)
            else:
                shutil.copy(source, copy / name)
        for test in sorted({defect.test for defect in defects}):
            if fails(copy, f"tests/{test}", "-m", ""):
                raise RuntimeError(f"{test} fails without any defect: mend that first")
        for defect in defects:
            noticed = seeded(copy, defect)
            unnoticed += not noticed
            print(f"{'noticed  ' if noticed else 'UNNOTICED'}  {defect.name}", flush=True)
    print(f"{len(defects) - unnoticed} of {len(defects)} seeded defects noticed")
    return unnoticed


def seeded(copy, defect):
    """Whether some test fails with the defect in place; the copy is mended afterwards."""
    path = copy / "skpmd" / defect.file
    text = path.read_text(encoding="utf-8")
    if text.count(defect.right) != 1:
        raise ValueError(
            f"{defect.name}: the line to break stands {text.count(defect.right)} times"
        )
    path.write_text(text.replace(defect.right, defect.wrong), encoding="utf-8")
    try:
        named = f"tests/{defect.test}"
        if fails(copy, named) or fails(copy, named, "-m", "slow"):
            return True
        print(f"{named} does not notice: {defect.name}; now the whole suite", flush=True)
        return fails(copy, "tests")
    finally:
        path.write_text(text, encoding="utf-8")


def fails(copy, *tests):
    """Whether pytest reports a failure (and not that it could not run)."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    code = subprocess.run(command, cwd=copy, env=environment, capture_output=True).returncode
    if code not in (0, 1, 5):  # 5: none of the file's tests is fast, or none is slow
        raise RuntimeError(f"pytest could not run {tests}: exit status {code}")
    return code == 1


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:2])))
