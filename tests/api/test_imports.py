"""Who may import whom: the layout's one rule, read from the syntax trees."""

import ast
import inspect
import pkgutil
import sys
from graphlib import CycleError, TopologicalSorter

import pytest

import skpmd
from tests.tools.source import ROOT, modules, needs_source, parse

pytestmark = needs_source

SHARED = {"_base", "posterior", "predictive", "metrics"}
SHARED |= {
    "_contrasts",
    "_export",
    "decision",
    "effects",
    "model_comparison",
    "streams",
    "wrappers",
}
SHARED |= {"_coherence", "_merge", "_typing", "data"}
# These may import everything.
TOP = {"skpmd", "skpro", "persistence", "_from_jax", "_show_versions"}
# All other packages are families, and so is ``plot``: pictures know estimators by their methods,
# and nothing imports pictures.
# What importing any module may import beside Python's own library and skpmd.
CORE = {"joblib", "llvmlite", "numba", "numpy", "scipy", "sklearn", "threadpoolctl"}
# The files of families that hold models and numerical methods; `_model*` and `_kernels*` besides.
NUMERICAL = {
    "linear": "_bernoulli _multinomial _design _priors _horseshoe _mean_field",
    "sparse_gp": "_student _logit",
    "mixture": "_conjugate _components _weights _component_priors _likelihood _particles",
    "lda": "_topics _inference _prior_scale",
}


def layer(name):
    """The room of a module: a package below the families, shared, top, or the name of a family."""
    part = name.split(".")[1] if "." in name else name
    return "shared" if part in SHARED else "top" if part in TOP else part


def imports(module, known, inside_functions=True):
    """Dotted names of all that a module imports: modules of skpmd, and others as they stand."""
    found = set()
    for node in _nodes(module.tree, inside_functions):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(node, module)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in known else base)
    return found


def _nodes(tree, inside_functions):
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue  # A running program imports nothing of this.
        yield child
        if inside_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _nodes(child, inside_functions)


def _base_of(node, module):
    """What stands between ``from`` and ``import``, as an absolute name."""
    if not node.level:
        return node.module
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def is_of_skpmd(name):
    return name.split(".")[0] == "skpmd"


def may_import(importer, imported):
    """The rule, for the names of two modules of skpmd."""
    of, to = layer(importer), layer(imported)
    below = {"_runtime", "engine", "proposals", "_rows", "shared"}
    allowed = {
        "_runtime": {"_runtime"},
        "engine": {"_runtime", "engine"},
        "proposals": {"_runtime", "engine", "proposals"},
        "_rows": {"_runtime", "engine", "_rows"},
        "shared": below,
    }
    return of == "top" or to in allowed.get(of, {*below, of})


def violations(module, known):
    """What a module imports against the rule."""
    found = {
        name
        for name in imports(module, known)
        if is_of_skpmd(name) and not may_import(module.name, name)
    }
    if not may_import_scikit_learn(module.name):
        found |= {name for name in imports(module, known) if name.split(".")[0] == "sklearn"}
    return found


def may_import_scikit_learn(name):
    family, file = layer(name), name.rpartition(".")[2]
    numerical = file.startswith(("_model", "_kernels")) or file in NUMERICAL.get(family, "").split()
    if family in ("_runtime", "engine", "proposals", "_rows"):
        return name == "skpmd._rows.table"  # It checks arrays, as scikit-learn does.
    return not numerical


def graph(known):
    """Each module with those of skpmd that it imports when it is itself imported."""
    return {
        name: {to for to in imports(module, known, inside_functions=False) if is_of_skpmd(to)}
        for name, module in known.items()
    }


def test_each_module_imports_what_it_may():
    found = {name: violations(module, modules()) for name, module in modules().items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}


def test_other_libraries_are_imported_where_they_are_used():
    allowed = CORE | {"skpmd"} | set(sys.stdlib_module_names)
    for name, module in modules().items():
        found = {one.split(".")[0] for one in imports(module, modules(), inside_functions=False)}
        # Its classes are subclasses of those.
        own = {"pandas", "skpro"} if name == "skpmd.skpro" else set()
        assert not found - allowed - own, name


def test_there_are_no_circles():
    list(TopologicalSorter(graph(modules())).static_order())


def test_numerical_files_exist():
    for family, files in NUMERICAL.items():
        for file in files.split():
            assert (ROOT / "skpmd" / family / f"{file}.py").exists(), f"{family}/{file}.py"


@pytest.mark.parametrize(
    "name, text, found",
    [
        ("skpmd.engine.loop", "from skpmd._base import steps", {"skpmd._base.steps"}),
        ("skpmd.engine.loop", "import numpy, sklearn.utils", {"sklearn.utils"}),
        ("skpmd.engine.loop", "from skpmd.proposals import hmc", {"skpmd.proposals.hmc"}),
        ("skpmd.proposals.hmc", "from skpmd.engine import loop", set()),
        ("skpmd.proposals.hmc", "from skpmd._rows.rows import Rows", {"skpmd._rows.rows"}),
        ("skpmd._base.utils", "from skpmd.proposals import hmc", set()),
        ("skpmd.engine.loop", "def f():\n    from sklearn import base", {"sklearn"}),
        ("skpmd._base.utils", "from skpmd.lda._model import x", {"skpmd.lda._model"}),
        ("skpmd._rows.rows", "from skpmd._base import steps", {"skpmd._base.steps"}),
        ("skpmd._rows.blocks", "from sklearn.utils import check_array", {"sklearn.utils"}),
        ("skpmd._rows.table", "from sklearn.utils import check_array", set()),
        ("skpmd.posterior", "from skpmd import predictive\nfrom . import metrics", set()),
        ("skpmd.lda._fit", "from skpmd.mixture import _kernels", {"skpmd.mixture._kernels"}),
        ("skpmd.lda._fit", "from . import _kernels\nfrom sklearn import base", set()),
        ("skpmd.lda._kernels", "from sklearn.utils import check_array", {"sklearn.utils"}),
        ("skpmd.custom", "from skpmd.linear import _design", {"skpmd.linear._design"}),
        ("skpmd.skpro", "from skpmd.sparse_gp import SparseGPRegressorPMD", set()),
        ("skpmd.negative_binomial._model", "from skpmd import lda", {"skpmd.lda"}),
        ("skpmd.plot._topics", "from skpmd.predictive import x\nfrom skpmd import metrics", set()),
        ("skpmd.predictive", "from skpmd.plot import x", {"skpmd.plot"}),
        ("skpmd.lda._predict", "def f():\n    from skpmd.plot import x", {"skpmd.plot"}),
    ],
)
def test_the_rule_itself(name, text, found):
    known = dict.fromkeys(
        "skpmd._base.steps skpmd._base.utils skpmd._rows.rows skpmd.proposals.hmc "
        "skpmd.engine.loop skpmd.predictive skpmd.metrics skpmd.custom skpmd.lda "
        "skpmd.lda._kernels skpmd.mixture._kernels skpmd.linear._design skpmd.plot".split()
    )
    assert {one for one in violations(parse(text, name), known)} == found


# ------------------------------------------------------------------- names of the package itself
PRIVATE = {"proposals"}  # Though its name has no underscore.


def test_the_package_shows_its_public_names_alone():
    modules = {one.name for one in pkgutil.iter_modules(skpmd.__path__) if one.name[0] != "_"}
    assert set(dir(skpmd)) == {*skpmd.__all__, *(modules - PRIVATE)}


def test_type_checkers_know_the_public_names():
    given = [one for one in ast.walk(modules()["skpmd"].tree) if isinstance(one, ast.ImportFrom)]
    names = {alias.asname: one.module for one in given for alias in one.names if alias.asname}
    homes = {name: f"skpmd.{home}" for name, home in skpmd._HOMES.items()}
    assert names == homes | {"__version__": "skpmd._base.version"}


def test_a_module_that_lacks_its_library_is_not_there(monkeypatch):
    """So that ``help(skpmd)``, which asks for all names, works without the extras."""
    monkeypatch.setitem(sys.modules, "skpro.regression.base", None)
    monkeypatch.delitem(sys.modules, "skpmd.skpro", raising=False)
    monkeypatch.delattr(skpmd, "skpro", raising=False)
    with pytest.raises(AttributeError, match=r"pip install skpmd\[skpro\]"):
        _ = skpmd.skpro
    with pytest.raises(ImportError, match=r"pip install skpmd\[skpro\]"):
        from skpmd import skpro  # noqa: F401
    assert "skpro" not in dict(inspect.getmembers(skpmd))


def test_a_circle_is_noticed():
    known = {
        "skpmd.a": parse("from skpmd.b import x", "skpmd.a"),
        "skpmd.b": parse("class C:\n    from skpmd import a", "skpmd.b"),
        "skpmd.c": parse("def f():\n    import skpmd.c", "skpmd.c"),
    }
    with pytest.raises(CycleError):
        list(TopologicalSorter(graph(known)).static_order())
    assert graph(known)["skpmd.c"] == set()
