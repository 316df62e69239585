"""Thresholds of warnings in the guide to merging."""

PAGE = "docs/user_guide/merging.rst"
STUDIES = ()
ALLOWED = (
    "shards together lack more than 0.3 nats of the posteriors (root mean square)",
    "particles. Above 0.1 there is a warning; where the density follows values of the posterior, "
    "there is one only above 0.9",
    "from that of a shard in its own units, is above 1.5",
    "is how well they match, and below 0.8 there is a warning for mixtures",
)
