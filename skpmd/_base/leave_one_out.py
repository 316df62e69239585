"""Densities of rows given all others, by importance weights, and which are not to be trusted."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from skpmd.engine.diagnostics import MAX_K, heavy_tail, max_k, pareto_smoothed, tail_length
from skpmd.engine.particles import effective_sample_size

# Particles under which a row is impossible may have so much weight together, by rounding.
_NEGLIGIBLE = 1e-6
# k-hat is above 0.7 beyond doubt by so many of its standard errors; a row's contribution is not to
# be trusted from this error on, in nats.
_ERRORS, _LARGE_ERROR = 1.64, 0.3


class LeftOut(NamedTuple):
    """Predictions of n rows, each given all others, under m particles.

    An estimator hands it over by ``_leave_one_out(X, y, times)``, where a row is left out with all
    its copies, ``times`` (n,) of them; or None where it has no closed form but particles that rows
    are independent given, and ``pointwise_log_likelihood``. Such an estimator may refuse rows that
    are not those of its fit by ``_check_rows_of_fit(times)``.
    """

    log_weights: np.ndarray  # (m,): Of the particles, sum of exp 1.
    log_density: np.ndarray  # (m, n): Of one copy of the row, given all other rows.
    # (m, n): Of all its copies together, by which the particles' weights change without them; None
    # where the weights stay as they are, for they are none of a posterior.
    log_evidence: np.ndarray | None
    seen: np.ndarray  # (n,): Log predictive density of the row by the fit that it was in.
    # Effective number of particles, where it is smaller than what their weights say.
    ess: float = np.inf
    # (n,): Rows without which points are possible that no particle can be at; None is no row.
    closing: np.ndarray | None = None
    what: str = "rows"  # What is left out.


def check_rows_of_fit(times, total):
    """ValueError where rows, ``times`` (n,) of each, are not all rows of the fit, ``total``."""
    if not abs(times.sum() - total) <= 1e-6 * total:
        raise ValueError(
            f"X must hold the rows of the fit, which counted {total:g} rows with their weights, "
            f"got {times.sum():g}: give all of them, and sample_weight if the fit had it. (After a "
            "stream with forgetting or several passes there is cross-validation only.)"
        )


class RowResults(NamedTuple):
    """Log densities of the rows (n,), k-hat of their weights, and what is not to be trusted."""

    pointwise: np.ndarray
    k: np.ndarray
    mcse: np.ndarray
    n_bad: int = 0
    reasons: tuple = ()  # In words, with what to do.


def without_each(left_out):
    """The `RowResults` of a `skpmd._base.leave_one_out.LeftOut`.

    A row's density given all others is an average over particles, whose weights change by the
    reciprocal of what the row has added to them.
    """
    n, log_w, what = len(left_out.seen), left_out.log_weights, left_out.what
    found = RowResults(*np.full((3, n), np.nan))
    if left_out.log_evidence is None:
        found.pointwise[:] = logsumexp(log_w[:, None] + left_out.log_density, axis=0)
        impossible = int((~np.isfinite(found.pointwise)).sum())
        return found._replace(n_bad=impossible, reasons=_reasons(0, 0, impossible, 0, n, what))
    ess = min(effective_sample_size(log_w), left_out.ess)
    most, n_turned, n_few, n_impossible, n_closing = max_k(ess), 0, 0, 0, 0
    closing = np.zeros(n, dtype=bool) if left_out.closing is None else left_out.closing
    for i, row in enumerate(left_out.log_density.T):
        evidence = left_out.log_evidence[:, i]
        # Where a row is impossible the posterior is not: such a particle has no weight.
        possible = np.isfinite(evidence)
        ratio = log_w[possible] - evidence[possible]
        share = np.exp(log_w[~possible]).sum()
        if share > _NEGLIGIBLE or not len(ratio):
            n_impossible += 1
            if not len(ratio):
                found.pointwise[i] = -np.inf
                continue
        smoothed, found.k[i] = pareto_smoothed(ratio)
        seen = smoothed > -np.inf
        terms, w = row[possible][seen], np.exp(smoothed[seen])
        found.pointwise[i] = logsumexp(smoothed[seen] + terms)
        # Of independent draws; where these are fewer than the weights say, there is more.
        with np.errstate(invalid="ignore"):
            error = np.sqrt(w**2 @ np.expm1(terms - found.pointwise[i]) ** 2)
        found.mcse[i] = error * np.sqrt(effective_sample_size(log_w) / ess)
        if share > _NEGLIGIBLE:
            continue
        if closing[i]:
            n_closing += 1
            found.mcse[i] = np.inf
        elif heavy_tail(ratio, found.k[i], most):
            # A shape is known to (1 + k) / sqrt(n) from n weights of a tail.
            error = (1.0 + found.k[i]) / np.sqrt(tail_length(min(ess, len(ratio))))
            n_turned += found.k[i] - _ERRORS * error > MAX_K
            n_few += not found.k[i] - _ERRORS * error > MAX_K
        else:
            n_few += not found.mcse[i] <= _LARGE_ERROR
    n_bad = n_turned + n_few + n_impossible + n_closing
    reasons = _reasons(n_turned, n_few, n_impossible, n_closing, n, what)
    return found._replace(n_bad=n_bad, reasons=reasons)


def _reasons(n_turned, n_few, n_impossible, n_closing, n, what):
    """Reasons not to trust some of n rows, or of what else is left out, with what to do."""
    found = []
    if n_turned:
        found.append(
            f"k-hat is above {MAX_K} for {n_turned} of {n} {what}: without one of them "
            f"the posterior is another. Fit without these {what} (pareto_k says which), or compare "
            "by cross-validation."
        )
    if n_few:
        found.append(
            f"There are too few particles for {n_few} of {n} {what} (mcse and pareto_k say which): "
            "raise n_particles."
        )
    if n_impossible:
        found.append(
            f"{n_impossible} of {n} {what} are impossible under particles that have a weight: the "
            f"particles are not those of these {what}' posterior, or the likelihood is 0 by "
            "rounding."
        )
    if n_closing:
        found.append(
            f"Without {n_closing} of {n} {what} the posterior reaches further than all particles "
            "do (mcse is inf there): fit without each of them, or compare by cross-validation."
        )
    return tuple(found)
