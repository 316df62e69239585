"""The one loop of stochastic mirror steps that stands behind every estimator's fit."""

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skpmd._progress import describe, progress
from skpmd.engine import schedules
from skpmd.engine.average import include
from skpmd.engine.bandwidth import BANDWIDTH_RULES
from skpmd.engine.cloud import Cloud
from skpmd.engine.kde import KERNELS
from skpmd.engine.mirror import Settings, step
from skpmd.engine.moves import Chains
from skpmd.engine.polish import polish
from skpmd.engine.rejuvenation import rejuvenate
from skpmd.engine.resampling import SCHEMES

LOOP_CONSTRAINTS = {
    "n_particles": [Interval(Integral, 2, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "step_schedule": [StrOptions({"power", "rows", "theorem6"})],
    "step_size": [Interval(Real, 0, None, closed="neither")],
    "step_offset": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    "step_decay": [Interval(Real, 0, None, closed="left")],
    "step_constant": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "sampling": [StrOptions({"epoch", "replacement"})],
    "rejuvenation": [StrOptions({"ess", "always", "never"})],
    "ess_threshold": [Interval(Real, 0, 1, closed="left")],
    "max_splits": [Interval(Integral, 0, None, closed="left")],
    "resampling": [StrOptions(set(SCHEMES))],
    "bandwidth": [StrOptions(set(BANDWIDTH_RULES)), Interval(Real, 0, None, closed="neither")],
    "bandwidth_factor": [Interval(Real, 0, None, closed="neither")],
    "smoothness": [Interval(Real, 0, None, closed="neither")],
    "kernel": [StrOptions(set(KERNELS))],
    "shrinkage": ["boolean"],
    "particle_growth": [None, StrOptions({"theorem"}), Interval(Real, 0, None, closed="neither")],
    "max_particles": [None, Interval(Integral, 2, None, closed="left")],
    "final_particles": [None, Interval(Integral, 2, None, closed="left")],
    "average": ["boolean"],
    "polish": ["boolean"],
    "total_samples": [None, Interval(Real, 0, None, closed="neither")],
    "forgetting": [Interval(Real, 0, 1, closed="left")],
    "temperature": [Interval(Real, 0, None, closed="neither")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


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
    polish: bool = True
    total_samples: float | None = None
    forgetting: float = 0.0
    temperature: float = 1.0
    verbose: int | bool = 0
    settings: Settings = Settings()

    @classmethod
    def of(cls, estimator, **instead):
        """Options of an estimator: its parameters of the same names, some replaced."""
        params = {**estimator.get_params(deep=False), **instead}
        settings = Settings(**{name: params[name] for name in Settings._fields if name in params})
        own = {name: params[name] for name in cls._fields if name in params}
        options = cls(**own, settings=settings)
        options._check()
        return options

    def _check(self):
        """What one parameter at a time cannot say."""
        bandwidth, rejuvenation = self.settings.bandwidth, self.settings.rejuvenation
        if self.settings.shrinkage and not isinstance(bandwidth, str) and bandwidth > 1:
            raise ValueError(
                f"bandwidth must be at most 1 with shrinkage=True (at 1 the kernel density "
                f"estimate is one Gaussian); got {bandwidth!r}. Lower it or set "
                f"shrinkage=False."
            )
        if self.average and self.polish and rejuvenation == "never":
            raise ValueError(
                "average=True with polish=True needs a rejuvenation: the averaged iterate is a "
                "density to draw from. Set polish=False or rejuvenation='ess'."
            )
        if self.final_particles is not None and not self.polish and self.max_iter == 1:
            raise ValueError(
                "final_particles with polish=False is the size of the cloud in the last pass, and "
                "max_iter=1 has no pass before it: raise max_iter or set n_particles."
            )
        if self.max_particles is not None and self.particle_growth is None:
            raise ValueError(
                f"max_particles={self.max_particles} is the ceiling of a growing cloud: set "
                "particle_growth, or leave max_particles=None."
            )
        if self.max_particles is not None and self.max_particles < self.n_particles:
            raise ValueError(
                f"max_particles={self.max_particles} is below n_particles={self.n_particles}: it "
                "is the ceiling of a growing cloud; raise it or lower n_particles."
            )
        if self.final_particles is not None and rejuvenation == "never":
            raise ValueError(
                "final_particles needs a last rejuvenation, and rejuvenation='never' has none; "
                "raise n_particles instead."
            )
        if self.particle_growth is not None and rejuvenation == "never":
            raise ValueError(
                "particle_growth needs rejuvenation='ess' or 'always': particles that are never "
                "redrawn cannot change in number."
            )
        if self.total_samples is not None and self.forgetting:
            raise ValueError(
                "forgetting is for an endless stream, and total_samples says that there is an end: "
                "set forgetting=0 or total_samples=None."
            )


class Outcome(NamedTuple):
    """What a fit leaves behind.

    Attributes
    ----------
    cloud : Cloud
        q.
    infos : list of StepInfo
        A record of each step.
    polished : bool
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

    cloud: Cloud
    infos: list
    polished: bool
    interrupted: bool = False
    chains: Chains | None = None
    pair: np.ndarray | None = None
    disagreement: float | None = None

    @property
    def mean_error(self):
        """Estimated error of the means by redraws and few particles; None once polished."""
        return None if self.polished else self.infos[-1].mean_error


def run(model, rows, start, options, rng):
    """Stochastic mirror steps over passes through the data, then the polish step.

    Parameters
    ----------
    model : Model
        See `skpmd.models.base`.
    rows : Rows
        The data.
    start : Cloud
        q before the first step, r = 0.
    options : Options
        Parameters.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    Outcome
        Final cloud and record.
    """
    if options.average and start.block.shape[1]:
        raise ValueError("average=True is not available for models with a closed-form block.")
    cloud, average, infos = start, None, []
    try:
        for done in _steps(model, rows, start, options, rng):
            cloud, average, info = done
            infos.append(info)
        if average is not None:
            cloud = _as_cloud(average, cloud, model)
        if not options.polish:
            return Outcome(cloud, infos, polished=False)
        m = options.final_particles or len(cloud.theta)
        power = 1.0 / options.temperature
        polished, last = polish(cloud, model, rows.whole(), power, options.settings, rng, m)
        return Outcome(polished, infos + last, polished=True)
    except KeyboardInterrupt:
        if not infos:
            raise
        return Outcome(cloud, infos, polished=False, interrupted=True)


def _steps(model, rows, start, options, rng):
    """Stochastic mirror steps one by one: (cloud, average or None, StepInfo) after each."""
    cloud, average, settings = start, None, options.settings
    schedule = _schedule(model, rows, start, options)
    power = 1.0 / options.temperature
    d = cloud.theta.shape[1]
    t, seen, redrawn = 0, 0.0, 0
    with progress(options.max_iter * rows.n_batches, options.verbose) as bar:
        for iteration in range(options.max_iter):
            last_pass = iteration == options.max_iter - 1
            if last_pass and options.final_particles and not options.polish:
                # Section 3.3: kernel density estimates first, then many fixed particles.
                cloud, _ = rejuvenate(cloud, model, settings, rng, options.final_particles)
                settings, redrawn = settings._replace(rejuvenation="never"), 1
            for batch in rows.one_pass(options.sampling, rng):
                t += 1
                size = batch.weight.sum()
                seen += size
                m = _n_particles(options, t, d)
                gamma = schedules.step_size(schedule, t, size, seen, len(cloud.theta), d)
                b = power * gamma * rows.total / size
                cloud, info = step(cloud, model, (batch,), gamma, b, settings, rng, m)
                info = info._replace(rejuvenations=info.rejuvenations + redrawn)
                redrawn = 0
                if options.average:
                    average = include(average, cloud, gamma, settings.resampling, rng)
                bar.update(1, describe(info))
                yield cloud, average, info


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


def _as_cloud(average, cloud, model):
    """The averaged iterate as a cloud of equal weights; its density is not known (nan)."""
    m = len(average.theta)
    block = model.prior_block(average.theta)
    unknown = np.full(m, np.nan)
    return Cloud(average.theta, np.zeros(m), unknown, unknown, block)
