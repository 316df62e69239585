"""Every public signature is annotated, and what annotations name is there when a program runs."""

import inspect
import re
import typing

from sklearn.utils._param_validation import StrOptions

from tests.api.test_docstrings import DOCUMENTED


def lacks(one):
    """Parameters of a function, property or class that have no type, and ``return`` without one."""
    one = one.__init__ if inspect.isclass(one) else one
    signature = inspect.signature(inspect.unwrap(getattr(one, "fget", one)))
    types = {name: one.annotation for name, one in signature.parameters.items()}
    types = {**types, "self": None, "cls": None, "return": signature.return_annotation}
    return [name for name, kind in types.items() if kind is inspect.Signature.empty]


def is_ours(one):
    """Classes that say nothing of how they are made have Python's constructor or a base's."""
    return not inspect.isclass(one) or inspect.isfunction(vars(one).get("__init__"))


def test_public_signatures_are_annotated():
    found = {name: lacks(one) for name, one in DOCUMENTED.items() if is_ours(one)}
    assert {name: missing for name, missing in found.items() if missing} == {}


def test_programs_can_read_the_types_of_public_signatures():
    for one in (getattr(one, "fget", one) for one in DOCUMENTED.values()):
        for function in (one, one.__init__) if inspect.isclass(one) else (one,):
            typing.get_type_hints(inspect.unwrap(function))


def test_words_that_a_parameter_takes_are_those_of_its_type_and_its_text():
    """Of every estimator: what `fit` admits, what the signature says, and what the text says."""
    wrong = []
    for name, one in DOCUMENTED.items():
        constraints = getattr(one, "_parameter_constraints", {}) if is_ours(one) else {}
        types = typing.get_type_hints(one.__init__) if constraints else {}
        for parameter, allowed in constraints.items():
            literals = "".join(re.findall(r"Literal\[[^]]*\]", str(types.get(parameter))))
            said = set(re.findall(r"'([^']+)'", literals))
            words = {w for a in allowed if isinstance(a, StrOptions) for w in a.options}
            if said and said != words:
                wrong.append((name, parameter, said ^ words))
            if parameter in ("family", "prior", "link") and said:
                wrong += [word for word in words if f'"{word}"' not in one.__doc__]
    assert wrong == []


def test_a_missing_type_is_noticed():
    class Example:
        def __init__(self, a, b: int, *, c: float = 1.0, **d) -> None: ...

        @property
        def e(self):
            return 1

    assert lacks(Example) == ["a", "d"]
    assert lacks(Example.e) == ["return"]
