"""An example in the guide to decisions."""

PAGE = "docs/user_guide/decisions.rst"
STUDIES = ()
ALLOWED = ("another examination costs 0.3 in either case",)
