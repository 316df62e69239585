"""Bayesian estimators for scikit-learn, fitted by particle mirror descent."""

from importlib import import_module
from typing import TYPE_CHECKING

from skpmd._base.version import __version__

if TYPE_CHECKING:
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

# Where names are at home: a family is imported when it is first asked for, so that nobody waits for
# those that are not used.
_HOMES = {
    "BayesianLogisticRegressionPMD": "linear",
    "GaussianMixturePMD": "mixture",
    "GaussianPosterior": "linear",
    "LDATopicModelPMD": "lda",
    "NormalMixture": "predictive",
    "ParticleMirrorDescent": "custom",
    "Posterior": "posterior",
    "SparseGPClassifierPMD": "sparse_gp",
    "SparseGPRegressorPMD": "sparse_gp",
    "TopicPosterior": "lda",
    "from_jax": "_from_jax",
    "load": "persistence",
    "merge": "_merge",
    "save": "persistence",
    "show_versions": "_show_versions",
}
_MODULES = (
    "custom", "data", "decision", "engine", "lda", "linear", "metrics", "mixture",
    "model_comparison", "persistence", "plot", "posterior", "predictive", "sparse_gp", "streams",
    "wrappers",
)  # fmt: skip


def __getattr__(name):
    """A public name, or module, that nobody has asked for yet."""
    if name in _HOMES:
        value = getattr(import_module(f"skpmd.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"skpmd.{name}")
    raise AttributeError(f"module 'skpmd' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__, *_MODULES})
