"""Mixtures of proposals fitted to a density by its values: at its optima, and along its ridges."""

from functools import cache, partial
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from skpmd.engine.importance import Proposal, mixture_log_density
from skpmd.engine.particles import effective_sample_size
from skpmd.engine.variational import Gaussian
from skpmd.proposals.derivatives import ByDifferences, ByGradients
from skpmd.proposals.optima import arms, optima, scales
from skpmd.proposals.ridge import ridges
from skpmd.proposals.sinh_arcsinh import along

EACH = 2  # An optimum has so many components,
_TAIL_DF = 5.0  # and the second has Student tails.
_SKEWED, _PLAIN = 0.6, 0.4  # Shares of the two.
_MIN_MASS = 0.02  # Each optimum has this share of the draws, at least.
# In more dimensions a Hessian takes longer than what it gains, by values and by gradients.
_MAX_BY_VALUES, _MAX_BY_GRADIENTS = 100, 1000
_MAX_SLICES = 200  # Proposals have skewed axes in no more of them: moves take less time.
_RIDGE_BY_VALUES, _RIDGE_BY_GRADIENTS = 30, 100  # Ridges are looked for in no more dimensions.
_MORE_FAILURES = 20  # Where weights have failed, so many searches in a row may find nothing new;
_N_LIKELY = 50.0  # they start from random draws, of which so many are effective.
_MAX_RIDGES = 4  # They start from so many optima.
_ALIKE = 0.1  # Along ridges so much is dealt out to all proposals alike.


class Proposals(NamedTuple):
    """A mixture of proposals."""

    # At each optimum there are two, one skewed and one with Student tails; those of the largest
    # mass come first.
    components: list
    shares: np.ndarray  # Their shares.
    complete: bool  # Whether the searches ended because there was nothing left to be found.
    to: str = "values"  # What they are fitted to.
    optima: tuple = ()  # An `Optimum` for each two of the components.
    path: tuple = ()  # Points (k, d) that searches have passed, and the log density there (k,).

    def log_density(self, theta):
        """Log density of the mixture at each row of theta, shape (n,)."""
        return mixture_log_density(self.components, self.shares, theta)

    def students(self):
        """The components with Student tails, one at each optimum, and shares that add up to 1."""
        shares = self.shares[1::EACH]
        return self.components[1::EACH], shares / shares.sum()


def fitted_proposals(log_joint, draws, values, log_likelihood, rng, gradient=None):
    """The `Proposals` at the optima of a density, and then along ridges, as far as there are any.

    Ridges start from the highest optimum, and then from the draw of the largest likelihood, for a
    density may have no optimum: that of effects and their scale rises without bound where the
    effects are equal and the scale goes to zero.

    ``log_joint`` maps points (k, d) to values (k,). Of draws of the prior (m, d) the values and the
    log-likelihoods (m,) are known. ``gradient`` maps points to values and gradients (k, d).
    """
    known = ()
    for found in proposals_at_optima(log_joint, draws, values, log_likelihood, rng, gradient):
        known = found.optima
        yield found
    yield from proposals_along_ridges(log_joint, draws, log_likelihood, known, rng, gradient)


def proposals_at_optima(log_joint, draws, values, log_likelihood, rng, gradient=None):
    """The first of `fitted_proposals`: those at the optima, the largest mass first."""
    if draws.shape[1] > (_MAX_BY_VALUES if gradient is None else _MAX_BY_GRADIENTS):
        return
    derivatives = _derivatives(log_joint, gradient)
    may_cross = draws.shape[1] <= (_RIDGE_BY_VALUES if gradient is None else _RIDGE_BY_GRADIENTS)
    search = partial(optima, log_joint, draws, values)

    def searched_again(before):
        likely = _flattened(log_likelihood) + rng.gumbel(size=len(draws))
        more = search(likely, derivatives, before=before, max_failures=_MORE_FAILURES)
        both = tuple(np.concatenate(parts) for parts in zip(path, more[-1], strict=True))
        return *more[:-1], both

    found, complete, path = search(log_likelihood, derivatives)
    if not found:
        return
    crossing = arms(found, path, derivatives) if may_cross else found
    if len(crossing) > len(found):  # Those along which no search has come yet may be as many.
        found, complete, path = searched_again(crossing)
        yield _at_optima(log_joint, arms(found, path, derivatives), complete, path)
        return
    yield _at_optima(log_joint, found, complete, path)
    more, complete, path = searched_again(found)
    if len(more) > len(found):
        yield _at_optima(log_joint, more, complete, path)


def proposals_along_ridges(log_joint, draws, log_likelihood, found, rng, gradient=None):
    """The others of `fitted_proposals`, where the optima are ``found``."""
    if draws.shape[1] > (_RIDGE_BY_VALUES if gradient is None else _RIDGE_BY_GRADIENTS):
        return
    derivatives = _derivatives(log_joint, gradient)

    def first_ridge(one):
        return next(ridges(log_joint, derivatives, one.gaussian, rng), None)

    parts = [first_ridge(one) for one in found[:_MAX_RIDGES]]
    at_optima = cache(lambda: [_of_optimum(log_joint, one) for one in found])
    if any(parts):
        yield _along([one or other for one, other in zip_longest(parts, at_optima())])
    best = int(np.argmax(log_likelihood))
    start = Gaussian(draws[best], np.diag(scales(draws)))
    for part in ridges(log_joint, derivatives, start, rng):
        yield _along([part, *at_optima()])


def _derivatives(log_joint, gradient):
    return ByDifferences(log_joint) if gradient is None else ByGradients(gradient)


def _along(parts):
    """Proposals along ridges and at optima, by their masses, with a little for each alike.

    What draws of the prior see is asked of the whole mixture later.
    """
    log_mass = np.concatenate([part[1] for part in parts])
    shares = np.exp(log_mass - log_mass.max())
    shares = (1.0 - _ALIKE) * shares / shares.sum() + _ALIKE / len(shares)
    components = [one for part in parts for one in part[0]]
    return Proposals(components, shares, complete=True, to="values along a ridge")


def _flattened(log_weights):
    """Log weights to a power at which enough of them are effective."""
    power = 1.0
    while power > 1e-3 and effective_sample_size(power * log_weights) < _N_LIKELY:
        power *= 0.7
    return power * log_weights


def _at_optima(log_joint, found, complete, path):
    """Components at all optima, by their masses."""
    mass = np.exp([one.log_mass - found[0].log_mass for one in found])
    mass = np.maximum(mass / mass.sum(), _MIN_MASS)
    components, shares = [], []
    for one, share in zip(found, mass / mass.sum(), strict=True):
        components += _of_optimum(log_joint, one)[0]
        shares += [_SKEWED * share, _PLAIN * share]
    return Proposals(components, np.array(shares), complete, optima=tuple(found), path=path)


def _of_optimum(log_joint, optimum):
    """A Gaussian with the skewness of slices along its axes, and one with Student tails.

    Their log masses come second.
    """
    mean, chol = optimum.gaussian
    axes, lengths, _ = np.linalg.svd(chol)
    skewed = Proposal(mean, chol)
    if len(mean) <= _MAX_SLICES:
        skewed = along(mean, axes * lengths, np.arange(len(mean)), log_joint)
    components = [skewed, Proposal(mean, chol, _TAIL_DF)]
    return components, optimum.log_mass + np.log([_SKEWED, _PLAIN])
