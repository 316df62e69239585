"""Where `check` finds nothing, all that is known of a posterior's error is known and small."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from skpmd import BayesianLogisticRegressionPMD, ParticleMirrorDescent

PRIOR = {"proposal": "prior", "n_particles": 400}
STEPS = {"proposal": "prior", "n_particles": 300, "max_iter": 2}
FITS = {
    "default": {},
    "proposals alone": {"reweight": False},
    "steps": STEPS,
    "steps alone": {**STEPS, "reweight": False},
    "short steps": {**STEPS, "reweight": False, "step_size": 0.02, "max_iter": 1},
    "no rejuvenation": {**STEPS, "reweight": False, "rejuvenation": "never"},
    "always rejuvenated": {**STEPS, "reweight": False, "rejuvenation": "always"},
    "hot": {"temperature": 3.0},
}
OF_OWN = {
    "one substep": {**STEPS, "reweight": False, "max_substeps": 1},
    "theorem": {**STEPS, "reweight": False, "step_schedule": "theorem6"},
    "averaged": {**STEPS, "average": True, "reweight": False},
    "averaged and weighed": {**STEPS, "average": True},
    "growing": {**STEPS, "reweight": False, "particle_growth": 0.5},
    "fixed at the end": {**STEPS, "reweight": False, "final_particles": 600},
    "compact": {**STEPS, "reweight": False, "kernel": "epanechnikov"},
    "unshrunk": {**STEPS, "reweight": False, "shrinkage": False},
}
STREAMS = {
    "default": {},
    "forgetting": {"forgetting": 0.002},
    "from the prior": PRIOR,
    "from the prior, forgetting": {**PRIOR, "forgetting": 0.01},
    "never": {**PRIOR, "rejuvenation": "never"},
    "always": {**PRIOR, "rejuvenation": "always"},
    "passes": {"total_samples": 150},
}


def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2))
    return X, X @ [1.0, -0.7] + rng.logistic(size=300)


def normal(theta, X, y):
    return stats.norm.logpdf(y, theta @ X.T, 1.8)


def model_of(kind, options):
    if kind == "logistic":
        return BayesianLogisticRegressionPMD(random_state=0, **options)
    return ParticleMirrorDescent(
        log_likelihood_pointwise=normal,
        prior={"b": stats.norm([0.0, 0.0], 2.0)},
        random_state=0,
        **options,
    )


def targets(kind, y):
    return (y > 0.0).astype(int) if kind == "logistic" else y


def assert_known_where_silent(model):
    posterior, diagnostics = model.posterior_, model.diagnostics_
    found = posterior.check()
    if diagnostics["warnings"]:
        assert found
    if found:
        return found
    assert posterior.ess >= 100.0
    assert diagnostics["pareto_k"] is not None or diagnostics["r_hat"] is not None
    error = diagnostics["mean_error"]
    assert error is None or error <= 0.2
    return found


CASES = [(kind, name, options) for kind in ("logistic", "own") for name, options in FITS.items()]
CASES += [("own", name, options) for name, options in OF_OWN.items()]


@pytest.mark.parametrize("kind, name, options", CASES)
def test_fits(kind, name, options):
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(kind, options).fit(X, targets(kind, y))
    found = assert_known_where_silent(model)
    is_weighed = options.get("reweight", True)
    assert any("not reweighted" in text for text in found) == (not is_weighed)


@pytest.mark.parametrize("kind", ["logistic", "own"])
@pytest.mark.parametrize("name", STREAMS)
def test_streams(kind, name):
    X, y = rows()
    y, model = targets(kind, y), model_of(kind, STREAMS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for k, part in enumerate(np.array_split(np.arange(300), 4)):
            classes = {"classes": [0, 1]} if kind == "logistic" and not k else {}
            model.partial_fit(X[part], y[part], **classes)
    found = assert_known_where_silent(model)
    if not found:  # A stream has no rows to weigh by: its account of errors is known.
        assert model.diagnostics_["mean_error"] <= 0.2
