"""Figures of the guide to deployment: versions, settings, and what a test holds."""

PAGE = "docs/user_guide/deployment.rst"
STUDIES = ()
ALLOWED = ("MLflow (3.17; earlier versions pickled)",)
