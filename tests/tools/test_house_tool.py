"""The count of lines and the trace of calls, on what can be counted by hand."""

import ast

import numpy as np

from tests.tools import house
from tests.tools.source import needs_source

MODULE = '''"""Documentation,
of two lines."""

import os  # code


def f(a, b, c, d, e, f, g, h):
    """Documentation."""
    # A comment.
    text = """not
    documentation"""
    return text
'''


def test_lines_of_code_are_neither_comments_nor_documentation():
    assert house.count(MODULE) == (12, 5)


def test_long_functions_and_records_are_named():
    tree = ast.parse(MODULE)
    assert list(house.long_functions(tree)) == [("f", 8)]
    fields = "\n".join(f"    a{k}: int" for k in range(13))
    assert list(house.long_records(ast.parse(f"class R(NamedTuple):\n{fields}\n"))) == [("R", 13)]


def test_a_trace_has_the_files_of_a_call():
    from skpmd._runtime import threads

    files, both, back = house.trace(lambda: list(threads.batches_of([1])))
    assert files == ["_runtime/threads.py"] and not both and not back


def test_maps_call_back_what_they_are_given():
    from skpmd.engine import mirror
    from skpmd.engine.model import Batch
    from tests.tools.exact_models import NormalMean

    batch = Batch(np.zeros((3, 1)), None, np.ones(3))
    files, both, back = house.trace(
        lambda: mirror.log_likelihood(NormalMean(), np.zeros((2, 1)), [batch])
    )
    assert {"_runtime/threads.py", "engine/mirror.py"} <= set(files)
    assert not both and back == [("_runtime/threads.py", "engine/mirror.py")]


@needs_source
def test_nothing_but_the_exceptions_is_over_the_limits():
    """An exception that is none any more goes, too."""
    assert house.over_the_limits().keys() == house.EXCEPTIONS.keys()
