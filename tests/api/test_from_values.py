"""Fits of `ParticleMirrorDescent` from proposals that are fitted to values, against exact answers.

Tolerances are those of 4000 draws of the effective share that is asserted: a mean errs by
1 / sqrt(ESS) sds, taken three times over, and a sd by 0.7 of that where tails are normal.
"""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import t as student

from skpmd import ParticleMirrorDescent

ROW = np.zeros((1, 1))
LOG_TWO_PI = np.log(2.0 * np.pi)


def wide_normal(d, scale):
    """Log density and sampler of N(0, scale^2 I)."""

    def log_prior(theta):
        return -0.5 * ((theta / scale) ** 2).sum(axis=1) - d * (np.log(scale) + 0.5 * LOG_TWO_PI)

    return log_prior, lambda rng, m: scale * rng.standard_normal((m, d))


def fitted(target, log_prior, sample_prior, seed=0, **params):
    """A fit whose posterior is the target, normalised: its log evidence is 0."""

    def log_likelihood(theta, X, y):
        return target(theta) - log_prior(theta)

    params = {"n_particles": 4000, "random_state": seed, **params}
    return ParticleMirrorDescent(log_likelihood, log_prior, sample_prior, **params).fit(ROW)


def check(model, mean, sd, least_ess, method="importance reweighting"):
    posterior = model.posterior_
    assert model.diagnostics_["method"].startswith(method)
    assert posterior.ess > least_ess and posterior.pareto_k < 0.7
    error = 3.0 / np.sqrt(least_ess)
    assert np.abs((posterior.mean() - mean) / sd).max() < error
    assert np.abs(posterior.std() / sd - 1.0).max() < error
    assert abs(model.log_evidence_) < error


@pytest.mark.parametrize("seed", [0, 1])
def test_badly_conditioned_normal(seed):
    d = 30
    rng = np.random.default_rng(0)
    axes, sds = np.linalg.qr(rng.standard_normal((d, d)))[0], np.logspace(-3.0, 0.0, d)
    mean = rng.standard_normal(d)

    def target(theta):
        z = ((theta - mean) @ axes) / sds
        return -0.5 * (z**2).sum(axis=1) - np.log(sds).sum() - 0.5 * d * LOG_TWO_PI

    model = fitted(target, *wide_normal(d, 10.0), seed)
    check(model, mean, np.sqrt(axes**2 @ sds**2), 2500)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_modes_of_unequal_mass_and_width(seed):
    means = np.array([[-3.0, 0.0], [3.0, 1.0], [0.0, 4.0], [5.0, 5.0]])
    sds, mass = np.array([0.7, 0.5, 0.6, 0.2]), np.array([0.4, 0.3, 0.2, 0.1])

    def target(theta):
        squared = ((theta[:, None] - means) ** 2).sum(axis=2) / sds**2
        return np.logaddexp.reduce(
            np.log(mass) - 0.5 * squared - 2 * np.log(sds) - LOG_TWO_PI, axis=1
        )

    model = fitted(target, *wide_normal(2, 5.0), seed)
    mean = mass @ means
    sd = np.sqrt(mass @ (means**2 + sds[:, None] ** 2) - mean**2)
    check(model, mean, sd, 3500)
    assert model.diagnostics_["disagreement"] is None
    in_last = model.posterior_.weights @ (
        np.linalg.norm(model.posterior_.particles - 5.0, axis=1) < 1
    )
    assert in_last == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_curved_posterior_takes_steps(seed):
    """A banana, whose proposals at its mode fail: mirror steps take it from there."""

    def target(theta):
        x, y = theta.T
        return -0.5 * x**2 - 0.5 * (y - x**2 + 1.0) ** 2 / 0.25 - np.log(0.5) - LOG_TWO_PI

    model = fitted(target, *wide_normal(2, 5.0), seed)
    check(model, [0.0, 0.0], np.sqrt([1.0, 2.25]), 3000, method="mirror steps on all data")
    assert model.history_["rejuvenations"].sum() > 0


def test_a_ring_has_a_mode_everywhere():
    """A dozen of them, side by side, are proposals of it."""

    def target(theta):
        radius = np.linalg.norm(theta, axis=1)
        return (
            -0.5 * ((radius - 3.0) / 0.2) ** 2 - np.log(2.0 * np.pi * 3.0 * 0.2) - 0.5 * LOG_TWO_PI
        )

    model = fitted(target, *wide_normal(2, 3.0))
    sd = np.sqrt(0.5 * (9.0 + 3.0 * 0.04))
    check(model, [0.0, 0.0], [sd, sd], 1500)


def test_heavy_tails():
    def target(theta):
        return student.logpdf(theta, 5.0).sum(axis=1)

    log_prior = lambda theta: student.logpdf(theta / 10.0, 2.0).sum(axis=1) - 2.0 * np.log(10.0)  # noqa: E731
    model = fitted(target, log_prior, lambda rng, m: 10.0 * rng.standard_t(2.0, (m, 2)))
    posterior = model.posterior_
    # Its fourth moment is three times that of a normal distribution: quantiles are asked for.
    for level in (0.05, 0.5, 0.95):
        below = (posterior.particles < student.ppf(level, 5.0)).T @ posterior.weights
        np.testing.assert_allclose(below, level, atol=0.02)
    assert abs(model.log_evidence_) < 0.03


@pytest.mark.parametrize(
    "params",
    [
        {"proposal": "prior"},
        {"reweight": False},
        {"average": True},
        {"rejuvenation": "always"},
        {"particle_growth": 0.1},
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_asks_for_steps_from_the_prior_gets_them(params):
    def target(theta):
        return -0.5 * (theta[:, 0] - 1.0) ** 2 - 0.5 * LOG_TWO_PI

    model = fitted(target, *wide_normal(1, 2.0), n_particles=200, **params)
    assert model.diagnostics_["method"] == "mirror steps from prior"
    assert model.n_iter_ == model.max_iter


def test_final_particles_are_the_draws_of_a_round():
    def target(theta):
        return -0.5 * (theta[:, 0] - 1.0) ** 2 - 0.5 * LOG_TWO_PI

    model = fitted(target, *wide_normal(1, 2.0), n_particles=100, final_particles=500)
    assert len(model.posterior_.particles) == 500


@pytest.mark.parametrize("seed", [0, 1])
def test_label_switching(seed):
    """Four components without order: twenty-four equal modes in four dimensions."""
    centres = np.array([-6.0, -2.0, 2.0, 6.0])
    modes = np.array(list(permutations(centres)))

    def target(theta):
        squared = ((theta[:, None] - modes) ** 2).sum(axis=2) / 0.5**2
        constant = np.log(24.0) + 4 * np.log(0.5) + 2 * LOG_TWO_PI
        return np.logaddexp.reduce(-0.5 * squared, axis=1) - constant

    model = fitted(target, *wide_normal(4, 5.0), seed)
    check(model, np.zeros(4), np.sqrt(np.mean(centres**2) + 0.25), 3000)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_proposals_that_miss_modes_are_not_believed():
    """More modes than searches: the draws of the prior are what is left."""
    grid = np.stack(np.meshgrid(*[np.linspace(-4.0, 4.0, 9)] * 2), axis=-1).reshape(-1, 2)

    def target(theta):
        squared = ((theta[:, None] - grid) ** 2).sum(axis=2) / 0.1**2
        return np.logaddexp.reduce(-0.5 * squared, axis=1) - np.log(81 * 0.01) - LOG_TWO_PI

    model = fitted(target, *wide_normal(2, 4.0))
    assert model.diagnostics_["method"] == "mirror steps on all data from prior"
    warned = bool(model.diagnostics_["warnings"])
    assert warned or abs(model.log_evidence_) < 0.2


def test_a_model_may_be_asked_where_it_has_no_number():
    """Searches go where no draw of the prior is: what is nan there is no error."""

    def log_likelihood(theta, X, y):
        value = -0.1 * theta[:, 0]
        return np.where(np.abs(theta).max(axis=1) > 60.0, np.nan, value)

    log_prior, sample_prior = wide_normal(2, 3.0)
    for seed in range(3):
        model = ParticleMirrorDescent(log_likelihood, log_prior, sample_prior, random_state=seed)
        assert abs(model.fit(ROW).posterior_.mean()[0] + 0.9) < 0.3


def test_a_call_gets_no_more_points_than_there_are_particles():
    most = []

    def log_likelihood(theta, X, y):
        most.append(len(theta))
        return -0.5 * ((theta - 1.0) ** 2).sum(axis=1)

    ParticleMirrorDescent(
        log_likelihood, *wide_normal(20, 2.0), n_particles=300, random_state=0
    ).fit(ROW)
    assert max(most) == 300


def test_ctrl_c_between_the_segments_of_a_step_keeps_what_is_complete():
    count, last = iter(range(10**6)), [None]

    def log_likelihood(theta, X, y):
        if next(count) == last[0]:
            raise KeyboardInterrupt
        x, z = theta.T  # A narrow curve, to which no proposals fit.
        return -0.5 * (z - x**2) ** 2 / 0.01

    params = {"n_particles": 300, "random_state": 0}
    functions = log_likelihood, *wide_normal(2, 3.0)
    whole = ParticleMirrorDescent(*functions, **params).fit(ROW)
    assert whole.diagnostics_["method"] == "mirror steps on all data from prior"
    last[0] = 2 * next(count) - 4  # The same calls again, short of the last ones.
    model = ParticleMirrorDescent(*functions, **params)
    with pytest.raises(KeyboardInterrupt):
        model.fit(ROW)
    assert model.diagnostics_["interrupted"] and len(model.posterior_.particles) >= 300
    assert "interrupted" in model.diagnostics_["warnings"][-1]
