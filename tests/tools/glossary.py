"""Does skpmd speak the field's language? Names and prose against the words that were given up.

Run as ``python -m tests.tools.glossary [part of a file's path]``: counts by package, and each place
if a path is given. Exits with 1 if there is any.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from typing import NamedTuple

from tests.tools.source import ROOT, modules

# The words of the project's first year, as parts of names, each with the field's term for it.
NAMES = {
    "cloud clouds": "particles",
    "redraw redraws redrawn redrew redrawing": "rejuvenation",
    "polish polished polishing": "importance reweighting, full-batch iterations",
    "reference references": "importance proposal, component",
    "lean leans leaning": "sinh-arcsinh proposal",
    "wide_component": "defensive component",
    "guard guards guarded": "ESS-controlled step, substep",
    "temper tempers": "adaptive tempered SMC",
    "sequel sequels track tracks follow followed": "assumed-density filtering",
    "surrogate": "cubic regression surrogate",
    "loss losses lost": "rejuvenation error",
    "watch watched": "monitored functionals",
    "closed_form": "conjugate block",
    "shared_out share_out": "responsibilities",
    "expect": "e_step",
    "sweep sweeps": "local-update settings, iterations",
    "certificate certificates doubt doubts": "diagnostics, convergence warnings",
    "route routes": "inference method",
    "problem problems": "prior hyperparameters",
    "units": "scaler",
    "kept fresh": "reservoir sample, discount",
    "aligned": "relabelling",
    "shuffled enter": "permute labels, ordering constraint",
    "begin begins take_in takes_in taken_in absorb absorbs": "initialise, update",
    "settled settle": "frozen parameters",
    "unharmed forget forgets": "rollback on error, reset",
    "stretches": "stratified sampling",
    "halves": "document completion split",
    "learnt told asked": "fitted, evaluated",
    "elsewhere": "distributed",
    "handed": "adopted, returned",
    "held": "stored, sent",
    "once": "unweighted, one_pass, single",
    "opened": "as_table",
    "scout scouts": "pilot draws",
    "course": "schedule, step",
}
CONSTANTS = re.compile(r"_?(LEAST|MOST)(_|$)")  # min, max
RECORDS = {"Found": "fit result"}  # a class; as a variable the word is everybody's
# The field's own phrases with one of the words.
PHRASES = ("cubic_surrogate", "log_loss", "pinball_loss", "expected_loss", "gibbs_sweep",
           "held_out", "at_once")  # fmt: skip
# Words that have their usual sense in a file or folder, and why.
ELSEWHERE = {
    "skpmd/mixture/_partition.py": ("loss losses", "losses of decision theory"),
    "skpmd/decision.py": ("loss", "a parameter, a loss of decision theory"),
    "skpmd/mixture/_predict.py": ("loss", "a parameter, such a loss"),
    "skpmd/lda": ("sweep sweeps halves kept", "of Gibbs chains, and their draws that are kept"),
    **dict.fromkeys(
        ("skpmd/linear", "skpmd/sparse_gp/_findings.py", "skpmd/sparse_gp/_starts.py"),
        ("units", "what coefficients and length scales are per: units of columns"),
    ),
    **dict.fromkeys(
        (
            "skpmd/_runtime",
            "skpmd/engine",
            "skpmd/proposals",
            "skpmd/_base",
            "skpmd/_rows",
            "skpmd/metrics.py",
        ),
        ("kept fresh", "a mask of rows, new particles: there is no reservoir"),
    ),
}
PROSE = (
    "cloud clouds redraw redraws redrawn redrew redrawing polish polished polishing sequel sequels "
    "watched doubts lean leans leaning settled told unharmed"
).split()
_WORD = re.compile(r"[A-Za-z]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Place(NamedTuple):
    """Where a word stands, and what to say in its place."""

    path: str
    line: int
    text: str
    instead: str


def parts(name):
    """The words of a name, in lower case."""
    return [part.lower() for part in _PART.findall(name)]


def instead_of(name, path="skpmd/example.py"):
    """The field's term for a name that has one of the words, empty for any other."""
    if name.startswith("__") and name.endswith("__"):
        return ""
    if CONSTANTS.match(name):
        return "min, max"
    if known := [term for record, term in RECORDS.items() if record in _PART.findall(name)]:
        return known[0]
    words = "_".join(parts(name))
    for phrase in PHRASES:
        words = words.replace(phrase, "")
    allowed = " ".join(usual for at, (usual, _) in ELSEWHERE.items() if path.startswith(at)).split()
    for given_up, term in NAMES.items():
        for one in given_up.split():
            if one not in allowed and _within(one.split("_"), words.split("_")):
                return term
    return ""


def _within(some, words):
    return any(words[i : i + len(some)] == some for i in range(len(words) - len(some) + 1))


def names(tree):
    """Names that a module gives to things, and keys of its dicts: pairs of a name and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, 0
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg, node.value.lineno
        elif isinstance(node, ast.Dict | ast.Subscript):
            keys = node.keys if isinstance(node, ast.Dict) else [node.slice]
            for key in keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, key.lineno


def prose(text):
    """Comments and strings of a Python file: pairs of a text and its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for i, line in enumerate(token.string.splitlines()):
                yield line, token.start[0] + i
        elif token.type == getattr(tokenize, "FSTRING_MIDDLE", None):
            yield token.string, token.start[0]


def words_given_up(line):
    """Those of `PROSE` in a line of text."""
    return [word for word in _WORD.findall(line) if word.lower() in PROSE]


def places():
    """All places in skpmd, README and documentation, a list."""
    found = []
    for name, module in modules().items():
        file = name.rpartition(".")[2]
        own = [(file, 1), *names(module.tree)]
        for one, line in own:
            if term := instead_of(one, str(module.path)):
                found.append(Place(str(module.path), line, one, term))
        text = (ROOT / module.path).read_text(encoding="utf-8")
        found += _in_prose(str(module.path), prose(text))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.rst"))]:
        relative = str(path.relative_to(ROOT))
        if "_build" not in relative and "generated" not in relative:
            lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
            found += _in_prose(relative, ((line, i) for i, line in lines))
    return found


def _in_prose(path, lines):
    return [Place(path, i, line.strip(), "") for line, i in lines if words_given_up(line)]


def homonyms(known):
    """Functions and classes of the rooms that all use, by name, that other modules define too."""
    where = defaultdict(list)
    for name, module in known.items():
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(name)
    return {
        name: found
        for name, found in where.items()
        if len(found) > 1 and any(_is_shared(one) for one in found)
    }


def _is_shared(module):
    _, room, *inside = module.split(".")
    return room in ("_base", "_rows", "_runtime") or not inside


def main(only=None):
    """Print what stands where; returns the number of places."""
    found = [place for place in places() if not only or only in place.path]
    for place in found if only else ():
        print(f"{place.path}:{place.line}: {place.text}{place.instead and ' -> '}{place.instead}")
    counts = Counter()
    for place in found:
        folder = "/".join(place.path.split("/")[:2])
        counts[folder, "names" if place.instead else "prose"] += 1
    for (folder, kind), n in sorted(counts.items()):
        print(f"{folder:28s} {kind:6s} {n:5d}")
    print(f"{len(found)} places")
    return len(found)


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:2])))
