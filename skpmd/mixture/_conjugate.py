"""A mixture of conjugate components: q(weights, means, covariances) of each particle.

The labels z of the rows are implicit. A particle is the counts of its components; responsibilities
of a row are by the particle's own predictive density, r_k = E[weight_k] t_k(x) / sum, and the
counts move as natural parameters of an exponential family do (Dai et al. 2016, remark in 3.1):

    counts <- (1 - gamma) counts + gamma (N / B) sum over the batch of r f(x)

With gamma = 1 on all rows the counts are those that r says, and

    ELBO = A(prior + counts) - A(prior) + entropy of r  <=  log p(rows)

holds for any r: that is the step's own log ratio (with r fixed it is Bayes' rule), less what
having fixed r costs.
"""

from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from skpmd._runtime.threads import in_order
from skpmd.engine.model import Model, linear_form
from skpmd.engine.particles import Particles
from skpmd.mixture._components import FAMILIES, Normals
from skpmd.mixture._kernels import responsibilities
from skpmd.mixture._rows import over_rows
from skpmd.mixture._weights import weights_prior

# A chunk of rows has about so many responsibilities, to stay in the cache, at most so many
# features, and at least so many rows; the number of chunks is a multiple of the last, so that
# threads have the same to do.
_CHUNK, _FEATURES, _MIN_CHUNK, _SHARED = 2**15, 2**17, 64, 4
_WAITING = 2**20  # Counts of chunks that wait for their sum have about so many numbers.
_LOG_2PI = np.log(2.0 * np.pi)


class Counts(NamedTuple):
    """Sufficient statistics of the rows that m particles have seen; the prior is not in it."""

    # (m, K, f): Sum of r f(x) of each component; the first is the number of rows.
    components: np.ndarray
    shared: np.ndarray  # (m, g): What all components count together.
    entropy: np.ndarray  # (m,): Of the rows' labels.

    def step(self, other, a, b):
        """(1 - a) self + b other."""
        pairs = zip(self, other, strict=True)
        return Counts(*(linear_form(before, 0.0, new, a, b) for before, new in pairs))

    @property
    def sizes(self):
        """Rows of each component, shape (m, K)."""
        return self.components[..., 0]

    @property
    def total(self):
        """Weighted rows that each particle counts."""
        return self.sizes[0].sum()


def _counts_added(one, other):
    """Counts and scores of two parts of the rows."""
    (counts, score), (more, further) = one, other
    return Counts(*map(np.add, counts, more)), score + further


class Posteriors(NamedTuple):
    """Conjugate posteriors of m particles, in the form that predictions of rows need."""

    normals: Normals  # Of means and covariances.
    coefficients: np.ndarray  # See `Family.coefficients`.
    log_mixing: np.ndarray  # (m, K): Log expected mixing weights.
    constant: np.ndarray  # (m, K): Log density of the components' Students at their centres.
    exponent: np.ndarray  # (m, K): Power at which they fall.
    # (m,): Lower bound of the log evidence of the rows counted: A(prior + counts) - A(prior) - N p
    # log(2 pi) / 2, and the labels' entropy.
    elbo: np.ndarray


class ConjugateBlock:
    """Conjugate block of m particles: their counts, and what these stand for under a prior."""

    def __init__(self, model, counts):
        self.model, self.counts = model, counts

    @cached_property
    def posteriors(self):
        """`Posteriors`, made when they are first needed."""
        return self.model.posteriors(self.counts)


class RowStatistics(NamedTuple):
    """What a step takes from its rows."""

    counts: Counts  # Of the rows, by the responsibilities of each particle's components.
    score: np.ndarray  # (m,): weighted sum of their log predictive densities.
    size: float  # Their weight.


class ConjugateMixture(Model):
    """Model of a conjugate mixture, without coordinates.

    Particles differ by their blocks, whose evidence is known by its lower bound only: it does not
    weigh them.
    """

    block_weighs = False

    def __init__(self, prior, scaler=None):
        self.prior, self.scaler = prior, scaler
        # What records add to log densities of scaled rows.
        self.log_jacobian = 0.0 if scaler is None else scaler.log_jacobian
        self.K, self.p = prior.n_components, len(prior.mean)
        self.family = FAMILIES[prior.covariance_type](
            prior.mean, prior.mean_precision, prior.df, prior.covariance
        )
        self.weights = weights_prior(
            prior.weights_type, self.K, prior.concentration, prior.discount
        )
        empty = self.no_counts(1)
        normals = self.family.posterior(empty.components, empty.shared)
        self._log_partition0 = self.family.log_partition(normals)

    def no_counts(self, m):
        """Counts of no rows."""
        family = self.family
        components = np.zeros((m, self.K, family.n_features))
        return Counts(components, np.zeros((m, family.n_shared)), np.zeros(m))

    def rescale(self, counts, scale, shift):
        """Counts of rows x scale + shift, given those of x."""
        p, family = self.p, self.family
        components, shared = counts.components.copy(), counts.shared
        size, sums = counts.components[..., :1], counts.components[..., 1 : 1 + p]
        components[..., 1 : 1 + p] = sums * scale + size * shift
        if family.n_shared:
            shared = family.rescale(shared, size.sum(axis=1), sums.sum(axis=1), scale, shift)
        else:
            second = counts.components[..., 1 + p :]
            components[..., 1 + p :] = family.rescale(second, size, sums, scale, shift)
        return Counts(components, shared, counts.entropy)

    def posteriors(self, counts):
        """`Posteriors` of particles with these counts."""
        family = self.family
        normals = family.posterior(counts.components, counts.shared)
        elbo = family.log_partition(normals) - self._log_partition0 + counts.entropy
        elbo += self.weights.log_evidence(counts.sizes)
        elbo -= 0.5 * self.p * _LOG_2PI * counts.sizes.sum(axis=1)
        return Posteriors(
            normals,
            family.coefficients(normals),
            self.weights.log_mean(counts.sizes),
            family.log_constant(normals),
            0.5 * (family.student_df(normals) + family.shared_columns),
            elbo,
        )

    # ------------------------------------------------------------------ the contract
    def sample_prior(self, rng, m):
        """No coordinates."""
        return np.empty((m, 0))

    def log_prior(self, theta):
        """Nothing is uncertain about no coordinates."""
        return np.zeros(len(theta))

    def particles(self, counts):
        """The engine's particles with these counts."""
        zero = np.zeros(len(counts.entropy))
        return Particles(np.empty((len(zero), 0)), zero, zero, zero, ConjugateBlock(self, counts))

    def prior_block(self, theta):
        """Counts of no rows; the prior itself is not in the counts."""
        return ConjugateBlock(self, self.no_counts(len(theta)))

    def statistics(self, theta, block, batch):
        """Rows by the responsibilities under the block."""
        counts, score = self.e_step(block.posteriors, batch.X, batch.weight)
        return RowStatistics(counts, score, batch.weight.sum())

    def add_statistics(self, one, other):
        """Statistics of two batches together."""
        counts = one.counts.step(other.counts, 0.0, 1.0)
        return RowStatistics(counts, one.score + other.score, one.size + other.size)

    def update_block(self, theta, block, a, b, statistics):
        """The linear form in the counts."""
        return ConjugateBlock(self, block.counts.step(statistics.counts, a, b))

    def select_block(self, block, ancestors):
        """Block of some of the particles."""
        return ConjugateBlock(self, Counts(*(values[ancestors] for values in block.counts)))

    def record(self, block, statistics):
        """ELBO and log density of the best particle, for each row."""
        return {
            "elbo": float(block.posteriors.elbo.max() / block.counts.total + self.log_jacobian),
            "log_density": float(statistics.score.max() / statistics.size + self.log_jacobian),
        }

    # ------------------------------------------------------------------ rows
    def chunks(self, n, m):
        """Slices of n rows that suit m particles; if several, a number that threads can share."""
        n_features = self.family.n_features + self.family.n_shared
        size = min(_CHUNK // (m * self.K), _FEATURES // n_features)
        n_chunks = -(-n // max(_MIN_CHUNK, size))
        n_chunks = n_chunks if n_chunks == 1 else -(-n_chunks // _SHARED) * _SHARED
        edges = np.linspace(0, n, n_chunks + 1).astype(int)
        return [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]

    def e_step(self, posteriors, X, weight):
        """Counts of rows by the responsibilities of each particle's components.

        With them comes the weighted sum of the rows' log predictive densities, of shape (m,). The
        rows X (n, p), an array or a `RowView`, count ``weight`` (n,) times.
        """
        return over_rows(partial(self._e_step, posteriors), X, weight, add=_counts_added)

    def _e_step(self, posteriors, X, weight):
        family, m = self.family, len(posteriors.constant)
        counts, score = self.no_counts(m), np.zeros(m)

        def of(rows):
            features, w, entropy = family.features(X[rows]), np.array(weight[rows]), np.zeros(m)
            _, log_joint = self.log_densities(posteriors, features)
            log_joint += posteriors.log_mixing.ravel()
            resp, log_density = self.responsibilities(log_joint, w, entropy)
            added = resp.T @ features[:, : family.n_features]
            shared = w @ features[:, family.n_features :]
            return added.reshape(counts.components.shape), shared, entropy, w @ log_density

        at_once = max(1, min(8, _WAITING // counts.components.size))
        for part in in_order(of, self.chunks(len(X), m), at_once):
            for total, one in zip((*counts, score), part, strict=True):
                total += one
        return counts, score

    def log_densities(self, posteriors, features):
        """log(1 + u) and log Student densities of rows, each (n, m K)."""
        log_ratio = self.family.log_ratio(posteriors.normals, posteriors.coefficients, features)
        return log_ratio, posteriors.constant.ravel() - posteriors.exponent.ravel() * log_ratio

    def responsibilities(self, log_joint, weight, entropy):
        """Weighted responsibilities (n, m K) and log densities (n, m); adds to the entropies."""
        n, m = len(log_joint), len(entropy)
        log_joint = log_joint.reshape(n, m, self.K)
        resp, log_density = np.empty_like(log_joint), np.empty((n, m))
        responsibilities(log_joint, weight, resp, log_density, entropy)
        return resp.reshape(n, -1), log_density

    def left_out(self, posteriors, X, weight):
        """Log densities of rows under each component, their own responsibility taken out.

        Blocks of rows come as their slice, log densities (n, m K), without the components'
        ``log_mixing``, and what was taken out, (n, m K): responsibility times weight (n,).
        """
        m = len(posteriors.constant)

        def of(rows):
            features = self.family.features(X[rows])
            log_ratio, log_density = self.log_densities(posteriors, features)
            log_joint = log_density + posteriors.log_mixing.ravel()
            own = np.ascontiguousarray(weight[rows])
            resp, _ = self.responsibilities(log_joint, own, np.zeros(m))
            self.family.left_out(posteriors.normals, features, log_ratio, log_density, resp)
            return rows, log_density, resp

        return in_order(of, self.chunks(len(X), m))
