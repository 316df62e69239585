"""Simulation-based calibration of generalised linear models (Talts et al. 2018), each family.

Ordered classes are among them, under their default priors: of coefficients per sd of their columns,
of cutpoints where columns are at their means. So are groups, 12 of four rows, whose effects are
integrated and whose sd has a prior.

Coefficients and dispersions from their priors, rows from the model, and the rank of the true ones
among draws of the posterior. 200 replications, seeds fixed beforehand; the chi-square test over 20
bins must not reject at 1 % after Bonferroni's correction over the coordinates.
"""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import chisquare

from skpmd import BayesianGLMRegressorPMD, BayesianOrdinalClassifierPMD

REPLICATIONS, DRAWS, BINS, CLASSES = 200, 99, 20, 4
GROUPS, GROUP_SIZE, GROUP_SCALE = 12, 4, 0.7
ROWS = {"ordinal": 10}  # Others have 40: of so many the prior of cutpoints would hardly matter.
# Scales of the prior on coefficients and intercept, and of that on the first dispersion.
SCALES = {
    "normal": (2.5, 2.5), "student_t": (2.5, 2.5), "poisson": (1.0, 1.0), "binomial": (1.0, 1.0),
    "negative_binomial": (1.0, 1.0), "gamma": (1.0, 1.0), "beta": (0.5, 0.3),
    "ordinal": (1.0, None),
}  # fmt: skip


def dispersions_of(family, scale, rng):
    if family in ("normal", "student_t"):
        sigma = scale * np.abs(rng.standard_t(3.0))
        return [sigma] if family == "normal" else [sigma, rng.gamma(2.0, 10.0)]
    if family in ("poisson", "binomial"):
        return []
    if family == "ordinal":
        return list(logit(np.cumsum(rng.dirichlet(np.ones(CLASSES)))[:-1]))
    return [(scale * rng.standard_normal()) ** -2.0]


def targets(family, z, phi, rng):
    n = len(z)
    share = expit(z)
    y = {
        "normal": lambda: z + phi[0] * rng.standard_normal(n),
        "student_t": lambda: z + phi[0] * rng.standard_t(phi[1], n),
        "poisson": lambda: rng.poisson(np.exp(z)),
        "negative_binomial": lambda: rng.poisson(rng.gamma(phi[0], np.exp(z) / phi[0])),
        "gamma": lambda: np.maximum(rng.gamma(phi[0], np.exp(z) / phi[0]), 1e-300),
        "binomial": lambda: rng.binomial(1, share),
        "beta": lambda: rng.beta(share * phi[0], (1.0 - share) * phi[0]),
        "ordinal": lambda: np.digitize(z + rng.logistic(size=n), phi),
    }[family]()
    return np.clip(y, 1e-300, 1.0 - 1e-16) if family == "beta" else y.astype(np.float64)


def drawn_and_fitted(family, seed, rng, wrong, **params):
    """The true coordinates and an estimator of rows that are drawn given them."""
    if params.pop("has_groups", False):
        return drawn_with_groups(family, seed, rng, wrong)
    scale, of_dispersion = SCALES[family]
    b, phi = scale * rng.standard_normal(3), dispersions_of(family, of_dispersion, rng)
    X = rng.standard_normal((ROWS.get(family, 40), 2))
    if family == "ordinal":
        b = b[:2] / X.std(axis=0)
        model = BayesianOrdinalClassifierPMD(range(CLASSES), prior_scale=wrong, **params)
        y = targets(family, (X - X.mean(axis=0)) @ b, phi, rng)
    else:
        model = BayesianGLMRegressorPMD(
            family, scale=None, prior_scale=wrong * scale, intercept_prior_scale=scale,
            dispersion_prior_scale=of_dispersion, **params,
        )  # fmt: skip
        y = targets(family, X @ b[:2] + b[2], phi, rng)
    return np.append(b, phi), model.set_params(random_state=seed).fit(X, y)


def drawn_with_groups(family, seed, rng, wrong):
    """The same where rows are in groups; it is the prior of their sd that may be wrong."""
    scale, of_dispersion = SCALES[family]
    b, phi = scale * rng.standard_normal(3), dispersions_of(family, of_dispersion, rng)
    sd = GROUP_SCALE * np.abs(rng.standard_t(3.0))
    codes = np.repeat(np.arange(GROUPS), GROUP_SIZE)
    X = np.column_stack([rng.standard_normal((len(codes), 2)), codes])
    effect = sd * rng.standard_normal(GROUPS)[codes]
    y = targets(family, X[:, :2] @ b[:2] + b[2] + effect, phi, rng)
    model = BayesianGLMRegressorPMD(
        family, groups=[2], scale=None, prior_scale=scale, intercept_prior_scale=scale,
        dispersion_prior_scale=of_dispersion, group_prior_scale=wrong * GROUP_SCALE,
        random_state=seed,
    )  # fmt: skip
    return np.concatenate([b, phi, [sd]]), model.fit(X, y)


def p_values(family, wrong=1.0, **params):
    rng = np.random.default_rng(20261129)
    ranks = []
    for seed in range(REPLICATIONS):
        truth, model = drawn_and_fitted(family, seed, rng, wrong, **params)
        w = model.posterior_.weights
        drawn = model.posterior_.particles[rng.choice(len(w), DRAWS, p=w)]
        ranks.append((drawn < truth).sum(axis=0))
    bins = np.array(ranks) * BINS // (DRAWS + 1)
    return np.array([chisquare(np.bincount(one, minlength=BINS)).pvalue for one in bins.T])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("family", SCALES)
def test_ranks_are_uniform(family):
    found = p_values(family)
    assert (found > 0.01 / len(found)).all(), found


@pytest.mark.slow
@pytest.mark.parametrize("family, n", [("poisson", 3), ("ordinal", 1 + CLASSES)])
def test_a_wrong_scale_is_noticed(family, n):
    assert (p_values(family, wrong=0.2) < 0.01 / n).any()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("family", ["normal", "binomial", "poisson"])
def test_ranks_are_uniform_with_groups(family):
    found = p_values(family, has_groups=True)
    assert (found > 0.01 / len(found)).all(), found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_wrong_scale_of_group_sds_is_noticed():
    assert (p_values("poisson", wrong=0.2, has_groups=True) < 0.01 / 4).any()
