"""The paper's peers on the 1.6 million images of `mnist8m`, from the prior, in batches of 100 rows.

Settings are those that were best on the 11,769 original images (`paper_logistic`).
"""

import numpy as np
from scipy.special import expit, softmax

from ..harness.comparison import errors

BATCH, MEMORY, SHOWN = 100, 1000, 12
JUDGED = 200  # particles that predict


def _sgld(X, y, whole, **given):
    from ..peers.sgld import sgld

    return sgld(whole, X, y, step_size=1.0 / len(X), decay=0.0, burn_in=1000, passes=100, **given)


def _sghmc(X, y, whole, **given):
    from ..peers.sgld import sgld

    return sgld(
        whole, X, y, step_size=0.1 / len(X), decay=0.0, burn_in=1000, passes=100, friction=0.1,
        **given,
    )  # fmt: skip


def _svi(X, y, whole, **given):
    from ..peers.svi import svi

    return svi(whole, X, y, learning_rate=0.03, decay=0.5, passes=100, **given)


def _npv(X, y, whole, **given):
    from ..peers.npv import npv

    given["n_particles"] = 5
    return npv(whole, X, y, learning_rate=0.03, decay=0.5, passes=100, **given)


def _one_pass_smc(X, y, whole, **given):
    from ..peers.one_pass_smc import one_pass_smc

    return one_pass_smc(whole, X, y, bandwidth=0.1, passes=1, **given)


def _jaakkola_jordan(X, y, whole, **given):
    from ..peers.jaakkola_jordan import jaakkola_jordan

    return jaakkola_jordan(X, y, rho=lambda t: (10.0 + t) ** -0.51, passes=100, **given)


def _fisher_scoring(X, y, whole, **given):
    from ..peers.fisher_scoring import fisher_scoring

    return fisher_scoring(whole, X, y, step_size=10.0, passes=100, **given)


PEERS = {
    "SGLD": _sgld,
    "SGHMC": _sghmc,
    "SVI": _svi,
    "JJ SVI": _jaakkola_jordan,
    "SGD NPV": _npv,
    "one-pass SMC": _one_pass_smc,
    "Fisher scoring": _fisher_scoring,
}


def curve(job):
    """Points of one run: CPU seconds, rows, errors beside the mean and sds of the job."""
    from ..paper.paper_logistic_methods import problem

    with np.load(job["arrays"]) as archive:
        arrays = dict(archive)
    X, y = np.load(job["features"]), arrays["y"].astype(float)
    whole = problem(X.shape[1] + 1)
    given = {
        "n_particles": MEMORY, "batch_size": BATCH, "seed": job["seed"], "max_cpu": job["max_cpu"],
        "n_snapshots": 60,
    }  # fmt: skip
    test = np.column_stack([arrays["X_test"], np.ones(len(arrays["y_test"]))])
    truth, points = Truth(np.array(job["mean"]), np.array(job["sd"])), []
    for found in PEERS[job["method"]](X, y, whole, **given):
        points.append(point(found, truth, test, arrays["y_test"]))
    chosen = np.unique(np.geomspace(1, len(points), SHOWN).round().astype(int) - 1)
    case = {"method": job["method"], "seed": job["seed"]}
    return [{**case, "place": place, **points[k]} for place, k in enumerate(chosen)]


class Truth:
    """Mean and standard deviations of the posterior."""

    def __init__(self, mean, sd):
        self.mean, self.sd = mean, sd


def point(found, truth, test, y_test):
    """One snapshot's numbers."""
    from ..peers.references import log_loss

    weights = softmax(found.log_weights)
    mean = weights @ found.particles
    sd = np.sqrt(weights @ (found.particles - mean) ** 2)
    mean_error, sd_error = (float(np.sqrt(np.mean(e**2))) for e in errors(mean, sd, truth))
    some = slice(None, None, -(-len(weights) // JUDGED))
    probability = expit(test @ found.particles[some].T) @ weights[some] / weights[some].sum()
    return {
        "rows": int(found.rows),
        "cpu": float(found.cpu),
        "mean_error": mean_error,
        "sd_error": sd_error,
        "log_loss": log_loss(probability, y_test),
    }
