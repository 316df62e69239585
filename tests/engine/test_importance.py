"""References: normalised densities, draws that follow them, and mixtures that weigh a posterior."""

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal

from skpmd.engine import importance
from skpmd.engine.importance import (
    Proposal,
    ProposalDraws,
    disagreement,
    draw,
    even_counts,
    log_density,
)
from skpmd.engine.model import Batch, Model
from skpmd.proposals.importance_rounds import Until, proposal_rounds

FACTOR = np.array([[1.5, 0.0], [0.6, 0.8]])


def skewed_reference(d, df=np.inf, epsilon=0.7, scale=1.2):
    """A reference that leans along its last axis."""
    centre, spread, _ = importance._sinh_arcsinh_moments(np.array([epsilon]))
    mean = np.array([0.5, -1.0])[:d]
    return Proposal(
        mean,
        FACTOR[:d, :d],
        df,
        np.array([d - 1]),
        np.array([epsilon]),
        np.array([scale]),
        centre,
        spread,
    )


def normal_reference(mean, sd):
    return Proposal(np.atleast_1d(float(mean)), np.atleast_2d(float(sd)))


REFERENCES = {
    "normal": lambda d: Proposal(np.array([0.5, -1.0])[:d], FACTOR[:d, :d]),
    "Student": lambda d: Proposal(np.array([0.5, -1.0])[:d], FACTOR[:d, :d], 5.0),
    "skewed": skewed_reference,
    "skewed to the left": lambda d: skewed_reference(d, epsilon=-1.1),
    "skewed Student": lambda d: skewed_reference(d, df=5.0),
}
every_reference = pytest.mark.parametrize("kind", REFERENCES)


def independent_draws(reference, n, seed=0):
    """One of each antithetic pair."""
    return draw(reference, 2 * n, np.random.default_rng(seed))[::2]


# A grid that is fine in the middle and reaches far: theta = sinh of an even grid.
STRETCHED = np.sinh(np.linspace(-14.0, 14.0, 40_001))
STRETCHED_WEIGHT = np.cosh(np.linspace(-14.0, 14.0, 40_001)) * (28.0 / 40_000)


# ----------------------------------------------------------------------------- one reference
@every_reference
def test_density_integrates_to_one_on_a_line(kind):
    density = np.exp(log_density(REFERENCES[kind](1), STRETCHED[:, None]))
    assert density @ STRETCHED_WEIGHT == pytest.approx(1.0, abs=1e-9)


@every_reference
def test_draws_follow_the_density_on_a_line(kind):
    # Kolmogorov-Smirnov of 20000 independent draws against the integrated density; p > 0.001.
    reference = REFERENCES[kind](1)
    density = np.exp(log_density(reference, STRETCHED[:, None]))
    cdf = np.cumsum(density * STRETCHED_WEIGHT)
    draws = independent_draws(reference, 20_000)[:, 0]
    assert kstest(draws, lambda x: np.interp(x, STRETCHED, cdf)).pvalue > 1e-3


@every_reference
def test_draws_weighted_to_another_density_average_to_one(kind, d=2):
    # E[other / density] = 1 under the reference. The other density is a narrow normal, so the
    # ratio is bounded; the tolerance is 4.5 standard errors of the mean of 20000.
    reference = REFERENCES[kind](d)
    other = multivariate_normal(reference.mean, 0.3 * FACTOR[:d, :d] @ FACTOR[:d, :d].T)
    draws = independent_draws(reference, 20_000)
    ratio = np.exp(other.logpdf(draws) - log_density(reference, draws))
    assert abs(ratio.mean() - 1.0) < 4.5 * ratio.std() / np.sqrt(len(ratio))


@pytest.mark.parametrize("epsilon", [-1.5, -0.4, 0.0, 0.9])
@pytest.mark.parametrize("scale", [0.7, 1.3])
def test_a_skewed_axis_keeps_its_mean_and_has_its_scale(epsilon, scale):
    # Moments by quadrature on the stretched grid.
    reference = skewed_reference(1, epsilon=epsilon, scale=scale)._replace(
        mean=np.zeros(1), factor=np.eye(1)
    )
    mass = np.exp(log_density(reference, STRETCHED[:, None])) * STRETCHED_WEIGHT
    assert mass @ STRETCHED == pytest.approx(0.0, abs=1e-6)
    assert np.sqrt(mass @ STRETCHED**2) == pytest.approx(scale, rel=1e-6)
    assert np.sign(np.round(mass @ STRETCHED**3, 6)) == np.sign(epsilon)


# ----------------------------------------------------------------------------- mixtures
class Flat(Model):
    def log_prior(self, theta):
        return np.zeros(len(theta))


def draw_mixture(proposals, shares, n, rng):
    """Draws from a mixture of proposals, and its log density there."""
    strategy = ProposalDraws(proposals, even_counts(np.array(shares), n))
    particles = strategy(None, Flat(), None, rng).particles
    return particles.theta, particles.log_pi


@pytest.mark.parametrize("n", [2, 10, 11, 1000])
@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.5), (0.6, 0.2, 0.1, 0.1), (1e-3, 0.999)])
def test_counts_are_even_and_follow_the_shares(n, shares):
    counts = even_counts(np.array(shares), n)
    assert counts.sum() == n + n % 2
    assert (counts % 2 == 0).all() and (counts >= 0).all()
    assert (np.abs(counts - np.array(shares) * counts.sum()) < 2).all()


def test_a_mixtures_density_is_that_of_its_draws():
    proposal_components = [REFERENCES["normal"](2), REFERENCES["skewed Student"](2)]
    theta, log_pi = draw_mixture(proposal_components, (0.7, 0.3), 1000, np.random.default_rng(0))
    expected = np.log(
        0.7 * np.exp(log_density(proposal_components[0], theta))
        + 0.3 * np.exp(log_density(proposal_components[1], theta))
    )
    assert theta.shape == (1000, 2)
    np.testing.assert_allclose(log_pi, expected, rtol=1e-10)


# ----------------------------------------------------------------------------- rounds of weights
NO_ROWS = [Batch(None, None, np.empty(0))]


class NormalPosterior(Model):
    """Two-dimensional: prior N(0, I), likelihood with a known evidence, posterior N(mean, cov)."""

    mean = np.array([0.7, -0.3])
    cov = np.array([[0.2, 0.1], [0.1, 0.3]])
    log_z = -42.0

    def log_prior(self, theta):
        return multivariate_normal([0, 0], np.eye(2)).logpdf(theta)

    def log_likelihood(self, theta, batch=None):
        posterior = multivariate_normal(self.mean, self.cov).logpdf(theta)
        return self.log_z + posterior - self.log_prior(theta)

    def proposals(self):
        wide = np.linalg.cholesky(1.5 * self.cov)
        return [Proposal(self.mean + 0.2, wide), Proposal(self.mean - 0.1, wide, 5.0)]

    def rounds(self, proposals=None, n=2000, max_rounds=3, target=np.inf, seed=0):
        """All draws, and the effective sample size after each round."""
        proposals, rng = proposals or self.proposals(), np.random.default_rng(seed)
        found = list(
            proposal_rounds(
                self, NO_ROWS, (proposals, (0.8, 0.2)), 1.0, rng,
                Until(n, target, max_rounds=max_rounds),
            )
        )  # fmt: skip
        last, draws = found[-1]
        assert last.findings.disagreement == disagreement(draws)[0]
        assert all(one.findings.disagreement is None for one, _ in found[:-1])
        return draws, [one.infos[0].ess for one, _ in found]


def test_a_perfect_reference_has_no_spread():
    problem = NormalPosterior()
    perfect = Proposal(problem.mean, np.linalg.cholesky(problem.cov))
    draws, sizes = problem.rounds([perfect, perfect], n=100, target=100.0)
    np.testing.assert_allclose(draws.particles.log_ratio, problem.log_z, rtol=1e-12)
    assert sizes == [pytest.approx(100.0)]


def test_the_ratio_is_against_the_mixture_of_all_rounds():
    problem = NormalPosterior()
    proposal_components = problem.proposals()
    draws, _ = problem.rounds(proposal_components, n=500)
    particles = draws.particles
    share = np.bincount(draws.source, minlength=2) / len(particles.theta)
    mixture = np.log(
        sum(
            s * np.exp(log_density(r, particles.theta))
            for s, r in zip(share, proposal_components, strict=True)
        )
    )
    joint = problem.log_prior(particles.theta) + problem.log_likelihood(particles.theta)
    np.testing.assert_allclose(particles.log_pi, mixture, rtol=1e-10)
    np.testing.assert_allclose(particles.log_ratio, joint - mixture, rtol=1e-10)
    np.testing.assert_allclose(particles.log_prior, problem.log_prior(particles.theta), rtol=1e-12)


@pytest.mark.parametrize("target, expected", [(1.0, 1), (np.inf, 4)])
def test_rounds_stop_at_the_target(target, expected):
    draws, sizes = NormalPosterior().rounds(n=300, max_rounds=4, target=target)
    assert len(sizes) == expected
    assert len(draws.particles.theta) == 300 * expected
    assert len(draws.pair) == len(draws.source) == 300 * expected
    np.testing.assert_array_equal(np.bincount(draws.pair), np.full(150 * expected, 2))


def test_a_better_reference_gets_a_larger_share():
    problem = NormalPosterior()
    good = Proposal(problem.mean, np.linalg.cholesky(problem.cov))
    bad = Proposal(problem.mean + 5.0, np.linalg.cholesky(problem.cov))
    source = problem.rounds([bad, good], n=1000, max_rounds=4)[0].source
    shares = [np.mean(part == 1) for part in np.split(source, 4)]
    assert shares[0] == 0.2 and shares[-1] > 0.9
    assert min(1.0 - np.array(shares)) >= 0.04  # no reference is ever dropped


def test_a_reference_that_knows_one_mode_only_disagrees():
    # The posterior has two modes. One reference sits in one of them: alone, its weights are
    # perfect and its mean is wrong by a posterior sd, at about sqrt(n) standard errors.
    proposal_components = [normal_reference(0.0, 5.0), normal_reference(4.0, 1.0)]
    left, right = (multivariate_normal([centre], [[1.0]]) for centre in (-4.0, 4.0))

    class TwoModes(Flat):
        def log_likelihood(self, theta, batch):
            return np.logaddexp(left.logpdf(theta), right.logpdf(theta)) - np.log(2)

    rng, until = np.random.default_rng(0), Until(2000, np.inf, max_rounds=1)
    mixture = proposal_components, (0.5, 0.5)
    ((outcome, _),) = proposal_rounds(TwoModes(), NO_ROWS, mixture, 1.0, rng, until)
    assert outcome.findings.disagreement > 10.0


def test_a_reference_with_few_effective_draws_has_no_say():
    problem = NormalPosterior()
    far = Proposal(problem.mean + 6.0, np.linalg.cholesky(problem.cov))
    proposal_components = [*problem.proposals()[:1], far]
    draws, _ = problem.rounds(proposal_components)
    assert disagreement(draws)[0] < 4.5
