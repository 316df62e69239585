"""Estimators that were fitted on disjoint shards of rows, as one: what all families ask of them."""

import numpy as np
from sklearn.base import BaseEstimator

from skpmd._base.options import convergence_reasons, misfit_reasons
from skpmd._base.steps import bar_of_rounds
from skpmd.engine.loop import drive
from skpmd.engine.particles import effective_sample_size
from skpmd.proposals.density_product import DensityProduct, merged_states
from skpmd.proposals.fitted_density import share_beyond

# What to do about a merged posterior that is not to be trusted.
MERGED = "give X and y of all rows to merge, or fit all rows together"
MERGED_BY_ROWS = "fit all rows together"

_REMEDIES = {
    "n_features_in_": "give all shards the same columns",
    "feature_names_in_": "fit all shards on the same columns in one order",
    "classes_": "fit all shards with the same classes, by partial_fit(X, y, classes=all_of_them)",
}
_ROUNDING = 1e-6  # Of sums of weights.
# The densities of all shards may lack so many nats of their posteriors, root mean square, and so
# many where more of the merged posterior than this share is in the outermost hundredth of a
# shard's: densities are extrapolated there. Of 107 logistic regressions without their rows, in 2 to
# 16 shards of 50 to 2000 rows (2 to 10 columns, rare classes, skewed columns, prior scales of .3 to
# 10), 18 were more than .15 sds off and 73 within .05: 17 and 4 of these are warned of. See
# tests/linear/test_merge.py, test_densities_that_are_extrapolated_have_to_be_nearer.
_MAX_MISFIT, _MAX_MISFIT_BEYOND, _BEYOND = 0.3, 0.05, 0.5
_MIN_ESS = 0.01  # Of the draws of a product; of those that have a density it is more than a half.


def check_alike(estimators, names):
    """ValueError where shards cannot be merged: they differ, or count rows that others count too.

    They must be alike in the parameters of these names, and in their columns and classes.
    Parameters are as the fits had them; what has been set since does not count.
    """
    for k, one in enumerate(estimators):
        prior = getattr(one, "prior", None)
        if isinstance(prior, BaseEstimator) or hasattr(prior, "log_weights"):
            raise ValueError(
                f"prior of estimators[{k}] is an earlier posterior, whose rows would count once for"
                " each shard: fit all shards without it, and give the earlier estimator beside "
                "them as one more."
            )
        forgetting, half_life = (getattr(one, name, None) for name in ("forgetting", "half_life"))
        if forgetting or half_life is not None:
            raise ValueError(
                f"estimators[{k}] has forgetting={forgetting} and half_life={half_life}: how much "
                "its posterior holds of which rows is not known. Merge shards that were fitted "
                "with forgetting=0 and half_life=None."
            )
    for name in (*names, *_REMEDIES):
        values = [getattr(e, "_frozen", {}).get(name, getattr(e, name, None)) for e in estimators]
        if name != "feature_names_in_" or all(value is not None for value in values):
            check_equal(name, values)


def check_equal(name, values, remedy=None):
    """ValueError where what estimators have, one value for each, is not the same in all."""
    for k, value in enumerate(values[1:], start=1):
        if not np.array_equal(values[0], value):
            first, own = map(_shown, (values[0], value))
            own = "another" if own == first else own
            remedy = remedy or _REMEDIES.get(name, "fit all shards with the same value")
            raise ValueError(
                f"{name} is {first} in estimators[0] and {own} in estimators[{k}]: {remedy}."
            )


def _shown(value):
    if np.size(value) > 10:
        return "an array"
    return repr(value) if np.ndim(value) == 0 else str(value)


def refuse_copies(findings):
    """ValueError where two shards have left the very same numbers, an array for each."""
    for k, one in enumerate(findings):
        for j in range(k):
            if np.array_equal(one, findings[j]):
                raise ValueError(
                    f"estimators[{k}] has the same posterior as estimators[{j}], to the last "
                    "digit: its rows would count twice. Give the fit of each shard once."
                )


def refuse_rows(X, y, why):
    """ValueError where rows are given that nothing is to be done with."""
    for name, value in (("X", X), ("y", y)):
        if value is not None:
            raise ValueError(f"{name} is of no use to this merge: {why}. Leave it out.")


def check_total(total, seen, which=""):
    """ValueError where rows, all or those named, are not as many, weighted, as shards have seen."""
    if abs(total - seen) > _ROUNDING * seen:
        raise ValueError(
            f"X has rows {which}of a total weight of {total:g}, and the shards were fitted to "
            f"{seen:g}: "
            "give the rows of all shards, with their sample_weight, or none."
        )


def n_shards(estimators):
    """How many shards, those of estimators that were merged themselves among them."""
    return sum(getattr(one, "diagnostics_", {}).get("n_shards", 1) for one in estimators)


def density_names(n):
    """What methods call the densities of so many shards."""
    return f"the densities of {n} shards"


def inherited(estimators):
    """Reasons to warn that the shards have brought along."""
    for k, one in enumerate(estimators):
        if one.diagnostics_["warnings"]:
            reason = one.diagnostics_["warnings"][0]
            return (f"the posterior of estimators[{k}] is not to be trusted: {reason}",)
    return ()


def merge_densities(shards, n_merged, n, rng, support=None, rows=None):
    """The `Outcome` of a product of densities, and what there is to say of it, a dict.

    ``shards`` are a list of `skpmd.proposals.density_product.Shard`, of ``n_merged`` shards: more
    than there are densities where some were merged before. A round has ``n`` draws, and ``support``
    are two arrays (d,) of edges. For all ``rows``, where they are at hand, see
    `skpmd.proposals.density_product.merged_states`.
    """
    with bar_of_rounds(name="merging") as report:
        states = merged_states(DensityProduct(shards), n, rng, support, rows)
        outcome = drive(states, report, "the merge")
    theta, log_ratio = outcome.particles.theta, outcome.particles.log_ratio
    ess = effective_sample_size(log_ratio)
    if rows is None and ess < _MIN_ESS * len(theta):
        raise ValueError(
            f"The product of the densities of the shards over {len(shards) - 1} of their priors is "
            f"no density that draws can be weighed by ({ess:.0f} of {len(theta)} count): the prior "
            "is about as narrow as the posteriors of shards, or these contradict each other. Give "
            "X and y of all rows to merge, shards of more rows, or fit all rows together."
        )
    densities, reasons = [shard.density for shard in shards], ()
    beyond = [share_beyond(density, theta, log_ratio) for density in densities]
    for k, density in enumerate(densities):
        if rows is None and not reasons:
            whose = f"the posterior of estimators[{k}]"
            reasons = convergence_reasons(density, outcome.particles, whose)
    if rows is None and not reasons:
        known = [density.misfit for density in densities if density.pareto_k is not None]
        most = _MAX_MISFIT_BEYOND if max(beyond) > _BEYOND else _MAX_MISFIT
        reasons = misfit_reasons(np.linalg.norm(known), "the posteriors of all shards", most)
    by = "reweighting of proposals by" if rows is None else "importance reweighting of draws of"
    found = {
        "method": f"{by} {density_names(n_merged)}",
        "n_shards": n_merged,
        "shard_pareto_k": [density.pareto_k for density in densities],
        "shard_beyond": beyond,
    }
    return outcome.with_findings(reasons=outcome.findings.reasons + reasons), found
