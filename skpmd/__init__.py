"""Bayesian estimators for scikit-learn, fitted by particle mirror descent."""

from skpmd._base.version import __version__
from skpmd._from_jax import from_jax
from skpmd._merge import merge
from skpmd._show_versions import show_versions
from skpmd.custom import ParticleMirrorDescent
from skpmd.lda import LDATopicModelPMD, TopicPosterior
from skpmd.linear import BayesianLogisticRegressionPMD, GaussianPosterior
from skpmd.mixture import GaussianMixturePMD
from skpmd.persistence import load, save
from skpmd.posterior import Posterior
from skpmd.predictive import NormalMixture
from skpmd.sparse_gp import SparseGPClassifierPMD, SparseGPRegressorPMD

__all__ = [
    "BayesianLogisticRegressionPMD",
    "GaussianMixturePMD",
    "GaussianPosterior",
    "LDATopicModelPMD",
    "NormalMixture",
    "ParticleMirrorDescent",
    "Posterior",
    "SparseGPClassifierPMD",
    "SparseGPRegressorPMD",
    "TopicPosterior",
    "__version__",
    "from_jax",
    "load",
    "merge",
    "save",
    "show_versions",
]
