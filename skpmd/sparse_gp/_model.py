"""Sparse Gaussian process regression: hyperparameters are particles, inducing values conjugate.

Given hyperparameters and inducing inputs Z, the values u = f(Z) are Gaussian, and each row of data
adds to the natural parameters of q(u | Z) (appendix F.1 of the paper). These are those of
v = L^-1 u, L the Cholesky factor of K_ZZ, whose prior is N(0, I): a row x with value y adds

    p v_x v_x'  to the precision,  p y v_x  to the linear part,  v_x = L^-1 k(Z, x),  p = 1 / var,

with var the noise for "dtc" and "vfe", and the noise and k(x, x) - v_x' v_x for "fitc" (Quinonero-
Candela and Rasmussen 2005; Titsias 2009). What does not depend on u, the normaliser of each row and
the trace of "vfe", is a last coordinate, so that the log-partition function of the block alone is
the log marginal likelihood. (The p-tilde printed in F.1 leaves out normalisers that depend on Z.)
"""

import copy
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from skpmd._runtime.threads import each, in_order
from skpmd.engine.model import Model
from skpmd.sparse_gp._blas import dpotrf, dpotrs, dsyrk, dtrsm

APPROXIMATIONS = ("dtc", "fitc", "vfe")
NEAR = ("vecchia", "full_scale")  # Those with neighbours, which retain the rows.
MAX_JITTER = 1e-2  # Largest jitter, as a fraction of the mean diagonal.
# Jitter of searches along gradients, which have the inverse of K_ZZ in them.
SEARCH_JITTER = 1e-8
# Smallest variance of noise, as a fraction of the mean variance of f that is left by one of the
# inducing inputs, and so many times the rounding of a factor of all of it. All rows have the same:
# where there is no other noise it decides how they weigh.
MIN_NOISE, _ROUNDING = 1e-10, 8.0
# What inducing inputs leave of a row's variance is rounding below this fraction of it.
_NOTHING_LEFT = 1e-13
# At most so many factors of K_ZZ are cached, and at most so many numbers in them (256 MB).
_MAX_FACTORS, _MAX_CACHED = 64, 1 << 25
_ROWS = 1000  # A thread whitens so many rows at a time, or up to twice as many.
_MAX_AT_ONCE = 1 << 20  # At most so many numbers are in the matrices that are factored together.


class InducingConditional(NamedTuple):
    """q(u | Z) of one particle, factored."""

    inducing: np.ndarray  # Z.
    prior_factor: np.ndarray  # L.
    factor: np.ndarray  # Of the precision of v.
    mean: np.ndarray  # Of v, (M, t).
    direct: np.ndarray  # L^-T times it: covariances with Z times this are means of f.


def log_normal(y, mean, variance):
    """Log densities of rows of t targets (n, t), which have one variance each; shape (n,)."""
    squares = ((y - mean) ** 2).sum(axis=1)
    return -0.5 * (y.shape[1] * np.log(2.0 * np.pi * variance) + squares / variance)


def distance(one, other):
    """How far the mean of v is from that of another q(v), in standard deviations of the first."""
    return float(np.linalg.norm(one.factor.T @ (other.mean - one.mean)))


class SparseGP(Model):
    """The process with a normal likelihood, whose kernel's hyperparameters theta are the particles.

    The prior is that of theta, a `HyperPrior`. ``inducing`` (M, p) is the Z of all particles, and
    ``approximation`` is "dtc", "fitc" or "vfe", as in the module's text. ``jitter`` is that of
    `jittered_cholesky`.

    The t = ``n_targets`` have one covariance and are independent given theta. ``y`` of a batch has
    t + 1 columns: the targets, and the variance of the row's own noise.

    ``block_weighs`` is that of `skpmd.engine.model.Model`.
    """

    df = None  # Degrees of freedom of Student noise.
    n_processes = 1  # How many rows of the particles belong to one set of hyperparameters.

    def __init__(
        self, covariance, prior, inducing, approximation, jitter, n_targets=1, *,
        block_weighs=True,
    ):  # fmt: skip
        self.covariance, self.prior, self.approximation = covariance, prior, approximation
        self.inducing = inducing
        self.jitter, self.n_targets = jitter, n_targets
        self.block_weighs = block_weighs
        self._factors, self._factored = {}, (None, None)

    def __getstate__(self):
        """What is pickled: not what can be made again."""
        return {**vars(self), "_factors": {}, "_factored": (None, None)}

    @property
    def n_inducing(self):
        """M."""
        return len(self.inducing)

    @property
    def n_stored(self):
        """Numbers that a prediction holds for each of its rows, roughly."""
        return self.n_inducing

    def sample_prior(self, rng, m):
        """Draw m rows of hyperparameters."""
        return self.prior.sample(rng, m)

    def log_prior(self, theta):
        """Log density of the hyperparameters."""
        return self.prior.log_density(theta)

    def log_likelihood(self, theta, batch):
        """Zero: the part that does not depend on u is in the block."""
        return np.zeros(len(theta))

    def prior_block(self, theta):
        """Zero: N(0, I) is left out of the natural parameters."""
        M = self.n_inducing
        return np.zeros((len(theta), M * (M + self.n_targets) + 1))

    def statistics(self, theta, block, batch):
        """What the rows add, shape (m, M^2 + M t + 1); only the precision's lower triangle."""
        out, weighing = self.prior_block(theta), self._weighing(theta, block)

        def add(i):
            precision, linear, rest = self._parts(out[i : i + 1])
            self._add(theta[i], weighing[i], batch, precision[0], linear[0], rest)

        each(add, range(len(theta)))
        return out

    def add_statistics(self, one, other):
        """Statistics of two batches together, in the place of the first."""
        one += other
        return one

    def update_block(self, theta, block, a, b, statistics):
        """Natural parameters after a step; no copies, for they are large and the prior's are 0."""
        new = statistics if b == 1.0 else b * statistics
        if a == 1.0:
            return new
        return (block if a == 0.0 else (1.0 - a) * block) + new

    def _add(self, theta, conditional, batch, precision, linear, rest):
        def of(rows):
            return self._part(theta, conditional, batch.take(rows))

        self.prior_factor(theta)  # Found once, not by each thread.
        # A part has M^2 numbers: few of them wait.
        for part in in_order(of, blocks_of(len(batch.weight)), at_once=1):
            for total, one in zip((precision, linear, rest), part, strict=True):
                total += one

    def _part(self, theta, conditional, batch):
        """What some rows add to the precision's lower triangle, the linear part and the rest."""
        X, y, w = batch.X, batch.y, batch.weight
        V = self.whitened(theta, X)
        noise = np.maximum(self.covariance.noise(theta, X) + batch.noise, self.floor(theta))
        left = self.left_of(theta, X, V)
        if self.approximation == "fitc":
            noise = noise + left
            left = np.zeros(len(left))
        p, log_factors = self._row_terms(conditional, V, left, noise, y)
        linear = V @ ((w * p)[:, None] * y)
        rest = w @ (log_factors - 0.5 * p * (y**2).sum(axis=1))
        if self.approximation == "vfe":
            rest -= 0.5 * self.n_targets * ((w * p) @ left)
        V *= np.sqrt(w * p)
        return dsyrk(1.0, V), linear, rest

    def _weighing(self, theta, block):
        """q(u) of each particle by which rows are weighed; normal noise needs none."""
        return [None] * len(theta)

    def _row_terms(self, conditional, V, left, noise, y):
        """Precision of each row, and the log of what depends on neither y nor f, both (n,)."""
        return 1.0 / noise, -0.5 * self.n_targets * np.log(2.0 * np.pi * noise)

    def log_partition(self, block):
        """Log of the integral over u."""
        out = np.empty(len(block))
        step = max(1, _MAX_AT_ONCE // self.n_inducing**2)
        for a in range(0, len(block), step):
            some = slice(a, a + step)
            out[some] = self._log_partitions(block[some])
        return out

    def best_evidence(self, particles):
        """Log marginal likelihood of the rows so far, of the best particle."""
        return float(self.log_partition(particles.block).max())

    def _log_partitions(self, block):
        """By one Cholesky factor of the precision with the linear part s below it.

        The rows below are then (L^-1 s)', for any corner that leaves the matrix positive definite;
        twice |s|^2 does so whatever rounding does.
        """
        precision, linear, rest = self._parts(block)
        M, t = linear.shape[1:]
        whole = np.zeros((len(block), M + t, M + t))
        whole[:, :M, :M] = precision  # Only the lower triangle is read.
        whole[:, M:, :M] = linear.transpose(0, 2, 1)
        squared = np.einsum("imt,imt->i", linear, linear)
        corner = np.concatenate(
            [np.ones((len(block), M)), np.tile(1.0 + 2.0 * squared[:, None], (1, t))], axis=1
        )
        whole[:, np.arange(M + t), np.arange(M + t)] += corner
        factor = np.linalg.cholesky(whole)
        solved = factor[:, M:, :M]
        log_det = np.log(factor[:, np.arange(M), np.arange(M)]).sum(axis=1)
        return rest + 0.5 * np.einsum("itm,itm->i", solved, solved) - t * log_det

    def move_block(self, theta, block, moved):
        """Carry q(u) over to other hyperparameters: the same likelihood of the same values at Z.

        u = L v, so the precision S of v becomes (L^-1 L')^T S (L^-1 L'), scaled by the ratio of the
        noises. This is an approximation, for the rows are not there any more: the importance
        reweighting counts them anew.
        """
        out = np.empty_like(block)
        before, after = self._parts(block), self._parts(out)
        for i in range(len(moved)):
            old, new = self.prior_factor(theta[i]), self.prior_factor(moved[i])
            change = dtrsm(1.0, old, new)  # This is L^-1 L'.
            noise, new_noise = (self.covariance.noise(x[i], self.inducing) for x in (theta, moved))
            ratio = float(np.mean(noise)) / float(np.mean(new_noise))
            full = np.tril(before[0][i]) + np.tril(before[0][i], -1).T
            after[0][i] = ratio * (change.T @ full @ change)
            after[1][i] = ratio * (change.T @ before[1][i])
        after[2][:] = before[2]
        return out

    def at(self, inducing):
        """The same process at other inducing inputs."""
        model = copy.copy(self)
        model.inducing, model._factors = inducing, {}
        return model

    def onto(self, inducing, theta, block):
        """The process at other inducing inputs, and q(u) carried over to them, shape (m, k').

        Values at the old ones are v = G v' + e given those at the new, e normal with covariance
        R = I - G G', and their likelihood, normal with precision S, is integrated over e. Where the
        new inputs hold the old ones R is zero and nothing is lost.
        """
        model = self.at(inducing)
        out = model.prior_block(theta)
        before, after = self._parts(block), model._parts(out)
        for i, one in enumerate(theta):
            S = np.tril(before[0][i]) + np.tril(before[0][i], -1).T
            s = before[1][i]
            G = dtrsm(1.0, self.prior_factor(one), model.whitened(one, self.inducing).T)
            R = np.eye(len(G)) - G @ G.T
            mixed = np.eye(len(G)) + S @ R
            solved = np.linalg.solve(mixed, np.hstack([S, s]))
            after[0][i] = G.T @ solved[:, : len(G)] @ G
            after[1][i] = G.T @ solved[:, len(G) :]
            log_det = np.linalg.slogdet(mixed)[1]
            gain = 0.5 * np.vdot(s, R @ solved[:, len(G) :])
            after[2][i] = before[2][i] + gain - 0.5 * self.n_targets * log_det
        return model, out

    # ------------------------------------------------------------------ one particle
    def _parts(self, block):
        """Views: precision (m, M, M), each in Fortran order, linear part (m, M, t), rest (m,)."""
        M = self.n_inducing
        precision = block[:, : M * M].reshape(-1, M, M).transpose(0, 2, 1)
        return precision, block[:, M * M : -1].reshape(-1, M, self.n_targets), block[:, -1]

    def prior_factor(self, theta):
        """L of one particle, lower, Fortran order."""
        key = theta.tobytes()
        factor = self._factors.get(key)
        if factor is None:
            K = self.covariance.cross(theta, self.inducing, self.inducing)
            factor = jittered_cholesky(K, self.jitter)
            if len(self._factors) >= min(_MAX_FACTORS, _MAX_CACHED // factor.size):
                self._factors = {}
            self._factors[key] = factor
        return factor

    def floor(self, theta):
        """Smallest variance of noise under one particle; see `floor_of_noise`."""
        return floor_of_noise(self.covariance, theta, self.inducing)

    def whitened(self, theta, X):
        """v_x of the rows of X under one particle, shape (M, n), Fortran order."""
        factor = self.prior_factor(theta)

        def of(rows):
            cross = self.covariance.cross(theta, X[rows], self.inducing)
            return dtrsm(1.0, factor, cross.T, overwrite_b=1)

        parts = each(of, blocks_of(len(X)))
        return parts[0] if len(parts) == 1 else np.concatenate([V.T for V in parts]).T

    def left_of(self, theta, X, V):
        """Variance that the values at the inducing inputs leave of whitened rows V, (n,).

        Where that is rounding it is none: beside a small noise it would change the row's precision.
        """
        variance = self.covariance.diagonal(theta, X)
        left = variance - np.einsum("ij,ij->j", V, V)
        left[left < _NOTHING_LEFT * variance] = 0.0
        return left

    def conditional(self, theta, block):
        """q(u | Z) of one particle, factored."""
        (precision,), (linear,), _ = self._parts(block[None])
        factor = _cholesky(precision, 1.0)
        if factor is None:
            raise np.linalg.LinAlgError(
                "The precision of the inducing values is not positive definite: scale X and y, or "
                "give a kernel with more noise."
            )
        mean, _ = dpotrs(factor, linear)
        prior = self.prior_factor(theta)
        direct = solve_triangular(prior, mean, trans="T", lower=True, check_finite=False)
        return InducingConditional(self.inducing, prior, factor, mean, direct)

    def conditionals(self, theta, block):
        """q(u) of each particle, factored; kept for the block that they were last asked for."""
        if self._factored[0] is not block:  # Several batches come with one and the same block.
            pairs = zip(theta, block, strict=True)
            self._factored = block, each(lambda pair: self.conditional(*pair), pairs)
        return self._factored[1]

    def distance(self, theta, block, other):
        """How far the mean of v is from that of another block, in units of the first.

        It is the length of the difference over what it is on average for draws of q(v).
        """
        one, its = self.conditional(theta, block), self.conditional(theta, other)
        return distance(one, its) / np.sqrt(one.mean.size)

    def known(self, conditional, V):
        """Of whitened rows, (M, n): squares of the columns add up to variances under q(u)."""
        return dtrsm(1.0, conditional.factor, V)

    def mean(self, theta, conditional, X):
        """Means of f at the rows of X under one particle, shape (n, t), those of `predict`."""
        return self.covariance.cross(theta, X, conditional.inducing) @ conditional.direct

    def predict(self, theta, conditional, X, joint=False):
        """Moments of f at the rows of X under one particle: means (n, t) and variances (n,).

        With ``joint`` the covariance, of shape (n, n), stands in place of the variances; all
        targets have the same. The variance is k(x, x) - v_x' v_x + v_x' P^-1 v_x with P the
        precision of v, whatever the approximation: "dtc" of the paper leaves out the first two
        terms, and is over-confident.
        """
        cross = self.covariance.cross(theta, X, conditional.inducing)
        mean = cross @ conditional.direct
        V = dtrsm(1.0, conditional.prior_factor, cross.T, overwrite_b=1)
        known = self.known(conditional, V)
        if joint:
            return mean, self.covariance.cross(theta, X, X) - V.T @ V + known.T @ known
        left = self.covariance.diagonal(theta, X) - np.einsum("ij,ij->j", V, V)
        return mean, np.maximum(left, 0.0) + np.einsum("ij,ij->j", known, known)


def blocks_of(n):
    """Slices of n rows that are worth a thread."""
    edges = np.linspace(0, n, max(1, n // _ROWS) + 1).astype(int)
    return [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def _cholesky(K, extra):
    """Lower Cholesky factor of K, of which the lower triangle is read, and diag(extra); or None."""
    full = K.copy(order="F")
    full[np.diag_indices_from(full)] += extra
    factor, info = dpotrf(full, overwrite_a=1)
    return None if info or not np.isfinite(factor[-1, -1]) else factor


def pivoted(K, least):
    """Places of rows in the order of their variance given those before, and how many have any.

    Any is more than ``least`` times the mean variance, and more than what rounding leaves.
    """
    least = max(least, len(K) * np.finfo(np.float64).eps)
    _, pivots, rank, _ = dpstrf(K, tol=least * float(np.mean(np.diag(K))), lower=1)
    return pivots - 1, int(rank)


def floor_of_noise(covariance, theta, X):
    """Smallest variance of noise of rows X: a part of what they do not share.

    What they share may be most of the variance, as under a DotProduct far from zero, but no noise
    is below the rounding of a factor of all.
    """
    variance = covariance.diagonal(theta, X)
    place = int(variance.argmax())
    if not variance[place] > 0.0:
        return 0.0
    shared = covariance.cross(theta, X[place : place + 1], X)[0] / np.sqrt(variance[place])
    rounding = _ROUNDING * np.sqrt(len(X)) * np.finfo(np.float64).eps * float(np.mean(variance))
    return max(MIN_NOISE * float(np.mean(variance - shared**2)), rounding)


def jittered_cholesky(K, jitter):
    """Lower Cholesky factor of K, in which rows that the others determine have noise of their own.

    A row whose variance given others is below ``jitter`` times the mean variance, or below what
    rounding leaves, says nothing that they do not: it becomes a noisy copy, of noise as wide as the
    mean variance, and all other rows stay as they are. So a covariance of low rank is exact, where
    noise in all rows would be most of what is left of it. The limit is raised tenfold as long as
    there is no factor.
    """
    scale = float(np.mean(np.diag(K)))
    rounding = len(K) * np.finfo(np.float64).eps
    jitter = max(jitter, rounding)
    factor = _cholesky(K, 0.0)
    if factor is not None and np.diag(factor).min() ** 2 > max(jitter, 100.0 * rounding) * scale:
        return factor
    while jitter <= MAX_JITTER * 1.0001:
        places, rank = pivoted(K, jitter)
        noise = np.zeros(len(K))
        noise[places[rank:]] = scale
        factor = _cholesky(K, noise)
        if factor is not None:
            return factor
        jitter *= 10.0
    raise np.linalg.LinAlgError(
        f"The covariance of the {len(K)} inducing inputs is not positive definite, even without "
        f"what others leave less than {MAX_JITTER} of the variance of: check the kernel."
    )
