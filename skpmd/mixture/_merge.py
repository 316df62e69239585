"""Conjugate mixtures of shards of rows as one: counts of matching components add up.

The prior is in no counts, so that none of it has to be taken out again. A particle is a whole
mixture, at an optimum of its own. With each particle of the first shard goes, of each other shard,
the particle whose counts, its components relabelled, leave the sum the largest lower bound of the
evidence of the rows of both: that is Bayes' rule with the responsibilities as they were, and it
prefers particles that fit their own rows as well as those that match.

Where shards retain all rows, these are fitted. Else the rows that they retain, each for as many as
it stands for, are iterated over from the sums and from the shards' own particles: where shards have
gone to optima whose components do not match, sums are of rows that have little in common.
"""

import numpy as np

from skpmd._base.merging import refuse_copies
from skpmd._base.steps import Records
from skpmd.mixture._conjugate import Counts
from skpmd.mixture._conjugate_fit import fit_conjugate
from skpmd.mixture._relabel import matches
from skpmd.mixture._rows import distinct_rows, reservoir_size
from skpmd.mixture._summaries import points_of

# Components that match worse than this are warned of; 1 is a perfect match.
_MIN_ALIGNMENT = 0.8
_MAX_FULL_ITER = 10  # Iterations over retained rows, from mixtures that have been fitted already.


def merge_conjugate(parameters, fits, n_shards, rng):
    """The `ConjugateFit` of all rows, from those of shards with the same parameters.

    ``rng`` is the source of randomness of a fit to retained rows.
    """
    refuse_copies([fit.counts.components for fit in fits])
    first, seen = fits[0], sum(fit.n_samples_seen for fit in fits)
    rows, weight = _retained_rows(fits)
    if all(fit.retained.complete for fit in fits):
        method = f"fit to all rows, which {n_shards} shards retain"
        fit = fit_conjugate(parameters, rows, weight, rng)
        found = {"method": method, "n_shards": n_shards, "alignment": None}
        return fit._replace(n_samples_seen=seen, convergence_warnings=[], merged=found)
    model, parts, alignment = first.model, [_in_columns(first, fit) for fit in fits], []
    counts = parts[0]
    for part in parts[1:]:
        counts, match = _added(model, counts, part)
        alignment.append(match)
    method = f"sum of the counts of relabelled components of {n_shards} shards"
    if model.K > 1:  # Counts of one component are exact.
        X = rows.scaled(first.scaler)
        iterated = _iterated(model, [counts, *parts], X, weight)
        # Those have been fitted to these rows, and have gained about a nat for each coordinate by
        # chance, as often as a row counts.
        by_chance = first.prior.n_coordinates * weight.mean()
        if _score(model, iterated, X, weight) - by_chance > _score(model, counts, X, weight):
            counts = iterated
            method = f"iterations over the {len(rows)} rows that {n_shards} shards retain"
    return first._replace(
        counts=counts,
        retained=_sample_of_all(fits),
        n_samples_seen=seen,
        records=Records(),
        converged=model.K == 1 and all(fit.converged for fit in fits),
        convergence_warnings=_warnings(alignment, len(rows), seen) if model.K > 1 else [],
        merged={"method": method, "n_shards": n_shards, "alignment": alignment},
    )


def _in_columns(first, fit):
    """Counts of a fit in the scaled columns of the first."""
    scale = fit.scaler.scale / first.scaler.scale
    return first.model.rescale(fit.counts, scale, first.scaler.transform(fit.scaler.shift))


def _retained_rows(fits):
    """Distinct rows that shards retain, and how many of all rows each stands for."""
    weights = []
    for fit in fits:
        weight = fit.retained.sampled_weight()
        weights.append(weight * (fit.n_samples_seen / weight.sum()))
    X = np.concatenate([fit.retained.rows.X for fit in fits])
    return distinct_rows(X, np.concatenate(weights))


def _sample_of_all(fits):
    """The `RetainedRows` that there would have been of all rows."""
    size, total = reservoir_size(fits[0].model.K, fits[0].model.p), fits[0].retained
    for fit in fits[1:]:
        total = total.joined(fit.retained).merged().sampled(size)
    return total


def _added(model, counts, other):
    """Counts of each particle with those of the best of others, and how well these match."""
    points = [
        points_of(model, one, one.elbo)
        for one in (model.posteriors(counts), model.posteriors(other))
    ]
    order, affinity = matches(*points)
    chosen, elbo = np.empty(len(order), dtype=np.int64), np.empty(len(order))
    for i, orders in enumerate(order):
        both = _sum(counts, np.full(len(orders), i), other, np.arange(len(orders)), orders)
        bound = model.posteriors(both).elbo
        chosen[i], elbo[i] = bound.argmax(), bound.max()
    every = np.arange(len(order))
    total = _sum(counts, every, other, chosen, order[every, chosen])
    best = int(elbo.argmax())
    return total, max(0.0, float(affinity[best, chosen[best]]))


def _sum(counts, places, other, others, order):
    """Counts of particles at places, and of others with their components in an order (k, K)."""
    components = np.take_along_axis(other.components[others], order[..., None], axis=1)
    return Counts(
        counts.components[places] + components,
        counts.shared[places] + other.shared[others],
        counts.entropy[places] + other.entropy[others],
    )


def _score(model, counts, X, weight):
    """How well the best particle predicts rows."""
    return model.e_step(model.posteriors(counts), X, weight)[1].max()


def _iterated(model, starts, X, weight):
    """Counts of rows X after full-batch iterations from the best particles of several `Counts`."""
    found = [model.e_step(model.posteriors(counts), X, weight) for counts in starts]
    scores = np.concatenate([score for _, score in found])
    chosen = np.argsort(-scores, kind="stable")[: len(starts[0].entropy)]
    parts = zip(*(counts for counts, _ in found), strict=True)
    counts = Counts(*(np.concatenate(part)[np.sort(chosen)] for part in parts))
    for _ in range(_MAX_FULL_ITER - 1):
        counts, _ = model.e_step(model.posteriors(counts), X, weight)
    return counts


def _warnings(alignment, n_rows, seen):
    if min(alignment, default=1.0) >= _MIN_ALIGNMENT:
        return []
    k = int(np.argmin(alignment)) + 1
    return [
        f"components of estimators[{k}] do not match those of the estimators before it (their "
        f"alignment is {alignment[k - 1]:.2f}, and 1 where they are the same), so that the merged "
        f"mixture may be no better than a fit to the {n_rows} of {seen:g} rows that shards retain: "
        "give all shards fewer components, or fit all rows together"
    ]
