"""The one loop behind every estimator's fit: stochastic steps, then a finish on all data.

Every inference method is a generator of complete states, each an `Outcome` with the records of the
steps since the state before. `drive` runs them, and nobody else: here live Ctrl-C, the end of a
time limit, the history and the report of progress.
"""

from typing import Any, NamedTuple

import numpy as np

from skpmd.engine import mirror, schedules
from skpmd.engine.averaging import include
from skpmd.engine.course import OutOfTime, current
from skpmd.engine.mirror import Settings
from skpmd.engine.particles import Particles, equally_weighted
from skpmd.engine.rejuvenation import rejuvenate_by_kernels
from skpmd.engine.rejuvenation_error import NO_ERROR, RejuvenationErrors
from skpmd.engine.reweight import MAX_ROUNDS, reweighting


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

    @property
    def power(self):
        """Power of the likelihood."""
        return 1.0 / self.temperature


class FullBatch(NamedTuple):
    """Full-batch iterations: steps on all data until they have converged."""

    max_iter: int  # Bound on the iterations.
    # ``until(particles, t) -> (particles, converged)`` after iteration t = 1, 2, ...; it may drop
    # particles.
    until: Any


class Outcome(NamedTuple):
    """A complete state of an inference method."""

    particles: Particles  # q.
    # A record of each step: of all steps once `drive` has returned, of the new ones before.
    infos: list
    # Whether the particles have been weighed by the posterior on all data.
    reweighted: bool = False
    # Whether Ctrl-C ended it; the particles are then those of the last complete state.
    interrupted: bool = False
    out_of_time: bool = False  # Whether ``max_time`` ended it; the particles are of that state.
    converged: bool = False  # Whether full-batch iterations have converged.
    chains: Any = None  # Of Hamiltonian moves, where the particles come from them.
    pair: np.ndarray | None = None  # (m,) int: Antithetic pairs of weighted draws.
    # Of importance proposals on the posterior mean, in standard errors.
    disagreement: float | None = None
    n_left_out: int = 0  # Modes that a search has found and that have no particles.
    reasons: tuple = ()  # What else speaks against it, in words.
    # Log marginal likelihood and its standard error, where the method adds it up by itself.
    log_evidence: float | None = None
    log_evidence_se: float | None = None
    # Account of what rejuvenations have lost; see `skpmd.engine.rejuvenation_error`.
    error_terms: np.ndarray | None = None
    notes: dict = {}  # What else the method reports, to be shown among the diagnostics.

    @property
    def ended_early(self):
        """Whether the method has not been run to its end."""
        return self.interrupted or self.out_of_time

    @property
    def mean_error(self):
        """Bound on the error of the means by rejuvenations; None where nobody kept account."""
        if self.reweighted or not self.infos or np.isnan(self.infos[-1].mean_error):
            return None
        return self.infos[-1].mean_error


class Stage(NamedTuple):
    """A complete state of what surrounds a method: a choice among fits, or work on the last one.

    `drive` runs such states as it does an `Outcome`.
    """

    value: Any
    infos: list = []
    interrupted: bool = False
    out_of_time: bool = False


def silent(info):
    """Report to nobody."""


def is_ctrl_c(error):
    """Whether an error is Ctrl-C: out of compiled code it comes as a SystemError of another."""
    while isinstance(error, SystemError):
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)


def drive(outcomes, report=silent, what="the fit"):
    """Run an inference method to its end, to Ctrl-C, or to the end of its time.

    The ``infos`` of each `Outcome` are those of the steps since the one before, and ``report``
    receives them one by one. The last complete state is returned, with the records of all steps;
    where Ctrl-C comes before the first, it is raised. After the deadline of the `Course` the first
    complete state is the last one: what more the method would do is refused where it starts
    (`skpmd.engine.course.tick`), unless nothing was left to do. ``what`` names the method then.
    """
    last, infos, course = None, [], current()
    before = course.ends
    try:
        for outcome in outcomes:
            infos += outcome.infos  # Ctrl-C may come in between: no state is without its record.
            last = outcome
            for info in outcome.infos:
                report(info)
            course.ends = before or course.is_over()
    except OutOfTime:
        if last is None:  # It is the method within which this one runs that has a state.
            raise
        steps = f" after {len(infos)} step{'s' if len(infos) > 1 else ''}" if infos else ""
        course.note_end(what + steps)
        return last._replace(infos=infos, out_of_time=True)
    except (KeyboardInterrupt, SystemError) as error:
        if not is_ctrl_c(error):
            raise
        if last is None:
            raise KeyboardInterrupt from error
        return last._replace(infos=infos, interrupted=True)
    finally:
        course.ends = before
    return last._replace(infos=infos)


def run(
    model, rows, start, options, rng, report=silent, *,
    step_sizes=None, after_pass=None, full_batch=None, error_terms=NO_ERROR,
):  # fmt: skip
    """Stochastic mirror steps over passes through the data, then a finish on all of them.

    ``rows`` has ``total``, ``n_batches``, ``one_pass(sampling, rng)`` and ``whole()``. ``start`` is
    q before the first step. Where that is not the prior, ``error_terms``, of shape (r, 3) or
    (1, 3), is what rejuvenations had lost by then. ``report`` receives the `StepInfo` of each step.

    ``step_sizes(t, size, seen, m, d) -> (a, b)`` are the coefficients of step t on a batch of
    ``size`` weighted rows, ``seen`` of them so far; by default they are those of the schedule that
    the options name. ``after_pass(particles, iteration, rng) ->
    (particles, stop)`` is called after each pass. With ``full_batch`` iterations on all data follow
    the passes, in place of the reweighting that the options ask for.

    Returns the final `Outcome`, with the records of all steps.
    """
    if options.average and model.has_block:
        raise ValueError("average=True is not available for models with a conjugate block.")
    # A fit that ends reweighted does not ask what rejuvenations have lost on the way.
    accounts = not options.reweight and full_batch is None
    observer = RejuvenationErrors(model.monitored, error_terms) if accounts else None
    sizes = step_sizes or _scheduled(model, rows, start, options)
    states = _fit(model, rows, start, options, rng, sizes, after_pass, full_batch, observer)
    return drive(states, report)


def n_steps(options, rows, full_batch=None):
    """How many steps `run` takes, at most."""
    last = options.reweight * (1 + MAX_ROUNDS) if full_batch is None else full_batch.max_iter
    return options.max_iter * rows.n_batches + last


def _fit(model, rows, start, options, rng, step_sizes, after_pass, full_batch, observer):
    """The states of a fit."""
    outcome = Outcome(start, [])
    passes = _stochastic(model, rows, start, options, rng, step_sizes, after_pass, observer)
    for outcome in passes:
        yield outcome
    particles, power = outcome.particles, options.power
    if full_batch is not None:
        yield from full_batch_iterations(
            particles, model, rows.whole(), 1.0, power, options.settings, rng, full_batch
        )
    elif options.reweight:
        m = options.final_particles or len(particles.theta)
        rounds = reweighting(particles, model, rows.whole(), power, options.settings, rng, m)
        for particles, info in rounds:
            yield Outcome(particles, [info], reweighted=True)


def _stochastic(model, rows, start, options, rng, step_sizes, after_pass, observer):
    """The states after stochastic mirror steps; the last one is the averaged iterate, if asked."""
    particles, average, settings = start, None, options.settings
    d = particles.theta.shape[1]
    t, seen, fresh = 0, 0.0, 0
    for iteration in range(options.max_iter):
        last_pass = iteration == options.max_iter - 1
        if last_pass and options.final_particles and not options.reweight:
            # Section 3.3: kernel density estimates first, then many fixed particles.
            m = options.final_particles
            particles = rejuvenate_by_kernels(
                particles, model, settings, rng, n_particles=m, observer=observer
            ).particles
            settings, fresh = settings._replace(rejuvenation="never"), 1
        for batch in rows.one_pass(options.sampling, rng):
            t += 1
            size = batch.weight.sum()
            seen += size
            a, b = step_sizes(t, size, seen, len(particles.theta), d)
            m = _n_particles(options, t, d)
            particles, info = mirror.step(
                particles, model, (batch,), a, b, settings, rng, m, observer=observer
            )
            info = info._replace(rejuvenations=info.rejuvenations + fresh)
            fresh = 0
            if options.average:
                average = include(average, particles, a, settings.resampling, rng)
            yield Outcome(particles, [info], error_terms=observer and observer.terms)
        if after_pass is not None:
            particles, stop = after_pass(particles, iteration, rng)
            yield Outcome(particles, [])
            if stop:
                break
    if average is not None:
        averaged = equally_weighted(model, average.theta)
        yield Outcome(averaged, [], error_terms=observer and observer.terms)


def full_batch_iterations(base, model, batches, a, b, settings, rng, full_batch):
    """Steps of coefficients (a, b) from one base, local variables under the iterate before.

    At a = 1 the base is forgotten, and each iterate follows from the one before. In a stream
    (a < 1) every iterate is the base and the new rows. Yields the `Outcome` of each iteration.
    """
    last = base
    for t in range(1, full_batch.max_iter + 1):
        start, current = (last, None) if a == 1.0 else (base, last.block)
        last, info = mirror.step(start, model, batches, a, b, settings, rng, current=current)
        last, converged = full_batch.until(last, t)
        yield Outcome(last, [info], converged=converged)
        if converged:
            break


def _scheduled(model, rows, start, options):
    """Coefficients by the schedule of step sizes that the options name."""
    offset = rows.n_batches if options.step_offset == "auto" else options.step_offset
    constant = options.step_constant
    if constant == "auto":
        constant = np.inf
        if options.step_schedule == "theorem6":
            constant = schedules.theorem6_constant(start, model, rows.whole(), options.power)
    schedule = schedules.StepSchedule(
        options.step_schedule,
        options.step_size,
        offset,
        options.step_decay,
        constant,
        options.settings.smoothness,
    )

    def step_sizes(t, size, seen, m, d):
        gamma = schedules.step_size(schedule, t, size, seen, m, d)
        return gamma, options.power * gamma * rows.total / size

    return step_sizes


def _n_particles(options, t, d):
    ceiling = options.max_particles or 10 * options.n_particles
    return schedules.n_particles_at(
        t, options.n_particles, options.particle_growth, ceiling, d, options.settings.smoothness
    )
