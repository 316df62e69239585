"""The page of all benchmarks: its tables are the results themselves."""

PAGE = "docs/benchmarks.rst"
STUDIES = ()
ALLOWED = ("need a 90 % interval of the paired differences",)
