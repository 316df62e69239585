"""What a study is, and how its rows become a table, a JSON file and a picture.

A study is a module of one of the packages beside this one, with a docstring and three functions:

* ``run(config) -> rows``: the measurements, a list of flat dictionaries,
* ``gates(rows) -> list of Gate``: the targets they are held against,
* ``plot(rows) -> figure``: a picture of the rows as the JSON file has them (nan is None there).

A study whose picture shows more than its rows has ``shown(results)``, too: further keywords of
``plot``, read from the folder of results. A study and whatever it imports at the top of its module
import none of the other packages that it compares with, so that the documentation, which draws all
pictures from the committed results, needs none of them.

Adding a study is adding its file.
"""

import ast
import datetime
import functools
import importlib
import json
import math
from dataclasses import dataclass
from pathlib import Path

from . import provenance

FOLDER = Path(__file__).parents[1]
RESULTS = FOLDER / "results"
_PACKAGE = __package__.rpartition(".")[0]


@dataclass(frozen=True)
class Config:
    """Options of the command line: data folder (or None), quick variant, output folder.

    ``jobs`` is for the studies that have cases side by side.
    """

    data: Path | None
    quick: bool
    out: Path
    jobs: int = 1

    @property
    def cache(self):
        """Folder of what takes long and is not made again: references, runs of other methods."""
        return self.out / "cache"


@dataclass(frozen=True)
class Gate:
    """One target: a number and the bound it must respect."""

    name: str
    measured: float
    bound: float
    relation: str = "<="

    @property
    def met(self):
        """Whether the bound is respected (never by a nan)."""
        if self.relation == "<=":
            return bool(self.measured <= self.bound)
        return bool(self.measured >= self.bound)

    def __str__(self):
        """One line: what, target, measured, met."""
        verdict = "met" if self.met else "NOT MET"
        return (
            f"{self.name}: target {self.relation} {self.bound:g} / "
            f"measured {self.measured:.4g} / {verdict}"
        )


def discover():
    """Return {name: first line of the docstring} of every study, without importing any."""
    return {name: text.split("\n", 1)[0] for name, (_, text) in _studies().items()}


def description(name):
    """Return the docstring of a study, without importing it."""
    return _studies()[name][1]


@functools.cache
def _studies():
    """{name: (module, docstring)} of every study, by the syntax trees of all modules."""
    found = {}
    for path in sorted(FOLDER.glob("*/*.py"), key=lambda path: path.stem):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if {"run", "gates", "plot"} <= functions:
            module = f"{_PACKAGE}.{path.parent.name}.{path.stem}"
            found[path.stem] = module, ast.get_docstring(tree) or ""
    return found


def load(name):
    """Import a study."""
    return importlib.import_module(_studies()[name][0])


def pyplot():
    """Return matplotlib's pyplot with a backend that needs no display."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError('Pictures need matplotlib: pip install "skpmd[bench]"') from error
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def table(rows):
    """Format rows of several kinds as tables in columns, one for each set of columns."""
    kinds = {}
    for row in rows:
        kinds.setdefault(tuple(row), []).append([_cell(value) for value in row.values()])
    return "\n\n".join(_aligned(columns, cells) for columns, cells in kinds.items())


def _aligned(columns, cells):
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    lines = [columns, *cells]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _plain(value):
    """JSON has no nan: make it null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def command(name, config):
    """Return the command line of a study; it names no folder of this machine."""
    words = f"python -m examples.benchmarks {name}"
    words += " --quick" if config.quick else " --data DIR" if config.data else ""
    return words + (f" --jobs {config.jobs}" if config.jobs != Config.jobs else "")


def options(name, config):
    """Return the arguments of a study's command line, folders with their names."""
    words = [name, *["--quick"] * config.quick, *(["--data", config.data] if config.data else [])]
    return [*map(str, words), "--out", str(config.out), "--jobs", str(config.jobs)]


def origin(name):
    """Return what a study's figures depend on, as it is now: to be taken before the study runs."""
    return {
        "commit": provenance.commit(),
        "date": datetime.date.today().isoformat(),
        "machine": provenance.machine(),
        "versions": provenance.versions(),
        "code": provenance.code_digests(_studies()[name][0]),
    }


def changed_since(content):
    """Return the modules of skpmd that have changed since a study's results were made.

    None where there are no results, or they do not say which code they are of.
    """
    if content is None or "code" not in content:
        return None
    return provenance.changed(_studies()[content["study"]][0], content["code"])


def quoted():
    """Return {study: pages that quote it}, by the tests that write the sentences of these pages."""
    found = {}
    for path in sorted((FOLDER.parents[1] / "tests/benchmarks/figures").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
        said = {ast.unparse(node.targets[0]): node.value for node in assigned}
        for node in ast.walk(said["STUDIES"]) if "STUDIES" in said else ():
            if isinstance(node, ast.Name):
                found.setdefault(node.id, []).append(said["PAGE"].value)
    return found


def write(name, config, rows, gates, made):
    """Write ``NAME.json``; ``made`` is the study's `origin` and what the run took."""
    content = {
        "study": name,
        "command": command(name, config),
        **made,
        "rows": [{key: _plain(value) for key, value in row.items()} for row in rows],
        "gates": [
            {
                "name": gate.name,
                "target": f"{gate.relation} {gate.bound:g}",
                "measured": _plain(float(gate.measured)),
                "met": gate.met,
            }
            for gate in gates
        ],
    }
    path = place(name, config)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def place(name, config):
    """Path of a study's results."""
    return config.out / f"{stem(name, config)}.json"


def results(name, config):
    """Return a study's results as they were written, None where there are none."""
    path = place(name, config)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def stem(name, config):
    """Quick results never overwrite those of the full study."""
    return f"{name}-quick" if config.quick else name


def draw(results, picture):
    """Draw the picture of the JSON file ``results`` into the PNG file ``picture``."""
    content = json.loads(results.read_text(encoding="utf-8"))
    study, plt = load(content["study"]), pyplot()
    more = study.shown(results) if hasattr(study, "shown") else {}
    figure = study.plot(content["rows"], **more)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
