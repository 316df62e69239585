"""How far to trust a cloud: Pareto k-hat, and the evidence with its standard error."""

import numpy as np

from skpmd.engine.particles import log_sum_exp

MOST_K = 0.7  # above this averages over the cloud are not to be trusted (Vehtari et al. 2024)
_LARGE = 50.0  # times the mean weight, in ten times as many draws


def heavy_tail(log_ratio, k):
    """Whether k-hat is above 0.7 and the tail it speaks of would carry visible weight.

    k-hat has no scale: among nearly equal weights it is the shape of a ripple, and says nothing.
    What the largest weight would be tells the two apart: with ten times as many draws the excess
    of the largest over the tail's start grows by 10^k.
    """
    if not k > MOST_K:
        return False
    tail = _largest(log_ratio)
    tail = np.exp(tail - log_sum_exp(log_ratio) + np.log(len(log_ratio)))  # times the mean
    return bool(tail[0] + 10.0**k * (tail[-1] - tail[0]) > _LARGE)


def pareto_k(log_ratio):
    """Shape of the generalised Pareto tail of importance weights (PSIS k-hat).

    Vehtari, Simpson, Gelman, Yao and Gabry, "Pareto smoothed importance sampling" (JMLR 2024):
    the min(0.2 m, 3 sqrt(m)) largest weights are fitted by the estimator of Zhang and Stephens
    (Technometrics 2009) with a weak prior at k = 0.5. Above 0.7 averages over the cloud are not
    to be trusted. A small value is necessary, not sufficient: a tail that no particle reached
    does not show.

    Parameters
    ----------
    log_ratio : ndarray of shape (m,)
        Unnormalised log weights of independent draws.

    Returns
    -------
    float
        k-hat; nan below 25 particles with a weight, -inf where all tail weights are equal.
    """
    tail = _largest(log_ratio)
    if len(tail) < 6:
        return np.nan
    tail = np.exp(tail - tail[-1])
    excess = tail[1:] - tail[0]
    excess = excess[excess > 0.0]
    if len(excess) < 5 or excess[-1] <= 1e-12:
        return -np.inf
    k = _zhang_stephens(excess)
    return float((k * len(excess) + 0.5 * 10) / (len(excess) + 10))


def _largest(log_ratio):
    """The tail of the log weights in ascending order, after its cutoff."""
    values = np.sort(log_ratio[log_ratio > -np.inf])
    n_tail = int(min(0.2 * len(values), 3.0 * np.sqrt(len(values))))
    return values[len(values) - n_tail - 1 :]


def _zhang_stephens(excess):
    """Shape of a generalised Pareto distribution from ascending positive excesses."""
    n = len(excess)
    n_grid = 30 + int(np.sqrt(n))
    quartile = excess[int(n / 4 + 0.5) - 1]
    theta = 1.0 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))
    theta = theta / (3.0 * quartile) + 1.0 / excess[-1]
    k = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = n * (np.log(-theta / k) - k - 1.0)
    weight = np.exp(profile - log_sum_exp(profile))
    best = weight @ theta
    return np.log1p(-best * excess).mean()


def log_evidence(log_ratio, group=None):
    """Log mean exponential of r and its standard error (delta method).

    Unbiased for the evidence itself after a step of a = b = 1 on all data that nothing split,
    from particles whose density pi and prior are both normalised.

    Parameters
    ----------
    log_ratio : ndarray of shape (m,)
        r after the step.
    group : ndarray of shape (m,), int, optional
        Particles with the same label were drawn together (antithetic pairs); labels count from
        0. The standard error then comes from the groups' means, which are independent.

    Returns
    -------
    log_evidence : float
        Estimate, in nats.
    standard_error : float
        Its standard error, in nats.
    """
    total = log_sum_exp(log_ratio)
    if total == -np.inf:
        return -np.inf, np.nan
    m = len(log_ratio)
    relative = np.exp(log_ratio - total) * m  # mean one
    if group is not None:
        relative = np.bincount(group, relative) / np.bincount(group)
    if len(relative) < 2:
        return float(total - np.log(m)), np.nan
    error = relative.std(ddof=1) / np.sqrt(len(relative))
    return float(total - np.log(m)), float(error)
