"""Inducing inputs for what is smooth, and the nearest rows for what they leave.

With v the whitened values at the inducing inputs (`skpmd.sparse_gp._model`) the process is
v_x' v + r(x), and r has the covariance k(x, x') - v_x' v_x'. Given v, each row is conditioned on
its nearest rows before it by the covariance of r (`skpmd.sparse_gp._vecchia`). With N these rows,

    b = (R_NN + noise)^-1 R_Ni,    d = R_ii - R_iN b + noise of row i,

y_i - b' y_N is normal around (v_i - V_N b)' v with variance d: a row of a linear model of v, like
those of any process with inducing inputs. It adds to the natural parameters of q(v), and the
log-partition function of these is the log marginal likelihood. With all rows before as neighbours,
or all rows as inducing inputs, it is the exact one; without neighbours it is that of "fitc".

Snelson and Ghahramani (2007) have blocks in the place of neighbours, and Sang and Huang (2012) a
taper; with neighbours it is the full-scale approximation of Gyger, Furrer and Sigrist (2025).
"""

from typing import Any, NamedTuple

import numpy as np

from skpmd._runtime.threads import each
from skpmd.engine.model import Batch
from skpmd.sparse_gp._blas import dsyrk, dtrsm
from skpmd.sparse_gp._kernels import regression_weights
from skpmd.sparse_gp._model import InducingConditional, SparseGP
from skpmd.sparse_gp._neighbours import index_of, nearest
from skpmd.sparse_gp._vecchia import (
    log_density_of_copies,
    noise_of_means,
    places_together,
    scaled_rows,
    weights_together,
)

_AT_ONCE = 1 << 18  # Numbers that a thread holds of the neighbours of some rows: in its cache.


class RowsUnder(NamedTuple):
    """All rows under one particle."""

    scaled: np.ndarray  # (n, p): Inputs, in length scales.
    noise: np.ndarray  # (n,): Of their means.
    whitened: np.ndarray  # (n, M): v_x.


class FullScaleConditional(NamedTuple):
    """What predictions under one particle need."""

    process: InducingConditional  # q(u).
    rows: RowsUnder
    index: Any  # Of the rows, for `nearest`.


class FullScaleGP(SparseGP):
    """The process with a normal likelihood and a kernel that is fast.

    ``rows`` is the `VecchiaGP` that has the rows and finds neighbours; ``batch.place`` of
    the contract says which of them a batch has. The weights of particles are those of the
    neighbours' likelihood: the block has no part in them.
    """

    def __init__(self, rows, inducing, jitter, n_nearest):
        super().__init__(
            rows.covariance, rows.prior, inducing, "full_scale", jitter, rows.n_targets,
            block_weighs=False,
        )  # fmt: skip
        self.rows, self.n_nearest = rows, n_nearest
        self._known = None

    def __getstate__(self):
        """What is pickled: not what can be made again."""
        return {**super().__getstate__(), "_known": None}

    def batches(self, n=None):
        """All rows, or the first of them, in one batch."""
        n = len(self.rows.sites.weight) if n is None else n
        return (Batch(None, None, np.ones(n), place=np.arange(n)),)

    def statistics(self, theta, block, batch):
        """What the rows add, each with the places of its neighbours beside it in the batch."""
        batch = batch._replace(local=self.rows.before(batch.place))
        return super().statistics(theta, block, batch)

    def _add(self, theta, conditional, batch, precision, linear, rest):
        super()._add(theta, self._under(theta), batch, precision, linear, rest)

    def _part(self, theta, known, batch):
        """What some rows add to the precision's lower triangle, the linear part and the rest."""
        places, weight, sites = batch.place, batch.weight, self.rows.sites
        V, shift, variance = self._left(
            theta, known, known.scaled[places], known.whitened[places], batch.local
        )
        variance += known.noise[places]
        y, p = sites.y[places] - shift, weight / variance
        rest = weight @ log_density_of_copies(self.covariance.term(theta), sites, places)[0]
        rest -= 0.5 * self.n_targets * (weight @ np.log(2.0 * np.pi * variance))
        rest -= 0.5 * (p @ (y**2).sum(axis=1))
        linear = V.T @ (p[:, None] * y)
        V *= np.sqrt(p)[:, None]
        return dsyrk(1.0, V.T), linear, rest

    def _under(self, theta):
        """`RowsUnder` one particle; those of the last are remembered."""
        known, key = self._known, theta.tobytes()
        if known is None or known[0] != key:
            term, sites = self.covariance.term(theta), self.rows.sites
            scaled = scaled_rows(term, sites.X, self.rows.middle)
            whitened = np.ascontiguousarray(self.whitened(theta, sites.X).T)
            known = self._known = key, RowsUnder(scaled, noise_of_means(term, sites), whitened)
        return known[1]

    def _left(self, theta, known, points, whitened, near):
        """What neighbours leave of v_x of some points, (k, M), their part of means, and variances.

        Points (k, p) are in length scales, ``whitened`` (k, M) are their v_x, and ``near`` (k, c)
        the places of their neighbours, -1 after the last.
        """
        term, y = self.covariance.term(theta), self.rows.sites.y
        out, near = whitened.copy(), np.ascontiguousarray(near)
        shift, variance = np.empty((len(points), self.n_targets)), np.empty(len(points))

        def fill(some):
            at = np.maximum(near[some], 0)
            both = np.concatenate([known.whitened[at], whitened[some, None]], axis=1)
            weights = np.empty(at.shape)
            regression_weights(
                points[some], known.scaled, both @ both.transpose(0, 2, 1), known.noise,
                near[some], term.amplitude, term.shape, term.apart, weights, variance[some],
            )  # fmt: skip
            out[some] -= (weights[:, None] @ both[:, :-1])[:, 0]
            shift[some] = (weights[:, None] @ y[at])[:, 0]

        step = max(1, _AT_ONCE // ((near.shape[1] + 1) * self.n_inducing))
        each(fill, [slice(a, a + step) for a in range(0, len(points), step)])
        return out, shift, variance

    # ------------------------------------------------------------------ one particle
    def conditional(self, theta, block):
        """What predictions under one particle need."""
        located = self.rows.located(self.rows.sites.X, self.covariance.term(theta).length_scale)
        return FullScaleConditional(
            super().conditional(theta, block), self._under(theta), index_of(located)
        )

    def mean(self, theta, conditional, X):
        """Means of f at the rows of X under one particle, shape (n, t), those of `predict`."""
        return self.predict(theta, conditional, X)[0]

    def predict(self, theta, conditional, X, joint=False):
        """Moments of f at the rows of X under one particle: means (n, t) and variances (n,).

        With ``joint`` the covariance, of shape (n, n), stands in place of the variances: all rows
        of X are then conditioned on the neighbours of any of them, 3000 at most.
        """
        term, (q, known, index) = self.covariance.term(theta), conditional
        points = scaled_rows(term, X, self.rows.middle)
        whitened = np.ascontiguousarray(self.whitened(theta, X).T)
        near = nearest(index, self.rows.located(X, term.length_scale), self.n_nearest)
        if joint:
            V, shift, left = self._left_together(theta, known, X, whitened, places_together(near))
        else:
            V, shift, left = self._left(theta, known, points, whitened, near)
        half = dtrsm(1.0, q.factor, V.T)
        known = half.T @ half if joint else np.einsum("ij,ij->j", half, half)
        return V @ q.mean + shift, left + known

    def _left_together(self, theta, known, X, whitened, some):
        """As `_left`, of points given the same rows; covariances (k, k) in place of variances."""
        sites, V = self.rows.sites, known.whitened[some]
        weights, left = weights_together(
            self.covariance, theta, X - self.rows.middle, sites.X[some] - self.rows.middle,
            known.noise[some], (whitened, V),
        )  # fmt: skip
        return whitened - weights @ V, weights @ sites.y[some], left
