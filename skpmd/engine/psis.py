"""Importance weights whose largest are smoothed (Vehtari et al. 2024, Algorithm 1)."""

import numpy as np

from skpmd.engine.diagnostics import generalised_pareto, regularised, tail_length
from skpmd.engine.particles import log_weights

_FEWEST = 5  # So many weights above the cutoff have a shape.


def pareto_smoothed(log_ratio):
    """Normalised log weights (m,) and k-hat, from unnormalised ones.

    The largest are replaced by quantiles of the generalised Pareto distribution that fits them, and
    none is larger than the largest was. k-hat is nan where too few are above the tail's cutoff, and
    nothing is replaced; it is -inf where these differ by no more than rounding.
    """
    out = log_ratio - log_ratio.max()
    n_tail = tail_length(np.isfinite(out).sum())
    if n_tail < _FEWEST:
        return log_weights(out), np.nan
    order = np.argsort(out)
    cutoff = np.exp(out[order[-n_tail - 1]])
    tail = order[-n_tail:]
    tail = tail[np.exp(out[tail]) > cutoff]  # Equal draws may be at the cutoff.
    excess = np.exp(out[tail]) - cutoff
    if len(tail) < _FEWEST or excess[-1] <= 1e-12:
        return log_weights(out), -np.inf
    k, scale = generalised_pareto(excess)
    k = regularised(k, len(excess))
    if np.isfinite(k) and scale > 0.0:
        p = (np.arange(len(tail)) + 0.5) / len(tail)
        out[tail] = np.minimum(np.log(cutoff + _quantile(p, k, scale)), 0.0)
    return log_weights(out), float(k)


def _quantile(p, k, scale):
    """Quantiles of a generalised Pareto distribution that begins at 0."""
    if k == 0.0:
        return -scale * np.log1p(-p)
    return scale * np.expm1(-k * np.log1p(-p)) / k
