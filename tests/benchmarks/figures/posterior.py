"""Figures of the guide to posteriors: a limit."""

PAGE = "docs/user_guide/posterior.rst"
ALLOWED = ("k-hat may be above 0.7 though nothing is wrong",)
STUDIES = ()
