"""Figures of the guide to Dask: sizes of blocks."""

PAGE = "docs/user_guide/dask.rst"
STUDIES = ()
ALLOWED = (
    "32 blocks is read, 256 MB at most of dense rows",
    "Blocks of about 100 MB suit passes over all rows",
)
