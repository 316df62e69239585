"""Bayesian logistic regression, binary and multinomial."""

from skpmd.linear._estimator import BayesianLogisticRegressionPMD
from skpmd.linear._posterior import GaussianPosterior

__all__ = ["BayesianLogisticRegressionPMD", "GaussianPosterior"]
