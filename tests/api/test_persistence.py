"""Fitted estimators in files: of skpmd, pickle, joblib and skops, here and in a fresh process."""

import copy
import importlib
import io
import json
import pickle
import re
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import kernels
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    ShuffleSplit,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skpmd._base.estimator
from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd._base import known_types
from skpmd._base.encoding import decoded, encoded
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


class OwnKernel(kernels.RBF):
    """A kernel of a user's own."""


kernel_of_a_user = process(OwnKernel(), optimizer=None, approximation="fitc")
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
    "more rows than particles": lambda: (logistic(n_particles=64).fit(X, TWO), X, TWO),
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
    "mixture, later rows": lambda: (
        mixture(strategy="conjugate").partial_fit(X[:200, :2]).partial_fit(X[200:, :2]), X[:, :2]
    ),
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


def by_file(model, name, **others):
    own = {**(NORMAL_MEAN if name == "own model" else {}), **others}
    if isinstance(model, list):
        return [by_file(one, name) for one in model]
    with tempfile.TemporaryDirectory() as folder:
        skpmd.save(model, Path(folder, "model.skpmd"))
        return skpmd.load(Path(folder, "model.skpmd"), **own)


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
WAYS += [(name, by_file) for name in CASES]


@pytest.mark.slow_for(
    "Student noise-by_skops",
    "classes of a process-by_skops",
    "horseshoe-by_skops",
    "inducing inputs, stream-by_skops",
    "inducing inputs-by_skops",
    "mixture, independent-by_skops",
    "mixture, parameters, diag-by_skops",
    "mixture, parameters, full-by_skops",
    "mixture, parameters, tied-by_skops",
    "other kernels-by_file",
    "other kernels-by_pickle",
    "other kernels-by_skops",
    "search-by_skops",
    "weights of the posterior-by_skops",
)
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


# ------------------------------------------------------------------- files of skpmd
BINARY = make_pipeline(StandardScaler(), logistic(n_particles=100))
SCALES = {"bayesianlogisticregressionpmd__prior_scale": [0.5, 2.0]}
HOLDERS = {
    "pipeline": BINARY,
    "columns": make_pipeline(
        make_column_transformer((StandardScaler(), [0, 1]), remainder="passthrough"), logistic()
    ),
    "search": GridSearchCV(BINARY, SCALES, cv=2, scoring="neg_log_loss"),
    "two scores": RandomizedSearchCV(
        BINARY, SCALES, n_iter=2, cv=ShuffleSplit(2, random_state=0), random_state=0,
        scoring=["accuracy", "roc_auc"], refit="accuracy",
    ),
    "calibrated": CalibratedClassifierCV(BINARY, cv=2),
    "threshold": TunedThresholdClassifierCV(BINARY, cv=2),
    "decisions": BayesDecisionClassifier(BINARY, [[0.0, -1.0], [-9.0, 0.0]]),
    "of a user": kernel_of_a_user,
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDERS)
def test_what_holds_an_estimator_comes_back_to_the_last_bit(name):
    own = {"trusted": [f"{__name__}.OwnKernel"]} if name == "of a user" else {}
    model = clone(HOLDERS[name])
    by_file(model, "", **own)  # Not fitted yet.
    y = (TWO if is_classifier(model) else WAVES)[FEW]
    loaded = by_file(model.fit(X[FEW], y), "", **own)
    assert type(loaded) is type(model) and answers(loaded, X) == answers(model, X)


def test_types_that_are_not_trusted_are_named(tmp_path):
    path = tmp_path / "m"
    skpmd.save(HOLDERS["of a user"], path)
    name = f"{__name__}.OwnKernel"
    with pytest.raises(TypeError, match=re.escape(f"load(path, trusted=['{name}'])")):
        skpmd.load(path)
    with pytest.raises(TypeError, match="had no function called log_prior"):
        skpmd.load(path, log_prior=len, trusted=[name])
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        document = archive.read("schema.json").replace(b"OwnKernel", b"NoKernel")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", document)
    with pytest.raises(TypeError, match="names what is not here"):
        skpmd.load(path, trusted=[f"{__name__}.NoKernel"])
    path.write_bytes(whole[:200] + bytes(40) + whole[240:])
    with pytest.raises(ValueError, match=re.escape(f"{path} is torn or damaged")):
        skpmd.load(path, trusted=[name])


def test_skops_that_is_not_there_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError, match=r"pip install skpmd\[skops\]"):
        skpmd.save(BINARY, tmp_path / "m")
    skpmd.save(logistic(), tmp_path / "m")  # It needs nothing else.
    assert skpmd.load(tmp_path / "m").n_particles == 200


def test_what_has_no_form_in_a_file_is_named(tmp_path):
    class Own(kernels.RBF):
        """A kernel of a user's own, which no module has."""

    gp = process(Own(), optimizer=None, approximation="fitc").fit(X[:30], WAVES[:30])
    with pytest.raises(TypeError, match=r"SparseGPRegressorPMD holds .*Own, which no other"):
        by_file(gp, "")
    with pytest.raises(TypeError, match=r"Pipeline holds .*<lambda>, which no other"):
        by_file(make_pipeline(FunctionTransformer(lambda x: x), logistic()), "")
    with pytest.raises(TypeError, match="estimators and posteriors, got builtins.dict"):
        by_file({"model": logistic()}, "")
    ring = [1]
    ring.append(ring)
    with pytest.raises(TypeError, match="holds itself"):
        by_file(mixture(mean_prior=ring), "")
    assert list(tmp_path.iterdir()) == []


def test_functions_are_given_again_by_their_names():
    model, data = fitted("own model")
    for others in ({"log_prior": None}, {"log_prior": None, "sample_prior": None}):
        given = {k: v for k, v in NORMAL_MEAN.items() if k not in others}
        with tempfile.TemporaryDirectory() as folder:
            skpmd.save(model, Path(folder, "m"))
            with pytest.raises(TypeError, match=r"call load\(path, log_likelihood=\.\.\., log_p"):
                skpmd.load(Path(folder, "m"), **given)
    with pytest.raises(TypeError, match="no function called predict_mean"):
        by_file(model, "own model", predict_mean=len)
    assert by_file(model, "own model").log_prior is NORMAL_MEAN["log_prior"]


PRIOR_CASES = {
    "distributions": lambda: ParticleMirrorDescent(
        NORMAL_MEAN["log_likelihood"], prior={"mean": stats.norm(1.0, scale=2.0)},
        n_particles=100, random_state=0,
    ).fit(X[:, :1]),
    "posterior of an own model": lambda: ParticleMirrorDescent(
        NORMAL_MEAN["log_likelihood"], prior=fitted("own model")[0].posterior_, n_particles=100,
        random_state=0,
    ).fit(X[:, :1]),
    "posterior": lambda: logistic(prior=fitted("two classes")[0].posterior_).fit(X, TWO),
    "hyperprior": lambda: process(
        n_particles=4, weighting="posterior", optimizer=None,
        kernel=kernels.RBF() + kernels.WhiteKernel(0.1),
        hyperprior=[stats.gamma(2.0), stats.halfnorm()],
    ).fit(X[FEW], WAVES[FEW]),
    "fitted": lambda: mixture(
        strategy="conjugate", prior=fitted("mixture, conjugate, full")[0]
    ).fit(X[:, :2]),
    "frozen": lambda: mixture(
        strategy="conjugate", prior=FrozenEstimator(fitted("mixture, conjugate, full")[0])
    ).fit(X[:, :2]),
    "topics": lambda: topics(learn_priors=True, prior=fitted("topics")[0]).fit(COUNTS),
}  # fmt: skip


@pytest.mark.parametrize("name", PRIOR_CASES)
def test_priors_come_back_from_files(name):
    model = PRIOR_CASES[name]()
    given = ["log_likelihood"] * isinstance(model, ParticleMirrorDescent)
    data = {"topics": COUNTS, "hyperprior": X}.get(
        name, X[:, : getattr(model, "n_features_in_", 1)]
    )
    loaded = by_file(model, "", **{one: NORMAL_MEAN[one] for one in given})
    assert answers(loaded, data) == answers(model, data)
    y = {"posterior": [TWO], "hyperprior": [WAVES]}.get(name, [])
    ends = [answers(after_a_part(one, data, *y), data) for one in (copy.deepcopy(model), loaded)]
    assert ends[0] == ends[1]


VALUES = {
    "numbers": [None, True, 1, -(2**70), 1.5, np.inf, -np.inf, np.float32(0.1), np.int8(3)],
    "words": ["", "\u00e9\n", np.str_("a")],
    "arrays": [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(3)), np.zeros((0, 2)),
               np.array(7), np.array([None, "a", 1], dtype=object), np.array(["a", "bc"]),
               np.array([True]), np.array("2020-01-01", dtype="M8[D]")],
    "containers": [(), [], {}, {1: 2.0, (3, "a"): [4]}, {1, 2}, frozenset("a"), [[1], (2, [3])]],
    "columns": [[1.0] * 20, list(range(20)), [True] * 20, [np.float64(0.1)] * 20, [(1, 2.0)] * 20,
                [{"a": 1, "b": 0.5}] * 20, [{}] * 20, [()] * 20, [{"a": 1}, *[{"b": 1}] * 20],
                [1, 2.0] * 20, [2**70] * 20, ["a"] * 20, [np.nan] * 20],
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_as_they_were(name):
    for value in VALUES[name]:
        node, arrays = encoded(value)
        found = decoded(json.loads(json.dumps(node)), arrays.__getitem__)
        assert type(found) is type(value)
        assert pickle.dumps(found, 2) == pickle.dumps(value, 2) or repr(found) == repr(value)


def test_what_stands_twice_is_one_thing():
    rng, array = np.random.default_rng(0), np.arange(3)
    node, arrays = encoded({"a": (rng, array), "b": [rng, array]})
    found = decoded(node, arrays.__getitem__)
    assert found["a"][0] is found["b"][0] and found["a"][1] is found["b"][1] and len(arrays) == 1


def test_random_generators_go_on_and_spawn_alike():
    rng = np.random.default_rng([1, 2])
    rng.spawn(2)
    rng.standard_normal()
    node, arrays = encoded(rng)
    found = decoded(node, arrays.__getitem__)
    assert found.random() == rng.random() and found.spawn(1)[0].random() == rng.spawn(1)[0].random()


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "numpy.load"])
def test_a_file_cannot_name_other_types(name):
    with pytest.raises(ValueError, match="a type"):
        decoded({"object": [name, {}]}, None)
    with pytest.raises(ValueError, match="a type"):
        decoded({"columns": [1, name, None, []]}, None)


def test_types_that_files_may_name_are_there():
    for names in (known_types.ESTIMATORS, known_types.POSTERIORS, known_types.STATES,
                  known_types.KERNELS, known_types.WRAPPERS):  # fmt: skip
        assert len(names) == len(set(names))
        for name in names:
            module, _, attribute = name.rpartition(".")
            assert isinstance(getattr(importlib.import_module(module), attribute), type)


def test_a_failed_write_leaves_the_file_before(tmp_path, monkeypatch):
    path = tmp_path / "model.skpmd"
    skpmd.save(fitted("topics")[0], path)
    before = path.read_bytes()

    def full(*args, **how):
        raise OSError("No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space left"):
        skpmd.save(fitted("two classes")[0], path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_an_estimator_of_another_version_warns(tmp_path, monkeypatch):
    monkeypatch.setattr(skpmd._base.estimator, "__version__", "0.0.9")
    skpmd.save(fitted("topics")[0], tmp_path / "m")
    monkeypatch.undo()
    with pytest.warns(InconsistentVersionWarning, match=r"was saved by skpmd 0\.0\.9"):
        skpmd.load(tmp_path / "m")


def test_torn_and_foreign_files_name_the_remedy(tmp_path):
    path = tmp_path / "m"
    skpmd.save(fitted("two classes")[0], path)
    whole = path.read_bytes()
    for length in np.random.default_rng(0).integers(0, len(whole), 20):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="torn or damaged|is not a file of skpmd") as caught:
            skpmd.load(path)
        assert str(path) in str(caught.value)
    path.write_text("name,age")  # Somebody's own table: nobody is to delete it.
    with pytest.raises(ValueError, match="the path of one that skpmd has written.$"):
        skpmd.load(path)
    with pytest.raises(FileNotFoundError):
        skpmd.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        skpmd.load(tmp_path)
