"""Sparse Gaussian process regression and classification."""

from skpmd.sparse_gp._categories import MixedKernel
from skpmd.sparse_gp._classifier_estimator import SparseGPClassifierPMD
from skpmd.sparse_gp._estimator import SparseGPRegressorPMD

__all__ = ["MixedKernel", "SparseGPClassifierPMD", "SparseGPRegressorPMD"]
