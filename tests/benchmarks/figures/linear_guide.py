"""The numbers of the guide to linear models: defaults, levels and units, and no measurements."""

PAGE = "docs/user_guide/linear.rst"
STUDIES = ()
ALLOWED = (
    "a probability of at least 90 %",
    "16 MB at most",
    r"(2.5\, s_y / s_j)^2",
    r"(2.5\, s_y)^2",
    "N(m, 2.5^2)",
    r"2.5\, s_y",
    "gamma of shape 2 and rate 0.1",
    "with 0.1 the shape of a negative binomial distribution is above 36 with a probability of 90 %",
    "an interval of 90 % has a probability of 90 % or more, up to nearly 100 % where",
)
