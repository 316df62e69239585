"""The posterior a user holds: averages, quantiles, intervals, draws, density, certificates."""

import io
import pickle

import joblib
import numpy as np
import pytest
from scipy import stats
from scipy.stats import multivariate_normal

from skpmd import Posterior
from skpmd._base.utils import as_generator, weighted_quantile
from skpmd.engine.diagnostics import pareto_k


def make_posterior(m=200, d=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    return Posterior(rng.normal(2.0, 3.0, (m, d)), rng.normal(size=m) - 700.0, **options)


def certified(**options):
    return make_posterior(pareto_k=0.31, log_evidence=-12.5, log_evidence_se=0.02, **options)


# ----------------------------------------------------------------------------- averages
def test_weights_are_normalised():
    posterior = make_posterior()
    assert posterior.weights.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(np.exp(posterior.log_weights), posterior.weights)


def test_averages_equal_numpy():
    posterior = make_posterior()
    theta, w = posterior.particles, posterior.weights
    np.testing.assert_allclose(posterior.mean(), np.average(theta, axis=0, weights=w), rtol=1e-12)
    cov = np.cov(theta.T, aweights=w, ddof=0)
    np.testing.assert_allclose(posterior.cov(), cov, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(posterior.std(), np.sqrt(np.diag(cov)), rtol=1e-12)
    assert posterior.ess == pytest.approx(1.0 / (w**2).sum(), rel=1e-12)


def test_spread_far_from_zero_keeps_its_digits():
    particles = 1e8 + np.array([[-1.0], [1.0]])
    assert Posterior(particles, np.zeros(2)).std()[0] == pytest.approx(1.0, rel=1e-7)


@pytest.mark.parametrize("power", [-540, 540])
def test_spread_whose_square_is_no_number(power):
    """Coefficients of columns of 1e-200, which had a warning of NumPy and no spread."""
    posterior = make_posterior()
    scaled = Posterior(np.ldexp(posterior.particles, power), posterior.log_weights)
    np.testing.assert_array_equal(scaled.std(), np.ldexp(posterior.std(), power))


def test_a_particle_without_weight_has_no_part_in_the_spread():
    posterior = Posterior(np.array([[1.0], [3.0], [1e170]]), np.array([0.0, 0.0, -1000.0]))
    assert posterior.std()[0] == 1.0


@pytest.mark.parametrize("shape", [(), (2,), (2, 4)])
def test_expectation_has_the_shape_of_one_value(shape):
    posterior = make_posterior()
    values = np.random.default_rng(1).normal(size=(200, *shape))
    found = posterior.expectation(lambda theta: values)
    assert np.shape(found) == shape
    np.testing.assert_allclose(found, np.average(values, axis=0, weights=posterior.weights))


# ----------------------------------------------------------------------------- quantiles
def test_quantiles_are_monotone_and_end_at_the_extremes():
    posterior = make_posterior()
    quantiles = posterior.quantile(np.linspace(0, 1, 101))
    assert quantiles.shape == (101, 3)
    assert (np.diff(quantiles, axis=0) >= 0).all()
    np.testing.assert_array_equal(quantiles[0], posterior.particles.min(axis=0))
    np.testing.assert_array_equal(quantiles[-1], posterior.particles.max(axis=0))


def test_quantiles_of_equal_weights_are_those_of_hazen():
    # Particles at the middle of their weight: numpy's method "hazen".
    posterior = Posterior(np.random.default_rng(0).normal(size=(37, 2)), np.zeros(37))
    q = np.linspace(0, 1, 23)
    expected = np.quantile(posterior.particles, q, axis=0, method="hazen")
    np.testing.assert_allclose(posterior.quantile(q), expected, rtol=1e-10)


def test_quantiles_of_importance_weights_are_those_of_the_target():
    # N(0, 1) by draws of N(0, 2^2): the 20000 draws have an effective size of about 13000, so the
    # standard error of a quantile is about sqrt(q (1 - q) / 13000) / density < 0.02; 4.5 of these.
    theta = 2.0 * np.random.default_rng(0).standard_normal((20_000, 1))
    posterior = Posterior(theta, -0.5 * theta[:, 0] ** 2 + theta[:, 0] ** 2 / 8)
    expected = [-1.6449, -0.6745, 0.0, 0.6745, 1.6449]
    found = posterior.quantile([0.05, 0.25, 0.5, 0.75, 0.95])[:, 0]
    np.testing.assert_allclose(found, expected, atol=4.5 * 0.02)


@pytest.mark.parametrize("q", [0.0, 0.01, 0.05, 0.3, 0.99, 1.0])
def test_particles_without_weight_have_no_part_in_quantiles(q):
    particles = np.array([[-100.0], [0.0], [1.0], [0.5], [500.0]])
    log_weights = np.array([-np.inf, 0.0, 0.0, -np.inf, -np.inf])
    alive = Posterior(particles[1:3], log_weights[1:3])
    np.testing.assert_allclose(Posterior(particles, log_weights).quantile(q), alive.quantile(q))


@pytest.mark.parametrize("q", [-0.01, 1.01, np.nan, [0.5, 2.0]])
def test_a_quantile_outside_the_unit_interval_is_an_error(q):
    with pytest.raises(ValueError, match="q must lie in"):
        make_posterior().quantile(q)


def test_weighted_quantiles_of_a_table():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(50, 3, 2)), rng.dirichlet(np.ones(50))
    found = weighted_quantile(values, weights, [0.1, 0.9])
    assert found.shape == (2, 3, 2)
    alone = weighted_quantile(values[:, 1, 0], weights, 0.9)
    assert alone.shape == () and alone == found[1, 1, 0]


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_an_interval_is_two_quantiles(level):
    posterior = make_posterior()
    interval = posterior.interval(level)
    assert interval.shape == (3, 2)
    np.testing.assert_allclose(interval[:, 0], posterior.quantile((1 - level) / 2))
    np.testing.assert_allclose(interval[:, 1], posterior.quantile((1 + level) / 2))
    assert (interval[:, 0] < interval[:, 1]).all()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 90, "a", None])
def test_a_level_outside_the_unit_interval_is_an_error(level):
    with pytest.raises(ValueError, match="level must lie"):
        make_posterior().interval(level)


# ----------------------------------------------------------------------------- draws, density
@pytest.mark.parametrize("smooth", [False, True])
def test_draws_have_the_posteriors_moments(smooth):
    # The estimate keeps mean and covariance; 50000 stratified draws of nearly normal kernels: 4.5
    # standard errors of independent ones, 1 / sqrt(n) and sqrt(2 / n).
    posterior, n = make_posterior(), 50_000
    draws, sd = posterior.sample(n, random_state=0, smooth=smooth), posterior.std()
    assert draws.shape == (n, 3)
    assert (np.abs(draws.mean(axis=0) - posterior.mean()) < 4.5 * sd / np.sqrt(n)).all()
    error = 4.5 * np.sqrt(2 / n) * np.outer(sd, sd)
    assert (np.abs(np.cov(draws.T) - posterior.cov()) < error).all()


def test_draws_follow_the_density():
    # E[other / density] = 1 under the draws, for a normal narrower than the posterior; 4.5
    # standard errors.
    posterior = make_posterior(m=300, d=2)
    draws = posterior.sample(20_000, random_state=0, smooth=True)
    other = multivariate_normal(posterior.mean(), 0.4 * posterior.cov())
    ratio = np.exp(other.logpdf(draws) - posterior.log_density(draws))
    assert abs(ratio.mean() - 1.0) < 4.5 * ratio.std() / np.sqrt(len(ratio))


@pytest.mark.parametrize("smooth", [False, True])
def test_draws_are_in_random_order(smooth):
    # Ancestors come sorted out of the resampling; the correlation of independent neighbours has
    # standard error 1 / sqrt(5000).
    particles = np.concatenate([np.full((50, 1), -10.0), np.full((50, 1), 10.0)])
    particles += np.random.default_rng(0).normal(size=(100, 1))
    draws = Posterior(particles, np.zeros(100)).sample(5000, 0, smooth)[:, 0]
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 4.5 / np.sqrt(5000)


def test_the_same_seed_gives_the_same_draws():
    posterior = make_posterior()
    for smooth in (False, True):
        first, again, other = (posterior.sample(70, seed, smooth) for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()
    rng = np.random.default_rng(0)
    assert (posterior.sample(70, rng) != posterior.sample(70, rng)).any()
    assert posterior.sample().shape == (1, 3)


def test_draws_are_particles_by_their_weights():
    # Systematic resampling: each particle is drawn within one of n times its weight.
    posterior = make_posterior(m=50)
    for n in (30, 4000):
        draws = posterior.sample(n, random_state=1)
        counts = (draws[:, None] == posterior.particles).all(axis=2).sum(axis=0)
        assert counts.sum() == n
        assert (np.abs(counts - n * posterior.weights) <= 1.0).all()


def test_particles_without_weight_are_not_drawn():
    posterior = Posterior(np.array([[np.nan], [1.0], [2.0]]), np.array([-np.inf, 0.0, -1.0]))
    for smooth in (False, True):
        assert np.isfinite(posterior.sample(100, 0, smooth)).all()


BOUNDED = {
    "below": (stats.expon(3.0, 2.0), 3.0, np.inf),
    "above": (stats.weibull_max(1.5, -1.0, 4.0), -np.inf, -1.0),
    "both": (stats.beta(0.7, 1.6, 10.0, 5.0), 10.0, 15.0),
    "piled up": (stats.gamma(0.4), 0.0, np.inf),
}


@pytest.mark.parametrize("case", BOUNDED)
def test_smooth_draws_keep_to_the_support_and_to_the_moments(case):
    # Moments are matched by quadrature; 40000 draws: 4.5 standard errors, where that of a standard
    # deviation is sd sqrt((kurtosis - 1) / (4 n)).
    distribution, low, high = BOUNDED[case]
    rng, n = np.random.default_rng(7), 40_000
    particles = distribution.rvs((1500, 1), random_state=rng)
    support = np.array([low]), np.array([high])
    posterior = Posterior(particles, rng.normal(size=1500) * 0.5, support=support)
    draws = posterior.sample(n, random_state=1, smooth=True)
    assert (draws > low).all() and (draws < high).all() and len(np.unique(draws)) > 0.99 * n
    sd = posterior.std()[0]
    assert abs(draws.mean() - posterior.mean()[0]) < 4.5 * sd / np.sqrt(n)
    of_sd = sd * np.sqrt((stats.kurtosis(draws[:, 0]) + 2.0) / (4.0 * n))
    assert abs(draws.std() - sd) < 4.5 * of_sd
    # Quantiles move by a share of a kernel's width, a fifth of the standard deviation or so.
    q = [0.1, 0.5, 0.9]
    np.testing.assert_allclose(np.quantile(draws, q), posterior.quantile(q)[:, 0], atol=0.15 * sd)


@pytest.mark.parametrize("case", BOUNDED)
def test_density_within_the_support_integrates_to_one(case):
    distribution, low, high = BOUNDED[case]
    particles = distribution.rvs((800, 1), random_state=np.random.default_rng(3))
    posterior = Posterior(particles, np.zeros(800), support=(np.array([low]), np.array([high])))
    ends = particles.min() - 15.0, particles.max() + 15.0
    # The substitution takes the points close to a pole of the density at an edge.
    edge = low if np.isfinite(low) else high
    u = np.sort(np.concatenate([edge + np.geomspace(1e-30, 30.0, 100_000) * s for s in (-1, 1)]))
    u = u[(u > ends[0]) & (u < ends[1])]
    density = np.exp(posterior.log_density(u[:, None]))
    assert np.trapezoid(density, u) == pytest.approx(1.0, abs=0.02)
    outside = np.array([[end + s] for end, s in ((low, -1.0), (high, 1.0)) if np.isfinite(end)])
    assert (posterior.log_density(outside) == -np.inf).all()


def ordered(theta):
    return np.where(theta[:, 0] < theta[:, 1], 0.0, -np.inf)


def test_smooth_draws_keep_to_what_the_prior_says():
    rng = np.random.default_rng(0)
    pairs = np.sort(rng.normal(size=(1000, 2)), axis=1)
    posterior = Posterior(pairs, np.zeros(1000), log_prior=ordered)
    draws = posterior.sample(20_000, 0, smooth=True)
    assert (draws[:, 0] < draws[:, 1]).all()
    assert (posterior.sample(500, 0)[:, None] == pairs).all(axis=2).any(axis=1).all()
    assert posterior.log_density([[0.5, 0.4]])[0] == -np.inf
    # Draws follow the density, which is normalised within the support: as above.
    other = multivariate_normal([-0.8, 0.8], 0.1 * np.eye(2))
    ratio = np.exp(other.logpdf(draws) - posterior.log_density(draws))
    assert abs(ratio.mean() - 1.0) < 4.5 * ratio.std() / np.sqrt(len(ratio)) + 0.01
    copy = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(copy.sample(9, 1), posterior.sample(9, 1))
    with pytest.raises(ValueError, match="set posterior.log_prior"):
        copy.sample(9, 1, smooth=True)
    copy.log_prior = ordered
    np.testing.assert_array_equal(
        copy.sample(9, 1, smooth=True), posterior.sample(9, 1, smooth=True)
    )


def test_where_no_kernel_is_within_the_support_draws_are_particles():
    particles = np.random.default_rng(0).normal(size=(50, 2))
    known = {tuple(one) for one in particles}
    posterior = Posterior(
        particles,
        np.zeros(50),
        log_prior=lambda theta: np.array([0.0 if tuple(t) in known else -np.inf for t in theta]),
    )
    draws = posterior.sample(20, 0, smooth=True)
    assert (draws[:, None] == particles).all(axis=2).any(axis=1).all()


def test_shares_sum_to_one():
    shares = np.random.default_rng(0).dirichlet([4.0, 2.0, 0.7], 800)
    posterior = Posterior(shares, np.zeros(800), simplex=[0, 1, 2])
    draws = posterior.sample(5000, 0, smooth=True)
    assert (draws > 0.0).all()
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    np.testing.assert_allclose(draws.mean(axis=0), posterior.mean(), atol=0.015)
    np.testing.assert_allclose(draws.std(axis=0), posterior.std(), rtol=0.1)
    assert (posterior.log_density(1.01 * draws[:3]) == -np.inf).all()
    assert np.isfinite(posterior.log_density(draws[:3])).all()


def test_one_point_may_be_given_as_a_vector():
    posterior = make_posterior()
    point = posterior.mean()
    assert posterior.log_density(point).shape == (1,)
    np.testing.assert_array_equal(posterior.log_density(point), posterior.log_density(point[None]))
    assert posterior.log_density(list(point))[0] == posterior.log_density(point)[0]


# ----------------------------------------------------------------------------- certificates
@pytest.mark.parametrize("name", ["pareto_k", "log_evidence", "log_evidence_se"])
def test_a_certificate_that_is_not_there_says_why(name):
    posterior = make_posterior(unavailable="the moon is full")
    with pytest.raises(AttributeError, match=f"{name} is not available: the moon is full"):
        getattr(posterior, name)
    assert not hasattr(posterior, name)


# ----------------------------------------------------------------------------- the object
@pytest.mark.parametrize("draw_first", [False, True])
@pytest.mark.parametrize("through", ["pickle", "joblib"])
def test_round_trips_give_an_equal_posterior(through, draw_first):
    posterior = certified(names=["a", "b", "c"])
    if draw_first:  # the density is made when first asked for
        posterior.sample(1, random_state=0, smooth=True)
    if through == "pickle":
        copy = pickle.loads(pickle.dumps(posterior))
    else:
        buffer = io.BytesIO()
        joblib.dump(posterior, buffer)
        buffer.seek(0)
        copy = joblib.load(buffer)
    np.testing.assert_array_equal(copy.particles, posterior.particles)
    np.testing.assert_array_equal(copy.log_weights, posterior.log_weights)
    np.testing.assert_array_equal(copy.quantile([0.1, 0.5]), posterior.quantile([0.1, 0.5]))
    np.testing.assert_array_equal(copy.sample(5, 1), posterior.sample(5, 1))
    points = posterior.sample(5, 2, smooth=True)
    np.testing.assert_array_equal(copy.sample(5, 2, smooth=True), points)
    np.testing.assert_array_equal(copy.log_density(points), posterior.log_density(points))
    assert copy.names == posterior.names
    assert copy.log_evidence == posterior.log_evidence
    assert repr(copy) == repr(posterior)


def test_round_trip_keeps_the_reason_of_a_missing_certificate():
    copy = pickle.loads(pickle.dumps(make_posterior(unavailable="the moon is full")))
    with pytest.raises(AttributeError, match="the moon is full"):
        copy.pareto_k  # noqa: B018


def test_repr_tells_size_and_certificate():
    text = repr(Posterior(np.zeros((10, 2)), np.zeros(10)))
    assert text == "Posterior(10 particles, d=2, ess=10)"
    text = repr(certified())
    assert "200 particles" in text and "d=3" in text
    assert "pareto_k=0.31" in text and "log_evidence=-12.50±0.02" in text


def test_summary_has_a_column_for_each_statistic():
    posterior = make_posterior(names=["a", "b", "c"])
    summary = posterior.summary(level=0.8)
    first = ["name", "mean", "std", "lower", "upper"]
    assert list(summary) == [*first, "p_positive", "mcse"]
    share = posterior.expectation(lambda theta: theta > 0.0)
    np.testing.assert_allclose(summary["p_positive"], share)
    np.testing.assert_allclose(summary["mcse"], posterior.std() / np.sqrt(posterior.ess))
    assert summary["name"] == ["a", "b", "c"]
    np.testing.assert_array_equal(summary["mean"], posterior.mean())
    np.testing.assert_array_equal(summary["std"], posterior.std())
    np.testing.assert_array_equal(summary["lower"], posterior.interval(0.8)[:, 0])
    np.testing.assert_array_equal(summary["upper"], posterior.interval(0.8)[:, 1])


def test_notebooks_show_a_table():
    html = make_posterior(names=["a<b", "b", "c"])._repr_html_()
    assert "Posterior(" in html and "<th>a&lt;b</th>" in html and "<th>mcse</th>" in html
    assert html.count("<tr>") == 4 and "more coordinates" not in html
    wide = Posterior(np.random.default_rng(0).normal(size=(50, 25)), np.zeros(50))._repr_html_()
    assert wide.count("<tr>") == 21 and "and 5 more coordinates" in wide


def test_a_check_says_what_is_wrong_and_what_to_change():
    good = Posterior(np.random.default_rng(0).normal(size=(400, 2)), np.zeros(400), r_hat=1.01)
    assert good.check() == []
    few = Posterior(good.particles, -0.5 * np.arange(400.0), log_evidence=0.0, log_evidence_se=0.9)
    ess, evidence = few.check()
    assert "effective sample size is 4" in ess and "n_particles" in ess and "0.90 nats" in evidence
    heavy = -1.5 * np.log(np.random.default_rng(1).uniform(size=400))
    heavy = Posterior(good.particles, heavy, pareto_k=pareto_k(heavy))
    assert heavy.check()[0].startswith("k-hat is 1.") and "k-hat is 1." in heavy._repr_html_()
    hot = "posterior at temperature 2"
    apart = Posterior(good.particles, np.zeros(400), r_hat=1.4, weighting=hot)
    assert [text[:5] for text in apart.check()] == ["R-hat", "The p"]


def test_what_a_method_is_by_choice_is_no_objection():
    point = Posterior(np.zeros((1, 2)), np.zeros(1), concerns=["the kernel is at its bound."])
    assert "point estimate" in repr(point) and "point estimate" in point._repr_html_()
    assert point.check() == ["The kernel is at its bound."]
    few = Posterior(np.zeros((9, 2)), np.zeros(9), weighting="for predictions")
    assert not few.check() and "for predictions" in repr(few)


def test_names():
    assert make_posterior().names == ["theta0", "theta1", "theta2"]
    assert make_posterior(names=np.array(["x", "y", "z"], dtype=object)).names == ["x", "y", "z"]
    with pytest.raises(ValueError, match="names has 2 entries for 3 coordinates"):
        make_posterior(names=["x", "y"])


@pytest.mark.parametrize(
    "particles, log_weights",
    [((5,), (5,)), ((5, 2), (4,)), ((5, 2), (5, 1)), ((5, 2, 1), (5,)), ((5, 2), ())],
)
def test_arrays_of_the_wrong_shape_are_an_error(particles, log_weights):
    with pytest.raises(ValueError, match="particles must have shape"):
        Posterior(np.zeros(particles), np.zeros(log_weights))


def test_lists_and_single_precision_are_accepted():
    posterior = Posterior([[1, 2], [3, 4]], [0, 0])
    assert posterior.particles.dtype == np.float64
    np.testing.assert_array_equal(posterior.mean(), [2.0, 3.0])
    single = Posterior(np.ones((3, 2), np.float32), np.zeros(3, np.float32))
    assert single.particles.dtype == single.weights.dtype == np.float64


# ----------------------------------------------------------------------------- random states
def test_the_same_random_state_gives_the_same_generator():
    def first(random_state):
        return as_generator(random_state).random()

    assert first(0) == first(0) != first(1)
    assert first(np.random.RandomState(5)) == first(np.random.RandomState(5)) == first(5)
    assert first(np.int64(7)) == first(7)


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(0)
    assert as_generator(rng) is rng


def test_a_random_state_moves_on():
    state = np.random.RandomState(0)
    assert as_generator(state).random() != as_generator(state).random()


def test_without_a_random_state_numpys_global_one_is_followed():
    kept = np.random.get_state()
    try:
        np.random.seed(3)
        first = as_generator(None).random()
        np.random.seed(3)
        assert as_generator(None).random() == first
    finally:
        np.random.set_state(kept)
