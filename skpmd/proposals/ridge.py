"""Proposals along a ridge: Gaussians of all coordinates but one, on a grid of that one.

A funnel, a banana and most hierarchical models have one coordinate (a scale, a parameter that the
others bend with) given which the rest is nearly normal, though the whole is not. Its grid, with a
Laplace approximation of the rest at each value, is the idea of nested Laplace approximations
(Tierney and Kadane 1986; Rue, Martino and Chopin 2009). Here it makes a mixture to draw from, and
weights correct what it gets wrong.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lstsq

from skpmd.engine.importance import Proposal
from skpmd.engine.particles import effective_sample_size

_DF = 8.0  # Proposals have Student tails with these degrees of freedom.
_WIDTH = 0.8  # Along the ridge their sd is this share of the grid's spacing.
_MIN_CURVATURE = 30.0**-2  # Of the rest, relative to what it was one value before.
_MAX_NEWTON = 20
_CLOSE = 0.05  # Newton steps end when they are so short, in standard deviations,
_CLOSE_ENOUGH = 0.5  # and what comes after the last of them may be so long.
_LONGEST = 30.0  # No step is longer.
# From one value to the next log sds change by so much, as a norm, the optimum leaves its tangent by
# so many sds, and the mass changes by so many nats.
_MAX_CHANGE, _MAX_BEND, _MAX_RISE = 0.5, 1.0, 3.0
_DROP = 12.0  # The grid ends where there are so many nats less than at its top.
_MAX_VALUES = 250  # It has so many values at most,
_MAX_TRIALS = 600  # and no more are tried.
_MIN_SPACING = 1e-3  # A grid with a smaller share of the first spacing has lost its way.
_MIN_CHANGE = 0.2  # Nothing changes along a coordinate with a smaller change or bend.
_PILOT = 64  # By so many draws sections are held against the normal distribution,
_MIN_NORMALITY = 0.2  # and are given up where a smaller share of them is effective.
_MAX_RIDGES = 2  # So many coordinates are tried.


class Section(NamedTuple):
    """What the density looks like where one coordinate has some value."""

    mean: np.ndarray  # (d,): Optimum of the other coordinates.
    root: np.ndarray  # (d, d - 1): Root of their covariance; the row of that coordinate is zero.
    slope: np.ndarray  # (d,): Change of the optimum by unit of that coordinate, which has 1 itself.
    log_mass: float  # Log of the Laplace approximation of their integral.


def ridges(log_density, derivatives, gaussian, rng):
    """Mixtures of proposals along coordinates given which the rest is nearly normal, best first.

    ``log_density`` maps points (k, d) to values (k,), and ``derivatives`` are its own
    (`skpmd.proposals.fitted_proposals`). ``gaussian`` is that at an optimum, or any that says where
    to start and what the scales may be. Yields components and their log masses.
    """
    d = len(gaussian.mean)
    if d < 2:
        return
    candidates = []
    for j, unit in enumerate(np.linalg.norm(gaussian.chol, axis=1)):
        first = _first_section(derivatives, gaussian, j)
        if first is not None:
            moved = [_moved(derivatives, first, j, step) for step in (unit, -unit)]
            moved = [one for one in moved if one is not None]
            changes = [max(_change(first, one, j)[:2]) for one in moved]
            if max(changes, default=0.0) > _MIN_CHANGE:
                share = np.mean([_normality(log_density, one, rng) for one in (first, *moved)])
                candidates.append((share, first, j, unit))
    candidates.sort(key=lambda one: -one[0])
    for share, first, j, unit in candidates[:_MAX_RIDGES]:
        top = _uphill(derivatives, first, j, unit)
        sections = _grid(derivatives, top, j, unit) if share > _MIN_NORMALITY else None
        if sections is not None:
            yield mixture(sections, j)


def mixture(sections, j):
    """Components of the sections of a grid (a list of `Proposal`), and their log masses."""
    spacing = np.gradient(np.array([one.mean[j] for one in sections]))
    components = []
    for one, width in zip(sections, _WIDTH * spacing, strict=True):
        factor = np.column_stack([one.root, width * one.slope])
        components.append(Proposal(one.mean, factor, _DF))
    return components, np.array([one.log_mass for one in sections]) + np.log(spacing)


def _first_section(derivatives, gaussian, j):
    """At the optimum of all coordinates; None where it has none."""
    d = len(gaussian.mean)
    rest = np.delete(np.arange(d), j)
    precision = np.linalg.inv(gaussian.chol @ gaussian.chol.T)
    root = np.zeros((d, d - 1))
    try:
        root[rest] = np.linalg.cholesky(np.linalg.inv(precision[np.ix_(rest, rest)]))
    except np.linalg.LinAlgError:  # Scales differ by more than there are digits.
        return None
    unit = np.linalg.norm(gaussian.chol[j])
    return _section(derivatives, gaussian.mean, root, j, unit)


def _normality(log_density, section, rng):
    """Share of draws from a section's Gaussian that are effective."""
    z = rng.standard_normal((_PILOT, section.root.shape[1]))
    values = log_density(section.mean + z @ section.root.T)
    return effective_sample_size(values + 0.5 * (z**2).sum(axis=1)) / _PILOT


def _moved(derivatives, section, j, step):
    return _section(derivatives, section.mean + step * section.slope, section.root, j, abs(step))


def _section(derivatives, start, root, j, unit):
    """Newton's method on all coordinates but one, from a start and a root that are nearly right.

    ``unit`` is a length along that coordinate over which the slope is of interest. None where there
    is no optimum near.
    """
    d = len(start)
    rest = np.delete(np.arange(d), j)
    along = np.zeros((d, 1))
    along[j] = unit
    at, before = start, None
    for _ in range(_MAX_NEWTON):
        whole = np.hstack([root, along])
        value, gradient = derivatives.slope(at, whole)
        if not np.isfinite(value) or (before is not None and value < before[1] - 0.5):
            if before is None:
                return None
            at = 0.5 * (at + before[0])
            continue
        hessian = derivatives.hessian(at, whole, value)
        if not np.isfinite(hessian).all():
            return None
        before = at, value
        curvatures, vectors = np.linalg.eigh(-hessian[:-1, :-1])
        good = bool(len(curvatures)) and curvatures.min() > 1 / 3 and curvatures.max() < 3.0
        scaled = vectors / np.maximum(curvatures, _MIN_CURVATURE)
        step, slope = scaled @ (vectors.T @ gradient[:-1]), scaled @ (vectors.T @ hessian[:-1, -1])
        size = np.sqrt(max(step @ gradient[:-1], 0.0))
        slope = root @ slope / unit
        slope[j] = 1.0
        step = root @ step * min(1.0, _LONGEST / max(size, 1e-300))
        root = root @ (vectors / np.sqrt(np.maximum(curvatures, _MIN_CURVATURE)))
        at = at + step
        if size < _CLOSE and good:
            break
    if not (good and size < _CLOSE_ENOUGH):
        return None
    log_volume = np.linalg.slogdet(root[rest])[1] + 0.5 * (d - 1) * np.log(2.0 * np.pi)
    return Section(at, root, slope, value + 0.5 * size**2 + log_volume)


def _change(one, other, j):
    """Change of log sds, distance from the tangent in sds, and change of the log mass."""
    rest = np.delete(np.arange(len(one.mean)), j)
    stretch = np.linalg.svd(np.linalg.solve(one.root[rest], other.root[rest]), compute_uv=False)
    step = other.mean[j] - one.mean[j]
    off = other.mean - one.mean - step * one.slope
    bend = lstsq(one.root[rest], off[rest])[0]
    change = np.linalg.norm(np.log(stretch))
    return change, np.linalg.norm(bend), abs(other.log_mass - one.log_mass)


def _uphill(derivatives, section, j, unit):
    """The section of about the largest mass that steps to either side lead to."""
    step = unit
    for _ in range(60):
        moved = [_moved(derivatives, section, j, way * step) for way in (1.0, -1.0)]
        best = max(
            (one for one in moved if one is not None), key=lambda one: one.log_mass, default=None
        )
        if best is not None and best.log_mass > section.log_mass + 0.1:
            section, step = best, 1.6 * step
        elif step > 0.3 * unit:
            step *= 0.4
        else:
            break
    return section


def _grid(derivatives, top, j, unit):
    """Sections on both sides of one, close enough to each other; None where they do not end."""
    found, trials = [top], 0
    for way in (1.0, -1.0):
        section, step = top, 0.5 * unit
        while section.log_mass > max(one.log_mass for one in found) - _DROP:
            trials += 1
            if step < _MIN_SPACING * unit or len(found) == _MAX_VALUES or trials == _MAX_TRIALS:
                return None
            new = _moved(derivatives, section, j, way * step)
            if new is None:
                step *= 0.5
                continue
            change, bend, rise = _change(section, new, j)
            worst = max(change / _MAX_CHANGE, bend / _MAX_BEND, rise / _MAX_RISE)
            if worst > 1.5:
                step *= max(0.3, 0.9 / worst)
                continue
            found.append(new)
            section, step = new, step * min(2.0, max(0.5, 0.9 / max(worst, 0.3)))
    return sorted(found, key=lambda one: one.mean[j]) if len(found) > 1 else None
