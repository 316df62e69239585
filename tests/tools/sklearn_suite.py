"""How tests of scikit-learn's are run on estimators of ours."""

import inspect

import pytest
import sklearn


def runs_of(table):
    """Parameters of `pytest.mark.parametrize`; a table names the arguments of each test's runs."""
    return [
        pytest.param(name, arguments, id=f"{name}-{i}")
        for name, runs in table.items()
        for i, arguments in enumerate(runs)
    ]


def run(module, name, arguments):
    """Run a test of a module with those of the arguments that it takes."""
    test = getattr(module, name, None)
    if test is None:
        pytest.skip(f"not in scikit-learn {sklearn.__version__}")
    wanted = inspect.signature(test).parameters
    test(**{key: value for key, value in arguments.items() if key in wanted})
