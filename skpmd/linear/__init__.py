"""Linear predictors: classes, numbers, counts, amounts and shares."""

from skpmd.linear._estimator import BayesianLogisticRegressionPMD
from skpmd.linear._family_mixture import FamilyMixture
from skpmd.linear._glm_estimator import BayesianGLMRegressorPMD
from skpmd.linear._ordinal_estimator import BayesianOrdinalClassifierPMD
from skpmd.linear._posterior import GaussianPosterior

__all__ = [
    "BayesianGLMRegressorPMD", "BayesianLogisticRegressionPMD", "BayesianOrdinalClassifierPMD",
    "FamilyMixture", "GaussianPosterior",
]  # fmt: skip
