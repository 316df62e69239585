"""Posteriors drawn at random: references against independent importance sampling, and the seeds."""

import numpy as np
import pytest
from scipy import special, stats

pytest.importorskip("examples.benchmarks.harness.study", reason="examples are not installed")
from examples.benchmarks.general import honesty, honesty_generated  # noqa: E402
from examples.benchmarks.general.honesty_generator import (  # noqa: E402
    blocked,
    log_normal_between,
    normal_between,
    reached,
)
from examples.benchmarks.general.honesty_truth import errors, truth  # noqa: E402

KERNELS, DOF = 200, 5.0
# A seed of each family whose posterior has few coordinates.
SMALL = {
    "mixture": 2, "star": 2, "kinks": 2, "truncated": 0, "exponentials": 44, "change points": 18,
    "change of slope": 0, "robust": 10, "hierarchy": 2, "horseshoe": 34, "bounds": 18,
}  # fmt: skip


def weighted(drawn, rng, m=30_000):
    """Weighted draws of the functions that a fit gets, from a proposal that covers the posterior.

    A quarter are of the prior, so that a mode that the exact draws lack is seen where the prior
    sees it; the others are Student kernels at exact draws, as wide as the draws nearest to each.
    """
    exact, d = drawn.draws, drawn.draws.shape[1]
    some = exact[rng.choice(len(exact), 3000, replace=False)]
    unit = np.subtract(*np.quantile(some, [0.84, 0.16], axis=0))
    centres, factors = some[:KERNELS], []
    for centre in centres:
        order = (((some - centre) / unit) ** 2).sum(axis=1).argsort()
        near = np.cov(some[order[: 60 + 8 * d]].T).reshape(d, d)
        factors.append(np.linalg.cholesky(1.3 * near + np.diag((1e-6 * unit) ** 2)))
    factors, n_prior = np.array(factors), m // 4
    part, z = rng.integers(KERNELS, size=m - n_prior), rng.standard_normal((m - n_prior, d, 1))
    z /= np.sqrt(rng.chisquare(DOF, len(z)) / DOF)[:, None, None]
    theta = np.vstack(
        [drawn.sample_prior(rng, n_prior), centres[part] + (factors[part] @ z)[..., 0]]
    )
    with np.errstate(all="ignore"):
        log_prior = drawn.log_prior(theta)
    theta, log_prior = theta[log_prior > -np.inf], log_prior[log_prior > -np.inf]
    kernels = [
        stats.multivariate_t.logpdf(theta, centre, factor @ factor.T, DOF)
        for centre, factor in zip(centres, factors, strict=True)
    ]
    of_kernels = special.logsumexp(kernels, axis=0) - np.log(KERNELS)
    proposal = np.logaddexp(np.log(0.75) + of_kernels, np.log(0.25) + log_prior)
    log_joint = log_prior + blocked(lambda t: drawn.log_likelihood(t, drawn.X, drawn.y), theta)
    log_ratio = log_joint - proposal
    return theta, special.softmax(log_ratio), special.logsumexp(log_ratio) - np.log(m)


def agree(exact, theta, weights, log_evidence):
    """Whether all is within five standard errors of weighted draws; a probability's is < .5."""
    error, z = np.sqrt((weights**2).sum()), (theta - exact.mean) / exact.sd
    of_sd = 0.5 * np.sqrt(((weights[:, None] * (z**2 - 1.0)) ** 2).sum(axis=0).max())
    found = errors(exact, theta, weights, log_evidence)
    assert found.log_evidence < 5.0 * error
    if np.isnan(found.quantile):
        assert found.mean < 5.0 * error and found.sd < 5.0 * of_sd
    else:
        assert found.quantile < 2.5 * error


@pytest.mark.slow_but("truncated-0", "star-2")
@pytest.mark.parametrize(("family", "seed"), SMALL.items())
def test_references_are_what_independent_weights_say(family, seed):
    drawn = honesty_generated.generate(seed, family).drawn
    theta, weights, log_evidence = weighted(drawn, np.random.default_rng(seed))
    error = np.sqrt((weights**2).sum())  # Of a mean in sds, by the effective sample size.
    assert error < 0.025
    agree(truth(drawn.draws, drawn.log_evidence), theta, weights, log_evidence)


def test_a_seed_gives_one_posterior_and_halves_are_apart():
    first, again, other = (honesty_generated.generate(seed) for seed in (8, 8, 6))
    assert first.family == again.family and first.drawn.log_evidence == again.drawn.log_evidence
    np.testing.assert_array_equal(first.drawn.draws, again.drawn.draws)
    assert first.drawn.log_evidence != other.drawn.log_evidence
    assert not set(honesty_generated.DEVELOPMENT) & set(honesty_generated.KEPT)
    assert honesty_generated.develop(honesty_generated.KEPT[:3]) == []


def test_basins_of_a_grid_and_draws_of_the_prior_in_them():
    x = np.linspace(-8.0, 8.0, 801)
    cell = np.log(x[1] - x[0])
    prior = stats.norm.logpdf(x, scale=3.0)
    parts = stats.norm.logpdf(x, -2.0, 0.5), stats.norm.logpdf(x, 3.0, 0.5) + np.log(0.5)
    value = np.logaddexp(*parts)
    # The border is in the middle, where the two are alike but for the factor.
    border = x[(x > -2.0) & (x < 3.0)][value[(x > -2.0) & (x < 3.0)].argmin()]
    share = stats.norm.sf(border, scale=3.0) - stats.norm.sf(8.0, scale=3.0)
    assert reached(value, value + cell, prior + cell) == pytest.approx(4000.0 * share, rel=0.02)
    # A mode of less than a hundredth does not count; in the plane ridges are followed.
    light = np.logaddexp(parts[0], parts[1] - 6.0)
    assert reached(light, light + cell, prior + cell) > 2000.0
    plane = value[:, None] + stats.norm.logpdf(x, scale=0.3)
    both = [(own + 2.0 * cell).ravel() for own in (plane, prior[:, None] + prior)]
    assert reached(plane, *both) == pytest.approx(4000.0 * share * 0.992, rel=0.02)


def test_truncated_normals_in_both_tails():
    rng, ends = np.random.default_rng(0), np.array([[-9.0, -8.0], [-1.0, 0.5], [7.0, np.inf]])
    for low, high in ends:
        law = stats.truncnorm(low, high)
        z = normal_between(rng, np.full(20_000, low), np.full(20_000, high))
        assert stats.kstest(z, law.cdf).pvalue > 1e-3
        below = stats.norm.cdf([low, high]) if low < 0.0 else stats.norm.sf([low, high])
        mass = np.log(abs(below[1] - below[0]))
        assert log_normal_between(np.array(low), np.array(high)) == pytest.approx(mass, rel=1e-3)


def row(**changed):
    """A total of posteriors drawn at random."""
    known = {"estimator": "custom", "setting": "generated", "shape": "all", "documented": True,
             "fits": 400, "right": 380, "wrong": 12, "silent": 1, "false_alarms": 11,
             "of_means": 0}  # fmt: skip
    return {**known, **changed}


def test_gates_of_posteriors_drawn_at_random():
    outside = row(documented=False, fits=5, silent=5)
    assert all(gate.met for gate in honesty._generated_gates([row(), outside]))
    for changed in (
        {"fits": 399}, {"silent": 3}, {"of_means": 1}, {"false_alarms": 12},
        {"wrong": 35},
    ):  # fmt: skip
        assert sum(not gate.met for gate in honesty._generated_gates([row(**changed)])) == 1


def test_quantiles_count_where_moments_do_not_exist_and_only_there():
    rng = np.random.default_rng(0)
    cauchy = truth(rng.standard_cauchy((200_000, 1)), 0.0)
    normal = truth(rng.standard_normal((200_000, 1)), 0.0)
    assert cauchy.by_quantiles and not normal.by_quantiles
    equal = np.full(4000, 1.0 / 4000)
    assert errors(cauchy, rng.standard_cauchy((4000, 1)), equal, 0.0).right
    assert errors(cauchy, 2.0 * rng.standard_cauchy((4000, 1)), equal, 0.0).wrong
    assert errors(normal, rng.standard_normal((4000, 1)), equal, 0.0).right
    assert errors(normal, rng.standard_normal((4000, 1)) + 0.3, equal, 0.0).wrong
    between = errors(normal, rng.standard_normal((4000, 1)) + 0.17, equal, 0.0)
    assert not between.right and not between.wrong
