"""Optima of a log density, from its values alone or by its gradient, and the Gaussians there.

Coordinates are scaled by the curvature as far as it is known, as the search and the derivatives
(`skpmd.proposals.fitted_proposals`) both need.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from skpmd._runtime.call import out_of_time, phase
from skpmd.engine import importance
from skpmd.engine.variational import Gaussian

_IMPOSSIBLE = 1e25  # Objective where the density is zero: the line search takes no infinity.
_MAX_SEARCHES = 60  # There are so many searches, at most, and so many for each optimum,
_EACH, _MAX_OPTIMA = 10, 40  # as far as these are so many; nor after so many values,
_MAX_POINTS = 40_000
MAX_FAILURES = 5  # and none after so many in a row that find nothing new, unless asked for more,
_UNSEEN = 0.05  # and optima found once have been found by no larger share of the searches.
_THIN = 3.0  # A draw is explained by Gaussians that are not so many nats too low there.
_ROUNDS = 3  # A search is begun anew so many times, in coordinates that the last has whitened.
_MAX_ITER = 60  # BFGS takes so many iterations each time, at most.
_MAX_SLOPE = 0.3  # At an optimum the density rises by no more nats a standard deviation.
_TOL = 1e-3  # A search ends when the next step would be so short, in standard deviations.
_MAX_NOISE, _ROUNDING = 1e-4, 1e-11  # Values of one point differ by no more, in nats and relative.
_WIDEST = 30.0  # A Hessian widens an axis by this factor at most, where there is no curvature.
# An optimum so much narrower than the draws, the end of a neck, has no coordinates for others.
_NARROWEST = 1e-6
_SAME = 0.5  # Optima that are closer than this, in standard deviations, are one.
# So many points of searches may be asked for a normal that crosses others there; each is worth
# its proposals with such a share of the mass, where the density is at most so many nats lower than
# its own at its mean. Others explain what has Student tails around them.
_MAX_ARMS, _MIN_ARM, _CLOSE = 20, 0.01, 0.5
_MIN_MASS = 1e-6  # Optima with a smaller share of the mass are left out.
# Images of one optimum have the same value to so many nats, and there are at most so many optima
# with them.
_EQUAL, _MAX_IMAGES = 1e-3, 150


class Optimum(NamedTuple):
    """A Gaussian at a mode, and the log of the mass that it stands for."""

    gaussian: Gaussian
    log_mass: float


@phase("search for optima")
def optima(
    log_density, draws, values, log_weights, derivatives, *, before=(), max_failures=MAX_FAILURES
):  # fmt: skip
    """The distinct optima that searches from some of the draws end in, the largest mass first.

    ``log_density`` maps points (k, d) to values (k,), -inf off the support, and ``derivatives``
    are its own (`skpmd.proposals.fitted_proposals`). Of the draws (m, d) the values (m,) are known.
    The first search starts from the best of them, and each further one from the draw of the largest
    weight among those that the Gaussians so far do not explain. Where a search ends in a known
    optimum, draws that are nearer to it than its start would do the same. Optima that are known
    already are ``before``.

    Every other search starts from the draw that is most above Student densities at the optima, if
    any is: a narrow mode of wide skirts is seen from afar, beyond a wide one.

    One more starts on the far side of the first optimum: where tails are thin, as those of a square
    of the coordinates are, its Gaussian explains draws from which searches end elsewhere.

    Returned are the optima, whether searches ended because there was nothing left to be found, and
    the points (k, d) that searches have passed with their values (k,). There are no optima where
    values of one point differ: differences of noise lead nowhere.
    """
    left = np.isfinite(values)
    first = start = int(np.argmax(np.where(left, values, -np.inf)))
    nowhere = [], True, (np.empty((0, draws.shape[1])), np.empty(0))
    if not left.any():
        return nowhere
    noise = abs(log_density(draws[[start]])[0] - values[start])
    if not noise <= _MAX_NOISE + _ROUNDING * abs(values[start]):
        return nowhere
    widths = scales(draws)
    root, found, failures = _common_root(before, widths), list(before), 0
    hits, symmetries = [1] * len(found), []  # How often searches have ended at each of them.
    explained = np.full(len(draws), -np.inf)
    for one in found:
        left &= _unexplained(one, draws, values)
        explained = np.logaddexp(explained, _wide(one, draws))
    if found:
        start = int(np.argmax(np.where(left, log_weights, -np.inf)))
    by_gap, n_searches, complete, n_before = False, 0, False, len(derivatives.path)
    while n_searches < max(_MAX_SEARCHES, _EACH * min(len(found), _MAX_OPTIMA)) and left.any():
        complete |= failures >= max_failures
        if derivatives.n_points > _MAX_POINTS or (found and out_of_time("the search for optima")):
            break
        if failures >= max_failures and hits.count(1) <= max(1.0, _UNSEEN * sum(hits)):
            break
        n_searches += 1
        left[start] = False
        one, known = _optimum_from(derivatives, draws[start], root, found)
        failures = 0 if one else failures + 1
        if one:
            found.append(one)
            symmetries = _symmetries(found, symmetries, log_density)
            new = [one, *_images(found, symmetries)]
            found += new[1:]
            hits += [1] + [2] * (len(new) - 1)
            root = _common_root(found, widths)
            for each in new:
                left &= _unexplained(each, draws, values)
                explained = np.logaddexp(explained, _wide(each, draws))
        elif known is not None:
            hits[next(i for i, one in enumerate(found) if one is known)] += 1
            if not by_gap:
                distances = _distances(known.gaussian, draws)
                left &= distances > distances[start]
        by_gap = bool(found) and not by_gap  # Draws off the support have no gap to nothing.
        by_gap = by_gap and (values - explained)[left].max(initial=-np.inf) > _THIN
        start = int(
            np.argmax(np.where(left, values - explained if by_gap else log_weights, -np.inf))
        )
    complete |= failures >= max_failures or not left.any()
    complete &= len(found) < _MAX_IMAGES
    if found and not before:
        other = _far_side(found[0], draws[first], draws, values, widths)
        one = (
            None if other is None else _optimum_from(derivatives, other, np.diag(widths), found)[0]
        )
        found += [one] if one else []
    found.sort(key=lambda one: -one.log_mass)
    most = found[0].log_mass if found else 0.0
    found = [one for one in found if one.log_mass > most + np.log(_MIN_MASS)]
    # Points of earlier searches are not here where a fit has been taken up again after them.
    own = derivatives.path[n_before:]
    if not own:
        return found, complete, nowhere[-1]
    places, passed = zip(*own, strict=True)
    return found, complete, (np.stack(places), np.array(passed))


def _symmetries(found, known, log_density):
    """Permutations of coordinates that leave a density as it is: those ``known``, and new ones.

    One that takes the last optimum to another of its value is such a one where the density is the
    same at all of them: a mixture's labels may be switched.
    """
    last, means = found[-1], np.stack([one.gaussian.mean for one in found])
    values, orders = log_density(means), {
        _order(one.gaussian.mean, last.gaussian.mean) for one in found[:-1]
        if abs(one.log_mass - last.log_mass) < _SAME
    }  # fmt: skip
    orders -= {tuple(range(means.shape[1])), *known}
    return known + [
        order for order in sorted(orders)
        if np.abs(log_density(means[:, list(order)]) - values).max()
        < _EQUAL + _ROUNDING * np.abs(values).max()
    ]  # fmt: skip


def _order(place, other):
    """The permutation that takes the coordinates of one place to those of the other, by size."""
    order = np.empty(len(place), dtype=int)
    order[np.argsort(other)] = np.argsort(place)
    return tuple(order.tolist())


def _images(found, symmetries):
    """Optima that are not yet known, at which ``symmetries`` put those that are.

    They are applied until there is nothing new, so that few searches find as many modes as there
    are orders of labels.
    """
    means, images, left = np.stack([one.gaussian.mean for one in found]), [], list(found)
    while symmetries and left and len(means) < _MAX_IMAGES:
        one = left.pop()
        for order in map(list, symmetries):
            image = Gaussian(one.gaussian.mean[order], _triangle(one.gaussian.chol[order]))
            if _distances(image, means).min() >= _SAME:
                means = np.vstack([means, image.mean])
                images.append(Optimum(image, one.log_mass))
                left.append(images[-1])  # It has images of its own.
    return images


def arms(found, path, derivatives):
    """The optima, and Gaussians along which searches have come where those are too thin.

    Long normals may cross at one optimum, whose curvature is that of the crossing. On each of them
    the second-order expansion is that of the normal itself, at whatever point, and so the end of a
    Newton step is its mean. It is taken at the points (k, d) of a ``path``, whose values (k,) are
    known, as long as Student densities at the optima are too thin there.
    """
    places, values = path
    if not len(values):
        return found
    left, found = np.isfinite(values), list(found)
    explained = np.logaddexp.reduce([_wide(one, places) for one in found])
    for _ in range(_MAX_ARMS):
        gap = np.where(left, values - explained, -np.inf)
        i = int(gap.argmax())
        if not gap[i] > _THIN:
            break
        left[i] = False
        one = _crossing(derivatives, places[i], found[0].gaussian.chol, values[i])
        if one and one.log_mass > found[0].log_mass + np.log(_MIN_ARM):
            found.append(one)
            explained = np.logaddexp(explained, _wide(one, places))
    return sorted(found, key=lambda one: -one.log_mass)


def _wide(optimum, places):
    """Log of an optimum's mass times a Student density there, (k,)."""
    proposal = importance.Proposal(*optimum.gaussian, importance.TAIL_DF)
    return optimum.log_mass + importance.log_density(proposal, places)


def _crossing(derivatives, place, root, value):
    """The normal of which the second-order expansion at a place is, or None."""
    for _ in range(_ROUNDS):
        hessian, whitening, is_white = _curvature(derivatives, place, root, value)
        if hessian is None:
            return None
        if is_white:
            break
        root = whitening
    else:
        return None
    value, slope = derivatives.slope(place, root)
    step = np.linalg.solve(-hessian, slope)
    mean, top = place + root @ step, value + 0.5 * slope @ step
    at_mean, _ = derivatives.slope(mean, root)
    chol = _triangle(root @ np.linalg.cholesky(np.linalg.inv(-hessian)))
    # An expansion that promises more than there is is none of a normal.
    if not at_mean > top - _CLOSE or not np.diag(chol).all():
        return None
    return Optimum(Gaussian(mean, chol), top + _log_volume(chol))


def _far_side(optimum, start, draws, values, widths):
    """The best draw on the other side of an optimum than where its search has started, or None."""
    centred = (draws - optimum.gaussian.mean) / widths
    side = centred @ ((start - optimum.gaussian.mean) / widths)
    beyond = (side < 0.0) & np.isfinite(values)
    return draws[np.argmax(np.where(beyond, values, -np.inf))] if beyond.any() else None


def _common_root(found, widths):
    """Coordinates for searches: those of the first optimum, in which others take fewer steps."""
    if found and (np.diag(found[0].gaussian.chol) > _NARROWEST * widths).all():
        return found[0].gaussian.chol
    return np.diag(widths)


def _unexplained(optimum, draws, values):
    """Draws at which the density is much larger than the Gaussian of an optimum."""
    top = optimum.log_mass - _log_volume(optimum.gaussian.chol)
    return values > top - 0.5 * _distances(optimum.gaussian, draws) ** 2 + _THIN


def _optimum_from(derivatives, start, root, found):
    """A new optimum, or None and the known one in which the search has ended, if any."""
    value, place = _search(derivatives, start, root, found)
    known = _nearest(found, place)
    if known is not None or value == -np.inf:
        return None, known
    gaussian, value = _refined(derivatives, place, root, value)
    if gaussian is None:
        return None, None
    known = _nearest(found, gaussian.mean)
    return (None, known) if known else (Optimum(gaussian, value + _log_volume(gaussian.chol)), None)


def _nearest(found, place):
    """A known optimum that is the same as one at this place."""
    near = [one for one in found if _distances(one.gaussian, place[None])[0] < _SAME]
    return near[0] if near else None


def scales(draws):
    """Spread of each coordinate, by quartiles: draws of a Cauchy prior have no variance."""
    low, high = np.quantile(draws, [0.25, 0.75], axis=0)
    spread = (high - low) / 1.35
    return np.where(spread > 0.0, spread, np.maximum(np.ptp(draws, axis=0), 1e-12))


def _refined(derivatives, start, root, value):
    """The Gaussian at the optimum near the end of a first search, and the value there.

    ``root`` whitens the coordinates: theta = start + root u. A Hessian is taken, and the search
    goes on in the coordinates that it whitens, until they are found white. The first is None where
    there is no Gaussian.
    """
    for _ in range(_ROUNDS):
        if value == -np.inf:
            return None, value
        hessian, root, is_white = _curvature(derivatives, start, root, value)
        if hessian is None:
            return None, value
        if is_white:
            break
        value, start = _search(derivatives, start, root)
    else:
        _, slope = derivatives.slope(start, root)
        if not np.linalg.norm(slope) <= _MAX_SLOPE:  # It still climbs, and may for ever.
            return None, value
    chol = _triangle(root)
    return (Gaussian(start, chol) if np.diag(chol).all() else None), value


def _curvature(derivatives, place, root, value):
    """The Hessian in coordinates, others that it whitens, and whether the first are nearly white.

    The Hessian is None where it has no number.
    """
    hessian = derivatives.hessian(place, root, value)
    if not np.isfinite(hessian).all():
        return None, None, False
    values, vectors = np.linalg.eigh(-hessian)
    whitening = root @ vectors / np.sqrt(np.maximum(values, _WIDEST**-2.0))
    return hessian, whitening, values.max() < 2.0 and values.min() > 0.5


def _triangle(root):
    """The Cholesky factor of root @ root.T."""
    triangle = np.linalg.qr(root.T, mode="r")  # root @ root.T = triangle.T @ triangle
    return triangle.T * np.sign(np.diag(triangle))


def _search(derivatives, start, root, found=()):
    """BFGS in whitened coordinates, ended at known optima: the value at its end, and the place."""
    theirs = np.geterr()

    def objective(u):
        place = start + root @ u
        if not np.isfinite(place).all():
            return _IMPOSSIBLE, np.zeros(len(u))
        with np.errstate(**theirs):  # What overflows in a user's function is for the user to see.
            value, slope = derivatives.slope(place, root)
        return (-value, -slope) if np.isfinite(value) else (_IMPOSSIBLE, slope)

    def ended(u):
        if _nearest(found, start + root @ u) is not None:
            raise StopIteration

    with np.errstate(over="ignore", invalid="ignore"):  # Steps along slopes of 1e300.
        end = minimize(
            objective,
            np.zeros(len(start)),
            jac=True,
            method="BFGS",
            callback=ended,
            options={"maxiter": _MAX_ITER, "gtol": _TOL},
        )
    value = -end.fun if end.fun < _IMPOSSIBLE else -np.inf
    return value, start + root @ end.x


def _distances(gaussian, places):
    """Distances of places (k, d) from a mean, in standard deviations."""
    white = solve_triangular(gaussian.chol, (places - gaussian.mean).T, lower=True)
    return np.sqrt(np.einsum("ij,ij->j", white, white))


def _log_volume(chol):
    """Log of the integral of exp(-x' cov^-1 x / 2)."""
    return np.log(np.diag(chol)).sum() + 0.5 * len(chol) * np.log(2.0 * np.pi)
