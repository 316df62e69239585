"""The documentation's table of what each estimator uses of the engine, held to counts of calls."""

import csv
import re
from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd.mixture import _smc_fit
from tests.tools.engine_calls import PARTS, counted
from tests.tools.exact_models import LOG_GAMMAS, NORMAL_MEAN
from tests.tools.source import ROOT, needs_source

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    needs_source,
]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
MANY = RNG.standard_normal((1500, 2))  # in more than one batch
LABELS = (X[:, 0] + RNG.standard_normal(60) > 0.0).astype(int)
TOPICS = RNG.dirichlet(np.full(12, 0.3), 3)
WORDS = RNG.multinomial(60, RNG.dirichlet(np.full(3, 0.2), 60) @ TOPICS)
# By column of the table: the estimator with its defaults (fewer particles where they take long),
# small data, arguments of partial_fit.
MODELS = {
    "logistic regression": (BayesianLogisticRegressionPMD(), (X, LABELS), {"classes": [0, 1]}),
    "Gaussian process": (  # Fewer rows do not choose among particles.
        SparseGPRegressorPMD(n_restarts_optimizer=0), (MANY[:510, :1], np.sin(MANY[:510, 0])), {}
    ),
    "process classifier": (
        SparseGPClassifierPMD(n_restarts_optimizer=0),
        (X[:24, :1], LABELS[:24]),
        {"classes": [0, 1]},
    ),
    "mixture, conjugate": (GaussianMixturePMD(2, strategy="conjugate"), (MANY,), {}),
    "mixture, parameters": (
        GaussianMixturePMD(2, strategy="parameters", n_particles=50),
        (X[:30, :1],),
        {},
    ),
    "topic model": (LDATopicModelPMD(3), (WORDS,), {}),
    "your own model": (ParticleMirrorDescent(**NORMAL_MEAN), (X[:, :1],), {}),
}  # fmt: skip
# What a reader would write to get what the table has on request.
REQUESTS = {
    ("logistic regression", "proposal"): {"proposal": "prior", "n_particles": 400},
    ("logistic regression", "rejuvenation"): {
        "rejuvenation": "never", "proposal": "prior", "n_particles": 400
    },
    ("logistic regression", "moves"): {"moves": "always", "n_particles": 400},
    ("Gaussian process", "weighting"): {"weighting": "posterior", "n_particles": 20, "max_iter": 2},
    ("Gaussian process", "approximation"): {
        "approximation": "fitc", "weighting": "posterior", "n_particles": 20, "max_iter": 2
    },
    ("topic model", "max_full_iter"): {"max_full_iter": 3},
    ("topic model", "learn_priors"): {"learn_priors": True, "max_iter": 40},
    ("topic model", "weighting"): {"weighting": "stacking"},
    ("your own model", "proposal"): {"proposal": "prior"},
    ("your own model", "log_joint_gradient"): {**LOG_GAMMAS, "n_particles": 400},
    ("your own model", "rejuvenation"): {"rejuvenation": "never"},
}  # fmt: skip
UNUSED, DEFAULT, REQUEST = "–", "●", re.compile(r"○ ``(\w+)``")


def read_table():
    """The documentation's table, {model: {part: cell}}; empty beside a wheel."""
    path = ROOT / "docs" / "engine_table.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        (_, *models), *lines = csv.reader(file)
    return {model: {part: cells[i] for part, *cells in lines} for i, model in enumerate(models)}


TABLE = read_table()
CELLS = [(model, part) for model in TABLE for part in TABLE[model]]


def counts_of(model, method="fit", **params):
    """How often a fit or a stream of three calls uses each part of the engine."""
    estimator, data, others = MODELS[model]
    estimator = clone(estimator).set_params(random_state=0, **params)
    with counted() as counts:
        if method == "fit":
            estimator.fit(*data)
        else:
            for some in np.array_split(np.arange(len(data[0])), 3):
                estimator.partial_fit(*(one[some] for one in data), **others)
    return counts


_KNOWN = {}


def default_counts(model, method):
    """Of the defaults, taken once."""
    if (model, method) not in _KNOWN:
        _KNOWN[model, method] = counts_of(model, method)
    return _KNOWN[model, method]


def used(part, fit, stream):
    """How often a part was used, from the counts of a fit and of a stream."""
    return stream["step"] if part == "stream" else fit[part]


def test_the_table_has_a_column_for_each_model_and_a_line_for_each_part():
    assert list(TABLE) == list(MODELS)
    assert set(PARTS.values()) <= set(next(iter(TABLE.values())))


@pytest.mark.slow
@pytest.mark.parametrize("model, part", CELLS)
def test_the_table_says_what_is_used(model, part):
    cell = TABLE[model][part]
    by_default = used(part, default_counts(model, "fit"), default_counts(model, "partial_fit"))
    if cell == DEFAULT:
        assert by_default
        return
    assert not by_default
    if cell == UNUSED:
        assert not any(counts_on_request(model, name)[part] for name in requests_of(model))
    else:
        (name,) = REQUEST.fullmatch(cell).groups()
        assert counts_on_request(model, name)[part]


def requests_of(model):
    return [name for one, name in REQUESTS if one == model]


def counts_on_request(model, name):
    """Of a fit with what a cell asks for, taken once."""
    if (model, "request", name) not in _KNOWN:
        if name == "partial_fit":  # once rows are too many to be retained
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_smc_fit, "MAX_RETAINED", 15)
                _KNOWN[model, "request", name] = counts_of(model, "partial_fit")
        else:
            assert name in REQUESTS[model, name]
            _KNOWN[model, "request", name] = counts_of(model, **REQUESTS[model, name])
    return _KNOWN[model, "request", name]


def test_counts_are_those_of_the_engine():
    """Two passes of two batches each, one reweighting that nothing has to follow, and the fit by
    values that the outcome is held against."""
    model = ParticleMirrorDescent(
        **NORMAL_MEAN, batch_size=30, max_iter=2, rejuvenation="never", random_state=0
    )
    with counted() as counts:
        model.fit(X[:, :1])
    expected = {"step": 5 + 1, "stochastic steps": 4, "importance reweighting": 1 + 1}
    other = {"rejuvenation: none": 4, "rejuvenation: fitted proposals": 1}
    assert counts == Counter(expected | other)
    with counted() as counts:
        model.posterior_.interval()
    assert not counts
