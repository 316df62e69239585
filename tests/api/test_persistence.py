"""Fitted estimators in files: of pickle, joblib and skops, in this process and in a fresh one."""

import copy
import io
import json
import pickle
import subprocess
import sys
from functools import cache

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.gaussian_process import kernels
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpmd._base.estimator
from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd._from_jax import _JointGradient, _Values
from skpmd.decision import BayesDecisionClassifier
from skpmd.metrics import (
    crps,
    interval_coverage,
    interval_width,
    log_predictive_density_scorer,
    make_distribution_scorer,
    negative_log_predictive_density,
    pinball_loss,
)
from skpmd.persistence import skops_trusted_types
from skpmd.streams import StreamingPipeline
from tests.tools.exact_models import NORMAL_MEAN

skops_io = pytest.importorskip("skops.io")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((240, 3))
LOGITS = X @ [1.5, -1.0, 0.0] + RNG.logistic(size=240)
TWO, THREE = LOGITS > 0.0, np.array(["few", "many", "some"])[np.digitize(LOGITS, [-1.0, 1.0])]
WAVES = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(240)
COUNTS = sp.csr_matrix(RNG.poisson(0.5, size=(40, 20)).astype(float))
SORTED = np.argsort(TWO, kind="stable")
FEW = slice(80)


def logistic(**params):
    return BayesianLogisticRegressionPMD(**{"n_particles": 200, "random_state": 0, **params})


def process(kernel=None, **params):
    few = {"n_restarts_optimizer": 0, "n_inducing": 12, "random_state": 0, "n_particles": 1}
    return SparseGPRegressorPMD(kernel, **{**few, **params})


def mixture(**params):
    return GaussianMixturePMD(2, **{"n_particles": 8, "random_state": 0, **params})


def topics(**params):
    return LDATopicModelPMD(3, **{"max_iter": 1, "n_particles": 2, "random_state": 0, **params})


def in_parts(model, X, *y, **params):
    for some in np.array_split(np.arange(X.shape[0]), 2):
        model.partial_fit(X[some], *(one[some] for one in y), **params)
        params = {}
    return model


OTHER_KERNELS = (
    kernels.ConstantKernel(0.5) * kernels.RationalQuadratic(1.0)
    + kernels.DotProduct(1.0) ** 2
    + kernels.ExpSineSquared(1.0, 3.0)
    + kernels.PairwiseKernel(0.5, metric="rbf")
    + kernels.WhiteKernel(0.1)
)
PRIORS = "laplace", "student_t", "cauchy", "horseshoe"
BOTH = {"classes": [False, True]}
# What each case makes, and the data that predictions and further parts are of.
CASES = {
    "two classes": lambda: (logistic(n_particles=800).fit(X, TWO), X, TWO),
    "three classes": lambda: (logistic(n_particles=800).fit(X, THREE), X, THREE),
    "normal logits": lambda: (logistic(prior_scale=0.1).fit(X, THREE), X, THREE),
    **{
        prior: lambda prior=prior: (
            logistic(prior=prior, n_particles=64).fit(X[FEW], TWO[FEW]), X[FEW], TWO[FEW]
        )
        for prior in PRIORS
    },
    "no correlations": lambda: (logistic(covariance_type="diag").fit(X, THREE), X, THREE),
    "steps from the prior": lambda: (logistic(proposal="prior", max_iter=1).fit(X, TWO), X, TWO),
    "sorted stream": lambda: (in_parts(logistic(), X[SORTED], TWO[SORTED], **BOTH), X, TWO),
    "sorted stream, sparse array": lambda: (
        in_parts(logistic(), sp.csr_array(X[SORTED]), TWO[SORTED], **BOTH), sp.csr_array(X), TWO
    ),
    "sorted stream, sparse matrix": lambda: (
        in_parts(logistic(), sp.csr_matrix(X[SORTED]), TWO[SORTED], **BOTH), sp.csr_matrix(X), TWO
    ),
    "weights of classes": lambda: (
        logistic(class_weight={False: 1.0, True: 3.0}, random_state=np.random.RandomState(0))
        .fit(X, TWO), X, TWO
    ),
    "inducing inputs": lambda: (process(n_particles=2).fit(X, WAVES), X, WAVES),
    "inducing inputs, stream": lambda: (in_parts(process(), X, WAVES), X, WAVES),
    "Student noise": lambda: (process(likelihood="student_t").fit(X, WAVES), X, WAVES),
    "weights of the posterior": lambda: (
        process(weighting="posterior", n_particles=4).fit(X[FEW], WAVES[FEW]), X[FEW], WAVES[FEW]
    ),
    "neighbours": lambda: (
        process(kernels.Matern(nu=1.5) + kernels.WhiteKernel(0.1), approximation="vecchia",
                optimizer=None).fit(X[FEW], WAVES[FEW]), X[FEW], WAVES[FEW]
    ),
    "neighbours and inducing inputs": lambda: (
        process(kernels.RBF() + kernels.WhiteKernel(0.1), approximation="full_scale",
                optimizer=None).fit(X[FEW], WAVES[FEW]), X[FEW], WAVES[FEW]
    ),
    "other kernels": lambda: (
        process(OTHER_KERNELS, optimizer=None, approximation="fitc").fit(X[:30], WAVES[:30]),
        X[:30], WAVES[:30]
    ),
    "classes of a process": lambda: (
        SparseGPClassifierPMD(n_restarts_optimizer=0, n_inducing=10, n_subset=40, random_state=0)
        .fit(X[FEW], THREE[FEW]), X[FEW], THREE[FEW]
    ),
    **{
        f"mixture, {strategy}, {kind}": lambda strategy=strategy, kind=kind: (
            mixture(strategy=strategy, covariance_type=kind).fit(X[:, :2]), X[:, :2]
        )
        for strategy in ("conjugate", "parameters")
        for kind in ("full", "tied", "diag", "spherical")
    },
    "mixture, sticks": lambda: (
        mixture(weight_concentration_prior_type="dirichlet_process", strategy="conjugate")
        .fit(X[:, :2]), X[:, :2]
    ),
    "mixture, independent": lambda: (
        mixture(component_prior="independent", strategy="parameters").fit(X[:, :1]), X[:, :1]
    ),
    "topics": lambda: (topics(learn_priors=True).fit(COUNTS), COUNTS),
    "own model": lambda: (
        ParticleMirrorDescent(**NORMAL_MEAN, n_particles=100, random_state=0).fit(X[:, :1]),
        X[:, :1],
    ),
    "decisions": lambda: (
        BayesDecisionClassifier(logistic(), [[0.0, -1.0], [-9.0, 0.0]]).fit(X, TWO), X, TWO
    ),
    "pipeline of a stream": lambda: (
        in_parts(
            StreamingPipeline([("scale", StandardScaler()), ("classify", logistic())]), X, TWO,
            **BOTH,
        ), X, TWO
    ),
    "search": lambda: (
        GridSearchCV(
            make_pipeline(StandardScaler(), process()), {"sparsegpregressorpmd__n_inducing": [5]},
            scoring={str(i): one for i, one in enumerate(SCORERS)}, refit="0", cv=2,
        ).fit(X[FEW], WAVES[FEW]), X[FEW], WAVES[FEW]
    ),
    "posteriors": lambda: ([fitted(name)[0].posterior_ for name in WITH_POSTERIORS],),
}  # fmt: skip
WITH_POSTERIORS = "two classes", "no correlations", "topics", "mixture, parameters, full"
SCORERS = [
    log_predictive_density_scorer,
    *(make_distribution_scorer(one, greater_is_better=False)
      for one in (crps, interval_coverage, interval_width, negative_log_predictive_density,
                  pinball_loss)),
]  # fmt: skip
OF_EACH_FAMILY = "three classes", "inducing inputs", "mixture, conjugate, full", "search"
# What the user, or scikit-learn, has put into a case.
OTHERS = {
    "own model": [f"{one.__module__}.{one.__name__}" for one in NORMAL_MEAN.values()],
    "search": [
        "sklearn.metrics._scorer._MultimetricScorer",
        "sklearn.model_selection._split.KFold",
    ],
}
each = pytest.mark.parametrize("name", CASES)


@cache
def fitted(name):
    """A fitted object, and its data."""
    return CASES[name]()


def trusted(name):
    return [*skops_trusted_types(), *OTHERS.get(name, ())]


@cache
def skops_file(name):
    return skops_io.dumps(fitted(name)[0])


@cache
def untrusted(name):
    return set(skops_io.get_untrusted_types(data=skops_file(name)))


def by_skops(model, name):
    return skops_io.loads(skops_io.dumps(model), trusted=trusted(name))


def by_pickle(model, name):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model, name):
    file = io.BytesIO()
    joblib.dump(model, file)
    return joblib.load(file)


def by_cloudpickle(model, name):
    cloudpickle = pytest.importorskip("cloudpickle")
    return pickle.loads(cloudpickle.dumps(model))


def answers(model, *data):
    """Bytes of all that a model predicts, by name."""
    if isinstance(model, list):
        return {str(i): _bytes(one.interval(0.9)) for i, one in enumerate(model) if i != 2} | {
            "mean": _bytes(model[2].mean())
        }
    found = {}
    for name in ("predict", "predict_proba", "predict_interval", "transform", "score_samples"):
        if hasattr(model, name):
            value = getattr(model, name)(data[0])
            found[name] = _bytes(getattr(value, "means", value))
    if not found:
        found["particles"] = _bytes(model.posterior_.particles) + _bytes(model.posterior_.weights)
    return found


def _bytes(values):
    values = np.asarray(values)
    return values.astype("U").tobytes() if values.dtype == object else values.tobytes()


def after_a_part(model, *data):
    """The model after some of its rows once more."""
    return model.partial_fit(*(one[:30] for one in data))


WAYS = [(name, save) for name in CASES for save in (by_skops, by_pickle)]
WAYS += [(name, save) for name in OF_EACH_FAMILY for save in (by_joblib, by_cloudpickle)]


@pytest.mark.parametrize("name, save", WAYS)
def test_what_was_saved_answers_and_goes_on_to_the_last_bit(name, save):
    model, *data = fitted(name)
    loaded = save(model, name)
    assert answers(loaded, *data) == answers(model, *data)
    if hasattr(model, "partial_fit"):
        ends = [answers(after_a_part(one, *data), *data) for one in (copy.deepcopy(model), loaded)]
        assert ends[0] == ends[1] != answers(model, *data)


@each
def test_all_types_are_on_the_list(name):
    assert untrusted(name) <= set(trusted(name))


def test_there_is_nothing_else_on_the_list():
    types = skops_trusted_types()
    assert len(types) == len(set(types)) and all(isinstance(one, str) for one in types)
    found = set().union(*(untrusted(name) for name in CASES))
    found |= set(skops_io.get_untrusted_types(data=skops_io.dumps(from_jax())))
    assert set(types) - found == set()


def from_jax():
    """An estimator as `skpmd.from_jax` makes it; of functions that JAX is not needed for."""
    log_likelihood, log_prior, sample_prior = NORMAL_MEAN.values()
    gradient = _JointGradient(log_likelihood, log_prior)
    functions = _Values(log_likelihood), _Values(log_prior), sample_prior
    return ParticleMirrorDescent(*functions, log_joint_gradient=gradient)


def test_functions_of_jax_are_named_by_the_user():
    loaded = skops_io.loads(skops_io.dumps(from_jax()), trusted=trusted("own model"))
    assert loaded.log_likelihood.__wrapped__ is NORMAL_MEAN["log_likelihood"]
    assert loaded.log_joint_gradient._log_prior is NORMAL_MEAN["log_prior"]


def test_the_list_is_the_callers_own():
    skops_trusted_types().clear()
    assert skops_trusted_types()


IN_A_FRESH_PROCESS = """
import json, pathlib, pickle, sys
import numpy, skops.io
from skpmd.persistence import skops_trusted_types
others, models = json.loads(sys.argv[2]), {}
load, loads = pickle.load, pickle.loads
pickle.load = pickle.loads = None
for file in pathlib.Path(sys.argv[1]).glob("*.skops"):
    models[file] = skops.io.load(file, trusted=[*skops_trusted_types(), *others])
pickle.load, pickle.loads = load, loads  # Numba reads its own files by them.
for file, model in models.items():
    data = numpy.load(file.with_suffix(".npy"))
    print(json.dumps([file.stem, numpy.asarray(model.predict(data)).tolist()]))
"""


def test_a_fresh_process_has_the_same_answers_without_pickle(tmp_path):
    for name in OF_EACH_FAMILY:
        (tmp_path / f"{name}.skops").write_bytes(skops_file(name))
        np.save(tmp_path / f"{name}.npy", fitted(name)[1])
    others = json.dumps([one for name in OF_EACH_FAMILY for one in OTHERS.get(name, ())])
    command = [sys.executable, "-W", "error", "-c", IN_A_FRESH_PROCESS, str(tmp_path), others]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = dict(map(json.loads, done.stdout.splitlines()))
    for name in OF_EACH_FAMILY:
        model, data, *_ = fitted(name)
        assert found[name] == np.asarray(model.predict(data)).tolist(), name


@pytest.mark.parametrize("save", [by_skops, by_pickle])
@pytest.mark.parametrize("name", [*OF_EACH_FAMILY, "topics", "own model", "pipeline of a stream"])
def test_another_version_is_warned_of(name, save, monkeypatch):
    model, version = fitted(name)[0], skpmd._base.estimator.__version__
    monkeypatch.setattr(skpmd._base.estimator, "__version__", "0.0.9")
    data = skops_io.dumps(model) if save is by_skops else pickle.dumps(model)
    monkeypatch.setattr(skpmd._base.estimator, "__version__", version)
    with pytest.warns(InconsistentVersionWarning, match="saved by skpmd 0.0.9 and is loaded by"):
        if save is by_skops:
            skops_io.loads(data, trusted=trusted(name))
        else:
            pickle.loads(data)


def test_weights_of_classes_have_their_keys():
    model, *_ = fitted("weights of classes")
    for save in (by_skops, by_pickle):
        assert save(model, "").class_weight == {False: 1.0, True: 3.0}
    assert by_skops(logistic(class_weight={0: 2.0, 1: 1.0}), "").class_weight == {0: 2.0, 1: 1.0}
    assert clone(model).class_weight == model.class_weight


def test_what_a_user_has_given_is_named_and_refused():
    distributions = [stats.lognorm(1.0), stats.gamma(2.0)]
    kernel = kernels.RBF() + kernels.WhiteKernel(0.1)
    model = process(kernel=kernel, hyperprior=distributions, n_particles=2).fit(X, WAVES)
    data = skops_io.dumps(model)
    left = set(skops_io.get_untrusted_types(data=data)) - set(skops_trusted_types())
    assert left == {
        "scipy.stats._continuous_distns.gamma_gen",
        "scipy.stats._continuous_distns.lognorm_gen",
        "scipy.stats._distn_infrastructure.rv_continuous_frozen",
    }
    with pytest.raises(TypeError, match="gamma_gen"):
        skops_io.loads(data, trusted=skops_trusted_types())
    loaded = skops_io.loads(data, trusted=[*skops_trusted_types(), *left])
    assert answers(after_a_part(loaded, X, WAVES), X) == answers(after_a_part(model, X, WAVES), X)
