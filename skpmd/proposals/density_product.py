"""Posteriors of disjoint shards of rows as one: the product of their densities over the priors.

The posterior given all rows is

    p(theta | all rows) proportional to p_0(theta) prod_k p(theta | shard k) / p_k(theta)

with p_k the prior of shard k and p_0 that of all rows. Where a density stands for the posterior of
each shard, values of the right side are known without a row, and it is sampled as any density is
whose values are known: by proposals that are fitted at its optima and weighed by it, and where
these weights fail by Hamiltonian moves. Where all rows are at hand, they weigh draws of such
proposals instead.

Weights and moves certify the product, not the densities that it is made of. What speaks against
those is known otherwise: see `skpmd._base.merging`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from skpmd.engine import kde, mirror
from skpmd.engine.edges import Unbounded
from skpmd.engine.importance import Proposal
from skpmd.engine.model import Batch, Model
from skpmd.engine.particles import effective_sample_size, moments, weights, whitened
from skpmd.proposals import chain_draws, fitted_density
from skpmd.proposals.fitted_density import FittedDensity
from skpmd.proposals.fitted_proposals import EACH, Proposals, fitted_proposals
from skpmd.proposals.importance_rounds import importance_rounds
from skpmd.proposals.weighed_proposals import is_thin

# Searches start from so many draws of the product of normals with the densities' moments.
_STARTS = 200
_MIN_SHARE = 0.05  # There is one round of weights where a smaller share of its draws is effective.
_MIN_ESS = 200.0  # Misfits are looked at under weights that leave so many particles effective.
# Of thirty random shards the least was .05, and of shards of one class each with means 2.5 sds off
# a millionth.
_MIN_FLATTENED = 0.01
_TAIL_DF = 5.0  # Where no optimum is found, draws come from these Student tails, and from normals.
_NO_ROWS = (Batch(np.empty((1, 0)), None, np.ones(1)),)


class Shard(NamedTuple):
    """What is known of the posterior given some of the rows."""

    density: FittedDensity
    log_prior: Any  # Log prior density of its fit: of points (m, d), (m,).
    prior_gradient: Any = None  # Of it, (m, d), where it is known.


class AllRows(NamedTuple):
    """All rows, where they are at hand."""

    model: Model  # Of the coordinates of the densities, under the prior of all rows.
    batches: Any  # Of all rows, to be gone through several times.
    power: float  # Of the likelihood.
    # ``moved(components, n, rng)`` yields states of chains on all rows; None where there is no
    # gradient.
    moved: Any = None


class DensityProduct(Model):
    """The product as a model: the prior of the first shard, and the likelihood of all.

    Parameters
    ----------
    shards : list of Shard
        One for each posterior, all in the same coordinates.
    """

    def __init__(self, shards):
        self.shards = shards
        self.n_coordinates = len(shards[0].density.mean)

    def log_prior(self, theta):
        """Log density of the first shard's prior; see `Model`."""
        return self.shards[0].log_prior(theta)

    def log_likelihood(self, theta, batch):
        """What all shards have learned from their rows, up to a constant; see `Model`."""
        total = np.zeros(len(theta))
        for shard in self.shards:
            log_prior = shard.log_prior(theta)
            with np.errstate(invalid="ignore"):  # Beyond an edge both are -inf.
                total += fitted_density.log_density(shard.density, theta) - log_prior
        return np.where(np.isnan(total), -np.inf, total)

    def log_joint_gradient(self, theta):
        """Log of the product, up to a constant, (m,), and its gradient (m, d)."""
        slope = fitted_density.gradient(self.shards[0].density, theta)
        for density, _, of_prior in self.shards[1:]:
            slope += fitted_density.gradient(density, theta) - of_prior(theta)
        return log_joint(self)(theta), slope

    @property
    def gradient(self):
        """`log_joint_gradient`, or None where a prior has none or a coordinate has edges."""
        known = (one.prior_gradient and one.density.free is None for one in self.shards)
        return self.log_joint_gradient if all(known) else None


def log_joint(model, batches=_NO_ROWS, power=1.0):
    """The function of points (m, d) that is the log joint density, -inf beyond edges."""

    def values(theta):
        log_prior = model.log_prior(theta)
        return log_prior + power * mirror.log_likelihood_inside(model, theta, batches, log_prior)

    return values


def merged_states(product, n, rng, what, support=None, rows=None):
    """States of draws of a product, for `skpmd.engine.loop.drive`.

    ``n`` are drawn in a round, and ``what`` names the densities for the method. The ``support`` of
    the coordinates is two arrays of edges (d,), or None. With `AllRows` these weigh the draws.
    """
    free = None
    if support is not None and np.isfinite(support).any():
        free = Unbounded(product, *support)
        rows = rows and rows._replace(model=Unbounded(rows.model, *support))
    proposals = _proposals(product, free, rng)
    if rows is None:
        states = _by_densities(free or product, product.gradient, proposals, n, rng, what)
    else:
        states = _by_rows(rows, proposals, n, rng, what)
    for outcome in states:
        if free is not None:
            outcome = outcome._replace(particles=free.restored(outcome.particles))
        yield outcome


def _proposals(product, free, rng):
    """`Proposals` at the optima of a product, in coordinates without edges."""
    shards, target = product.shards, log_joint(free or product)
    mean, root = normal_product(shards)
    draws = mean + rng.standard_normal((_STARTS, len(mean))) @ root.T
    starts = np.concatenate([draws, *(shard.density.mean[None] for shard in shards)])
    values = target(starts)
    found = fitted_proposals(target, starts, values, values, rng, product.gradient)
    components = [Proposal(mean, root), Proposal(mean, root, _TAIL_DF)]
    return next(found, Proposals(components, np.full(EACH, 1.0 / EACH), True))


def normal_product(shards):
    """Mean (d,) and root (d, d) of the covariance of a product of normals with their moments.

    Priors are left out of it.
    """
    precision, linear = 0.0, 0.0
    for density, *_ in shards:
        inverse = solve_triangular(density.chol, np.eye(len(density.mean)), lower=True)
        precision = precision + inverse.T @ inverse
        linear = linear + inverse.T @ (inverse @ density.mean)
    return np.linalg.solve(precision, linear), np.linalg.inv(np.linalg.cholesky(precision)).T


def _by_densities(model, gradient, proposals, n, rng, what):
    """States of draws that the product weighs; where that fails, of moves along its gradient."""
    components, shares = proposals.components, proposals.shares
    notes = {"method": f"reweighting of proposals by {what}"}
    for outcome in importance_rounds(model, _NO_ROWS, components, shares, n, 1.0, rng, _MIN_SHARE):
        last = _of_one_place(outcome._replace(notes=notes), components)
        yield last
    if gradient is None or not is_thin(last.particles):
        return
    plain = components[1::EACH]
    start = chain_draws.starts(plain, shares[1::EACH], rng)
    notes = {"method": f"Hamiltonian moves along {what}"}
    for outcome in chain_draws.moved(
        model, gradient, start, plain[0].mean, plain[0].factor, n, 1.0, rng
    ):
        yield outcome._replace(notes=notes)


def _by_rows(rows, proposals, n, rng, what):
    """States of draws that all rows weigh; where that fails, of moves on all rows."""
    components = proposals.components
    notes = {"method": f"importance reweighting of proposals from {what}"}
    for outcome in importance_rounds(
        rows.model, rows.batches, components, proposals.shares, n, rows.power, rng, _MIN_SHARE
    ):
        last = _of_one_place(outcome._replace(notes=notes), components)
        yield last
    if rows.moved is None or not is_thin(last.particles):
        return
    notes = {"method": f"Hamiltonian moves on all rows from {what}"}
    for outcome in rows.moved(components, n, rng):
        yield outcome._replace(notes=notes)


def _of_one_place(outcome, components):
    """The outcome, whose proposals are not to agree on a mean where they are at several places."""
    return outcome if len(components) == EACH else outcome._replace(disagreement=None)


def distances(shards, theta, log_weights):
    """How far the mean of particles is from that of each density, in its own units; (K,).

    It is the length of the difference over what it is on average for draws of the density: where
    shards agree it is below 1, and the more so the fewer they are.
    """
    found = []
    for density, *_ in shards:
        u = theta if density.free is None else density.free.outward(theta)
        gap = moments(u, log_weights)[0] - density.mean
        found.append(np.linalg.norm(whitened(gap[None], np.zeros(len(gap)), density.chol)))
    return np.array(found) / np.sqrt(len(gap))


def nonnormality(shards, theta, log_weights):
    """How far normals with the densities' moments would move a mean, in sds; to first order.

    It says how much rests on what the densities have beyond their moments.
    """
    free, change = shards[0].density.free, np.zeros(len(theta))
    u = theta if free is None else free.outward(theta)
    for density, *_ in shards:
        length = whitened(u, density.mean, density.chol)
        change -= 0.5 * np.einsum("ij,ij->i", length, length)
        change -= fitted_density.log_density(density, theta)
    if free is not None:
        change -= len(shards) * free.log_jacobian(u)
    w = weights(log_weights)
    away = u - w @ u
    shift = (w * (change - w @ change)) @ away
    sd = np.sqrt(w @ away**2)
    return float(np.max(np.abs(shift) / np.maximum(sd, np.finfo(float).tiny)))


def misfit(shards, particles, theta, log_weights):
    """How far the densities' misfits move a mean of the product, in sds; to first order.

    A density has been fitted to particles that are all over its shard's posterior, and the product
    lies in a part of that. Values of the shard's posterior at its particles, weighed towards the
    product as far as enough of them stay effective, show the slope of what the density leaves of
    them there. Slopes add up over shards, and one of 1 in a whitened coordinate moves its mean by
    one sd.

    Parameters
    ----------
    shards : list of Shard
        The product.
    particles : list of tuple
        Places of those shards whose values are known; and of each the particles (m, d), their log
        weights and log joint densities (m,).
    theta, log_weights : ndarray of shapes (n, d), (n,)
        Draws of the product.

    Returns
    -------
    float
        Infinite where nothing is known of it.
    """
    free, target = shards[0].density.free, log_joint(DensityProduct(shards))
    outward = (lambda points: points) if free is None else free.outward
    mean, cov = moments(outward(theta), log_weights)
    chol, total = kde.cholesky(cov), 0.0
    for k, (points, log_own, values) in particles:
        density = shards[k].density
        gap = values - fitted_density.log_density(density, points)
        towards = target(points) - fitted_density.log_density(density, points)
        flattened = _flattened(log_own, towards)
        if flattened is None:
            return np.inf
        w = weights(flattened)
        z = whitened(outward(points), mean, chol)
        away = z - w @ z
        with np.errstate(divide="ignore", invalid="ignore"):
            total = total + (w * (gap - w @ gap)) @ away / (w @ away**2)
    moved = np.max(np.abs(chol @ total) / np.linalg.norm(chol, axis=1))
    return float(np.nan_to_num(moved, nan=np.inf))


def _flattened(log_weights, towards):
    """Log weights with as much of others added as leaves enough of the particles effective.

    None where that is next to nothing: the others span millions of nats where a density grows
    without end, far from the particles that it was fitted to.
    """
    towards = np.where(np.isfinite(towards), towards, -np.inf)
    enough = min(_MIN_ESS, 0.5 * effective_sample_size(log_weights))
    share = 1.0
    while effective_sample_size(log_weights + share * towards) < enough:
        share *= 0.8
        if share < _MIN_FLATTENED:
            return None
    return log_weights + share * towards
