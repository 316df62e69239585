"""scikit-learn's own checks, on every estimator, with no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpmd import BayesianLogisticRegressionPMD, ParticleMirrorDescent
from tests.problems import NORMAL_MEAN

ESTIMATORS = [
    BayesianLogisticRegressionPMD(),
    BayesianLogisticRegressionPMD(proposal="prior", n_particles=200),
    BayesianLogisticRegressionPMD(proposal="mirror", polish=False, n_particles=200),
    ParticleMirrorDescent(**NORMAL_MEAN, n_particles=200),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
