"""Counts of the engine's parts that a call makes use of, by a profile of its function calls.

Functions are known by their code, so that it does not matter how they were imported.
"""

import sys
from collections import Counter
from contextlib import contextmanager

from skpmd.engine import importance, loop, mirror, particles, rejuvenation, smc
from skpmd.proposals import hmc, importance_rounds


def _inner(function, name):
    """Code of a function inside another one, which need not be running when that one is."""
    found = function.__code__.co_consts
    return next(code for code in found if getattr(code, "co_name", None) == name)


STEP = mirror.segments.__code__  # every step is made of segments
# A step belongs to the innermost of these that runs it.
PHASES = {
    loop._stochastic.__code__: "stochastic steps",
    _inner(loop.full_batch_iterations, "states"): "full-batch iterations",
    mirror.reweighting.__code__: "importance reweighting",
    importance_rounds.proposal_rounds.__code__: "importance reweighting",
    smc.tempering.__code__: "importance reweighting",  # one step of a = b = 1 in many segments
}
PARTS = {
    rejuvenation.rejuvenate_by_kernels.__code__: "rejuvenation: kernel density",
    importance.ProposalDraws.__call__.__code__: "rejuvenation: fitted proposals",
    smc.MarkovMoves.__call__.__code__: "rejuvenation: MCMC moves",
    hmc.hamiltonian.__code__: "HMC",
    particles.stacked.__code__: "stacking",
    particles.stacking_step.__code__: "stacking",
}


@contextmanager
def counted():
    """Context that yields a Counter of parts of the engine, filled by what runs inside."""
    counts, frames = Counter(), []

    def look(frame, event, _):
        code = frame.f_code
        if event != "call" or (code is not STEP and code not in PARTS):
            return
        if any(frame is one for one in frames):  # a generator that goes on
            return
        frames.append(frame)
        if code is STEP:
            counts.update(_about(frame))
        else:
            counts[PARTS[code]] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield counts
    finally:
        sys.setprofile(before)


def _about(frame):
    """What a step counts as."""
    given = frame.f_locals
    yield "step"
    phase = _phase(frame)
    if phase:
        yield phase
    if given["model"].has_block:
        yield "conjugate block"
    asked = given["rejuvenation"].first or phase == "importance reweighting"
    if given["settings"].rejuvenation == "never" and not asked:
        yield "rejuvenation: none"


def _phase(frame):
    while frame is not None:
        if frame.f_code in PHASES:
            return PHASES[frame.f_code]
        frame = frame.f_back
    return None
