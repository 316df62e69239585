"""Cold starts: importing compiles nothing, a second process compiles nothing, no global state."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys

import pytest
from numba.core.dispatcher import Dispatcher

import skpmd

REPORT = """
import importlib, json, pkgutil, sys
import skpmd
names = [m.name for m in pkgutil.walk_packages(skpmd.__path__, "skpmd.")]
modules = [importlib.import_module(n) for n in names if n != "skpmd.skpro"]  # needs an extra
kernels = {}
for module in modules:
    for name, value in vars(module).items():
        if hasattr(value, "py_func") and value.py_func.__module__ == module.__name__:
            kernels[f"{module.__name__}.{name}"] = value
def count():
    return {
        name: (len(k.signatures), sum(k.stats.cache_misses.values())) for name, k in kernels.items()
    }
imported = count()
import warnings
import numpy as np
from sklearn.datasets import load_breast_cancer
X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
before = np.random.get_state()[1].tolist(), np.geterr()
warnings.simplefilter("ignore")
for params in ({}, {"proposal": "prior", "n_particles": 300, "max_iter": 1}):
    skpmd.BayesianLogisticRegressionPMD(random_state=0, **params).fit(X, y).predict_proba(X)
for strategy in ("conjugate", "parameters"):
    for kind in ("full", "diag"):
        mixture = skpmd.GaussianMixturePMD(
            2, strategy=strategy, covariance_type=kind, n_particles=20, random_state=0
        )
        mixture.fit(X[:, :1]).score_samples(X[:, :1])
counts = np.random.default_rng(0).poisson(0.3, size=(60, 40)).astype(float)
topics = skpmd.LDATopicModelPMD(3, n_particles=2, assignment="soft", max_iter=2, random_state=0)
answers = [topics.fit_transform(counts).tobytes().hex(), topics.components_.tobytes().hex()]
def log_prior(t): return -0.5 * (t**2).sum(axis=1) - 1.5 * np.log(2.0 * np.pi)
def log_likelihood(t, X, y): return -8.0 * (np.abs(t) - 1.0).sum(axis=1) ** 2
def sample_prior(rng, m): return rng.standard_normal((m, 3))
for proposal in ("auto", "prior"):
    own = skpmd.ParticleMirrorDescent(
        log_likelihood, log_prior, sample_prior, proposal=proposal, n_particles=300, random_state=0
    ).fit(X[:1])
    answers.append(own.posterior_.particles.tobytes().hex())
gp = skpmd.SparseGPRegressorPMD(n_inducing=20, random_state=0)
answers.append(gp.fit(X[:99, :3], X[:99, 3]).predict(X[:, :3]).tobytes().hex())
same = before == (np.random.get_state()[1].tolist(), np.geterr())
print(json.dumps({"imported": imported, "fitted": count(), "same": same, "answers": answers}))
"""

# The same as far as the imports.
IMPORTS = REPORT.partition("import warnings")[0] + 'print(json.dumps({"imported": imported}))'


def report(cache, program=REPORT):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Of two processes with one cache: the first compiles for over a minute."""
    cache = tmp_path_factory.mktemp("kernels")
    return report(cache), report(cache)


def test_importing_compiles_nothing(tmp_path):
    imported = report(tmp_path, IMPORTS)["imported"]
    assert imported
    assert all(signatures == 0 for signatures, _ in imported.values())


def test_kernels_of_sums_in_any_order_are_inlined_where_they_are_called():
    """Compiled by itself as well, each of them would have sums of two orders.

    Which one runs would be up to what has been compiled before.
    """
    called = set()
    for found in pkgutil.walk_packages(skpmd.__path__, "skpmd."):
        if found.name == "skpmd.skpro":  # It needs an extra.
            continue
        for one in vars(importlib.import_module(found.name)).values():
            if isinstance(one, Dispatcher):
                inner = one.py_func.__globals__
                called |= {inner.get(name) for name in one.py_func.__code__.co_names}
    in_any_order = [
        one for one in called
        if isinstance(one, Dispatcher) and "reassoc" in one.targetoptions.get("fastmath", ())
    ]  # fmt: skip
    assert in_any_order
    assert all(one.targetoptions.get("forceinline") for one in in_any_order)


@pytest.mark.slow
def test_a_second_process_compiles_nothing(reports):
    first, second = reports
    assert sum(misses for _, misses in first["fitted"].values()) > 0
    assert sum(misses for _, misses in second["fitted"].values()) == 0


@pytest.mark.slow
def test_a_second_process_has_the_same_answers_to_the_last_bit(reports):
    """A kernel that two others call was compiled into both, and which one ran was up to the order.

    Sums in any order ("reassoc") are in another order in each: such kernels are inlined.
    """
    assert reports[0]["answers"] == reports[1]["answers"]


@pytest.mark.slow
def test_every_kernel_is_compiled_for_one_signature(reports):
    assert all(signatures <= 1 for signatures, _ in reports[0]["fitted"].values())


@pytest.mark.slow
def test_no_global_state_is_touched(reports):
    assert reports[0]["same"]
