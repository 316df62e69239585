"""Figures of the guide to Gaussian processes: settings, examples and thresholds."""

PAGE = "docs/user_guide/sparse_gp.rst"
ALLOWED = (
    # What the first example prints.
    "so a ``noise_level`` of 0.45 is 45 % of the variance of ``y``",
    # A threshold, and a default.
    "A ``pareto_k`` above 0.7 says",
    "a smaller ``df`` (4.0)",
    # Words of warnings, and a kernel.
    "lie more than 2.5 standard deviations off",
    "such as the rougher ``Matern(nu=0.5)``",
    "k-hat is above 0.7 for",
    "max_time=60.0 ended",
)
STUDIES = ()
