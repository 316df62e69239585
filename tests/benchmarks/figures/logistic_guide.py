"""Figures of the guide to logistic regression: settings, thresholds, and none of a study."""

PAGE = "docs/user_guide/logistic.rst"
ALLOWED = (
    "leaves, and its 90 % interval",
    "Above 0.7 a few particles decide all averages",
    "which should be below 1.05",
    "``prior_scale`` (default 1.0)",
    "':math:`N(0, s^2)`', 'L2 penalty",
    ":math:`t_\\nu(0, s)`",
    "(scikit-learn 1.8 or later",
    "retains its first rows, 16 MB at most",
    "``posterior_.quantile(0.5)``",
    "``k-hat is above 0.7 for``",
)
STUDIES = ()
