"""The horseshoe prior: its local and global scales are coordinates of a particle."""

import numpy as np

_MAX_LOG = 40.0  # The log of lambda * tau stays below this; the prior has a mass of 1e-16 beyond.


class HorseshoePrior:
    """Horseshoe prior on coefficients (Carvalho, Polson and Scott 2010), normal on some of them.

    c_j ~ N(0, (lambda_j tau)^2) with lambda_j ~ C+(0, 1) and tau ~ C+(0, scale). The density of c_j
    has a pole at zero, which no Gaussian fits and no gradient crosses. So the scales are not
    integrated out but are coordinates themselves, theta = (e, log lambda, log tau). The logarithm l
    of a standard half-Cauchy variable has the density sech(l) / pi, and c_j is

        c_j = kappa b_j + lambda_j tau g e_j,   q = (lambda_j tau / s_j)^2, kappa = q / (1 + q),
                                                g = 1 / sqrt(1 + q),

    which makes e_j standard normal a posteriori, whatever its scale, if the likelihood of c_j is
    N(b_j, s_j^2). At s_j = inf, a flat likelihood, that is the non-centred c_j = lambda_j tau e_j;
    at a small s_j it is the centred c_j itself (see Papaspiliopoulos, Roberts and Skoeld 2007).

    With separable classes the likelihood becomes flatter the larger the coefficients are: there s_j
    is proportional to (lambda_j tau / scale)^growth_j.

    There is no ``expected``: this prior is for Hamiltonian moves.

    Parameters
    ----------
    scale : ndarray of shape (D,)
        Standard deviation of each plain coefficient, an intercept say; unused for the others.
    plain : ndarray of shape (D,), bool
        Which coefficients have a normal prior. They are coordinates of theta as they are.
    global_scale : float
        Scale of tau.
    centre, spread : ndarray of shape (D,), optional
        b, and s where lambda_j tau = ``global_scale``. Any values give the same prior; good values
        make moves efficient.
    growth : ndarray of shape (D,), optional
        Exponent of the growth of s, from 0 (default) to 1.

    References
    ----------
    Carvalho, C., Polson, N. and Scott, J. (2010). The horseshoe estimator for sparse signals.
    Biometrika 97, 465-480.

    Papaspiliopoulos, O., Roberts, G. and Skoeld, M. (2007). A general framework for the
    parametrization of hierarchical models. Statistical Science 22, 59-73.
    """

    has_gaussian = False
    tail_df = 1.0

    def __init__(self, scale, plain, global_scale, centre=None, spread=None, growth=None):
        self.scale = scale
        self.plain, self.global_scale = plain, global_scale
        self.shrunk = np.flatnonzero(~plain)
        spread = np.full(len(scale), np.inf) if spread is None else spread
        centre = np.zeros(len(scale)) if centre is None else centre
        growth = np.zeros(len(scale)) if growth is None else growth
        self._spread, self._growth = spread[self.shrunk], growth[self.shrunk]
        self._shift = centre[self.shrunk] / self._spread
        self._log_scale = np.log(global_scale)
        self._sd = np.where(plain, scale, 1.0)
        self._log_normaliser = np.log(self._sd).sum() + 0.5 * len(scale) * np.log(2 * np.pi)
        self._log_normaliser += (len(self.shrunk) + 1) * np.log(np.pi / 2)

    @property
    def n_coordinates(self):
        """Length of theta."""
        return len(self.scale) + len(self.shrunk) + 1

    def informed(self, centre, spread, growth=None):
        """The same prior in coordinates for a likelihood N(centre, spread^2)."""
        return HorseshoePrior(self.scale, self.plain, self.global_scale, centre, spread, growth)

    def _log_scales(self, theta):
        """Logs of the standardised scales, shape (m, p + 1)."""
        out = theta[:, len(self.scale) :].copy()
        out[:, -1] -= self._log_scale
        return out

    def _parts(self, theta):
        """lambda tau, kappa, g, mean = kappa b / (lambda tau), and z = c / (lambda tau).

        All have the shape (m, p). lambda tau stays finite: a trajectory that diverges must meet
        a large energy and not a nan.
        """
        logs = theta[:, len(self.scale) : -1] + theta[:, -1:]
        width = np.exp(np.clip(logs, -_MAX_LOG, _MAX_LOG))
        tau = np.clip(theta[:, -1:] - self._log_scale, -_MAX_LOG, _MAX_LOG)
        root = width / (self._spread * np.exp(self._growth * tau))  # This is the root of q.
        kappa, g = root**2 / (1.0 + root**2), 1.0 / np.sqrt(1.0 + root**2)
        mean = root * g**2 * self._shift
        return width, kappa, g, mean, mean + g * theta[:, self.shrunk]

    def sample(self, rng, m):
        """Draw m points, shape (m, D + p + 1)."""
        normal = self._sd * rng.standard_normal((m, len(self._sd)))
        log_scales = np.log(np.abs(rng.standard_cauchy((m, len(self.shrunk) + 1))))
        log_scales[:, -1] += self._log_scale
        theta = np.concatenate([normal, log_scales], axis=1)
        _, _, g, mean, _ = self._parts(theta)
        theta[:, self.shrunk] = (theta[:, self.shrunk] - mean) / g  # They were draws of z.
        return theta

    def sample_near(self, rng, m):
        """Draw m points with standard normal e_j, shape (m, D + p + 1)."""
        return HorseshoePrior(np.ones(len(self.scale)), self.plain, 1.0).sample(rng, m)

    def log_density(self, theta):
        """Log density, normalised, in the coordinates theta, shape (m,)."""
        _, _, g, _, z = self._parts(theta)
        scaled = theta[:, : len(self.scale)] / self._sd
        scaled[:, self.shrunk] = z
        logs = self._log_scales(theta)
        log_cosh = np.logaddexp(logs, -logs).sum(axis=1)  # This has log 2 for each.
        squares = np.einsum("ij,ij->i", scaled, scaled)
        return np.log(g).sum(axis=1) - 0.5 * squares - log_cosh - self._log_normaliser

    def gradient(self, theta):
        """Gradient of the log density, of the shape of theta."""
        _, kappa, g, mean, z = self._parts(theta)
        D = len(self.scale)
        out = np.empty(theta.shape)
        out[:, :D] = -theta[:, :D] / self._sd**2
        out[:, self.shrunk] = -z * g
        turn = (1.0 - kappa) * mean - kappa * z  # This is the slope of z in log root.
        by_log_root = -z * turn - kappa
        logs = self._log_scales(theta)
        out[:, D:] = -np.tanh(logs)
        out[:, D:-1] += by_log_root
        out[:, -1] += by_log_root @ (1.0 - self._growth)
        return out

    def coefficients(self, theta):
        """Coefficients at each row of theta, shape (m, D)."""
        width, _, _, _, z = self._parts(theta)
        out = theta[:, : len(self.scale)].copy()
        out[:, self.shrunk] = width * z
        return out

    def pull_back(self, theta, gradient):
        """Gradient in theta from one in the coefficients, by the chain rule."""
        width, kappa, g, mean, z = self._parts(theta)
        D = len(self.scale)
        out = np.empty(theta.shape)
        out[:, :D] = gradient
        out[:, self.shrunk] *= width * g
        turn = (1.0 - kappa) * mean - kappa * z  # This is the slope of z in log root.
        by_log_width = width * gradient[:, self.shrunk]
        out[:, D:-1] = by_log_width * (z + turn)
        out[:, -1] = (by_log_width * (z + (1.0 - self._growth) * turn)).sum(axis=1)
        return out

    def stretched(self, theta, by):
        """Multiply all c_j and tau by exp(by); also the log Jacobian of that in these coordinates.

        With separable classes the likelihood is nearly flat along this ray.
        """
        _, _, g, _, z = self._parts(theta)
        out = theta.copy()
        out[:, -1] += by
        _, _, g_out, mean_out, _ = self._parts(out)
        out[:, self.shrunk] = (z - mean_out) / g_out
        return out, np.log(g / g_out).sum(axis=1)

    def uninformed(self, theta):
        """The same points in the coordinates of a prior without ``centre`` and ``spread``."""
        out = theta.copy()
        out[:, self.shrunk] = self._parts(theta)[-1]
        return out

    def reported(self, theta):
        """What a user wants to see: the coefficients in place of e, and the logs of the scales."""
        return np.concatenate([self.coefficients(theta), theta[:, len(self.scale) :]], axis=1)

    def scale_names(self, names):
        """Names of the coordinates beyond the coefficients, given the names of those."""
        return [f"log_lambda[{names[j]}]" for j in self.shrunk] + ["log_tau"]
