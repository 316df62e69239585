"""Bayesian estimators for scikit-learn, fitted by particle mirror descent."""

from importlib import import_module
from typing import TYPE_CHECKING

from skpmd._base.version import __version__ as __version__

if TYPE_CHECKING:  # The names of `_HOMES`, which no type checker reads.
    from skpmd._from_jax import from_jax as from_jax
    from skpmd._merge import merge as merge
    from skpmd._show_versions import show_versions as show_versions
    from skpmd.custom import ParticleMirrorDescent as ParticleMirrorDescent
    from skpmd.lda import LDATopicModelPMD as LDATopicModelPMD
    from skpmd.lda import TopicPosterior as TopicPosterior
    from skpmd.linear import BayesianGLMRegressorPMD as BayesianGLMRegressorPMD
    from skpmd.linear import BayesianLogisticRegressionPMD as BayesianLogisticRegressionPMD
    from skpmd.linear import BayesianOrdinalClassifierPMD as BayesianOrdinalClassifierPMD
    from skpmd.linear import FamilyMixture as FamilyMixture
    from skpmd.linear import GaussianPosterior as GaussianPosterior
    from skpmd.mixture import GaussianMixturePMD as GaussianMixturePMD
    from skpmd.persistence import load as load
    from skpmd.persistence import save as save
    from skpmd.posterior import Posterior as Posterior
    from skpmd.predictive import NormalMixture as NormalMixture
    from skpmd.sparse_gp import SparseGPClassifierPMD as SparseGPClassifierPMD
    from skpmd.sparse_gp import SparseGPRegressorPMD as SparseGPRegressorPMD

# Where names are at home: a family is imported when it is first asked for, so that nobody waits for
# those that are not used.
_HOMES = {
    "BayesianGLMRegressorPMD": "linear",
    "BayesianLogisticRegressionPMD": "linear",
    "BayesianOrdinalClassifierPMD": "linear",
    "FamilyMixture": "linear",
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
    "custom", "data", "decision", "effects", "engine", "formula", "lda", "linear", "metrics",
    "mixture", "model_comparison", "persistence", "plot", "posterior", "predictive", "skpro",
    "sparse_gp", "streams", "wrappers",
)  # fmt: skip
__all__ = ["__version__", *_HOMES]


def __getattr__(name):
    """A public name, or module, that nobody has asked for yet."""
    if name in _HOMES:
        value = getattr(import_module(f"skpmd.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        try:
            return import_module(f"skpmd.{name}")
        except ImportError as error:  # `help` asks for all that a package has.
            raise AttributeError(str(error)) from error
    raise AttributeError(f"module 'skpmd' has no attribute {name!r}")


def __dir__():
    return sorted({*__all__, *_MODULES})
