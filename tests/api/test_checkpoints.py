"""Fits that go on from their checkpoints: to the same bits, and no other fit does."""

import errno
import os
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skpmd import BayesianLogisticRegressionPMD, LDATopicModelPMD, ParticleMirrorDescent
from skpmd._base import checkpoint
from skpmd._base.checkpoint import Checkpoint, CheckpointWarning, _digest
from skpmd._base.utils import as_generator
from skpmd.engine.loop import Stage, drive, on_checkpoint, resumable, stage
from skpmd.lda import _draws
from tests.api.test_max_time import COUNTS, LABELS, ROUTES, X
from tests.tools.exact_models import NORMAL_MEAN
from tests.tools.kills import digest, fitted
from tests.tools.source import ROOT, needs_source

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Cut(BaseException):
    """The end of a process."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.ckpt"


@pytest.fixture
def cut(monkeypatch):
    """A function that cuts fits off after so many writes, None for never; it counts the writes.

    Each state is written, and before the first of them the file itself.
    """
    writes, write = {"n": 0, "stop": None}, Checkpoint._write

    def cut_off(self, *entry):
        write(self, *entry)
        writes["n"] += 1
        if writes["n"] == writes["stop"]:
            raise Cut

    def set_stop(stop):
        writes.update(n=0, stop=stop)
        return writes

    monkeypatch.setattr(Checkpoint, "_write", cut_off)
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "_TIMES", 0.0)
    return set_stop


def topics(path=None, **parameters):
    known = {"n_components": 2, "n_particles": 2, "batch_size": 20, "max_iter": 5}
    return LDATopicModelPMD(**{**known, "random_state": 0, "checkpoint": path, **parameters})


def cut_off(cut, path, stop=4, **parameters):
    """A checkpoint of a fit of topics."""
    cut(stop)
    with pytest.raises(Cut):
        topics(path, **parameters).fit(COUNTS)
    cut(None)


# ------------------------------------------------------------------- methods
def counting(done, n=3):
    """A method of ``n`` states, which draws a number for each."""
    rng = np.random.default_rng(0)

    def states(at):
        numbers = [] if at is None else at
        if numbers:
            yield Stage(numbers), None
        while len(numbers) < n:
            done.append(len(numbers))
            numbers = [*numbers, rng.random()]
            yield Stage(numbers), numbers

    return lambda: (drive(resumable(states, rng)).value, rng.random())


def test_methods_go_on_in_the_order_in_which_they_began(path, cut):
    """What is part of an iteration is not noted by itself."""
    done, within = [], []

    def work():
        first = counting(done)()
        found = stage(lambda: (within.append(0), counting(done)()))[1]
        return first, found, counting(done)()

    expected = work()
    for stop in range(2, 9):
        done.clear(), within.clear()
        cut(stop)
        with pytest.raises(Cut), on_checkpoint(Checkpoint(path, {}, None)):
            work()
        cut(None)
        known = Checkpoint(path, {}, None)
        with on_checkpoint(known):
            assert work() == expected
        assert len(done) == 9 and len(within) == 1
        known.end(is_whole=True)
        assert os.listdir(path.parent) == []


def test_a_search_that_no_fit_drives_is_not_noted(path, cut):
    writes = cut(None)
    with on_checkpoint(Checkpoint(path, {}, None)):
        assert list(resumable(lambda at: iter([(1, 1), (2, 2)]))) == [1, 2]
    assert writes["n"] == 1


def test_states_are_as_far_apart_as_they_take_to_write(path, monkeypatch):
    times = iter([0.0, 0.5, 1.0, 2.0, 21.9, 22.1, 22.2, 22.2, 22.3])
    monkeypatch.setattr(checkpoint, "clock", lambda: next(times))
    known, written = Checkpoint(path, {}, None), []
    monkeypatch.setattr(known, "_write", lambda place, at, states: written.append(at))
    for k in range(4):  # The first comes too early, and the third for a write of a second.
        known.reached(0, k, (), is_last=False)
    assert written == [1, 3]
    known.reached(0, 4, (), is_last=True)
    assert written == [1, 3, 4]


def test_arrays_have_the_bits_and_the_strides_that_they_had(path, cut):
    table = np.asfortranarray(np.random.default_rng(0).random((7, 6)))
    given = [table, table[::2], table[:, 1], table.T[1::2, ::3], table[0, 0]]
    known = Checkpoint(path, {}, None)
    known.reached(0, given, (), is_last=True)
    _, found = Checkpoint(path, {}, None).last_state(())
    for one, other in zip(found, given, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.strides == other.strides and one.dtype == other.dtype


# ------------------------------------------------------------------- the same bits
@pytest.mark.slow_but("topics", "values, steps", "process", "steps", "moves", "mixture")
@pytest.mark.parametrize("route", ROUTES)
def test_a_fit_that_was_cut_off_goes_on_to_the_same_bits(route, path, cut):
    expected = digest(fitted(route))
    writes = cut(None)
    assert digest(fitted(route, checkpoint=path)) == expected
    n, cuts = writes["n"], 0
    for stop in (max(2, n // 2), max(2, n // 3)):  # The first write has no state in it.
        cut(stop)
        try:
            found = fitted(route, checkpoint=path, n_jobs=1 + cuts % 2)
            break
        except Cut:
            cuts += 1
            assert path.exists()
    else:
        cut(None)
        found = fitted(route, checkpoint=path)
    assert cuts and digest(found) == expected
    assert os.listdir(path.parent) == []


def test_chains_of_topics_go_on_after_their_last_round(path, cut, monkeypatch):
    lengths, run = [], _draws._Chain.run

    def counted(self, n_sweeps, *out):
        lengths.append(n_sweeps)
        run(self, n_sweeps, *out)

    monkeypatch.setattr(_draws, "_MAX_CHANGE", 0.0)
    monkeypatch.setattr(_draws._Chain, "run", counted)
    expected = digest(fitted("topics"))
    assert len(set(lengths)) > 3
    writes = cut(None)
    fitted("topics", checkpoint=path)
    cut(writes["n"])
    with pytest.raises(Cut):
        fitted("topics", checkpoint=path)
    cut(None)
    lengths.clear()
    assert digest(fitted("topics", checkpoint=path)) == expected
    assert set(lengths) == {_draws._MAX_LENGTH}


@needs_source
@pytest.mark.slow
def test_fits_that_are_killed_go_on_to_the_same_bits():
    command = [sys.executable, "-m", "tests.tools.kills", "60"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("given", [None, "RandomState"])
def test_random_numbers_are_those_that_the_fit_began_with(given, path, cut):
    np.random.seed(5)
    state = np.random.RandomState(5) if given else None
    cut_off(cut, path, random_state=state)
    as_generator(state)  # An earlier run has moved it on.
    found = topics(path, random_state=state).fit(COUNTS)
    expected = topics(random_state=np.random.RandomState(5)).fit(COUNTS)
    assert digest(found) == digest(expected)


def test_scores_between_passes_go_on(path, cut):
    cut_off(cut, path, early_stopping=True)
    found = topics(path, early_stopping=True).fit(COUNTS)
    assert digest(found) == digest(topics(early_stopping=True).fit(COUNTS))


def test_other_particles_and_an_average_go_on(path, cut):
    known = {"proposal": "prior", "n_particles": 60, "batch_size": 10, "random_state": 0}
    for more in ({"average": True}, {"final_particles": 100, "reweight": False, "max_iter": 3}):
        model = ParticleMirrorDescent(**NORMAL_MEAN, **known, **more)
        expected = digest(clone(model).fit(X[:, :1]))
        model.set_params(checkpoint=path)
        cut(3)
        with pytest.raises(Cut):
            clone(model).fit(X[:, :1])
        cut(None)
        assert digest(clone(model).fit(X[:, :1])) == expected


# ------------------------------------------------------------------- what does no harm
def test_partial_fit_has_none(path):
    topics(path).partial_fit(COUNTS)
    assert not path.exists()


def test_a_search_in_turn_may_share_a_path(path):
    model = BayesianLogisticRegressionPMD(n_particles=100, random_state=0, checkpoint=path)
    search = GridSearchCV(model, {"prior_scale": [0.5, 2.0]}, cv=2, error_score="raise")
    search.fit(X, LABELS)
    assert not path.exists()


# ------------------------------------------------------------------- other fits
@pytest.mark.parametrize(
    "others, message",
    [({"doc_topic_prior": [0.1, 0.2]}, "doc_topic_prior was None and is [0.1, 0.2]"),
     ({"step_size": 0.5, "max_iter": 4}, "max_iter was 5 and is 4; step_size was 1.0 and is 0.5")],
)  # fmt: skip
def test_a_fit_of_other_parameters_is_refused_by_name(others, message, path, cut):
    cut_off(cut, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="delete the file") as caught:
        topics(path, **others).fit(COUNTS)
    text = str(caught.value)
    assert all(one in text for one in [*message.split("; "), str(path)])
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


def test_a_checkpoint_of_another_version_is_refused(path, cut, monkeypatch):
    cut_off(cut, path)
    monkeypatch.setattr(checkpoint, "__version__", "9.9")
    with pytest.raises(ValueError, match=r"the version of skpmd was .* and is 9\.9"):
        topics(path).fit(COUNTS)


def test_what_changes_no_digit_may_be_another(path, cut):
    cut_off(cut, path)
    found = topics(path, n_jobs=2, max_time=1e3).fit(COUNTS)
    assert digest(found) == digest(topics().fit(COUNTS))


def test_functions_are_told_apart_by_their_code(path, cut):
    def model(log_likelihood):
        own = {**NORMAL_MEAN, "log_likelihood": log_likelihood}
        return ParticleMirrorDescent(**own, proposal="prior", random_state=0, checkpoint=path)

    cut(2)
    with pytest.raises(Cut):
        model(lambda theta, X, y: -((X[:, 0] - theta) ** 2).sum(axis=1)).fit(X[:, :1])
    with pytest.raises(ValueError, match="log_likelihood"):
        model(lambda theta, X, y: -2.0 * ((X[:, 0] - theta) ** 2).sum(axis=1)).fit(X[:, :1])


def test_a_file_without_a_state_is_nobodys(path, cut):
    cut_off(cut, path, stop=1)
    assert topics(path, n_components=3).fit(COUNTS).n_components == 3
    with pytest.raises(ValueError, match="Negative"):
        topics(path).fit(-COUNTS)
    assert not path.exists()


def test_a_fit_after_one_of_warm_start_is_another(path, cut):
    model = BayesianLogisticRegressionPMD(
        proposal="prior", n_particles=50, warm_start=True, random_state=0, checkpoint=path
    ).fit(X, LABELS)
    cut(2)
    with pytest.raises(Cut):
        model.fit(X, LABELS)
    cut(None)
    with pytest.raises(ValueError, match="the fit before, of warm_start"):
        clone(model).fit(X, LABELS)


# ------------------------------------------------------------------- Ctrl-C and the time
def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(path, cut, monkeypatch):
    reached, n = Checkpoint.reached, []

    def interrupting(self, *entry, **how):
        reached(self, *entry, **how)
        n.append(entry)
        if len(n) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "reached", interrupting)
    model = topics(path)
    with pytest.raises(KeyboardInterrupt):
        model.fit(COUNTS)
    assert path.exists() and model.topic_word_.shape == (2, 8)
    assert digest(model.fit(COUNTS)) == digest(topics().fit(COUNTS)) and not path.exists()
    assert len(n) == 5


@pytest.mark.parametrize("route", ["topics", "moves"])
def test_more_time_goes_on_to_what_a_fit_without_a_limit_finds(route, path, cut, monkeypatch):
    with monkeypatch.context() as patch:
        clock = iter(range(10**6))
        patch.setattr("skpmd._runtime.call.clock", lambda: next(clock))
        assert fitted(
            route, checkpoint=path, max_time=5.0 if route == "moves" else 20.0
        ).out_of_time_
    assert path.exists()
    left = cut(None)
    found = fitted(route, checkpoint=path)
    assert not path.exists() and digest(found) == digest(fitted(route))
    n_left, whole = left["n"], cut(None)
    fitted(route, checkpoint=path)
    assert n_left < whole["n"]


def test_what_the_time_has_ended_is_not_gone_on_from(path, cut, monkeypatch):
    """A search for a kernel without the time for it: the same fit may have more."""
    with monkeypatch.context() as patch:
        clock = iter(range(10**6))
        patch.setattr("skpmd._runtime.call.clock", lambda: next(clock))
        assert fitted("process", checkpoint=path, max_time=20.0).out_of_time_
    assert not path.exists()


# ------------------------------------------------------------------- files that are none
def test_damaged_and_foreign_files_are_refused(path, cut):
    cut_off(cut, path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    torn = [whole[:n] for n in (0, 1, 2, 100, len(whole) - 1, *rng.integers(3, len(whole), 9))]
    for place in rng.integers(10, len(whole), 20):
        torn.append(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
    for content in (*torn, b"my notes"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is damaged, or no checkpoint .*delete") as caught:
            topics(path).fit(COUNTS)
        assert str(path) in str(caught.value) and path.read_bytes() == content


def test_paths_that_cannot_be_are_errors_before_anything_is_done(tmp_path):
    with pytest.raises(ValueError, match="Is a directory.*give another path"):
        topics(tmp_path).fit(COUNTS)
    with pytest.raises(FileNotFoundError, match="none"):
        topics(tmp_path / "none" / "fit.ckpt").fit(COUNTS)
    with pytest.raises(ValueError, match="'checkpoint' parameter"):
        topics(3).fit(COUNTS)


def test_a_full_disk_leaves_the_checkpoint_before_as_it_was(path, cut, monkeypatch):
    cut_off(cut, path)
    before = path.read_bytes()

    def full(file, protocol):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.setattr(checkpoint, "_Pickler", full)
        patch.setattr(os, "unlink", lambda path: None)
        found = topics(path).fit(COUNTS)
    assert {one.category for one in caught} == {CheckpointWarning}
    assert "No space left" in str(caught[0].message) and path.read_bytes() == before
    assert digest(found) == digest(topics().fit(COUNTS))
    assert digest(topics(path).fit(COUNTS)) == digest(found)  # It goes on from the one before.
    assert [one for one in os.listdir(path.parent) if not one.endswith(".tmp")] == []


def test_two_fits_with_one_path_do_not_mix(path, cut, monkeypatch):
    reached, n = Checkpoint.reached, []

    def with_another(self, *entry, **how):
        reached(self, *entry, **how)
        n.append(entry)
        if len(n) == 2:
            path.unlink()
            path.write_bytes(b"of another fit")

    monkeypatch.setattr(Checkpoint, "reached", with_another)
    with pytest.warns(CheckpointWarning, match="something else has written to it"):
        found = topics(path).fit(COUNTS)
    assert path.read_bytes() == b"of another fit"
    assert digest(found) == digest(topics().fit(COUNTS))


def test_links_lead_to_the_file(path, tmp_path, cut):
    link = tmp_path / "link"
    link.symlink_to(path)
    cut_off(cut, link)
    assert link.is_symlink() and path.exists()


def _shifted(shift):
    return lambda theta, X: -0.5 * (theta[:, 0] - shift) ** 2 * len(X)


class _Holder:
    def __init__(self, shift):
        self.shift = shift

    def values(self, theta, X, shift=0.0):
        return -0.5 * (theta[:, 0] - self.shift - shift) ** 2 * len(X)


def test_functions_are_told_apart_by_what_they_hold():
    one, other = _Holder(1.0), _Holder(2.0)
    pairs = [
        (_shifted(1.0), _shifted(2.0)),
        (one.values, other.values),
        (partial(one.values, shift=1.0), partial(one.values, shift=2.0)),
        (lambda x, s=1.0: x, lambda x, s=2.0: x),
        (lambda x: x * (1.0, 2.0)[0], lambda x: x * (3.0, 2.0)[0]),
    ]
    for first, second in pairs:
        assert _digest(first) != _digest(second)
    assert _digest(_shifted(1.0)) == _digest(_shifted(1.0))
    assert _digest(one.values) == _digest(_Holder(1.0).values)

    def itself(x):
        return itself(x)

    assert _digest(itself) == _digest(itself)
