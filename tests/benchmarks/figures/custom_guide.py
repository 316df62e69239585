"""The figures of the guide to models of one's own."""

PAGE = "docs/user_guide/custom.rst"
ALLOWED = (  # Thresholds, and levels of an example.
    "above 0.7 averages are not to be trusted",
    "k-hat is above 0.7 for",
)
STUDIES = ()
