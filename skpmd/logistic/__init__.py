"""Bayesian logistic regression, binary and multinomial."""

from skpmd.logistic._estimator import BayesianLogisticRegressionPMD
from skpmd.logistic._posterior import GaussianPosterior

__all__ = ["BayesianLogisticRegressionPMD", "GaussianPosterior"]
