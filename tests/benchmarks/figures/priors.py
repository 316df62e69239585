"""A threshold in the guide to priors."""

PAGE = "docs/user_guide/priors.rst"
STUDIES = ()
ALLOWED = ("by more than 0.6 nats (root mean square)",)
