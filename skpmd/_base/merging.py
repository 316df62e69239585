"""Estimators that were fitted on disjoint shards of rows, as one: what all families ask of them."""

from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator

from skpmd._base.prior import posterior_of_prior
from skpmd._base.progress import bar_of_rounds
from skpmd.engine.diagnostics import MAX_K
from skpmd.engine.loop import drive
from skpmd.proposals import density_product
from skpmd.proposals.density_product import DensityProduct
from skpmd.proposals.fitted_density import share_beyond

SAME_CLASSES = "fit all shards with the same classes, by partial_fit(X, y, classes=all_of_them)"
SAME_TARGETS = "give all shards the same columns of y"
EXACT = "natural parameters add up, and no row could make it more exact"
# What to do about a merged posterior that is not to be trusted.
MERGED = "give X and y of all rows to merge, or fit all rows together"
MERGED_BY_ROWS = "fit all rows together"

# The merged posterior may have so much of its weight where that of a shard has a hundredth: the
# densities are hardly known there. Means of three coefficients were .17 sds off at .13.
# Where values of the posteriors are known and show no misfit that alone says nothing: of eight
# random shards one is often so far out.
_MAX_BEYOND, _MAX_BEYOND_KNOWN, _NO_MISFIT = 0.1, 0.5, 0.01
# What densities leave of the values of their posteriors may move a mean by so many sds, and where
# no values are known what they are beyond mean and covariance. On sets with coefficients that hold
# two classes apart means were .2 to .5 sds off at .18, and on others less than .06 at .05.
_MAX_MISFIT, _MAX_UNKNOWN = 0.1, 0.1
_ROUNDING = 1e-6  # Of sums of weights.


def check_alike(estimators, names=()):
    """ValueError where estimators of shards differ in these parameters, or in their columns.

    Parameters are as the fits had them; what has been set since does not count.
    """
    first = estimators[0]
    for k, other in enumerate(estimators[1:], start=1):
        for name in names:
            one, its = (_as_fitted(estimator, name) for estimator in (first, other))
            if not same(one, its):
                _refuse(name, one, its, k, "fit all shards with the same value")
        _check_columns(first, other, k)
    _refuse_copies(estimators)


def _as_fitted(estimator, name):
    return getattr(estimator, "_frozen", {}).get(name, getattr(estimator, name))


def _refuse(name, one, its, k, remedy):
    one, its = (repr(v) if np.ndim(v) == 0 else "an array" for v in (one, its))
    its += " of other values" if one == its else ""
    raise ValueError(f"{name} is {one} in estimators[0] and {its} in estimators[{k}]: {remedy}.")


def check_equal(name, values, remedy):
    """ValueError where what estimators have found, one value for each, is not the same in all."""
    for k, value in enumerate(values[1:], start=1):
        if not same(values[0], value):
            _refuse(name, values[0], value, k, remedy)


def _check_columns(first, other, k):
    one, its = (getattr(e, "n_features_in_", None) for e in (first, other))
    if one != its:
        _refuse("n_features_in_", one, its, k, "give all shards the same columns")
    names, its = (getattr(e, "feature_names_in_", None) for e in (first, other))
    if names is None or its is None or np.array_equal(names, its):
        return
    place = int(np.flatnonzero(names != its)[0])
    same_set = "in another order " if sorted(names) == sorted(its) else ""
    raise ValueError(
        f"estimators[{k}] has its columns {same_set}(column {place} is {names[place]!r} in "
        f"estimators[0] and {its[place]!r} there): fit all shards on the same columns in one order."
    )


def _refuse_copies(estimators):
    for k, one in enumerate(estimators):
        for j in range(k):
            if one is estimators[j] or one._state is estimators[j]._state:
                raise ValueError(
                    f"estimators[{k}] is estimators[{j}]: its rows would count twice. Give the fit "
                    "of each shard once."
                )


def refuse_equal_findings(values):
    """ValueError where two shards have left the very same numbers, an array for each."""
    for k, one in enumerate(values):
        for j in range(k):
            if np.array_equal(one, values[j]):
                raise ValueError(
                    f"estimators[{k}] has the same posterior as estimators[{j}], to the last "
                    "digit: its rows would count twice. Give the fit of each shard once."
                )


def refuse_forgetting(estimators):
    """ValueError where a stream has forgotten some of its rows: they would come back nowhere."""
    for k, one in enumerate(estimators):
        if one.forgetting or one.half_life is not None:
            raise ValueError(
                f"estimators[{k}] has forgetting={one.forgetting} and half_life={one.half_life}: "
                "how much its posterior holds of which rows is not known. Merge shards that were "
                "fitted with forgetting=0 and half_life=None."
            )


def refuse_rows(X, y, why):
    """ValueError where rows are given that nothing is to be done with."""
    for name, value in (("X", X), ("y", y)):
        if value is not None:
            raise ValueError(f"{name} is of no use to this merge: {why}. Leave it out.")


def refuse_earlier(priors):
    """ValueError where shards have begun with an earlier posterior, and its rows are in each."""
    for k, prior in enumerate(priors):
        if prior is not None:
            raise ValueError(
                f"estimators[{k}] was fitted with a prior, an earlier estimator, whose rows would "
                "count once for each shard: fit all shards with prior=None, and give the earlier "
                "estimator beside them as one more."
            )


def same(one, other):
    """Whether two values of a parameter, which may come out of different processes, are equal."""
    if one is other:
        return True
    if _is_posterior(one) or _is_posterior(other):
        return _is_posterior(one) and _is_posterior(other) and _same_posterior(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other))


def _is_posterior(value):
    return isinstance(value, BaseEstimator) or hasattr(value, "log_density")


def _same_posterior(one, other):
    one, other = (posterior_of_prior(prior) for prior in (one, other))
    if type(one) is not type(other):
        return False
    fields = ("particles", "log_weights") if hasattr(one, "particles") else ("loc", "scale")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fields)


def n_shards(estimators):
    """How many shards, those of estimators that were merged themselves among them."""
    return sum(merged_from(one) for one in estimators)


def density_names(n):
    """What methods call the densities of so many shards."""
    return f"the densities of {n} shards"


def check_total(total, seen):
    """ValueError where rows are not as many, weighted, as the shards have seen."""
    if abs(total - seen) > _ROUNDING * seen:
        raise ValueError(
            f"X has rows of a total weight of {total:g}, and the shards were fitted to {seen:g}: "
            "give the rows of all shards, with their sample_weight, or none."
        )


def merged_from(estimator):
    """Of how many shards an estimator is; 1 where it was fitted."""
    return getattr(estimator, "diagnostics_", {}).get("n_shards", 1)


def merge_densities(shards, posteriors, n_merged, n, rng, support=None, rows=None):
    """The `Outcome` of a product of densities, and what there is to say of it.

    Parameters
    ----------
    shards : list of Shard
        See `skpmd.proposals.density_product`.
    posteriors : list of Posterior
        Those that their densities are of.
    n_merged : int
        How many shards they are of: more than there are densities where some were merged before.
    n : int
        Draws of a round.
    rng : numpy.random.Generator
        Source of randomness.
    support : tuple of two ndarray of shape (d,), optional
        Lower and upper edges of the coordinates.
    rows : AllRows, optional
        All rows, where they are at hand.

    Returns
    -------
    outcome : Outcome
        Its reasons are what speaks against it.
    diagnostics : dict
        Of the shards.
    """
    product = DensityProduct(shards)
    with bar_of_rounds(name="merging") as report:
        what = density_names(n_merged)
        states = density_product.merged_states(product, n, rng, what, support, rows)
        outcome = drive(states, report, "the merge")
    theta, log_ratio = outcome.particles.theta, outcome.particles.log_ratio
    diagnostics = {
        "n_shards": n_merged,
        "shard_pareto_k": [shard.density.pareto_k for shard in shards],
        "shard_distance": density_product.distances(shards, theta, log_ratio).tolist(),
        "shard_beyond": [share_beyond(shard.density, theta, log_ratio) for shard in shards],
        "nonnormality": density_product.nonnormality(shards, theta, log_ratio),
        "misfit": _misfit(shards, posteriors, theta, log_ratio),
    }
    if rows is None:
        reasons = _of_densities(shards, diagnostics)
        outcome = outcome._replace(reasons=outcome.reasons + reasons)
    return outcome, diagnostics


def _misfit(shards, posteriors, theta, log_ratio):
    """That of the shards whose values are known; None where there are none of these."""
    known = [k for k, posterior in enumerate(posteriors) if posterior.log_joint is not None]
    if not known:
        return None
    particles = [
        (posteriors[k].particles, posteriors[k].log_weights, posteriors[k].log_joint) for k in known
    ]
    return density_product.misfit(shards, [*zip(known, particles, strict=True)], theta, log_ratio)


def _of_densities(shards, diagnostics):
    """What speaks against a product of densities, which no row has weighed."""
    reasons, densities = [], [shard.density for shard in shards]
    tails = [k for k, density in enumerate(densities) if density.misses_a_tail]
    if tails:
        reasons.append(
            f"Pareto k-hat of the posterior of estimators[{tails[0]}] over the density that stands "
            f"for it is {densities[tails[0]].pareto_k:.2f} (above {MAX_K}): that density misses a "
            f"tail{_and_others(tails)}"
        )
    shift = diagnostics["misfit"]
    is_known = shift is not None and shift < _NO_MISFIT
    limit = _MAX_BEYOND_KNOWN if is_known else _MAX_BEYOND
    beyond = [k for k, share in enumerate(diagnostics["shard_beyond"]) if share > limit]
    if beyond:
        share = diagnostics["shard_beyond"][beyond[0]]
        reasons.append(
            f"{share:.0%} of the merged posterior is where that of estimators[{beyond[0]}] has a "
            f"hundredth of its mass, and where its density is hardly known{_and_others(beyond)}: "
            "the shards disagree"
        )
    if shift is not None and shift > _MAX_MISFIT:
        reasons.append(
            "where the merged posterior is, densities differ from the shards' posteriors by what "
            + (
                f"moves a mean by {shift:.2f} standard deviations, to first order"
                if np.isfinite(shift)
                else "nothing tells: particles of a shard hardly come near it"
            )
        )
    shift = diagnostics["nonnormality"]
    if shift > _MAX_UNKNOWN and any(density.pareto_k is None for density in densities):
        reasons.append(
            "nothing tells how well densities stand for shards that Hamiltonian moves have found, "
            f"and what they are beyond mean and covariance moves a mean by {shift:.2f} standard "
            "deviations"
        )
    return tuple(reasons)


def _and_others(places):
    return f" ({len(places) - 1} others alike)" if len(places) > 1 else ""


def inherited(estimators):
    """Reasons to warn that the shards have brought along."""
    found = [
        (k, one.diagnostics_["warnings"])
        for k, one in enumerate(estimators)
        if one.diagnostics_["warnings"]
    ]
    if not found:
        return ()
    k, reasons = found[0]
    others = _and_others([k for k, _ in found])
    return (f"the posterior of estimators[{k}] is not to be trusted: {reasons[0]}{others}",)
