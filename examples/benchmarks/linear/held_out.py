"""Real rows that are predicted from others by generalised linear models, ours and other packages'.

A method is a function of training `Rows` and test ones. It returns means, or probabilities of
ordered classes, and a function: the distribution function of each test row's y, None where the
method has only means. Settings that a method has to be given are chosen by five folds of the
training rows.
"""

from importlib.util import find_spec

import numpy as np
from scipy import special, stats
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..harness import datasets, glm_sets
from ..harness.timing import cpu_clock

FOLDS, LARGEST = 5, 5_000  # Of larger tables so many rows are drawn.
PENALTIES = np.logspace(-6, 1, 15)
LOW, HIGH = 0.05, 0.95
CHOSEN = "skpmd, evidence"  # Whose scale is chosen by the training rows, as others' penalties are.
SETS = {
    "diabetes": "normal",
    "uci_airfoil": "normal",
    "nmes1988": "negative_binomial",
    "quine": "negative_binomial",
    "diamonds": "gamma",
    "california": "gamma",
    "uci_wine_red": "ordinal",
}


def rows_of(name, data_dir):
    """Rows of one of `SETS`; columns that are amounts enter by their logarithms."""
    family = SETS[name]
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        return glm_sets.Rows(name, family, *load_diabetes(return_X_y=True))
    if name in ("nmes1988", "quine"):
        return glm_sets.shipped(name, data_dir)[0]
    X, y = datasets.regression(name, data_dir)
    if name == "diamonds":  # carat, dummies less the first of each kind, depth and table
        dummies = [j for j in range(1, 23) if j not in (1, 6, 13)]
        X, y = np.column_stack([np.log(X[:, 0]), X[:, dummies]]), np.exp(y)
    if name == "california":
        X = np.column_stack([X[:, :3], np.log(X[:, 3:])])
    if family == "ordinal":
        y = np.unique(y, return_inverse=True)[1].astype(np.float64)
    some = np.random.default_rng(0).permutation(len(y))[:LARGEST]
    return glm_sets.Rows(name, family, X, y).take(some)


def rows_of_table(data):
    """Rows of the results of a set: every method that there is, on all folds."""
    fold = np.random.default_rng(1).permutation(len(data.y)) % FOLDS
    found = {}
    for label, method in METHODS[data.family].items():
        parts = np.empty(len(data.y)), np.full(len(data.y), np.nan)
        cpu = 0.0
        for k in range(FOLDS):
            with cpu_clock() as clock:
                train, test = data.take(fold != k), data.take(fold == k)
                mean, cdf = method(train, test)
            cpu += clock.cpu / FOLDS
            parts[0][fold == k] = deviance(data.family, test.y, mean)
            if cdf is not None:
                parts[1][fold == k] = in_interval(data.family, test.y, cdf)
        found[label] = *parts, cpu
        print(f"{data.name}, {label}, done", flush=True)
    own = found[CHOSEN][0]
    for label, (score, coverage, cpu) in found.items():
        gap, n = own - score, len(own)
        yield {
            "kind": "held out",
            "data": data.name,
            "family": data.family,
            "method": label,
            "n": n,
            "deviance": float(score.mean()),
            "gap": float(gap.mean()) if label != CHOSEN else None,
            "gap_se": float(gap.std() / np.sqrt(n)) if label != CHOSEN else None,
            "coverage": float(coverage.mean()),
            "cpu": cpu,
        }


def deviance(family, y, mean):
    """Unit deviance of each row: of counts Poisson's, of classes minus two log probabilities."""
    if family == "normal":
        return (y - mean) ** 2
    if family == "ordinal":
        return -2.0 * np.log(np.maximum(mean[np.arange(len(y)), y.astype(int)], 1e-300))
    if family == "gamma":
        return 2.0 * (y / mean - 1.0 - np.log(y / mean))
    return 2.0 * (special.xlogy(y, y / mean) - y + mean)


def in_interval(family, y, cdf):
    """Share of each y that lies between the predictive quantiles at 0.05 and 0.95.

    Of a count the share is that of its probability: no two counts have exactly nine tenths between
    them, and an interval of whole numbers that has as much or more would hold too many of them.
    """
    above = cdf(y)
    if family != "negative_binomial":
        return ((above >= LOW) & (above <= HIGH)).astype(float)
    below = np.where(y > 0.0, cdf(y - 1.0), 0.0)
    overlap = np.minimum(above, HIGH) - np.maximum(below, LOW)
    return np.clip(overlap / np.maximum(above - below, 1e-300), 0.0, 1.0)


# ------------------------------------------------------------------------------ ours
def estimator(data, seed, **params):
    """The estimator of a family, for rows whose last column may have a role."""
    if data.family == "ordinal":
        from skpmd import BayesianOrdinalClassifierPMD

        return BayesianOrdinalClassifierPMD(random_state=seed, **params)
    from skpmd import BayesianGLMRegressorPMD

    if data.role:
        params[data.role] = data.X.shape[1] - 1
    return BayesianGLMRegressorPMD(data.family, random_state=seed, **params)


def has_ordinal():
    """Whether there is an estimator of ordered classes."""
    import skpmd

    return hasattr(skpmd, "BayesianOrdinalClassifierPMD")


def _skpmd(train, test, **params):
    model = estimator(train, 0, **params).fit(train.X, train.y)
    found = model.predict_proba(test.X)
    if train.family == "ordinal":
        return found, None
    return found.mean(), found.cdf


def _evidence(train, test):
    return _skpmd(train, test, prior_scale="evidence")


# ------------------------------------------------------------------------------ scikit-learn
def _bayesian_ridge(train, test):
    from sklearn.linear_model import BayesianRidge

    return _normal(BayesianRidge(), train, test)


def _ard(train, test):
    from sklearn.linear_model import ARDRegression

    return _normal(ARDRegression(), train, test)


def _normal(model, train, test):
    mean, sd = make_pipeline(StandardScaler(), model).fit(train.X, train.y).predict(
        test.X, return_std=True
    )  # fmt: skip
    return mean, lambda y: special.ndtr((y - mean) / sd)


def _poisson_regressor(train, test):
    from sklearn.linear_model import PoissonRegressor

    model = PoissonRegressor(solver="newton-cholesky", max_iter=1000)
    return _penalised(model, "neg_mean_poisson_deviance", train, test), None


def _gamma_regressor(train, test):
    from sklearn.linear_model import GammaRegressor

    model = GammaRegressor(solver="newton-cholesky", max_iter=1000)
    return _penalised(model, "neg_mean_gamma_deviance", train, test), None


def _penalised(model, scoring, train, test):
    """Means at the penalty that is best on folds of the training rows."""
    pipeline = make_pipeline(StandardScaler(), model)
    grid = {f"{type(model).__name__.lower()}__alpha": PENALTIES}
    folds = KFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, grid, scoring=scoring, cv=folds)
    return search.fit(train.X, train.y).predict(test.X)


# ------------------------------------------------------------------------------ statsmodels
def _designs(train, test):
    """Standardised columns and one of ones."""
    scaler = StandardScaler().fit(train.X)
    return [
        np.column_stack([np.ones(len(part.y)), scaler.transform(part.X)]) for part in (train, test)
    ]


def _ols(train, test):
    from statsmodels.api import OLS

    X, new = _designs(train, test)
    found = OLS(train.y, X).fit()
    ahead = found.get_prediction(new)
    return ahead.predicted_mean, lambda y: stats.t.cdf(
        (y - ahead.predicted_mean) / ahead.se_obs, found.df_resid
    )


def _sm_gamma(train, test):
    from statsmodels.api import GLM, families

    X, new = _designs(train, test)
    found = GLM(train.y, X, family=families.Gamma(families.links.Log())).fit()
    mean = found.predict(new)
    return mean, stats.gamma(1.0 / found.scale, scale=mean * found.scale).cdf


def _sm_negative_binomial(train, test):
    from statsmodels.api import NegativeBinomial

    X, new = _designs(train, test)
    found = NegativeBinomial(train.y, X).fit(method="bfgs", maxiter=1000, disp=0)
    mean, shape = found.predict(new), 1.0 / found.params[-1]
    return mean, stats.nbinom(shape, shape / (shape + mean)).cdf


def _ordered_model(train, test):
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    X, new = _designs(train, test)
    found = OrderedModel(train.y.astype(int), X[:, 1:], distr="logit").fit(method="bfgs", disp=0)
    return found.predict(new[:, 1:]), None


_SKLEARN = {
    "normal": {"BayesianRidge": _bayesian_ridge, "ARDRegression": _ard},
    "negative_binomial": {"PoissonRegressor": _poisson_regressor},
    "gamma": {"GammaRegressor": _gamma_regressor},
    "ordinal": {},
}
_STATSMODELS = {
    "normal": {"statsmodels OLS": _ols},
    "negative_binomial": {"statsmodels NegativeBinomial": _sm_negative_binomial},
    "gamma": {"statsmodels GLM": _sm_gamma},
    "ordinal": {"statsmodels OrderedModel": _ordered_model},
}
METHODS = {
    family: {
        "skpmd": _skpmd,
        CHOSEN: _evidence,
        **methods,
        **(_STATSMODELS[family] if find_spec("statsmodels") else {}),
    }
    for family, methods in _SKLEARN.items()
}
