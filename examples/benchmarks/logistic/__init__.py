"""Studies of logistic regression."""
