"""Gaussian processes of shards of rows as one: natural parameters of q(u) add up.

Those of a block are what rows have added to the prior N(0, I) of v = L^-1 u, which is in none of
them. So the sum over shards with one kernel and one set of inducing inputs is that of all rows.
"""

import numpy as np

from skpmd._base.merging import check_equal, refuse_copies
from skpmd._base.steps import Records, Stream
from skpmd.sparse_gp._model import NEAR

# Rows that are approximated as they were in their shard are merged well where shards agree: random
# shards were .3 to 1.1 away, and those sorted by their label 1.8 and more, at probabilities that
# were .13 to .25 off.
_MAX_DISTANCE = 1.5
_FIX = (
    "fit one estimator on some rows with normalize_y=False, n_particles=1 and an approximation by "
    "inducing inputs, and give its kernel_ as kernel, optimizer=None, and its inducing_ as "
    "inducing_init to those of all shards"
)


def refuse_neighbours(names):
    """ValueError where a process is not one of inducing inputs, by the names of approximations."""
    for k, name in enumerate(names):
        if name in NEAR:
            raise ValueError(
                f"estimators[{k}] has approximation_={name!r}, by neighbours, which retains its "
                f"rows and has no natural parameters to add: {_FIX}."
            )
    check_equal("approximation_", names)


def merged(estimators):
    """The first state with q(u) given the rows of all; its results are still those of the first."""
    states = [one._state for one in estimators]
    for k, state in enumerate(states):
        m = len(state.particles.theta) // state.model.n_processes
        if m > 1:
            raise ValueError(
                f"estimators[{k}] has {m} particles, whose kernels are not those of others: {_FIX}."
            )
    check_equal("kernel_", [one.kernel_ for one in estimators], _FIX)
    check_equal("inducing_", [one.inducing_ for one in estimators], _FIX)
    check_equal("The codes of categories", [str(state.categories) for state in states], _FIX)
    scalers = [np.ravel(state.scaler) for state in states]
    check_equal("The mean and the scale of y", scalers, "set normalize_y=False for all")
    check_equal("alpha", [state.alpha for state in states])
    refuse_copies([state.particles.block for state in states])
    first, block = states[0], sum(state.particles.block for state in states)
    seen = sum(state.stream.seen for state in states)
    stream = Stream(first.particles._replace(block=block), None, Records(), seen, first.stream.rng)
    return first._replace(
        stream=stream, retained=None, n_fitted=sum(state.n_fitted for state in states)
    )


def distances(states, state):
    """How far the merged mean of the inducing values is from that of each shard, in its own units.

    They are about 1 or less where shards agree; of several processes the largest counts.
    """
    theta, whole = state.particles.theta, state.particles.block
    return [max(map(state.model.distance, theta, one.particles.block, whole)) for one in states]


def disagreement(distances):
    """Reasons to warn where rows are weighed as they were in shards that disagree."""
    k = int(np.argmax(distances))
    if distances[k] <= _MAX_DISTANCE:
        return []
    return [
        f"the merged mean of the inducing values is {distances[k]:.1f} times as far from that of "
        f"estimators[{k}] as draws of its posterior are: the shards disagree, and each row is "
        "weighed as its own shard has seen it"
    ]


def described(state, method, n_shards, distances, reasons=()):
    """The state, whose diagnostics say that it was merged, and what speaks against it."""
    found = state.results.diagnostics
    found = {**found, "method": method, "n_shards": n_shards, "shard_distance": distances}
    found["warnings"] = [*found["warnings"], *reasons]
    return state._replace(results=state.results._replace(diagnostics=found))
