"""Figures of the guide to pictures: settings."""

PAGE = "docs/user_guide/pictures.rst"
ALLOWED = ("the smallest regions that hold 50 % and 90 % of the density",)
STUDIES = ()
