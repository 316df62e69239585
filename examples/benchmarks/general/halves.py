"""The posterior of half of the rows as the prior of the other half, beside a fit to all of them.

Five random orders of each set. Logistic regression and a model of one's own (linear regression with
an unknown scale, its prior given by distributions of SciPy) are fitted to the first half, and their
``posterior_`` is the ``prior`` of the second: ``gap`` is the largest difference of a posterior mean
from that of all rows, in posterior standard deviations, ``sd_ratio`` the ratio of standard
deviations that is furthest from one. ``alone`` is the gap of the second half without the first.
The posterior of a logistic regression may have its rows with it; ``logistic, density`` is without
them. ``warned`` is whether the fit of the second half has warned: then the gap is no failure.
Gaussian processes, mixtures and topics take the fitted estimator as the prior. ``gap`` of a
process is that of its predictions for held-out rows, in their standard deviations; of mixtures
and topics it is the loss of held-out score by the two halves, as a share of that by all rows (below
zero: the halves are ahead), where ``alone`` is the loss by the second half alone.

Rows are those of scikit-learn's sets (topics: pixels of digits as words). ``--quick``: one order.
"""

import warnings

import numpy as np

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot

N_ORDERS = 5
MAX_GAP, MAX_LOSS = 0.1, 0.01
LEFT = 1e-3  # Smaller gaps, of the very same fit, are drawn here.
OF_MEANS = "logistic", "logistic, density", "custom", "process"


def run(config):
    """Gaps of each model and set, by orders of the rows."""
    orders = range(1 if config.quick else N_ORDERS)
    return [row for case in (logistic, custom, process, mixture, topics) for row in case(orders)]


def _row(model, name, order, gap, alone, sd_ratio=None, k=None, warned=False):
    return {
        "model": model, "set": name, "order": order, "gap": float(gap), "alone": float(alone),
        "sd_ratio": sd_ratio, "prior_pareto_k": k, "warned": warned,
    }  # fmt: skip


def _in_order(order, *arrays):
    """Rows in a random order, and where their second half begins."""
    place = np.random.default_rng(order).permutation(len(arrays[0]))
    return *(array[place] for array in arrays), len(place) // 2


def _of_posteriors(model, name, order, whole, second, alone):
    """The row of posteriors: of all rows, of one half given the other, and of one half alone."""
    sd = whole.posterior_.std()
    gap, other = (
        np.abs((one.posterior_.mean() - whole.posterior_.mean()) / sd).max()
        for one in (second, alone)
    )
    ratio = second.posterior_.std() / sd
    furthest = float(ratio[np.abs(np.log(ratio)).argmax()])
    found = second.diagnostics_
    k, warned = found["prior_pareto_k"], bool(found["warnings"])
    return _row(model, name, order, gap, other, furthest, k, warned)


def logistic(orders):
    """Standardised sets of two classes and of three."""
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import StandardScaler

    from skpmd import BayesianLogisticRegressionPMD

    for name, load in (
        ("breast_cancer", load_breast_cancer), ("wine", load_wine), ("iris", load_iris),
    ):  # fmt: skip
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        for order in orders:
            rows, labels, h = _in_order(order, X, y)
            whole, first, alone = (
                BayesianLogisticRegressionPMD(scale=None, random_state=order).fit(
                    rows[some], labels[some]
                )  # In the units of all rows, for halves have other ones.
                for some in (slice(None), slice(h), slice(h, None))
            )
            for model in ("logistic", "logistic, density"):
                if model == "logistic, density":
                    first.posterior_.rows = None
                second = BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=order)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)  # They are recorded.
                    second.fit(rows[h:], labels[h:])
                yield _of_posteriors(model, name, order, whole, second, alone)


def of_rows(theta, X, y):
    """Log-likelihood of a linear model whose last parameter is the standard deviation."""
    from scipy.stats import norm

    return norm.logpdf(y, theta[:, :-1] @ X.T, theta[:, -1:])


def custom(orders):
    """Linear regression of the diabetes data on four and on all ten columns."""
    from scipy.stats import halfcauchy, norm
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import StandardScaler

    from skpmd import ParticleMirrorDescent

    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    for columns in ([2, 3, 8, 9], list(range(10))):
        prior = {"slope": norm(np.zeros(len(columns)), 1.0), "sigma": halfcauchy(scale=1.0)}
        for order in orders:
            rows, target, h = _in_order(order, X[:, columns], y)

            def fitted(some, prior=prior, rows=rows, target=target, order=order):
                model = ParticleMirrorDescent(
                    log_likelihood_pointwise=of_rows, prior=prior, n_particles=4000,
                    random_state=order,
                )  # fmt: skip
                return model.fit(rows[some], target[some])

            whole, first, alone = map(fitted, (slice(None), slice(h), slice(h, None)))
            second = fitted(slice(h, None), first.posterior_)
            name = f"diabetes, {len(columns)} columns"
            yield _of_posteriors("custom", name, order, whole, second, alone)


def process(orders):
    """Default Gaussian processes; a quarter of the rows is held out."""
    from sklearn.datasets import load_diabetes

    from skpmd import SparseGPRegressorPMD

    X, y = load_diabetes(return_X_y=True)
    for order in orders:
        rows, target, _ = _in_order(order, X, y)
        n = 3 * len(y) // 4
        h, new = n // 2, rows[n:]
        whole, first, alone = (
            SparseGPRegressorPMD(random_state=order).fit(rows[some], target[some])
            for some in (slice(n), slice(h), slice(h, n))
        )
        second = SparseGPRegressorPMD(prior=first, random_state=order)
        second.fit(rows[h:n], target[h:n])
        mean, sd = whole.predict(new, return_std=True)
        found, spread = second.predict(new, return_std=True)
        gap, other = (np.abs((one - mean) / sd).max() for one in (found, alone.predict(new)))
        ratio = spread / sd
        furthest = float(ratio[np.abs(np.log(ratio)).argmax()])
        yield _row("process", "diabetes", order, gap, other, furthest)


def mixture(orders):
    """Mixtures of two normals with full covariances; a quarter of the rows is held out."""
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine
    from sklearn.preprocessing import StandardScaler

    from skpmd import GaussianMixturePMD

    sets = {
        "iris": load_iris().data, "wine": load_wine().data[:, :6],
        "breast_cancer": load_breast_cancer().data[:, [0, 1, 4, 8]],
    }  # fmt: skip
    for name, X in sets.items():
        X = StandardScaler().fit_transform(X)
        for order in orders:
            yield _of_scores("mixture", name, order, X, GaussianMixturePMD(2, random_state=order))


def topics(orders):
    """Ten topics of digits; a quarter of the documents is held out."""
    from sklearn.datasets import load_digits

    from skpmd import LDATopicModelPMD

    for order in orders:
        model = LDATopicModelPMD(10, random_state=order)
        yield _of_scores("topics", "digits", order, np.rint(load_digits().data), model)


def _of_scores(name, data, order, X, model):
    """The row of held-out scores: how much is lost by two halves, and by one alone."""
    from sklearn.base import clone

    rows, _ = _in_order(order, X)
    n = 3 * len(rows) // 4
    h, new = n // 2, rows[n:]
    whole, first, alone = (
        clone(model).fit(rows[some]) for some in (slice(n), slice(h), slice(h, n))
    )
    second = clone(model).set_params(prior=first).fit(rows[h:n])
    best = whole.score(new)
    gap, other = ((best - one.score(new)) / abs(best) for one in (second, alone))
    return _row(name, data, order, gap, other)


def gates(rows):
    """Means of posteriors and of processes on each order; scores by their mean over orders."""
    found = []
    for model, name in dict.fromkeys((row["model"], row["set"]) for row in rows):
        own = [row for row in rows if (row["model"], row["set"]) == (model, name)]
        gaps = [row["gap"] for row in own]
        if model in OF_MEANS:
            largest = max((row["gap"] for row in own if not row["warned"]), default=0.0)
            what = f"{model}, {name}: largest gap without a warning, sds"
            found.append(Gate(what, largest, MAX_GAP))
        else:
            found.append(Gate(f"{model}, {name}: mean loss of score", np.mean(gaps), MAX_LOSS))
    return found


def plot(rows):
    """Gaps of two halves and of one, in standard deviations or as shares of a score."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for axis, is_of_means in zip(axes, (True, False), strict=True):
        some = [row for row in rows if (row["model"] in OF_MEANS) == is_of_means]
        names = [f"{row['model']}: {row['set'].replace('_', ' ')}" for row in some]
        axis.plot([row["alone"] for row in some], names, "x", color="0.6", label="one half alone")
        gaps = [max(row["gap"], LEFT) if is_of_means else row["gap"] for row in some]
        axis.plot(gaps, names, "o", mfc="none", label="one half as the prior of the other")
        axis.axvline(
            MAX_GAP if is_of_means else MAX_LOSS, color="k", lw=0.8, ls=":", label="target"
        )
        axis.margins(y=0.1)
        axis.invert_yaxis()
    axes[0].set(xscale="log", xlabel=f"gap of a mean, sds (below {LEFT:g}: drawn there)")
    axes[1].set(xlabel="loss of score, share of that of all rows")
    legend_above(figure, axes, ncols=3)
    return figure
