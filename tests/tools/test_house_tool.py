"""The count of lines and the trace of calls, on what can be counted by hand."""

import ast

from tests.tools import house

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

    files, both = house.trace(lambda: list(threads.batches_of([1])))
    assert files == ["_runtime/threads.py"] and not both
