"""Posteriors of which proposals at the optima miss a part with good weights, against exact answers.

What is found by steps from the prior is weighed together with them: each fit is right and says
nothing, for warnings are errors here. Tolerances are three standard errors of 400 effective draws
and more, .15 of a standard deviation; heavy tails of a standard deviation get .2.
"""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import cauchy, gamma, halfcauchy, norm
from sklearn.exceptions import ConvergenceWarning

from skpmd import ParticleMirrorDescent
from skpmd.proposals import fitted_proposals, from_values

ROW = np.zeros((1, 1))


def check(model, mean, sd, log_evidence=None, of_sd=0.2):
    posterior = model.posterior_
    assert np.abs((posterior.mean() - mean) / sd).max() < 0.15
    assert np.abs(posterior.std() / sd - 1.0).max() < of_sd
    if log_evidence is not None:
        error = 0.05 + 3.0 * posterior.log_evidence_se
        assert model.log_evidence_ == pytest.approx(log_evidence, abs=error)


@pytest.mark.slow_but("0")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_decay_with_a_long_tail(seed):
    """y = a + b exp(-k x): given k it is a linear regression, and log k is integrated on a grid."""
    x, sigma = np.linspace(0.0, 4.0, 18), 0.5
    y = 0.5 + 1.5 * np.exp(-0.7 * x) + sigma * np.random.default_rng(4).standard_normal(18)
    grid = np.linspace(-12.0, 12.0, 8001)
    design = np.stack([np.ones((len(grid), 18)), np.exp(-np.exp(grid)[:, None] * x)], axis=2)
    precision = np.einsum("mnk,mnl->mkl", design, design) / sigma**2 + np.eye(2) / 4.0
    covariance = np.linalg.inv(precision)
    means = np.einsum("mkl,mnl,n->mk", covariance, design, y) / sigma**2
    value = 0.5 * np.einsum("mk,mkl,ml->m", means, precision, means)
    value += 0.5 * np.linalg.slogdet(covariance)[1] - np.log(4.0) + norm.logpdf(grid, scale=2.0)
    value += norm.logpdf(y, scale=sigma).sum()
    w = np.exp(value - logsumexp(value))
    each = np.column_stack([grid, means])
    mean = w @ each
    within = np.append(0.0, w @ np.einsum("mkk->mk", covariance))
    sd = np.sqrt(w @ (each - mean) ** 2 + within)

    def log_likelihood(theta, X, targets):
        curve = theta[:, 1:2] + theta[:, 2:] * np.exp(-np.exp(theta[:, :1]) * x)
        return norm.logpdf(y, curve, sigma).sum(axis=1)

    prior = {"log_k": norm(0.0, 2.0), "a": norm(0.0, 2.0), "b": norm(0.0, 2.0)}
    model = ParticleMirrorDescent(log_likelihood, prior=prior, random_state=seed).fit(ROW)
    check(model, mean, sd, logsumexp(value) + np.log(grid[1] - grid[0]))


@pytest.mark.slow_but("0")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_errors_with_heavy_tails_and_a_second_group(seed):
    """Location and log scale of Cauchy errors, on a grid."""
    rng = np.random.default_rng(5)
    y = np.append(rng.normal(0.0, 1.0, 7), 18.0 + rng.normal(0.0, 0.5, 4))
    axes = np.linspace(-25.0, 35.0, 1001), np.linspace(-6.0, 6.0, 501)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)

    def log_likelihood(theta, X, targets):
        return cauchy.logpdf(y, theta[:, :1], np.exp(theta[:, 1:])).sum(axis=1)

    value = norm.logpdf(points[:, 0], 0.0, 15.0) + norm.logpdf(points[:, 1], 0.0, 1.5)
    value += np.concatenate([log_likelihood(part, 0, 0) for part in np.array_split(points, 50)])
    w = np.exp(value - logsumexp(value))
    mean = w @ points
    prior = {"location": norm(0.0, 15.0), "log_scale": norm(0.0, 1.5)}
    model = ParticleMirrorDescent(log_likelihood, prior=prior, random_state=seed).fit(ROW)
    cell = np.log([axis[1] - axis[0] for axis in axes]).sum()
    check(model, mean, np.sqrt(w @ (points - mean) ** 2), logsumexp(value) + cell)


@pytest.mark.slow_but("0")
@pytest.mark.parametrize("seed", [0, 1])
def test_an_edge_that_rows_set(seed):
    """A shifted exponential: given the shift the rate is gamma, and the shift ends at the least y.

    In the distance u from there the density is (1 + n u / (S - n least + 1))^-(n + 2), up to where
    the prior of the shift ends.
    """
    n = 300
    y = 2.0 + np.random.default_rng(3).exponential(0.8, n)
    least, total = y.min(), y.sum()

    def log_likelihood(theta, X, targets):
        inside = theta[:, 0] < least
        return np.where(
            inside, n * np.log(theta[:, 1]) - theta[:, 1] * (total - n * theta[:, 0]), -np.inf
        )

    u = np.linspace(0.0, 0.1, 400_001)
    rate = 1.0 + total - n * least + n * u
    w = (rate / rate[0]) ** -(n + 2.0)
    w /= w.sum()
    means = np.column_stack([least - u, (n + 2.0) / rate])
    mean = w @ means
    sd = np.sqrt(w @ (means - mean) ** 2 + np.array([0.0, w @ ((n + 2.0) / rate**2)]))
    prior = {"shift": norm(0.0, 5.0), "rate": gamma(2.0)}
    # A normal prior of the shift is flat over a hundredth.
    model = ParticleMirrorDescent(log_likelihood, prior=prior, random_state=seed).fit(ROW)
    check(model, mean, sd, of_sd=0.15)
    assert (model.posterior_.particles[:, 0] < least).all()


def bimodal(theta):
    """Two round normals in the plane, .6 and .4."""
    parts = [norm.logpdf(theta, place, 0.4).sum(axis=1) for place in (-1.5, 1.5)]
    return np.logaddexp(np.log(0.6) + parts[0], np.log(0.4) + parts[1])


def test_a_mode_that_searches_have_missed_comes_from_steps(monkeypatch):
    """All searches but the first are taken away, and what draws of the prior see as well."""
    search = fitted_proposals.optima

    def first_alone(*args, **kwargs):
        found, _, path = search(*args, **kwargs)
        return found[:1], True, (path[0][:0], path[1][:0])

    monkeypatch.setattr(fitted_proposals, "optima", first_alone)
    monkeypatch.setattr("skpmd.proposals.importance_rounds.misses", lambda *_: False)
    monkeypatch.setattr("skpmd.proposals.prior_draws.PriorDraws.agree", lambda *_: False)

    def log_prior(theta):
        return norm.logpdf(theta, scale=2.0).sum(axis=1)

    model = ParticleMirrorDescent(
        lambda theta, X, y: bimodal(theta) - log_prior(theta),
        log_prior,
        lambda rng, m: 2.0 * rng.standard_normal((m, 2)),
        random_state=0,
    ).fit(ROW)
    assert model.diagnostics_["method"].endswith("particles of steps")
    mean, sd = np.full(2, -0.3), np.full(2, np.sqrt(2.25 - 0.09 + 0.16))
    check(model, mean, sd, 0.0, of_sd=0.15)


@pytest.mark.slow
def test_steps_that_do_not_find_the_same_twice_are_warned_of(monkeypatch):
    """No proposals are fitted, and moves by which particles stay where they are lose most of them.

    The posterior is 1,000 times as narrow as the prior in each of four coordinates.
    """
    monkeypatch.setattr(from_values, "proposals_at_optima", lambda *_: iter(()))
    monkeypatch.setattr(from_values, "proposals_along_ridges", lambda *_: iter(()))
    monkeypatch.setattr(from_values, "mixtures_of_steps", lambda *_: iter(()))
    monkeypatch.setattr("skpmd.proposals.ensemble_moves.EnsembleMoves._move", lambda *_: None)

    def log_prior(theta):
        return norm.logpdf(theta, scale=10.0).sum(axis=1)

    with pytest.warns(ConvergenceWarning, match="the same steps taken again find"):
        ParticleMirrorDescent(
            lambda theta, X, y: norm.logpdf(theta, 1.0, 0.01).sum(axis=1),
            log_prior,
            lambda rng, m: 10.0 * rng.standard_normal((m, 4)),
            random_state=0,
        ).fit(ROW)


def test_even_weights_that_nothing_contradicts_are_enough(monkeypatch):
    """A normal posterior of many rows takes no further proposals, whatever the prior's width."""

    def refused(*_):
        raise AssertionError("steps are taken where all is plain")

    monkeypatch.setattr(from_values, "mixtures_of_steps", refused)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 4))
    y = X @ np.ones(4) + rng.standard_normal(150)

    def log_likelihood(theta, X, y):
        return norm.logpdf(y, theta @ X.T).sum(axis=1)

    covariance = np.linalg.inv(X.T @ X + np.eye(4) / 25.0)
    prior = {"slope": norm(np.zeros(4), 5.0)}
    model = ParticleMirrorDescent(log_likelihood, prior=prior, random_state=0).fit(X, y)
    check(model, covariance @ X.T @ y, np.sqrt(np.diag(covariance)), of_sd=0.15)


def test_few_particles_of_steps_contradict_what_is_half_an_sd_away(monkeypatch):
    """Two hundred particles know a mean to .07 sds if all of them are independent."""
    heard, confirmed = [], from_values.quickly_confirmed

    def listening(*args):
        heard.append(args)
        return confirmed(*args)

    monkeypatch.setattr("skpmd.proposals.prior_draws.PriorDraws.agree", lambda *_: False)
    monkeypatch.setattr(from_values, "quickly_confirmed", listening)
    ParticleMirrorDescent(
        lambda theta, X, y: norm.logpdf(theta, 1.0, 0.5).sum(axis=1),
        prior={"theta": norm(np.zeros(2), 2.0)}, random_state=0,
    ).fit(ROW)  # fmt: skip
    ((task, outcome, at_optima, _),) = heard
    sd = np.sqrt(1.0 / (1.0 / 0.25 + 1.0 / 4.0))
    for shift, expected in ((0.0, True), (0.5, False)):
        moved = outcome.particles._replace(theta=outcome.particles.theta + shift * sd)
        rng, other = np.random.default_rng(0), outcome._replace(particles=moved)
        assert confirmed(task, other, at_optima, rng) is expected


@pytest.mark.slow
def test_a_model_without_a_number_far_out_ends_with_the_particles_of_steps():
    """A binomial likelihood as it is often written: 0 log 0 is no number where it saturates.

    Proposals in units of the scale go there. A mixture that has met it is left out.
    """
    y, n = np.array([4.0, 0.0, 2.0]), 4.0

    def log_likelihood(theta, X, y_):
        with np.errstate(all="ignore"):
            p = 1.0 / (1.0 + np.exp(-theta[:, 2:]))
            return (y * np.log(p) + (n - y) * np.log(1.0 - p)).sum(axis=1)

    def log_prior(theta):
        effects = norm.logpdf(theta[:, 2:], theta[:, [0]], np.exp(theta[:, [1]]))
        return effects.sum(axis=1) + norm.logpdf(theta[:, :2]).sum(axis=1)

    def sample_prior(rng, m):
        first = rng.standard_normal((m, 2))
        effects = first[:, :1] + np.exp(first[:, 1:]) * rng.standard_normal((m, 3))
        return np.hstack([first, effects])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ParticleMirrorDescent(log_likelihood, log_prior, sample_prior, random_state=1).fit(
            ROW
        )
    assert np.isfinite(model.log_evidence_)


@pytest.mark.slow
def test_a_horseshoe_of_products():
    """No mixture fits it; two runs of steps are the answer, and their evidence is right.

    Effects are seen once each. Given the scales they are normal, and the evidence is a sum over
    grids, of the common scale and of an own one for each of its points.
    """
    y, error = np.array([6.0, -4.0, 5.0, 0.0, 0.2]), 0.5
    grid = np.linspace(-18.0, 18.0, 901)
    log = np.log(2.0 / np.pi) + grid - np.logaddexp(0.0, 2.0 * grid) + np.log(grid[1] - grid[0])
    of_sds = np.exp(2.0 * (grid[:, None] + grid))
    each = [log + norm.logpdf(one, 0.0, np.sqrt(error**2 + of_sds)) for one in y]
    sums = np.stack([logsumexp(one, axis=1) for one in each])
    total = log + sums.sum(axis=0)
    w = np.exp(total - logsumexp(total))
    shrunk = of_sds / (error**2 + of_sds)
    parts = [np.exp(one - sum_[:, None]) for one, sum_ in zip(each, sums, strict=True)]
    mean = np.array([w @ (p * shrunk).sum(axis=1) * one for p, one in zip(parts, y, strict=True)])
    square = [
        w @ (p * (shrunk**2 * one**2 + shrunk * error**2)).sum(axis=1)
        for p, one in zip(parts, y, strict=True)
    ]
    sd = np.sqrt(np.array(square) - mean**2)

    def effects(theta):
        return theta[:, :5] * theta[:, 5:10] * theta[:, 10:]

    def log_likelihood(theta, X, targets):
        return norm.logpdf(y, effects(theta), error).sum(axis=1)

    zeros = np.zeros(5)
    prior = {"z": norm(zeros, 1.0), "own": halfcauchy(zeros, 1.0), "common": halfcauchy(0.0, 1.0)}
    model = ParticleMirrorDescent(log_likelihood, prior=prior, random_state=0).fit(ROW)
    posterior = model.posterior_
    found = effects(posterior.particles)
    centre = posterior.weights @ found
    spread = np.sqrt(posterior.weights @ (found - centre) ** 2)
    assert np.abs((centre - mean) / sd).max() < 0.15
    assert np.abs(spread / sd - 1.0).max() < 0.15
    assert posterior.log_evidence_se < 0.2
    assert model.log_evidence_ == pytest.approx(logsumexp(total), abs=0.3)
