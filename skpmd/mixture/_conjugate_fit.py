"""Fits of a conjugate mixture: stochastic passes, full-batch iterations, and a stream."""

import copy
from typing import NamedTuple

import numpy as np

from skpmd._base.progress import progress
from skpmd._base.rows import Rows
from skpmd._base.streaming import coefficients
from skpmd.engine.schedules import StepSchedule, step_size
from skpmd.mixture._conjugate import ConjugateMixture, Counts
from skpmd.mixture._initialization import initial_counts
from skpmd.mixture._prior import MixturePrior, Scaler, prior_of
from skpmd.mixture._reservoir import Reservoir, extend, reservoir_size, trim

# n_particles="auto" is the first, and the second from so many columns on.
_MANY, _FEW, _MANY_COLUMNS = 16, 8, 20
# One particle is the best of so many starts, half of which go on after so many iterations.
_STARTS, _ROUND = 8, 5
# max_full_iter="auto" is the first, and the second for one particle or so few rows.
_MAX_FULL_ITER, _MAX_FULL_ITER_FEW, _FEW_ROWS = 3, 100, 2000
# batch_size="auto" is at least so many rows, or so many for each column.
_MIN_BATCH, _BATCH_EACH = 256, 32


class ConjugateFit(NamedTuple):
    """Fit result: conjugate particles, and what a stream needs to go on.

    Attributes
    ----------
    model : ConjugateMixture
        Of the components.
    scaler : Scaler
        Of the columns.
    prior : MixturePrior
        In scaled columns.
    counts : Counts
        Of the particles.
    reservoir : Reservoir
        Rows to choose weights for predictions by, in the user's columns.
    n_samples_seen : float
        Weighted rows so far.
    n_rows_fitted : int
        Distinct rows of the last fit.
    history : list of tuple
        Step size, ELBO and log density of the best particle for each row, and number of particles;
        of each step.
    converged : bool
        Whether the best particle gained no more than ``tol`` in the last full-batch iteration, and
        that was on all rows so far.
    convergence_warnings : list of str
        What speaks against the result of the last call.
    interrupted : bool
        Whether Ctrl-C ended the fit; the counts are those of the last complete step.
    rng : numpy.random.Generator
        Source of all randomness.
    """

    model: ConjugateMixture
    scaler: Scaler
    prior: MixturePrior
    counts: Counts
    reservoir: Reservoir
    n_samples_seen: float
    n_rows_fitted: int
    history: list
    converged: bool
    convergence_warnings: list
    interrupted: bool
    rng: np.random.Generator


def n_particles(parameters, p):
    """How many particles; one where all would be the same."""
    if parameters.n_particles != "auto":
        return parameters.n_particles
    if parameters.n_components == 1:
        return 1
    return _MANY if p <= _MANY_COLUMNS else _FEW


def fit_conjugate(parameters, reservoir, rng, before=None):
    """Fit all rows.

    Parameters
    ----------
    parameters : MixtureParameters
        Of the estimator.
    reservoir : Reservoir
        Distinct rows, all of them.
    rng : numpy.random.Generator
        Source of all randomness.
    before : ConjugateFit or None
        Particles to start from.

    Returns
    -------
    ConjugateFit
        Its result.
    """
    weight = reservoir.weight
    scaler = Scaler.of(reservoir.X, weight, parameters.covariance_type)
    X = scaler.transform(reservoir.X)
    prior = prior_of(parameters, X, weight, scaler, "conjugate")
    model, m = ConjugateMixture(prior), n_particles(parameters, X.shape[1])
    max_full_iter = _max_full_iter(parameters, len(X), m)
    if before is not None:
        counts = _carried(before, model, m, X, weight, scaler)
    else:
        n_starts = _STARTS if m == 1 < model.K and max_full_iter >= 4 * _ROUND else m
        counts = initial_counts(model, X, weight, parameters.init_params, n_starts, rng)
    run = _Run(parameters, model, X, weight, max_full_iter, m)
    run.go(counts, rng)
    return ConjugateFit(
        model=model,
        scaler=scaler,
        prior=prior,
        counts=run.counts,
        reservoir=trim(reservoir, reservoir_size(model.K)),
        n_samples_seen=float(weight.sum()),
        n_rows_fitted=len(X),
        history=run.history,
        converged=run.converged,
        convergence_warnings=run.convergence_warnings(),
        interrupted=run.interrupted,
        rng=rng,
    )


def _max_full_iter(parameters, n, m):
    if parameters.max_full_iter != "auto":
        return parameters.max_full_iter
    return _MAX_FULL_ITER_FEW if m == 1 or n <= _FEW_ROWS else _MAX_FULL_ITER


def _carried(before, model, m, X, weight, scaler):
    """Counts of a fit before, as if of these rows.

    The particles are where they were, or where the scales of the columns have taken them, whichever
    says more of the rows: beside the rows they would all look the same.
    """
    forms = [(one.K, one.p, type(one.family)) for one in (before.model, model)]
    if forms[0] != forms[1] or len(before.counts.entropy) != m:
        raise ValueError(
            "warm_start=True needs n_components, n_particles, covariance_type and the number of "
            "columns of the fit before: set them back, or set warm_start=False."
        )
    along = before.counts.step(before.counts, 1.0, weight.sum() / before.counts.total)
    if all((old == new).all() for old, new in zip(before.scaler, scaler, strict=True)):
        return along
    scale = before.scaler.scale / scaler.scale
    stayed = model.rescale(along, scale, scaler.transform(before.scaler.shift))
    try:
        scores = [
            model.e_step(model.posteriors(counts), X, weight)[1].max() for counts in (stayed, along)
        ]
    except np.linalg.LinAlgError:  # So far off that rounding has left them no covariance.
        return along
    return stayed if scores[0] >= scores[1] else along


class _Run:
    """One fit, which Ctrl-C may end after any of its steps."""

    def __init__(self, parameters, model, X, weight, max_full_iter, m):
        self.parameters, self.model, self.X, self.weight = parameters, model, X, weight
        self.max_full_iter, self.m = max_full_iter, m
        self.counts, self.history = None, []
        self.converged, self.interrupted = False, False

    def go(self, counts, rng):
        """Stochastic passes, then full-batch iterations."""
        self.counts = counts
        size = self.parameters.batch_size
        if size == "auto":
            size = max(_MIN_BATCH, _BATCH_EACH * self.X.shape[1])
        rows = Rows(self.X, None, self.weight, size)
        # A pass in one batch is a step on all data: the iterations after it do better without it.
        # With one component responsibilities are known, and such a step is exact.
        stochastic = rows.n_batches > 1 and self.model.K > 1 or not self.max_full_iter
        passes = self.parameters.max_iter if stochastic else 0
        try:
            self._passes(rows, passes, rng)
            self._full_batch(rows)
        except KeyboardInterrupt:
            if not self.history:
                raise
            self.interrupted = True

    def _passes(self, rows, passes, rng):
        parameters, t = self.parameters, 0
        schedule = StepSchedule(
            "power", parameters.step_size, parameters.step_offset, parameters.step_decay
        )
        with progress(passes * rows.n_batches, parameters.verbose) as bar:
            for _ in range(passes):
                for batch in rows.one_pass("epoch", rng):
                    t += 1
                    gamma = step_size(schedule, t, 0.0, 0.0, 0, 0)
                    posteriors, size = self.model.posteriors(self.counts), batch.weight.sum()
                    new, score = self.model.e_step(posteriors, batch.X, batch.weight)
                    self.counts = self.counts.step(new, gamma, gamma * rows.total / size)
                    self._record(gamma, np.nan, score.max() / size, bar, t)

    def _full_batch(self, rows):
        """Steps of size 1 until the ELBO converges, fewer and fewer particles taking part."""
        model, tol, last = self.model, self.parameters.tol * rows.total, -np.inf
        posteriors = model.posteriors(self.counts)
        with progress(self.max_full_iter, self.parameters.verbose, "steps on all data") as bar:
            for t in range(1, self.max_full_iter + 1):
                if t > 1 and t % _ROUND == 1 and len(posteriors.elbo) > self.m:
                    self._keep_best(posteriors.elbo, max(self.m, -(-len(posteriors.elbo) // 2)))
                    posteriors = model.posteriors(self.counts)
                self.counts, score = model.e_step(posteriors, self.X, self.weight)
                posteriors = model.posteriors(self.counts)
                elbo = posteriors.elbo.max()
                self._record(1.0, elbo / rows.total, score.max() / rows.total, bar, t)
                self.converged, last = bool(abs(elbo - last) <= tol), elbo
                if self.converged and len(posteriors.elbo) == self.m:
                    break
        if len(posteriors.elbo) > self.m:
            self._keep_best(posteriors.elbo, self.m)
        if model.K == 1 and self.max_full_iter:  # One step is exact.
            self.converged = True

    def convergence_warnings(self):
        """Reasons not to trust it, a list of str; none where the user has not asked for steps."""
        if self.converged or self.parameters.max_full_iter in ("auto", 0):
            return []
        return [f"the bound still grew after {self.max_full_iter} steps on all data"]

    def _keep_best(self, elbo, m):
        chosen = np.argsort(-elbo, kind="stable")[:m]
        self.counts = self.counts.take(np.sort(chosen))

    def _record(self, gamma, elbo, score, bar, t):
        self.history.append((gamma, elbo, score, len(self.counts.entropy)))
        every = self.parameters.verbose_interval
        if t % every == 0:
            bar.update(every, f"step size {gamma:.2g}, log density {score:.5g} for each row")


def update_conjugate(parameters, before, X, weight):
    """The particles after one call's rows of a stream.

    While all rows are retained, and the last fit saw less than half of them, all are fitted anew: a
    first part of one row says nothing of places. Later each row counts once, by the
    responsibilities under the particles at its arrival. With ``total_samples`` rows of a second
    pass are mirror steps.

    Parameters
    ----------
    parameters : MixtureParameters
        Of the estimator.
    before : ConjugateFit
        Of the rows before; it is left as it is.
    X : ndarray of shape (n, p)
        Distinct rows, sorted, the user's columns.
    weight : ndarray of shape (n,)
        How often each counts.

    Returns
    -------
    ConjugateFit
        After these rows.
    """
    rng, size = copy.deepcopy(before.rng), float(weight.sum())
    a, b = coefficients(parameters.stream_options, before.n_samples_seen, size)
    n_samples_seen, reservoir = before.n_samples_seen + size, before.reservoir
    if parameters.total_samples is None or a == 0.0:  # This is no second pass.
        most = reservoir_size(before.model.K)
        rows = extend(None, X, weight, 1.0)
        if not reservoir.complete:  # Then no more of these rows can be retained either.
            rows = trim(rows, most)
        reservoir = extend(reservoir, rows.X, rows.weight, 1.0 - a)
        if reservoir.complete and len(reservoir.X) >= 2 * before.n_rows_fitted:
            fit = fit_conjugate(parameters, reservoir, rng)
            history = _rescaled(before.history, before.scaler, fit.scaler) + fit.history
            return fit._replace(n_samples_seen=n_samples_seen, history=history)
        reservoir = trim(reservoir, most)
    model, scaler = before.model, before.scaler
    new, score = model.e_step(model.posteriors(before.counts), scaler.transform(X), weight)
    counts = before.counts.step(new, a, b)
    # The prior is not in the counts: its defaults follow the rows.
    sample = scaler.transform(reservoir.X), reservoir.sampled_weight()
    prior = prior_of(parameters, *sample, scaler, "conjugate", counts.total)
    if parameters.mean_prior is None:
        sums = counts.components[0, :, 1 : 1 + model.p].sum(axis=0)
        prior = prior._replace(mean=sums / counts.total)
    model = ConjugateMixture(prior)
    elbo = model.posteriors(counts).elbo.max() / counts.total
    return before._replace(
        model=model,
        prior=prior,
        counts=counts,
        reservoir=reservoir,
        n_samples_seen=n_samples_seen,
        history=[*before.history, (a, elbo, score.max() / size, len(counts.entropy))],
        converged=before.converged and model.K == 1,  # One component is exact.
        convergence_warnings=[],
        interrupted=False,
        rng=rng,
    )


def _rescaled(history, scaler, others):
    """Records in the columns of one scaler in those of another."""
    shift = scaler.log_jacobian - others.log_jacobian
    return [(a, elbo + shift, score + shift, m) for a, elbo, score, m in history]
