"""Mixtures in parts: Ctrl-C, warm starts, labels, and what the defaults follow."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skpmd import GaussianMixturePMD
from skpmd.mixture import _conjugate_fit
from skpmd.mixture._conjugate import Counts
from tests.tools.interrupts import interrupt


def mixture(n_components=3, **params):
    params = {"strategy": "conjugate", "random_state": 0, **params}
    return GaussianMixturePMD(n_components, **params)


def blobs(n=300, seed=0, p=2):
    """Three groups."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    return 6.0 * np.eye(3, p)[y] + rng.normal(size=(n, p))


# ---------------------------------------------------------------------- Ctrl-C
@pytest.mark.parametrize("rows", [50, 1500])  # taken in, and fitted anew with those before
def test_rows_after_an_interrupted_fit_are_taken_in(monkeypatch, rows):
    X, more = blobs(600), blobs(rows, seed=1)
    fitted = mixture(batch_size=100)
    interrupt(monkeypatch, _conjugate_fit.ConjugateMixture, "e_step", 7)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X)
    monkeypatch.undo()
    assert fitted.partial_fit(more).n_iter_ > 6
    assert fitted._state.n_samples_seen == 600 + rows


def test_a_warning_is_of_its_own_call_and_settled_is_said_of_what_has():
    X = blobs(1200)
    stream = mixture(max_full_iter=2, max_iter=0, tol=0.0, batch_size=100)
    with pytest.warns(ConvergenceWarning, match="still grew after 2 steps"):
        stream.partial_fit(X[:1000])
    stream.partial_fit(X[1000:])  # shared out once: warnings are errors here
    assert not stream.converged_
    settled = mixture().fit(X[:1000])
    assert settled.converged_ and not settled.partial_fit(X[1000:]).converged_
    one = mixture(1).fit(X[:1000])
    assert one.converged_ and one.partial_fit(X[1000:]).converged_  # exact


# ---------------------------------------------------------------------- warm starts
@pytest.mark.parametrize("columns", [1, 3])
def test_a_warm_start_needs_as_many_columns(columns):
    fitted = mixture(warm_start=True).fit(blobs())
    before = fitted.means_
    with pytest.raises(ValueError, match="warm_start=True needs"):
        fitted.fit(blobs(p=columns))
    assert fitted.means_ is before and fitted.n_features_in_ == 2


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_warm_start_takes_the_units_of_its_rows(covariance_type, unit):
    X, params = blobs(), {"covariance_type": covariance_type}
    fresh = mixture(**params).fit(unit * X + 3.0)
    warm = mixture(warm_start=True, **params).fit(X).fit(unit * X + 3.0)
    np.testing.assert_allclose(warm.covariance_prior_, fresh.covariance_prior_, rtol=1e-12)
    np.testing.assert_allclose(warm.mean_prior_, fresh.mean_prior_, rtol=1e-12)
    assert warm.score(unit * X + 3.0) > fresh.score(unit * X + 3.0) - 0.02


def test_a_warm_start_knows_where_the_components_were():
    """A row far off changes the units of the columns, and not where the groups are."""
    X = blobs()
    warm = mixture(n_particles=1, warm_start=True, max_iter=0).fit(X)
    before = warm.means_
    warm.set_params(max_full_iter=1)
    with pytest.warns(ConvergenceWarning):
        warm.fit(np.vstack([X, [[100.0, 100.0]]]))
    distances = np.linalg.norm(warm.means_[:, None] - before, axis=-1)
    assert (np.diag(distances) < 1.0).sum() == 2  # the third takes the row in


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_counts_in_other_units_are_those_of_the_rows_there(covariance_type):
    X, weight = blobs(), np.ones(300)
    found = mixture(covariance_type=covariance_type, n_particles=2, max_iter=0).fit(X)._state.fit
    model, scale, shift = found.model, np.array([2.0, 0.5]), np.array([-1.0, 3.0])
    if covariance_type == "spherical":
        scale = np.full(2, 2.0)
    resp = np.random.default_rng(0).dirichlet(np.ones(3), size=300)

    def counts(X):
        features, f = model.family.features(X), model.family.n_features
        return Counts((resp.T @ features[:, :f])[None], weight @ features[None, :, f:], np.zeros(1))

    for moved, exact in zip(
        model.rescale(counts(X), scale, shift), counts(X * scale + shift), strict=True
    ):
        np.testing.assert_allclose(moved, exact, rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------- defaults and labels
@pytest.mark.slow
def test_the_default_prior_mean_follows_the_rows():
    X = blobs(2000)
    parts = np.array_split(X[np.argsort(X[:, 0])], 10)
    stream = mixture()
    for part in parts:
        stream.partial_fit(part)
    assert not stream._state.fit.retained.complete
    # The median of 1000 rows that are retained: four standard errors of its rank.
    np.testing.assert_allclose((X < stream.mean_prior_).mean(axis=0), 0.5, atol=0.063)
    forgetful = mixture(2, forgetting=0.01)
    for t in range(15):
        forgetful.partial_fit(np.random.default_rng(t).normal(size=(200, 1)) + 10.0 * t)
    assert forgetful.mean_prior_[0] == pytest.approx(140.0, abs=3.0)
    given = mixture(mean_prior=[1.0, 2.0])
    for part in parts:
        given.partial_fit(part)
    np.testing.assert_allclose(given.mean_prior_, [1.0, 2.0])


@pytest.mark.parametrize("strategy", ["conjugate", "parameters"])
def test_labels_go_on_from_part_to_part(strategy):
    X = 10.0 * np.arange(3)[np.random.default_rng(0).integers(3, size=400)][:, None]
    X = X + np.random.default_rng(1).normal(size=X.shape)
    stream, before = mixture(strategy=strategy, n_particles=8), None
    parts = [X[:60], X[60:200], X[200:400]] if strategy == "conjugate" else [X[:30], X[30:70]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for seed, part in enumerate(parts):
            stream.partial_fit(part)
            if before is not None:
                np.testing.assert_allclose(stream.means_, before, atol=1.5)
            before = stream.means_
            if strategy == "parameters":
                continue
            assert (stream.predict(stream.means_) == np.arange(3)).all()
            stream._state.fit.rng.random(7 + seed)  # other starts, another order of components


def test_the_record_of_earlier_parts_stays_in_the_units_of_the_rows():
    X = 100.0 * blobs()
    stream = mixture().partial_fit(X[:50] / 100.0)
    first = stream.history_
    after = stream.partial_fit(X[50:]).history_
    for name in ("elbo", "log_density"):
        np.testing.assert_allclose(after[name][: len(first["step"])], first[name], rtol=1e-9)


# ---------------------------------------------------------------------- first parts unlike the rest
def unlike(first, n_first=1400, n=3600):
    """Rows of two groups after a first part of other ones, and new rows of the groups."""
    rng = np.random.default_rng(11)
    centres = np.array([[0.0, 0.0], [5.0, -4.0]])
    before, X, new = (
        centres[rng.integers(0, 2, m)] + rng.normal(size=(m, 2)) for m in (n_first, n, 2000)
    )
    return before * {"wide": 250.0, "narrow": 1.0 / 400.0}[first], X, new


@pytest.mark.slow_but("diag-narrow")
@pytest.mark.parametrize("first", ["wide", "narrow"])
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_a_stream_whose_first_part_has_other_units_ends_near_fit(first, covariance_type):
    """Both know all rows, and densities of new ones differ by less than .05 nats; without a new
    fit to retained rows a stream is half a nat to eleven nats behind.
    """
    before, X, new = unlike(first)
    stream = mixture(covariance_type=covariance_type).partial_fit(before)
    for part in np.array_split(X, 12):
        stream.partial_fit(part)
    whole = mixture(covariance_type=covariance_type).fit(np.concatenate([before, X]))
    assert stream.score(new) > whole.score(new) - 0.05
    assert len(stream.history_["step"]) == stream.n_iter_ > 12  # The record goes on.
    assert stream._state.n_samples_seen == pytest.approx(stream._state.fit.counts.total)


def test_rows_like_those_before_are_fitted_once(monkeypatch):
    fits, true = [], _conjugate_fit.fit_conjugate
    stream = mixture().partial_fit(blobs(1500))
    monkeypatch.setattr(
        _conjugate_fit, "fit_conjugate", lambda *args: fits.append(0) or true(*args)
    )
    for seed in range(1, 25):
        stream.partial_fit(blobs(150, seed=seed))
    assert not fits
    stream.partial_fit(80.0 * blobs(1500))
    assert fits


def test_a_new_fit_that_predicts_no_better_is_not_taken(monkeypatch):
    stream, more = mixture().partial_fit(blobs(1500)), 80.0 * blobs(1500, seed=1)
    monkeypatch.setattr(_conjugate_fit, "stacked", lambda fit: (None, -1.0))
    before = stream._state.scaler
    stream.partial_fit(more)
    assert (stream._state.scaler.scale == before.scale).all()
    assert stream._state.fit.counts.total == pytest.approx(3000.0)
    assert stream._state.fit.drift is None
