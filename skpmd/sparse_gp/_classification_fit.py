"""Fits of a classifier: what the estimator has learned, and how rows are added to it."""

from typing import Any, NamedTuple

import numpy as np

from skpmd._base.results import Results
from skpmd._base.retained import RetainedRows
from skpmd._base.steps import Records, Stream, advance, bar_of_rounds
from skpmd._base.utils import as_generator
from skpmd._rows.rows import Rows, sortable, taken, without_copies
from skpmd._runtime.call import share_of_time
from skpmd.engine.diagnostics import MAX_K, heavy_tail, pareto_k
from skpmd.engine.importance import draw, log_density
from skpmd.engine.loop import Options, drive, stage
from skpmd.engine.particles import effective_sample_size, equal_log_weights
from skpmd.posterior import Posterior
from skpmd.sparse_gp._categories import Categories
from skpmd.sparse_gp._classification_evidence import (
    DAMPING,
    KernelSearch,
    Rounds,
    batch_of,
    fit_kernel,
    iterations,
    log_prior_of,
    new_covariance,
    no_sites,
    processes,
)
from skpmd.sparse_gp._covariance import parameter_names
from skpmd.sparse_gp._data import Sample, take
from skpmd.sparse_gp._descent import SHARE
from skpmd.sparse_gp._fit import complete, move_inducing, next_fit, rows_so_far
from skpmd.sparse_gp._hyperparameters import FEW_PARTICLES, Search, check_signal
from skpmd.sparse_gp._hyperprior import HyperPrior, proposal_around
from skpmd.sparse_gp._inducing import choose
from skpmd.sparse_gp._logit import LogitSparseGP

AUTO_INDUCING = 1000  # The automatic number of inducing inputs, at most.
_BATCH = 2048  # Rows in a batch where the user does not say how many.
# With more rows than this iterations begin with those of so many, which count for all.
_FIRST_ROWS, _WORTH = 4000, 3
_CHECKED = 1000  # Rows whose open variance is looked at, at most.
# Share of the prior variance that inducing inputs leave open, beyond which it is warned of.
_MUCH_OPEN = 0.5
_MIN_SHARE, _MIN_FOR_K = 0.1, 20  # Of effective particles, where there are so many for k-hat.


class ClassifierParameters(NamedTuple):
    """Parameters of `SparseGPClassifierPMD`, which documents each of them under the same name."""

    search: Search
    n_inducing: int | str
    inducing_init: Any
    jitter: float
    n_particles: int
    weighting: str
    batch_size: int | str
    max_iter: int
    tol: float
    random_state: Any
    options: Options

    @property
    def rounds(self):
        """When iterations over the rows of a call end."""
        return Rounds(self.tol, self.max_iter)


class ClassifierState(NamedTuple):
    """What an estimator has learned."""

    model: LogitSparseGP  # Covariance and inducing inputs.
    theta: np.ndarray  # (d,): Hyperparameters of the largest evidence of the subset.
    # Its particles are hyperparameters, each as often as there are processes; they hold q(u).
    stream: Stream
    log_proposal: np.ndarray  # (m,): Log density that the particles came from, less the log prior.
    n_fitted: int  # Number of distinct rows when the kernel was fitted.
    converged: bool = True  # Whether iterations over the last rows have converged.
    retained: RetainedRows | None = None  # All rows, `Data`, while there are few.
    results: Results | None = None  # What the estimator shows.
    categories: Categories = Categories()  # Codes of the columns of categories.

    @property
    def particles(self):
        """Particles, a row for each process."""
        return self.stream.particles

    @property
    def n_processes(self):
        """One for two classes, else one for each class."""
        return self.model.n_processes

    @property
    def weights(self):
        """Weights of the particles in predictions, shape (m,)."""
        return self.results.posterior.weights

    def conditional(self, i):
        """q(u) of one row of the particles, factored."""
        return self.model.conditional(self.particles.theta[i], self.particles.block[i])

    @property
    def best(self):
        """Place of the first process of the particle of the largest weight."""
        return self.n_processes * int(self.weights.argmax())


def initialise(parameters, data, n_processes, rng):
    """A `ClassifierState` whose kernel is fitted but which holds no row yet."""
    whole = Sample(data.X, data.y, np.zeros(len(data.weight)), data.weight)
    subset = take(whole, parameters.search.n_subset, rng)
    covariance = new_covariance(parameters.search, subset)
    check_signal(covariance, subset.X)
    prior = HyperPrior(covariance.kernel, parameters.search.hyperprior)
    with share_of_time(SHARE):
        theta = stage(lambda: fit_kernel(parameters, covariance, subset, n_processes, rng), rng)
    positions, log_proposal = _positions(
        parameters, covariance, prior, subset, theta, n_processes, rng
    )
    n = n_inducing(parameters.n_inducing)
    inducing = choose(parameters.inducing_init, whole, n, covariance, theta, rng)
    model = LogitSparseGP(covariance, prior, inducing, parameters.jitter, n_processes)
    stream = Stream(processes(model, positions), None, Records(), 0.0, rng)
    return ClassifierState(model, theta, stream, log_proposal, len(data.weight))


def n_inducing(requested):
    """How many inducing inputs, at most."""
    return AUTO_INDUCING if requested == "auto" else requested


def _positions(parameters, covariance, prior, subset, theta, n_processes, rng):
    """Particles (m, d), and their log density less the log prior.

    A single one is the best. Several are drawn around it, with the curvature of the evidence of the
    subset.
    """
    m = int(parameters.n_particles)  # True counts as one.
    if m == 1 or not len(theta):
        return np.tile(theta, (m, 1)), np.zeros(m)

    log_prior = log_prior_of(parameters.search.kernel, covariance.kernel.theta)

    def slope_at(one):
        search = KernelSearch(covariance, subset, n_processes, parameters.jitter, log_prior)
        return search.value(one)[1]

    proposal = proposal_around(slope_at, theta)
    draws = draw(proposal, m + m % 2, rng)[:m]
    draws = np.clip(draws, *covariance.kernel.bounds.T)
    log_target = prior.log_density(draws) + np.array([log_prior(one)[0] for one in draws])
    return draws, log_density(proposal, draws) - log_target


def update(parameters, state, data, n_processes):
    """The state after one call's rows; None stands for no rows before.

    While fewer rows than the kernel needs have come they are retained, and it is fitted anew to all
    of them whenever there are enough more.
    """
    data = _sorted(data)
    whole = rows_so_far(parameters, state, data)
    if state is None or (whole is not None and whole.n_rows >= next_fit(parameters, state)):
        data = whole.rows
        state = initialise(parameters, data, n_processes, as_generator(parameters.random_state))
    elif isinstance(parameters.inducing_init, str):
        state = move_inducing(state, data.X, n_inducing(parameters.n_inducing))
    state = _add(parameters, state, data)
    retains = whole is not None and state.n_fitted < parameters.search.n_subset
    return with_results(parameters, state._replace(retained=whole if retains else None))


def _sorted(data):
    """The distinct rows, sorted by their features: another order of the classes changes nothing."""
    data, _ = without_copies(data)
    return taken(data, np.lexsort(sortable(data.X).T[::-1]))


def rows_of(data, state, batch_size):
    """Batches of rows, with room for the sites of all processes."""
    size = _BATCH if batch_size == "auto" else batch_size
    sites = no_sites(len(data.weight), len(state.particles.theta))
    return Rows(data.X, data.y[:, 0], data.weight, size, local=sites)


def _add(parameters, state, data):
    """The state after more rows, under the q(u) of what is known then."""
    rows, model = rows_of(data, state, parameters.batch_size), state.model
    converged = True

    def step(stream, model, rows, a, b, options, rng):
        nonlocal converged
        particles, damping = stream.particles, DAMPING
        if not stream.seen:
            a = 1.0
            if len(data.weight) > _WORTH * _FIRST_ROWS:
                particles, damping = _started(parameters, model, particles, data, rng), 1.0
        with bar_of_rounds(name="iterations") as report:
            states = iterations(
                model, particles, rows.whole(), parameters.rounds, a, damping=damping
            )
            outcome = complete(drive(states, report))
        converged = outcome.converged
        *infos, last = outcome.infos
        records = stream.records.extended(infos)
        return stream._replace(particles=outcome.particles, records=records), last

    stream = advance(state.stream, model, rows, parameters.options, step)
    return state._replace(stream=stream, converged=converged)


def _started(parameters, model, particles, data, rng):
    """Particles with the q(u) of some of the rows, each of them for many."""
    whole = Sample(data.X, data.y, np.zeros(len(data.weight)), data.weight)
    some = take(whole, _FIRST_ROWS, rng)
    some = some._replace(weight=some.weight * (data.weight.sum() / some.weight.sum()))
    batch = batch_of(some, len(particles.theta))
    return complete(drive(iterations(model, particles, (batch,), parameters.rounds))).particles


def with_results(parameters, state):
    """The state with results: weights of the particles by the evidence of all rows so far."""
    model, particles = state.model, state.particles
    positions = particles.theta[:: state.n_processes]
    m, reasons, k = len(positions), [], None
    log_ratio = equal_log_weights(m)
    if parameters.weighting == "posterior" and m > 1:
        log_ratio = model.log_evidences(particles.block) - state.log_proposal
        ess = effective_sample_size(log_ratio)
        k = pareto_k(log_ratio) if m >= _MIN_FOR_K else None
        if k is not None and ess < _MIN_SHARE * m:
            reasons.append(
                f"the effective sample size is {ess:.1f} of {m} particles: {FEW_PARTICLES}"
            )
        if k is not None and heavy_tail(log_ratio, k):
            reasons.append(f"Pareto k-hat is {k:.2f} (above {MAX_K}): {FEW_PARTICLES}")
    if not state.converged:
        reasons.append(
            f"q(u) has not converged within max_iter={parameters.max_iter} iterations: raise it"
        )
    posterior = Posterior(
        np.exp(positions), log_ratio, names=parameter_names(model.covariance.kernel),
        pareto_k=k, unavailable="it is there for 20 particles or more, with weighting='posterior'",
        support=(np.zeros(positions.shape[1]), np.full(positions.shape[1], np.inf)),
    )  # fmt: skip
    diagnostics = {
        "ess": posterior.ess, "pareto_k": k, "interrupted": False, "warnings": reasons,
    }  # fmt: skip
    return state._replace(results=Results(posterior, state.stream.records, diagnostics))


def much_open(state, X):
    """Share of the prior variance that inducing inputs leave open, where it is large; else None."""
    X, model = X[:: -(-len(X) // _CHECKED)], state.model
    theta = state.particles.theta[state.best]
    known, prior = model.whitened(theta, X), model.covariance.diagonal(theta, X)
    share = float(1.0 - np.einsum("ij,ij->", known, known) / prior.sum())
    return share if share > _MUCH_OPEN else None
