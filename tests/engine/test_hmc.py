"""Hamiltonian moves against posteriors whose moments are known."""

import numpy as np
import pytest
from scipy.special import expit, log_expit

from skpmd.engine.diagnostics import ess_mean, rank_diagnostics
from skpmd.engine.variational import Gaussian
from skpmd.proposals import hmc
from skpmd.proposals.hmc import N_CHAINS, _diagnose


def hamiltonian(gradient, start, mean, chol, rng, *, target_ess, max_iter=hmc.MAX_ITER, **more):
    """Chains that follow a gradient and whatever else a `Target` has."""
    return hmc.hamiltonian(
        hmc.Target(gradient, **more), start, Gaussian(mean, chol), rng,
        target_ess=target_ess, max_iter=max_iter,
    )  # fmt: skip


def normal_target(mean, cov):
    precision = np.linalg.inv(cov)

    def log_joint_gradient(theta):
        centred = theta - mean
        gradient = -centred @ precision
        return 0.5 * np.einsum("ij,ij->i", centred, gradient), gradient

    return log_joint_gradient


def correlated(d, seed=0):
    rng = np.random.default_rng(seed)
    factor = np.eye(d) + 0.5 * rng.standard_normal((d, d))
    return rng.normal(0, 3, d), factor @ factor.T


@pytest.mark.parametrize("d", [1, 40])
@pytest.mark.parametrize("known", [True, False])
def test_moments_of_a_normal(d, known):
    # The whitening is the target's own, or the identity: the warm-up has to find it. Errors of the
    # mean are 1 / sqrt(ess) of an sd; the largest of 40 is below 4.5 of these with 0.9997.
    mean, cov = correlated(d)
    rng = np.random.default_rng(1)
    chol = np.linalg.cholesky(cov) if known else np.eye(d)
    centre = mean if known else np.zeros(d)
    start = centre + rng.standard_normal((N_CHAINS, d)) @ chol.T
    *_, chains = hamiltonian(normal_target(mean, cov), start, centre, chol, rng, target_ess=2000)
    draws = chains.draws.reshape(-1, d)
    sd = np.sqrt(np.diag(cov))
    assert chains.r_hat < 1.02 and chains.ess >= 2000
    assert np.abs((draws.mean(axis=0) - mean) / sd).max() < 4.5 / np.sqrt(2000)
    # Squares have an effective size of their own: 0.1 holds for 1000 of them and more.
    assert np.abs(draws.std(axis=0) / sd - 1).max() < 0.1


def test_chains_that_cannot_meet_are_not_certified_and_end_at_the_first_look():
    """Two modes 20 sds apart, half of the chains in each. A thousand iterations more took minutes
    where steps are short."""

    def log_joint_gradient(theta):
        near = np.where(theta > 0, 10.0, -10.0)
        return -0.5 * ((theta - near) ** 2).sum(axis=1), near - theta

    rng = np.random.default_rng(0)
    start = rng.standard_normal((N_CHAINS, 2)) + 10 * np.sign(rng.standard_normal((N_CHAINS, 1)))
    *_, chains = hamiltonian(
        log_joint_gradient, start, np.zeros(2), np.eye(2), rng, target_ess=500, max_iter=100
    )
    assert chains.draws.shape == (N_CHAINS, 50, 2)
    assert chains.r_hat > 1.4  # At 50 of 100 iterations there is no hope from here on.


def test_jumps_join_modes_that_trajectories_do_not():
    """Two modes on the positive line, of weights 1 : 3, a factor of 1000 apart."""
    log_centre, share = np.log([1.0, 1000.0]), np.array([0.25, 0.75])

    def log_joint_gradient(theta):
        # Each mode normal in log theta, sd 0.1; the density in theta has a 1 / theta.
        log = np.log(np.maximum(theta, 1e-300))
        parts = np.log(share) - 0.5 * ((log - log_centre) / 0.1) ** 2
        value = np.logaddexp(parts[:, 0], parts[:, 1])
        slope = (np.exp(parts - value[:, None]) * (log_centre - log) / 0.01).sum(axis=1) - 1.0
        inside = theta[:, 0] > 0
        gradient = np.where(inside, slope / np.where(inside, theta[:, 0], 1.0), 0.0)
        return np.where(inside, value - log[:, 0], -np.inf), gradient[:, None]

    def jump(theta, rng):
        by = np.where(rng.random(len(theta)) < 0.5, 1.0, -1.0) * np.log(1000.0)
        return theta * np.exp(by)[:, None], by

    rng = np.random.default_rng(0)
    start = np.exp(rng.choice(log_centre, (N_CHAINS, 1)))
    *_, chains = hamiltonian(
        log_joint_gradient, start, np.zeros(1), np.eye(1), rng,
        target_ess=np.inf, jump=jump, max_iter=300,
    )  # fmt: skip
    # A jump succeeds half of the time and forgets the mode: 9600 draws, sd of the share 0.007.
    assert abs((chains.draws > 30).mean() - 0.75) < 0.035


def test_the_certificate_covers_means_and_variances_of_what_is_shown():
    target = normal_target(np.zeros(1), np.eye(1))
    for shown in (None, np.exp):
        rng = np.random.default_rng(0)
        start = rng.standard_normal((N_CHAINS, 1))
        *_, chains = hamiltonian(
            target, start, np.zeros(1), np.eye(1), rng, target_ess=500, shown=shown
        )
        values = chains.draws if shown is None else shown(chains.draws)
        ranks = np.array([rank_diagnostics(one) for one in (chains.draws, values)])
        squares = (values - values.mean()) ** 2
        assert chains.r_hat == ranks[:, 0].max()
        sizes = [ess_mean(values), ess_mean(squares), *ranks[:, 1:].ravel()]
        assert chains.ess == np.min(np.hstack(sizes)) >= 500
        assert chains.ess < ess_mean(chains.draws).min()  # a quarter period: means are easy


def test_chains_have_to_mix_in_what_they_move_in_too():
    """A coordinate that is not shown, and in which two groups of chains do not meet."""
    draws = np.random.default_rng(0).standard_normal((N_CHAINS, 400, 2))
    draws[::2, :, 1] += 10.0
    assert _diagnose(draws, lambda theta: theta[:, :1])[0] > 1.05
    assert _diagnose(draws[:, :, :1], lambda theta: theta)[0] < 1.01


@pytest.mark.slow
def test_the_work_of_short_steps_is_bounded():
    """Half a normal beside a cliff of 1e4, where draws are never enough."""

    def log_joint_gradient(theta):
        z = theta[:, 0]
        return -0.5 * z**2 + log_expit(-1e4 * z), (-z - 1e4 * expit(1e4 * z))[:, None]

    rng = np.random.default_rng(0)
    start = -np.abs(rng.standard_normal((N_CHAINS, 1)))
    n_taken = [
        chains.n_gradients
        for chains in hamiltonian(
            log_joint_gradient, start, np.zeros(1), np.eye(1), rng, target_ess=1e9
        )
    ]
    assert 10_000 < n_taken[-1] < 60_000
