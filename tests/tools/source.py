"""The package as syntax trees, for tests of its layout and its manners."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Tests of an installed package have no sources beside them, and those of an sdist no documentation.
needs_source = pytest.mark.skipif(not (ROOT / "docs").exists(), reason="needs the repository")


class Module(NamedTuple):
    """One file of the package: its dotted name, whether it is an ``__init__``, and its tree."""

    name: str
    path: Path
    is_package: bool
    tree: ast.Module


def parse(text, name="skpmd.example", path=Path("skpmd/example.py")):
    """A module from its text, for checks of the tests themselves."""
    return Module(name, path, path.name == "__init__.py", ast.parse(text))


@cache
def modules():
    """All modules of skpmd, a dict by name."""
    found = {}
    for path in sorted((ROOT / "skpmd").rglob("*.py")):
        relative = path.relative_to(ROOT)
        parts = relative.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = parse(path.read_text(encoding="utf-8"), name, relative)
    return found
