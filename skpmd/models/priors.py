"""Prior densities on coefficients."""

import numpy as np


class NormalPrior:
    """Independent normal prior with mean zero.

    Parameters
    ----------
    scale : ndarray of shape (d,)
        Standard deviation of each coordinate.
    """

    def __init__(self, scale):
        self.scale = scale
        self._log_normaliser = np.log(scale).sum() + 0.5 * len(scale) * np.log(2 * np.pi)

    def sample(self, rng, m):
        """Draw m points, shape (m, d)."""
        return self.scale * rng.standard_normal((m, len(self.scale)))

    def log_density(self, theta):
        """Log density at each row of theta, shape (m,)."""
        scaled = theta / self.scale
        return -0.5 * np.einsum("ij,ij->i", scaled, scaled) - self._log_normaliser

    def precision(self):
        """Negative Hessian of the log density, a constant diagonal, shape (d,)."""
        return self.scale**-2.0

    def gradient(self, theta):
        """Gradient of the log density at each row of theta, shape (m, d)."""
        return -theta * self.scale**-2.0

    def expected(self, mean, sd):
        """Expected gradient and negative Hessian under N(mean_j, sd_j^2), shape (d,) each."""
        return -mean * self.scale**-2.0, self.scale**-2.0

    def coefficients(self, theta):
        """Coefficients of a linear model at each row of theta: theta itself."""
        return theta

    def pull_back(self, theta, gradient):
        """Gradient by theta from one by the coefficients: the same."""
        return gradient
