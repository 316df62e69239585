"""Conjugate mixtures of shards of rows as one: counts of matching components add up.

The prior is in no counts, so that none of it has to be taken out again. A particle is a whole
mixture, at an optimum of its own. With each particle of the first shard goes, of each other shard,
the particle whose counts, its components relabelled, leave the sum the largest lower bound of the
evidence of the rows of both: that is Bayes' rule with the responsibilities as they were, and it
prefers particles that fit their own rows as well as those that match.
"""

import copy

import numpy as np

from skpmd._base.merging import refuse_equal_findings
from skpmd._base.records import Records
from skpmd.mixture._conjugate import ConjugateMixture, Counts
from skpmd.mixture._conjugate_fit import prior_of_now
from skpmd.mixture._relabel import matches
from skpmd.mixture._reservoir import reservoir_size, retained_of
from skpmd.mixture._rows import RowView, joined
from skpmd.mixture._summaries import points_of

# Components that match worse than this are warned of; 1 is a perfect match.
_MIN_ALIGNMENT = 0.7


def check_conjugate(strategies):
    """ValueError where a shard's particles are draws of all parameters, which no formula adds."""
    for k, strategy in enumerate(strategies):
        if strategy != "conjugate":
            raise ValueError(
                f"estimators[{k}] has strategy_={strategy!r}, whose draws have no counts to add: "
                "set strategy='conjugate' for all shards."
            )


def merge_conjugate(parameters, fits, n_shards):
    """The `ConjugateFit` of all rows, from those of shards with the same parameters.

    Columns are scaled as in the first, and defaults of the prior are those of all rows, as far as
    they are retained.
    """
    refuse_equal_findings([fit.counts.components for fit in fits])
    first = fits[0]
    reservoir = _joined_reservoirs(fits)
    parts = [_in_columns(first, fit) for fit in fits]
    total = sum(fit.counts.total for fit in fits)
    sums = sum(part.components[0, :, 1 : 1 + first.model.p].sum(axis=0) for part in parts)
    prior = prior_of_now(parameters, first.scaler, reservoir, total, sums)
    model = ConjugateMixture(prior, first.scaler.log_jacobian)
    counts, alignment = parts[0], []
    for part in parts[1:]:
        counts, match = _added(model, counts, part)
        alignment.append(match)
    return first._replace(
        model=model,
        prior=prior,
        counts=counts,
        reservoir=reservoir,
        n_samples_seen=sum(fit.n_samples_seen for fit in fits),
        n_rows_fitted=len(reservoir.X) if reservoir.complete else sum(f.n_rows_fitted for f in fits),
        records=Records(),
        converged=model.K == 1 and all(fit.converged for fit in fits),
        convergence_warnings=_warnings(alignment),
        interrupted=False,
        rng=copy.deepcopy(first.rng),
        merged={
            "method": f"sum of the counts of relabelled components of {n_shards} shards",
            "n_shards": n_shards,
            "alignment": alignment,
        },
    )


def _in_columns(first, fit):
    """Counts of a fit in the scaled columns of the first."""
    scale = fit.scaler.scale / first.scaler.scale
    return first.model.rescale(fit.counts, scale, first.scaler.transform(fit.scaler.shift))


def _joined_reservoirs(fits):
    """The sample that would have been retained of all rows."""
    total = fits[0].reservoir
    for fit in fits[1:]:
        other, complete = fit.reservoir, total.complete and fit.reservoir.complete
        rows = RowView(other.X, np.arange(len(other.X)))
        rows, weight = joined(rows, other.weight, total)
        total = retained_of(rows, weight, reservoir_size(fits[0].model.K), complete)
    return total


def _added(model, counts, other):
    """Counts of each particle with those of the best of others, and how well these match."""
    posteriors = model.posteriors(counts), model.posteriors(other)
    points = [points_of(model, one, one.elbo) for one in posteriors]
    order, affinity = matches(*points)
    chosen, elbo = np.empty(len(order), dtype=np.int64), np.empty(len(order))
    for i in range(len(order)):
        both = _sum(counts, np.full(len(order[i]), i), other, np.arange(len(order[i])), order[i])
        bound = model.posteriors(both).elbo
        chosen[i], elbo[i] = bound.argmax(), bound.max()
    every = np.arange(len(order))
    total = _sum(counts, every, other, chosen, order[every, chosen])
    best = int(elbo.argmax())
    return total, float(affinity[best, chosen[best]])


def _sum(counts, places, other, others, order):
    """Counts of particles at places, and of others with their components in an order (k, K)."""
    components = np.take_along_axis(other.components[others], order[..., None], axis=1)
    return Counts(
        counts.components[places] + components,
        counts.shared[places] + other.shared[others],
        counts.entropy[places] + other.entropy[others],
    )


def _warnings(alignment):
    if min(alignment, default=1.0) >= _MIN_ALIGNMENT:
        return []
    k = int(np.argmin(alignment)) + 1
    return [
        f"components of estimators[{k}] do not match those of the estimators before it (their "
        f"alignment is {alignment[k - 1]:.2f}, and 1 where they are the same), so that sums of "
        "their counts are of rows that have little in common: give all shards fewer components, or "
        "fit all rows together"
    ]
