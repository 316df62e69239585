"""Configuration of the documentation."""

import re
import sys
from pathlib import Path

import skpmd

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
sys.path.insert(0, str(HERE / "_ext"))

project = "skpmd"
author = "The skpmd developers"
copyright = "2026, The skpmd developers"
release = version = skpmd.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "benchmark_results",
]
exclude_patterns = ["_build", "auto_examples/**GALLERY_HEADER.rst"]
templates_path = ["_templates"]

# Formulas are shown without a network: the files lie beside the pages.
mathjax_path = "mathjax/tex-chtml.js"

autosummary_generate = True
# Names that differ in their case only need files that differ, for macOS and Windows.
autosummary_filename_map = {"skpmd.formula.design": "skpmd.formula.design-function"}
autodoc_typehints = "none"
# Members are listed by _templates/autosummary/class.rst, once.
numpydoc_show_class_members = False

# A name in single backticks is a link where it is that of a page, and code elsewhere.
default_role = "py:obj"

html_theme = "pydata_sphinx_theme"
html_title = f"skpmd {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sourcelink = False
# Pages that are alone in their section have the room of its empty navigation.
html_sidebars = {
    page: []
    for page in (
        "install", "faq", "sharp_bits", "theory", "engine", "glossary", "results", "add_a_model",
        "contributing", "stability",
    )
}  # fmt: skip
html_theme_options = {
    "show_prev_next": False,
    # Pictures of the gallery, and tables of five columns, have the sidebar's room.
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        "user_guide/coming_from": [],
        **{
            f"auto_examples/{path.relative_to(EXAMPLES).with_suffix('').as_posix()}": []
            for path in EXAMPLES.rglob("plot_*.py")
        },
    },
    "navigation_with_keys": False,
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    # Without a place for these lists Sphinx-Gallery warns of thumbnails on other pages.
    "backreferences_dir": "generated/backreferences",
    "within_subsection_order": "gallery_order.by_order",
    "minigallery_sort_order": "gallery_order.by_order",
    # Benchmarks are packages of their own, shown on the page "Benchmarks".
    "ignore_pattern": r"__init__\.py|__main__\.py|benchmarks",
    "abort_on_example_error": True,
    # What an example prints is shown, and no representation of what its last line returns.
    "capture_repr": (),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "parallel": True,  # As many at a time as `-j` of Sphinx says.
    # Its page of times would load scripts from elsewhere.
    "write_computation_times": False,
}


def unlink_inherited_references(app, what, name, obj, options, lines):
    """Make plain text of references to labels that only scikit-learn's own site has."""
    if getattr(obj, "__module__", None) and obj.__module__.startswith("sklearn."):
        lines[:] = [re.sub(r":ref:`([^`<]+?) *<[^>]+>`", r"\1", line) for line in lines]


def setup(app):
    """Connect the hook above."""
    # It adds files when all is written, and does not say that it does not mind.
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True
    app.connect("autodoc-process-docstring", unlink_inherited_references, priority=900)
