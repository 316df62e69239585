"""Fitted estimators in files of skops and pickle, here and in a fresh process."""

import ast
import copy
import importlib
import json
import pickle
import re
import subprocess
import sys
import tempfile
import zipfile
from functools import cache, partial
from pathlib import Path

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
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd._base.steps import Records
from skpmd._from_jax import _JointGradient, _Values
from skpmd.decision import BayesDecisionClassifier
from skpmd.engine.mirror import StepInfo
from skpmd.linear._make_model import PRIORS
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

skops = pytest.importorskip("skops.io")
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
        if prior != "normal"
    },
    "no correlations": lambda: (logistic(covariance_type="diag").fit(X, THREE), X, THREE),
    "steps from the prior": lambda: (logistic(proposal="prior", max_iter=1).fit(X, TWO), X, TWO),
    "sorted stream": lambda: (in_parts(logistic(), X[SORTED], TWO[SORTED], **BOTH), X, TWO),
    "sorted stream, sparse array": lambda: (
        in_parts(logistic(), sp.csr_array(X[SORTED]), TWO[SORTED], **BOTH), sp.csr_array(X), TWO
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
        for strategy, kind in (
            ("conjugate", "full"), ("conjugate", "tied"), ("conjugate", "diag"),
            ("parameters", "full"),
        )
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
# What a user has put into a case, and distributions of SciPy.
TRUSTED = [
    f"{__name__}.OwnKernel",
    *(f"{one.__module__}.{one.__name__}" for one in NORMAL_MEAN.values()),
    *(f"scipy.stats._continuous_distns.{one}_gen" for one in ("gamma", "halfnorm", "norm")),
    "scipy.stats._distn_infrastructure.rv_continuous_frozen",
]
WITH_POSTERIORS = "two classes", "no correlations", "topics", "mixture, parameters, full"
SCORERS = [
    log_predictive_density_scorer,
    *(make_distribution_scorer(one, greater_is_better=False)
      for one in (crps, interval_coverage, interval_width, negative_log_predictive_density,
                  pinball_loss)),
]  # fmt: skip
OF_EACH_FAMILY = "three classes", "inducing inputs", "mixture, conjugate, full", "search"


@cache
def fitted(name):
    """A fitted object, and its data."""
    return CASES[name]()


def by_file(model, trusted=TRUSTED):
    with tempfile.TemporaryDirectory() as folder:
        skpmd.save(model, Path(folder, "model.skops"))
        return skpmd.load(Path(folder, "model.skops"), trusted=trusted)


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


def by_cloudpickle(model):
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


# Both take what `__getstate__` gives.
WAYS = [(name, by_file) for name in CASES]
WAYS += [(name, save) for name in OF_EACH_FAMILY for save in (by_pickle, by_cloudpickle)]


@pytest.mark.slow_for("other kernels-by_file")
@pytest.mark.parametrize("name, save", WAYS)
def test_what_was_saved_answers_and_goes_on_to_the_last_bit(name, save):
    model, *data = fitted(name)
    loaded = save(model)
    assert answers(loaded, *data) == answers(model, *data)
    if hasattr(model, "partial_fit"):
        ends = [answers(after_a_part(one, *data), *data) for one in (copy.deepcopy(model), loaded)]
        assert ends[0] == ends[1] != answers(model, *data)


def test_functions_of_jax_are_named_by_the_user():
    log_likelihood, log_prior, sample_prior = NORMAL_MEAN.values()
    loaded = by_file(
        ParticleMirrorDescent(
            _Values(log_likelihood), _Values(log_prior), sample_prior,
            log_joint_gradient=_JointGradient(log_likelihood, log_prior),
        )
    )  # fmt: skip
    assert loaded.log_likelihood.__wrapped__ is log_likelihood
    assert loaded.log_joint_gradient._log_prior is log_prior


IN_A_FRESH_PROCESS = """
import pathlib, sys
import numpy, skpmd
for file in pathlib.Path(sys.argv[1]).glob("*.skops"):
    data = numpy.load(file.with_suffix(".npy"))
    numpy.save(file.with_suffix(".out.npy"), skpmd.load(file).predict(data))
"""


@pytest.mark.slow  # three seconds
def test_a_fresh_process_has_the_same_answers(tmp_path):
    for name in OF_EACH_FAMILY:
        model, data, *_ = fitted(name)
        skpmd.save(model, tmp_path / f"{name}.skops")
        np.save(tmp_path / f"{name}.npy", data)
    command = [sys.executable, "-W", "error", "-c", IN_A_FRESH_PROCESS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in OF_EACH_FAMILY:
        model, data, *_ = fitted(name)
        found = np.load(tmp_path / f"{name}.out.npy")
        np.testing.assert_array_equal(found, model.predict(data))


def test_no_module_of_trusted_types_opens_files_or_runs_texts():
    """A file may call the constructors of these types, with what it holds."""
    names = {one.rpartition(".")[0] for one in skops_trusted_types() if one.startswith("skpmd.")}
    forbidden = {"builtins", "io", "os", "pathlib", "pickle", "shutil", "subprocess", "tempfile"}
    for name in names:
        tree = ast.parse(Path(importlib.import_module(name).__file__).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                given = {one.name for one in node.names} | {getattr(node, "module", None)}
                assert not given & forbidden, (name, ast.unparse(node))
            elif isinstance(node, ast.Call):
                called = getattr(node.func, "id", None)
                assert called not in ("compile", "eval", "exec", "open", "__import__"), name


@pytest.mark.parametrize("name", [*OF_EACH_FAMILY, "topics", "own model", "pipeline of a stream"])
def test_another_version_is_warned_of(name, tmp_path, monkeypatch):
    model = fitted(name)[0]
    monkeypatch.setattr(skpmd._base.estimator, "__version__", "0.0.9")
    skpmd.save(model, tmp_path / "m")
    pickled = pickle.dumps(model)
    monkeypatch.undo()
    by_skops = partial(skpmd.load, tmp_path / "m", trusted=TRUSTED)
    for load in (by_skops, partial(pickle.loads, pickled)):
        with pytest.warns(InconsistentVersionWarning, match=r"was saved by skpmd 0\.0\.9 and is"):
            load()


def test_weights_of_classes_have_their_keys():
    model, *_ = fitted("weights of classes")
    for save in (by_file, by_pickle):
        assert save(model).class_weight == {False: 1.0, True: 3.0}
    assert by_file(logistic(class_weight={0: 2.0, 1: 1.0})).class_weight == {0: 2.0, 1: 1.0}
    assert pickle.loads(pickle.dumps(logistic(class_weight=[None]))).class_weight == [None]
    assert clone(model).class_weight == model.class_weight


def test_thousands_of_steps_are_a_few_arrays(tmp_path):
    steps = [StepInfo(0.1, j, 1.0, 0, False, 0, np.nan, 9.5, 100, extra={"n": j}) for j in range(9)]
    steps[3] = steps[3]._replace(extra={"other": 0.5})
    records = Records(steps, 12)
    for save in (by_file, by_pickle):
        found = save(records)
        assert repr(found.last) == repr(records.last) and found.n == 12
        assert type(found.last[0]) is StepInfo
    assert repr(by_file(Records([(1.0, 2, None)], 1)).last) == repr([(1.0, 2, None)])
    assert by_file(Records()).last == []
    skpmd.save(Records(1000 * steps, 9000), tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        assert len(archive.namelist()) < 30


# ------------------------------------------------------------------- what a user puts around
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
    model = clone(HOLDERS[name])
    by_file(model)  # Not fitted yet.
    y = (TWO if is_classifier(model) else WAVES)[FEW]
    loaded = by_file(model.fit(X[FEW], y))
    assert type(loaded) is type(model) and answers(loaded, X) == answers(model, X)


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
    data = {"topics": COUNTS, "hyperprior": X}.get(
        name, X[:, : getattr(model, "n_features_in_", 1)]
    )
    loaded = by_file(model)
    assert answers(loaded, data) == answers(model, data)
    y = {"posterior": [TWO], "hyperprior": [WAVES]}.get(name, [])
    ends = [answers(after_a_part(one, data, *y), data) for one in (copy.deepcopy(model), loaded)]
    assert ends[0] == ends[1]


def checkpoints(model):
    return [value for name, value in model.get_params().items() if name.endswith("checkpoint")]


@pytest.mark.parametrize("kind", [str, Path])
def test_no_path_of_a_checkpoint_comes_along(kind, tmp_path):
    path, file = kind(tmp_path / "fit.ckpt"), tmp_path / "m"
    prior = logistic(checkpoint=path).fit(X, TWO)
    pipe = make_pipeline(StandardScaler(), logistic(checkpoint=path, prior=prior))
    for model in (prior, pipe, GridSearchCV(pipe, SCALES)):
        skpmd.save(model, file)
        assert set(checkpoints(skpmd.load(file))) == {None}
        assert set(checkpoints(by_pickle(model))) == {path} == set(checkpoints(model))
        # Files that skops has written without us.
        skops.dump(model, file)
        name = f"{type(path).__module__}.{type(path).__name__}"
        assert set(checkpoints(skpmd.load(file, trusted=name))) == {None}


# ------------------------------------------------------------------- what goes wrong
def test_types_that_are_not_trusted_are_named(tmp_path):
    path = tmp_path / "m"
    skpmd.save(HOLDERS["of a user"], path)
    name = f"{__name__}.OwnKernel"
    with pytest.raises(TypeError, match=re.escape(f"load(path, trusted=['{name}'])")):
        skpmd.load(path)
    assert type(skpmd.load(path, trusted=name).kernel).__name__ == "OwnKernel"
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        document = archive.read("schema.json").replace(b"OwnKernel", b"NoKernel")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", document)
    with pytest.raises(TypeError, match="names what is not here"):
        skpmd.load(path, trusted=[f"{__name__}.NoKernel"])
    path.write_bytes(whole[:200] + bytes(40) + whole[240:])
    with pytest.raises(ValueError, match=re.escape(f"{path} is damaged")):
        skpmd.load(path, trusted=[name])


def test_functions_and_distributions_of_a_user_are_named():
    """Distributions of SciPy run text that stands in their files."""
    model = PRIOR_CASES["distributions"]()
    with pytest.raises(TypeError, match="_continuous_distns.norm_gen.*normal_log_likelihood"):
        by_file(model, trusted=())


@pytest.mark.parametrize("kind", ["intervals", "dates", "with a zone", "months", "spans", "NUL"])
def test_labels_of_groups_are_trusted(kind, tmp_path):
    pandas = pytest.importorskip("pandas")
    group = RNG.integers(0, 6, 120)
    days = pandas.to_datetime("2026-01-01") + pandas.to_timedelta(31 * group, unit="D")
    labels = {
        "intervals": pandas.cut(group, [-1, 1, 3, 6]), "dates": days,
        "with a zone": days.tz_localize("UTC"), "months": days.to_period("M"),
        "spans": pandas.to_timedelta(group, unit="D"), "NUL": np.array(["a", "a\0"] * 60, object),
    }  # fmt: skip
    frame = pandas.DataFrame({"x": RNG.normal(size=120), "g": labels[kind]})
    model = BayesianGLMRegressorPMD(groups=["g"], n_particles=100, random_state=0)
    model.fit(frame, group + RNG.normal(size=120))
    skpmd.save(model, tmp_path / "model.skops")
    loaded = skpmd.load(tmp_path / "model.skops")
    assert set(loaded.group_effects_.labels.tolist()) == set(frame["g"])
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "numpy.load", "skpmd.load"])
def test_a_file_cannot_name_other_types(name, tmp_path):
    path = tmp_path / "m"
    skpmd.save(logistic(class_weight={1: 2.0}), path)
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("schema.json"))
    module, _, attribute = name.rpartition(".")
    document.update(__module__=module, __class__=attribute, __loader__="FunctionNode")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", json.dumps(document))
    with pytest.raises(TypeError, match=f"not trusted, {name}:"):
        skpmd.load(path)


def test_skops_that_is_not_there_names_the_extra(tmp_path, monkeypatch):
    skpmd.save(logistic(), tmp_path / "m")
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (lambda: skpmd.save(BINARY, tmp_path / "n"), lambda: skpmd.load(tmp_path / "m")):
        with pytest.raises(ImportError, match=r"pip install skpmd\[skops\]"):
            call()


def test_what_has_no_form_in_a_file_is_named():
    class Own(kernels.RBF):
        """A kernel of a user's own, which no module has."""

    gp = process(Own(), optimizer=None, approximation="fitc")
    with pytest.raises(TypeError, match=r"SparseGPRegressorPMD holds .*Own, which no other"):
        by_file(gp)
    with pytest.raises(TypeError, match=r"Pipeline holds .*<lambda>, which no other"):
        by_file(make_pipeline(FunctionTransformer(lambda x: x), logistic()))
    ring = [1]
    ring.append(ring)
    with pytest.raises(TypeError, match="GaussianMixturePMD cannot be written by skops"):
        by_file(mixture(mean_prior=ring))


def test_a_failed_write_leaves_the_file_before(tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    skpmd.save(fitted("topics")[0], path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        skpmd.save(fitted("two classes")[0], path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_torn_and_foreign_files_name_the_remedy(tmp_path):
    path = tmp_path / "m"
    skpmd.save(fitted("two classes")[0], path)
    whole = path.read_bytes()
    for length in np.random.default_rng(0).integers(0, len(whole), 20):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a file of skops, or not a whole one") as caught:
            skpmd.load(path)
        assert str(path) in str(caught.value)
    for document, text in (("skpmd.json", "up to version 0.1.0"), ("other", "something else")):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(document, "{}")
        with pytest.raises(ValueError, match=text):
            skpmd.load(path)
    with pytest.raises(FileNotFoundError):
        skpmd.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        skpmd.load(tmp_path)
