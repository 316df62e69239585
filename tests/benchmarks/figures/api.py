"""Figures of the list of public names: a level."""

PAGE = "docs/api.rst"
ALLOWED = ("the coverage of intervals of 90 %",)
STUDIES = ()
