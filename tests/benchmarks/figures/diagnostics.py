"""Figures of the guide to diagnostics: limits."""

PAGE = "docs/user_guide/diagnostics.rst"
ALLOWED = (
    "Below 0.5 averages have a finite variance; above 0.7 they are not to be trusted",
    "it should be below 1.05",
    "Above 0.2 there is a warning",
)
STUDIES = ()
