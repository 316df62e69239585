"""Leave-one-out densities of Gaussian processes, against formulas and fits without each row."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpmd import SparseGPClassifierPMD, SparseGPRegressorPMD
from skpmd.metrics import negative_log_predictive_density
from skpmd.model_comparison import compare, loo, waic

# Inducing inputs are few here, and neighbours too.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, (40, 2))
Y = 5.0 + 2.0 * np.sin(X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=40)
KERNEL = ConstantKernel(2.0) * Matern([1.0, 2.0], nu=1.5) + WhiteKernel(0.1)
SOME = X[::3]  # Inducing inputs.


def process(**params):
    """With known hyperparameters."""
    own = {"optimizer": None, "normalize_y": False, "n_particles": 1, "random_state": 0}
    return SparseGPRegressorPMD(KERNEL, **{**own, "jitter": 1e-12, **params})


def exact(kernel=KERNEL, y=Y):
    """Rasmussen and Williams 2006, equations 5.10 to 5.12."""
    inverse = np.linalg.inv(kernel(X))
    variance = 1.0 / np.diag(inverse)
    gap = variance * (inverse @ y)
    return -0.5 * (np.log(2.0 * np.pi * variance) + gap**2 / variance)


def refitted(model, X=X, y=Y, weight=None, every=4, **others):
    """Log density of every few of the rows by a fit without it."""
    out = []
    for i in range(0, len(X), every):
        rest = np.arange(len(X)) != i
        own = {name: value[rest] for name, value in others.items()}
        own |= {} if weight is None else {"sample_weight": weight[rest]}
        dist = model.fit(X[rest], y[rest], **own).predict_proba(X[i : i + 1])
        extra = 0.0 if not others else others["noise_variance"][i]
        dist.stds = np.sqrt(dist.stds**2 + extra)
        out.append(dist.log_pdf(y[i : i + 1])[0])
    return np.array(out)


@pytest.mark.parametrize("approximation", ["fitc", "vfe", "dtc", "vecchia", "auto"])
def test_exact_process(approximation):
    model = process(approximation=approximation).fit(X, Y)
    found = loo(model, X, Y)
    np.testing.assert_allclose(found.pointwise, exact(), atol=1e-6)
    seen = -negative_log_predictive_density(Y, model.predict_proba(X)) * len(Y)
    assert found.p == pytest.approx(seen - found.elpd, abs=1e-6)
    assert found.n_bad == 0


@pytest.mark.parametrize("approximation", ["fitc", "vfe", "dtc"])
@pytest.mark.parametrize("noise", [1e-8, 1e-12])
def test_rows_that_hardly_any_other_explains(noise, approximation):
    """What is left of such a row's information, its noise by its variance, must not be rounding."""
    rough = Matern([1.0, 2.0], nu=0.5) + WhiteKernel(noise)
    model = process(approximation=approximation, n_inducing=40, jitter=1e-14).set_params(
        kernel=rough
    )
    found = loo(model.fit(X, Y), X, Y)
    np.testing.assert_allclose(found.pointwise[::4], refitted(model), atol=1e-3)
    np.testing.assert_allclose(found.pointwise, exact(rough), atol=1e-3)


@pytest.mark.parametrize("approximation", ["fitc", "vfe", "dtc"])
def test_inducing_inputs(approximation):
    model = process(approximation=approximation, inducing_init=SOME)
    found = loo(model.fit(X, Y), X, Y).pointwise
    np.testing.assert_allclose(found[::4], refitted(model), atol=1e-6)
    assert np.abs(found - exact()).max() > 0.1  # It is another process.


def test_neighbours():
    model = process(approximation="vecchia", n_neighbors=7)
    found = loo(model.fit(X, Y), X, Y).pointwise
    np.testing.assert_allclose(found[::4], refitted(model), atol=1e-6)
    assert np.abs(found - exact()).max() > 0.01


@pytest.mark.parametrize("how", [{"approximation": "fitc", "inducing_init": SOME},
                                 {"approximation": "vecchia", "n_neighbors": 39}])  # fmt: skip
def test_a_row_is_left_out_with_its_copies(how):
    weight = np.where(np.arange(len(X)) % 2, 1.0, 2.5)
    model = process(**how)
    fitted = model.fit(X, Y, sample_weight=weight)
    found = loo(fitted, X, Y, sample_weight=weight).pointwise
    with pytest.raises(ValueError, match="which counted 70 rows"):
        loo(fitted, X, Y)
    np.testing.assert_allclose(found[::4], refitted(model, weight=weight), atol=1e-6)


@pytest.mark.parametrize("approximation", ["fitc", "vecchia"])
def test_rows_of_no_weight_are_predicted(approximation):
    weight = np.where(np.arange(len(X)) < 3, 0.0, 1.0)
    model = process(approximation=approximation, n_neighbors=39)
    found = loo(model.fit(X, Y, sample_weight=weight), X, Y, sample_weight=weight)
    rest = loo(model.fit(X[3:], Y[3:]), X[3:], Y[3:])
    np.testing.assert_allclose(found.pointwise[3:], rest.pointwise, atol=1e-8)
    new = model.log_predictive_density(X[:3], Y[:3])
    np.testing.assert_allclose(found.pointwise[:3], new, atol=1e-8)


@pytest.mark.parametrize("how", [{"approximation": "fitc", "inducing_init": SOME},
                                 {"approximation": "vecchia", "n_neighbors": 60}])  # fmt: skip
def test_rows_of_equal_inputs_are_left_out_one_by_one(how):
    both, y = np.concatenate([X, X[:20]]), np.concatenate([Y, Y[:20] + 0.2])
    model = process(**how)
    found = loo(model.fit(both, y), both, y).pointwise
    np.testing.assert_allclose(found[::4], refitted(model, both, y), atol=1e-6)


def test_noise_of_each_row():
    noise = np.where(np.arange(len(X)) % 2, 0.0, 0.5)
    model = process(approximation="vecchia", n_neighbors=39)
    found = loo(model.fit(X, Y, noise_variance=noise), X, Y).pointwise
    np.testing.assert_allclose(found[::4], refitted(model, noise_variance=noise), atol=1e-6)
    model = process(approximation="fitc").fit(X, Y, noise_variance=noise)
    with pytest.raises(ValueError, match="noise_variance, or an alpha of each row"):
        loo(model, X, Y)


def test_units_of_y():
    sd = Y.std()
    scaled = loo(process().fit(X, (Y - Y.mean()) / sd), X, (Y - Y.mean()) / sd)
    found = loo(process(normalize_y=True).fit(X, Y), X, Y)
    np.testing.assert_allclose(found.pointwise, scaled.pointwise - np.log(sd), atol=1e-8)


def test_several_targets():
    both = np.column_stack([Y, np.cos(X[:, 1])])
    for approximation in ("fitc", "vecchia"):
        model = process(approximation=approximation).fit(X, both)
        total = exact() + exact(y=both[:, 1])
        np.testing.assert_allclose(loo(model, X, both).pointwise, total, atol=1e-6)
        seen = model.log_predictive_density(X, both)
        assert loo(model, X, both).p == pytest.approx(seen.sum() - total.sum(), abs=1e-5)


def test_weights_that_are_none_of_a_posterior_stay():
    model = SparseGPRegressorPMD(
        KERNEL, normalize_y=False, n_particles=4, weighting="uniform", approximation="fitc",
        jitter=1e-12, random_state=0,
    ).fit(X, Y)  # fmt: skip
    theta = np.log(model.posterior_.particles)
    tables = [exact(model.kernel_.clone_with_theta(one)) for one in theta]
    average = logsumexp(tables, axis=0) - np.log(4.0)
    np.testing.assert_allclose(loo(model, X, Y).pointwise, average, atol=1e-5)


@pytest.mark.slow_but("vecchia")
@pytest.mark.parametrize("approximation", ["vecchia", "fitc"])
def test_weights_of_a_posterior_change_without_a_row(approximation):
    fixed = ConstantKernel(2.0, "fixed") * Matern([1.0, 2.0], "fixed", nu=1.5)
    model = SparseGPRegressorPMD(
        fixed + WhiteKernel(0.1, (0.01, 1.0)), normalize_y=False, n_particles=32,
        weighting="posterior", approximation=approximation, n_inducing=40, n_neighbors=39,
        jitter=1e-12, random_state=0,
    ).fit(X, Y)  # fmt: skip
    # By neighbours predictions are those of equally weighted draws of the posterior.
    theta, weights = model._state.particles.theta, model._state.weights
    tables = np.array([exact(model.kernel_.clone_with_theta(one)) for one in theta])
    without = -logsumexp(-tables, axis=0, b=weights[:, None])
    found = loo(model, X, Y)
    # Smoothing the largest weights of 32 changes the average a little.
    np.testing.assert_allclose(found.pointwise, without, atol=0.05)
    assert found.elpd < logsumexp(tables, axis=0, b=weights[:, None]).sum()


def test_log_predictive_densities():
    one = process().fit(X, Y)
    y = np.where(np.arange(40) % 2, Y, Y + 3.0)
    found = one.log_predictive_density(X, y)
    np.testing.assert_array_equal(found, one.predict_proba(X).log_pdf(y))
    np.testing.assert_allclose(found[:3], one.log_predictive_density(X[:3], y[:3]), rtol=1e-9)
    student = process(likelihood="student_t", approximation="fitc").fit(X, Y)
    found = student.log_predictive_density(X, y[:, None])
    np.testing.assert_array_equal(found, student.predict_proba(X).log_pdf(y))
    # Several targets: over one particle a product, over several an average of products.
    both = np.column_stack([Y, np.cos(X[:, 1])])
    wide = process(n_particles=3, optimizer="fmin_l_bfgs_b", weighting="uniform").fit(X, both)
    mean, variance, noise = wide._all_moments(X, alpha=True)
    terms = stats.norm(mean, np.sqrt(variance + noise)).logpdf(both).sum(axis=2)
    exact_ = logsumexp(terms, axis=0, b=wide.posterior_.weights[:, None])
    np.testing.assert_allclose(wide.log_predictive_density(X, both), exact_, rtol=1e-9)
    with pytest.raises(ValueError, match="1 targets, it had 2"):
        wide.log_predictive_density(X, Y)
    with pytest.raises(NotFittedError, match="Call 'fit' before log_predictive_density"):
        process().log_predictive_density(X, Y)


def test_streams_and_wrappers():
    whole = loo(process(approximation="fitc", inducing_init=SOME).fit(X, Y), X, Y).pointwise
    stream = process(approximation="fitc", inducing_init=SOME)
    for part in (slice(0, 25), slice(25, 40)):
        stream.partial_fit(X[part], Y[part])
    np.testing.assert_allclose(loo(stream, X, Y).pointwise, whole, atol=1e-8)
    wrapped = make_pipeline(FunctionTransformer(), process(approximation="fitc")).fit(X, Y)
    np.testing.assert_allclose(loo(wrapped, X, Y).pointwise, exact(), atol=1e-6)
    short = ConstantKernel(2.0) * Matern([0.01, 0.01], nu=1.5) + WhiteKernel(0.1)
    models = {"right": process().fit(X, Y), "short": process().set_params(kernel=short).fit(X, Y)}
    assert compare(models, X, Y)["name"] == ["right", "short"]


def test_what_has_no_closed_form_is_refused():
    for how, match in (
        ({"approximation": "full_scale", "n_inducing": 10}, "full_scale.*cross_val_score"),
        ({"likelihood": "student_t"}, "student_t.*cross_val_score"),
        ({"alpha": np.linspace(0.1, 0.2, 40), "approximation": "fitc"}, "an alpha of each row"),
        ({"approximation": "vecchia", "reservoir_size": 20}, "20 rows that the fit has not"),
    ):
        with pytest.raises(ValueError, match=match):
            loo(process(**how).fit(X, Y), X, Y)
    forgetful = process(approximation="fitc", forgetting=0.1).partial_fit(X, Y)
    with pytest.raises(ValueError, match="forgetting"):
        loo(forgetful, X, Y)
    model = process().fit(X, Y)
    with pytest.raises(ValueError, match="y is None"):
        loo(model, X)
    with pytest.raises(ValueError, match="2 targets"):
        loo(model, X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="which counted 40 rows"):
        loo(model, X[:10], Y[:10])
    with pytest.raises(TypeError, match="Compare by loo"):
        waic(model, X, Y)
    classifier = SparseGPClassifierPMD(optimizer=None, random_state=0).fit(X, Y > 5.0)
    with pytest.raises(TypeError, match="Compare by cross-validation"):
        loo(classifier, X, Y > 5.0)


@pytest.mark.parametrize("approximation", ["fitc", "vfe", "dtc", "vecchia", "full_scale"])
def test_targets_are_independent_given_the_kernel(approximation):
    both = np.column_stack([Y, 10.0 * np.cos(X[:, 1])])
    own = {"approximation": approximation, "normalize_y": True}
    own |= {"n_inducing": 15} if approximation != "vecchia" else {"n_neighbors": 7}
    mean, std = process(**own).fit(X, both).predict(X[:9] + 0.1, return_std=True)
    for j in range(2):
        alone = process(**own).fit(X, both[:, j]).predict(X[:9] + 0.1, return_std=True)
        np.testing.assert_allclose(mean[:, j], alone[0], rtol=1e-7)
        np.testing.assert_allclose(std[:, j], alone[1], rtol=1e-7)
