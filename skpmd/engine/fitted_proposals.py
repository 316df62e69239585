"""Mixtures of proposals fitted to a density by its values: at its optima, and along its ridges."""

from typing import NamedTuple

import numpy as np

from skpmd.engine.derivatives import ByDifferences, ByGradients
from skpmd.engine.importance import Proposal
from skpmd.engine.optima import optima, scales
from skpmd.engine.ridge import ridges
from skpmd.engine.sinh_arcsinh import along
from skpmd.engine.variational import Gaussian

EACH = 2  # An optimum has so many components,
_TAIL_DF = 5.0  # and the second has Student tails.
_SKEWED, _PLAIN = 0.6, 0.4  # Shares of the two.
_MIN_MASS = 0.02  # Each optimum has this share of the draws, at least.
# In more dimensions a Hessian takes longer than what it gains, by values and by gradients.
_MAX_BY_VALUES, _MAX_BY_GRADIENTS = 100, 1000
_MAX_SLICES = 200  # Proposals have skewed axes in no more of them: moves take less time.
_MAX_RIDGE = 30  # Ridges are looked for in no more dimensions.
_OTHER_OPTIMA = 0.2  # Optima that a ridge does not start from have this share of the draws.


class Proposals(NamedTuple):
    """A mixture of proposals."""

    # At each optimum there are two, one skewed and one with Student tails; those of the largest
    # mass come first.
    components: list
    shares: np.ndarray  # Their shares.
    complete: bool  # Whether the searches ended because there was nothing left to be found.
    along_ridge: bool = False


def fitted_proposals(log_joint, draws, values, log_likelihood, rng, gradient=None):
    """The `Proposals` at the optima of a density, and then along ridges, as far as there are any.

    Ridges start from the highest optimum, and then from the draw of the largest likelihood, for a
    density may have no optimum: that of effects and their scale rises without bound where the
    effects are equal and the scale goes to zero.

    ``log_joint`` maps points (k, d) to values (k,). Of draws of the prior (m, d) the values and the
    log-likelihoods (m,) are known. ``gradient`` maps points to values and gradients (k, d).
    """
    d = draws.shape[1]
    if d > (_MAX_BY_VALUES if gradient is None else _MAX_BY_GRADIENTS):
        return
    derivatives = ByDifferences(log_joint) if gradient is None else ByGradients(gradient)
    found, complete = optima(log_joint, draws, values, log_likelihood, derivatives)
    others, their_shares = [], np.empty(0)
    if found:
        first = _at_optima(log_joint, found, complete)
        yield first
        others, their_shares = first.components[EACH:], first.shares[EACH:]
    if d > _MAX_RIDGE:
        return
    best = int(np.argmax(log_likelihood))
    starts = [one.gaussian for one in found[:1]] + [Gaussian(draws[best], np.diag(scales(draws)))]
    for start in starts:
        for components, shares in ridges(log_joint, derivatives, start, rng):
            if others:
                their_shares = _OTHER_OPTIMA * their_shares / their_shares.sum()
                shares = np.concatenate([(1.0 - _OTHER_OPTIMA) * shares, their_shares])
            # What draws of the prior see is asked of the whole mixture later.
            yield Proposals(components + others, shares, complete=True, along_ridge=True)


def _at_optima(log_joint, found, complete):
    """A Gaussian with the skewness of slices along its axes, and one with Student tails, each."""
    components, shares = [], []
    mass = np.exp([one.log_mass - found[0].log_mass for one in found])
    mass = np.maximum(mass / mass.sum(), _MIN_MASS)
    for one, share in zip(found, mass / mass.sum(), strict=True):
        mean, chol = one.gaussian
        axes, lengths, _ = np.linalg.svd(chol)
        skewed = Proposal(mean, chol)
        if len(mean) <= _MAX_SLICES:
            skewed = along(mean, axes * lengths, np.arange(len(mean)), log_joint)
        components += [skewed, Proposal(mean, chol, _TAIL_DF)]
        shares += [_SKEWED * share, _PLAIN * share]
    return Proposals(components, np.array(shares), complete)
