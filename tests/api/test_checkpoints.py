"""Fits that go on from their checkpoints: to the same bits, and nothing written is done again."""

import errno
import json
import os
import pickle
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skpmd import BayesianLogisticRegressionPMD, LDATopicModelPMD, ParticleMirrorDescent, load, save
from skpmd._base import files
from skpmd._base.checkpoint import Checkpoint, CheckpointWarning
from tests.api.test_max_time import COUNTS, LABELS, ROUTES, X
from tests.tools.exact_models import NORMAL_MEAN
from tests.tools.kills import digest, fitted
from tests.tools.source import ROOT, needs_source

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# Those of hundreds of states are a part of the slow tests.
LONG = {"moves", "horseshoe", "neighbours", "both", "student", "kernels of neighbours", "draws"}
each = pytest.mark.parametrize(
    "route", [pytest.param(one, marks=[pytest.mark.slow] * (one in LONG)) for one in ROUTES]
)


class Cut(BaseException):
    """The end of a process."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.ckpt"


@pytest.fixture
def cut(monkeypatch):
    """A function that cuts fits off after so many writes, None for never; it counts the writes."""
    writes, write = {"n": 0, "stop": None}, Checkpoint._write

    def cut_off(self, entries):
        write(self, entries)
        writes["n"] += 1
        if writes["n"] == writes["stop"]:
            raise Cut

    def set_stop(stop):
        writes.update(n=0, stop=stop)
        return writes

    monkeypatch.setattr(Checkpoint, "_write", cut_off)
    return set_stop


def topics(path=None, **parameters):
    known = {"n_components": 2, "n_particles": 2, "batch_size": 20, "max_iter": 3}
    known |= {"random_state": 0, "checkpoint": path, "checkpoint_every": 0}
    return LDATopicModelPMD(**{**known, **parameters})


def cut_off(cut, path, stop=5, **parameters):
    """A checkpoint of a fit of topics."""
    cut(stop)
    with pytest.raises(Cut):
        topics(path, **parameters).fit(COUNTS)
    cut(None)


# ------------------------------------------------------------------- the same bits
@pytest.mark.slow_but("values", "weights")
@each
def test_a_fit_that_was_cut_off_goes_on_to_the_same_bits(route, path, cut):
    expected, own = digest(fitted(route)), {"checkpoint": path, "checkpoint_every": 0.0}
    writes = cut(None)
    assert digest(fitted(route, **own)) == expected
    n, cuts = writes["n"], 0
    for stop in (3, n // 2, n // 3):  # The first two writes have no work in them.
        cut(max(stop, 3))
        try:
            found = fitted(route, **own, n_jobs=1 + cuts % 2)
            break
        except Cut:
            cuts += 1
            assert path.exists()
    else:
        cut(None)
        found = fitted(route, **own)
    assert digest(found) == expected
    assert os.listdir(path.parent) == []


@pytest.mark.slow
@needs_source
def test_fits_that_are_killed_go_on_to_the_same_bits():
    _kill("8", "topics", "classes")


@needs_source
@pytest.mark.slow
def test_two_hundred_kills():
    _kill("200")


def _kill(*arguments):
    command = [sys.executable, "-m", "tests.tools.kills", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("given", [None, "RandomState"])
def test_random_numbers_are_those_that_the_fit_began_with(given, path, cut):
    def state():
        return np.random.RandomState(3) if given else None

    cut_off(cut, path, random_state=state())
    before = load_seeds(path)
    own = state()
    found = topics(path, random_state=own).fit(COUNTS)
    expected = topics(random_state=state()).fit(COUNTS)
    if given:
        assert digest(found) == digest(expected)
        np.testing.assert_array_equal(own.randint(9, size=5), _after_seeds().randint(9, size=5))
    else:
        assert len(before) == 4


def _after_seeds():
    state = np.random.RandomState(3)
    state.randint(np.iinfo(np.int32).max, size=4)
    return state


def load_seeds(path):
    content = files.read(path, "checkpoint", lambda content, array: (content, array(0)))
    return content[1]


@pytest.mark.parametrize("early", [{"early_stopping": True}, {"evaluate_every": 1}])
def test_scores_between_passes_go_on(early, path, cut):
    expected = topics(**early, max_iter=6).fit(COUNTS)
    cut_off(cut, path, stop=9, **early, max_iter=6)
    found = topics(path, **early, max_iter=6).fit(COUNTS)
    assert digest(found) == digest(expected)


def test_other_particles_and_an_average_go_on(path, cut):
    known = {"proposal": "prior", "n_particles": 60, "batch_size": 10, "random_state": 0}
    for more in ({"average": True}, {"final_particles": 100, "reweight": False, "max_iter": 2}):
        model = ParticleMirrorDescent(**NORMAL_MEAN, **known, **more)
        expected = digest(clone(model).fit(X[:, :1]))
        for stop in (4, 9):
            model.set_params(checkpoint=path, checkpoint_every=0.0)
            cut(stop)
            with pytest.raises(Cut):
                clone(model).fit(X[:, :1])
        cut(None)
        assert digest(clone(model).fit(X[:, :1])) == expected


# ------------------------------------------------------------------- what does no harm
def test_nothing_global_changes_and_nothing_is_left(path):
    before, errors = np.random.get_state()[1].copy(), np.geterr()
    topics(path).fit(COUNTS)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert np.geterr() == errors and not path.exists()


def test_checkpoints_are_written_no_more_often_than_is_said(path, cut):
    writes = cut(None)
    topics(path).set_params(checkpoint_every=1000.0).fit(COUNTS)
    assert writes["n"] == 1  # Before anything is done: a path that cannot be written is an error.


def test_partial_fit_has_none(path):
    topics(path).partial_fit(COUNTS)
    assert not path.exists()


def test_estimators_with_a_checkpoint_are_cloned_and_pickled(path):
    model = pickle.loads(pickle.dumps(clone(topics(path)).fit(COUNTS)))
    assert model.checkpoint == path and digest(model) == digest(topics().fit(COUNTS))


def test_a_search_in_turn_may_share_a_path(path):
    model = BayesianLogisticRegressionPMD(n_particles=100, random_state=0, checkpoint=path)
    search = GridSearchCV(model, {"prior_scale": [0.5, 2.0]}, cv=2, error_score="raise")
    search.fit(X, LABELS)
    assert not path.exists()


# ------------------------------------------------------------------- other fits
@pytest.mark.parametrize(
    "others, message",
    [({"n_components": 3}, "n_components was 2 and is 3"),
     ({"n_particles": 3}, "n_particles was 2 and is 3"),
     ({"random_state": 1}, "random_state was 0 and is 1"),
     ({"doc_topic_prior": [0.1, 0.2]}, "doc_topic_prior was None and is an array"),
     ({"step_size": 0.5, "max_iter": 4}, "step_size was 1.0 and is 0.5; max_iter was 3 and is 4")],
)  # fmt: skip
def test_a_fit_of_other_parameters_is_refused_by_name(others, message, path, cut):
    cut_off(cut, path)
    before = path.read_bytes()
    with pytest.raises(ValueError) as caught:
        topics(path, **others).fit(COUNTS)
    text = str(caught.value)
    names = [one.split(" was ")[0] for one in message.split("; ")]
    assert all(name in text for name in names) and str(path) in text
    assert all(one in text for one in message.split("; ")) and "delete the file" in text
    assert path.read_bytes() == before


def test_a_fit_of_other_data_is_refused_by_name(path, cut):
    cut_off(cut, path)
    changed = COUNTS.copy()
    changed[-1, -1] += 1.0
    with pytest.raises(ValueError, match="X has other values"):
        topics(path).fit(changed)
    with pytest.raises(ValueError, match=r"X was of shape \(60, 8\) and is of shape \(50, 8\)"):
        topics(path).fit(COUNTS[:50])
    with pytest.raises(ValueError, match=r"sample_weight was None and is of shape \(60,\)"):
        topics(path).fit(COUNTS, sample_weight=np.full(60, 2.0))
    with pytest.raises(ValueError, match="the estimator was LDATopicModelPMD and is Bayesian"):
        BayesianLogisticRegressionPMD(checkpoint=path).fit(X, LABELS)


@pytest.mark.parametrize("same", [{"n_jobs": 2}, {"max_time": 1e3}, {"checkpoint_every": 1.0}])
def test_what_changes_no_digit_may_be_another(same, path, cut):
    cut_off(cut, path)
    found = topics(path).set_params(**same).fit(COUNTS)
    assert digest(found) == digest(topics().fit(COUNTS))


def test_functions_are_told_apart_by_their_code(path, cut):
    def model(log_likelihood):
        own = {**NORMAL_MEAN, "log_likelihood": log_likelihood}
        return ParticleMirrorDescent(
            **own, proposal="prior", random_state=0, checkpoint=path, checkpoint_every=0
        )

    cut(4)
    with pytest.raises(Cut):
        model(lambda theta, X, y: -((X[:, 0] - theta) ** 2).sum(axis=1)).fit(X[:, :1])
    with pytest.raises(ValueError, match="log_likelihood"):
        model(lambda theta, X, y: -2.0 * ((X[:, 0] - theta) ** 2).sum(axis=1)).fit(X[:, :1])


def test_a_file_without_work_in_it_is_nobodys(path, cut):
    cut_off(cut, path, stop=1)
    assert topics(path, n_components=3).fit(COUNTS).n_components == 3


def test_a_fit_that_fails_before_any_work_leaves_no_file(path):
    with pytest.raises(ValueError, match="Negative"):
        topics(path).fit(-COUNTS)
    assert not path.exists()


def test_a_fit_after_one_of_warm_start_is_another(path, cut):
    model = BayesianLogisticRegressionPMD(
        proposal="prior", n_particles=50, warm_start=True, random_state=0, checkpoint=path,
        checkpoint_every=0,
    ).fit(X, LABELS)  # fmt: skip
    cut(4)
    with pytest.raises(Cut):
        model.fit(X, LABELS)
    cut(None)
    with pytest.raises(ValueError, match="the fit before, of warm_start"):
        clone(model).fit(X, LABELS)


# ------------------------------------------------------------------- Ctrl-C and the time
def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(path, monkeypatch):
    class Interrupting(Checkpoint):
        n = 0

        def write(self, entries):
            super().write(entries)
            Interrupting.n += 1
            if Interrupting.n == 5:
                raise KeyboardInterrupt

    monkeypatch.setattr("skpmd._base.checkpoint.Checkpoint", Interrupting)
    model = topics(path)
    with pytest.raises(KeyboardInterrupt):
        model.fit(COUNTS)
    assert path.exists() and model.topic_word_.shape == (2, 8)
    assert digest(model.fit(COUNTS)) == digest(topics().fit(COUNTS)) and not path.exists()


@pytest.mark.slow_for("process", "own search")
@pytest.mark.parametrize("route", ["topics", "process", "evidence", "steps", "own search"])
def test_more_time_goes_on_to_what_a_fit_without_a_limit_finds(route, path, monkeypatch):
    own = {"checkpoint": path, "checkpoint_every": 0.0}
    with monkeypatch.context() as patch:
        clock = iter(range(10**6))
        patch.setattr("skpmd.engine.course.clock", lambda: next(clock))
        assert fitted(route, **own, max_time=12.0).out_of_time_
    assert path.exists()
    found = fitted(route, **own)
    assert not path.exists() and digest(found) == digest(fitted(route))


# ------------------------------------------------------------------- files that are none
def test_torn_files_are_refused_wherever_they_end(path, tmp_path, cut):
    cut_off(cut, path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for length in (0, 1, 2, 100, len(whole) - 1, *rng.integers(3, len(whole), 20)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="delete") as caught:
            topics(path).fit(COUNTS)
        assert str(path) in str(caught.value)
        assert path.read_bytes() == whole[:length]


def test_changed_bytes_are_noticed(path, cut):
    cut_off(cut, path)
    whole, rng = bytearray(path.read_bytes()), np.random.default_rng(0)
    expected, noticed = digest(topics().fit(COUNTS)), 0
    for place in rng.integers(0, len(whole), 40):
        changed = whole.copy()
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        try:
            found = topics(path).fit(COUNTS)
        except ValueError as error:
            assert str(path) in str(error)
            noticed += 1
        else:  # A date, or another byte that nobody reads.
            assert digest(found) == expected
    assert noticed > 20


def test_foreign_and_newer_files_are_refused(path, cut):
    path.write_text("my notes")
    with pytest.raises(ValueError, match="is not a file of skpmd"):
        topics(path).fit(COUNTS)
    assert path.read_text() == "my notes"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "")
    with pytest.raises(ValueError, match="an archive of something else"):
        topics(path).fit(COUNTS)
    save(topics().fit(COUNTS), path)
    with pytest.raises(ValueError, match="holds a fitted estimator"):
        topics(path).fit(COUNTS)
    path.unlink()
    cut_off(cut, path)
    with pytest.raises(ValueError, match="checkpoint of a fit that has not ended"):
        load(path)
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("skpmd.json"))
    for change, message in (({"version": 2}, "update skpmd"), ({"content": 1}, "torn or damaged")):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("skpmd.json", json.dumps({**document, **change}))
        with pytest.raises(ValueError, match=message):
            topics(path).fit(COUNTS)


def test_a_checkpoint_of_another_version_is_refused(path, cut, monkeypatch):
    cut_off(cut, path)
    monkeypatch.setattr("skpmd._base.checkpoint.__version__", "9.9")
    with pytest.raises(ValueError, match=r"of skpmd .*, and this is 9\.9: install"):
        topics(path).fit(COUNTS)


def test_paths_that_cannot_be_are_errors_before_anything_is_done(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder: give the path of a file"):
        topics(tmp_path).fit(COUNTS)
    with pytest.raises(FileNotFoundError):
        topics(tmp_path / "none" / "fit.ckpt").fit(COUNTS)
    with pytest.raises(ValueError, match="'checkpoint' parameter"):
        topics(3).fit(COUNTS)


def test_a_full_disk_leaves_the_checkpoint_before_as_it_was(path, monkeypatch):
    write_array, n = np.lib.format.write_array, {"left": 30}

    def full(file, array, **how):
        n["left"] -= 1
        if n["left"] < 0:
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        write_array(file, array, **how)

    monkeypatch.setattr(np.lib.format, "write_array", full)
    seen = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        monkeypatch.setattr(Checkpoint, "remove", lambda self: seen.append(path.read_bytes()))
        found = topics(path).fit(COUNTS)
    assert {one.category for one in caught} == {CheckpointWarning}
    assert "No space left" in str(caught[0].message)
    assert digest(found) == digest(topics().fit(COUNTS))
    assert path.read_bytes() == seen[0] and os.listdir(path.parent) == [path.name]
    monkeypatch.undo()
    assert digest(topics(path).fit(COUNTS)) == digest(found)  # It goes on from the one before.


def test_two_fits_with_one_path_do_not_mix(path, monkeypatch):
    write, n = Checkpoint.write, {"n": 0}

    def with_another(self, entries):
        write(self, entries)
        n["n"] += 1
        if n["n"] == 3:
            path.unlink()
            path.write_bytes(b"of another fit")

    monkeypatch.setattr(Checkpoint, "write", with_another)
    with pytest.warns(CheckpointWarning, match="something else has written to it"):
        found = topics(path).fit(COUNTS)
    assert path.read_bytes() == b"of another fit"
    assert digest(found) == digest(topics().fit(COUNTS))


def test_what_a_killed_process_has_left_beside_it_is_removed(path):
    old, new = (path.with_name(f".fit.ckpt.1.{one}.tmp") for one in "ab")
    for one in (old, new):
        one.write_bytes(b"half")
    os.utime(old, (0, 0))
    topics(path).fit(COUNTS)
    assert not old.exists() and new.exists()  # Somebody may be writing the other.


def test_links_lead_to_the_file(path, tmp_path, cut):
    link = tmp_path / "link"
    link.symlink_to(path)
    cut_off(cut, link)
    assert link.is_symlink() and path.exists()
