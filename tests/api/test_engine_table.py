"""The documentation's table of what each estimator uses of the engine, held to counts of calls."""

import csv
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
from skpmd.engine import mirror
from skpmd.mixture import _smc_fit
from tests.tools.engine_calls import PARTS, counted
from tests.tools.exact_models import LOG_GAMMAS, NORMAL_MEAN
from tests.tools.source import ROOT, modules, needs_source

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
# By row of the table: the estimator with its defaults (fewer particles where they take long),
# small data, arguments of partial_fit.
ROWS = {
    "BayesianLogisticRegressionPMD": (
        BayesianLogisticRegressionPMD(), (X, LABELS), {"classes": [0, 1]}
    ),
    "SparseGPRegressorPMD": (  # Fewer rows do not choose among particles.
        SparseGPRegressorPMD(n_restarts_optimizer=0), (MANY[:510, :1], np.sin(MANY[:510, 0])), {}
    ),
    "SparseGPClassifierPMD": (
        SparseGPClassifierPMD(n_restarts_optimizer=0),
        (X[:24, :1], LABELS[:24]),
        {"classes": [0, 1]},
    ),
    "GaussianMixturePMD (conjugate)": (GaussianMixturePMD(2, strategy="conjugate"), (MANY,), {}),
    "GaussianMixturePMD (parameters)": (
        GaussianMixturePMD(2, strategy="parameters", n_particles=50),
        (X[:30, :1],),
        {},
    ),
    "LDATopicModelPMD": (LDATopicModelPMD(3), (WORDS,), {}),
    "ParticleMirrorDescent": (ParticleMirrorDescent(**NORMAL_MEAN), (X[:, :1],), {}),
}  # fmt: skip
# What a reader would write to get what the table has "on request".
REQUESTS = {
    ("BayesianLogisticRegressionPMD", "proposal"): {"proposal": "prior", "n_particles": 400},
    ("BayesianLogisticRegressionPMD", "rejuvenation"): {
        "rejuvenation": "never", "proposal": "prior", "n_particles": 400
    },
    ("BayesianLogisticRegressionPMD", "moves"): {"moves": "always", "n_particles": 400},
    ("SparseGPRegressorPMD", "weighting"): {
        "weighting": "posterior", "n_particles": 20, "max_iter": 2
    },
    ("SparseGPRegressorPMD", "approximation"): {
        "approximation": "fitc", "weighting": "posterior", "n_particles": 20, "max_iter": 2
    },
    ("LDATopicModelPMD", "max_full_iter"): {"max_full_iter": 3},
    ("LDATopicModelPMD", "learn_priors"): {"learn_priors": True, "max_iter": 40},
    ("LDATopicModelPMD", "weighting"): {"weighting": "stacking"},
    ("ParticleMirrorDescent", "proposal"): {"proposal": "prior"},
    ("ParticleMirrorDescent", "log_joint_gradient"): {**LOG_GAMMAS, "n_particles": 400},
    ("ParticleMirrorDescent", "rejuvenation"): {"rejuvenation": "never"},
}  # fmt: skip
UNUSED, DEFAULT, REQUEST = "–", "default", "on request: "


def read_table():
    """The documentation's table, a dict of rows, each a dict of its cells; none beside a wheel."""
    path = ROOT / "docs" / "engine_table.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row.pop("estimator"): row for row in csv.DictReader(file)}


TABLE = read_table()
CELLS = [(row, column) for row in TABLE for column in TABLE[row]]


def counts_of(row, method="fit", **params):
    """How often a fit or a stream of three calls uses each part of the engine."""
    estimator, data, others = ROWS[row]
    estimator = clone(estimator).set_params(random_state=0, **params)
    with counted() as counts:
        if method == "fit":
            estimator.fit(*data)
        else:
            for part in np.array_split(np.arange(len(data[0])), 3):
                estimator.partial_fit(*(column[part] for column in data), **others)
    return counts


_KNOWN = {}


def default_counts(row, method):
    """Of the defaults, taken once."""
    if (row, method) not in _KNOWN:
        _KNOWN[row, method] = counts_of(row, method)
    return _KNOWN[row, method]


def used(column, fit, stream):
    """How often a column's part was used, from the counts of a fit and of a stream."""
    return stream["step"] if column == "stream" else fit[column]


def test_the_table_has_a_row_for_each_estimator_and_a_column_for_each_part():
    assert list(TABLE) == list(ROWS)
    assert set(PARTS.values()) <= set(next(iter(TABLE.values())))


@pytest.mark.parametrize("row, column", CELLS)
def test_the_table_says_what_is_used(row, column):
    cell = TABLE[row][column]
    by_default = used(column, default_counts(row, "fit"), default_counts(row, "partial_fit"))
    if cell == DEFAULT:
        assert by_default
        return
    assert not by_default
    if cell == UNUSED:
        assert not any(counts_on_request(row, name)[column] for name in requests_of(row))
    else:
        assert cell.startswith(REQUEST)
        assert counts_on_request(row, cell.removeprefix(REQUEST))[column]


def requests_of(row):
    return [name for estimator, name in REQUESTS if estimator == row]


def counts_on_request(row, name):
    """Of a fit with what a cell asks for, taken once."""
    if (row, "request", name) not in _KNOWN:
        if name == "partial_fit":  # once rows are too many to be retained
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_smc_fit, "MAX_RETAINED", 15)
                _KNOWN[row, "request", name] = counts_of(row, "partial_fit")
        else:
            assert name in REQUESTS[row, name]
            _KNOWN[row, "request", name] = counts_of(row, **REQUESTS[row, name])
    return _KNOWN[row, "request", name]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("row", ROWS)
def test_nothing_goes_without_the_step(row, method, monkeypatch):

    def broken(*args, **kwargs):
        raise NotImplementedError("no step")

    for name in modules():
        module = __import__("sys").modules.get(name)
        for attribute in ("step", "segments"):
            if module and vars(module).get(attribute) is getattr(mirror, attribute):
                if module is not mirror:
                    monkeypatch.setattr(module, attribute, broken)
    monkeypatch.setattr(mirror, "step", broken)
    monkeypatch.setattr(mirror, "segments", broken)
    with pytest.raises(NotImplementedError, match="no step"):
        counts_of(row, method)


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


if __name__ == "__main__":
    for one in ROWS:
        for method in ("fit", "partial_fit"):
            print(f"{one}.{method}", dict(counts_of(one, method)))
