"""A fit by stochastic steps from the prior, held against a fit of the same posterior by its values.

Steps may lose a narrow mode, or the neck of a funnel, which kernels of one covariance do not enter;
the particles that are left know nothing of it, and their weights are good. The other fit comes from
somewhere else, and where it is sound the two must agree.
"""

from skpmd.engine.agreement import differences, moments_and_errors
from skpmd.engine.course import counted
from skpmd.engine.from_values import from_values
from skpmd.engine.weighed_proposals import is_thin

_WHAT = "a fit with proposal='auto' finds"
_MAX_LOG_SD_ERROR = 0.15  # A log sd with a larger standard error is not known by its own draws.


def compared(outcome, model, batches, options, rng):
    """States of an outcome, for `skpmd.engine.loop.drive`: the last has reasons not to trust it.

    These are what a fit by values contradicts, or a spread that rests on few draws. The draws of
    that fit come from a generator of their own, so that ``rng`` is left as it is.
    """
    yield outcome
    _, _, _, of_log_sd = moments_and_errors(outcome.particles)
    j = int(of_log_sd.argmax())
    if of_log_sd[j] > _MAX_LOG_SD_ERROR:
        unknown = (
            f"the sd of theta[:, {j}] rests on few draws (standard error {of_log_sd[j]:.0%}): "
            "raise n_particles or max_iter"
        )
        yield outcome._replace(infos=[], reasons=(*outcome.reasons, unknown))
        return
    fits = from_values(model, batches, options, rng.spawn(1)[0])
    *_, other = counted(fits, "comparison with another fit")
    if not (other.n_left_out or other.reasons or is_thin(other.particles)):
        found = tuple(f"{text}: set proposal='auto'" for text in differences(outcome, other, _WHAT))
        reasons = outcome.reasons + found
        yield outcome._replace(infos=[], reasons=reasons)
