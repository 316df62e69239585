"""Figures of the guide to long fits: a version."""

PAGE = "docs/user_guide/long_fits.rst"
STUDIES = ()
ALLOWED = ("With scikit-learn 1.9 or later",)
