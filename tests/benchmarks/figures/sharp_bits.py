"""Thresholds among what surprises users of every estimator."""

PAGE = "docs/sharp_bits.rst"
STUDIES = ()
ALLOWED = (
    "off by less than three standard errors and 15 % of a standard deviation together",
    "beyond the 16 MB of them that it retains",
)
