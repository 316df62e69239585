"""Step sizes gamma_t, particle numbers m_t, and where each comes from in the paper."""

from typing import NamedTuple

import numpy as np

from skpmd.engine.mirror import log_likelihood


class Schedule(NamedTuple):
    """What changes from step to step: which rule gives gamma_t, which m_t, and their constants.

    The fields have the names of an estimator's parameters.
    """

    # {"power", "rows", "theorem6"}: ``"power"``: eta / (n0 + t^kappa), capped at 1; the paper's
    # eta/t, eta/(n0 + sqrt(t)) and eta/(n0 + t^kappa) are settings of it. ``"rows"``: exact
    # averaging, the share of the batch among all rows visited so far, times eta, capped at 1.
    # ``"theorem6"``: min(2/(t+1), c * m_t^(-beta / (d + 2 beta))).
    step_schedule: str = "power"
    step_size: float = 1.0  # eta.
    step_offset: float | str = "auto"  # n0, by default the number of batches of a pass.
    step_decay: float = 1.0  # kappa.
    step_constant: float | str = "auto"  # c = Delta / M of Theorem 6, by default an estimate.
    smoothness: float = 1.0  # beta of Theorem 6, and of the number of particles after it.
    particle_growth: float | str | None = None  # See `n_particles_at`.
    max_particles: int | None = None  # By default ten times the number at the start.


def step_size(schedule, t, batch_rows, rows_seen, n_particles, d):
    """gamma_t in (0, 1] for t = 1, 2, ... by a schedule without ``"auto"``.

    ``batch_rows`` counts the weighted rows in this batch, ``rows_seen`` those in all batches up to
    and including it; ``n_particles`` is m_t.
    """
    if schedule.step_schedule == "rows":
        return min(1.0, schedule.step_size * batch_rows / rows_seen)
    if schedule.step_schedule == "theorem6":
        beta = schedule.smoothness
        bound = schedule.step_constant * n_particles ** (-beta / (d + 2 * beta))
        return min(1.0, 2.0 / (t + 1), bound)
    return min(1.0, schedule.step_size / (schedule.step_offset + t**schedule.step_decay))


def theorem6_constant(particles, model, batches, scale):
    """Estimate c = Delta / M of Theorem 6 on some particles.

    M bounds the functional gradient g = log q - log p - scale * log-likelihood, which matters
    only up to a constant: half its range over the particles. 1 / Delta bounds the density from
    below relative to its highest value there. Ranges are those of the central 90 % of the
    particles: the theorem assumes a bounded support, and the outermost draw is none.
    """
    log_q = particles.log_pi + particles.log_ratio
    gradient = log_q - particles.log_prior - scale * log_likelihood(model, particles.theta, batches)
    gradient, log_q = gradient[np.isfinite(gradient)], log_q[np.isfinite(log_q)]
    if not gradient.size:
        return np.inf
    half_range = 0.5 * _central_range(gradient)
    log_constant = _central_range(log_q) - np.log(max(half_range, np.finfo(float).tiny))
    return float(np.exp(min(log_constant, 700.0)))


def _central_range(values):
    low, high = np.quantile(values, [0.05, 0.95])
    return high - low


def n_particles_at(t, start, growth, ceiling, d, smoothness):
    """m_t: constant, or start * t^growth up to a ceiling.

    ``growth="theorem"`` is the paper's m_t = O(t^(2 + d / beta)), after which Theorem 6 gives a
    Kullback-Leibler error of O(1/T); a float is the exponent itself.
    """
    if growth is None:
        return start
    exponent = 2.0 + d / smoothness if growth == "theorem" else growth
    # In logs: t^(2 + d) overflows long before the ceiling is compared.
    log_size = np.log(start) + exponent * np.log(t)
    size = np.ceil(np.exp(min(log_size, 40.0)) * (1.0 - 1e-12))  # 3.0000000004 is 3.
    return int(min(ceiling, size))


def scheduled(model, rows, start, schedule, power):
    """Coefficients by a schedule, with the likelihood to a power."""
    if schedule.step_offset == "auto":
        schedule = schedule._replace(step_offset=rows.n_batches)
    if schedule.step_constant == "auto":
        constant = np.inf
        if schedule.step_schedule == "theorem6":
            constant = theorem6_constant(start, model, rows.whole(), power)
        schedule = schedule._replace(step_constant=constant)

    def step_sizes(t, size, seen, m, d):
        gamma = step_size(schedule, t, size, seen, m, d)
        return gamma, power * gamma * rows.total / size

    return step_sizes
