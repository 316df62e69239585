"""Prior densities on coefficients: normal, Laplace, Student t, and products of them.

All are independent over coordinates and normalised, so that the evidence is right.
Where a Gaussian is fitted to the posterior, the prior enters by ``expected``: the mean of its
gradient over the Gaussian, and a positive precision. `skpmd.linear._horseshoe` has the prior
whose coordinates are not the coefficients themselves.
"""

import numpy as np
from scipy.special import erf, gammaln, wofz

# A Laplace prior far from its kink is given this precision, in units of scale^-2.
_MIN_PRECISION = 1e-3
# A Student prior keeps this share of EM's precision where its tails curve upwards.
_MIN_EM_SHARE = 0.02


class Prior:
    """What all priors on the coefficients themselves share.

    ``scale``, of shape (d,), is that of each coordinate. ``tail_df`` is the degrees of freedom of
    the heaviest tail, inf where all tails fall faster than any power.
    """

    has_gaussian = True  # `expected` is offered.
    tail_df = np.inf

    def __init__(self, scale):
        self.scale = scale

    @property
    def n_coordinates(self):
        """Length of theta."""
        return len(self.scale)

    def sample(self, rng, m):
        """Draw m points with a `numpy.random.Generator`, shape (m, d)."""
        raise NotImplementedError

    def log_density(self, theta):
        """Log density, normalised, at each row of theta, shape (m,)."""
        raise NotImplementedError

    def gradient(self, theta):
        """Gradient of the log density at each row of theta, shape (m, d)."""
        raise NotImplementedError

    def expected(self, mean, sd):
        """Gradient and precision for a Gaussian with these marginals, of shape (d,) each.

        Returns E[d log p / d theta_j] and E[-d2 log p / d theta_j2], the latter bounded away from
        zero, as by `_MIN_PRECISION` over the squared scale, so that a Gaussian has an sd; where
        coordinates depend on each other, it is a matrix (d, d). ``mean`` and ``sd`` have the shape
        (d,) too; ``sd=None`` asks for the values at the mean itself.
        """
        raise NotImplementedError

    def expected_third(self, mean, sd):
        """E[d3 log p / d theta_j3] for a Gaussian as in `expected`, shape (d,)."""
        raise NotImplementedError

    def coefficients(self, theta):
        """Coefficients at each row of theta: the coordinates themselves, not copied."""
        return theta

    def pull_back(self, theta, gradient):
        """Gradient in theta from a gradient in the coefficients: itself, not copied."""
        return gradient

    def reported(self, theta):
        """What a user wants to see of theta: all of it."""
        return theta

    def scale_names(self, names):
        """Names of coordinates beyond the coefficients: none."""
        return []


def precision_matrix(precision):
    """The precision that `Prior.expected` returns, as a matrix (d, d) of its own."""
    return np.diag(precision) if precision.ndim == 1 else precision.copy()


class NormalPrior(Prior):
    """Independent normal prior; the mode is that of an L2 penalty with C = scale^2."""

    def __init__(self, scale):
        super().__init__(scale)
        self._log_normaliser = np.log(scale).sum() + 0.5 * len(scale) * np.log(2 * np.pi)

    def sample(self, rng, m):
        return self.scale * rng.standard_normal((m, len(self.scale)))

    def log_density(self, theta):
        scaled = theta / self.scale
        return -0.5 * np.einsum("ij,ij->i", scaled, scaled) - self._log_normaliser

    def gradient(self, theta):
        return -theta / self.scale**2

    def expected(self, mean, sd):
        """Exact expectations, whatever the spread; see `Prior`."""
        precision = self.scale**-2.0
        return -precision * mean, precision

    def expected_third(self, mean, sd):
        """Zero; see `Prior`."""
        return np.zeros(len(mean))


class LaplacePrior(Prior):
    """Independent Laplace (double exponential) prior; its mode is the lasso's, with C = scale.

    The scale is the mean absolute value; the standard deviation is sqrt(2) times that.
    """

    def sample(self, rng, m):
        return rng.laplace(0.0, self.scale, (m, len(self.scale)))

    def log_density(self, theta):
        return -np.abs(theta / self.scale).sum(axis=1) - np.log(2.0 * self.scale).sum()

    def gradient(self, theta):
        """Gradient of the log density, 0 on the kink; see `Prior`."""
        return -np.sign(theta) / self.scale

    def expected(self, mean, sd):
        """Exact expectations of the gradient and of the negative second derivative; see `Prior`.

        The latter, 2 delta(theta) / scale, is 2 phi(mean / sd) / (sd scale) on average. A mode may
        lie on the kink, where the second derivative does not exist; so ``sd=None`` means
        sd = scale. That is right where it matters: no posterior is wider than the prior's scale,
        and in a much narrower one the gradient, at most 1 / scale, hardly moves the mode.

        Far from the kink the curvature vanishes, and 0.001 / scale^2 takes its place. That keeps
        the Gaussian proper where collinear columns make the likelihood flat.
        """
        sd = self.scale if sd is None else sd
        ratio = mean / sd
        curvature = np.sqrt(2 / np.pi) * np.exp(-0.5 * ratio**2) / (sd * self.scale)
        precision = np.maximum(curvature, _MIN_PRECISION / self.scale**2)
        return -erf(ratio / np.sqrt(2)) / self.scale, precision

    def expected_third(self, mean, sd):
        """Slope of the expected curvature in the mean; see `Prior`."""
        curvature = np.sqrt(2 / np.pi) * np.exp(-0.5 * (mean / sd) ** 2) / (sd * self.scale)
        return mean / sd**2 * curvature


class StudentTPrior(Prior):
    """Independent Student t prior of ``df`` degrees of freedom, Cauchy at 1."""

    def __init__(self, scale, df):
        super().__init__(scale)
        self.df = self.tail_df = df
        one = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi)
        self._log_normaliser = np.log(scale).sum() - len(scale) * one

    def sample(self, rng, m):
        return self.scale * rng.standard_t(self.df, (m, len(self.scale)))

    def log_density(self, theta):
        squared = (theta / self.scale) ** 2 / self.df
        return -0.5 * (self.df + 1) * np.log1p(squared).sum(axis=1) - self._log_normaliser

    def gradient(self, theta):
        return -(self.df + 1) * theta / (self.df * self.scale**2 + theta**2)

    def expected(self, mean, sd):
        """Exact expectations; the precision at least a fiftieth of EM's; see `Prior`.

        Beyond s sqrt(df) the log density curves upwards. The prior is a scale mixture of normals,
        whose expected precision given theta, (df + 1) / (df s^2 + theta^2), is positive and is
        what the EM algorithm steps with. As the precision itself it would make Newton's method
        slow and the Gaussian narrow; a fiftieth of it, as a lower bound, keeps the Gaussian proper.
        """
        value, slope, _ = self._pole(mean, sd)
        floor = -_MIN_EM_SHARE * value.imag / (np.sqrt(self.df) * self.scale)
        return -(self.df + 1) * value.real, (self.df + 1) * np.maximum(slope.real, floor)

    def expected_third(self, mean, sd):
        """Exact expectation; see `Prior`."""
        return -(self.df + 1) * self._pole(mean, sd)[2].real

    def _pole(self, mean, sd):
        """E[1 / (theta + ia)], a = s sqrt(df), and its first two derivatives in the mean.

        Its real part is E[theta / (theta^2 + a^2)], of which the gradient is a multiple, its
        imaginary part -a E[1 / (theta^2 + a^2)]. It equals -i sqrt(pi / 2) w(z) / sd where
        z = (mean + ia) / (sqrt(2) sd) and w, with w' = 2i / sqrt(pi) - 2 z w, is Faddeeva's
        function.
        """
        above = mean + 1j * np.sqrt(self.df) * self.scale
        if sd is None:
            return above**-1, -(above**-2), 2.0 * above**-3
        unit = np.sqrt(2) * sd
        z = above / unit
        w = wofz(z)
        slope = 2j / np.sqrt(np.pi) - 2.0 * z * w
        second = -2.0 * (w + z * slope)
        factor = -1j * np.sqrt(np.pi) / unit
        return factor * w, factor * slope / unit, factor * second / unit**2


class ShiftedPrior(Prior):
    """Another prior, which is about zero, about ``loc`` (d,)."""

    def __init__(self, prior, loc):
        super().__init__(prior.scale)
        self.prior, self.loc, self.tail_df = prior, loc, prior.tail_df

    def sample(self, rng, m):
        return self.loc + self.prior.sample(rng, m)

    def log_density(self, theta):
        return self.prior.log_density(theta - self.loc)

    def gradient(self, theta):
        return self.prior.gradient(theta - self.loc)

    def expected(self, mean, sd):
        """Those about zero, of a Gaussian that is moved; see `Prior`."""
        return self.prior.expected(mean - self.loc, sd)

    def expected_third(self, mean, sd):
        """That about zero; see `Prior`."""
        return self.prior.expected_third(mean - self.loc, sd)


class ProductPrior(Prior):
    """Different priors on different coordinates: an intercept apart from the coefficients, say.

    ``parts`` are pairs of coordinates, a slice or an array of integers, and the prior on them;
    together they name each of d coordinates once.
    """

    def __init__(self, parts, d):
        self.parts = parts
        self.tail_df = min(prior.tail_df for _, prior in parts)
        super().__init__(self._joined(np.empty(d), lambda at, prior: prior.scale))

    def _joined(self, out, values):
        """``values(at, prior)`` of each part, at its coordinates."""
        for at, prior in self.parts:
            out[..., at] = values(at, prior)
        return out

    def sample(self, rng, m):
        out = np.empty((m, len(self.scale)))
        return self._joined(out, lambda at, prior: prior.sample(rng, m))

    def log_density(self, theta):
        return sum(prior.log_density(theta[:, at]) for at, prior in self.parts)

    def gradient(self, theta):
        return self._joined(np.empty(theta.shape), lambda at, prior: prior.gradient(theta[:, at]))

    def expected(self, mean, sd):
        """Those of each part; see `Prior`."""

        def values(at, prior):
            return np.stack(prior.expected(mean[at], None if sd is None else sd[at]))

        return self._joined(np.empty((2, len(mean))), values)

    def expected_third(self, mean, sd):
        """That of each part; see `Prior`."""
        out = np.empty(len(mean))
        return self._joined(out, lambda at, prior: prior.expected_third(mean[at], sd[at]))


class TiltedPrior(Prior):
    """A prior times the normal likelihood of some rows, an `Expansion`, up to a constant."""

    def __init__(self, prior, rest):
        super().__init__(prior.scale)  # All tails are normal now.
        self.prior, self.rest = prior, rest

    def log_density(self, theta):
        """Log density, not normalised; see `Prior`."""
        return self.prior.log_density(theta) + self.rest.value(theta)

    def gradient(self, theta):
        return self.prior.gradient(theta) + self.rest.gradient(theta)

    def expected(self, mean, sd):
        """Those of the prior and of the quadratic, which are exact; see `Prior`."""
        gradient, precision = self.prior.expected(mean, sd)
        gradient = gradient + self.rest.gradient(mean)
        return gradient, precision_matrix(precision) + self.rest.precision

    def expected_third(self, mean, sd):
        """That of the prior: a quadratic has none; see `Prior`."""
        return self.prior.expected_third(mean, sd)


class MarginalPrior:
    """A prior of the first coordinates alone, where a Gaussian is fitted, whose others are zero."""

    tail_df = np.inf
    has_gaussian = True

    def __init__(self, prior, n):
        self._prior, self.n_coordinates = prior, n

    def coefficients(self, theta):
        return theta

    def log_density(self, theta):
        return self._prior.log_density(self._with_zeros(theta))

    def expected(self, mean, sd):
        sd = None if sd is None else self._with_zeros(sd) + (self._with_zeros(sd) == 0.0)
        parts = self._prior.expected(self._with_zeros(mean), sd)
        return tuple(part[(slice(self.n_coordinates),) * part.ndim] for part in parts)

    def _with_zeros(self, theta):
        more = self._prior.n_coordinates - self.n_coordinates
        return np.concatenate([theta, np.zeros((*theta.shape[:-1], more))], axis=-1)
