"""Hamiltonian moves of the particles, where importance weights fail."""

from functools import partial

import numpy as np

from skpmd._rows.rows import are_in_memory
from skpmd._runtime.threads import are_distributed
from skpmd.engine.variational import Gaussian, laplace, variational_mirror_descent
from skpmd.linear._design import pieces
from skpmd.linear._priors import NormalPrior
from skpmd.proposals.hmc import N_CHAINS, Target, moved, starts
from skpmd.proposals.splitting import Stiff

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
_TABLE = 1 << 18  # Rows are looked at in pieces of about so many numbers.
# A row is stiff where its expected curvature is above this, in units of the posterior's own.
_MIN_CURVATURE = 1.0
# At most this share of the rows is stiff, or so many if these are more: inner steps have to be
# cheap.
_MAX_SHARE, _FEW_ROWS = 0.02, 32
# Copies of a row count together. They are found in each piece, and then among so many pieces.
_MAX_SPREAD = 32.0
# Directions whose curvature by all stiff rows together is below this times 1/4 are left out.
_MIN_SQUARE = 16.0
# With more coordinates than this all rows may be so stiff, and those alone count that are so many
# times as stiff as half of them.
_MANY, _UNUSUAL = 200, 4.0
# The variance of the normal density with the height of the logistic one.
_LOGISTIC_VARIANCE = 8.0 / np.pi
# The sd of a logit is taken this many times as wide: a Gaussian beside an edge seems far from it.
_WIDER = 3.0


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


# ------------------------------------------------------------------- rows that are stiff
def stiff_rows(model, batches, power, mean, chol):
    """Return the `Stiff` part of the posterior in the whitening by ``mean`` and ``chol``.

    A dummy that few rows have makes an edge: the logits of these rows have a large sd under the
    posterior, so that the rows count as 0 or as a steep slope, depending on where the particle is.
    The expected curvature of a row along its own whitened features, of squared length s^2, is s^2
    times the mean of p (1 - p); that is nearly s^2 N(z; 0, s^2 + 8 / pi), z the logit of a class
    against all others at the mean.

    The stiff part is the likelihood of the rows where that is large, seen along the directions in
    which these rows vary; in all others they stay at the mean.
    """
    X, y, weight = _chosen(model, batches, mean, chol)
    factors = _by_class(chol, X.shape[1])
    K = len(factors)
    white = np.concatenate([X @ factor for factor in factors - _common(factors)])
    if len(white) < len(mean) and len(mean) > _MANY:
        roots = np.sqrt(np.tile(weight, K))[:, None] * white
        _, values, rows = np.linalg.svd(roots, full_matrices=False)
        values, vectors = values[::-1] ** 2, np.ascontiguousarray(rows[::-1].T)
    else:
        values, vectors = np.linalg.eigh(white.T @ (np.tile(weight, K)[:, None] * white))
    axes = vectors[:, values > _MIN_SQUARE]
    at_mean = (mean.reshape(K, -1) @ X.T).ravel()
    slopes = np.ascontiguousarray((white @ axes).T, dtype=np.float32)
    offset, weight = at_mean.astype(np.float32), power * weight

    def function(a):
        table = a.astype(np.float32) @ slopes
        table += offset
        total = np.zeros(len(a))
        model.differentiate(table.reshape(len(a), K, len(y)), y, weight, total)
        return total, (table @ slopes.T).astype(np.float64)

    # Leapfrog is stable up to 2 / sqrt(curvature), and a logistic curvature is 1/4 at most.
    return Stiff(axes, function, 2.0 / np.sqrt(np.max(values, initial=1.0)))


def _chosen(model, batches, mean, chol):
    """Distinct rows of large expected curvature: dense X with ones, y, weight."""
    found, n_rows = [], 0
    for one in pieces(batches, _TABLE):
        X, y, weight = _distinct(*model.design(one))
        n_rows += len(y)
        some = weight * _expected_curvature(X, mean, chol) > _MIN_CURVATURE / _MAX_SPREAD
        found.append((X[some], y[some], weight[some]))
    X, y, weight = _distinct(*(np.concatenate(part) for part in zip(*found, strict=True)))
    curvature = weight * _expected_curvature(X, mean, chol)
    most = max(_FEW_ROWS, int(_MAX_SHARE * n_rows))
    bound = np.sort(curvature)[::-1][most] if len(curvature) > most else 0.0
    usual = _UNUSUAL * np.median(curvature) if chol.shape[1] > _MANY and len(curvature) else 0.0
    some = curvature > max(bound, _MIN_CURVATURE, usual)
    return X[some], y[some], weight[some]


def _distinct(X, y, weight):
    """Each row once, with the weight of all its copies, in an order that is the rows' own."""
    bits = (np.column_stack([X, y]) + 0.0).view(np.uint64)  # There is one zero.
    factors = np.random.default_rng(0).integers(1 << 63, size=bits.shape[1], dtype=np.uint64)
    # Rows that share a key by chance would be taken for one: the moves stay exact nevertheless.
    keys = ((bits ^ (bits >> 32)) * (2 * factors + 1)).sum(axis=1)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return X[first], y[first], np.bincount(inverse, weight, minlength=len(first))


def _expected_curvature(X, mean, chol):
    """Mean of p (1 - p) times the squared length of each whitened row, of its largest class."""
    factors = _by_class(chol, X.shape[1])
    variance = [((X @ one) ** 2).sum(axis=1) for one in factors - _common(factors)]
    variance = np.max(variance, axis=0)
    odds = _log_odds(X @ mean.reshape(len(factors), -1).T)
    spread = (variance + _LOGISTIC_VARIANCE)[:, None]
    density = np.exp(-0.5 * odds**2 / (_WIDER**2 * spread)) / np.sqrt(2.0 * np.pi * spread)
    return variance * density.max(axis=1)


def _by_class(chol, n_columns):
    """The rows of ``chol`` that belong to each class, shape (K, n_columns, d)."""
    return chol.reshape(-1, n_columns, chol.shape[1])


def _common(factors):
    """The mean over classes, which the likelihood of several does not see; 0 where there is one."""
    return factors.mean(axis=0) if len(factors) > 1 else 0.0


def _log_odds(logits):
    """Logits of each class against all the others, of the shape of ``logits`` (n, K)."""
    if logits.shape[1] == 1:
        return logits
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    tiny = np.finfo(float).tiny
    return np.log(np.maximum(p, tiny)) - np.log(np.maximum(1.0 - p, tiny))
