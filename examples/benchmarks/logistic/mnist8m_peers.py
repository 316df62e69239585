"""The paper's peers on the 1.6 million images of `mnist8m`, from the prior.

The settings are those that were best on the 11,769 original images (`paper_logistic`) and smaller
steps, since a batch is a far smaller part of the rows here. Chains have batches of 1000 rows, which
take them little longer than 100, SVI and NPV have both, and the later half of a chain counts.
"""

from functools import partial

import numpy as np
from scipy.special import expit, softmax

from ..harness.comparison import errors

BATCH, LARGER, MEMORY = 100, 1000, 1000
CHAINS = ("SGLD", "SGHMC", "Fisher scoring")
JUDGED = 200  # particles that predict


def _langevin(step, friction=1.0):
    """Langevin dynamics, with momentum where friction is below one, on batches of 1000 rows."""

    def run(X, y, whole, **given):
        from ..peers.sgld import sgld

        options = {"decay": 0.0, "burn_in": 1000, "passes": 1000, "friction": friction}
        given["batch_size"] = LARGER
        return sgld(whole, X, y, step_size=step / len(X), **options, **given)

    return run


def _variational(name, rate, batch_size=BATCH):
    """SVI, or NPV of five components, by Adam."""

    def run(X, y, whole, **given):
        from ..peers.npv import npv
        from ..peers.svi import svi

        given["n_particles"] = 5 if name == "npv" else given["n_particles"]
        given["batch_size"] = batch_size
        peer = {"npv": npv, "svi": svi}[name]
        return peer(whole, X, y, learning_rate=rate, decay=0.5, passes=1000, **given)

    return run


def _one_pass_smc(bandwidth):
    def run(X, y, whole, **given):
        from ..peers.one_pass_smc import one_pass_smc

        return one_pass_smc(whole, X, y, bandwidth=bandwidth, passes=1, **given)

    return run


def _jaakkola_jordan(offset, decay):
    def run(X, y, whole, **given):
        from ..peers.jaakkola_jordan import jaakkola_jordan

        return jaakkola_jordan(X, y, rho=lambda t: (offset + t) ** -decay, passes=100, **given)

    return run


def _fisher_scoring(step):
    """Fisher scoring on batches of 1000 rows."""

    def run(X, y, whole, **given):
        from ..peers.fisher_scoring import fisher_scoring

        given["batch_size"] = LARGER
        return fisher_scoring(whole, X, y, step_size=step, passes=1000, **given)

    return run


def _settings(make, text, values, larger=()):
    """Settings by name; those of ``larger`` in batches of 1000 rows."""
    own = {text.format(value): make(value) for value in values}
    batches = {
        f"{text.format(value)}, {LARGER} rows": make(value, batch_size=LARGER) for value in larger
    }
    return own | batches


PEERS = {
    "SGLD": _settings(_langevin, "step {:g} / n", (1.0, 0.1, 0.01)),
    "SGHMC": _settings(partial(_langevin, friction=0.1), "step {:g} / n", (0.1, 0.01, 0.001)),
    "SVI": _settings(partial(_variational, "svi"), "rate {:g}", (0.03, 0.01, 0.003), (0.01, 0.003)),
    "JJ SVI": {
        f"step ({offset:g} + t)^-{decay:g}": _jaakkola_jordan(offset, decay)
        for offset, decay in ((10.0, 0.51), (100.0, 0.7), (1000.0, 1.0))
    },
    "SGD NPV": _settings(
        partial(_variational, "npv"), "rate {:g}", (0.03, 0.01, 0.003), (0.01, 0.003)
    ),
    "one-pass SMC": _settings(_one_pass_smc, "width {:g}", (0.1, 0.23, 0.03, 0.5, 1.0)),
    "Fisher scoring": _settings(_fisher_scoring, "step {:g}", (10.0, 1.0, 100.0)),
}


def curve(job):
    """All points of one run: CPU seconds, rows, errors beside the mean and sds of the job."""
    from ..paper.paper_logistic_methods import problem

    with np.load(job["arrays"]) as archive:
        arrays = dict(archive)
    X, y = np.load(job["features"]), arrays["y"].astype(float)
    whole = problem(X.shape[1] + 1)
    given = {
        "n_particles": MEMORY, "batch_size": BATCH, "seed": job["seed"], "max_cpu": job["max_cpu"],
        "n_snapshots": 150,
    }  # fmt: skip
    test = np.column_stack([arrays["X_test"], np.ones(len(arrays["y_test"]))])
    truth, points = Truth(np.array(job["mean"]), np.array(job["sd"])), []
    for found in PEERS[job["method"]][job["setting"]](X, y, whole, **given):
        if job["method"] in CHAINS:
            found = _later_half(found)
        points.append(point(found, truth, test, arrays["y_test"]))
    case = {key: job[key] for key in ("method", "setting", "seed")}
    return [{**case, **one} for one in points]


def _later_half(found):
    """A snapshot of one chain without the first half of its draws, which are in order."""
    half = len(found.particles) // 2
    return found._replace(particles=found.particles[half:], log_weights=found.log_weights[half:])


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
