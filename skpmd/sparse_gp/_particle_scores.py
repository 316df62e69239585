"""Log predictive densities of rows under each particle of a process with inducing inputs."""

import numpy as np
from scipy.special import logsumexp

from skpmd._runtime.call import phase
from skpmd._runtime.threads import each
from skpmd.sparse_gp._model import blocks_of
from skpmd.sparse_gp._student import scale_nodes


@phase("scores of particles")
def log_density(state, rows):
    """Log predictive densities of rows under each particle, shape (m, n)."""
    blocks, out = blocks_of(len(rows.data.weight)), []
    for i, theta in enumerate(state.particles.theta):
        conditional = state.conditional(i)

        def of(some, theta=theta, conditional=conditional):
            return _log_density(state.model, theta, conditional, rows.data.take(some))

        out.append(np.concatenate(each(of, blocks)))
    return np.array(out)


def _log_density(model, theta, conditional, batch):
    """Log predictive densities of a batch under one particle; Student noise by its nodes."""
    mean, variance = model.predict(theta, conditional, batch.X)
    noise = model.covariance.noise(theta, batch.X) + batch.noise
    squared = ((batch.y - mean) ** 2).sum(1)
    factors, weights = scale_nodes(model.df)
    total = variance + np.outer(factors, noise)
    terms = -0.5 * (mean.shape[1] * np.log(2.0 * np.pi * total) + squared / total)
    return logsumexp(terms, axis=0, b=weights[:, None])
