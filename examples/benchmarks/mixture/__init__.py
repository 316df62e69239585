"""Studies of mixtures."""
