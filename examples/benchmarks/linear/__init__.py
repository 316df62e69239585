"""Studies of generalised linear models."""
