"""The scale of highest evidence, against closed forms and quadrature."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import expit

from skpmd.engine.model import Batch
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._make_model import HIGH, LOW, best_scale, scale_by_evidence
from skpmd.linear._priors import LaplacePrior, NormalPrior, StudentTPrior


def conjugate(y):
    """Log evidence of y_j ~ N(theta_j, 1), theta_j ~ N(0, scale^2), up to a constant."""

    def evidence(scale):
        variance = 1.0 + scale**2
        return -0.5 * (len(y) * np.log(variance) + y @ y / variance)

    return evidence


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 17.0])
def test_the_optimum_of_a_conjugate_model(scale):
    # mean y^2 = 1 + scale^2 at the top. The search ends within 0.01 of the log scale.
    y = np.full(400_000, np.sqrt(1.0 + scale**2))
    choice = best_scale(conjugate(y))
    assert np.log(choice.scale) == pytest.approx(np.log(scale), abs=0.01)
    assert choice.log_evidence == conjugate(y)(choice.scale)
    assert choice.warning == ""


def test_the_higher_of_two_tops_is_found():
    def evidence(scale):
        tops = np.array([0.01, 3.0])
        return np.log(np.exp(-5.0 * np.log(scale / tops) ** 2) @ [1.0, 2.0])

    assert best_scale(evidence).scale == pytest.approx(3.0, rel=0.02)


@pytest.mark.parametrize("y, end", [(0.5, LOW), (1e5, HIGH)])
def test_an_optimum_at_a_bound_is_doubted(y, end):
    # mean y^2 < 1 wants scale 0, mean y^2 = 1e10 a scale of 1e5.
    choice = best_scale(conjugate(np.full(50, y)))
    assert f"to {end:g}, the end" in choice.warning
    assert abs(np.log(choice.scale / end)) < 3.0
    other = HIGH if end == LOW else LOW
    assert f"{other:g}" not in choice.warning


def test_a_flat_evidence_is_doubted_at_both_ends():
    choice = best_scale(lambda scale: 0.3 * np.sin(np.log(scale)))
    assert f"to {LOW:g} or {HIGH:g}" in choice.warning


def test_scales_whose_evidence_fails_are_passed_over():
    exact = conjugate(np.full(5000, 2.0))
    choice = best_scale(lambda scale: exact(scale) if scale < 20.0 else np.nan)
    assert choice.scale == pytest.approx(np.sqrt(3.0), rel=0.02)
    with pytest.raises(ValueError, match="not finite at any scale"):
        best_scale(lambda scale: -np.inf)


class Blocks:
    """Each feature has rows of its own, so the evidence is a product of integrals on a line."""

    def __init__(self, p=6, n=40):
        rng = np.random.default_rng(3)
        coefficients = 1.5 * rng.standard_normal(p)
        self.X = np.kron(np.eye(p), np.ones((n, 1))) * rng.standard_normal((p * n, 1))
        positive = rng.random(p * n) < expit(self.X @ coefficients)
        self.batches = [Batch(self.X, np.where(positive, 1.0, -1.0), np.ones(p * n))]
        self.grid = np.linspace(-40.0, 40.0, 40_001)
        z = self.X.sum(axis=1) * self.batches[0].y
        table = -np.logaddexp(0.0, -np.multiply.outer(z, self.grid))
        self.log_likelihood = table.reshape(p, n, -1).sum(axis=1)

    def evidence(self, density):
        values = np.exp(self.log_likelihood) * density(self.grid)
        return np.log(values.sum(axis=1) * (self.grid[1] - self.grid[0])).sum()


@pytest.mark.slow_but("laplace")
@pytest.mark.parametrize(
    "prior, density",
    [
        (NormalPrior, lambda scale: stats.norm(scale=scale)),
        (LaplacePrior, lambda scale: stats.laplace(scale=scale)),
        (lambda scale: StudentTPrior(scale, 4.0), lambda scale: stats.t(4.0, scale=scale)),
    ],
    ids=["normal", "laplace", "student"],
)
def test_the_scale_of_a_logistic_model(prior, density):
    # The evidence is known to 0.01 from 2000 draws, the same at every scale, so its top is off by
    # far less than the 0.5 or so of the log scale over which it falls by that much.
    problem = Blocks()

    def exact(log_scale):
        return problem.evidence(density(np.exp(log_scale)).pdf)

    top = minimize_scalar(lambda u: -exact(u), bounds=(-2.0, 3.0), method="bounded")

    def make_model(scale):
        return LogisticModel(prior(np.full(6, scale)), fit_intercept=False)

    rng = np.random.default_rng(0)
    choice = scale_by_evidence(make_model, problem.batches, 2000, rng)
    assert np.log(choice.scale) == pytest.approx(top.x, abs=0.1)
    assert choice.log_evidence == pytest.approx(-top.fun, abs=0.03)
    assert exact(np.log(choice.scale)) == pytest.approx(-top.fun, abs=0.005)
    assert choice.warning == ""
