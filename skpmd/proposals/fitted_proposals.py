"""Mixtures of proposals fitted to a density by its values: at its optima, and along its ridges.

Derivatives are those of values, or of a known gradient, in whitened coordinates u, of
theta = at + root u. In them a difference is taken at a fixed share of a standard deviation, where
neither rounding nor higher derivatives matter. One call of the density takes many points: a
gradient by central differences is one call of 2 d points, and a Hessian one of 2 d^2, or one of
2 d gradients.
"""

from functools import cache, partial
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from skpmd.engine.importance import TAIL_DF, Proposal, along, mixture_log_density
from skpmd.engine.particles import effective_sample_size
from skpmd.engine.variational import Gaussian
from skpmd.proposals.optima import arms, optima, scales
from skpmd.proposals.ridge import ridges

EACH = 2  # An optimum has so many components, the second of which has Student tails.
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
_STEP = 1e-3  # Differences of first order are taken at this share of a standard deviation,
_WIDE_STEP = 0.05  # and those of second order at this one.
_WRONG_SLOPE = 0.05  # A gradient off by this share of itself is not that of the density.
_WRONG_VALUE, _COMPARED = 1e-3, 5  # Nor are values whose changes between so many draws are off so.
_CHECKED = 0.1, 0.2  # That is checked by differences at thousandths of these widths of the prior.


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
    components = [skewed, Proposal(mean, chol, TAIL_DF)]
    return components, optimum.log_mass + np.log([_SKEWED, _PLAIN])


# ------------------------------------------------------------------- derivatives
class ByDifferences:
    """Derivatives from values alone; ``log_density`` maps points (k, d) to values (k,).

    Its ``path`` are the points, with values, at which slopes have been asked for.
    """

    def __init__(self, log_density):
        self._log_density, self.n_points, self.path = log_density, 0, []

    def slope(self, at, root):
        """Value at a point, -inf off the support or where it is too steep, and gradient, (d,)."""
        d = len(at)
        steps = _STEP * np.concatenate([np.zeros((1, d)), np.eye(d), -np.eye(d)])
        values = self._log_density(at + steps @ root.T)
        self.n_points += len(steps)
        value, ahead, behind = values[0], values[1 : d + 1], values[d + 1 :]
        self.path.append((at, value))
        if value == -np.inf:
            return value, np.zeros(d)
        # At an edge of the support the side that is inside counts.
        ahead, behind = (np.where(side > -np.inf, side, value) for side in (ahead, behind))
        with np.errstate(over="ignore"):
            slope = (ahead - behind) / (2.0 * _STEP)
        return (value, slope) if np.isfinite(slope).all() else (-np.inf, np.zeros(d))

    def hessian(self, at, root, value):
        """Hessian at a point, (d, d), where the value is known."""
        d = len(at)
        i, j = np.triu_indices(d, 1)
        unit = np.eye(d)
        corners = [si * unit[i] + sj * unit[j] for si in (1, -1) for sj in (1, -1)]
        points = _WIDE_STEP * np.concatenate([unit, -unit, *corners])
        values = self._log_density(at + points @ root.T)
        self.n_points += len(points)
        values = np.maximum(values, value - 1e3)  # Off the support.
        ahead, behind = values[:d], values[d : 2 * d]
        hessian = np.diag(ahead - 2.0 * value + behind)
        pp, pm, mp, mm = values[2 * d :].reshape(4, -1)
        hessian[i, j] = hessian[j, i] = 0.25 * (pp - pm - mp + mm)
        return hessian / _WIDE_STEP**2


class ByGradients:
    """Derivatives from ``gradient``, which maps points (k, d) to values (k,) and gradients."""

    def __init__(self, gradient):
        self._gradient, self.n_points, self.path = gradient, 0, []

    def slope(self, at, root):
        """As of `ByDifferences`."""
        with np.errstate(all="ignore"):  # A search goes where no particle would.
            values, gradients = self._gradient(at[None])
        self.n_points += 1
        self.path.append((at, values[0]))
        if not (np.isfinite(values).all() and np.isfinite(gradients).all()):
            return -np.inf, np.zeros(len(at))
        return values[0], gradients[0] @ root

    def hessian(self, at, root, value):
        """As of `ByDifferences`; nan next to an edge of the support."""
        steps = _WIDE_STEP * np.eye(len(at))
        with np.errstate(all="ignore"):
            _, gradients = self._gradient(at + np.concatenate([steps, -steps]) @ root.T)
        ahead, behind = np.split(gradients @ root, 2)
        hessian = (ahead - behind) / (2.0 * _WIDE_STEP)
        return 0.5 * (hessian + hessian.T)


def check_gradient(gradient, log_joint, draws, values):
    """Raise ValueError where a gradient, or its values, are not those of the density.

    The gradient is compared at the best of the draws, and values there and at others, up to a
    constant.
    """
    best = np.argsort(-values, kind="stable")[: np.isfinite(values).sum()]
    if not best.size:
        return
    at, d = draws[best[0]], draws.shape[1]
    steps = np.maximum(np.abs(draws - np.median(draws, axis=0)).mean(axis=0), 1e-300)
    (_, expected), (_, again) = (
        ByDifferences(log_joint).slope(at, size * np.diag(steps)) for size in _CHECKED
    )
    ratio = _CHECKED[0] / _CHECKED[1]
    _, slope = ByGradients(gradient).slope(at, _CHECKED[0] * np.diag(steps))
    errors = np.abs(slope - expected)
    # Where two steps disagree, rounding, a curve or an edge is to blame, and not the gradient.
    allowed = _WRONG_SLOPE * np.abs(expected) + 1e-3 * np.abs(expected).max() + 1e-6
    wrong = np.flatnonzero(~(errors <= allowed + 3.0 * np.abs(again * ratio - expected)))
    if wrong.size:
        j, unit = wrong[0], _CHECKED[0] * steps[wrong[0]]
        raise ValueError(
            f"log_joint_gradient is not the gradient of log_prior + log_likelihood: at theta = "
            f"{at} its coordinate {j} of {d} is {slope[j] / unit:g} where differences of the "
            f"values say {expected[j] / unit:g}. It must return the log joint density, shape (m,), "
            "and its gradient, shape (m, d), given all rows."
        )
    some = best[np.linspace(0, len(best) - 1, min(_COMPARED, len(best))).astype(int)]
    with np.errstate(all="ignore"):
        known = np.array([gradient(draws[[i]])[0][0] for i in some])
    gap, change = known - values[some], np.abs(values[some] - values[some[0]])
    off = np.abs(gap - gap[0]) > _WRONG_VALUE * change + 1e-5 * np.abs(values[some]).max() + 1e-3
    if off.any():
        i = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"log_joint_gradient returns other values than log_prior + log_likelihood: from theta "
            f"= {at} to {draws[some[i]]} they change by {known[i] - known[0]:g} where these change "
            f"by {values[some[i]] - values[some[0]]:g}. It must have all terms, for all rows."
        )
