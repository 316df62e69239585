"""Fits of a classifier: what the estimator has learned, and how rows are added to it."""

import numpy as np

from skpmd._base.results import Results
from skpmd._base.steps import Records, Stream, advance, bar_of_rounds
from skpmd._base.utils import as_generator
from skpmd._rows.rows import Rows, distinct, sortable, taken, without_copies
from skpmd._runtime.call import share_of_time
from skpmd.engine.diagnostics import MAX_K, heavy_tail, pareto_k
from skpmd.engine.loop import drive, stage
from skpmd.engine.particles import effective_sample_size, equal_log_weights
from skpmd.posterior import Posterior
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
from skpmd.sparse_gp._draws import HyperPrior, around
from skpmd.sparse_gp._evidence import SHARE
from skpmd.sparse_gp._fit import GPState, complete, move_inducing, next_fit, rows_so_far
from skpmd.sparse_gp._hyperparameters import FEW_PARTICLES, check_signal
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


def initialise(parameters, data, n_processes, rng):
    """A `GPState` whose kernel is fitted but which holds no row yet."""
    whole = Sample(data.X, data.y, np.zeros(len(data.weight)), data.weight)
    subset = take(_once_each(whole), parameters.search.n_subset, rng)
    covariance = new_covariance(parameters.search, subset)
    check_signal(covariance, subset.X)
    prior = HyperPrior(covariance.kernel, parameters.search.hyperprior)
    with share_of_time(SHARE):
        theta = stage(lambda: fit_kernel(parameters, covariance, subset, n_processes, rng), rng)
    positions, log_proposal = _positions(
        parameters, covariance, prior, subset, theta, n_processes, rng
    )
    n = n_inducing(parameters.form.n_inducing)
    inducing = choose(parameters.form.inducing_init, whole, n, covariance, theta, rng)
    model = LogitSparseGP(covariance, prior, inducing, parameters.form.jitter, n_processes)
    particles = processes(model, positions)
    particles = particles._replace(log_pi=np.repeat(log_proposal, n_processes))
    stream = Stream(particles, None, Records(), 0.0, rng)
    return GPState(model, theta, stream, len(data.weight))


def _once_each(rows):
    """Distinct rows of a `Sample` as a kernel is to be found among them, copies left out.

    Where inputs that count several times always have one label these are copies, of a bootstrap or
    for balance, not observations. As such a kernel would follow each of them: two for each of 60
    rows made its predictions worse than none.
    """
    if rows.weight.max() > 1.0 and len(distinct(rows.X)[0]) == len(rows.X):
        return rows._replace(weight=np.minimum(rows.weight, 1.0))
    return rows


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
        search = KernelSearch(covariance, subset, n_processes, parameters.form.jitter, log_prior)
        return search.value(one)[1]

    draws, log_proposal = around(slope_at, theta, m, covariance.kernel.bounds, rng)
    log_target = prior.log_density(draws) + np.array([log_prior(one)[0] for one in draws])
    return draws, log_proposal - log_target


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
    elif isinstance(parameters.form.inducing_init, str):
        state = move_inducing(state, data.X, n_inducing(parameters.form.n_inducing))
    state = _add(parameters, state, data)
    retains = whole is not None and state.n_fitted < parameters.search.n_subset
    return with_results(parameters, state._replace(retained=whole if retains else None))


def _sorted(data):
    """The distinct rows, sorted by their features: another order of the classes changes nothing."""
    data, _ = without_copies(data)
    return taken(data, np.lexsort(sortable(data.X).T[::-1]))


def _rounds(parameters):
    """When iterations over the rows of a call end."""
    return Rounds(parameters.tol, parameters.options.max_iter)


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
                model, particles, rows.whole(), _rounds(parameters), a, damping=damping
            )
            outcome = complete(drive(states, report))
        converged = outcome.converged
        *infos, last = outcome.infos
        records = stream.records.extended(infos)
        particles = outcome.particles._replace(log_pi=stream.particles.log_pi)
        return stream._replace(particles=particles, records=records), last

    stream = advance(state.stream, model, rows, parameters.options, step)
    return state._replace(stream=stream, converged=converged)


def _started(parameters, model, particles, data, rng):
    """Particles with the q(u) of some of the rows, each of them for many."""
    whole = Sample(data.X, data.y, np.zeros(len(data.weight)), data.weight)
    some = take(whole, _FIRST_ROWS, rng)
    some = some._replace(weight=some.weight * (data.weight.sum() / some.weight.sum()))
    batch = batch_of(some, len(particles.theta))
    return complete(drive(iterations(model, particles, (batch,), _rounds(parameters)))).particles


def with_results(parameters, state):
    """The state with results: weights of the particles by the evidence of all rows so far."""
    model, particles, n = state.model, state.particles, state.model.n_processes
    positions = particles.theta[::n]
    m, reasons, concerns, k = len(positions), [], [], None
    log_ratio = equal_log_weights(m)
    if parameters.weighting == "posterior" and m > 1:
        log_ratio = model.log_evidences(particles.block) - particles.log_pi[::n]
        ess = effective_sample_size(log_ratio)
        k = pareto_k(log_ratio) if m >= _MIN_FOR_K else None
        if k is not None and ess < _MIN_SHARE * m:
            reasons.append(
                f"the effective sample size is {ess:.1f} of {m} particles: {FEW_PARTICLES}"
            )
        if k is not None and heavy_tail(log_ratio, k):
            reasons.append(f"Pareto k-hat is {k:.2f} (above {MAX_K}): {FEW_PARTICLES}")
    if not state.converged:
        concerns.append(
            f"q(u) has not converged within max_iter={_rounds(parameters).max_iter} iterations: "
            "raise it"
        )
    posterior = Posterior(
        np.exp(positions), log_ratio, names=parameter_names(model.covariance.kernel),
        pareto_k=k, unavailable="it is there for 20 particles or more, with weighting='posterior'",
        support=(np.zeros(positions.shape[1]), np.full(positions.shape[1], np.inf)),
        concerns=concerns,
    )  # fmt: skip
    found = {"ess": posterior.ess, "pareto_k": k, "interrupted": False}
    diagnostics = {**found, "warnings": reasons + concerns}
    results = Results(posterior, state.stream.records, diagnostics)
    stream = state.stream._replace(particles=particles._replace(log_ratio=np.repeat(log_ratio, n)))
    return state._replace(stream=stream, results=results)


def much_open(state, X):
    """Share of the prior variance that inducing inputs leave open, where it is large; else None."""
    X, model = X[:: -(-len(X) // _CHECKED)], state.model
    theta = state.particles.theta[state.best]
    known, prior = model.whitened(theta, X), model.covariance.diagonal(theta, X)
    share = float(1.0 - np.einsum("ij,ij->", known, known) / prior.sum())
    return share if share > _MUCH_OPEN else None
