"""Hamiltonian moves of the particles, where importance weights fail."""

from functools import partial

import numpy as np

from skpmd._rows.rows import are_in_memory
from skpmd._runtime.threads import are_distributed
from skpmd.engine.variational import Gaussian, laplace, variational_mirror_descent
from skpmd.linear._priors import NormalPrior
from skpmd.linear._stiff import stiff_rows
from skpmd.proposals.hmc import N_CHAINS, Target, moved, starts

MOVES = ("auto", "always", "never")
_MAX_ROUNDING = 0.01  # Single precision may change a difference of log densities by so many nats.
_MIN_NUMBERS = 1 << 16  # Features of fewer numbers stay in double precision.
# Under a hierarchical prior chains start at this share of the prior's width: from far out they take
# long to arrive.
_START_SCALE = 0.3
# The likelihood of a coefficient is approximated at the prior's scale and at this multiple of it.
_WIDE = 10.0
_JUMP_SD = 1.5  # A jump multiplies all coefficients by a factor whose log has this sd.
# The likelihood of a coefficient has at least this share of the precision of the normal prior.
_MIN_PRECISION = 1e-6


def move_from_proposals(model, batches, components, n_particles, power, rng, is_shaped=False):
    """Chains that start from around the plain component of a proposal mixture.

    ``is_shaped`` is as of a `Target`. Each check of R-hat yields an `Outcome` with ``chains``.
    """
    plain = next(one for one in components if not one.axes.size and one.hierarchy is None)
    start = starts([plain], [1.0], rng)
    target, inside = _log_joint(model, batches, start, power)
    # Under a prior with the tails of a power, so has the posterior where classes separate, and
    # far out there the flow of a normal is worse than none.
    is_stiff = model.has_stiff_rows and not np.isfinite(model.tail_df)
    stiff = partial(stiff_rows, model, batches, power) if is_stiff else None
    target = Target(target, inside, stiff, is_shaped=is_shaped)
    whitening = Gaussian(plain.mean, plain.factor)
    yield from moved(model, target, start, whitening, n_particles, power, rng)


def move_hierarchical(model, batches, n_particles, power, rng):
    """Chains under a prior with scales among its coordinates, to which no Gaussian is fitted.

    Gaussian mirror descent under a normal prior of the same scale gives the likelihood of each
    coefficient: its mean and precision less the normal prior's own define the coordinates in which
    the chains move. The particles are in the prior's own coordinates.

    It yields the same as `move_from_proposals`.
    """
    informed, gaussian = _informed(model, batches, power)
    start = _START_SCALE * informed.sample_near(rng, N_CHAINS)
    d = start.shape[1]
    mean, chol = np.zeros(d), np.eye(d)
    plain = np.flatnonzero(model.prior.plain)
    mean[plain] = gaussian.mean[plain]
    chol[plain, plain] = np.sqrt((gaussian.chol[plain] ** 2).sum(axis=1))
    start[:, plain] = mean[plain] + chol[plain, plain] * start[:, plain]

    def jump(theta, rng):
        return informed.stretched(theta, _JUMP_SD * rng.standard_normal(len(theta)))

    target, inside = _log_joint(model.with_prior(informed), batches, start, power)
    target = Target(
        target, inside, jump=jump, shown=informed.coefficients, restored=informed.uninformed
    )
    yield from moved(model, target, start, Gaussian(mean, chol), n_particles, power, rng)


def _informed(model, batches, power):
    """The prior in coordinates that know the likelihood, and the Gaussian under a normal prior."""
    prior = model.prior
    mean, variance, gaussian = _normal_likelihood(model, batches, prior.global_scale, power)
    # With separable classes the variance grows with the prior's scale.
    wide_variance = _normal_likelihood(model, batches, _WIDE * prior.global_scale, power)[1]
    growth = np.clip(0.5 * np.log(wide_variance / variance) / np.log(_WIDE), 0.0, 1.0)
    return prior.informed(mean, np.sqrt(variance), growth), gaussian


def _normal_likelihood(model, batches, scale, power):
    """Mean and variance of a normal likelihood of each coefficient, by itself.

    The posterior under normal priors of this scale on what the horseshoe shrinks, less these
    priors; the Gaussian of that posterior comes third.
    """
    prior = model.prior
    normal = NormalPrior(np.where(prior.plain, prior.scale, scale))
    under_normal = model.with_prior(normal)
    mode = laplace(under_normal, batches, under_normal.starts(batches)[0], power)
    gaussian = variational_mirror_descent(under_normal, batches, mode, power)
    posterior = 1.0 / (gaussian.chol**2).sum(axis=1)
    precision = np.maximum(posterior - normal.scale**-2.0, _MIN_PRECISION / normal.scale**2)
    return gaussian.mean * posterior / precision, 1.0 / precision, gaussian


class _InSingle:
    """Batches whose features are in float32."""

    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        for batch in self._batches:
            yield batch._replace(X=batch.X.astype(np.float32, copy=False))


def _log_joint(model, batches, theta, power):
    """Log joint density and gradient, and gradient alone, in single precision where harmless.

    Large features in float32 halve the time. Rounding does no harm as long as it changes
    differences of log densities between positions by much less than a Metropolis decision depends
    on. The gradient alone, for the inside of trajectories, is then in single precision throughout;
    otherwise it is None.
    """

    def target(theta, batches=batches):
        return model.log_joint_gradient(theta, batches, power)

    few = not are_distributed(batches) and sum(batch.X.size for batch in batches) < _MIN_NUMBERS
    if are_distributed(batches) or few:
        rough = getattr(model, "rough_gradient", None)
        return target, None if rough is None else lambda theta: rough(theta, batches, power)
    single = _InSingle(batches)
    single = list(single) if are_in_memory(batches) else single
    exact, rounded = target(theta)[0], target(theta, single)[0]
    with np.errstate(invalid="ignore"):  # Where both are infinite, the difference is nan.
        harmless = np.ptp(rounded - exact) < _MAX_ROUNDING
    if not harmless:
        return target, None
    return partial(target, batches=single), partial(model.single_gradient, batches=single, b=power)
