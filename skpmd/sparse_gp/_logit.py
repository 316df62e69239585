"""Sparse Gaussian process classification: labels through a logistic link, by moment matching.

Each class (one of two classes alone) has a process f with the likelihood sigmoid(s f) of a row, s
= 1 for rows of the class and -1 for others. Expectation propagation puts a normal site in its
place, exp(b f - p f^2 / 2): such that q, with this one site replaced by the likelihood itself,
keeps its mean and variance at the row (Minka 2001; Rasmussen and Williams 2006, section 3.6). Given
the sites, a row x adds as in regression to the natural parameters of q(u | Z), v = L^-1 u,

    p' v_x v_x'  to the precision,  b' v_x  to the linear part,  (p', b') = (p, b) / (1 + p l):

f(x) is v_x' v and an independent part of variance l = k(x, x) - v_x' v_x (and noise of the kernel),
over which the likelihood is integrated (the generalised FITC of Naish-Guzman and Holden 2007). So
the labels' terms stay independent given u, copies of a row are its weight, and where all distinct
rows are inducing inputs nothing is left out.

A site depends on all others through q, so no step is exact: sites of each iteration come from q(u)
of the one before, as in `skpmd.sparse_gp._student`. They are local variables of the rows. A row of
weight w has w equal sites, of which one (or w, below 1) is taken out of q at a time. The last
coordinate of the block adds up logs of the sites' scales: the log-partition function is then the
log evidence of expectation propagation.
"""

import numpy as np

from skpmd._runtime.threads import in_order
from skpmd.sparse_gp import _kernels_logistic as kernels
from skpmd.sparse_gp._blas import dsyrk, dtrsm
from skpmd.sparse_gp._model import SparseGP, blocks_of


class LogitSparseGP(SparseGP):
    """The processes of a classifier.

    ``n_processes`` follow each other in ``theta`` and in the block as if each were a particle: its
    q(u) has a row of the block, and equal hyperparameters stand in n_processes rows of ``theta``.

    ``y`` of a batch are codes of labels, and ``local`` has 2 len(theta) columns: for each row of
    ``theta`` the precision and the linear part of the site. `statistics` overwrites sites.

    ``damping`` is the share of the way to its new value that a site takes. Other arguments are as
    of `SparseGP`.
    """

    def __init__(self, covariance, prior, inducing, jitter, n_processes, damping=1.0):
        super().__init__(covariance, prior, inducing, "fitc", jitter, block_weighs=False)
        self.n_processes, self.damping = n_processes, damping

    def statistics(self, theta, block, batch):
        """What the rows' new sites add, shape (m, M^2 + M + 1)."""
        out, known = self.prior_block(theta), self.conditionals(theta, block)
        n = self.n_processes
        for a in range(0, len(theta), n):  # Processes of one particle share v_x.
            self._add_particle(theta[a], known[a : a + n], batch, a, self._parts(out[a : a + n]))
        return out

    def _add_particle(self, theta, known, batch, first, totals):
        def of(rows):
            return self._sites(theta, known, batch.take(rows), first)

        self.prior_factor(theta)  # Found once, not by each thread.
        for part in in_order(of, blocks_of(len(batch.weight)), at_once=1):
            for k, (precision, linear, log_scale) in enumerate(part):
                totals[0][k] += precision
                totals[1][k, :, 0] += linear
                totals[2][k] += log_scale

    def _sites(self, theta, known, batch, first):
        """Update the sites of some rows; what they add for each process of a particle."""
        X, w, local = batch.X, batch.weight, batch.local
        V = self.whitened(theta, X)
        noise = self.covariance.noise(theta, X)
        left = np.maximum(self.covariance.diagonal(theta, X) - np.einsum("ij,ij->j", V, V), 0.0)
        left += noise
        out, log_scale = [], np.empty(len(X))
        for k, conditional in enumerate(known):
            column = 2 * (first + k)
            solved = dtrsm(1.0, conditional.factor, V)
            mean, variance = V.T @ conditional.mean[:, 0], np.einsum("ij,ij->j", solved, solved)
            precision, linear = local[:, column].copy(), local[:, column + 1].copy()
            kernels.sites(
                self.signs(batch.y, k), w, mean, variance, left, self.damping, precision, linear,
                log_scale,
            )  # fmt: skip
            local[:, column], local[:, column + 1] = precision, linear
            out.append(self._contribution(V, left, w, precision, linear, log_scale))
        return out

    def _contribution(self, V, left, w, precision, linear, log_scale):
        """Sites on f as what they add to q(u), with what is left open integrated out."""
        spread = 1.0 + precision * left
        # Scales are those of sites on f, and become those of sites on v_x' v.
        log_scale = log_scale + 0.5 * (linear**2 * left / spread - np.log(spread))
        return (
            dsyrk(1.0, V * np.sqrt(w * precision / spread)),
            V @ (w * linear / spread),
            (w @ log_scale),
        )

    def signs(self, codes, k):
        """1 for rows of process k's class, -1 for others; one process alone is that of code 1."""
        return np.where(codes == (1 if self.n_processes == 1 else k), 1.0, -1.0)

    def log_evidences(self, block):
        """Log evidence of each particle: that of all its processes, shape (m,)."""
        return self.log_partition(block).reshape(-1, self.n_processes).sum(axis=1)

    def best_evidence(self, particles):
        """Log evidence of the rows so far, of the best particle."""
        return float(self.log_evidences(particles.block).max())
