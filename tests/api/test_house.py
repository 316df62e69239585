"""Manners of the code, read from the syntax trees: who touches estimators, loops and Ctrl-C."""

import ast
import inspect

import pytest

import skpmd
from tests.tools.source import modules, needs_source, parse

pytestmark = needs_source

ESTIMATORS = [
    skpmd.BayesianGLMRegressorPMD,
    skpmd.BayesianLogisticRegressionPMD,
    skpmd.BayesianOrdinalClassifierPMD,
    skpmd.GaussianMixturePMD,
    skpmd.LDATopicModelPMD,
    skpmd.ParticleMirrorDescent,
    skpmd.SparseGPClassifierPMD,
    skpmd.SparseGPRegressorPMD,
]
# What takes an estimator because scikit-learn made it so, and what Python does with any object.
SCIKIT_LEARN = (
    "validate_data check_is_fitted _check_feature_names_in _check_partial_fit_first_call "
    "_check_n_features _check_feature_names check_array check_X_y"
).split()
PYTHON = "super type isinstance getattr hasattr".split()
# These are for those who own the estimator's attributes.
REFLECTION = "vars setattr delattr".split()
OWNERS = ("_estimator", "_base.estimator")
# In these modules an estimator holds another one, whose parameters it hands on.
META_ESTIMATORS = {"skpmd.skpro"}
LOOP = "skpmd.engine.loop"
PROGRESS = "skpmd._runtime.display"


def everywhere(rule):
    """What a rule finds in all of skpmd, as ``file:line: text``."""
    return [
        f"{module.path}:{node.lineno}: {ast.unparse(node)}"
        for name, module in modules().items()
        if name not in META_ESTIMATORS
        for node in rule(module)
    ]


def in_example(rule, text, name="skpmd.example"):
    return [ast.unparse(node) for node in rule(parse(text, name))]


# ------------------------------------------------------------------- estimators stay at home
CLASSES = {
    (cls.__module__, cls.__name__)
    for estimator in ESTIMATORS
    for cls in inspect.getmro(estimator)
    if cls.__module__.startswith("skpmd.")
}


def gives_self_away(module, classes=CLASSES):
    """Calls in estimators' classes that get the bare ``self``, and other names that it is given.

    Records and models are values, and may be passed on.
    """
    owner = module.name.endswith(OWNERS)
    allowed = {*SCIKIT_LEARN, *PYTHON, *(REFLECTION if owner else ())}
    for cls in ast.walk(module.tree):
        if not (isinstance(cls, ast.ClassDef) and (module.name, cls.name) in classes):
            continue
        for node in ast.walk(cls):
            if isinstance(node, ast.Call) and _called(node) not in allowed:
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                if any(_is_bare_self(one) for one in given):
                    yield node
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                if node.value is not None and _is_bare_self(node.value):
                    yield node


def _called(call):
    """The last part of what is called: ``f`` of ``f(...)`` and of ``a.b.f(...)``."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _is_bare_self(node):
    """Whether this is ``self``, or holds it: in a container, behind a star, either way of an if."""
    if isinstance(node, ast.Name):
        return node.id == "self"
    if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Starred | ast.Dict | ast.IfExp):
        return any(_is_bare_self(child) for child in ast.iter_child_nodes(node))
    return False


def test_no_function_gets_an_estimator():
    assert not everywhere(gives_self_away)


def _in_an_estimator(line, name="skpmd.example"):
    text = f"class A:\n    def m(self):\n        {line}\n"
    return [*gives_self_away(parse(text, name), {(name, "A")})]


@pytest.mark.parametrize(
    "line",
    ["f(self)", "f(1, x=self)", "a.f((self, 1))", "x = self", "vars(self)", "g = lambda: f(self)"],
)  # fmt: skip
def test_an_estimator_that_is_given_away_is_noticed(line):
    assert _in_an_estimator(line)


@pytest.mark.parametrize(
    "line",
    ["f(self.x)", "validate_data(self, X)", "check_is_fitted(self)", "self.f(1)", "type(self)",
     "super(A, self).fit()", "x = self.y", "f(self.method)", "return self"],
)  # fmt: skip
def test_what_scikit_learn_needs_is_allowed(line):
    assert not _in_an_estimator(line)
    assert not _in_an_estimator("vars(self)", "skpmd.lda._estimator")


# ------------------------------------------------------------------- arguments stay as they are
def writes_on_arguments(module):
    """Statements that set or delete an attribute of an argument, or look at all of them."""
    yield from _writes(module.tree, frozenset(), in_class=False)


def _writes(node, arguments, in_class):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            own = _arguments(child, in_class)
            yield from _writes(child, (arguments | own) - _rebound_self(child, in_class), False)
        elif isinstance(child, ast.ClassDef):
            yield from _writes(child, arguments, True)
        else:
            if isinstance(child, ast.Assign) and isinstance(child.value, ast.Name):
                if child.value.id in arguments:  # another name of the same object
                    names = {one.id for one in child.targets if isinstance(one, ast.Name)}
                    arguments = arguments | names
            if _is_a_write(child, arguments):
                yield child
            yield from _writes(child, arguments, False)


def _arguments(function, in_class):
    """Names of a function's arguments but for a method's own object."""
    found = function.args
    positional = [one.arg for one in [*found.posonlyargs, *found.args]]
    first = len(_own_object(function, in_class))
    others = [one.arg for one in [*found.kwonlyargs, found.vararg, found.kwarg] if one]
    return frozenset([*positional[first:], *others])


def _own_object(function, in_class):
    positional = [*function.args.posonlyargs, *function.args.args]
    decorators = [ast.unparse(one) for one in getattr(function, "decorator_list", [])]
    return positional[:1] if in_class and "staticmethod" not in decorators else []


def _rebound_self(function, in_class):
    return {one.arg for one in _own_object(function, in_class)}


def _is_a_write(node, arguments):
    if isinstance(node, ast.Attribute):
        stored = isinstance(node.ctx, ast.Store | ast.Del)
        looked_at = node.attr in ("__dict__", "get_params", "set_params")
        return (stored or looked_at) and _root(node.value) in arguments
    if isinstance(node, ast.Call) and node.args:
        reflection = _called(node) in ("setattr", "delattr", "vars", "__setattr__", "__delattr__")
        return reflection and _root(node.args[0]) in arguments
    return False


def _root(node):
    """Name of the variable that attributes are taken of, empty where there is none."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return getattr(node, "id", "")


def test_no_function_writes_on_its_arguments():
    assert not everywhere(writes_on_arguments)


@pytest.mark.parametrize(
    "text",
    ["def f(a): a.x = 1", "def f(*, a): a.b.x += 1", "def f(*a): del a.x",
     "def f(a): setattr(a, 'x', 1)", "def f(a): vars(a).update(b)",
     "def f(a): a.set_params(x=1)", "def f(a):\n    b = a\n    b.x = 1",
     "def f(a):\n    def g(): a.x = 1", "class A:\n    def m(self, a): a.x, b = 1, 2",
     "class A:\n    @staticmethod\n    def m(a): a.x = 1", "f = lambda a: setattr(a, 'x', 1)",
     "def self_is_a_name(self): self.x = 1"],
)  # fmt: skip
def test_a_write_on_an_argument_is_noticed(text):
    assert in_example(writes_on_arguments, text)


@pytest.mark.parametrize(
    "text",
    ["class A:\n    def m(self, a): self.x = a", "def f(a): a[0] = 1", "def f(a): a.x[0] = 1",
     "class A:\n    @classmethod\n    def m(cls): cls.x = 1", "def f(a): return a.x",
     "def f(a):\n    b = g(a)\n    b.x = 1", "class A:\n    def m(self):\n        vars(self)"],
)  # fmt: skip
def test_writes_elsewhere_are_allowed(text):
    assert not in_example(writes_on_arguments, text)


# ------------------------------------------------------------------- what estimators are made of
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_classes_of_estimators_live_where_they_are_looked_for(estimator):
    for cls in inspect.getmro(estimator):
        if cls.__module__.startswith("skpmd."):
            last = cls.__module__.rpartition(".")[2]
            at_home = cls.__module__.startswith("skpmd._base.")
            at_home |= last.endswith(("_estimator", "_predict"))
            assert at_home, cls


# ------------------------------------------------------------------- one loop
def stops_ctrl_c(module):
    """Mentions of KeyboardInterrupt but for raising it, and handlers that would swallow it."""
    raised = {
        id(node.exc) for node in ast.walk(module.tree) if isinstance(node, ast.Raise) and node.exc
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and node.id == "KeyboardInterrupt" and id(node) not in raised:
            yield node
        elif isinstance(node, ast.ExceptHandler):
            everything = node.type is None or "BaseException" in ast.unparse(node.type)
            if everything and ast.unparse(node.body[-1]) != "raise":
                yield node


def walks_through_batches(module):
    """Calls of ``one_pass``."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr == "one_pass":
            yield node


def shows_progress(module):
    """Imports of tqdm, and prints; estimators may print what they have decided."""
    for node in ast.walk(module.tree):
        named = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tqdm")
        plain = isinstance(node, ast.Import) and any("tqdm" in one.name for one in node.names)
        printed = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
        if named or plain or (printed and not module.name.endswith("._estimator")):
            yield node


@pytest.mark.parametrize(
    "rule, homes",
    [
        (stops_ctrl_c, {LOOP}),
        (walks_through_batches, {LOOP}),
        (shows_progress, {PROGRESS, "skpmd._show_versions"}),
    ],
)
def test_the_loop_is_written_once(rule, homes):
    found = {name for name, module in modules().items() if any(rule(module))}
    assert found == homes


@pytest.mark.parametrize(
    "rule, text",
    [
        (stops_ctrl_c, "try: f()\nexcept KeyboardInterrupt: pass"),
        (stops_ctrl_c, "try: f()\nexcept (ValueError, KeyboardInterrupt) as e: pass"),
        (stops_ctrl_c, "with suppress(KeyboardInterrupt): f()"),
        (stops_ctrl_c, "try: f()\nexcept: pass"),
        (stops_ctrl_c, "try: f()\nexcept BaseException: g()"),
        (walks_through_batches, "for batch in rows.one_pass(sampling, rng): pass"),
        (shows_progress, "def f():\n    from tqdm import tqdm"),
        (shows_progress, "import tqdm.auto"),
        (shows_progress, "print(1)"),
    ],
)
def test_a_second_loop_is_noticed(rule, text):
    assert in_example(rule, text)


def test_ctrl_c_may_be_raised_and_undone():
    assert not in_example(stops_ctrl_c, "raise KeyboardInterrupt")
    assert not in_example(stops_ctrl_c, "try: f()\nexcept BaseException:\n    g()\n    raise")


# ------------------------------------------------------------------- checkpoints
def knows_of_checkpoints(module):
    """Names, attributes, arguments and words of a module that speak of checkpoints."""
    for node in ast.walk(module.tree):
        names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name", "module"))
        words = [one for one in names if isinstance(one, str)]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.append(node.value)
        if any("checkpoint" in one.lower() for one in words):
            yield node


def test_the_loop_alone_knows_of_checkpoints():
    """In the engine and in families; estimators have a parameter, which the base reads.

    Files of estimators leave it out, and say so; its text is in that of parameters.
    """
    found = {name for name, module in modules().items() if any(knows_of_checkpoints(module))}
    found = {name for name in found if not name.startswith("skpmd._base.")}
    parameters = {estimator.__module__ for estimator in ESTIMATORS}
    assert found == {LOOP, "skpmd.persistence", *parameters}
    for name in parameters:
        nodes = [*knows_of_checkpoints(modules()[name])]
        known = {"checkpoint", "self.checkpoint", "checkpoint=None"}
        known |= {"checkpoint: FilePath | None"}
        assert all(ast.unparse(node) in known or isinstance(node, ast.Constant) for node in nodes)


@pytest.mark.parametrize(
    "text",
    ["from skpmd._base import checkpoint", "import skpmd._base.checkpoint as c", "a.checkpoint = b",
     "def f(checkpoint): 1", "checkpointed()", "def f():\n    'Goes on from a checkpoint.'"],
)  # fmt: skip
def test_a_file_that_knows_of_checkpoints_is_noticed(text):
    assert in_example(knows_of_checkpoints, text)
