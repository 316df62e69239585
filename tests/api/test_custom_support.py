"""Draws of models of one's own stay where the prior and the likelihood are."""

import pickle

import numpy as np
import pytest
from scipy import stats

import skpmd
from skpmd import ParticleMirrorDescent


def steps(theta, X, y):
    """Two levels that are known to be in order, of rows in halves."""
    half = len(y) // 2
    first, second = theta[:, [0]], theta[:, [1]]
    near = stats.norm.logpdf(y[:half], first, 2.0).sum(axis=1)
    return near + stats.norm.logpdf(y[half:], second, 2.0).sum(axis=1)


def log_prior(theta):
    inside = (theta > -3.0).all(axis=1) & (theta < 4.0).all(axis=1) & (theta[:, 0] < theta[:, 1])
    return np.where(inside, -np.log(24.5), -np.inf)


def sample_prior(rng, m):
    return np.sort(rng.uniform(-3.0, 4.0, (m, 2)), axis=1)


def positive(theta):
    return stats.halfnorm.logpdf(theta).sum(axis=1)


@pytest.fixture(scope="module")
def in_order():
    y = stats.norm(0.3, 2.0).ppf((np.arange(15) + 0.5) / 15)
    y = np.concatenate([y, y + 1.2])
    model = ParticleMirrorDescent(steps, log_prior, sample_prior, random_state=0)
    return model.fit(None, y)


def test_draws_keep_to_a_prior_of_functions(in_order):
    posterior = in_order.posterior_
    for smooth in (False, True):
        draws = posterior.sample(20_000, 0, smooth)
        assert (log_prior(draws) > -np.inf).all()
        # The halves are like each other, so that some of the posterior lies along the edge.
        assert (draws[:, 1] - draws[:, 0] < 0.2).mean() > 0.02
    np.testing.assert_allclose(draws.mean(axis=0), posterior.mean(), atol=0.05)
    np.testing.assert_array_equal(posterior.support, [[-3.0, -np.inf], [np.inf, 4.0]])
    assert posterior.log_density([[1.0, 0.9]])[0] == -np.inf < posterior.log_density([0.5, 0.9])[0]


def test_what_was_in_a_file_keeps_to_it_too(in_order, tmp_path):
    expected = in_order.posterior_.sample(500, 0, smooth=True)
    copy = pickle.loads(pickle.dumps(in_order))
    np.testing.assert_array_equal(copy.posterior_.sample(500, 0, smooth=True), expected)
    skpmd.save(in_order, tmp_path / "it")
    functions = [f"{__name__}.{one.__name__}" for one in (steps, log_prior, sample_prior)]
    loaded = skpmd.load(tmp_path / "it", trusted=functions).posterior_
    np.testing.assert_array_equal(loaded.sample(500, 0, smooth=True), expected)


def test_edges_of_single_coordinates_are_known_without_the_function():
    y = np.array([0.4, 1.0, -0.3])
    model = ParticleMirrorDescent(
        lambda theta, X, y: stats.norm.logpdf(y, 0.0, theta).sum(axis=1),
        positive,
        lambda rng, m: np.abs(rng.standard_normal((m, 1))),
        random_state=0,
    ).fit(None, y)
    posterior = pickle.loads(pickle.dumps(model.posterior_))
    assert posterior.log_prior is None and not posterior.lacks_prior
    np.testing.assert_allclose(posterior.support, [[0.0], [np.inf]], atol=1e-300)
    assert (posterior.sample(5000, 0, smooth=True) > 0.0).all()


def test_an_edge_of_the_likelihood_is_one_of_the_posterior():
    # Rows of U(0, b), b ~ U(0, 30): the posterior is a Pareto density above the largest row.
    y = np.random.default_rng(2).uniform(0.0, 11.0, 25)
    model = ParticleMirrorDescent(
        lambda theta, X, y: np.where(theta[:, 0] > y.max(), -len(y) * np.log(theta[:, 0]), -np.inf),
        prior={"b": stats.uniform(0.0, 30.0)},
        n_particles=4000,
        random_state=0,
    ).fit(None, y)
    posterior = model.posterior_
    low, high = (ends[0] for ends in posterior.support)
    assert low == pytest.approx(y.max(), rel=1e-12) and high == 30.0
    draws = posterior.sample(20_000, 0, smooth=True)
    assert (draws > y.max()).all() and (draws < 30.0).all()
    exact = stats.pareto(24, scale=y.max())
    # The particles' error is 1/60 sd or so; kernels move quantiles by some hundredths more.
    for q in (0.1, 0.5, 0.9):
        assert np.quantile(draws, q) == pytest.approx(exact.ppf(q), abs=0.1 * exact.std())
        assert posterior.quantile(q)[0] == pytest.approx(exact.ppf(q), abs=0.08 * exact.std())
    assert posterior.log_density([[y.max() - 1e-6]])[0] == -np.inf
