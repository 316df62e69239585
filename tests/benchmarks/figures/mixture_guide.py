"""Figures of the guide to mixtures: settings and values of its examples, and none of a study."""

PAGE = "docs/user_guide/mixture.rst"
ALLOWED = (
    "``0.3 * np.cov(X.T)``",
    "k-hat is above 0.7",
)
STUDIES = ()
