"""An earlier posterior as the prior on coefficients."""

import numpy as np

from skpmd._base.options import coordinates_named, posterior_of_prior
from skpmd.linear._column_scale import own_posterior
from skpmd.linear._posterior import GaussianPosterior
from skpmd.linear._priors import NormalPrior, Prior, ShiftedPrior
from skpmd.proposals import fitted_density


class DensityPrior(Prior):
    """Prior with a `FittedDensity`, whose coordinates depend on each other.

    Where a Gaussian is fitted to the posterior, the Gaussian of the same mean and covariance stands
    for it; draws are weighed by the density itself.
    """

    def __init__(self, density):
        super().__init__(np.linalg.norm(density.chol, axis=1))
        self.density = density
        inverse = np.linalg.inv(density.chol)
        self._precision = inverse.T @ inverse

    def sample(self, rng, m):
        return fitted_density.sample(self.density, m, rng)

    def log_density(self, theta):
        return fitted_density.log_density(self.density, theta)

    def gradient(self, theta):
        return fitted_density.gradient(self.density, theta)

    def expected(self, mean, sd):
        """Those of the Gaussian that stands for it; the precision is a matrix. See `Prior`."""
        return self._precision @ (self.density.mean - mean), self._precision

    def expected_third(self, mean, sd):
        """Zero: slices through the posterior show what skewness there is. See `Prior`."""
        return np.zeros(len(mean))


def prior_of_posterior(prior, names, mean_field):
    """The prior on coordinates of these names that an earlier posterior, or its estimator, is.

    `Units` that it is a prior in come second, None where these are the given ones. With
    ``mean_field`` the posterior to come has no correlations, and a particle posterior, which
    has them, is refused.
    """
    posterior = posterior_of_prior(prior)
    places = coordinates_named(posterior, names)
    if isinstance(posterior, GaussianPosterior):
        units = None if posterior.frame is None else posterior.frame.of(places)
        loc, scale = posterior.moments_in(units)
        return ShiftedPrior(NormalPrior(scale[places]), loc[places]), units
    if mean_field:
        raise ValueError(
            "covariance_type='diag' takes a prior that was fitted with it: this one is of "
            "particles. Set covariance_type='full'."
        )
    units = None if posterior.frame is None else posterior.frame.of(places)
    if units is not None and len(places) < len(posterior.names):
        # Columns that are left out stay at their centres, and not at zero, far from all rows.
        return DensityPrior(own_posterior(posterior).fitted_density(places)), units
    density = posterior.fitted_density(places)
    return DensityPrior(density._replace(free=None)), density.free
