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

from typing import NamedTuple

import numpy as np

from skpmd.mixture._components import FAMILIES, Normals
from skpmd.mixture._kernels import responsibilities
from skpmd.mixture._weights import weights_prior

# A block of responsibilities has about so many numbers, to stay in the cache, and at least so many
# rows.
_CHUNK, _MIN_CHUNK = 2**18, 64
_LOG_2PI = np.log(2.0 * np.pi)


class Counts(NamedTuple):
    """Sufficient statistics of the rows that m particles have seen; the prior is not in it.

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


class Posteriors(NamedTuple):
    """Conjugate posteriors of m particles, in the form that predictions of rows need.

    Attributes
    ----------
    normals : Normals
        Of means and covariances.
    coefficients : ndarray
        See `Family.coefficients`.
    log_mixing : ndarray of shape (m, K)
        Log expected mixing weights.
    constant : ndarray of shape (m, K)
        Log density of the components' Students at their centres.
    exponent : ndarray of shape (m, K)
        Power at which they fall.
    elbo : ndarray of shape (m,)
        Lower bound of the log evidence of the rows counted:
        A(prior + counts) - A(prior) - N p log(2 pi) / 2, and the labels' entropy.
    """

    normals: Normals
    coefficients: np.ndarray
    log_mixing: np.ndarray
    constant: np.ndarray
    exponent: np.ndarray
    elbo: np.ndarray


class ConjugateMixture:
    """Model of a conjugate mixture.

    Parameters
    ----------
    prior : MixturePrior
        Prior hyperparameters and sizes.
    """

    def __init__(self, prior):
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

    def chunks(self, n, m):
        """Slices of n rows that suit m particles."""
        size = max(_MIN_CHUNK, _CHUNK // (m * self.K))
        return [slice(a, a + size) for a in range(0, n, size)]

    def e_step(self, posteriors, X, weight):
        """Counts of rows by the responsibilities of each particle's components.

        Parameters
        ----------
        posteriors : Posteriors
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
        family, m = self.family, len(posteriors.constant)
        counts, score = self.no_counts(m), np.zeros(m)
        components = counts.components.reshape(m * self.K, -1)
        for rows in self.chunks(len(X), m):
            features, w = family.features(X[rows]), weight[rows]
            _, log_joint = self.log_densities(posteriors, features)
            log_joint += posteriors.log_mixing.ravel()
            resp, log_density = self.responsibilities(log_joint, w, counts.entropy)
            components += resp.T @ features[:, : family.n_features]
            if family.n_shared:
                counts.shared[:] += w @ features[:, family.n_features :]
            score += w @ log_density
        return counts, score

    def log_densities(self, posteriors, features):
        """log(1 + u) and log Student densities of rows, each of shape (n, m K)."""
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

        Returns
        -------
        ndarray of shape (n, m K)
            Of components, without their ``log_mixing``.
        """
        m, out = len(posteriors.constant), []
        for rows in self.chunks(len(X), m):
            features = self.family.features(X[rows])
            log_ratio, log_density = self.log_densities(posteriors, features)
            log_joint = log_density + posteriors.log_mixing.ravel()
            resp, _ = self.responsibilities(log_joint, np.ones(len(features)), np.zeros(m))
            # No more of a row than there is: weights below 1 have left less of it.
            resp *= np.minimum(weight[rows], 1.0)[:, None]
            self.family.left_out(posteriors.normals, features, log_ratio, log_density, resp)
            out.append(log_density)
        return np.concatenate(out)
