"""Any order of calls with any input, for each estimator.

By default one case that was found. With the slow tests all of those, some fifty cases for each
estimator, the same ones every time, and 5,000 others, at random::

    python -m pytest -m slow tests/hostile

``-k logistic`` and the like take one estimator. No two runs have the same cases.
"""

import copy
import inspect
import pickle
import warnings
from functools import partial

import joblib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import ExpSineSquared

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from tests.hostile import inputs, models
from tests.hostile.queries import QUERIES, asked, check_answer, usual
from tests.hostile.verdicts import names_one, outcome

SMALL = {"random_state": 0}
# Estimators, and what their targets are.
KINDS = {
    "logistic": (
        BayesianLogisticRegressionPMD, {"n_particles": 200, **SMALL}, "0, 1", inputs.LABELS
    ),
    "process": (SparseGPRegressorPMD, {"n_inducing": 8, **SMALL}, "plain", inputs.TARGETS),
    "classes of a process": (
        SparseGPClassifierPMD, {"n_inducing": 8, "n_subset": 20, **SMALL}, "0, 1", inputs.LABELS
    ),
    "mixture": (GaussianMixturePMD, {"n_components": 2, "n_particles": 4, **SMALL}, "none", None),
    "topics": (LDATopicModelPMD, {"n_components": 2, "n_particles": 2, **SMALL}, "none", None),
    "custom": (
        ParticleMirrorDescent,
        {**models.QUIET, **models.PREDICTIONS, "n_particles": 200, **SMALL},
        "none",
        inputs.TARGETS,
    ),
}  # fmt: skip
# Functions have models of their own, and data that nobody has checked; a second thread is that of
# another test.
FIXED = {*models.NAMES, *models.PREDICTIONS, "validate", "n_jobs", "verbose", "optimizer"} - {
    "names"
}

# Records of steps, and the perplexity of no words.
NAN_BY_DESIGN = "history_", "diagnostics_", "bound_"


def calls(name):
    """A strategy: parameters, the number of columns, and a list of calls."""
    kind, _, usual_target, targets = KINDS[name]
    rows = inputs.tables(positive=name == "topics")
    target = inputs.mostly(usual_target, targets) if targets else st.just(None)
    parameters = inputs.parameters(kind, FIXED)
    if name == "custom":
        model = inputs.mostly("plain", models.MODELS)
        parameters = st.builds(lambda some, one: {**some, "model": one}, parameters, model)
    weights = inputs.mostly("none", inputs.WEIGHTS)
    others = st.just({})
    if name == "process":
        others = st.fixed_dictionaries({"noise_variance": inputs.mostly("none", inputs.WEIGHTS)})
    elif name in ("logistic", "classes of a process"):
        others = st.fixed_dictionaries({"classes": inputs.mostly("own", inputs.CLASSES)})
    fit = st.tuples(st.sampled_from(["fit", "partial_fit"]), rows, target, weights, others)
    call = st.one_of(
        fit,
        st.tuples(st.just("set_params"), parameters),
        st.tuples(st.just("query"), rows, st.booleans(), target, odd_questions(name)),
        st.tuples(st.sampled_from(["pickle", "copy", "repr"])),
    )
    return st.tuples(
        parameters, st.integers(1, inputs.MAX_COLUMNS), st.tuples(fit), st.lists(call, max_size=3)
    )


def odd_questions(name):
    """A strategy: up to four queries by their numbers, and places of one or two odd arguments."""
    queries = QUERIES[name]

    def odd(number):
        names = sorted(queries[number].odd)
        chosen = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
        values = {name: st.integers(1, len(queries[number].odd[name]) - 1) for name in names}
        return chosen.flatmap(
            lambda some: st.fixed_dictionaries({one: values[one] for one in some})
        )

    numbers = [number for number, query in enumerate(queries) if query.odd]
    one = st.sampled_from(numbers).flatmap(lambda number: st.tuples(st.just(number), odd(number)))
    return st.lists(one, max_size=4)


class Subject:
    """An estimator, and how it is called in one case."""

    def __init__(self, name, parameters, p):
        self.name, self.p = name, p
        self.kind, self.usual, _, self.targets = KINDS[name]
        self.changed = set()  # Parameters that may not be as they usually are.
        self.estimator = self.kind(**{**self.usual, **self.as_values(parameters)})

    def as_values(self, parameters):
        """Parameters as the estimator takes them, with the functions of a model."""
        others = {key: value for key, value in parameters.items() if key != "model"}
        if "model" in parameters:
            others = {**models.functions(parameters["model"]), **others}
            self.changed.update(models.MODELS[parameters["model"]])
        self.changed.update(key for key in others if key not in models.NAMES)
        return others

    def set_params(self, parameters):
        self.estimator.set_params(**self.as_values(parameters))

    def pickle(self):
        if self.name != "custom" or not self.changed:  # Functions within functions have no pickle.
            self.estimator = pickle.loads(pickle.dumps(self.estimator))

    def copy(self):
        self.estimator = copy.deepcopy(self.estimator)

    def repr(self):
        repr(self.estimator)

    def query(self, rows, wrong_columns, target, questions):
        X = inputs.table(self.p + wrong_columns, **rows)
        y = inputs.of(rows, self.targets, target, rows["n"]) if self.targets else None
        self.ask(X, y)
        for number, odd in questions:
            self.ask_oddly(QUERIES[self.name][number], X, y, odd)

    def fit(self, *arguments):
        self.learn("fit", *arguments)

    def partial_fit(self, *arguments):
        if hasattr(self.estimator, "partial_fit"):  # Some parameters have no streams.
            self.learn("partial_fit", *arguments)

    def learn(self, call, rows, target, weights, others):
        """A call of fit or partial_fit, which fails wholly or not at all."""
        X = inputs.table(self.p, **rows)
        y = inputs.of(rows, self.targets, target, rows["n"]) if self.targets else None
        arguments = (X, y) if self.targets else (X,)
        method = getattr(self.estimator, call)
        keywords = {}
        if "sample_weight" in inspect.signature(method).parameters:
            keywords["sample_weight"] = inputs.of(rows, inputs.WEIGHTS, weights, rows["n"])
        if "noise_variance" in others:
            name = others["noise_variance"]
            keywords["noise_variance"] = inputs.of(rows, inputs.WEIGHTS, name, rows["n"])
        if "classes" in others and call == "partial_fit":
            is_first = not hasattr(self.estimator, "classes_")
            keywords["classes"] = inputs.CLASSES[others["classes"]](y, is_first)
        before, is_first = state(self.estimator), not self.estimator.__sklearn_is_fitted__()
        error = outcome(lambda: method(*arguments, **keywords))[1]
        if error is None:
            self.ask(X, y)
            return
        assert state(self.estimator) == before, "a call that failed has left something behind"
        if self.changed and (call == "fit" or is_first):
            plain = getattr(self.kind(**self.usual), call)
            try:
                plain_error = outcome(lambda: plain(*arguments, **keywords))[1]
            except AssertionError:
                return  # A failure of its own, which other cases find.
            # A wrong prior shows in the likelihood of its draws.
            functions = set(models.NAMES) if self.changed & set(models.NAMES) else set()
            assert plain_error or names_one(error, self.changed | functions | {"y"}), (
                f"an error of one of {sorted(self.changed)} that does not say so: {error}"
            )

    def ask(self, X, y):
        """All queries with usual arguments."""
        for query in QUERIES[self.name]:
            if not query.rare:
                answer, error = self.answer(query, X, y, usual(query))
                if error is None:
                    check_answer(query, answer)
        self.look()

    def ask_oddly(self, query, X, y, odd):
        """A query with odd arguments, where it answers with usual ones."""
        before = usual(query)
        if self.answer(query, X, y, before)[1] is not None:
            return
        values = {name: query.odd[name][place] for name, place in odd.items()}
        answer, error = self.answer(query, X, y, {**before, **values})
        if error is None:
            check_answer(query, answer)
            return
        assert names_one(error, values), f"{query.path} of {values} does not say which: {error}"

    def answer(self, query, X, y, others):
        """The outcome of a query."""
        owner = query.path.split(".")[0]
        if not hasattr(self.estimator, owner):
            return None, AttributeError(owner)
        if owner == "posterior_" and not hasattr(self.estimator.posterior_, query.path[11:]):
            return None, AttributeError(query.path)
        return outcome(partial(asked, self.estimator, query, X, y, others))

    def look(self):
        """Every fitted attribute is a number, or not there for a reason."""
        if not self.estimator.__sklearn_is_fitted__():
            return
        for name in dir(self.kind):
            is_result = isinstance(inspect.getattr_static(self.kind, name), property)
            if is_result and name.endswith("_") and name not in NAN_BY_DESIGN:
                value, error = outcome(partial(getattr, self.estimator, name))
                values = np.asarray(value) if error is None else np.empty(0)
                if values.dtype.kind == "f":
                    assert np.isfinite(values).all(), f"{name} is {values}"


def check(name, case):
    """Run the calls; AssertionError where one ends in anything but what it should."""
    parameters, p, first, others = case
    subject = Subject(name, parameters, p)
    for call, *arguments in (*first, *others):
        getattr(subject, call)(*arguments)


def state(estimator):
    """What an estimator is, but for its parameters and for what it can make again."""
    others = {*estimator.get_params(deep=False), "_cache"}
    own = {k: v for k, v in vars(estimator).items() if k not in others}
    return joblib.hash(pickle.dumps(own))


FREE = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


def _rows(n, numbers="plain", seed=0):
    return {"n": n, "numbers": numbers, "comes_as": "array", "positive": False, "seed": seed}


# What thousands of cases have found: slopes of 1e300, particles that have collapsed far away,
# particles without a distance, probabilities that rounding takes beyond 1, labels of 1e300, draws
# of 1e300, draws of chains in a plane, clusters of tiny numbers.
FOUND = (
    (
        "classes of a process", {"inducing_init": "kmeans", "n_inducing": 5}, 1,
        (("fit", _rows(9, "1e-300"), "0, 1", "none", {"classes": "own"}),), [],
    ),
    (
        "logistic", {"prior": "cauchy"}, 2,
        (("fit", _rows(5, "1e12", 154), "0, 1", "none", {"classes": "own"}),), [],
    ),
    (
        "custom", {"model": "prior of 1e300"}, 2,
        (("fit", _rows(3, "many scales"), "none", "none", {}),), [],
    ),
    (
        "custom", {"model": "times 1e300"}, 1,
        (("partial_fit", _rows(7, "1e-12"), "1e-12", "none", {}),), [],
    ),
    (
        "custom", {"model": "plain"}, 4, (("fit", _rows(1), "none", "none", {}),),
        [
            ("fit", _rows(10, "outlier", 594), "none", "none", {}),
            ("partial_fit", _rows(2), "none", "none", {}),
        ],
    ),
    *(
        (
            "custom", {"bandwidth": "median", "model": "plain"}, 1,
            (("fit", _rows(n, "time stamps"), "none", "none", {}),), [],
        )
        for n in (1, 2)
    ),
    (
        "logistic", {}, 3,
        (("partial_fit", _rows(21, "rounded", 584), "0, 1", "many scales", {"classes": "own"}),),
        [("query", _rows(1), False, "0, 1", [(17, {"theta": 1})])],
    ),
    (
        "classes of a process", {}, 2,
        (("fit", _rows(15), "0, 1", "many scales", {"classes": "own"}),), [],
    ),
    (
        "classes of a process", {}, 1,
        (("partial_fit", _rows(1), "1e300", "none", {"classes": "own"}),), [],
    ),
    (
        "process", {}, 1,
        (("fit", _rows(11, "outlier", 1), "plain", "none", {"noise_variance": "none"}),), [],
    ),
    (
        "process", {"kernel": ExpSineSquared()}, 2,
        (("fit", _rows(21, "outlier"), "plain", "none", {"noise_variance": "none"}),), [],
    ),
    (
        "mixture", {}, 3, (("fit", _rows(9, "many scales", 213), None, "none", {}),), [],
    ),
    (
        "custom", {"model": "plus 1e300"}, 1, (("fit", _rows(1), "none", "none", {}),),
        [("partial_fit", _rows(1), "none", "none", {})],
    ),
    (
        "topics", {}, 2,
        (("fit", _rows(1, seed=656) | {"comes_as": "uint8"}, None, "many scales", {}),), [],
    ),
    (
        "logistic", {}, 1,
        (("fit", _rows(2, "1e-12", 1), "0, 1", "none", {"classes": "own"}),),
        [("partial_fit", _rows(1, "1e300"), "0, 1", "none", {"classes": "own"})],
    ),
)  # fmt: skip


@pytest.mark.slow_but("classes of a process-parameters9-1-first9-others9")
@pytest.mark.parametrize("name, parameters, p, first, others", FOUND)
def test_cases_that_were_found(name, parameters, p, first, others):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(name, (parameters, p, first, others))


# The usual backend makes five of six cases from parts of the one before.
MANY = {"max_examples": 5000, "backend": "hypothesis-urandom"}


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"max_examples": 50, "derandomize": True}, MANY])
@pytest.mark.parametrize("name", KINDS)
def test_calls_end_well(name, how):
    @settings(**how, **FREE)
    @given(calls(name))
    def run(case):
        check(name, case)

    run()
