"""The horseshoe prior, non-centred: its local and global scales are coordinates of a particle."""

import numpy as np

_MOST_LOG = 40.0  # log of lambda * tau beyond which it stays: the prior holds 1e-16 there


class HorseshoePrior:
    """Horseshoe prior on coefficients (Carvalho, Polson and Scott 2010), normal on some of them.

    coef_j = z_j lambda_j tau with z_j ~ N(0, 1), lambda_j ~ C+(0, 1) and tau ~ C+(0, scale). The
    density of coef_j has a pole at zero, which no Gaussian fits and no gradient crosses. In the
    coordinates theta = (z and plain coefficients in their order, log lambda, log tau) it is smooth:
    the logarithm l of a standard half-Cauchy variable has the density sech(l) / pi. The scales are
    thus moved with the rest instead of being integrated out. There is no ``expected``: a prior for
    gradient moves.

    Parameters
    ----------
    scale : ndarray of shape (D,)
        Standard deviation of each plain coefficient, an intercept say; unused for the others.
    plain : ndarray of shape (D,), bool
        Which coefficients are plain.
    global_scale : float
        Scale of tau.

    References
    ----------
    Carvalho, C., Polson, N. and Scott, J. (2010). The horseshoe estimator for sparse signals.
    Biometrika 97, 465-480.
    """

    def __init__(self, scale, plain, global_scale):
        self.scale = scale
        self.shrunk = np.flatnonzero(~plain)
        self._log_scale = np.log(global_scale)
        self._sd = np.where(plain, scale, 1.0)
        self._log_normaliser = np.log(self._sd).sum() + 0.5 * len(scale) * np.log(2 * np.pi)
        self._log_normaliser += (len(self.shrunk) + 1) * np.log(np.pi / 2)

    def _split(self, theta):
        """Normal coordinates (m, D), and logs of the standardised scales (m, p + 1)."""
        normal, log_scales = np.split(theta, [len(self.scale)], axis=1)
        return normal, log_scales - np.append(np.zeros(len(self.shrunk)), self._log_scale)

    def sample(self, rng, m):
        """Draw m points, shape (m, D + p + 1)."""
        normal = self._sd * rng.standard_normal((m, len(self._sd)))
        log_scales = np.log(np.abs(rng.standard_cauchy((m, len(self.shrunk) + 1))))
        log_scales[:, -1] += self._log_scale
        return np.concatenate([normal, log_scales], axis=1)

    def log_density(self, theta):
        """Log density, normalised, in the coordinates theta, shape (m,)."""
        normal, log_scales = self._split(theta)
        scaled = normal / self._sd
        log_cosh = np.logaddexp(log_scales, -log_scales).sum(axis=1)  # and log 2 for each
        return -0.5 * np.einsum("ij,ij->i", scaled, scaled) - log_cosh - self._log_normaliser

    def gradient(self, theta):
        """Gradient of the log density, of the shape of theta."""
        normal, log_scales = self._split(theta)
        return np.concatenate([-normal / self._sd**2, -np.tanh(log_scales)], axis=1)

    def _shrinkage(self, theta):
        """lambda_j tau, shape (m, p).

        Held finite, for a trajectory that flies off must meet a large energy and not a nan.
        """
        logs = theta[:, len(self.scale) : -1] + theta[:, -1:]
        return np.exp(np.minimum(logs, _MOST_LOG))

    def coefficients(self, theta):
        """Coefficients at each row of theta, shape (m, D)."""
        out = theta[:, : len(self.scale)].copy()
        out[:, self.shrunk] *= self._shrinkage(theta)
        return out

    def pull_back(self, theta, gradient):
        """Gradient in theta from one in the coefficients, by the chain rule."""
        D, shrunk = len(self.scale), self.shrunk
        out = np.empty(theta.shape)
        out[:, :D] = gradient
        out[:, shrunk] *= self._shrinkage(theta)
        out[:, D:-1] = theta[:, shrunk] * out[:, shrunk]
        out[:, -1] = out[:, D:-1].sum(axis=1)
        return out

    def reported(self, theta):
        """What a user wants to see: coefficients in place of z; the logs of the scales stay."""
        return np.concatenate([self.coefficients(theta), theta[:, len(self.scale) :]], axis=1)

    def scale_names(self, names):
        """Names of the coordinates beyond the coefficients, given the names of those."""
        return [f"log_lambda[{names[j]}]" for j in self.shrunk] + ["log_tau"]
