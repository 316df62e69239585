"""Fits of logistic regression to columns in everyday units for the study ``honesty``.

All parameters are the defaults but for those named. References are quadratures for one column, and
for several one fit of many particles to standardised columns, under the same prior in their units.
"""

from functools import cache

import numpy as np
from scipy import special, stats
from scipy.sparse import csr_array
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD, merge

from .honesty_case import EVIDENCE, STANDARD_ERRORS, by_moments, hearing

SEEDS, N_REFERENCE, N_GRID = 2, 40_000, 161
INTERCEPT_SCALE = 10.0
PRIORS = {
    "normal": stats.norm(), "laplace": stats.laplace(), "student_t": stats.t(4.0),
    "cauchy": stats.cauchy(),
}  # fmt: skip


def _years(rng, n):
    return rng.integers(1980, 2020, n).astype(float)


def _dummy(rng, n, share=0.3):
    return (rng.random(n) < share).astype(float)


def _with_sentinels(rng, n):
    return np.where(rng.random(n) < 0.06, -9999.0, rng.normal(40.0, 12.0, n))


# One column each, and the number of rows.
COLUMNS = {
    "years": (_years, 150),
    "time stamps": (lambda rng, n: 1.65e9 + 4e4 * rng.standard_normal(n), 150),
    "kelvins": (lambda rng, n: rng.normal(293.0, 4.0, n), 150),
    "prices": (lambda rng, n: 1e5 * rng.lognormal(0.0, 0.8, n), 150),
    "1e-9": (lambda rng, n: 1e-9 * (2.0 + rng.standard_normal(n)), 150),
    "1e12": (lambda rng, n: 1e12 * (5.0 + rng.standard_normal(n)), 150),
    "sentinels": (_with_sentinels, 200),
    "dummy": (_dummy, 80),
    "rare dummy": (lambda rng, n: _dummy(rng, n, 0.03), 200),
    "8 rows of years": (_years, 8),
    "years, separable": (_years, 60),
}


def cases(quick):
    """Yield the `Case` of every fit."""
    seeds = range(1 if quick else SEEDS)
    for name in list(COLUMNS)[:3] if quick else COLUMNS:
        for seed in seeds:
            yield _fitted(name, "normal", seed)
    for prior in ("cauchy",) if quick else ("laplace", "student_t", "cauchy"):
        for seed in seeds:
            yield _fitted("years", prior, seed)
    for name in ("years",) if quick else ("years", "time stamps", "1e-9", "dummy"):
        for seed in seeds:
            yield _streamed(name, seed)
            yield _streamed(name, seed, how="merged")
    for how in ("array",) if quick else _WAYS:
        for seed in seeds:
            yield _table_case(how, seed)


# ---------------------------------------------------------------------- one column
@cache
def _line(name):
    make, n = COLUMNS[name]
    rng = np.random.default_rng(len(name))
    x = make(rng, n)
    z = (x - np.median(x)) / x.std()
    logit = 60.0 * z - 5.0 if name.endswith("separable") else 1.2 * z - 0.3
    return x[:, None], (rng.random(n) < special.expit(logit)).astype(int)


@cache
def _exact(name, prior, n_first=None):
    """Means and sds by quadrature of the coefficient per sd and of the logit at the mean.

    Both are those of the first rows, by default of all; the log evidence comes last.
    """
    X, y = _line(name)
    first = X[:n_first, 0]
    z = (X[:, 0] - first.mean()) / first.std()
    low, high = np.array([-40.0, -40.0]), np.array([40.0, 40.0])
    for _ in range(8):  # A box outside of which the density is 18 nats below its top.
        b, a = (np.linspace(*ends, N_GRID) for ends in zip(low, high, strict=True))
        log = PRIORS[prior].logpdf(b)[:, None] + stats.norm.logpdf(a, scale=INTERCEPT_SCALE)
        for u, t in zip(z, y, strict=True):
            log += special.log_expit((2 * t - 1) * (b[:, None] * u + a))
        inside = np.argwhere(log > log.max() - 18.0)
        step = np.array([b[1] - b[0], a[1] - a[0]])
        corner = np.array([b[0], a[0]])
        low, high = (
            corner + (inside.min(axis=0) - 1) * step,
            corner + (inside.max(axis=0) + 1) * step,
        )
    evidence = special.logsumexp(log) + np.log(step).sum()
    w = np.exp(log - special.logsumexp(log))
    mean = np.array([(w.sum(axis=1) * b).sum(), (w.sum(axis=0) * a).sum()])
    square = np.array([(w.sum(axis=1) * b**2).sum(), (w.sum(axis=0) * a**2).sum()])
    return mean, np.sqrt(square - mean**2), evidence


def _fitted(name, prior, seed):
    X, y = _line(name)
    model = BayesianLogisticRegressionPMD(prior=prior, random_state=seed)
    with hearing() as heard:
        model.fit(X, y)
    place = ("logistic", "everyday", f"{name}, {prior}", True, False)
    return _of_column(place, seed, model, X, _exact(name, prior), heard)


def _streamed(name, seed, how="stream"):
    X, y = _line(name)
    n = len(y) // 3
    parts = [slice(k * n, None if k == 2 else (k + 1) * n) for k in range(3)]
    with hearing() as heard:
        if how == "stream":
            model = BayesianLogisticRegressionPMD(random_state=seed)
            for part in parts:
                model.partial_fit(X[part], y[part], classes=[0, 1])
        else:
            shards = [
                BayesianLogisticRegressionPMD(random_state=seed).fit(X[part], y[part])
                for part in parts
            ]
            model = merge(shards)
    place = ("logistic", f"everyday {how}", f"{name}, normal", True, False)
    exact = _exact(name, "normal", n if how == "stream" else None)
    return _of_column(place, seed, model, X[:n] if how == "stream" else X, exact, heard)


def _of_column(place, seed, model, X, exact, heard):
    mean, sd, evidence = exact
    draws, w = model.posterior_.particles, model.posterior_.weights
    theta = np.c_[draws[:, 0] * X.std(), draws[:, 1] + draws[:, 0] * X.mean()]
    beyond = 0.0
    if hasattr(model, "log_evidence_"):
        allowed = EVIDENCE + STANDARD_ERRORS * model.posterior_.log_evidence_se
        beyond = abs(model.log_evidence_ - evidence) / allowed
    return _by_particles(place, seed, theta, w, mean, sd, heard, beyond)


def _by_particles(place, seed, theta, w, mean, sd, heard, beyond=0.0):
    found = w @ theta
    spread = np.sqrt(w @ (theta - found) ** 2)
    gap, ratio = np.abs(found - mean) / sd, spread / sd - 1.0
    return by_moments(place, seed, gap, ratio, heard.warned, beyond)


# ---------------------------------------------------------------------- several columns
_WAYS = {
    "array": {}, "sparse": {}, "float32": {}, "three classes": {}, "few rows": {},
    "moves": {"moves": "always"},
}  # fmt: skip


@cache
def _table(how):
    """Years, time stamps, a small column, a dummy and a constant; labels."""
    rng = np.random.default_rng(7)
    n = 25 if how == "few rows" else 400
    X = np.c_[
        _years(rng, n), 1.7e9 + 3e4 * rng.standard_normal(n), 1e-9 * rng.gamma(2.0, size=n),
        _dummy(rng, n), np.full(n, 273.15),
    ]  # fmt: skip
    Z = StandardScaler().fit_transform(X)
    score = Z @ [1.0, -0.5, 0.7, 0.4, 0.0] + rng.logistic(size=n)
    y = np.digitize(score, [-1.0, 1.0]) if how == "three classes" else (score > 0.2).astype(int)
    return X.astype(np.float32) if how == "float32" else X, y


@cache
def _reference(how):
    """Means and sds of coefficients per sd, and of logits at the means, by many particles."""
    X, y = _table(how)
    Z = StandardScaler().fit_transform(X.astype(np.float64))
    model = BayesianLogisticRegressionPMD(
        scale=None, n_particles=N_REFERENCE, random_state=1234
    ).fit(Z, y)
    return model.posterior_.mean(), model.posterior_.std()


def _table_case(how, seed):
    X, y = _table(how)
    model = BayesianLogisticRegressionPMD(random_state=seed, **_WAYS[how])
    with hearing() as heard:
        model.fit(csr_array(X) if how == "sparse" else X, y)
    centre, scale = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    scale[scale < 1e-12 * np.abs(centre)] = 1.0  # Of the constant it is rounding.
    rows = model.posterior_.particles.reshape(len(model.posterior_.weights), -1, X.shape[1] + 1)
    at_means = rows[..., -1:] + rows[..., :-1] @ centre[:, None]
    theta = np.concatenate([rows[..., :-1] * scale, at_means], axis=-1).reshape(len(rows), -1)
    place = ("logistic", "everyday", f"table, {how}", True, False)
    return _by_particles(place, seed, theta, model.posterior_.weights, *_reference(how), heard)
