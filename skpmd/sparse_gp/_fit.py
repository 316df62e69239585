"""Fits of a Gaussian process: what the estimator has learned, and how rows are added to it."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skpmd._base.results import Remedies, Results, Shown, results_of
from skpmd._base.retained import RetainedRows, so_far
from skpmd._base.steps import (
    Records,
    Stream,
    advance,
    bar_of_rounds,
    bar_of_steps,
    coefficients,
    stream_after,
)
from skpmd._base.utils import as_generator, warn
from skpmd._rows.rows import hold_out, n_held_out
from skpmd._runtime.call import share_of_time
from skpmd.engine import mirror
from skpmd.engine.loop import FullBatch, Method, Options, drive, full_batch_iterations, run, stage
from skpmd.engine.particles import (
    Particles,
    draw_prior,
    equal_log_weights,
    stacked,
    stacking_step,
    weights,
)
from skpmd.posterior import Posterior
from skpmd.sparse_gp._categories import Categories
from skpmd.sparse_gp._covariance import parameter_names
from skpmd.sparse_gp._data import Population, Sample, ScaledRows, Scaler, take
from skpmd.sparse_gp._draws import (
    HyperPrior,
    Shrunk,
    Target,
    draw_around,
    draw_from_posterior,
    resampled,
    states_of_posterior,
)
from skpmd.sparse_gp._evidence import SHARE, log_marginal_likelihood
from skpmd.sparse_gp._hyperparameters import (
    FEW_PARTICLES,
    FEW_ROWS,
    Form,
    Search,
    check_kernel,
    fit_hyperparameters,
    n_inducing,
    n_particles,
    new_covariance,
    new_model,
)
from skpmd.sparse_gp._inducing import extended
from skpmd.sparse_gp._left_out import log_density
from skpmd.sparse_gp._model import SparseGP

# Predictions of about so many rows of a part are compared with its targets, if it has at least
# so many.
_MAX_CHECKED, _MIN_CHECKED = 200, 10
# Fewer scored rows for each particle would choose among them by chance: draws of the posterior are
# then weighed alike.
MIN_SCORED = 10
_MAX_MEDIAN_ERROR = 2.0  # A larger median error, in standard deviations, gives a warning.


class GPState(NamedTuple):
    """What an estimator has learned, by regression or classification."""

    model: SparseGP  # Covariance and inducing inputs.
    theta: np.ndarray  # (d,): Hyperparameters of the largest evidence.
    stream: Stream  # Its particles are hyperparameters, one row for each process, and hold q(u).
    n_fitted: int  # Number of distinct rows when the kernel was fitted.
    # (m,): Weights of the particles; None where those of the particle system are meant.
    log_weights: np.ndarray | None = None
    scaler: Scaler | None = None  # Of y.
    sample: Sample | None = None  # Rows that the kernel was fitted to.
    # Noise variance of every new row beside the kernel's, in squared units of the scaled y.
    alpha: float = 0.0
    n_scored: float = 0.0  # Rows whose predictions have made the weights.
    # With inducing inputs the `Data` so far, while there are few rows; with neighbours the `Sites`
    # of the model.
    retained: RetainedRows | None = None
    results: Results | None = None  # What the estimator shows.
    converged: bool = True  # Whether iterations over the last labels have converged.
    categories: Categories = Categories()  # Codes of the columns of categories.

    @property
    def particles(self):
        """Particles, a row for each process."""
        return self.stream.particles

    @property
    def best(self):
        """Place of the first process of the particle of the largest weight."""
        return self.model.n_processes * int(self.weights.argmax())

    @property
    def weights(self):
        """Weights of the particles in predictions, shape (m,)."""
        of_rows = self.particles.log_ratio[:: self.model.n_processes]
        return weights(of_rows if self.log_weights is None else self.log_weights)

    def conditional(self, i):
        """q(u) of one row of the particles, factored."""
        return self.model.conditional(self.particles.theta[i], self.particles.block[i])


def initialise(parameters, data, rng):
    """A `GPState` whose kernel is fitted but which holds no row yet, and the `Rows` to add."""
    df = parameters.student_df
    scaler = Scaler.fit(data.y, data.weight, parameters.normalize_y, robust=df is not None)
    rows = ScaledRows(data, scaler, parameters.batch_size)
    whole = Population(rows, df)
    sample = take(whole, parameters.search.n_subset, rng)
    covariance = new_covariance(parameters.search, sample)
    check_kernel(covariance, sample, parameters.likelihood, parameters.weighting)
    prior = HyperPrior(covariance.kernel, parameters.search.hyperprior)
    with share_of_time(SHARE):
        theta, sample = stage(
            lambda: fit_hyperparameters(parameters, covariance, whole, sample, rng), rng
        )
    model = new_model(parameters, covariance, prior, whole, theta, rng)
    m = n_particles(parameters, covariance.kernel, len(whole.weight), model.n_inducing**2)
    if parameters.weighting == "posterior":
        particles, log_weights = draw_prior(model, m, rng), None
    else:
        n, its = len(sample.weight), prior
        is_few = n <= FEW_ROWS and n == len(whole.weight)
        if is_few and covariance.is_fast and parameters.search.hyperprior is None:
            its = Shrunk(covariance.kernel, sample)
        target = Target(its, partial(log_marginal_likelihood, covariance, sample=sample))
        positions, _ = drawn(parameters, target, theta, (n, m), rng, is_few)
        zero = np.zeros(m)
        particles = Particles(positions, zero, zero, zero, model.prior_block(positions))
        log_weights = equal_log_weights(m)
    state = GPState(
        model=model,
        scaler=scaler,
        sample=sample,
        theta=theta,
        stream=Stream(particles, None, Records(), 0.0, rng),
        log_weights=log_weights,
        alpha=float(parameters.alpha) if np.ndim(parameters.alpha) == 0 else 0.0,
        n_fitted=len(whole.weight),
    )
    return state, rows


def drawn(parameters, target, theta, n_rows_and_particles, rng, is_few=False):
    """Hyperparameters (m, d) of the particles, and the `Outcome` of their posterior or None.

    For predictions the first ones are the best, theta (d,); others of few rows come from the whole
    posterior, and of more rows from around the best.
    """
    n, m = n_rows_and_particles
    if parameters.weighting != "posterior":
        if m == 1 or not len(theta):
            return np.tile(theta, (m, 1)), None
        if is_few:
            return draw_from_posterior(target, theta, n, m, rng), None
        return draw_around(target, theta, m, rng), None
    with bar_of_rounds() as report:
        outcome = drive(states_of_posterior(target, theta, n, m, rng), report)
    return resampled(outcome.particles.log_ratio, outcome.particles.theta, m, rng), outcome


def fit_inducing(parameters, data):
    """The state after a fit to all data, in which each row counts once.

    Weights of the posterior come from stochastic mirror steps and reweighting; those for
    predictions need full-batch iterations only.
    """
    options = parameters.options._replace(total_samples=None, forgetting=0.0)
    if parameters.weighting != "posterior":
        return update_inducing(parameters.replaced(options=options), None, data)
    rng = as_generator(parameters.random_state)
    state, rows = initialise(parameters, data, rng)
    options = options._replace(n_particles=len(state.particles.theta))
    with bar_of_steps(options, rows) as report:
        outcome = run(state.model, rows, state.particles, options, rng, report)
    stream = stream_after(outcome, rows.total, rng)
    return with_results(state._replace(stream=stream), outcome)


def fit_kernels(parameters, data):
    """The state after a fit to few rows, with the posterior of kernels of the exact process.

    All rows are inducing inputs, and predictions average over draws of the posterior.
    """
    rng = as_generator(parameters.random_state)
    parameters = parameters.replaced(approximation="fitc", n_inducing=len(data.y))
    state, rows = initialise(parameters, data, rng)
    model, m = state.model, len(state.particles.theta)
    sample = take(Population(rows), len(data.y), rng)
    exact = partial(log_marginal_likelihood, model.covariance, sample=sample)
    target, zero = Target(model.prior, exact), np.zeros(m)
    positions, outcome = drawn(parameters, target, state.theta, (len(data.y), m), rng)
    particles = Particles(positions, zero, zero, zero, model.prior_block(positions))
    still = mirror.Settings(rejuvenation="never")
    particles, _ = mirror.step(particles, model, rows.whole(), 0.0, 1.0, still, rng)
    log_prior = model.log_prior(positions)
    # They are draws of the posterior, weighed alike until more rows come.
    log_pi = log_prior + model.log_partition(particles.block)
    particles = Particles(positions, zero, log_pi, log_prior, particles.block)
    stream = stream_after(outcome._replace(particles=particles), rows.total, rng)
    return with_results(state._replace(stream=stream), outcome)


def update_inducing(parameters, state, data):
    """The state after one call's rows; None stands for no rows before.

    While fewer rows than the kernel needs have come they are retained, and it is fitted anew to all
    of them whenever there are enough more: a first part of one row says nothing of scales.
    """
    whole = rows_so_far(parameters, state, data)
    if state is None or (whole is not None and whole.n_rows >= next_fit(parameters, state)):
        state, rows = initialise(parameters, whole.rows, as_generator(parameters.random_state))
    else:
        rows = ScaledRows(data, state.scaler, parameters.batch_size)
        if whole is None or state.n_fitted >= parameters.search.n_subset:
            _warn_of_surprise(state, rows)
        if isinstance(parameters.form.inducing_init, str):
            total = state.stream.seen + rows.total
            n = n_inducing(parameters.form.n_inducing, total, parameters.weighting)
            state = move_inducing(state, rows.data.X, n)
    state = _score_and_add(parameters, state, rows)
    is_posterior = parameters.weighting == "posterior"
    retains = not is_posterior and state.n_fitted < _n_needed(parameters, state)
    retains = retains and whole is not None and not whole.rows.is_large
    state = state._replace(retained=whole.merged() if retains else None)
    return with_results(state, state.stream.outcome() if is_posterior else None)


def with_results(state, outcome=None):
    """The state with results, whose weights are those of an outcome or of predictions."""
    names = parameter_names(state.model.covariance.kernel)
    support = np.zeros(len(names)), np.full(len(names), np.inf)
    if outcome is None:
        coordinates = np.exp(state.particles.theta)
        label = (
            "the weights are for predictions, not of the posterior; weighting='posterior' has those"
        )
        posterior = Posterior(
            coordinates, state.log_weights, names=names, unavailable=label, weighting=label,
            support=support,
        )  # fmt: skip
        diagnostics = {"ess": posterior.ess, "interrupted": False, "warnings": []}
        return state._replace(results=Results(posterior, state.stream.records, diagnostics))
    stream, coordinates = not outcome.reweighted, np.exp(outcome.particles.theta)
    results = results_of(
        outcome, state.stream.records, shown=Shown(coordinates, names, support=support),
        stream=stream, remedies=Remedies(FEW_PARTICLES),
    )  # fmt: skip
    return state._replace(results=results)


def interrupted(state):
    """The state, whose diagnostics say that Ctrl-C has ended the fit."""
    diagnostics = {**state.results.diagnostics, "interrupted": True}
    return state._replace(results=state.results._replace(diagnostics=diagnostics))


def _n_needed(parameters, state):
    """Number of distinct rows after which the kernel is not fitted again."""
    search = parameters.search
    refines = search.optimizer is not None and state.model.covariance.is_fast
    return max(search.n_subset, search.n_refine) if refines else search.n_subset


def next_fit(parameters, state):
    """Number of distinct rows at which the kernel is fitted anew.

    The more there have been, the more a fit costs and the less it changes.
    """
    return (2 if state.n_fitted < parameters.search.n_subset else 4) * state.n_fitted


def rows_so_far(parameters, state, data):
    """The `RetainedRows` with those of a call; None where they are not at hand. See `so_far`."""
    if state is None:
        return RetainedRows(data)
    whole = so_far(state.retained, data, parameters.options, state.stream.seen)
    return None if whole is None else whole.merged()


def _warn_of_surprise(state, rows):
    """Warn where predictions of new rows are far off, by their own standard deviations."""
    n = len(rows.data.y)
    if not state.stream.seen or n < _MIN_CHECKED:
        return
    theta, best = state.particles.theta[state.best], state.best
    some = rows.take(slice(None, None, -(-n // _MAX_CHECKED)))
    mean, variance = state.model.predict(theta, state.conditional(best), some.X)
    variance = variance + state.model.covariance.noise(theta, some.X) + some.noise
    median = np.sqrt(np.median((some.y - mean) ** 2 / variance[:, None]))
    if median > _MAX_MEDIAN_ERROR:
        warn(
            f"Half of the new rows lie more than {median:.1f} standard deviations off their "
            "predictions: the kernel, fitted to the first calls or given, does not suit them. "
            "Call fit on rows of all kinds, or give such rows to the first partial_fit."
        )


def _score_and_add(parameters, state, rows):
    """The state after more rows; with stacking, after predictions of some have been scored."""
    if parameters.weighting == "stacking" and len(state.particles.theta) > 1:
        rows = rows if rows.is_large and not state.stream.seen else rows.scaled()
        if state.stream.seen:
            scores = log_density(state, rows)
            weights = stacking_step(state.log_weights, scores, rows.data.weight, state.n_scored)
            state = state._replace(log_weights=weights, n_scored=state.n_scored + rows.total)
        elif (parts := _held_out(state, rows)) is not None:
            state, rows = _add(parameters, state, parts[0]), parts[1]
            # In double precision, and without an early end, copies of rows are their weight.
            weights = stacked(
                log_density(state, rows).T, rows.data.weight, tol=-np.inf, dtype=np.float64
            )
            state = state._replace(log_weights=weights, n_scored=rows.total)
    return _add(parameters, state, rows)


def _held_out(state, rows):
    """Rows to fit and rows to score; None where these are too few to tell the particles apart."""
    rng = state.stream.rng
    if isinstance(rows, ScaledRows):  # They are many, and copies are not looked for.
        parts = rows.split(n_held_out(len(rows.data.y)), rng)
    else:
        parts = hold_out(rows, rng)
    few = parts is None or len(parts[1].data.y) < MIN_SCORED * len(state.particles.theta)
    return None if few else parts


def _add(parameters, state, rows):
    """The state after more rows.

    Full-batch iterations start from the prior of u or from where the stream is. For weights of the
    posterior a step moves the particles too.
    """
    options, stream, model = parameters.options, state.stream, state.model
    if parameters.weighting == "posterior":
        return state._replace(stream=advance(stream, model, rows, options))
    full_batch = _iterations(parameters, model, rows.total)
    if not stream.seen:
        _, power = coefficients(options, 0.0, rows.total)
        options = options._replace(max_iter=0, temperature=1.0 / power)
        method = Method(full_batch=full_batch)
        with bar_of_rounds(name="passes over all rows") as report:
            outcome = run(model, rows, stream.particles, options, stream.rng, report, method)
        return state._replace(stream=stream_after(complete(outcome), rows.total, stream.rng))

    def step(stream, model, rows, a, b, options, rng):
        states = full_batch_iterations(
            stream.particles, model, rows.whole(), (a, b), options.settings, rng, full_batch
        )
        with bar_of_rounds(name="passes over the new rows") as report:
            outcome = complete(drive(states, report))
        *infos, last = outcome.infos
        records = stream.records.extended(infos)
        return stream._replace(particles=outcome.particles, records=records), last

    return state._replace(stream=advance(stream, model, rows, options, step))


def _iterations(parameters, model, total):
    """Full-batch iterations: one with normal noise, which is exact, or until the ELBO converges.

    With Student noise each of them weighs the rows by their errors under q(u) of the one before.
    """
    if parameters.student_df is None:
        return FullBatch(1, lambda particles, t, _: (particles, True, None))

    def until(particles, t, last):
        elbo = model.log_partition(particles.block).max()
        gain = np.inf if last is None else elbo - last
        return particles, bool(gain < parameters.tol * total), elbo

    return FullBatch(parameters.options.max_iter, until)


def complete(outcome):
    """The outcome, unless Ctrl-C has ended it: some rows would be weighed and others not."""
    if outcome.interrupted:
        raise KeyboardInterrupt
    return outcome


def move_inducing(state, X, n):
    """The state with up to n inducing inputs, moved to where the rows of X are.

    The particle of the largest weight says how far the rows are from the inducing inputs.
    """
    model, particles = state.model, state.particles
    inducing = extended(model, particles.theta[state.best], X, max(n, model.n_inducing))
    if inducing is None:
        return state
    model, block = model.onto(inducing, particles.theta, particles.block)
    stream = state.stream._replace(particles=particles._replace(block=block))
    return state._replace(stream=stream, model=model)


class GPParameters(NamedTuple):
    """Parameters of `SparseGPRegressorPMD`, which documents each of them under the same name.

    ``options``, the last, are those of the engine's loop.
    """

    search: Search
    form: Form
    alpha: Any
    normalize_y: bool
    likelihood: str
    df: float
    n_particles: int
    weighting: str
    batch_size: int | str
    tol: float
    random_state: Any
    options: Options

    def replaced(self, **changes):
        """The record with other values, whichever part they stand in."""
        search, form = (
            part._replace(**{name: changes.pop(name) for name in part._fields if name in changes})
            for part in (self.search, self.form)
        )
        return self._replace(search=search, form=form, **changes)

    @property
    def student_df(self):
        """Degrees of freedom of Student noise; None for normal noise."""
        return self.df if self.likelihood == "student_t" else None
