"""The one loop of stochastic mirror steps that stands behind every estimator's fit."""

from typing import NamedTuple

import numpy as np

from skpmd.engine import schedules
from skpmd.engine.averaging import include
from skpmd.engine.hmc import Chains
from skpmd.engine.mirror import Settings, step
from skpmd.engine.particles import Particles
from skpmd.engine.rejuvenation import rejuvenate
from skpmd.engine.reweight import reweight


class Options(NamedTuple):
    """Parameters of the loop, with the defaults of whatever an estimator does not expose."""

    n_particles: int = 1000
    max_iter: int = 5
    step_schedule: str = "power"
    step_size: float = 1.0
    step_offset: float | str = "auto"
    step_decay: float = 1.0
    step_constant: float | str = "auto"
    sampling: str = "epoch"
    particle_growth: float | str | None = None
    max_particles: int | None = None
    final_particles: int | None = None
    average: bool = False
    reweight: bool = True
    total_samples: float | None = None
    forgetting: float = 0.0
    temperature: float = 1.0
    settings: Settings = Settings()


class Outcome(NamedTuple):
    """What a fit leaves behind.

    Attributes
    ----------
    particles : Particles
        q.
    infos : list of StepInfo
        A record of each step.
    reweighted : bool
        Whether the cloud was weighed by the posterior on all data.
    interrupted : bool
        Whether Ctrl-C ended it; the cloud is then that of the last complete step.
    chains : Chains or None
        Of Hamiltonian moves, where the particles come from them.
    pair : ndarray of shape (m,), int, or None
        Antithetic pairs of weighted draws.
    disagreement : float or None
        Of references on the posterior mean, in standard errors.
    """

    particles: Particles
    infos: list
    reweighted: bool
    interrupted: bool = False
    chains: Chains | None = None
    pair: np.ndarray | None = None
    disagreement: float | None = None

    @property
    def mean_error(self):
        """Estimated error of the means by redraws and few particles; None once polished."""
        return None if self.reweighted else self.infos[-1].mean_error


def _silent(info):
    pass


def run(model, rows, start, options, rng, report=_silent):
    """Stochastic mirror steps over passes through the data, then the polish step.

    Parameters
    ----------
    model : Model
        See `skpmd.engine.model`.
    rows : Rows
        The data.
    start : Particles
        q before the first step, r = 0.
    options : Options
        Parameters.
    rng : numpy.random.Generator
        Source of all randomness.
    report : callable
        Told of each stochastic step, a `StepInfo`.

    Returns
    -------
    Outcome
        Final cloud and record.
    """
    if options.average and start.block.shape[1]:
        raise ValueError("average=True is not available for models with a closed-form block.")
    particles, average, infos = start, None, []
    try:
        for done in _steps(model, rows, start, options, rng):
            particles, average, info = done
            report(info)
            infos.append(info)
        if average is not None:
            particles = _as_cloud(average, particles, model)
        if not options.reweight:
            return Outcome(particles, infos, reweighted=False)
        m = options.final_particles or len(particles.theta)
        power = 1.0 / options.temperature
        reweighted, last = reweight(particles, model, rows.whole(), power, options.settings, rng, m)
        return Outcome(reweighted, infos + last, reweighted=True)
    except KeyboardInterrupt:
        if not infos:
            raise
        return Outcome(particles, infos, reweighted=False, interrupted=True)


def _steps(model, rows, start, options, rng):
    """Stochastic mirror steps one by one: (cloud, average or None, StepInfo) after each."""
    particles, average, settings = start, None, options.settings
    schedule = _schedule(model, rows, start, options)
    power = 1.0 / options.temperature
    d = particles.theta.shape[1]
    t, seen, redrawn = 0, 0.0, 0
    for iteration in range(options.max_iter):
        last_pass = iteration == options.max_iter - 1
        if last_pass and options.final_particles and not options.reweight:
            # Section 3.3: kernel density estimates first, then many fixed particles.
            particles, _ = rejuvenate(particles, model, settings, rng, options.final_particles)
            settings, redrawn = settings._replace(rejuvenation="never"), 1
        for batch in rows.one_pass(options.sampling, rng):
            t += 1
            size = batch.weight.sum()
            seen += size
            m = _n_particles(options, t, d)
            gamma = schedules.step_size(schedule, t, size, seen, len(particles.theta), d)
            b = power * gamma * rows.total / size
            particles, info = step(particles, model, (batch,), gamma, b, settings, rng, m)
            info = info._replace(rejuvenations=info.rejuvenations + redrawn)
            redrawn = 0
            if options.average:
                average = include(average, particles, gamma, settings.resampling, rng)
            yield particles, average, info


def _schedule(model, rows, start, options):
    offset = rows.n_batches if options.step_offset == "auto" else options.step_offset
    constant = options.step_constant
    if constant == "auto":
        constant = np.inf
        if options.step_schedule == "theorem6":
            power = 1.0 / options.temperature
            constant = schedules.theorem6_constant(start, model, rows.whole(), power)
    return schedules.StepSchedule(
        options.step_schedule,
        options.step_size,
        offset,
        options.step_decay,
        constant,
        options.settings.smoothness,
    )


def _n_particles(options, t, d):
    ceiling = options.max_particles or 10 * options.n_particles
    return schedules.n_particles_at(
        t, options.n_particles, options.particle_growth, ceiling, d, options.settings.smoothness
    )


def _as_cloud(average, particles, model):
    """The averaged iterate as a cloud of equal weights; its density is not known (nan)."""
    m = len(average.theta)
    block = model.prior_block(average.theta)
    unknown = np.full(m, np.nan)
    return Particles(average.theta, np.zeros(m), unknown, unknown, block)
