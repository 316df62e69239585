"""The glossary, which has no measurement."""

PAGE = "docs/glossary.rst"
STUDIES = ()
ALLOWED = (
    "section 3.1 and appendix F",
    "above 0.7 they are not to be trusted",
)
