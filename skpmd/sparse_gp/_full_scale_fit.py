"""Fits of a process with inducing inputs and neighbours for what they leave."""

from skpmd._base.progress import write_line
from skpmd.engine import mirror, weighting
from skpmd.engine.particles import Particles
from skpmd.sparse_gp._data import Sample
from skpmd.sparse_gp._fit import with_results
from skpmd.sparse_gp._full_scale import FullScaleGP
from skpmd.sparse_gp._hyperparameters import MAX_HELD, n_inducing
from skpmd.sparse_gp._inducing import choose
from skpmd.sparse_gp._vecchia_fit import fit_vecchia, update_vecchia

# Neighbours of a prediction by default: fewer than where there are no inducing inputs.
_N_PREDICTION = 50
# Particles average by default where all of them together hold so many numbers of the rows at most:
# each predicts at the cost of some tens of rows times the inducing inputs.
_CHEAP = 1 << 21
_FEWEST = 100  # Inducing inputs by default, at least: they are fewer where rows are many.


def fit_full_scale(parameters, data):
    """The state after a fit to all rows; the kernel is that of neighbours."""
    return with_inducing(parameters, fit_vecchia(parameters, data))


def update_full_scale(parameters, state, data):
    """The state after one call's rows of a stream, which are retained as far as there is room."""
    if state is None:
        return fit_full_scale(parameters, data)
    before = state._replace(model=state.model.rows)
    after = update_vecchia(parameters, before, data)
    return state if after is before else with_inducing(parameters, after)


def with_inducing(parameters, state):
    """The state of a process by neighbours, with inducing inputs: one pass over its rows."""
    rng, m = state.stream.rng, len(state.particles.theta)
    model = new_full_scale(parameters, state.model, state.theta, m, rng)
    if _may_drop(parameters) and m * len(state.model.sites.weight) * model.n_inducing > _CHEAP:
        state = _of_the_best(state)
    write_line(f"one pass with {model.n_inducing} inducing inputs", parameters.verbose)
    particles = state.particles._replace(block=model.prior_block(state.particles.theta))
    still = mirror.Settings(rejuvenation="never")
    particles, _ = mirror.step(particles, model, model.batches(), 0.0, 1.0, still, rng)
    return state._replace(model=model, stream=state.stream._replace(particles=particles))


def _may_drop(parameters):
    return parameters.n_particles == "auto" and parameters.weighting != "posterior"


def _of_the_best(state):
    """The state with the particle of the largest evidence alone, which comes first."""
    stream = state.stream._replace(particles=Particles(*(one[:1] for one in state.particles)))
    return with_results(state._replace(stream=stream, log_weights=weighting.uniform(1)))


def new_full_scale(parameters, rows, theta, n_particles, rng):
    """The process with some of the ``rows``, a `VecchiaGP`, as inducing inputs."""
    sites, n = rows.sites, parameters.n_inducing
    if n == "auto":
        m = 1 if _may_drop(parameters) else n_particles
        held = MAX_HELD // (len(sites.weight) * m)
        n = min(n_inducing("auto", sites.weight.sum()), max(_FEWEST, held))
    sample = Sample(sites.X, sites.y, sites.noise_variance, sites.weight)
    inducing = choose(parameters.inducing_init, sample, n, rows.covariance, theta, rng)
    n_nearest = _N_PREDICTION if parameters.n_neighbors == "auto" else parameters.n_neighbors
    return FullScaleGP(rows, inducing, parameters.jitter, n_nearest)
