"""Where a result comes from: commit, machine, versions, and the code that was measured.

The code that a study measures is known by digests, one for each module of skpmd that the study
reaches by its imports. They leave out comments, docstrings and texts that docstrings are filled
with, which change no figure. So a page can say of a study that is older than the code it measures
which modules have changed since.
"""

import ast
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "jax",
    "numpyro",
    "blackjax",
    "particles",
    "emcee",
    "torch",
    "gpytorch",
    "gensim",
    "tomotopy",
    "gpboost",
    "nutpie",
    "dynesty",
    "zuko",
    "arviz-stats",
    "statsmodels",
    "glum",
    "bambi",
    "pymc",
)
# What every study reaches by `import skpmd` alone: names that make up the package, no algorithm.
_FACADE = "skpmd"
_RELEASE = "skpmd._base.version"  # It changes with each release, and no figure with it.
_TEXTS = ("TEXTS", "_TEXTS")  # Names of what docstrings are filled with.


def versions():
    """Return the versions of Python, skpmd and the packages that the studies use."""
    import skpmd

    found = {"python": platform.python_version(), "skpmd": skpmd.__version__}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def machine():
    """Return what figures of time depend on: processor, cores that may be used, memory, system."""
    return {
        "processor": _processor(),
        "cores": _cores(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _memory_gb():
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def commit():
    """Return the commit that the working tree is at, with "+" where the code differs from it.

    None where there is no repository.
    """
    try:
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", "skpmd", "examples/benchmarks/*.py")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + "+" * bool(changed)


def _git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def code_digests(module):
    """Return the digest of each module of skpmd that a study's module reaches by its imports."""
    return {
        name: _digest(name)
        for name in sorted(_reached(module))
        if name.startswith("skpmd.") and name != _RELEASE
    }


def changed(module, digests):
    """Return the modules of skpmd whose code is not what it was when a study was run."""
    now = code_digests(module)
    return sorted(
        name
        for name in (now.keys() | digests.keys()) - {_RELEASE}
        if now.get(name) != digests.get(name)
    )


@functools.cache
def _digest(name):
    text = ast.dump(_without_docstrings(_tree(name)))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _without_docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [one for one in node.body if not _is_text(one)] or [ast.Pass()]
    return tree


def _is_text(node):
    if isinstance(node, ast.Assign):
        return getattr(node.targets[0], "id", None) in _TEXTS
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def _reached(module):
    """Dotted names of all modules of studies and of skpmd that a module imports, at any depth."""
    found, left = set(), [module]
    while left:
        name = left.pop()
        if name in found or _path(name) is None:
            continue
        found.add(name)
        # The front door imports everything; what is taken through it is followed by name.
        left += [] if name == _FACADE else _imported(name)
    return found


@functools.cache
def _imported(name):
    """Dotted names that a module imports from the studies and from skpmd, front doors followed."""
    is_package = _path(name).name == "__init__.py"
    found = []
    for node in ast.walk(_that_runs(_tree(name))):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == _FACADE:
            found.append(_home(_FACADE, node.attr))
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(node, name, is_package)
            for one in node.names:
                found.append(_home(origin, one.name))
    return tuple(one for one in found if one.split(".")[0] in ("skpmd", "examples"))


def _that_runs(tree):
    """A tree without its blocks for type checkers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return tree


def _origin(node, name, is_package):
    if not node.level:
        return node.module
    parts = name.split(".") if is_package else name.split(".")[:-1]
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def _home(origin, name):
    """The module that a name is of: a module itself, or what skpmd's front door takes it from.

    The door is lazy: it has its imports in a block for type checkers.
    """
    if _path(f"{origin}.{name}") is not None:
        return f"{origin}.{name}"
    if origin == _FACADE:
        for node in ast.walk(_tree(_FACADE)):
            if isinstance(node, ast.ImportFrom) and name in [one.name for one in node.names]:
                return node.module
    return origin


@functools.cache
def _path(name):
    """The file of a module of this repository, None where it is none."""
    if name is None or name.split(".")[0] not in ("skpmd", "examples"):
        return None
    place = ROOT.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def _tree(name):
    return ast.parse(_path(name).read_text(encoding="utf-8"))
