"""The one loop behind every estimator's fit: stochastic steps, then a finish on all data.

Every inference method is a generator of complete states, each an `Outcome` with the records of the
steps since the state before. `drive` runs them, and nobody else: here live Ctrl-C, the end of a
time limit, the history and the report of progress.

A long method is `resumable`: it says with its states what it would need to go on from there. The
checkpoint of a fit holds the last of these for each such method, in the order in which they began.
A fit that goes on from a checkpoint runs from its beginning: what is short between these methods is
done again, and is the same again, and each of them goes on from the state that it had reached.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from skpmd._runtime.call import OutOfTime, current
from skpmd._runtime.threads import batches_of
from skpmd.engine import mirror, schedules
from skpmd.engine.mirror import MAX_ROUNDS, Settings, reweighting
from skpmd.engine.particles import Particles, equally_weighted, resample, weights
from skpmd.engine.rejuvenation import rejuvenate_by_kernels
from skpmd.engine.rejuvenation_error import NO_ERROR, RejuvenationErrors
from skpmd.engine.schedules import Schedule


class Options(NamedTuple):
    """Parameters of the loop, with the defaults of whatever an estimator does not expose."""

    n_particles: int = 1000
    max_iter: int = 5
    schedule: Schedule = Schedule()
    sampling: str = "epoch"
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
    # ``until(particles, t, memory) -> (particles, converged, memory)`` after iteration t = 1, 2,
    # ...; it may drop particles. What it is to know of the iterations before is its memory, which
    # is None at first.
    until: Any
    # ``resume(memory)`` is called where iterations go on from a state of an earlier run.
    resume: Any = None


class Method(NamedTuple):
    """What a family has in the place of the loop's own step sizes and of its finish."""

    # ``step_sizes(t, size, seen, m, d) -> (a, b)`` are the coefficients of step t on a batch of
    # ``size`` weighted rows, ``seen`` of them so far; by default they are those of the schedule.
    step_sizes: Any = None
    # ``after_pass(particles, iteration, rng, memory) -> (particles, stop, memory)`` is called after
    # each pass, with a memory as in `FullBatch`; it may have a ``resume``.
    after_pass: Any = None
    # Iterations that follow the passes, in place of the reweighting that the options ask for.
    full_batch: FullBatch | None = None


class Findings(NamedTuple):
    """What a method says of its own result."""

    # Of importance proposals on the posterior mean, in standard errors.
    disagreement: float | None = None
    n_left_out: int = 0  # Modes that a search has found and that have no particles.
    reasons: tuple = ()  # What else speaks against the result, in words.
    no_evidence: str = ""  # Why there is no log evidence, where nothing else tells.
    notes: dict = {}  # What else is to be shown among the diagnostics.
    sample: Any = None  # `skpmd.proposals.control_variates.Sample` of rows that stood for all.


class Outcome(NamedTuple):
    """A complete state of an inference method."""

    particles: Particles  # q.
    # A record of each step: of all steps once `drive` has returned, of the new ones before.
    infos: list = []
    # Whether the particles have been weighed by the posterior on all data.
    reweighted: bool = False
    # Whether Ctrl-C ended it; the particles are then those of the last complete state.
    interrupted: bool = False
    out_of_time: bool = False  # Whether ``max_time`` ended it; the particles are of that state.
    converged: bool = False  # Whether full-batch iterations have converged.
    chains: Any = None  # Of Hamiltonian moves, where the particles come from them.
    pair: np.ndarray | None = None  # (m,) int: Antithetic pairs of weighted draws.
    # Log marginal likelihood and its standard error, where the method adds it up by itself.
    evidence: tuple | None = None
    # Account of what rejuvenations have lost; see `skpmd.engine.rejuvenation_error`.
    error_terms: np.ndarray | None = None
    # Edges of the posterior, (d,) each, where the rows set some and the method knows them.
    support: tuple | None = None
    findings: Findings = Findings()

    def with_findings(self, **found):
        """The same with other entries of its `Findings`."""
        return self._replace(findings=self.findings._replace(**found))

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


DEFAULT = Method()
_checkpoint = ContextVar("checkpoint of a fit by skpmd", default=None)
# What is part of the iteration of a method is done again with it, and a search, which no `drive`
# runs, from its beginning.
_is_noted = ContextVar("whether a method of skpmd that begins now is noted", default=None)


@contextmanager
def on_checkpoint(checkpoint):
    """Context of a fit with a checkpoint, as of `skpmd._base.checkpoint`."""
    token = _checkpoint.set(checkpoint)
    try:
        yield
    finally:
        _checkpoint.reset(token)


def resumable(states, *generators):
    """The states of a method, from the last one on that the checkpoint of the fit has.

    ``states(at)`` yields pairs of a state, None where it is the one before, and of what the method
    needs to go on from there, None where it cannot. It begins with ``at=None``, or from such a
    value, and then first yields the state that belongs to it, with the records of all steps so far.
    ``generators`` are the random generators that the method draws from.
    """
    checkpoint = _checkpoint.get() if _is_noted.get() else None
    place, at = checkpoint.last_state(generators) if checkpoint is not None else (None, None)
    steps = states(at)
    while True:
        token = _is_noted.set(False)
        try:
            state, at = next(steps)
        except StopIteration:
            return
        finally:
            _is_noted.reset(token)
        # What the end of the time, or Ctrl-C, has changed is not what the whole fit would do.
        if checkpoint is not None and at is not None and not current().ended:
            checkpoint.reached(place, at, generators, is_last=current().is_over())
        if state is not None:
            yield state


def stage(work, *generators):
    """The result of work that is worth keeping as one complete state of the fit."""

    def states(found):
        found = work() if found is None else found
        yield Stage(found), found

    last = drive(resumable(states, *generators))
    if last.interrupted:  # What follows would go on as if nobody had asked for an end.
        raise KeyboardInterrupt
    return last.value


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
    where Ctrl-C comes before the first, it is raised. After the deadline of the `Call` the first
    complete state is the last one: what more the method would do is refused where it starts
    (`skpmd._runtime.call.tick`), unless nothing was left to do. ``what`` names the method then.
    """
    last, infos, call = None, [], current()
    before, had_state = call.ends, call.has_state
    token = _is_noted.set(_is_noted.get() is not False)
    try:
        for outcome in outcomes:
            infos += outcome.infos  # Ctrl-C may come in between: no state is without its record.
            last, call.has_state = outcome, True
            for info in outcome.infos:
                report(info)
            call.ends = before or call.is_over()
    except OutOfTime:
        if last is None:  # It is the method within which this one runs that has a state.
            raise
        steps = f" after {len(infos)} step{'s' if len(infos) > 1 else ''}" if infos else ""
        call.note_end(what + steps)
        return last._replace(infos=infos, out_of_time=True)
    except (KeyboardInterrupt, SystemError) as error:
        if not is_ctrl_c(error):
            raise
        if last is None:
            raise KeyboardInterrupt from error
        if _checkpoint.get() is not None:
            _checkpoint.get().close()
        return last._replace(infos=infos, interrupted=True)
    finally:
        _is_noted.reset(token)
        call.ends, call.has_state = before, had_state
    return last._replace(infos=infos)


def run(model, rows, start, options, rng, report=silent, method=DEFAULT):
    """Stochastic mirror steps over passes through the data, then a finish on all of them.

    ``rows`` has ``total``, ``n_batches``, ``one_pass(sampling, rng)`` and ``whole()``. ``start`` is
    q before the first step, and ``method`` a `Method`. ``report`` receives the `StepInfo` of each
    step.

    Returns the final `Outcome`, with the records of all steps.
    """
    return drive(states_of_fit(model, rows, Outcome(start), options, rng, method), report)


def states_of_fit(model, rows, start, options, rng, method=DEFAULT):
    """The states of such a fit, for `drive`, from an `Outcome` on.

    Where that does not have the prior, its ``error_terms`` are what rejuvenations had lost by then.
    """
    if options.average and model.has_block:
        raise ValueError("average=True is not available for models with a conjugate block.")
    outcome, power, full_batch = start, options.power, method.full_batch
    observer = None  # A fit that ends reweighted does not ask what rejuvenations have lost.
    if not options.reweight and full_batch is None:
        known = NO_ERROR if start.error_terms is None else start.error_terms
        observer = RejuvenationErrors(model.monitored, known)
    if method.step_sizes is None and options.max_iter:
        sizes = schedules.scheduled(model, rows, start.particles, options.schedule, power)
        method = method._replace(step_sizes=sizes)

    def passes(at):
        at = _Position(start.particles, []) if at is None else at
        return _stochastic(at, model, rows, options, rng, method, observer)

    for outcome in resumable(passes, rng):
        yield outcome
    particles, settings = outcome.particles, options.settings
    if full_batch is not None:
        coefficients = 1.0, power
        yield from full_batch_iterations(
            particles, model, rows.whole(), coefficients, settings, rng, full_batch
        )
    elif options.reweight:
        m = options.final_particles or len(particles.theta)
        rounds = reweighting(particles, model, rows.whole(), power, settings, rng, m)
        for particles, info in rounds:
            yield Outcome(particles, [info], reweighted=True)


def n_steps(options, rows, full_batch=None):
    """How many steps `run` takes, at most."""
    last = options.reweight * (1 + MAX_ROUNDS) if full_batch is None else full_batch.max_iter
    return options.max_iter * rows.n_batches + last


class _Position(NamedTuple):
    """How far stochastic steps have come: what the next of them needs."""

    particles: Particles
    infos: list  # Records of all steps so far.
    average: Any = None  # The averaged iterate, if that is asked for.
    error_terms: np.ndarray | None = None
    memory: Any = None  # Of ``after_pass``.
    iteration: int = 0  # Passes that are complete.
    t: int = 0
    seen: float = 0.0
    done: bool = False

    def outcome(self, infos):
        """The state, with records of the steps since another."""
        return Outcome(self.particles, list(infos), error_terms=self.error_terms)


def _stochastic(at, model, rows, options, rng, method, observer):
    """The states after stochastic mirror steps; the last one is the averaged iterate, if asked.

    Beside those after a pass stands the `_Position` to go on from.
    """
    after_pass = method.after_pass
    if at.iteration:
        if observer is not None:
            observer = RejuvenationErrors(model.monitored, at.error_terms)
        if hasattr(after_pass, "resume"):
            after_pass.resume(at.memory)
        yield at.outcome(at.infos), None
    while at.iteration < options.max_iter and not at.done:
        for after in _one_pass(model, rows, at, options, rng, method.step_sizes, observer):
            at = after
            yield at.outcome(at.infos[-1:]), None
        if after_pass is not None:
            particles, stop, memory = after_pass(at.particles, at.iteration, rng, at.memory)
            at = at._replace(particles=particles, memory=memory, done=stop)
        at = at._replace(iteration=at.iteration + 1)
        yield at.outcome([]) if after_pass is not None else None, at
    if at.average is not None:
        averaged = equally_weighted(model, at.average.theta)
        yield Outcome(averaged, [], error_terms=observer and observer.terms), None


def _one_pass(model, rows, at, options, rng, step_sizes, observer):
    """The positions after the steps of one pass."""
    particles, settings, fresh = at.particles, options.settings, 0
    last_pass = at.iteration == options.max_iter - 1
    if last_pass and options.final_particles and not options.reweight:
        # Section 3.3: kernel density estimates first, then many fixed particles.
        m = options.final_particles
        particles = rejuvenate_by_kernels(
            particles, model, settings, rng, n_particles=m, observer=observer
        ).particles
        fresh, settings = 1, settings._replace(rejuvenation="never")
    for batch in rows.one_pass(options.sampling, rng):
        t, size = at.t + 1, batch.weight.sum()
        seen, d = at.seen + size, particles.theta.shape[1]
        a, b = step_sizes(t, size, seen, len(particles.theta), d)
        m = _n_particles(options, t, d)
        particles, info = mirror.step(
            particles, model, batches_of(batch), a, b, settings, rng,
            rejuvenation=mirror.Rejuvenation(n_particles=m, observer=observer),
        )  # fmt: skip
        at.infos.append(info._replace(rejuvenations=info.rejuvenations + fresh))
        fresh, average = 0, at.average
        if options.average:
            average = include(average, particles, a, settings.resampling, rng)
        terms = observer and observer.terms
        at = at._replace(particles=particles, average=average, error_terms=terms, t=t, seen=seen)
        yield at


def full_batch_iterations(base, model, batches, coefficients, settings, rng, full_batch):
    """Steps of coefficients (a, b) from one base, local variables under the iterate before.

    At a = 1 the base is forgotten, and each iterate follows from the one before. In a stream
    (a < 1) every iterate is the base and the new rows. Yields the `Outcome` of each iteration.
    """
    a, b = coefficients

    def states(at):
        last, infos, t, converged, memory = (base, [], 0, False, None) if at is None else at
        if at is not None:
            if full_batch.resume is not None:
                full_batch.resume(memory)
            yield Outcome(last, list(infos), converged=converged), None
        while t < full_batch.max_iter and not converged:
            start, current = (last, None) if a == 1.0 else (base, last.block)
            last, info = mirror.step(start, model, batches, a, b, settings, rng, current=current)
            t += 1
            last, converged, memory = full_batch.until(last, t, memory)
            infos.append(info)
            yield Outcome(last, [info], converged=converged), (last, infos, t, converged, memory)

    return resumable(states, *([] if rng is None else [rng]))


def _n_particles(options, t, d):
    start, growth = options.n_particles, options.schedule.particle_growth
    ceiling = options.schedule.max_particles or 10 * start
    return schedules.n_particles_at(t, start, growth, ceiling, d, options.schedule.smoothness)


class Average(NamedTuple):
    """Equally weighted particles of sum_t gamma_t q_t / sum_t gamma_t."""

    theta: np.ndarray  # (m, d): Particles.
    total: float  # Sum of the step sizes so far.


def include(average, particles, gamma, scheme, rng):
    """Take the iterate q_t into the average with weight gamma_t.

    Each slot is replaced by a draw from q_t with probability gamma_t / sum of gamma so far
    (the number of replaced slots is fixed by systematic rounding), so every slot is at all times
    a draw from the weighted average of the iterates: a reservoir, in the memory of one set.
    """
    w = weights(particles.log_ratio)
    m = len(particles.theta)
    if average is None:
        return Average(particles.theta[resample(scheme, w, m, rng)], gamma)
    theta, total = average.theta, average.total + gamma
    if len(theta) != m:  # Where the particles grow in number the average grows with them.
        theta = theta[rng.integers(len(theta), size=m)]
    n = int(np.floor(m * gamma / total + rng.random()))
    if n:
        theta = theta.copy()
        slots = rng.choice(m, n, replace=False)
        theta[slots] = particles.theta[resample(scheme, w, n, rng)]
    return Average(theta, total)
