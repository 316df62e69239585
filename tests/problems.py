"""Models with known posteriors that the tests share."""

import numpy as np


def normal_log_likelihood(theta, X, y, sample_weight=None):
    """Rows x ~ N(theta, I), theta broadcast over the columns of X."""
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    squared = ((X[None, :, :] - theta[:, None, :]) ** 2).sum(axis=2)
    return -0.5 * squared @ weight - 0.5 * X.shape[1] * np.log(2 * np.pi) * weight.sum()


def normal_log_prior(theta):
    """theta ~ N(0, I)."""
    return -0.5 * (theta**2).sum(axis=1) - 0.5 * theta.shape[1] * np.log(2 * np.pi)


def normal_sample_prior(rng, m):
    return rng.standard_normal((m, 1))


NORMAL_MEAN = {
    "log_likelihood": normal_log_likelihood,
    "log_prior": normal_log_prior,
    "sample_prior": normal_sample_prior,
}
