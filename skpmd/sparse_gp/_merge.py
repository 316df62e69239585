"""Gaussian processes of shards of rows as one: natural parameters of q(u) add up.

Those of a block are what rows have added to the prior N(0, I) of v = L^-1 u, which is in none of
them. So the sum over shards with one kernel and one set of inducing inputs is that of all rows; an
earlier posterior that all shards have begun with is in each of them, and is taken out again.
"""

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skpmd._base.merging import check_equal, refuse_equal_findings
from skpmd._base.records import Records
from skpmd._base.streaming import Stream

# Rows that are approximated as they were in their shard are merged well where shards agree: random
# shards were .3 to 1.1 away, and those sorted by their label 1.8 and more, at probabilities that
# were .13 to .25 off.
_MAX_DISTANCE = 1.5
_FIX = (
    "fit one estimator on some rows with normalize_y=False, n_particles=1 and an approximation by "
    "inducing inputs, and give its kernel_ as kernel, optimizer=None, and its inducing_ as "
    "inducing_init to those of all shards"
)


def refuse_approximations(names):
    """ValueError where a process is not one of inducing inputs, by the names of approximations."""
    for k, name in enumerate(names):
        if name in ("vecchia", "full_scale"):
            raise ValueError(
                f"estimators[{k}] has approximation_={name!r}, by neighbours, which retains its "
                f"rows and has no natural parameters to add: {_FIX}."
            )
    check_equal("approximation_", names, "set approximation to the same")


def merged(states, earlier, n_processes=1):
    """The first state with q(u) given the rows of all; its results are still those of the first.

    Parameters
    ----------
    states : list of GPState or ClassifierState
        One for each shard.
    earlier : list
        The state that each shard has begun with, None where it began with no rows.
    n_processes : int
        Rows of the particles that belong to one set of hyperparameters.
    """
    for k, state in enumerate(states):
        m = len(state.particles.theta) // n_processes
        if m > 1:
            raise ValueError(
                f"estimators[{k}] has {m} particles, whose kernels are not those of others: {_FIX}."
            )
    first = states[0]
    for k, state in enumerate(states):
        _check_alike(first, state, f"estimators[{k}]")
    refuse_equal_findings([state.particles.block for state in states])
    block = sum(state.particles.block for state in states)
    seen, surplus = sum(state.stream.seen for state in states), _surplus(first, earlier)
    if surplus is not None:
        block = block - (len(states) - 1) * surplus.particles.block
        seen -= (len(states) - 1) * surplus.stream.seen
    stream = Stream(first.particles._replace(block=block), None, Records(), seen, first.stream.rng)
    return first._replace(
        stream=stream, retained=None, n_fitted=sum(state.n_fitted for state in states)
    )


def _surplus(first, earlier):
    """The state that all shards have begun with, or None; ValueError where they differ in it."""
    known = [state for state in earlier if state is not None]
    if not known:
        return None
    blocks = [state.particles.block for state in known]
    if len(known) < len(earlier) or any(not np.array_equal(blocks[0], one) for one in blocks):
        raise ValueError(
            "prior is not the same fitted estimator in all shards: begin all of them with one, or "
            "none of them with any."
        )
    _check_alike(first, known[0], "the prior")
    return known[0]


def _check_alike(one, other, where):
    """ValueError where a process differs from that of the first shard, with what to do."""
    both = one, other
    kernels = [state.model.covariance.kernel.clone_with_theta(state.theta) for state in both]
    values = [_values(kernel.get_params()) for kernel in kernels]
    if values[0] != values[1]:
        raise ValueError(
            f"kernel_ is {kernels[0]} in estimators[0] and {kernels[1]} in {where}: {_FIX}."
        )
    for name, remedy in (("scaler", "set normalize_y=False for all"), ("alpha", "set it alike")):
        values = [np.ravel(getattr(state, name, 0.0)) for state in (one, other)]
        if not np.array_equal(*values):
            what = "the mean and scale of y" if name == "scaler" else name
            raise ValueError(
                f"{what} are {values[0]} in estimators[0] and {values[1]} in {where}: {remedy}."
            )
    if not np.array_equal(one.model.inducing, other.model.inducing):
        shapes = [state.model.inducing.shape for state in (one, other)]
        raise ValueError(
            f"inducing_ of shape {shapes[0]} in estimators[0] are not those of {where}, of shape "
            f"{shapes[1]}: {_FIX}."
        )


def _values(parameters):
    """Values of all hyperparameters of a kernel and the classes that it is made of; no bounds."""
    return {
        name: type(value).__name__ if isinstance(value, Kernel) else np.asarray(value).tolist()
        for name, value in parameters.items()
        if not name.endswith("_bounds")
    }


def monitored(states):
    """Some rows of all shards, for warnings of inducing inputs."""
    first, *others = (state.monitored for state in states)
    for other in others:
        first = first.after(other.past, 0.0)
    return first


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
