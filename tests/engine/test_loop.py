"""The loop: Ctrl-C, history, passes, full-batch iterations, and who pays for what."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skpmd import ParticleMirrorDescent
from skpmd._rows.rows import Rows
from skpmd.engine import rejuvenation_error
from skpmd.engine.loop import FullBatch, Method, Options, Outcome, drive, full_batch_iterations, run
from skpmd.engine.mirror import Settings
from skpmd.engine.model import Model
from skpmd.engine.particles import Particles, draw_prior
from tests.tools.exact_models import NORMAL_MEAN, NormalMean

NEVER = Settings(rejuvenation="never")


class Halves(Model):
    """A block whose local variables pull it half the way to the rows' mean: no theta at all.

    Statistics are n (block + mean) / 2, so that full-batch iterations converge to the mean.
    """

    block_weighs = False

    def log_prior(self, theta):
        return np.zeros(len(theta))

    def log_likelihood(self, theta, batch):
        return np.zeros(len(theta))

    def prior_block(self, theta):
        return np.zeros((len(theta), 1))

    def statistics(self, theta, block, batch):
        return 0.5 * (block + batch.X.mean()) * batch.weight.sum()

    def update_block(self, theta, block, a, b, statistics):
        return super().update_block(theta, block, a, b / 6.0, statistics)

    def record(self, block, statistics):
        return {"level": float(block[0, 0])}


def empty_particles(m):
    zero = np.zeros(m)
    return Particles(np.empty((m, 0)), zero, zero, zero, np.zeros((m, 1)))


ROWS = Rows(np.arange(6.0)[:, None], None, None, 6)


def outcome(k):
    return Outcome(empty_particles(k), [k])


def test_drive_keeps_the_last_complete_state_at_ctrl_c():
    def states():
        yield outcome(1)
        yield outcome(2)
        raise KeyboardInterrupt

    reported = []
    found = drive(states(), reported.append)
    assert found.interrupted and found.infos == reported == [1, 2]
    assert len(found.particles.theta) == 2


def test_ctrl_c_before_the_first_state_is_handed_on():
    def states():
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        drive(states())


def test_full_batch_iterations_converge_and_are_recorded():
    seen = []

    def until(particles, t, memory):
        level = particles.block[0, 0]
        seen.append((t, memory))
        return particles, abs(level - 2.5) < 1e-3, t

    options = Options(max_iter=0, reweight=False, settings=NEVER)
    found = run(
        Halves(), ROWS, empty_particles(3), options, np.random.default_rng(0),
        method=Method(full_batch=FullBatch(50, until)),
    )  # fmt: skip
    # Half of the distance is left after each: 2.5 / 2^12 < 1e-3.
    assert (
        found.converged
        and seen == [(t, t - 1 or None) for t in range(1, 13)]
        and len(found.infos) == 12
    )
    levels = [info.extra["level"] for info in found.infos]
    np.testing.assert_allclose(levels, 2.5 * (1.0 - 0.5 ** np.arange(1, 13)))
    assert all((info.a, info.b) == (1.0, 1.0) for info in found.infos)


def test_iterations_of_a_stream_start_from_one_base():
    base = empty_particles(1)._replace(block=np.full((1, 1), 7.0))
    states = full_batch_iterations(
        base, Halves(), ROWS.whole(), (0.0, 1.0), NEVER, np.random.default_rng(0),
        FullBatch(3, lambda particles, t, _: (particles, False, None)),
    )  # fmt: skip
    block, expected = 7.0, []
    for _ in range(3):
        block = 7.0 + 0.5 * (block + 2.5)
        expected.append(block)
    assert [state.particles.block[0, 0] for state in states] == expected


def test_passes_end_when_the_caller_says_so():
    calls = []

    def after_pass(particles, iteration, rng, memory):
        calls.append((iteration, memory))
        return particles, iteration == 1, iteration

    options = Options(max_iter=9, reweight=False)
    rows = Rows(np.zeros((30, 1)), None, None, 10)
    model, rng = NormalMean(), np.random.default_rng(0)
    start = draw_prior(model, 50, rng)
    found = run(model, rows, start, options, rng, method=Method(after_pass=after_pass))
    assert calls == [(0, None), (1, 0)] and len(found.infos) == 6


def test_a_fit_that_ends_reweighted_keeps_no_account_of_errors(monkeypatch):
    def unwanted(*args):
        raise AssertionError("nobody asked for the third cumulants")

    monkeypatch.setattr(rejuvenation_error, "of_rejuvenation", unwanted)
    X = np.random.default_rng(0).normal(1.0, 1.0, (200, 1))
    fitted = ParticleMirrorDescent(**NORMAL_MEAN, proposal="prior", batch_size=20, random_state=0)
    fitted.fit(X)
    assert fitted.history_["rejuvenations"].sum() > 0
    assert fitted.diagnostics_["mean_error"] is None
    with pytest.raises(AssertionError, match="third cumulants"):
        fitted.set_params(reweight=False).fit(X)


@pytest.mark.filterwarnings("ignore:.*posterior means may be off")  # By 0.2 sds, the bound.
def test_a_stream_goes_on_from_an_averaged_iterate():
    """Its prior density is known, though the density of its particles is not."""
    X = np.random.default_rng(0).normal(1.0, 1.0, (60, 1))
    fitted = ParticleMirrorDescent(
        **NORMAL_MEAN, average=True, reweight=False, batch_size=10, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="times the sd"):  # The average lags behind.
        fitted.fit(X[:40])
    fitted.partial_fit(X[40:])
    assert abs(fitted.posterior_.mean()[0] - X.sum() / 61) < 0.3
