"""The fast suite under the oldest or the newest dependencies that pyproject.toml allows.

Run as ``python -m tests.tools.versions {oldest,newest} [arguments of pytest]``. An environment is
made in a temporary folder: with ``oldest`` each core dependency has exactly the version that
pyproject.toml names as its minimum, with ``newest`` what pip finds. Exits as pytest does.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(which, *arguments):
    """Make the environment, run the suite there, return its exit status."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core, tools = project["dependencies"], wanted(project["optional-dependencies"], "test")
    if which == "oldest":
        core = [re.sub(r">=([\d.]+)$", r"==\1.0", one) for one in core]
        # It needs a newer scikit-learn, and its tests are skipped where it is not installed.
        tools = [one for one in tools if not one.startswith("dask-ml")]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", *core, *tools], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", ROOT], check=True)
        subprocess.run([python, "-c", "import skpmd; skpmd.show_versions()"], check=True)
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder) / "compiled")}
        command = [python, "-m", "pytest", "-q", *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def wanted(extras, name):
    """Requirements of an extra, with those of other extras of the project that it names."""
    for one in extras[name]:
        others = re.fullmatch(r"skpmd\[(.*)\]", one)
        if others is None:
            yield one
        else:
            for other in others[1].split(","):
                yield from wanted(extras, other.strip())


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("oldest", "newest"):
        raise SystemExit(__doc__)
    raise SystemExit(main(*sys.argv[1:]))
