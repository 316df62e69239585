"""Recipes of the gallery: found by words, short, without places of parameters, and executed."""

import ast
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
RECIPES = sorted((EXAMPLES / "recipes").glob("plot_*.py"))
INDEX = (EXAMPLES.parent / "docs" / "index.rst").read_text(encoding="utf-8")
every_recipe = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


@every_recipe
def test_a_recipe_is_found_by_words_and_says_how_far_it_goes(path):
    text = path.read_text(encoding="utf-8")
    title, index, question = ast.get_docstring(ast.parse(text)).split("\n\n")
    assert index.startswith(".. index:: ") and index.count(",") > 1
    assert question.startswith('"') and question.endswith('?"')
    assert "# **How far to trust it.**" in text and "# **When to use something else.**" in text
    assert 40 <= text.count("\n") <= 150
    assert f"auto_examples/recipes/{path.stem}>" in INDEX


def test_no_parameter_is_taken_by_its_place():
    by_place = re.compile(r"theta\[(?!name\]|f?[\"'])|particles\[|names\.index")
    for path in RECIPES:
        found = by_place.findall(path.read_text(encoding="utf-8"))
        assert not found, (path.name, found)


@pytest.mark.slow
@every_recipe
def test_a_recipe_runs(path, tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    try:
        runpy.run_path(str(path), run_name="__main__")
        assert plt.get_fignums()
    finally:
        plt.close("all")
