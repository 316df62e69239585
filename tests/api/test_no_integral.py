"""Log-likelihoods that are none: densities for their logarithms, and squares of the wrong sign."""

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from skpmd import ParticleMirrorDescent

RNG = np.random.default_rng(0)
AMOUNTS, COUNTS = RNG.normal(3.0, 1.0, 200), RNG.poisson(3.0, 60)
OF_NORMAL = {"mu": stats.norm(0.0, 5.0), "sigma": stats.halfnorm(0.0, 2.0)}


def density(theta, X, y, of=stats.norm.pdf):
    return of(y, theta["mu"][:, None], theta["sigma"][:, None])


def probability(theta, X, y, of=stats.poisson.pmf):
    return of(y, theta["rate"][:, None])


@pytest.mark.parametrize("of_rows", [True, False])
def test_densities_for_logarithms_are_named_and_end_in_time(of_rows, monkeypatch):
    """Their posterior is infinite at sigma = 0 and mu = y; they took minutes, with any max_time."""
    looks = itertools.count()
    monkeypatch.setattr("skpmd._runtime.call.clock", lambda: float(next(looks)))
    given = {"log_likelihood_pointwise": density}
    if not of_rows:
        given = {"log_likelihood": lambda *data: density(*data).sum(axis=1)}
    model = ParticleMirrorDescent(prior=OF_NORMAL, max_time=20.0, random_state=0, **given)
    with pytest.warns() as caught:
        model.fit(y=AMOUNTS)
    first, last = caught[0], caught[-1]
    assert first.category is UserWarning and "logpdf" in str(first.message)
    assert last.category is ConvergenceWarning and "max_time=20.0 ended" in str(last.message)
    assert next(looks) < 200  # A look at each search and each move: thousands without an end.
    assert model.out_of_time_ and any("logpdf" in text for text in model.posterior_.check())
    assert np.isfinite(model.posterior_.mean()).all()
    with pytest.raises(AttributeError, match="log_evidence"):
        _ = model.log_evidence_


def test_probabilities_for_logarithms_are_named():
    """Their posterior is finite, and looks fine."""
    prior = {"rate": stats.gamma(2.0)}
    model = ParticleMirrorDescent(prior=prior, log_likelihood_pointwise=probability, random_state=0)
    with pytest.warns(UserWarning, match="negative at no draw of the prior.*logpmf"):
        model.fit(y=COUNTS)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_logarithms_are_not_warned_of(scale):
    """Not in small units either, where densities are large."""
    prior = {"mu": stats.norm(0.0, 5.0 * scale), "sigma": stats.halfnorm(0.0, 2.0 * scale)}
    for given in (
        {"log_likelihood_pointwise": lambda *data: density(*data, of=stats.norm.logpdf)},
        {"log_likelihood": lambda *data: density(*data, of=stats.norm.logpdf).sum(axis=1)},
    ):
        model = ParticleMirrorDescent(prior=prior, random_state=0, **given)
        assert not model.fit(y=scale * AMOUNTS).posterior_.check()


def test_squares_of_the_wrong_sign_are_an_error():
    """There is no integral, as of 200 squares over a prior of variance 25."""

    def squares(theta, X, y):
        return ((y - theta["mu"][:, None]) ** 2).sum(axis=1) - 3e3  # Negative at most draws.

    model = ParticleMirrorDescent(squares, prior={"mu": stats.norm(0.0, 5.0)}, random_state=0)
    with pytest.raises(ValueError, match="no integral.*power 0.0001.*logpdf, not pdf"):
        model.fit(y=AMOUNTS)
