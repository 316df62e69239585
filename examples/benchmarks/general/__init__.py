"""Studies of the estimator for any model, by values of its density alone."""
