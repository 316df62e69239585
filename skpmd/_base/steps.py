"""The steps of a fit and of a stream: how they are shown, recorded and taken."""

import copy
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from skpmd._base.utils import as_generator
from skpmd._rows.rows import are_in_memory
from skpmd._runtime.call import phase
from skpmd._runtime.threads import are_distributed
from skpmd.engine import cubic_surrogate, mirror, rejuvenation_error
from skpmd.engine.assumed_density import AssumedDensity
from skpmd.engine.loop import Findings, Outcome, n_steps
from skpmd.engine.particles import Particles, draw_prior
from skpmd.engine.rejuvenation_error import (
    NO_ERROR,
    UNKNOWN_ERROR,
    RejuvenationErrors,
    errors_of,
)

# With fewer rows particles cost little, so that a rejuvenation draws several times as many: they
# last for more steps, and a polynomial needs them.
_FEW_ROWS, _MORE = 500, 3
_MAX_RECORDS = 10_000  # A stream may go on for millions of steps.


class ReportedBatches:
    """Batches that show how far a pass over them has come, for passes that may take minutes."""

    def __init__(self, batches):
        self._batches = batches
        self.are_in_memory = are_in_memory(batches)
        if are_distributed(batches):  # Of those no pass is seen here.
            self.total = batches.total

    def __len__(self):
        return len(self._batches)

    def __iter__(self):
        """Yield the batches."""
        with phase("pass over the rows", len(self)) as advance:
            for batch in self._batches:
                yield batch
                advance()


def describe(info):
    """One line on a step."""
    values = {"change": getattr(info, "change", None), **getattr(info, "extra", {})}
    known = {name: one for name, one in values.items() if one is not None and one == one}  # No nan.
    line = [f"{name}={value:.5g}" for name, value in known.items()]
    if hasattr(info, "ess"):
        line = [
            f"ess={info.ess:.0f}/{info.n_particles}", f"rejuvenations={info.rejuvenations}", *line
        ]  # fmt: skip
    return ", ".join(line)


@contextmanager
def bar_of_steps(options, rows, full_batch=None, every=1):
    """Context that yields what `run` reports its steps to; one of ``every`` so many is shown."""
    with bar_of_rounds(n_steps(options, rows, full_batch), "mirror steps", every) as report:
        yield report


@contextmanager
def bar_of_rounds(total=None, name="rounds", every=1):
    """Context that yields what a method reports its steps to; their number may be unknown."""
    done = 0
    with phase(name, total) as advance:

        def report(info):
            nonlocal done
            done += 1
            if done % every == 0:
                advance(every, describe(info))

        yield report


@contextmanager
def bar_of_tempering():
    """Context that yields what tempered SMC reports its segments to, in percent of the way."""
    done = 0
    with phase("tempering, % of the way", 100) as advance:

        def report(info):
            nonlocal done
            now = int(100 * info.extra["power"])
            advance(now - done, f"acceptance={info.extra['acceptance']:.2f}")
            done = now

        yield report


class Records:
    """Records of the last steps, ten thousand at most, and the number of all.

    The steps are tuples that are alike, of numbers and of dicts of numbers.
    """

    def __init__(self, last=(), n=0):
        self.last, self.n = list(last), n

    def extended(self, infos):
        """These and those of further steps."""
        return self.joined(Records(infos, len(infos)))

    def joined(self, other):
        """These and the `Records` of what came after."""
        return Records([*self.last, *other.last][-_MAX_RECORDS:], self.n + other.n)

    def numbers(self):
        """The number of each step of `last`, counted from 1."""
        return np.arange(self.n - len(self.last) + 1, self.n + 1)

    def __getstate__(self):
        """One step of arrays in the place of many: thousands of objects would be slow to write."""
        steps = [_column(values) for values in zip(*self.last, strict=True)]
        kind = type(self.last[0]) if self.last else tuple
        return {"steps": _made(kind, steps), "length": len(self.last), "n": self.n}

    def __setstate__(self, state):
        """The steps of these arrays."""
        steps, self.n = state["steps"], state["n"]
        columns = [_values(column, state["length"]) for column in steps]
        self.last = [_made(type(steps), step) for step in zip(*columns, strict=True)]


def _made(kind, values):
    """A tuple, or NamedTuple, of these values."""
    return getattr(kind, "_make", kind)(values)


def _column(values):
    """The values of all steps, an array; of dicts, for each key, an array and the steps with it."""
    if not isinstance(values[0], dict):
        return np.array(values)
    names = dict.fromkeys(name for one in values for name in one)
    return {
        name: (
            np.array([one[name] for one in values if name in one]),
            np.flatnonzero([name in one for one in values]),
        )
        for name in names
    }


def _values(column, length):
    if not isinstance(column, dict):
        return column.tolist()
    values = [{} for _ in range(length)]
    for name, (given, places) in column.items():
        for place, value in zip(places, given.tolist(), strict=True):
            values[place][name] = value
    return values


class Stream(NamedTuple):
    """All that an estimator needs to go on: the data are not in it."""

    particles: Particles | None  # q; None before the first rows.
    # The Gaussian that follows q, where the model's proposal needs one.
    assumed: AssumedDensity | None
    records: Records  # Of the steps of all calls.
    seen: float  # Weighted rows so far.
    rng: np.random.Generator  # Source of all randomness.
    # (r, 3) or (1, 3): Account of what rejuvenations have lost; see
    # `skpmd.engine.rejuvenation_error`.
    error_terms: np.ndarray = NO_ERROR
    n_left_out: int = 0  # Modes that a search on the first rows has found, without particles.

    def outcome(self):
        """What it has come to."""
        return Outcome(
            self.particles,
            self.records.last,
            error_terms=self.error_terms,
            findings=Findings(n_left_out=self.n_left_out),
        )


def coefficients(options, seen, size):
    """(a, b) of a step on ``size`` weighted rows after ``seen`` of them.

    Without ``total_samples`` each row counts once, and ``forgetting`` discounts the past. With it,
    the first pass is such a stream too; after it a step is a mirror step, with gamma the share of
    its rows among all rows so far, which averages over passes.
    """
    power = 1.0 / options.temperature
    total = options.total_samples
    if total is None:
        return -np.expm1(size * np.log1p(-options.forgetting)), power
    if seen + size <= total * (1.0 + 1e-9):
        return 0.0, power
    gamma = size / (seen + size)
    return gamma, power * gamma * total / size


def kernel_step(stream, model, rows, a, b, options, rng):
    """Values of the likelihood alone: the ESS-controlled step, as in ``fit``."""
    particles = stream.particles
    if particles is None:
        particles = draw_prior(model, options.n_particles, rng)
    # A mirror step asks for pi, which an averaged iterate does not know.
    unknown = a > 0.0 and bool(np.isnan(particles.log_pi).any())
    observer = RejuvenationErrors(model.monitored, stream.error_terms)
    rejuvenation = mirror.Rejuvenation(first=unknown, observer=observer)
    particles, info = mirror.step(
        particles, model, rows.whole(), a, b, options.settings, rng, rejuvenation=rejuvenation
    )
    return stream._replace(particles=particles, error_terms=observer.terms), info


def step_in_place(stream, model, batches, a, b, options, rng):
    """The same with the particles where they are."""
    settings = options.settings._replace(rejuvenation="never")
    observer = RejuvenationErrors(model.monitored, stream.error_terms)
    rejuvenation = mirror.Rejuvenation(observer=observer)
    stayed, info = mirror.step(
        stream.particles, model, batches, a, b, settings, rng, rejuvenation=rejuvenation
    )
    return stream._replace(particles=stayed, error_terms=observer.terms), info


def n_draws(options, n_rows):
    """How many particles a rejuvenation by proposals draws."""
    few = n_rows < _FEW_ROWS
    return options.n_particles * (_MORE if few else 1)


def cubic_account(stream, stayed, drawn, cubic, a, monitored):
    """What rejuvenations have lost after one whose draws are weighed by a `Cubic` in place of q."""
    before, terms = stream.particles, rejuvenation_error.fade(stream.error_terms, a)
    terms = cubic_surrogate.error_terms_of(cubic, before, stayed, terms, monitored)
    return rejuvenation_error.of_conflict(terms, before, stayed, drawn, monitored)


def reweighted(stream, outcome, error_terms, a, model):
    """The stream whose particles are weighted draws from proposals, and the record of the step."""
    log_prior = model.log_prior(outcome.particles.theta)
    particles = outcome.particles._replace(log_prior=log_prior)
    by_rejuvenation, total = errors_of(error_terms, particles, model.monitored)
    info = outcome.infos[-1]._replace(
        a=a, rejuvenations=int(stream.particles is not None),
        rejuvenation_error=by_rejuvenation, mean_error=total,
    )  # fmt: skip
    return stream._replace(particles=particles, error_terms=error_terms), info


@phase("step of a stream")
def advance(stream, model, rows, options, step=kernel_step):
    """One step on the rows of one call; the stream before is left as it is.

    The rows are one batch: ``batch_size`` cuts them into pieces that fit in memory and nothing
    else. How the particles take the step, and how they are rejuvenated, is up to
    ``step(stream, model, rows, a, b, options, rng) -> (stream, info)``. It adds records of
    iterations before the last to the stream itself.
    """
    rng = copy.deepcopy(stream.rng)
    a, b = coefficients(options, stream.seen, rows.total)
    after, info = step(stream, model, rows, a, b, options, rng)
    records = after.records.extended([info])
    return after._replace(records=records, seen=stream.seen + rows.total, rng=rng)


def first_stream(random_state):
    """A stream before its first rows."""
    return Stream(None, None, Records(), 0.0, as_generator(random_state))


def stream_after(outcome, seen, rng):
    """The stream that goes on from a fit of so many weighted rows."""
    error_terms = outcome.error_terms
    if error_terms is None:  # Nobody has kept account: of a fit that was to end reweighted.
        error_terms = NO_ERROR if outcome.reweighted or not outcome.ended_early else UNKNOWN_ERROR
    account = error_terms, outcome.findings.n_left_out
    records = Records().extended(outcome.infos)
    return Stream(outcome.particles, None, records, seen, rng, *account)
