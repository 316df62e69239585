"""What the page on scale says is arithmetic of bytes."""

PAGE = "docs/user_guide/scale.rst"
STUDIES = ()
ALLOWED = (
    "A disk of 1 GB a second reads 2.5 million rows of 50 columns a second",
    r"With 10\ :sup:`9` rows of 50 columns (400 GB) in 4,000 blocks of 100 MB",
    r"the process that fits, 16 GB of 10\ :sup:`9` rows",
    "a pass of them reads 400 GB through one process, 7 minutes at 1 GB a second",
)
