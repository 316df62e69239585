"""What predictions cost, beside those of scikit-learn in the same run, and how far they are off.

Logistic regression is fitted to 5,000 rows of 30 columns, with two classes and with ten; a mixture
of four normals to 400 rows by ``strategy="parameters"``, hence 2,000 draws; a Gaussian process of
eight columns to 5,000 rows, with 1,000 inducing inputs and a given kernel. All is generated. A row
of the table is a method on so many rows: CPU seconds of the second call, one thread. ``error`` is
the largest difference from averages over all particles, ``labels`` how many of the labels differ
from the most probable by those. "exact" has ``prediction_tol=0``, which is of logistic regression.

``--quick``: a twentieth of the rows.
"""

import numpy as np

from ..harness.pictures import legend_above, plain_ticks
from ..harness.study import Gate, pyplot
from ..harness.timing import cpu_clock

BINARY, TEN, MIXED, PROCESS = 100_000, 20_000, 20_000, 60_000
# Seconds allowed, and the largest error of a probability.
ALLOWED = {
    ("logistic", "predict_proba"): 0.15,
    ("logistic", "predict_proba, exact"): 1.2,
    ("logistic", "predict"): 0.05,
    ("logistic, ten classes", "predict_proba"): 0.3,
    ("mixture", "predict"): 0.2,
    ("process", "predict"): 0.8,
}
ERROR = 1e-3


def run(config):
    """All families, one after the other."""
    share = 20 if config.quick else 1
    return [
        *of_logistic("logistic", 2, BINARY // share),
        *of_logistic("logistic, ten classes", 10, TEN // share),
        *of_mixture(MIXED // share),
        *of_process(PROCESS // share),
    ]


def of_logistic(family, n_classes, n):
    """Probabilities, labels and intervals of two classes or more."""
    from sklearn.linear_model import LogisticRegression

    from skpmd import BayesianLogisticRegressionPMD

    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 30))
    logits = 0.7 * X @ rng.standard_normal((30, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    new = rng.standard_normal((n, 30))
    few = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    exact = BayesianLogisticRegressionPMD(prediction_tol=0.0, random_state=0).fit(X, y)
    theirs = LogisticRegression().fit(X, y)
    whole, exactly = timed(family, "predict_proba, exact", exact.predict_proba, new)
    found, row = timed(family, "predict_proba", few.predict_proba, new)
    labels, of_labels = timed(family, "predict", few.predict, new)
    some = new[: n // 5]
    return [
        {**row, "error": float(np.abs(found - whole).max())},
        exactly,
        {**of_labels, "labels": int((labels != whole.argmax(axis=1)).sum())},
        timed(family, "predict_proba_interval", few.predict_proba_interval, some)[1],
        timed(family, "scikit-learn: predict_proba", theirs.predict_proba, new)[1],
        timed(family, "scikit-learn: predict", theirs.predict, new)[1],
    ]


def of_mixture(n):
    """Labels and responsibilities."""
    from sklearn.mixture import GaussianMixture

    from skpmd import GaussianMixturePMD

    rng = np.random.default_rng(0)
    centres = [[0, 0], [4, 0], [0, 4], [4, 4]]
    X = np.concatenate([rng.normal(one, 1.0, (100, 2)) for one in centres])
    new = rng.uniform(-3.0, 7.0, (n, 2))
    model = GaussianMixturePMD(4, strategy="parameters", random_state=0).fit(X)
    theirs = GaussianMixture(4, random_state=0).fit(X)
    whole, row = timed("mixture", "predict_proba", model.predict_proba, new)
    labels, of_labels = timed("mixture", "predict", model.predict, new)
    return [
        row,
        {**of_labels, "labels": int((labels != whole.argmax(axis=1)).sum())},
        timed("mixture", "scikit-learn: predict", theirs.predict, new)[1],
    ]


def of_process(n):
    """Means, and means with standard deviations."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    from skpmd import SparseGPRegressorPMD

    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((5000, 8)), rng.standard_normal((n, 8))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(len(X))
    kernel = 1.0 * RBF(np.full(8, 3.0)) + WhiteKernel(0.01)
    model = SparseGPRegressorPMD(
        kernel=kernel, optimizer=None, n_inducing=1000, random_state=0
    ).fit(X, y)
    theirs = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, y)

    def with_sds(new):
        return model.predict(new, return_std=True)

    return [
        timed("process", "predict", model.predict, new)[1],
        timed("process", "predict, return_std=True", with_sds, new)[1],
        timed("process", "scikit-learn: predict", theirs.predict, new)[1],
    ]


def timed(family, method, function, X):
    """What a method returns for rows, and its row of the table."""
    function(X[:1000])  # What there is to compile, or to factor, is outside of the clock.
    with cpu_clock() as clock:
        found = function(X)
    row = {"family": family, "method": method, "rows": len(X), "cpu": clock.cpu}
    return found, {**row, "error": float("nan"), "labels": float("nan")}


def gates(rows):
    """The seconds allowed, errors, and labels that differ."""
    found = {(row["family"], row["method"]): row for row in rows}
    errors, labels = (np.array([row[key] for row in rows]) for key in ("error", "labels"))
    return [
        *(
            Gate(f"{family}, {method}: CPU seconds", found[family, method]["cpu"], bound)
            for (family, method), bound in ALLOWED.items()
        ),
        Gate("largest error of a probability", float(np.nanmax(errors)), ERROR),
        Gate("labels that differ", float(np.nansum(labels)), 0),
    ]


def plot(rows):
    """Seconds of each method."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(9.5, 6), layout="constrained")
    for is_theirs, color, label in ((False, "C0", "skpmd"), (True, "C7", "scikit-learn")):
        places = [i for i, row in enumerate(rows) if ("scikit-learn" in row["method"]) == is_theirs]
        cpu = [rows[i]["cpu"] for i in places]
        axis.plot(cpu, places, "o", color=color, label=label)
        for at in zip(cpu, places, strict=True):
            style = {"textcoords": "offset points", "va": "center", "fontsize": 9, "color": color}
            axis.annotate(f"{at[0]:.3g}", at, (7, 0), **style)
    names = [f"{row['family']}: {row['method']}, {row['rows']:,} rows" for row in rows]
    axis.set_yticks(range(len(rows)), names, fontsize=9)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(axis="y", alpha=0.3)
    axis.set(xscale="log", xlabel="CPU seconds of a call")
    axis.margins(x=0.12)
    plain_ticks(axis.xaxis, at=(1.0,))
    legend_above(figure, [axis], ncols=2)
    return figure
