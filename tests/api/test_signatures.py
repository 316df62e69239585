"""Every public signature is annotated, with names that there are."""

import ast
import builtins
import inspect
import sys

import pytest

import skpmd._typing
from tests.api.test_docstrings import DOCUMENTED


def signature_of(one):
    """That of a function, of a class's constructor or of a property, and where it is defined."""
    if inspect.isclass(one):
        one = one.__init__ if "__init__" in vars(one) else one
    function = inspect.unwrap(getattr(one, "fget", one))
    return inspect.signature(function), vars(sys.modules[function.__module__])


def lacks(signature, names):
    """Parameters without a type, ``return`` without one, and types that no name of ours gives."""
    types = {
        name: one.annotation
        for name, one in signature.parameters.items()
        if name not in ("self", "cls")
    }
    for name, kind in {**types, "return": signature.return_annotation}.items():
        if kind is inspect.Signature.empty or isinstance(kind, str) and not _is_known(kind, names):
            yield name


def _is_known(kind, names):
    used = {node.id for node in ast.walk(ast.parse(kind)) if isinstance(node, ast.Name)}
    return used <= {*vars(builtins), *names, *vars(skpmd._typing)}


def is_ours(one):
    """Classes that say nothing of how they are made have Python's or a base's constructor."""
    return not inspect.isclass(one) or inspect.isfunction(vars(one).get("__init__"))


@pytest.mark.parametrize("name", [name for name, one in DOCUMENTED.items() if is_ours(one)])
def test_public_signatures_are_annotated(name):
    assert not list(lacks(*signature_of(DOCUMENTED[name])))


def test_a_missing_type_is_noticed():
    def function(self, a, b: "Unknown", c: "Array" = None):  # noqa: F821, UP037
        return a

    assert list(lacks(*signature_of(function))) == ["a", "b", "return"]
