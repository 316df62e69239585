"""Densities of rows that the components of a conjugate mixture do not know, in closed form.

Given the responsibilities of all other rows those of a row are taken out of the components'
sufficient statistics, by a change of rank one: no sampling, and nothing is fitted anew. With one
component this is exact; with several what is left out is that other rows would have had slightly
different responsibilities. Such densities choose the weights of stacking, tell whether later rows
of a stream are unlike those before, and are what leaving one out asks for.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from skpmd._base.leave_one_out import LeftOut, check_rows_of_fit
from skpmd.engine.particles import stacked as weights_by_stacking
from skpmd.mixture._rows import RowView

# Stacking ends after so many iterations or when the score gains less, and so many rows speak for
# the weights at the start, so that none becomes 0.
_STACKING = {"max_iter": 100, "tol": 1e-5, "prior_rows": 1.0}
# A stream's rows are fitted anew where rows since the last fit, this share of all or more, have
# changed the mean log density of all by so many nats, beyond so many standard errors.
_GROWN, UNLIKE, _ERRORS = 0.1, 0.05, 3.0


# ---------------------------------------------------------------------- rows that a fit retains
class LeftOutRows(NamedTuple):
    """Log densities of n retained rows under components that do not know them."""

    log_mixing: np.ndarray  # (m, K): Of the components.
    table: np.ndarray  # (n, m K): Relative to the row's largest, of which float32 says enough.
    largest: np.ndarray  # (n,): These, in the user's columns.
    weight: np.ndarray  # (n,): How often each row counts.


def _of_retained(fit):
    """`LeftOutRows` of a `skpmd.mixture._conjugate_fit.ConjugateFit`."""
    posteriors = fit.model.posteriors(fit.counts)
    weight, X = fit.retained.sampled_weight(), RowView(fit.retained.rows.X, scaler=fit.scaler)
    table = np.empty((len(X), posteriors.log_mixing.size), dtype=np.float32)
    largest = np.empty(len(X))
    # No more of a row than there is: weights below 1 have left less of it.
    for rows, part, _ in fit.model.left_out(posteriors, X, np.minimum(weight, 1.0)):
        largest[rows] = part.max(axis=1)
        table[rows] = part - largest[rows, None]
    return LeftOutRows(posteriors.log_mixing, table, largest + fit.scaler.log_jacobian, weight)


def stacked(fit):
    """Log weights (m, K) of the average of all components that predicts rows best, and how well.

    That is the mean log density, in the user's columns, of a retained row that components do not
    know.
    """
    log_mixing, table, largest, weight = _of_retained(fit)
    start = log_mixing.ravel() - np.log(len(log_mixing))
    found = weights_by_stacking(table, weight, start, **_STACKING)
    score = np.log(np.maximum(np.exp(table) @ np.exp(found), 1e-300)) + largest
    return found.reshape(log_mixing.shape), np.average(score, weights=weight)


class Drift(NamedTuple):
    """What a fit predicted of rows like its own, and how densities of later ones differ."""

    expected: float  # Mean log density of a row that the best particle does not know.
    sd: float  # Of that of a row.
    n_fitted: float  # Weighted rows that say so.
    n_since: float = 0.0  # Weighted rows since.
    excess: float = 0.0  # Sum of their log densities over what was expected.

    @classmethod
    def of(cls, fit):
        """Of rows like those that a `skpmd.mixture._conjugate_fit.ConjugateFit` retains."""
        log_mixing, table, largest, weight = _of_retained(fit)
        score = logsumexp(table.reshape(-1, *log_mixing.shape) + log_mixing, axis=2).T + largest
        score = score[(score @ weight).argmax()]
        expected = np.average(score, weights=weight)
        sd = np.sqrt(np.average((score - expected) ** 2, weights=weight))
        return cls(float(expected), float(sd), float(weight.sum()))

    def after(self, log_density, size):
        """The same after so many more weighted rows of this mean log density."""
        excess = self.excess + size * (log_density - self.expected)
        return self._replace(n_since=self.n_since + size, excess=excess)

    def are_unlike(self, total):
        """Whether the rows since then make all rows, of this total weight, unlike those fitted."""
        if self.n_since < _GROWN * total:
            return False
        error = self.sd * np.sqrt(self.n_since * (1.0 + self.n_since / self.n_fitted))
        return abs(self.excess) > UNLIKE * total + _ERRORS * error


# ---------------------------------------------------------------------- rows of the user
def leave_one_out(state, predictive, X, times, seen):
    """`LeftOut` of the rows of a conjugate `MixtureState`.

    ``predictive`` are its `MixtureParticles` for predictions, X a `RowView` of the rows, ``times``
    (n,) how often each counts, and ``seen`` (n,) their log densities by the fit with them. Rows are
    taken out of the mixing weights, too.
    """
    model, counts, scaler = state.fit.model, state.fit.counts, state.scaler
    check_rows_of_fit(times, counts.total)
    stacks, parts = state.weighting == "stacking", []
    weights, shape = np.exp(predictive.log_predictive.ravel()), counts.sizes.shape
    for rows, log_density, resp in model.left_out(model.posteriors(counts), X, times):
        if stacks:
            parts.append(_stacked(log_density, weights, times[rows], state.n_samples_seen))
            continue
        sizes = np.maximum(counts.sizes - resp.reshape(-1, *shape), 0.0)
        log_mixing = model.weights.log_mean(sizes.reshape(-1, model.K))
        joint = (log_density + log_mixing.reshape(log_density.shape)).reshape(-1, *shape)
        parts.append(logsumexp(joint, axis=2))
    table = np.concatenate(parts).T + scaler.log_jacobian
    if stacks:
        return LeftOut(np.zeros(1), table[None], None, seen)
    log_evidence = times * table if state.weighting == "posterior" else None
    return LeftOut(state.points.log_weights, table, log_evidence, seen)


def _stacked(log_density, weights, times, total):
    """Log densities (n,) of the average that is stacked without the row itself.

    Weights of stacking are mean responsibilities of the rows, and of one row more that is its
    start: what the row left out has in these is taken away. That is the first step of the search
    for the weights of the other rows.
    """
    with np.errstate(divide="ignore"):
        own = softmax(log_density + np.log(weights), axis=1)
        left = np.maximum((total + 1.0) * weights - times[:, None] * own, 0.0)
        return logsumexp(log_density + np.log(left), axis=1) - np.log(left.sum(axis=1))
