"""Studies of sparse Gaussian processes."""
