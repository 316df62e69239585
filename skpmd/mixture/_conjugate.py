"""A mixture of conjugate components: q(weights, means, covariances) of each particle.

The labels z of the rows are implicit. A particle is the counts of its components; a row is shared
out among them by the particle's own predictive density, r_k = E[weight_k] t_k(x) / sum, and the
counts move as natural parameters of an exponential family do (Dai et al. 2016, remark in 3.1):

    counts <- (1 - gamma) counts + gamma (N / B) sum over the batch of r f(x)

With gamma = 1 on all rows the counts are those that r says, and

    bound = A(prior + counts) - A(prior) + entropy of r  <=  log p(rows)

holds for any r: that is the step's own log ratio (with r fixed it is Bayes' rule), less what
having fixed r costs.
"""

from typing import NamedTuple

import numpy as np

from skpmd.mixture._components import FAMILIES, Normals
from skpmd.mixture._kernels import responsibilities
from skpmd.mixture._weights import weights_prior

_CHUNK = 2**18  # numbers in a block of responsibilities: it stays in the cache
_LEAST_CHUNK = 64
_LOG_2PI = np.log(2.0 * np.pi)


class Counts(NamedTuple):
    """What m particles have counted; the prior is not in it.

    Attributes
    ----------
    components : ndarray of shape (m, K, f)
        Sum of r f(x) of each component; the first is the number of rows.
    shared : ndarray of shape (m, g)
        What all components count together.
    entropy : ndarray of shape (m,)
        Of the rows' labels.
    """

    components: np.ndarray
    shared: np.ndarray
    entropy: np.ndarray

    def step(self, other, a, b):
        """(1 - a) self + b other."""
        pairs = zip(self, other, strict=True)
        return Counts(*((1.0 - a) * before + b * new for before, new in pairs))

    def take(self, chosen):
        """Some of the particles."""
        return Counts(*(values[chosen] for values in self))

    @property
    def sizes(self):
        """Rows of each component, shape (m, K)."""
        return self.components[..., 0]

    @property
    def total(self):
        """Weighted rows that each particle counts."""
        return self.sizes[0].sum()


class State(NamedTuple):
    """Posteriors of m particles, ready for rows.

    Attributes
    ----------
    normals : Normals
        Of means and covariances.
    coefficients : ndarray
        See `Family.coefficients`.
    log_shares : ndarray of shape (m, K)
        Log expected weights.
    constant : ndarray of shape (m, K)
        Log density of the components' Students at their centres.
    exponent : ndarray of shape (m, K)
        Power at which they fall.
    bound : ndarray of shape (m,)
        Lower bound of the log evidence of the rows counted:
        A(prior + counts) - A(prior) - N p log(2 pi) / 2, and the labels' entropy.
    """

    normals: Normals
    coefficients: np.ndarray
    log_shares: np.ndarray
    constant: np.ndarray
    exponent: np.ndarray
    bound: np.ndarray


class Mixture:
    """Model of a conjugate mixture.

    Parameters
    ----------
    problem : Problem
        Prior and sizes; see `skpmd.mixture._prior`.
    """

    def __init__(self, problem):
        self.K, self.p = problem.n_components, len(problem.mean)
        self.family = FAMILIES[problem.covariance_type](
            problem.mean, problem.mean_precision, problem.df, problem.covariance
        )
        self.weights = weights_prior(
            problem.weights_type, self.K, problem.concentration, problem.discount
        )
        empty = self.nothing(1)
        normals = self.family.posterior(empty.components, empty.shared)
        self._log_partition0 = self.family.log_partition(normals)

    def nothing(self, m):
        """Counts of no rows."""
        family = self.family
        components = np.zeros((m, self.K, family.n_features))
        return Counts(components, np.zeros((m, family.n_shared)), np.zeros(m))

    def moved(self, counts, scale, shift):
        """Counts of rows x scale + shift, given those of x."""
        p, family = self.p, self.family
        components, shared = counts.components.copy(), counts.shared
        size, sums = counts.components[..., :1], counts.components[..., 1 : 1 + p]
        components[..., 1 : 1 + p] = sums * scale + size * shift
        if family.n_shared:
            shared = family.moved(shared, size.sum(axis=1), sums.sum(axis=1), scale, shift)
        else:
            second = counts.components[..., 1 + p :]
            components[..., 1 + p :] = family.moved(second, size, sums, scale, shift)
        return Counts(components, shared, counts.entropy)

    def state(self, counts):
        """Posteriors of particles with these counts."""
        family = self.family
        normals = family.posterior(counts.components, counts.shared)
        bound = family.log_partition(normals) - self._log_partition0 + counts.entropy
        bound += self.weights.log_evidence(counts.sizes)
        bound -= 0.5 * self.p * _LOG_2PI * counts.sizes.sum(axis=1)
        return State(
            normals,
            family.coefficients(normals),
            self.weights.log_mean(counts.sizes),
            family.log_constant(normals),
            0.5 * (family.student_df(normals) + family.shared_columns),
            bound,
        )

    def chunks(self, n, m):
        """Slices of n rows that suit m particles."""
        size = max(_LEAST_CHUNK, _CHUNK // (m * self.K))
        return [slice(a, a + size) for a in range(0, n, size)]

    def expect(self, state, X, weight):
        """Share rows out among the components of each particle.

        Parameters
        ----------
        state : State
            Of the particles.
        X : ndarray of shape (n, p)
            Rows.
        weight : ndarray of shape (n,)
            How often each counts.

        Returns
        -------
        Counts
            Of these rows.
        ndarray of shape (m,)
            Weighted sum of their log predictive densities.
        """
        family, m = self.family, len(state.constant)
        counts, score = self.nothing(m), np.zeros(m)
        components = counts.components.reshape(m * self.K, -1)
        for rows in self.chunks(len(X), m):
            features, w = family.features(X[rows]), weight[rows]
            _, log_joint = self.log_densities(state, features)
            log_joint += state.log_shares.ravel()
            resp, log_density = self.shared_out(log_joint, w, counts.entropy)
            components += resp.T @ features[:, : family.n_features]
            if family.n_shared:
                counts.shared[:] += w @ features[:, family.n_features :]
            score += w @ log_density
        return counts, score

    def log_densities(self, state, features):
        """log(1 + u) and log Student densities of rows, each of shape (n, m K)."""
        log_ratio = self.family.log_ratio(state.normals, state.coefficients, features)
        return log_ratio, state.constant.ravel() - state.exponent.ravel() * log_ratio

    def shared_out(self, log_joint, weight, entropy):
        """Weighted responsibilities (n, m K) and log densities (n, m); adds to the entropies."""
        n, m = len(log_joint), len(entropy)
        log_joint = log_joint.reshape(n, m, self.K)
        resp, log_density = np.empty_like(log_joint), np.empty((n, m))
        responsibilities(log_joint, weight, resp, log_density, entropy)
        return resp.reshape(n, -1), log_density

    def left_out(self, state, X, weight):
        """Log densities of rows under each component, their own share of it taken out.

        Returns
        -------
        ndarray of shape (n, m K)
            Of components, not weighed by ``log_shares``.
        """
        m, out = len(state.constant), []
        for rows in self.chunks(len(X), m):
            features = self.family.features(X[rows])
            log_ratio, log_density = self.log_densities(state, features)
            joint = log_density + state.log_shares.ravel()
            resp, _ = self.shared_out(joint, np.ones(len(features)), np.zeros(m))
            # No more of a row than there is: weights below 1 have left less of it.
            resp *= np.minimum(weight[rows], 1.0)[:, None]
            self.family.left_out(state.normals, features, log_ratio, log_density, resp)
            out.append(log_density)
        return np.concatenate(out)
