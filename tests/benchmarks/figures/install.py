"""Figures of the page on installing: versions."""

PAGE = "docs/install.rst"
ALLOWED = (
    "Python 3.11 or newer",
    "scikit-learn 1.6, NumPy 2.0, SciPy 1.15, Numba 0.60 and joblib 1.3",
)
STUDIES = ()
