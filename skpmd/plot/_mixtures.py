"""Normal mixtures in one column, one for each particle of a mixture's posterior."""

import numpy as np
from scipy.special import ndtri

_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)
_BLOCK = 1 << 21  # So many densities of components are held at once.
_FAR = float(ndtri(0.9999))  # Components are drawn as far as this, in standard deviations.


def marginal_of(posterior, column):
    """Weights, means and standard deviations (m, K) of the particles' mixtures in one column."""
    places = getattr(posterior, "variables", None) or {}
    if not {"weights", "means", "stds"} <= set(places):
        raise TypeError(
            "the posterior must be that of a GaussianMixturePMD, with weights, means and stds."
        )
    n_columns = places["means"].columns.shape[1]
    if not -n_columns <= column < n_columns:
        raise ValueError(f"column must be one of {n_columns} columns, got {column!r}.")
    particles = posterior.particles
    return (
        particles[:, places["weights"].columns],
        particles[:, places["means"].columns[:, column]],
        particles[:, places["stds"].columns[:, column]],
    )


def densities(mixtures, x):
    """Density of each particle's mixture at each point, (m, g)."""
    weights, means, stds = mixtures
    out, step = np.empty((len(weights), len(x))), max(1, _BLOCK // (len(x) * weights.shape[1]))
    for start in range(0, len(weights), step):
        rows = slice(start, start + step)
        z = (x - means[rows, :, None]) / stds[rows, :, None]
        own = np.exp(-0.5 * z**2 - _LOG_ROOT_TWO_PI) / stds[rows, :, None]
        out[rows] = np.einsum("ik,ikg->ig", weights[rows], own)
    return out


def reach(mixtures, particle_weights):
    """Ends of a grid that contains the components that matter."""
    weights, means, stds = mixtures
    matters = weights * particle_weights[:, None] > 1e-4 * particle_weights.max()
    low, high = means - _FAR * stds, means + _FAR * stds
    return np.quantile(low[matters], 0.02), np.quantile(high[matters], 0.98)
