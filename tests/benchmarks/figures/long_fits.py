"""The guide to long fits has no figures."""

PAGE = "docs/user_guide/long_fits.rst"
STUDIES = ()
ALLOWED = ()
