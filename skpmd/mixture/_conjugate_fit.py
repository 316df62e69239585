"""Steps of a conjugate mixture: stochastic passes, steps on all data, and a stream."""

import copy
from typing import NamedTuple

import numpy as np

from skpmd._base.progress import progress
from skpmd._base.rows import Rows
from skpmd._base.streaming import coefficients
from skpmd._base.utils import as_generator
from skpmd.engine.loop import Options
from skpmd.engine.schedules import StepSchedule, step_size
from skpmd.mixture._conjugate import Counts, Mixture
from skpmd.mixture._initialization import starts
from skpmd.mixture._prior import Problem, Units, problem_of
from skpmd.mixture._reservoir import Kept, joined, n_kept, trimmed

_MANY, _FEW, _MANY_COLUMNS = 16, 8, 20  # particles, and columns from which they are few
_STARTS, _ROUND = 8, 5  # for one particle, and steps after which half of them goes on
_POLISH, _TO_THE_END, _FEW_ROWS = 3, 100, 2000
_BATCH, _BATCH_EACH = 256, 32  # rows at least, and for each column


class Conjugate(NamedTuple):
    """Conjugate particles and what they have learnt.

    Attributes
    ----------
    model : Mixture
        Of the components.
    units : Units
        Of the columns.
    problem : Problem
        Prior in inner units.
    counts : Counts
        Of the particles.
    kept : Kept
        Rows to choose weights for predictions by; the user's units.
    seen : float
        Weighted rows so far.
    n_learned : int
        Distinct rows of the last fit.
    history : list of tuple
        Size of the step, bound and log density of the best particle for each row, and particles;
        of each step.
    converged : bool
        Whether the best particle gained no more than ``tol`` in the last step on all data, and
        those were all rows so far.
    convergence_warnings : list of str
        What the last call leaves to be desired.
    interrupted : bool
        Whether Ctrl-C ended the fit; the counts are those of the last complete step.
    rng : numpy.random.Generator
        Source of all randomness.
    """

    model: Mixture
    units: Units
    problem: Problem
    counts: Counts
    kept: Kept
    seen: float
    n_learned: int
    history: list
    converged: bool
    convergence_warnings: list
    interrupted: bool
    rng: np.random.Generator


def n_particles(estimator, p):
    """How many particles; one where all would be the same."""
    if estimator.n_particles != "auto":
        return estimator.n_particles
    if estimator.n_components == 1:
        return 1
    return _MANY if p <= _MANY_COLUMNS else _FEW


def fit_conjugate(estimator, kept, rng, before=None):
    """Learn from all rows.

    Parameters
    ----------
    estimator : GaussianMixturePMD
        Its parameters.
    kept : Kept
        Distinct rows, all of them.
    rng : numpy.random.Generator
        Source of all randomness.
    before : Conjugate or None
        Particles to start from.

    Returns
    -------
    Conjugate
        Particles that have learnt.
    """
    weight, units = kept.weight, Units.of(kept.X, kept.weight, estimator.covariance_type)
    X = units.inner(kept.X)
    problem = problem_of(estimator, X, weight, units, "conjugate")
    model, m = Mixture(problem), n_particles(estimator, X.shape[1])
    reweight = _n_polish(estimator, len(X), m)
    if before is not None:
        counts = _carried(before, model, m, X, weight, units)
    else:
        n_starts = _STARTS if m == 1 < model.K and reweight >= 4 * _ROUND else m
        counts = starts(model, X, weight, estimator.init_params, n_starts, rng)
    run = _Run(estimator, model, X, weight, reweight, m)
    run.go(counts, rng)
    own = run.history, run.converged, run.convergence_warnings(), run.interrupted, rng
    own = float(weight.sum()), len(X), *own
    return Conjugate(model, units, problem, run.counts, trimmed(kept, n_kept(model.K)), *own)


def _n_polish(estimator, n, m):
    if estimator.max_full_iter != "auto":
        return estimator.max_full_iter
    return _TO_THE_END if m == 1 or n <= _FEW_ROWS else _POLISH


def _carried(before, model, m, X, weight, units):
    """Counts of a fit before, as if of these rows.

    The particles are where they were, or where the units of the columns have taken them, whichever
    says more of the rows: beside the rows they would all look the same.
    """
    forms = [(one.K, one.p, type(one.family)) for one in (before.model, model)]
    if forms[0] != forms[1] or len(before.counts.entropy) != m:
        raise ValueError(
            "warm_start=True needs n_components, n_particles, covariance_type and the number of "
            "columns of the fit before: set them back, or set warm_start=False."
        )
    along = before.counts.step(before.counts, 1.0, weight.sum() / before.counts.total)
    if all((old == new).all() for old, new in zip(before.units, units, strict=True)):
        return along
    scale = before.units.scale / units.scale
    stayed = model.moved(along, scale, units.inner(before.units.shift))
    try:
        scores = [model.expect(model.state(one), X, weight)[1].max() for one in (stayed, along)]
    except np.linalg.LinAlgError:  # so far off that rounding has left them no covariance
        return along
    return stayed if scores[0] >= scores[1] else along


class _Run:
    """One fit, which Ctrl-C may end after any of its steps."""

    def __init__(self, estimator, model, X, weight, reweight, m):
        self.estimator, self.model, self.X, self.weight = estimator, model, X, weight
        self.reweight, self.m = reweight, m
        self.counts, self.history = None, []
        self.converged, self.interrupted = False, False

    def go(self, counts, rng):
        """Stochastic passes, then steps on all data."""
        self.counts = counts
        size = self.estimator.batch_size
        if size == "auto":
            size = max(_BATCH, _BATCH_EACH * self.X.shape[1])
        rows = Rows(self.X, None, self.weight, size)
        # A pass in one batch is a step on all data: those that follow do better without it.
        # One component has nothing to share out, and such a step is exact.
        stochastic = rows.n_batches > 1 and self.model.K > 1 or not self.reweight
        passes = self.estimator.max_iter if stochastic else 0
        try:
            self._pass(rows, passes, rng)
            self._settle(rows)
        except KeyboardInterrupt:
            if not self.history:
                raise
            self.interrupted = True

    def _pass(self, rows, passes, rng):
        estimator, t = self.estimator, 0
        schedule = StepSchedule(
            "power", estimator.step_size, estimator.step_offset, estimator.step_decay
        )
        with progress(passes * rows.n_batches, estimator.verbose) as bar:
            for _ in range(passes):
                for batch in rows.one_pass("epoch", rng):
                    t += 1
                    gamma = step_size(schedule, t, 0.0, 0.0, 0, 0)
                    state, size = self.model.state(self.counts), batch.weight.sum()
                    new, score = self.model.expect(state, batch.X, batch.weight)
                    self.counts = self.counts.step(new, gamma, gamma * rows.total / size)
                    self._record(gamma, np.nan, score.max() / size, bar, t)

    def _settle(self, rows):
        """Steps of size 1 until the bound settles, fewer and fewer particles taking part."""
        model, tol, last = self.model, self.estimator.tol * rows.total, -np.inf
        state = model.state(self.counts)
        with progress(self.reweight, self.estimator.verbose, "steps on all data") as bar:
            for t in range(1, self.reweight + 1):
                if t > 1 and t % _ROUND == 1 and len(state.bound) > self.m:
                    self._keep_best(state.bound, max(self.m, -(-len(state.bound) // 2)))
                    state = model.state(self.counts)
                self.counts, score = model.expect(state, self.X, self.weight)
                state = model.state(self.counts)
                bound = state.bound.max()
                self._record(1.0, bound / rows.total, score.max() / rows.total, bar, t)
                self.converged, last = bool(abs(bound - last) <= tol), bound
                if self.converged and len(state.bound) == self.m:
                    break
        if len(state.bound) > self.m:
            self._keep_best(state.bound, self.m)
        if model.K == 1 and self.reweight:  # one step is exact
            self.converged = True

    def convergence_warnings(self):
        """Reasons not to trust it, a list of str; the user has not asked for a few steps only."""
        if self.converged or self.estimator.max_full_iter in ("auto", 0):
            return []
        return [f"the bound still grew after {self.reweight} steps on all data"]

    def _keep_best(self, bound, m):
        chosen = np.argsort(-bound, kind="stable")[:m]
        self.counts = self.counts.take(np.sort(chosen))

    def _record(self, gamma, bound, score, bar, t):
        self.history.append((gamma, bound, score, len(self.counts.entropy)))
        every = self.estimator.verbose_interval
        if t % every == 0:
            bar.update(every, f"step size {gamma:.2g}, log density {score:.5g} for each row")


def take_in(estimator, before, X, weight):
    """The particles after one call's rows of a stream.

    While all rows are kept, and the particles have learnt from less than half of them, they learn
    anew from all: a first part of one row says nothing of places. Later each row counts once,
    shared out as the particles see it when it comes. With ``total_samples`` rows of a second pass
    are mirror steps.

    Parameters
    ----------
    estimator : GaussianMixturePMD
        Its parameters.
    before : Conjugate or None
        None stands for no rows before.
    X : ndarray of shape (n, p)
        Distinct rows, sorted, the user's units.
    weight : ndarray of shape (n,)
        How often each counts.

    Returns
    -------
    Conjugate
        After; ``before`` is left as it is.
    """
    if before is None:
        return fit_conjugate(
            estimator, joined(None, X, weight, 1.0), as_generator(estimator.random_state)
        )
    rng, size = copy.deepcopy(before.rng), float(weight.sum())
    options = Options(total_samples=estimator.total_samples, forgetting=estimator.forgetting)
    a, b = coefficients(options, before.seen, size)
    seen, kept = before.seen + size, before.kept
    if estimator.total_samples is None or a == 0.0:  # no second pass
        size_kept = n_kept(before.model.K)
        rows = Kept(X, weight, np.ones(len(X)), True)
        if not kept.complete:  # then no more of these can be kept either
            rows = trimmed(rows, size_kept)
        kept = joined(kept, rows.X, rows.weight, 1.0 - a)
        if kept.complete and len(kept.X) >= 2 * before.n_learned:
            learnt = fit_conjugate(estimator, kept, rng)
            history = _in_units(before.history, before.units, learnt.units) + learnt.history
            return learnt._replace(seen=seen, history=history)
        kept = trimmed(kept, size_kept)
    model, counts, units = before.model, before.counts, before.units
    new, score = model.expect(model.state(counts), units.inner(X), weight)
    counts = counts.step(new, a, b)
    # The prior is not in the counts: its defaults follow the rows.
    sample = units.inner(kept.X), kept.sampled_weight(), units, "conjugate", counts.total
    problem = problem_of(estimator, *sample)
    if estimator.mean_prior is None:
        sums = counts.components[0, :, 1 : 1 + model.p].sum(axis=0)
        problem = problem._replace(mean=sums / counts.total)
    model = Mixture(problem)
    bound = model.state(counts).bound.max() / counts.total
    history = [*before.history, (a, bound, score.max() / size, len(counts.entropy))]
    own = {"counts": counts, "kept": kept, "seen": seen, "history": history, "rng": rng}
    # With one component there is nothing to settle.
    converged = before.converged and model.K == 1
    own |= {"converged": converged, "convergence_warnings": [], "interrupted": False}
    return before._replace(model=model, problem=problem, **own)


def _in_units(history, units, others):
    """Records of some inner units in other ones."""
    shift = units.log_jacobian - others.log_jacobian
    return [(a, bound + shift, score + shift, m) for a, bound, score, m in history]
