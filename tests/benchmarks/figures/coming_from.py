"""The numbers of the page for users of other packages: their defaults, and no measurements."""

PAGE = "docs/user_guide/coming_from.rst"
STUDIES = ()
ALLOWED = ("priors by 2.5 standard deviations of y",)
