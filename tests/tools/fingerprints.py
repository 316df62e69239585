"""Compare the results of two commits, case by case, on one machine.

From the root of a checkout::

    python -m tests.tools.fingerprints --against REV

REV is exported into a temporary folder. Every case then runs in both trees, each in processes of
its own with one thread: a first process fills the Numba caches, and the results of a second one
count. The two trees run side by side. No results are stored here: this file's cases only use what
can be imported from the top level of ``skpmd``, so that the same code runs against both trees.

A case is "equal" if all of its arrays have the same dtype, shape and values, nan being equal to
nan. Otherwise the table has the largest relative difference of its arrays: the largest |x - y|
over the entries, divided by the largest finite |x| or |y| of the whole array. It is inf where
entries differ and are not finite, or are not numbers, and where dtypes, shapes or names of arrays
differ. The line below names the array.

Columns of ``history_`` that only one tree has are left out.

The exit status is 1 if a case differs by more than ``--rtol``, if it raises in one tree only, or
if it raises errors of two types.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

import skpmd
from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    GaussianPosterior,
    LDATopicModelPMD,
    NormalMixture,
    ParticleMirrorDescent,
    Posterior,
    SparseGPRegressorPMD,
)

_RECORD = "history."  # begins the names of arrays that may be missing in one of the trees
_ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
CASES = {}


# ------------------------------------------------------------------ results
def attributes(thing, *names):
    """Those attributes that are there, a dict."""
    found = {name: getattr(thing, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def record_of(model):
    """Columns of numbers of the record of steps, and how the posterior ended."""
    columns = getattr(model, "history_", None) or {}
    numbers = {name: np.asarray(column) for name, column in columns.items()}
    # A column of nan alone is one that the fit does not record.
    numbers = {n: c for n, c in numbers.items() if c.dtype.kind in "biuf" and (c == c).any()}
    found = {_RECORD + name: c for name, c in numbers.items()}
    return {**found, **attributes(model, "n_iter_", "log_evidence_")}


def particles_of(posterior):
    """Particles with their weights, and the certificate."""
    names = "particles", "log_weights", "weights", "ess", "pareto_k", "r_hat", "log_evidence_se"
    return attributes(posterior, *names, "loc", "scale")


# ------------------------------------------------------------------ cases
def case(name, **params):
    """Register a function of the parameters as a case; it returns a dict of arrays."""

    def register(function):
        if name in CASES:
            raise ValueError(f"There are two cases {name!r}.")
        CASES[name] = partial(function, **params)
        return function

    return register


def cases(family, function, table):
    """Register one case for each row of a table, of the parameters there."""
    for name, params in table.items():
        case(f"{family}: {name}", **params)(function)


def run(model, data, n_parts=0, passes=1, first=0, by_row=None, **of_parts):
    """The model after a fit, or after a stream in parts that may begin with a fit of first rows.

    Parts are so many of equal size, or as cut before some places; ``by_row`` are arguments that
    have a value for each row, and others are those of `partial_fit`.
    """

    def call(method, rows, **others):
        own = {name: values[rows] for name, values in (by_row or {}).items()}
        method(*(one[rows] for one in data), **own, **others)

    if n_parts == 0:
        call(model.fit, slice(None))
        return model
    if first:
        call(model.fit, slice(first))
    for _ in range(passes):
        for rows in np.array_split(np.arange(first, data[0].shape[0]), n_parts):
            call(model.partial_fit, rows, **of_parts)
    return model


def weights(n, weighted):
    """The argument ``sample_weight`` of `run`, where a case has one."""
    return {"sample_weight": np.linspace(0.0, 2.0, n)} if weighted else {}


_STREAM = "n_parts", "passes", "first"


def split(params):
    """What describes a stream, and the parameters of an estimator."""
    stream = {name: params.pop(name) for name in _STREAM if name in params}
    return stream, params


# ------------------------------------------------------------------ a user's own model
def _normal_log_likelihood(theta, X, y, sample_weight=None):
    """Rows N(theta_0, exp(2 theta_1))."""
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    scaled = (X[:, 0] - theta[:, :1]) * np.exp(-theta[:, 1:])
    return -0.5 * scaled**2 @ weight - weight.sum() * (theta[:, 1] + 0.5 * np.log(2 * np.pi))


def _normal_log_prior(theta):
    return -0.5 * (theta**2).sum(axis=1) - np.log(2 * np.pi)


def _normal_sample_prior(rng, m):
    return rng.standard_normal((m, 2))


def _share_log_likelihood(theta, X, y):
    """Rows 0 or 1, a share theta of them 1."""
    total = X.sum()
    return total * np.log(theta[:, 0]) + (len(X) - total) * np.log1p(-theta[:, 0])


def _share_log_prior(theta):
    return np.where((theta[:, 0] > 0.0) & (theta[:, 0] < 1.0), 0.0, -np.inf)


def _share_sample_prior(rng, m):
    return rng.random((m, 1))


_NORMAL = _normal_log_likelihood, _normal_log_prior, _normal_sample_prior
_SHARE = _share_log_likelihood, _share_log_prior, _share_sample_prior


def _own(functions=_NORMAL, **params):
    names = "log_likelihood", "log_prior", "sample_prior"
    params = {
        **dict(zip(names, functions, strict=True)),
        "random_state": 3,
        "n_particles": 250,
        **params,
    }
    return ParticleMirrorDescent(**params)


@cache
def _normal_rows():
    return np.random.default_rng(0).normal(0.8, 0.7, size=(120, 1))


def _own_results(model):
    return {**record_of(model), **particles_of(model.posterior_)}


def _own_fit(weighted=False, **params):
    X = _normal_rows()
    stream, params = split(params)
    return _own_results(run(_own(**params), (X,), by_row=weights(len(X), weighted), **stream))


cases(
    "own",
    _own_fit,
    {
        "default": {},
        "default size": {"n_particles": 1000, "max_iter": 1},
        "batches": {"batch_size": 20},
        "rejuvenation=always": {"rejuvenation": "always", "batch_size": 30},
        "rejuvenation=never": {"rejuvenation": "never", "batch_size": 30},
        "bandwidth=theorem": {"bandwidth": "theorem", "batch_size": 30},
        "bandwidth=scott": {"bandwidth": "scott", "batch_size": 30},
        "bandwidth=silverman": {"bandwidth": "silverman", "batch_size": 30},
        "bandwidth=median": {"bandwidth": "median", "bandwidth_factor": 3.0, "batch_size": 30},
        "bandwidth=0.3": {"bandwidth": 0.3, "batch_size": 30},
        "epanechnikov": {"kernel": "epanechnikov", "rejuvenation": "always"},
        "epanechnikov alone": {"kernel": "epanechnikov", "reweight": False},
        "shrinkage=False": {"shrinkage": False, "batch_size": 30},
        "average": {"average": True, "batch_size": 30},
        "average alone": {"average": True, "reweight": False, "batch_size": 30},
        "reweight=False": {"reweight": False, "batch_size": 30},
        "final_particles": {"n_particles": 100, "final_particles": 400},
        "final_particles alone": {
            "n_particles": 100, "final_particles": 400, "reweight": False, "batch_size": 30,
        },
        "growth=1": {"n_particles": 50, "particle_growth": 1.0, "max_particles": 800},
        "growth=theorem": {
            "n_particles": 50, "particle_growth": "theorem", "max_particles": 800, "batch_size": 30,
        },
        "schedule=rows": {"step_schedule": "rows", "batch_size": 20},
        "schedule=theorem6": {"step_schedule": "theorem6", "batch_size": 30},
        "schedule=theorem6, constant": {
            "step_schedule": "theorem6", "step_constant": 2.0, "batch_size": 30,
        },
        "step parameters": {
            "step_size": 0.5, "step_offset": 1.0, "step_decay": 0.6, "batch_size": 30,
        },
        "sampling=replacement": {"sampling": "replacement", "batch_size": 30},
        "max_substeps=1": {"max_substeps": 1, "ess_threshold": 0.7},
        "temperature=2": {"temperature": 2.0, "batch_size": 30},
        "sample_weight": {"weighted": True, "batch_size": 30},
        "systematic": {"resampling": "systematic", "rejuvenation": "always", "batch_size": 40},
        "stratified": {"resampling": "stratified", "rejuvenation": "always", "batch_size": 40},
        "residual": {"resampling": "residual", "rejuvenation": "always", "batch_size": 40},
        "multinomial": {"resampling": "multinomial", "rejuvenation": "always", "batch_size": 40},
    },
)  # fmt: skip
cases(
    "own stream",
    partial(_own_fit, n_parts=4),
    {
        "default": {},
        "sample_weight": {"weighted": True},
        "total_samples, two passes": {"total_samples": 120, "passes": 2},
        "forgetting": {"forgetting": 0.02},
        "fit, partial_fit": {"first": 40},
        "average, fit, partial_fit": {
            "first": 40,
            "average": True,
            "reweight": False,
            "total_samples": 40,
            "n_parts": 2,
        },
        "rejuvenation=always": {"rejuvenation": "always", "n_parts": 3},
    },
)


@case("own: bounded support")
def _own_share():
    X = (np.random.default_rng(1).random((50, 1)) < 0.1).astype(float)
    return _own_results(_own(_SHARE, batch_size=10).fit(X))


# ------------------------------------------------------------------ logistic regression
@cache
def _two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200, [0, 1, 4, 8, 9]], y[:200]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@cache
def _three_classes():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[order], np.array(["a", "b", "c"])[y[order]]


def _logistic(**params):
    return BayesianLogisticRegressionPMD(**{"random_state": 0, **params})


def _logistic_results(model, X):
    names = "coef_", "coef_std_", "intercept_", "intercept_std_", "classes_", "prior_scale_"
    return {
        **record_of(model),
        **particles_of(model.posterior_),
        **attributes(model, *names),
        "probabilities": model.predict_proba(X[:30]),
    }


def _logistic_fit(
    multi=False, sparse=False, dtype=np.float64, weighted=False, n_columns=5, **params
):
    X, y = _three_classes() if multi else _two_classes()
    X = X[:, :n_columns].astype(dtype)
    X = sp.csr_matrix(X * (np.abs(X) > 0.4)) if sparse else X
    stream, params = split(params)
    of_rows = weights(len(y), weighted)
    model = run(_logistic(**params), (X, y), by_row=of_rows, classes=np.unique(y), **stream)
    return _logistic_results(model, X)


_STEPS = {"n_particles": 500, "max_iter": 3, "batch_size": 50}
cases(
    "logistic",
    _logistic_fit,
    {
        "default": {},
        "default, three classes": {"multi": True},
        "float32": {"dtype": np.float32},
        "fit_intercept=False": {"fit_intercept": False},
        "sample_weight": {"weighted": True},
        "class_weight=balanced": {"class_weight": "balanced"},
        "class_weight of a dict": {"class_weight": {"a": 2.0, "b": 0.5}, "multi": True},
        "temperature=2": {"temperature": 2.0},
        "proposal=laplace": {"proposal": "laplace"},
        "proposal=mirror": {"proposal": "mirror"},
        "proposal=prior": {"proposal": "prior", **_STEPS},
        "prior=laplace": {"prior": "laplace"},
        "prior=student_t": {"prior": "student_t", "prior_df": 3.0},
        "prior=cauchy": {"prior": "cauchy"},
        "prior=horseshoe": {"prior": "horseshoe", "n_particles": 640},
        "moves=always": {"moves": "always", "n_particles": 640},
        "moves=always, three classes": {"moves": "always", "n_particles": 640, "multi": True},
        "moves=never": {"moves": "never", "prior": "laplace", "multi": True, "n_particles": 1000},
        "prior_scale=evidence": {"prior_scale": "evidence", "n_columns": 3},
        "prior_scale=evidence, three classes": {
            "prior_scale": "evidence", "multi": True, "n_columns": 1,
        },
        "covariance_type=diag": {"covariance_type": "diag"},
        "covariance_type=diag, sparse, three classes": {
            "covariance_type": "diag", "sparse": True, "multi": True,
        },
        "reweight=False": {"reweight": False, **_STEPS},
        "proposal=prior, reweight=False": {"proposal": "prior", "reweight": False, **_STEPS},
        "sparse": {"sparse": True},
        "sparse, three classes": {"sparse": True, "multi": True},
    },
)  # fmt: skip
cases(
    "logistic stream",
    partial(_logistic_fit, n_parts=4),
    {
        "proposal=auto": {"n_particles": 1000},
        "proposal=auto, three classes": {"n_particles": 1000, "multi": True},
        "proposal=laplace": {"n_particles": 1000, "proposal": "laplace"},
        "proposal=prior": {"n_particles": 500, "proposal": "prior"},
        "prior=horseshoe": {"n_particles": 500, "prior": "horseshoe", "n_parts": 2},
        "total_samples, two passes": {"n_particles": 1000, "total_samples": 200, "passes": 2},
        "forgetting": {"n_particles": 1000, "forgetting": 0.005},
        "fit, partial_fit": {"n_particles": 300, "first": 80},
    },
)


@case("logistic: warm_start", **_STEPS)
def _logistic_warm(**params):
    X, y = _two_classes()
    model = _logistic(reweight=False, warm_start=True, **params).fit(X, y)
    return _logistic_results(model.fit(X, y), X)


def _logistic_predictions(multi, **params):
    X, y = _three_classes() if multi else _two_classes()
    model = _logistic(n_particles=1000, **params).fit(X, y)
    X, y = X[:20], y[:20]
    classes = np.unique(_three_classes()[1] if multi else _two_classes()[1])
    prior = model.sample_prior_y(X, classes=classes, n_samples=10, random_state=2)
    return {
        "labels": model.predict(X),
        "log_probabilities": model.predict_log_proba(X),
        "decision": model.decision_function(X),
        "interval": model.predict_proba_interval(X, level=0.8),
        "draws": model.sample_y(X, n_samples=10, random_state=1),
        "prior_draws": prior,
        "pointwise": model.pointwise_log_likelihood(X, y, n_draws=50),
    }


cases(
    "logistic predictions",
    _logistic_predictions,
    {
        "two classes": {"multi": False},
        "three classes": {"multi": True},
        "diag": {"multi": True, "covariance_type": "diag"},
    },
)


# ------------------------------------------------------------------ other linear models
@cache
def _regression(family):
    """Columns, a known offset or trials last, and targets that suit the family."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3)) * [1.0, 10.0, 0.1]
    eta = X @ [0.5, -0.03, 2.0] + 0.3
    trials, mu = rng.integers(5, 20, 150).astype(float), np.exp(0.5 * eta)
    y = {
        "normal": lambda: eta + rng.standard_normal(150),
        "student_t": lambda: eta + rng.standard_t(3.0, 150),
        "poisson": lambda: rng.poisson(mu),
        "negative_binomial": lambda: rng.poisson(mu * rng.gamma(2.0, 0.5, 150)),
        "gamma": lambda: mu * rng.gamma(3.0, 1.0 / 3.0, 150),
        "binomial": lambda: rng.binomial(trials.astype(int), expit(eta)),
        "beta": lambda: rng.beta(10.0 * expit(eta), 10.0 - 10.0 * expit(eta)),
        "ordinal": lambda: np.digitize(eta + rng.logistic(size=150), [-1.0, 0.5, 2.0]),
    }[family]().astype(float)
    return np.column_stack([X, trials]), y


def _linear_fit(family="negative_binomial", weighted=False, role=None, sparse=False, **params):
    X, y = _regression(family)
    stream, params = split({"random_state": 0, "n_particles": 1000, **params})
    params |= {"trials": 3} if family == "binomial" else {} if role is None else {role: 3}
    X = X if role or family == "binomial" else X[:, :3]
    X = sp.csr_matrix(X * (np.abs(X) > 0.4)) if sparse else X
    if family == "ordinal":
        known = {"classes": np.unique(y)} if stream else {}
        model = run(skpmd.BayesianOrdinalClassifierPMD(**params), (X, y), **stream, **known)
        own = {"probabilities": model.predict_proba(X[:20]), **attributes(model, "cutpoints_")}
    else:
        model = skpmd.BayesianGLMRegressorPMD(family, **params)
        model = run(model, (X, y), by_row=weights(len(y), weighted), **stream)
        found = model.predict_proba(X[:20])
        own = {
            "mean": found.mean(), "std": found.std(), "quantile": found.quantile(0.3),
            "interval": found.interval(0.8), "of_mean": found.interval_of_mean(0.8),
            "crps": found.crps(y[:20]), "score": model.score(X, y),
            "draws": model.sample_y(X[:20], n_samples=5, random_state=1),
            "pointwise": model.pointwise_log_likelihood(X[:20], y[:20], n_draws=50),
            **attributes(model, "intercept_", "intercept_std_"),
        }  # fmt: skip
    own |= attributes(model, "coef_", "coef_std_")
    return {**record_of(model), **particles_of(model.posterior_), **own}


_LINEAR = "normal", "student_t", "poisson", "gamma", "binomial", "beta", "ordinal"
cases("linear", _linear_fit, {family: {"family": family} for family in _LINEAR})
cases(
    "linear",
    _linear_fit,
    {
        "negative_binomial": {},
        "exposure": {"role": "exposure"},
        "offset": {"role": "offset", "family": "normal"},
        "sample_weight": {"weighted": True, "family": "gamma"},
        "sparse": {"sparse": True, "family": "poisson", "role": "exposure"},
        "normal, log link": {"family": "normal", "link": "log"},
        "beta, probit": {"family": "beta", "link": "probit"},
        "binomial, cloglog": {"family": "binomial", "link": "cloglog"},
        "prior=horseshoe": {"prior": "horseshoe", "n_particles": 640, "family": "poisson"},
        "prior=student_t": {"prior": "student_t", "family": "normal"},
        "moves=always": {"moves": "always", "n_particles": 640},
        "prior_scale=evidence": {"prior_scale": "evidence", "family": "normal"},
        "proposal=prior": {"proposal": "prior", "family": "poisson", **_STEPS},
        "stream": {"n_parts": 3},
        "stream, normal": {"n_parts": 3, "family": "normal"},
        "stream, ordinal": {"n_parts": 3, "family": "ordinal"},
    },
)


# ------------------------------------------------------------------ Gaussian processes
@cache
def _targets():
    X, y = load_diabetes(return_X_y=True)
    return 20.0 * X[:360, [2, 3, 8]], y[:360]


@cache
def _wave():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(400, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(400)


def _process(**params):
    return SparseGPRegressorPMD(**{"random_state": 0, **params})


def _process_results(model, X):
    mean, std = model.predict(X[:30], return_std=True)
    return {
        **record_of(model),
        **particles_of(model.posterior_),
        **attributes(model, "inducing_", "log_marginal_likelihood_value_"),
        "theta": model.kernel_.theta,
        "mean": mean,
        "std": std,
    }


def _process_fit(n=150, wave=False, noise=False, weighted=False, two=False, **params):
    X, y = _wave() if wave else _targets()
    X, y = X[:n], y[:n]
    y = np.column_stack([y, y[::-1]]) if two else y
    of_rows = weights(n, weighted)
    if noise:
        of_rows["noise_variance"] = np.linspace(0.0, 0.5, n) * y.var()
    stream, params = split(params)
    return _process_results(run(_process(**params), (X, y), by_row=of_rows, **stream), X)


_FEW = {"n_inducing": 25, "n_restarts_optimizer": 0}
_LEARNT_SOON = {"n_subset": 50, "n_refine": 90, "n_inducing": 20, "n_restarts_optimizer": 0}
cases(
    "process",
    _process_fit,
    {
        "default": {},
        "fitc": {**_FEW, "approximation": "fitc"},
        "vfe": {**_FEW, "approximation": "vfe"},
        "dtc": {**_FEW, "approximation": "dtc"},
        "refined": {**_LEARNT_SOON, "n": 300},
        "optimizer=None": {**_FEW, "optimizer": None},
        "matern": {**_FEW, "kernel": Matern(nu=1.5) + WhiteKernel()},
        "sample_weight": {**_FEW, "weighted": True},
        "noise_variance": {**_FEW, "noise": True},
        "two targets": {**_FEW, "two": True},
        "stacking": {**_FEW, "n_particles": 4},
        "uniform": {**_FEW, "n_particles": 4, "weighting": "uniform"},
        "posterior": {
            "n": 40, "wave": True, "n_particles": 30, "weighting": "posterior", "max_iter": 2,
            "n_inducing": 12, "n_restarts_optimizer": 0, "batch_size": 20,
            "kernel": RBF() + WhiteKernel(),
        },
        "student_t": {**_FEW, "likelihood": "student_t", "n": 100},
        "kmeans": {**_FEW, "inducing_init": "kmeans"},
        "greedy": {**_FEW, "inducing_init": "greedy"},
        "given inducing inputs": {
            "wave": True, "inducing_init": np.linspace(-3.0, 3.0, 12)[:, None],
            "n_restarts_optimizer": 0,
        },
    },
)  # fmt: skip
cases(
    "process stream",
    partial(_process_fit, n_parts=3),
    {
        "few": _FEW,
        "past the kept rows": {**_LEARNT_SOON, "n": 320, "n_parts": 7},
        "past the kept rows, wave": {**_LEARNT_SOON, "n": 400, "n_parts": 7, "wave": True},
        "stacking": {**_LEARNT_SOON, "n": 240, "n_parts": 5, "n_particles": 3},
        "posterior": {
            "n": 40, "wave": True, "n_particles": 30, "weighting": "posterior", "n_inducing": 12,
            "n_restarts_optimizer": 0, "optimizer": None,
            "kernel": RBF(0.7) + WhiteKernel(0.1),
        },
        "student_t": {**_FEW, "likelihood": "student_t", "n": 120, "n_parts": 2},
        "total_samples, two passes": {**_LEARNT_SOON, "n": 200, "total_samples": 200, "passes": 2},
        "forgetting": {**_LEARNT_SOON, "n": 240, "n_parts": 5, "forgetting": 0.01},
        "fit, partial_fit": {**_LEARNT_SOON, "n": 240, "first": 60},
    },
)  # fmt: skip


def _process_predictions(**params):
    X, y = _wave()
    model = _process(n_inducing=20, n_restarts_optimizer=0, **params).fit(X[:100], y[:100])
    X, y = X[100:130], y[100:130]
    mean, cov = model.predict(X, return_cov=True)
    proba = model.predict_proba(X)
    return {
        "mean": mean,
        "cov": cov,
        "quantiles": proba.ppf(np.array([0.05, 0.5, 0.95])),
        "crps": proba.crps(y),
        "log_pdf": proba.log_pdf(y),
        "function": model.predict_proba(X, target="f").std(),
        "interval": model.predict_interval(X, level=0.8),
        "predict_quantiles": model.predict_quantiles(X, [0.1, 0.9]),
        "draws": model.sample_y(X, n_samples=5, random_state=1),
        "log_marginal_likelihood": model.log_marginal_likelihood(),
    }


cases(
    "process predictions",
    _process_predictions,
    {
        "one particle": {},
        "several particles": {"n_particles": 4},
        "student_t": {"likelihood": "student_t"},
    },
)


# ------------------------------------------------------------------ mixtures
@cache
def _groups(n=300, p=2):
    rng = np.random.default_rng(0)
    centres = 2.5 * rng.standard_normal((3, p))
    own = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    return centres[own] + rng.standard_normal((n, p)) * rng.uniform(0.5, 1.5, size=(3, 1))[own]


def _mixture(**params):
    return GaussianMixturePMD(**{"random_state": 0, **params})


def _mixture_results(model, X):
    names = (
        "weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_", "converged_",
        "lower_bound_", "weight_concentration_prior_", "mean_prior_", "mean_precision_prior_",
        "degrees_of_freedom_prior_", "covariance_prior_", "mean_scale_prior_",
    )  # fmt: skip
    return {
        **record_of(model),
        **particles_of(model.posterior_),
        **attributes(model, *names),
        "log_density": model.score_samples(X[:40]),
        "shares": model.predict_proba(X[:40]),
    }


def _mixture_fit(n=300, p=2, weighted=False, **params):
    X = _groups(n, p)
    stream, params = split(params)
    model = run(_mixture(**params), (X,), by_row=weights(n, weighted), **stream)
    return _mixture_results(model, X)


_OPTIMA = {"strategy": "conjugate", "n_components": 3}
_DRAWS = {"strategy": "parameters", "n_components": 2, "n_particles": 200, "n": 40, "p": 1}
_FEW_DRAWS = {**_DRAWS, "n_particles": 100, "n": 60, "n_parts": 2}
cases(
    "mixture",
    _mixture_fit,
    {
        **{
            f"covariance_type={kind}": {**_OPTIMA, "covariance_type": kind}
            for kind in ("full", "tied", "diag", "spherical")
        },
        **{
            f"weighting={weighting}": {**_OPTIMA, "weighting": weighting}
            for weighting in ("posterior", "uniform")
        },
        **{
            kind: {**_OPTIMA, "weight_concentration_prior_type": kind, "n_components": 5}
            for kind in ("dirichlet_distribution", "dirichlet_process", "pitman_yor")
        },
        **{
            f"init_params={way}": {**_OPTIMA, "init_params": way}
            for way in ("k-means++", "kmeans", "random_from_data", "random")
        },
        "one particle": {**_OPTIMA, "n_particles": 1},
        "sample_weight": {**_OPTIMA, "weighted": True},
        "max_iter=0": {**_OPTIMA, "max_iter": 0, "max_full_iter": 20},
        "batches, max_full_iter=0": {**_OPTIMA, "batch_size": 50, "max_full_iter": 0},
        "priors": {
            **_OPTIMA, "weight_concentration_prior": 2.0, "mean_prior": [0.5, -0.5],
            "mean_precision_prior": 0.1, "degrees_of_freedom_prior": 4.0,
            "covariance_prior": 0.3 * np.eye(2), "reg_covar": 1e-4,
        },
    },
)  # fmt: skip
cases(
    "mixture of draws",
    _mixture_fit,
    {
        "full": _DRAWS,
        "tied, dirichlet_process": {
            **_DRAWS, "p": 2, "covariance_type": "tied", "n_particles": 100,
            "weight_concentration_prior_type": "dirichlet_process",
        },
        "independent": {**_DRAWS, "component_prior": "independent"},
        "independent, diag, three components": {
            **_DRAWS, "component_prior": "independent", "covariance_type": "diag",
            "n_components": 3, "n_particles": 100,
        },
        "sample_weight": {**_DRAWS, "weighted": True, "n_particles": 100},
    },
)  # fmt: skip
cases(
    "mixture stream",
    partial(_mixture_fit, n_parts=3),
    {
        "few": _OPTIMA,
        "past the kept rows": {**_OPTIMA, "n": 2600, "n_parts": 6, "n_particles": 4},
        "past the kept rows, tied, uniform": {
            **_OPTIMA, "n": 2600, "n_parts": 6, "n_particles": 4, "covariance_type": "tied",
            "weighting": "uniform",
        },
        "total_samples, two passes": {
            **_OPTIMA, "n": 1500, "n_parts": 3, "total_samples": 1500, "passes": 2,
            "n_particles": 4,
        },
        "forgetting": {**_OPTIMA, "n": 1500, "forgetting": 0.001, "n_particles": 4},
        "fit, partial_fit": {**_OPTIMA, "first": 100},
    },
)  # fmt: skip
cases(
    "mixture stream of draws",
    partial(_mixture_fit, n_parts=3),
    {
        "few": _DRAWS,
        "independent": {**_FEW_DRAWS, "component_prior": "independent"},
        "forgetting": {**_FEW_DRAWS, "forgetting": 0.005},
        "fit, partial_fit": {**_FEW_DRAWS, "first": 20},
        "past the kept rows": {**_FEW_DRAWS, "n": 5100, "n_parts": (40, 5040)},
    },
)


@case("mixture: warm_start", **_OPTIMA)
def _mixture_warm(**params):
    X = _groups()
    model = _mixture(warm_start=True, max_full_iter=1, **params).fit(X[:200])
    return _mixture_results(model.fit(X), X)


def _mixture_predictions(**params):
    X = _groups(params.pop("n", 300), params.pop("p", 2))
    model = _mixture(**params).fit(X)
    draws, labels = model.sample(30, random_state=1)
    return {
        "labels": model.predict(X),
        "score": model.score(X),
        "bic": model.bic(X),
        "aic": model.aic(X),
        "draws": draws,
        "drawn_labels": labels,
        **model.component_interval(level=0.8),
        "co_clustering": model.co_clustering(X[:25]),
    }


cases("mixture predictions", _mixture_predictions, {"optima": _OPTIMA, "draws": _DRAWS})


# ------------------------------------------------------------------ topics
@cache
def _documents(n=120, V=60, length=30):
    rng = np.random.default_rng(0)
    words = rng.dirichlet(np.full(V, 0.1), size=4)
    shares = rng.dirichlet(np.full(4, 0.3), size=n)
    return sp.csr_matrix(np.array([rng.multinomial(length, share @ words) for share in shares]))


def _topics(**params):
    return LDATopicModelPMD(**{"n_components": 4, "random_state": 0, **params})


def _topics_results(model, X):
    names = (
        "components_", "topic_word_", "doc_topic_prior_", "topic_word_prior_", "lower_bound_",
        "bound_", "n_batch_iter_", "n_documents_seen_",
    )  # fmt: skip
    return {
        **record_of(model),
        **attributes(model, *names),
        "weights": model.posterior_.weights,
        "shares": model.transform(X[:40]),
        "bounds": model.score_samples(X[:40]),
    }


def _topics_fit(n=120, length=30, dtype=np.int64, **params):
    X = _documents(n, length=length).astype(dtype)
    stream, params = split(params)
    return _topics_results(run(_topics(**params), (X,), **stream), X)


@case("topics stream: growing vocabulary")
def _topics_growing():
    X, model = _documents(), _topics(vocabulary="growing")
    for i, rows in enumerate(np.array_split(np.arange(120), 3)):
        model.partial_fit(X[rows][:, : 40 + 10 * i])
    return _topics_results(model, X)


cases(
    "topics",
    _topics_fit,
    {
        **{
            f"assignment={way}": {"assignment": way}
            for way in ("auto", "sampled", "soft", "collapsed")
        },
        **{
            f"weighting={weighting}": {"weighting": weighting, "max_full_iter": 2}
            for weighting in ("stacking", "posterior", "uniform")
        },
        "posterior, collapsed": {"weighting": "posterior", "assignment": "collapsed"},
        "long documents": {"length": 250, "n": 60},
        "learn_priors": {
            "learn_priors": True, "batch_size": 4, "max_iter": 4, "n_particles": 2,
            "doc_topic_prior": 0.5,
        },
        "max_full_iter=5": {"max_full_iter": 5, "max_iter": 2},
        "n_local_iter=5": {"n_local_iter": 5, "batch_size": 16},
        "n_jobs=2": {"n_jobs": 2},
        "shuffle=False": {"shuffle": False},
        "evaluate_every=1": {"evaluate_every": 1, "max_iter": 8, "perp_tol": 0.5},
        "one topic": {"n_components": 1, "max_full_iter": 1},
        "float32": {"dtype": np.float32},
        "priors": {"doc_topic_prior": [0.1, 0.2, 0.3, 0.4], "topic_word_prior": 0.05},
    },
)  # fmt: skip
cases(
    "topics stream",
    partial(_topics_fit, n_parts=3),
    {
        "endless": {},
        "total_samples, two passes": {"total_samples": 120, "passes": 2},
        "stacking": {"weighting": "stacking", "total_samples": 120},
        "posterior": {"weighting": "posterior", "total_samples": 120},
        "learn_priors": {
            "learn_priors": True, "batch_size": 4, "n_particles": 2, "passes": 4,
            "total_samples": 120, "doc_topic_prior": 0.5,
        },
        "fit, partial_fit": {"first": 60},
    },
)  # fmt: skip


@case("topics predictions")
def _topics_predictions():
    X = _documents()
    model = _topics().fit(X)
    posterior = model.posterior_
    return {
        "bound": model.perplexity(X),
        "completion": model.perplexity(X, method="completion"),
        "score": model.score(X),
        "mass": model.transform(X, normalize=False),
        "probabilities": model.predict_proba(X),
        "interval": model.topic_word_interval(level=0.8),
        "mean": posterior.mean(),
        "draws": posterior.sample(3, random_state=1),
        "probability of top words": model.top_words(5)["probability"],
    }


# ------------------------------------------------------------------ distributions, pickles
@case("posterior: weighted particles")
def _posterior():
    rng = np.random.default_rng(0)
    posterior = Posterior(rng.standard_normal((400, 3)) + [0.0, 1.0, 2.0], rng.normal(size=400))
    return {
        **_moments(posterior),
        "ess": posterior.ess,
        "log_weights": posterior.log_weights,
        "expectation": posterior.expectation(np.exp),
    }


@case("posterior: normal")
def _normal_posterior():
    posterior = GaussianPosterior(np.array([0.0, 1.0, -2.0]), np.array([1.0, 0.5, 2.0]), "abc")
    return {**_moments(posterior), "expectation": posterior.expectation(np.cos, n=200)}


def _moments(posterior):
    summary = posterior.summary(level=0.5)
    return {
        "mean": posterior.mean(),
        "std": posterior.std(),
        "cov": posterior.cov(),
        "quantile": posterior.quantile([0.1, 0.5]),
        "interval": posterior.interval(level=0.8),
        "summary": np.column_stack([summary["lower"], summary["upper"]]),
        "draws": posterior.sample(50, random_state=1),
        "log_density": posterior.log_density(np.zeros((2, 3))),
    }


@case("predictive distribution")
def _normal_mixture():
    rng = np.random.default_rng(0)
    stds, weights = rng.uniform(0.5, 2.0, size=(4, 30)), [0.1, 0.2, 0.3, 0.4]
    mixture = NormalMixture(2.0 * rng.standard_normal((4, 30)), stds, weights)
    y = rng.standard_normal(30)
    names = "pdf", "log_pdf", "cdf", "log_cdf", "sf", "log_sf", "crps", "energy"
    return {
        **{name: getattr(mixture, name)(y) for name in names},
        "mean": mixture.mean(),
        "var": mixture.var(),
        "ppf": mixture.ppf(np.array([0.01, 0.5, 0.99])),
        "interval": mixture.interval(level=0.8),
        "draws": mixture.sample(20, random_state=1),
        "rows": mixture[3:6].mean(),
    }


@case("pickles")
def _pickles():
    X, y = _two_classes()
    logistic = _again(_logistic(n_particles=500).fit(X, y))
    mixture = _again(_mixture(n_particles=4, **_OPTIMA).fit(X[:, :2]))
    process = _again(_process(**_FEW).fit(X[:60, 1:], X[:60, 0]))
    topics = _again(_topics(n_particles=2).fit(_documents()))
    return {
        "logistic": logistic.predict_proba(X[:10]),
        "mixture": mixture.score_samples(X[:10, :2]),
        "process": process.predict(X[60:70, 1:]),
        "topics": topics.transform(_documents()[:10]),
        "stream": logistic.partial_fit(X[:50], y[:50]).coef_,
    }


def _again(model):
    return pickle.loads(pickle.dumps(model))


@case("logistic: many rows in batches", n_particles=300, batch_size=250, max_iter=2)
def _logistic_many(**params):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 3))
    y = rng.random(1000) < expit(X @ [1.0, -1.0, 0.5])
    return _logistic_results(_logistic(proposal="prior", **params).fit(X, y), X)


# ------------------------------------------------------------------ the worker
def work(out, tree, only):
    """Run the cases against the ``skpmd`` of a tree, and save arrays, errors and seconds."""
    own = Path(skpmd.__file__).resolve()
    assert own.is_relative_to(Path(tree).resolve()), f"{own} does not lie in {tree}"
    arrays, notes = {}, {}
    for name, function in _chosen(only).items():
        results, notes[name] = _tried(function)
        arrays |= {f"{name}/{key}": np.asarray(value) for key, value in results.items()}
    np.savez(out, notes=json.dumps(notes), **arrays)


def _tried(function):
    """Arrays of a case, and its seconds with what it raised."""
    results, error, told, start = {}, None, "", time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = dict(function())
        results["doubts"] = sum(issubclass(one.category, ConvergenceWarning) for one in caught)
    except Exception as raised:
        error, told = type(raised).__name__, traceback.format_exc()
    return results, {"seconds": time.perf_counter() - start, "error": error, "told": told}


def _chosen(only):
    return {name: function for name, function in CASES.items() if only in name}


# ------------------------------------------------------------------ the comparison
def relative_difference(x, y):
    """Largest |x - y| by the largest finite magnitude of both arrays; 0.0 if they are equal."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return np.inf
    if x.dtype.kind not in "biuf":
        return 0.0 if np.array_equal(x, y) else np.inf
    differ = (x != y) & ~(np.isnan(x) & np.isnan(y))
    if not differ.any():
        return 0.0
    x, y = x.astype(np.float64), y.astype(np.float64)
    off = np.abs(x[differ] - y[differ])
    if not np.isfinite(off).all():
        return np.inf
    return off.max() / max(np.abs(z[np.isfinite(z)]).max() for z in (x, y))


def largest_difference(first, second):
    """The largest relative difference of a case's arrays, and the name of that array."""
    alone = {name for name in first.keys() ^ second.keys() if not name.startswith(_RECORD)}
    found = dict.fromkeys(alone, np.inf)
    for name in first.keys() & second.keys():
        found[name] = relative_difference(first[name], second[name])
    worst = max(sorted(found), key=found.get)
    return found[worst], worst


def start_worker(tree, out, only):
    """A process that runs the cases against a tree, with one thread."""
    command = [sys.executable, "-P", Path(__file__).resolve()]
    command += ["--worker", out, "--tree", tree, "--only", only]
    environment = {**os.environ, **_ONE_THREAD, "PYTHONPATH": str(tree)}
    return subprocess.Popen(command, env=environment, cwd=tree)


def run_both(trees, folder, only):
    """Arrays by case, and notes by case, of each of the trees."""
    for _ in ("to fill the caches", "for the results"):
        outs = [Path(folder, f"{i}.npz") for i in range(len(trees))]
        workers = [start_worker(*own, only) for own in zip(trees, outs, strict=True)]
        if any([worker.wait() for worker in workers]):
            raise SystemExit("A worker failed, see above.")
    return [_loaded(out) for out in outs]


def _loaded(out):
    with np.load(out) as saved:
        notes = json.loads(str(saved["notes"]))
        arrays = {name: {} for name in notes}
        for key in set(saved.files) - {"notes"}:
            name, array = key.rsplit("/", 1)
            arrays[name][array] = saved[key]
    return arrays, notes


def report(before, after, rtol):
    """Print the table; the names of cases that differ."""
    (arrays, notes), (new_arrays, new_notes) = before, after
    width, failed = max(map(len, notes)), []
    print(f"{'case':{width}}  {'difference':>10}  {'s before':>8}  {'s after':>8}")
    for name, old in notes.items():
        new, where = new_notes[name], []
        if old["error"] or new["error"]:
            same = old["error"] == new["error"]
            verdict = "same error" if same else "error"
            where = [f"{old['error']} before, {new['error']} after"]
            where += [one["told"] for one in (old, new)[same:] if one["told"]]
        else:
            size, array = largest_difference(arrays[name], new_arrays[name])
            same, verdict = size <= rtol, f"{size:.1e}" if size else "equal"
            where = [f"in {array}"] if size else []
        failed += [] if same else [name]
        print(f"{name:{width}}  {verdict:>10}  {old['seconds']:8.2f}  {new['seconds']:8.2f}")
        for line in where:
            print(f"    {line}")
    seconds = [sum(one["seconds"] for one in own.values()) for own in (notes, new_notes)]
    print(f"{f'{len(notes)} cases':{width}}  {'':>10}  {seconds[0]:8.2f}  {seconds[1]:8.2f}")
    return failed


def export(revision, folder):
    """The files of a revision of the repository in the working directory."""
    archive = subprocess.run(["git", "archive", revision], check=True, stdout=subprocess.PIPE)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def parsed(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", metavar="REV", help="commit to compare with")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="cases with it in the name")
    parser.add_argument("--rtol", type=float, default=0.0, help="difference that is let pass")
    parser.add_argument(
        "--base-tree",
        type=Path,
        metavar="DIR",
        help="tree to compare with, whose compiled kernels stay; REV is exported there if it is "
        "missing",
    )
    parser.add_argument(
        "--tree", type=Path, default=Path.cwd(), metavar="DIR", help="default: working directory"
    )
    parser.add_argument("--worker", type=Path, metavar="OUT", help=argparse.SUPPRESS)
    own = parser.parse_args(arguments)
    if not _chosen(own.only):
        parser.error(f"no case has {own.only!r} in its name")
    if own.base_tree is None and own.against is None and own.worker is None:
        parser.error("one of --against and --base-tree is needed")
    if own.base_tree is not None and not own.base_tree.exists() and own.against is None:
        parser.error(f"{own.base_tree} does not exist, and --against names no commit to export")
    return own


def main(arguments=None):
    """Compare, or run as a worker; the exit status."""
    own = parsed(arguments)
    if own.worker is not None:
        work(own.worker, own.tree, own.only)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        base = own.base_tree or Path(folder, "base")
        if not base.exists():
            export(own.against, base)
        trees = base.resolve(), own.tree.resolve()
        failed = report(*run_both(trees, folder, own.only), own.rtol)
    if failed:
        print(f"{len(failed)} differ: " + "; ".join(failed))
    else:
        print("no case differs" + (f" by more than {own.rtol:g}" if own.rtol else ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
