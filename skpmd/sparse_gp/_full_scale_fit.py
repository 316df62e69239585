"""Fits of a process with inducing inputs and neighbours for what they leave."""

import numpy as np

from skpmd._runtime.call import phase, write
from skpmd.engine import mirror
from skpmd.sparse_gp._data import Sample
from skpmd.sparse_gp._full_scale import FullScaleGP
from skpmd.sparse_gp._inducing import choose
from skpmd.sparse_gp._vecchia_fit import fit_vecchia, update_vecchia

# Neighbours of a prediction by default: fewer than where there are no inducing inputs.
_N_PREDICTION = 50
# Inducing inputs by default: this share of the rows, inside these numbers, and fewer where rows are
# many, so that no more numbers are held in memory.
_SHARE, _MIN_INDUCING, _MAX_INDUCING, _FEWEST, _MAX_STORED = 0.4, 1000, 3000, 100, 1 << 25


def fit_full_scale(parameters, data):
    """The state after a fit to all rows; the kernel is that of neighbours."""
    parameters = _with_number(parameters)
    return with_inducing(parameters, fit_vecchia(parameters, data))


def update_full_scale(parameters, state, data):
    """The state after one call's rows of a stream, which are retained as far as there is room."""
    if state is None:
        return fit_full_scale(parameters, data)
    before = state._replace(model=state.model.rows)
    after = update_vecchia(parameters, before, data)
    return state if after is before else with_inducing(parameters, after)


@phase("pass with inducing inputs")
def with_inducing(parameters, state):
    """The state of a process by neighbours, with inducing inputs: one pass over its rows."""
    positions, rng = state.particles.theta, state.stream.rng
    model = new_full_scale(parameters, state.model, state.theta, len(positions), rng)
    write(f"one pass with {model.n_inducing} inducing inputs")
    particles = state.particles._replace(block=model.prior_block(positions))
    still = mirror.Settings(rejuvenation="never")
    particles, _ = mirror.step(particles, model, model.batches(), 0.0, 1.0, still, rng)
    return state._replace(model=model, stream=state.stream._replace(particles=particles))


def _with_number(parameters):
    """The parameters with a number of particles: one by default, for predictions cost much."""
    if parameters.n_particles != "auto" or parameters.weighting == "posterior":
        return parameters
    return parameters._replace(n_particles=1)


def new_full_scale(parameters, rows, theta, n_particles, rng):
    """The process with some of the ``rows``, a `VecchiaGP`, as inducing inputs."""
    sites, n = rows.sites, parameters.n_inducing
    n = n_beside(len(sites.weight), n_particles) if n == "auto" else n
    sample = Sample(sites.X, sites.y, sites.noise_variance, sites.weight)
    inducing = choose(parameters.inducing_init, sample, n, rows.covariance, theta, rng)
    n_nearest = _N_PREDICTION if parameters.n_neighbors == "auto" else parameters.n_neighbors
    return FullScaleGP(rows, inducing, parameters.jitter, n_nearest)


def n_beside(n_rows, n_particles):
    """How many inducing inputs there are beside neighbours by default."""
    n = np.clip(int(_SHARE * n_rows), _MIN_INDUCING, _MAX_INDUCING)
    return int(min(n, max(_FEWEST, _MAX_STORED // (n_rows * n_particles))))
