"""Scores of predictive distributions of regression, and their means over splits."""

import numpy as np

from ..harness.timing import cpu_clock

LEVELS = (np.arange(10) + 0.5) / 10.0  # CRPS is twice the mean pinball loss at these.


def judged(model, known, held_out):
    """CPU seconds of a fit and of predictions, and figures on rows held out."""
    with cpu_clock() as clock:
        model.fit(*known)
    with cpu_clock() as predicting:
        found = scored(model, *held_out)
    return {"setting": model.approximation_, "cpu": clock.cpu, "predict_cpu": predicting.cpu,
            **found}  # fmt: skip


def scored(model, X, y):
    """RMSE, log loss, coverage and CRPS by the whole predictive distribution."""
    predictive = model.predict_proba(X)
    low, high = predictive.interval(0.9).T
    return {
        "rmse": float(np.sqrt(np.mean((y - predictive.mean()) ** 2))),
        "nlpd": float(-np.mean(predictive.log_pdf(y))),
        "coverage": float(np.mean((low <= y) & (y <= high))),
        "crps": crps(y, predictive.ppf(LEVELS)),
    }


def scores(y, mean, variance):
    """The same of normal predictions."""
    from scipy.special import ndtri

    squared, sd = (y - mean) ** 2, np.sqrt(variance)
    return {
        "rmse": float(np.sqrt(squared.mean())),
        "nlpd": float(0.5 * np.mean(np.log(2.0 * np.pi * variance) + squared / variance)),
        "coverage": float(np.mean(squared < 1.6448536269514722**2 * variance)),
        "crps": crps(y, mean[:, None] + sd[:, None] * ndtri(LEVELS)),
    }


def crps(y, quantiles):
    """Continuous ranked probability score by quantiles (n, levels)."""
    error = y[:, None] - quantiles
    return float(2.0 * np.mean(np.maximum(LEVELS * error, (LEVELS - 1.0) * error)))


def score(row, key):
    """A figure, nan where there is none."""
    return float("nan") if row.get(key) is None else row[key]


def mean_of(rows, kind, key):
    """{data set: mean over splits} of one kind."""
    found = {}
    for row in rows:
        if row["kind"] == kind:
            found.setdefault(row["data"], []).append(row[key])
    return {name: float(np.mean(values)) for name, values in found.items()}


def of_first_split(rows):
    """The rows of the first split, which some kinds have alone."""
    return [row for row in rows if not row["seed"]]
