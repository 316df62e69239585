"""Figures of the page on stability: versions."""

PAGE = "docs/stability.rst"
ALLOWED = (
    "Before version 1.0 a minor version (0.1 to 0.2)",
    "a patch version (0.1.0 to 0.1.1)",
)
STUDIES = ()
