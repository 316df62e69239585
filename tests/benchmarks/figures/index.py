"""The documentation's first page, which has no measurement."""

PAGE = "docs/index.rst"
STUDIES = ()
ALLOWED = ()
