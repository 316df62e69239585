"""Every public name says what it takes, returns and raises, with shapes, and shows an example."""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap

import pytest
from numpydoc.docscrape import NumpyDocString
from sklearn.metrics._scorer import _BaseScorer

import skpmd
from skpmd._base.estimator import ParticleEstimator
from skpmd.engine.model import Batch, Model
from skpmd.mixture._partition import Partition
from skpmd.proposals.fitted_density import FittedDensity
from tests.tools.source import ROOT, needs_source

# What public methods hand out, beside what has a public name.
HANDED_OUT = (FittedDensity, Partition)
# They check nothing that they are given.
RAISE_NOTHING = (
    "skpmd.show_versions",
    "skpmd.metrics.make_distribution_scorer",
    "skpmd.persistence.skops_trusted_types",
)
SKPRO = "skpmd.skpro.SkproRegressor"  # It can be imported where skpro is installed only.


# ------------------------------------------------------------------- public names
def public_modules():
    """skpmd and its modules without an underscore; the engine is private."""
    names = [one.name for one in pkgutil.iter_modules(skpmd.__path__)]
    names = [name for name in names if name[0] != "_" and name not in ("engine", "skpro")]
    return [skpmd, *(importlib.import_module(f"skpmd.{name}") for name in names)]


def names_of(module):
    """Its ``__all__``, or the functions and classes that it defines; a dict by dotted name."""
    names = getattr(module, "__all__", None) or [
        name
        for name, one in vars(module).items()
        if name[0] != "_" and getattr(one, "__module__", "") == module.__name__
    ]
    return {f"{module.__name__}.{name}": getattr(module, name) for name in names}


def public_names():
    """Functions, classes and objects by the first of their dotted names."""
    found = {}
    for module in public_modules():
        for name, one in names_of(module).items():
            if not any(one is other for other in found.values()):
                found[name] = one
    return found | {"skpmd.engine.model.Model": Model, "skpmd.engine.model.Batch": Batch}


def with_members(names):
    """The names, and of classes the methods and properties that skpmd defines."""
    found = dict(names)
    for name, one in names.items():
        if inspect.isclass(one):
            found |= {f"{name}.{member}": own for member, own in members(one).items()}
    return found


def members(cls):
    """Public methods and properties of a class; scikit-learn's and Python's own are not ours."""
    found = {}
    for name in (name for name in dir(cls) if name[0] != "_"):
        static = inspect.getattr_static(cls, name)
        one = static if isinstance(static, property) else getattr(cls, name)
        function = inspect.unwrap(getattr(one, "fget", one))
        module = getattr(function, "__module__", None) or ""
        if inspect.isroutine(function) and module.startswith("skpmd."):
            found[name] = one
    return found


NAMES = public_names()
# A version is a string. Scorers are objects of scikit-learn's, whose docstring would be that of
# their class: the page of the API lists them, and the examples of the metrics show them.
DOCUMENTED = {name: one for name, one in NAMES.items() if not isinstance(one, str | _BaseScorer)}
DOCUMENTED |= {f"{one.__module__}.{one.__name__}": one for one in HANDED_OUT}
DOCUMENTED = with_members(DOCUMENTED)


# ------------------------------------------------------------------- what docstrings lack
def lacks(one, name=""):
    """What the docstring of a class, function, method or property lacks, a list of phrases."""
    doc = NumpyDocString(inspect.getdoc(one) or "")
    found = [] if "".join(doc["Summary"]).strip() else ["a summary"]
    if not isinstance(one, property):
        found += [*_parameters(one, doc), *_entries(doc), *_sections(one, doc, name)]
    return found


def _parameters(one, doc):
    """Parameters that have no entry; those of a record may be listed as its attributes."""
    entries = doc["Parameters"] + doc["Other Parameters"]
    entries += doc["Attributes"] if _is_record(one) else []
    listed = [name for entry in entries for name in _names(entry)]
    given = [name for name in inspect.signature(one).parameters if name not in ("self", "cls")]
    yield from (name for name in given if name not in listed)


def _is_record(one):
    return hasattr(one, "_fields") or hasattr(one, "__dataclass_fields__")


def _names(entry):
    """The names of an entry such as ``a, b : float`` or ``**options : dict``."""
    return [name.strip().lstrip("*") for name in entry.name.split(",")]


def _entries(doc):
    """Types, descriptions and shapes; attributes that are parameters have them there."""
    parameters = {name for entry in doc["Parameters"] for name in _names(entry)}
    attributes = [entry for entry in doc["Attributes"] if not parameters.issuperset(_names(entry))]
    given = doc["Parameters"] + doc["Other Parameters"]
    for name, kind, lines in given + doc["Returns"] + doc["Yields"] + attributes:
        text = " ".join(lines)
        if not kind or kind.startswith("default"):
            yield f"the type of {name}"
        if not text.strip():
            yield f"a description of {name or kind}"
        is_array = re.search("array-like|ndarray|matrix", kind)
        if is_array and not re.search(r"shape|\(\w+,.*\)", kind + text):
            yield f"the shape of {name or kind}"


def _sections(one, doc, name):
    """Sections: Examples but for methods, References of estimators, Returns and Raises."""
    is_method = not inspect.isclass(one) and "." in one.__qualname__
    if not (is_method or doc["Examples"]):
        yield "Examples"
    if inspect.isclass(one):
        if issubclass(one, ParticleEstimator) and not doc["References"]:
            yield "References"
    elif _returns(one) and not (doc["Returns"] or doc["Yields"]):
        yield "Returns"
    if _should_raise(one, is_method) and name not in RAISE_NOTHING and not doc["Raises"]:
        yield "Raises"


def _should_raise(one, is_method):
    """Public functions and fits check what they are given; others where their body says so."""
    if inspect.isclass(one):
        own = vars(one).get("__init__")
        return inspect.isfunction(own) and not _is_record(one) and _raises(own)
    return not is_method or one.__name__ in ("fit", "partial_fit") or _raises(one)


def _raises(function):
    """Whether there is a ``raise``, or a call of one of the checks of arguments."""
    for node in _body(function):
        if isinstance(node, ast.Raise) and not _is_abstract(node):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) != "check_is_fitted":
            if ast.unparse(node.func).startswith("check_"):
                return True
    return False


def _is_abstract(node):
    return isinstance(node, ast.Raise) and "NotImplementedError" in ast.unparse(node)


def _returns(function):
    """Whether it hands back more than self and None, or leaves that to who overrides it."""
    for node in _body(function):
        if isinstance(node, ast.Return) and ast.unparse(node)[7:] not in ("", "self", "None"):
            return True
        if isinstance(node, ast.Yield | ast.YieldFrom) or _is_abstract(node):
            return True
    return False


def _body(function):
    """Nodes of a function's syntax tree, without functions within it."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    nodes = list(ast.parse(source).body[0].body)
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            nodes += ast.iter_child_nodes(node)
    return nodes


# ------------------------------------------------------------------- tests
def test_docstrings_are_complete():
    found = {name: lacks(one, name) for name, one in DOCUMENTED.items()}
    assert {name: phrases for name, phrases in found.items() if phrases} == {}


def test_names_of_all_kinds_are_looked_at():
    for name in (
        "BayesianLogisticRegressionPMD.fit", "Posterior.pareto_k", "NormalMixture.joined", "load",
        "metrics.crps", "plot.TopicDisplay.plot", "predictive.Uncertainty",
        "SparseGPRegressorPMD.n_iter_", "engine.model.Model.statistics", "mixture.MixtureDensity",
        "streams.PrequentialScores.mean", "streams.StreamingPipeline.partial_fit",
    ):  # fmt: skip
        assert f"skpmd.{name}" in DOCUMENTED
    for name in ("GaussianMixturePMD.get_params", "streams.PrequentialScores.count"):
        assert f"skpmd.{name}" not in DOCUMENTED


@pytest.mark.filterwarnings("default")  # of skpro and its dependencies
def test_the_docstrings_of_the_adapter_to_skpro_are_complete():
    pytest.importorskip("skpro")
    found = with_members(names_of(importlib.import_module("skpmd.skpro")))
    assert SKPRO in found and f"{SKPRO}.get_test_params" in found
    assert {name: lacks(one) for name, one in found.items() if lacks(one)} == {}


@needs_source
def test_every_public_name_is_on_the_page_of_the_api():
    text = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    listed = {word.strip(".").removeprefix("skpmd.") for word in re.findall(r"[\w.]+", text)}
    assert {name.removeprefix("skpmd.") for name in [*NAMES, SKPRO]} <= listed
