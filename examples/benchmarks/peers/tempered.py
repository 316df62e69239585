"""Adaptive tempered SMC (BlackJAX) on one-dimensional Gaussian mixtures, as a long reference run.

Coordinates of K components are K means, K logarithms of precisions, and K logarithms of independent
Gamma(concentration, 1) variables whose proportions are the mixing weights (so that these are
Dirichlet, and no component is set apart). Particles start from the prior; each temperature is the
one at which their effective sample size falls to `TARGET_ESS` of them, and is followed by
Hamiltonian moves whose step follows the rate of acceptance. The log evidence is that of the prior
on all K! labellings: a prior on ordered means, written without the factor K!, has log K! less.
"""

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from .jax_setup import jax, jnp

try:
    from blackjax import hmc
    from blackjax.smc import adaptive_tempered, extend_params, resampling
except ImportError as error:
    raise ImportError('This needs BlackJAX: pip install "skpmd[bench]"') from error

TARGET_ESS = 0.9
N_LEAPS = 4
ACCEPTANCE = 0.75


@dataclass(frozen=True)
class Run:
    """Draws of weights, means and sds, each (draws, K), with the evidence of each run."""

    weights: np.ndarray
    means: np.ndarray
    sds: np.ndarray
    log_evidence: np.ndarray
    cpu: float

    def density(self, grid, block=500):
        """Posterior predictive density at the points of a grid, shape (len(grid),)."""
        total = np.zeros(len(grid))
        for start in range(0, len(self.means), block):
            part = slice(start, start + block)
            weights, means, sds = self.weights[part], self.means[part], self.sds[part]
            z = (grid[:, None, None] - means) / sds
            total += (weights / sds * np.exp(-0.5 * z**2)).sum(axis=(1, 2))
        return total / (len(self.means) * math.sqrt(2.0 * math.pi))


@dataclass(frozen=True)
class Reference:
    """What is kept of runs: the evidence of each, and the predictive density on a grid."""

    log_evidence: np.ndarray
    grid: np.ndarray
    density: np.ndarray
    cpu: float
    case: str


def run(x, K, prior, *, n_particles, n_moves, seeds):
    """Independent runs, one for each seed, their draws side by side."""
    sampler = _Sampler(np.asarray(x, dtype=np.float64), K, prior, n_particles, n_moves)
    with threadpool_limits(limits=1):
        sampler.go(seeds[0], few=True)  # compiles
        start = time.process_time()
        runs = [sampler.go(seed) for seed in seeds]
        cpu = time.process_time() - start
    draws = np.concatenate([found for found, _ in runs])
    evidence = np.array([value for _, value in runs])
    spread = evidence.std(ddof=1) if len(seeds) > 1 else float("nan")
    print(f"  K={K}: log evidence {evidence.mean():.3f}, sd {spread:.3f}, {cpu:.0f} s", flush=True)
    mean, log_precision, log_gamma = np.split(draws, 3, axis=1)
    weights = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return Run(weights, mean, np.exp(-0.5 * log_precision), evidence, cpu)


def reference(x, K, prior, grid, **options):
    """Make a reference."""
    made = run(x, K, prior, **options)
    case = _case(x, K, prior, grid, **options)
    return Reference(made.log_evidence, grid, made.density(grid), made.cpu, case)


def cached_reference(path, x, K, prior, grid, **options):
    """The same from a file, where that is of the same rows, prior, grid and options."""
    path = Path(path)
    if path.exists():
        with np.load(path) as archive:
            kept = Reference(**{key: archive[key][()] for key in archive.files})
        if str(kept.case) == _case(x, K, prior, grid, **options):
            return kept
    made = reference(x, K, prior, grid, **options)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **asdict(made))
    return made


def _case(x, K, prior, grid, *, n_particles, n_moves, seeds):
    """What a file is of, as text."""
    x = np.asarray(x, dtype=np.float64)
    rows = f"{len(x)} rows, {x.mean():.9g}, {x.std():.9g}"
    points = f"{len(grid)} points, {grid[0]:.9g} to {grid[-1]:.9g}"
    return f"{rows}; {points}; K={K}; {prior}; {n_particles} x {len(seeds)}, {n_moves} moves"


class _Sampler:
    """One model, compiled once."""

    def __init__(self, x, K, prior, n_particles, n_moves):
        self.K, self.prior, self.n_particles, self.n_moves = K, prior, n_particles, n_moves
        log_prior, log_likelihood = _densities(jnp.asarray(x), K, prior)
        kernel = adaptive_tempered.build_kernel(
            log_prior, log_likelihood, hmc.build_kernel(), hmc.init, resampling.systematic,
            TARGET_ESS,
        )  # fmt: skip
        self._step = jax.jit(kernel, static_argnums=2)

    def go(self, seed, few=False):
        """Draws (n_particles, 3 K) and the log evidence."""
        rng = np.random.default_rng(seed)
        theta = _prior_draws(rng, self.n_particles, self.K, self.prior)
        state = adaptive_tempered.init(jnp.asarray(theta))
        key, step, log_evidence = jax.random.PRNGKey(seed), 0.3, 0.0
        while float(state.tempering_param) < 1.0:
            key, now = jax.random.split(key)
            variances = jnp.asarray(_variances(state.particles, self.K))
            parameters = {
                # Steps of different lengths, so that no trajectory returns to where it began.
                "step_size": jnp.asarray(step * rng.uniform(0.5, 1.0, self.n_particles)),
                **extend_params(
                    {"inverse_mass_matrix": variances, "num_integration_steps": N_LEAPS}
                ),
            }
            state, info = self._step(now, state, self.n_moves, parameters)
            log_evidence += float(info.log_likelihood_increment)
            accepted = float(jnp.mean(info.update_info.acceptance_rate))
            step = float(np.clip(step * np.exp(accepted - ACCEPTANCE), 0.01, 1.5))
            if few:
                break
        # BlackJAX moves before it reweights: the last weights have not been used.
        rows = resampling.systematic(key, state.weights, self.n_particles)
        return np.asarray(state.particles)[np.asarray(rows)], log_evidence


def _variances(theta, K):
    """Variance of each kind of coordinate with components ordered by their means.

    The same for all components, so that the moves know nothing of labels.
    """
    theta = np.asarray(theta).reshape(len(theta), 3, K)
    order = theta[:, 0].argsort(axis=1)
    ordered = np.take_along_axis(theta, order[:, None], axis=2)
    return np.repeat(ordered.var(axis=0).mean(axis=1) + 1e-12, K)


def _prior_draws(rng, m, K, prior):
    """Draws from the prior, shape (m, 3 K)."""
    gamma = np.log(rng.standard_gamma(prior.concentration + 1.0, (m, K)))
    gamma += np.log(rng.random((m, K))) / prior.concentration  # no underflow at small shapes
    if prior.kind == "independent":
        mean = prior.mean + prior.mean_scale * rng.standard_normal((m, K))
        log_precision = -2.0 * np.log(np.abs(prior.sd_scale * rng.standard_normal((m, K))))
    else:
        precision = rng.gamma(0.5 * prior.dof, 2.0 / prior.covariance, (m, K))
        log_precision = np.log(precision)
        sd = 1.0 / np.sqrt(prior.mean_precision * precision)
        mean = prior.mean + sd * rng.standard_normal((m, K))
    return np.hstack([mean, log_precision, gamma])


def _densities(x, K, prior):
    """Log prior and log-likelihood of one point of 3 K coordinates."""
    half_log_two_pi = 0.5 * math.log(2.0 * math.pi)

    def log_prior(theta):
        mean, log_precision, gamma = theta.reshape(3, K)
        value = prior.concentration * gamma - jnp.exp(gamma) - math.lgamma(prior.concentration)
        if prior.kind == "independent":
            z = (mean - prior.mean) / prior.mean_scale
            value += -0.5 * z**2 - math.log(prior.mean_scale) - half_log_two_pi
            # sd ~ half-normal, and |d sd / d log precision| = sd / 2
            sd = jnp.exp(-0.5 * log_precision)
            value += -0.5 * (sd / prior.sd_scale) ** 2 - math.log(prior.sd_scale)
            value += math.log(2.0) - half_log_two_pi - 0.5 * log_precision - math.log(2.0)
        else:
            shape, rate = 0.5 * prior.dof, 0.5 * prior.covariance
            precision = jnp.exp(log_precision)
            value += shape * (math.log(rate) + log_precision) - rate * precision
            value += 0.5 * (math.log(prior.mean_precision) + log_precision) - half_log_two_pi
            value -= 0.5 * prior.mean_precision * precision * (mean - prior.mean) ** 2
            value -= math.lgamma(shape)
        return value.sum()

    def log_likelihood(theta):
        mean, log_precision, gamma = theta.reshape(3, K)
        log_weight = gamma - jax.scipy.special.logsumexp(gamma)
        z = (x[:, None] - mean) * jnp.exp(0.5 * log_precision)
        table = log_weight + 0.5 * log_precision - half_log_two_pi - 0.5 * z**2
        return jax.scipy.special.logsumexp(table, axis=1).sum()

    return log_prior, log_likelihood
