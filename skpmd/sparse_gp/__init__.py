"""Sparse Gaussian process regression."""

from skpmd.sparse_gp._estimator import SparseGPRegressorPMD

__all__ = ["SparseGPRegressorPMD"]
