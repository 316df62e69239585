"""What an estimator says of rows left out of its fit in closed form: leave-one-out estimates."""

from typing import NamedTuple

import numpy as np


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


def check_rows_of_fit(times, total):
    """ValueError where rows, ``times`` (n,) of each, are not all rows of the fit, ``total``."""
    if not abs(times.sum() - total) <= 1e-6 * total:
        raise ValueError(
            f"X must hold the rows of the fit, which counted {total:g} rows with their weights, "
            f"got {times.sum():g}: give all of them, and sample_weight if the fit had it. (After a "
            "stream with forgetting or several passes there is cross-validation only.)"
        )
