"""The contract of a model, by the example of its own text, and priors."""

import numpy as np
import pytest
from scipy.special import gammaln

from skpmd._rows.rows import Rows
from skpmd.engine.diagnostics import log_evidence
from skpmd.engine.loop import Options, run
from skpmd.engine.model import Model
from skpmd.engine.particles import draw_prior, moments

# ----------------------------------------------------------------------------- prior


# ----------------------------------------------------------------------------- contract
class Poisson(Model):
    """Counts with rate exp(theta), theta ~ N(0, 1), as in the contract's own text."""

    def sample_prior(self, rng, m):
        return rng.standard_normal((m, 1))

    def log_prior(self, theta):
        return -0.5 * theta[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)

    def log_likelihood(self, theta, batch):
        per_row = np.outer(theta[:, 0], batch.y) - np.exp(theta) - gammaln(batch.y + 1)
        return per_row @ batch.weight


def poisson_rows(batch_size):
    y = np.random.default_rng(0).poisson(3.0, 40).astype(float)
    return Rows(np.zeros((40, 1)), y, None, batch_size)


def exact_poisson():
    """Posterior mean, variance and log evidence on a grid."""
    grid = np.linspace(-2.0, 4.0, 20_001)
    theta = grid[:, None]
    log_joint = Poisson().log_prior(theta) + Poisson().log_likelihood(theta, poisson_rows(40).data)
    log_z = np.logaddexp.reduce(log_joint) + np.log(grid[1] - grid[0])
    mass = np.exp(log_joint - log_z) * (grid[1] - grid[0])
    mean = mass @ grid
    return mean, mass @ (grid - mean) ** 2, log_z


def test_three_methods_make_a_model():
    # The certificate: about 2000 effective particles, so 4.5 standard errors are 0.1 sds of the
    # mean, 14 % of the variance and 0.1 in the log evidence.
    rows, rng = poisson_rows(10), np.random.default_rng(0)
    start = draw_prior(Poisson(), 3000, rng)
    outcome = run(Poisson(), rows, start, Options(n_particles=3000), rng)
    mean, variance, log_z = exact_poisson()
    found_mean, found_cov = moments(outcome.particles.theta, outcome.particles.log_ratio)
    assert abs(found_mean[0] - mean) < 0.1 * np.sqrt(variance)
    assert found_cov[0, 0] == pytest.approx(variance, rel=0.14)
    assert log_evidence(outcome.particles.log_ratio)[0] == pytest.approx(log_z, abs=0.1)


@pytest.mark.parametrize("method", ["sample_prior", "log_prior", "log_likelihood", "statistics"])
def test_a_model_without_a_method_says_so(method):
    arguments = {"log_prior": 1, "statistics": 3}.get(method, 2)
    with pytest.raises(NotImplementedError):
        getattr(Model(), method)(*[None] * arguments)
