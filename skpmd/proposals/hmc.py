"""Whitened Hamiltonian moves of many chains at once, for posteriors that weights cannot reach.

No density is left that the particles were drawn from: they are judged by R-hat, and there is
neither k-hat nor evidence. `hamiltonian` moves chains of any density, and `moved` those of a model:
it says where they start, at `starts`, and what they leave.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrmm, strmm

from skpmd._runtime.call import counted, tick
from skpmd.engine.diagnostics import ess_mean, rank_diagnostics
from skpmd.engine.importance import draw, even_counts
from skpmd.engine.loop import Outcome, resumable
from skpmd.engine.mirror import StepInfo
from skpmd.engine.particles import (
    acceptance,
    accepted,
    adapted_step,
    equally_weighted,
    select,
)
from skpmd.engine.variational import Gaussian
from skpmd.proposals.splitting import FreeFlight, StiffFlow

N_CHAINS = 32
_INNER_ACCEPT = 0.9  # Steps inside a flow are adapted to this: it counts in the former too.
_LENGTH = 0.5 * np.pi  # A trajectory is a quarter of a period of the standard normal.
MAX_ITER = 1000  # Chains make so many iterations after the warm-up, at most.
_MAX_LEAPS = 300  # A trajectory takes so many steps on average, at most.
_GOOD_R_HAT = 1.02
# R-hat - 1 falls like one over the iterations. Where it would end above this there is no hope.
_HOPELESS = 0.2
# Nor is there where the shortest steps, which nearly all trajectories of a window of the warm-up
# have taken, are still too long to be accepted more often than this.
_MANY, _STUCK = 0.8, 0.4
# Chains end after about so many gradients each, where a step inside a flow counts so much. Twelve
# separable rows under a wide Cauchy prior took 15,000, and five rows with an outlier of 1e8 took
# 89,000, and 550,000 steps inside flows.
_MAX_WORK, _INNER_WORK = 40_000, 0.3
TARGET_ESS = 0.25  # Chains run until the worst coordinate has this share of n_particles draws.
_START_DF = 10.0  # Chains start from Student draws with these degrees of freedom.


class _Schedule(NamedTuple):
    """How long chains warm up, how they move, and when they are looked at."""

    windows: tuple  # The whitening changes after so many iterations of the warm-up.
    lengths: tuple  # The length of a trajectory varies in this range, as a multiple of `_LENGTH`.
    # Diagnostics are first looked at after so many iterations, then after so many more, or one in
    # so many of those so far, whichever is more.
    looks: tuple
    first_step: float  # The first step size is this times d^(-1/4), its scaling with d.
    accept: float  # Step sizes are adapted to this (Betancourt, Byrne and Girolami 2014).


_PLAIN = _Schedule((20, 40, 60), (0.5, 1.5), (50, 50, 4), 0.8, 0.8)
# A scale is soon found, and trajectories of nearly the same length leave the least correlation in
# squares where the whitening is right. There diagnostics take as long as some iterations.
_SHAPED = _Schedule((8, 12), (0.95, 1.3), (70, 10, 8), 1.2, 0.83)


class Target(NamedTuple):
    """What chains follow, as functions of positions theta (n_chains, d)."""

    # Log joint densities (n_chains,) and their gradients (n_chains, d).
    log_joint_gradient: Any
    # Gradients alone, which are taken inside a trajectory; at its ends they are those above. They
    # may be less exact: a trajectory back takes the same ones, so that the Metropolis decision is
    # as exact as the values.
    inside: Any = None
    # From the whitening, mean and chol, to a part of the density that is steep but cheap, as a
    # `skpmd.proposals.splitting.Stiff`. Between two gradients the chains follow this part and
    # N(0, I), so that the steps may be as long as the rest of the density allows. Without it
    # trajectories are plain leapfrog, which is better in heavy tails.
    stiff: Any = None
    # ``jump(theta, rng) -> (moved, log Jacobian (n_chains,))``, for what gradients do not do well:
    # a reversible proposal, which is accepted or not after each trajectory.
    jump: Any = None
    shown: Any = None  # What users see (n, k), where that is not theta itself, (n, d).
    restored: Any = None  # Coordinates of the model (n, d), where chains move in others.
    # Whether the first whitening is right but for its scale, where coordinates are more than draws
    # of a warm-up. Its shape is then kept, and inside trajectories it is in single precision.
    is_shaped: bool = False


class Chains(NamedTuple):
    """Draws of `hamiltonian` and their diagnostics."""

    draws: np.ndarray  # (n_chains, n_iterations, d): Positions after the warm-up.
    r_hat: float  # Largest rank-normalised split R-hat of any coordinate: location and scale alike.
    ess: float  # Smallest effective number of draws: of bulk, tails, mean and sd of any coordinate.
    accept: float  # Mean acceptance probability after the warm-up.
    n_gradients: int  # Gradients taken per chain, warm-up included.
    warming_up: bool = False  # Whether steps and whitening were still being adapted.
    at: Any = None  # What `hamiltonian` needs to go on from here; None where nothing follows.


class _State(NamedTuple):
    """Chains in whitened coordinates: theta = mean + z @ chol.T."""

    z: np.ndarray
    value: np.ndarray
    gradient: np.ndarray


def hamiltonian(target, start, whitening, rng, *, target_ess, max_iter=MAX_ITER, at=None):
    """Move chains by Hamiltonian Monte Carlo until R-hat and effective draws are good.

    Trajectories are a quarter of a period of the whitened posterior long, jittered, the same for
    all chains, so that each gradient is one matrix product over all of them (Neal 2011). The first
    ``whitening`` is a `Gaussian` near the posterior; it is taken anew from the pooled draws of each
    window of the warm-up, as far as halves of the chains agree on it.

    ``target`` is a `Target`. The first positions ``start`` (n_chains, d) are to be wider than the
    posterior, or R-hat says little.

    Chains run until R-hat is below 1.02 and everything that the diagnostics look at has
    ``target_ess`` effective draws, for ``max_iter`` iterations after the warm-up at most, and no
    longer than R-hat can still become small, nor beyond the warm-up where the shortest steps are
    too long; and each takes 40,000 gradients or little more. Draws and diagnostics so far are
    yielded after each look at them; judge ``r_hat`` before use. Those of each window of the warm-up
    come first, and are not among the later ones. Each has an ``at``, from which chains of the same
    arguments go on.
    """
    chains, shown = _Whitened(target, *(whitening if at is None else at.whitening)), target.shown
    windows, (first_look, chunk, share) = chains.schedule.windows, chains.schedule.looks
    if at is None:
        first_step = np.log(chains.schedule.first_step * start.shape[1] ** -0.25)
        log_steps = first_step, min(first_step, np.log(chains.flow.first_step))
        at = _Look(0, windows[0], whitening, chains.at(start), log_steps, 1, 0.0)
    while at.n_windows < len(windows):
        # A chain that starts where the density is steep would never move by a step for the others.
        # One that is whitened well starts where it is not.
        adapt = np.mean if at.n_gradients > 1 or target.is_shaped else _harmonic_mean
        length = at.length
        state, log_steps, zs, accept, taken, spent = _advance(chains, at, rng, adapt)
        n_gradients, work = at.n_gradients + taken, at.work + spent
        draws = chains.position(zs)
        found = Chains(draws, *_diagnose(draws, shown), float(accept), n_gradients, True)
        stuck = accept < _STUCK and taken > _MANY * _MAX_LEAPS * length
        if stuck or work > _MAX_WORK:
            yield found
            return
        chains, state = chains.rewhitened(zs[:, length // 2 :], state)
        n, following = at.n_windows + 1, windows[at.n_windows + 1 :]
        # The last window tells what an iteration takes.
        length = following[0] if following else _affordable(first_look, work, spent / length)
        whitening = Gaussian(chains.mean, chains.chol)
        at = _Look(n, length, whitening, state, log_steps, n_gradients, work)
        yield found._replace(at=at)
    while at.length:
        state, _, zs, accept, taken, spent = _advance(chains, at, rng)
        n_gradients, work = at.n_gradients + taken, at.work + spent
        draws, accepts = chains.position(zs), [*at.accepts, accept]
        if at.draws is not None:
            draws = np.concatenate([at.draws, draws], axis=1)
        r_hat, ess = _diagnose(draws, shown)
        done = r_hat < _GOOD_R_HAT and ess >= target_ess
        done |= not (r_hat - 1.0) * len(draws[0]) <= _HOPELESS * max_iter
        each, left = spent / at.length, max_iter - len(draws[0])
        length = _affordable(min(max(chunk, len(draws[0]) // share), left), work, each)
        at = at._replace(
            length=0 if done else length, state=state, n_gradients=n_gradients, work=work,
            draws=draws, accepts=accepts,
        )  # fmt: skip
        yield Chains(draws, r_hat, ess, float(np.mean(accepts)), n_gradients, at=at)


def _affordable(n, work, each):
    """So many iterations, or fewer if they would take the work beyond its bound."""
    return max(0, min(n, int((_MAX_WORK - work) / each)))


def _diagnose(draws, shown):
    """Largest rank-normalised R-hat, and smallest effective number of draws.

    Bulk and tail effective sample sizes say whether the chains mix. They do not certify the
    moments that users read: trajectories of a quarter period make means easier than they are for
    independent draws, and squared deviations harder than the tails. Hence what is shown has to
    have enough draws for its means and its standard deviations as well.
    """
    values = draws
    if shown is not None:
        values = shown(draws.reshape(-1, draws.shape[-1])).reshape(*draws.shape[:2], -1)
    ranks = [rank_diagnostics(one) for one in ([values] if shown is None else [draws, values])]
    sizes = [size for one in ranks for size in (one.ess_bulk, one.ess_tail)]
    sizes += [ess_mean(values), ess_mean((values - values.mean(axis=(0, 1))) ** 2)]
    r_hat = np.concatenate([one.r_hat for one in ranks])
    return float(r_hat.max()), float(np.concatenate(sizes).min())


class _Whitened:
    """The log joint density and its gradient in whitened coordinates."""

    def __init__(self, target, mean, chol):
        self._target, self.mean, self.chol, stiff = target, mean, chol, target.stiff
        self.flow = FreeFlight() if stiff is None else StiffFlow(stiff(mean, chol))
        self.schedule, self._single = _SHAPED if target.is_shaped else _PLAIN, None
        if target.is_shaped and target.inside is not None:
            self._single = np.asfortranarray(chol, dtype=np.float32)

    def position(self, z):
        if self._target.is_shaped and z.ndim == 2:
            return self.mean + dtrmm(1.0, self.chol.T, z.T, trans_a=1).T
        return self.mean + z @ self.chol.T

    def evaluate(self, z):
        with np.errstate(over="ignore", invalid="ignore"):  # What flies off is refused.
            values, gradients = self._target.log_joint_gradient(self.position(z))
            if self._target.is_shaped:
                return _State(z, values, dtrmm(1.0, self.chol.T, gradients.T).T)
            return _State(z, values, gradients @ self.chol)

    def gradient_inside(self, z):
        """The gradient inside a trajectory."""
        if self._target.inside is None:
            return self.evaluate(z).gradient
        if self._single is not None:
            theta = self.mean + strmm(1.0, self._single, z.astype(np.float32).T, lower=1).T
            gradient = self._target.inside(theta).astype(np.float32)
            return strmm(1.0, self._single, gradient.T, lower=1, trans_a=1).T
        return self._target.inside(self.position(z)) @ self.chol

    def at(self, theta):
        return self.evaluate(solve_triangular(self.chol, (theta - self.mean).T, lower=True).T)

    def rewhitened(self, zs, state):
        """Whitened by the covariance of draws zs, as far as two halves of the chains agree on it.

        A covariance of n draws in d dimensions errs by a share of sqrt(d / n), more where they hang
        together. Half the difference of two independent ones has the same noise as their mean, and
        so it tells how far to go from the covariance of now, which is I here, towards that mean
        (the linear shrinkage of Ledoit and Wolf 2004). Where there are not even as many draws as
        coordinates nothing but its trace is known.
        """
        d = zs.shape[-1]
        if self._target.is_shaped:
            z = zs.reshape(-1, d)
            return self._rescaled(z.mean(axis=0), np.sqrt(z.var(axis=0).mean()), state)
        one, other = (np.cov(half.reshape(-1, d).T).reshape(d, d) for half in (zs[::2], zs[1::2]))
        found = 0.5 * (one + other) - np.eye(d)
        noise = np.sum((one - other) ** 2) / 4.0
        weight = max(0.0, 1.0 - noise / np.sum(found**2))
        try:
            factor = np.linalg.cholesky(np.eye(d) + weight * found)
        except np.linalg.LinAlgError:  # But for rounding the draws lie in a plane.
            return self, state
        mean = self.position(zs.reshape(-1, d).mean(axis=0))
        chains = _Whitened(self._target, mean, self.chol @ factor)
        return chains, chains.at(self.position(state.z))

    def _rescaled(self, centre, factor, state):
        """The same, but z = centre becomes zero, and what is as long as the factor one."""
        if not factor > 0.0:  # None has moved.
            return self, state
        chains = _Whitened(self._target, self.position(centre), factor * self.chol)
        return chains, chains.at(self.position(state.z))

    def jumped(self, state, rng):
        """State after the Metropolis decision on a jump, where there is one."""
        if self._target.jump is None:
            return state
        moved, log_jacobian = self._target.jump(self.position(state.z), rng)
        new = self.at(moved)
        return _decide(state, new, new.value - state.value + log_jacobian, rng)[0]


def _advance(chains, at, rng, adapt=None):
    """The iterations after a look at the chains.

    Returns (state, log steps, positions (n_chains, n, d), mean acceptance, gradients, work). Work
    is in gradients, steps inside the flow included. Steps are adapted to ``adapt`` of the chains'
    acceptance probabilities, if that is given.
    """
    state, (outer, inner), n = at.state, at.log_steps, at.length
    zs, accepts, taken, work = [], [], 0, 0.0
    for t in counted(range(n), "Hamiltonian moves", n):
        tick()
        length, step = _LENGTH * rng.uniform(*chains.schedule.lengths), np.exp(inner)
        leaps = max(1, int(np.ceil(length / np.exp(outer))))
        state, accept, inner_accept = _iterate(chains, state, length / leaps, step, leaps, rng)
        state = chains.jumped(state, rng)
        zs.append(state.z)
        accepts.append(accept.mean())
        taken += leaps
        work += leaps * (1.0 + _INNER_WORK * chains.flow.n_steps(length / leaps, step))
        if adapt is not None:
            # At a hard edge no step is short enough for the acceptance asked for: hence a bound.
            # One step may be the whole trajectory, and none is longer.
            outer = adapted_step(outer, adapt(accept), chains.schedule.accept, t)
            outer = np.clip(outer, *np.log([_LENGTH / _MAX_LEAPS, _LENGTH]))
            inner = min(adapted_step(inner, inner_accept, _INNER_ACCEPT, t), outer)
    return state, (outer, inner), np.stack(zs, axis=1), np.mean(accepts), taken, work


class _Look(NamedTuple):
    """How far chains have come at a look at them."""

    n_windows: int  # Windows of the warm-up that are over.
    length: int  # Iterations until the next look; 0 where there is none.
    whitening: Gaussian
    state: _State
    log_steps: tuple  # Logs of the step sizes: between kicks by the slow force, in the flow.
    n_gradients: int  # Of each chain so far.
    work: float
    draws: np.ndarray | None = None  # After the warm-up.
    accepts: tuple = ()  # Mean acceptance probabilities between looks.


def _harmonic_mean(probabilities):
    """It is near zero where any of them is."""
    return 1.0 / np.mean(1.0 / np.maximum(probabilities, 1e-6))


def _iterate(chains, state, step, inner_step, leaps, rng):
    """One trajectory of every chain and its Metropolis decision.

    Returns the state, the acceptance probabilities (n_chains,), and what their mean would be if the
    energy errors of the flows between kicks were all there are.
    """
    momentum = rng.standard_normal(state.z.shape)
    new, p, inner_error = _trajectory(chains, state, momentum, step, inner_step, leaps)
    kinetic, before = (0.5 * np.einsum("ij,ij->i", one, one) for one in (p, momentum))
    with np.errstate(over="ignore", invalid="ignore"):
        log_accept = new.value - kinetic - (state.value - before)
    inner_accept = acceptance(-np.atleast_1d(inner_error)).mean()
    return *_decide(state, new, log_accept, rng), float(inner_accept)


def _trajectory(chains, state, p, step, inner_step, leaps):
    """The end of a trajectory with momenta p: its state, momenta, and the flows' energy error.

    From there with the momenta reversed it leads back.
    """
    flow, z, inner_error = chains.flow, state.z, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        inner = flow.initialise(z)
        p = p + 0.5 * step * flow.slow_force(z, state.gradient, inner)
        for k in range(leaps):
            z, p, inner, error = flow.advance(z, p, step, inner_step, inner)
            inner_error = inner_error + error
            if k < leaps - 1:
                p = p + step * flow.slow_force(z, chains.gradient_inside(z), inner)
        new = chains.evaluate(z)
        p = p + 0.5 * step * flow.slow_force(z, new.gradient, inner)
    return new, p, inner_error


def _decide(state, new, log_ratio, rng):
    """Metropolis decision of each chain: its state, and the acceptance probability (n_chains,)."""
    taken, probability = accepted(log_ratio, rng)
    return _State(*select(taken, new, state)), probability


def starts(proposals, shares, rng, *, others=()):
    """Where chains start: Student draws (n_chains, d) from around each proposal, by its share.

    They are wide enough for R-hat, but none of them so far out that it never arrives, as draws of a
    Cauchy component may be. The proposals have no skewed axes. Some start at ``others``, places
    (k, d), instead, at most a quarter of them: from a part of the posterior that no proposal knows.
    """
    others = others[: N_CHAINS // 4]
    counts = even_counts(np.asarray(shares) / np.sum(shares), N_CHAINS)
    wide = [proposal._replace(df=_START_DF) for proposal in proposals]
    theta = np.concatenate([draw(one, n, rng) for one, n in zip(wide, counts, strict=True)])
    if len(others):
        theta[:: N_CHAINS // len(others)][: len(others)] = others
    return theta


def moved(model, target, start, whitening, n_particles, power, rng):
    """States of chains that start there and follow a `Target`, as of `hamiltonian`.

    Each check of R-hat yields the `outcome_of` the draws so far.
    """
    least = TARGET_ESS * n_particles

    def seen(chains):
        theta = thinned(chains, n_particles)
        theta = theta if target.restored is None else target.restored(theta)
        return outcome_of(model, theta, chains, power)

    def states(at):
        infos, before = ([], None) if at is None else at
        if before is not None:
            yield seen(before)._replace(infos=infos), None
        for chains in hamiltonian(
            target, start, whitening, rng, target_ess=least, at=before and before.at
        ):
            outcome = seen(chains)
            infos = [*infos, *outcome.infos]
            yield outcome, None if chains.at is None else (infos, chains)

    return resumable(states, rng)


def thinned(chains, n_particles):
    """Draws that stand for all, evenly spaced: successive ones are alike, and cost predictions."""
    every = max(1, chains.draws.shape[0] * chains.draws.shape[1] // n_particles)
    return chains.draws[:, ::-1][:, ::every].reshape(-1, chains.draws.shape[2])


def outcome_of(model, theta, chains, power):
    """`Outcome` of equally weighted draws ``theta`` that stand for those of the chains.

    There are ``n_particles`` of them or more, fewer where the chains have made fewer draws.
    """
    info = StepInfo(
        1.0, power, 1.0, 0, False, 0, np.nan, chains.ess, len(theta), extra={"r_hat": chains.r_hat}
    )
    return Outcome(
        equally_weighted(model, theta), [info], reweighted=True, chains=chains._replace(at=None)
    )
