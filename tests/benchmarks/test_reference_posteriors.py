"""The models of the study ``posteriors``: priors that are what they draw, right likelihoods.

The likelihoods are compared, at particles that the prior draws, with SciPy's densities of the
reported numbers: coordinates, their order and the likelihood are then right together.
"""

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("examples.benchmarks", reason="examples are not installed")
from examples.benchmarks.paper import reference_posteriors as models  # noqa: E402
from examples.benchmarks.paper import reference_priors as priors  # noqa: E402

RNG = np.random.default_rng(0)
ONES = np.ones(40)


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (priors.normal(1.0, 2.0), stats.norm(1.0, 2.0)),
        (priors.student(3, 8.0, 10.0), stats.t(3, 8.0, 10.0)),
        (priors.log_of(priors.normal(scale=2.0)), (np.exp, stats.halfnorm(0.0, 2.0))),
        (priors.log_of(priors.student(1, 0.0, 5.0)), (np.exp, stats.halfcauchy(0.0, 5.0))),
        (priors.log_gamma(25.0, 4.0), (np.exp, stats.gamma(25.0, scale=0.25))),
        (priors.log_uniform(50.0), (np.exp, stats.uniform(0.0, 50.0))),
    ],
)
def test_a_prior_has_the_density_that_it_draws_from(prior, law):
    back, law = law if isinstance(law, tuple) else (lambda t: t, law)
    t = prior.sample(np.random.default_rng(1), 4000)
    assert stats.kstest(back(t), law.cdf).pvalue > 1e-3
    step = 1e-5  # the density of t is that of back(t) times the slope of back
    log_slope = np.log((back(t + step) - back(t - step)) / (2.0 * step))
    np.testing.assert_allclose(prior.log_density(np, t), law.logpdf(back(t)) + log_slope, atol=1e-4)


def test_the_share_of_a_mixture_has_the_prior_beta_5_5():
    problem, *_ = models._mixture("", {"y": ONES})
    theta = problem.sample_prior(np.random.default_rng(2), 2000)
    *_, reported = models._mixture("", {"y": ONES})
    values = reported(theta)
    assert stats.kstest(values[:, 4], stats.beta(5, 5).cdf).pvalue > 1e-3
    assert (values[:, 0] < values[:, 1]).all()
    # Each mean alone is the smaller or larger of two N(0, 2^2).
    assert stats.kstest(values[:, 0], lambda x: 1 - stats.norm.sf(x, 0, 2) ** 2).pvalue > 1e-3
    # The density of the coordinates: order statistics (twice), sum and distance (half), and the
    # slopes of exp and of the logistic.
    low, high, a, b, share = values[:20].T
    expected = stats.norm.logpdf([low, high], 0, 2).sum(axis=0) + np.log(high - low)
    expected += stats.halfnorm.logpdf([a, b], 0, 2).sum(axis=0) + np.log(a * b)
    expected += stats.beta.logpdf(share, 5, 5) + np.log(share * (1 - share))
    np.testing.assert_allclose(problem.log_prior(theta[:20]), expected, rtol=1e-9)


def _regression(name, build, data, design, y):
    return name, build, data, lambda v: stats.norm.logpdf(y, design @ v[:-1], v[-1]).sum()


def _cases():
    y, x = RNG.normal(2.0, 1.5, 40), RNG.normal(1.0, 2.0, (40, 24))
    hs, iq, work = (x[:, 0] > 1.0) * 1, 100 + 10 * x[:, 1], RNG.integers(1, 5, 40)
    data = {"mom_hs": hs, "mom_iq": iq, "mom_work": work, "kid_score": y}
    a, b = hs - hs.mean(), iq - iq.mean()
    for name, columns in {
        "kidiq-kidscore_interaction": (hs, iq, hs * iq),
        "kidiq_with_mom_work-kidscore_interaction_c": (a, b, a * b),
        "kidiq_with_mom_work-kidscore_mom_work": [work == level for level in (2, 3, 4)],
    }.items():
        yield _regression(name, models._kidiq, data, np.column_stack([ONES, *columns]), y)
    earn = {"earn": np.exp(y), "height": iq, "male": hs}
    z = (iq - iq.mean()) / iq.std(ddof=1)
    name = "earnings-logearn_interaction_z"
    yield _regression(name, models._earnings, earn, np.column_stack([ONES, z, hs, z * hs]), y)
    name, design = "earnings-log10earn_height", np.column_stack([ONES, iq])
    yield _regression(name, models._earnings, earn, design, y / np.log(10.0))
    centred = np.column_stack([x - x.mean(axis=0), ONES])
    whole = {"X": np.column_stack([ONES, x]), "Y": y}
    yield _regression("diamonds", models._diamonds, whole, centred, y)
    lags = np.column_stack([ONES[5:], *(y[5 - k : 40 - k] for k in range(1, 6))])
    yield _regression("arK", models._autoregression, {"y": y, "K": 5}, lags, y[5:])
    centre = {"pmualpha": 1.0, "psalpha": 2.0, "pmubeta": 0.0, "psbeta": 0.1}
    years = {"x": iq, "y": y, **centre}
    yield _regression("kilpisjarvi", models._kilpisjarvi, years, np.column_stack([ONES, iq]), y)

    effects, errors = y[:8], np.arange(8.0, 16.0)
    schools = {"y": effects, "sigma": errors}
    yield (
        "schools",
        models._eight_schools,
        schools,
        lambda v: stats.norm.logpdf(effects, v[:8], errors).sum(),
    )

    def mixed(v):
        first, second = (stats.norm.pdf(y, v[k], v[2 + k]) for k in (0, 1))
        return np.log(v[4] * first + (1.0 - v[4]) * second).sum()

    yield "mixture", models._mixture, {"y": y}, mixed
    places, values = np.arange(-10.0, 12.0, 2.0), y[:11]

    def process(v):
        rho, alpha, sigma = v
        gaps = places[:, None] - places
        K = alpha**2 * np.exp(-0.5 * (gaps / rho) ** 2) + sigma * np.eye(11)
        return stats.multivariate_normal(np.zeros(11), K).logpdf(values)

    yield "gp_regr", models._process, {"x": places, "y": values}, process


@pytest.mark.parametrize(
    ("name", "build", "data", "expected"), [*_cases()], ids=lambda v: str(v)[:20]
)
def test_the_likelihood_is_that_of_the_reported_numbers(name, build, data, expected):
    problem, X, y, reported = build(name, data)
    theta = problem.sample_prior(np.random.default_rng(3), 5)
    assert theta.shape == (5, problem.d)
    found = problem.log_likelihood(theta, X, y)
    wanted = np.array([expected(v) for v in reported(theta)])
    # A flat prior's rows are in units of the sd of y: densities differ by one constant.
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=1e-7, atol=1e-7)


def test_moments_of_a_flat_regression_are_exact():
    """Against draws: 1 / sigma^2 is Gamma, and the coefficients given it are normal."""
    for reference in models.generated():
        rng, n, k = np.random.default_rng(4), len(reference.y), reference.problem.d - 1
        theta = np.zeros((1, k + 1))
        (origin,) = reference.reported(theta)[:, :-1]
        back = np.array(
            [reference.reported(row[None])[0, :-1] - origin for row in np.eye(k, k + 1)]
        )
        c = np.linalg.lstsq(reference.X, reference.y, rcond=None)[0]
        square = ((reference.y - reference.X @ c) ** 2).sum()
        unit = reference.reported(theta)[0, -1]
        sigma = 1.0 / np.sqrt(rng.gamma(0.5 * (n - k - 1), 2.0 / square, 100_000))
        draws = c + sigma[:, None] / np.sqrt(n) * rng.standard_normal((100_000, k))
        values = np.column_stack([origin + draws @ back, unit * sigma])
        # Four standard errors of a mean; those of the sds, of heavier tails, within 2 %.
        assert np.abs((values.mean(axis=0) - reference.mean) / reference.sd).max() < 4 / 316
        np.testing.assert_allclose(values.std(axis=0), reference.sd, rtol=0.02)
