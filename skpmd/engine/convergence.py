"""Certificates of Markov chains: split R-hat and effective sample size."""

import numpy as np


def split_r_hat(draws):
    """Split R-hat of each coordinate (Gelman et al., Bayesian Data Analysis, 3rd ed., 11.4).

    Parameters
    ----------
    draws : ndarray of shape (n_chains, n, d)
        Draws, n at least 4.

    Returns
    -------
    ndarray of shape (d,)
        Root of the ratio of the pooled variance to the variance within half chains; near 1 where
        all of them tell the same.
    """
    halves = _split(draws)
    n = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((n - 1) / n + between / within)


def effective_draws(draws):
    """Effective number of draws of each coordinate's mean.

    Autocorrelations over half chains, summed by Geyer's initial monotone sequence (Gelman et al.,
    Bayesian Data Analysis, 3rd ed., 11.5).

    Parameters
    ----------
    draws : ndarray of shape (n_chains, n, d)
        Draws, n at least 4.

    Returns
    -------
    ndarray of shape (d,)
        It may exceed the number of draws where successive draws are negatively correlated.
    """
    halves = _split(draws)
    chains, n, d = halves.shape
    out = np.empty(d)
    for j in range(d):
        out[j] = _effective(halves[:, :, j])
    return out


def _split(draws):
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _effective(x):
    """Of one coordinate, x of shape (chains, n)."""
    chains, n = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + x.mean(axis=1).var(ddof=1)
    if not total > 0.0:
        return np.nan  # it never moved
    correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = np.flatnonzero(pairs < 0.0)
    pairs = np.minimum.accumulate(pairs[: stop[0] if stop.size else None])
    tau = max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(chains * n))
    return chains * n / tau
