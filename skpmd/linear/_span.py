"""More coefficients than rows, under a normal prior: a posterior in the span of the rows.

Rows say nothing of what is orthogonal to all of them, in units of prior standard deviations. So
coefficients are the sum of two parts that are independent: one in the span, of as many coordinates
as there are rows, which is found as any posterior, and one of the prior.
"""

from typing import NamedTuple

import numpy as np

from skpmd._rows.rows import Rows, without_copies
from skpmd._rows.table import is_in_memory
from skpmd.linear._design import LinearModel
from skpmd.linear._priors import NormalPrior

_MIN_GAIN = 1.25  # So many times as many columns as rows are worth a decomposition.
FEWEST = 64  # Of fewer columns weights settle what there is.
_MAX_COPIES = 4  # Of more rows a column none are looked for.


class Span(NamedTuple):
    """A fit of coefficients in the span of the rows, and the way back."""

    model: LinearModel  # Under a prior of unit variance of these.
    rows: Rows  # Their columns are the coordinates.
    basis: np.ndarray  # (p, r): Orthonormal columns.
    scale: np.ndarray  # (p,): Prior standard deviations.
    seed: int  # Of what is orthogonal to it.
    whole: LinearModel

    def restored(self, outcome):
        """The `Outcome` of all coefficients."""
        particles, (p, r) = outcome.particles, self.basis.shape
        own, others = particles.theta[:, :r], particles.theta[:, r:]
        free = np.random.default_rng(self.seed).standard_normal((len(own), p))
        free += (own - free @ self.basis) @ self.basis.T
        theta = np.hstack([free * self.scale, others])
        log_prior = self.whole.log_prior(theta)
        log_pi = particles.log_pi + log_prior - particles.log_prior
        particles = particles._replace(theta=theta, log_prior=log_prior, log_pi=log_pi)
        return outcome._replace(particles=particles)


def span_of(model, rows, rng):
    """The `Span` of rows that are clearly fewer than columns; None of others."""
    X, prior = rows.data.X, model.prior
    if not (is_in_memory(X) and isinstance(prior, NormalPrior)) or model.n_logits > 1:
        return None
    n, p = X.shape
    if n > _MAX_COPIES * p or rows.data.group is not None:
        return None
    scaled = model.design((rows.data, slice(None)))[0][:, :p] * prior.scale[:p]
    # Copies of a row are its weight.
    data, _ = without_copies(rows.data._replace(X=scaled))
    if p < _MIN_GAIN * len(data.weight):
        return None
    left, values, basis = np.linalg.svd(data.X, full_matrices=False)
    own = NormalPrior(np.append(np.ones(len(values)), prior.scale[p:]))
    seed = int(rng.integers(1 << 32))
    span = Rows.of(data._replace(X=left * values), len(data.weight))
    return Span(model.with_prior(own), span, basis.T, prior.scale[:p], seed, model)
