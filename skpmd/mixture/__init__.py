"""Bayesian Gaussian mixtures."""

from skpmd.mixture._density import MixtureDensity
from skpmd.mixture._estimator import GaussianMixturePMD

__all__ = ["GaussianMixturePMD", "MixtureDensity"]
