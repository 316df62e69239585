"""Figures of the guide to comparisons: limits."""

PAGE = "docs/user_guide/comparing.rst"
ALLOWED = (
    "k-hat may be above 0.7 though nothing is wrong",
    "where it is above 0.7 beyond its own error, the posterior without the row is a different one",
)
STUDIES = ()
