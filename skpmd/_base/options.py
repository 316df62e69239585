"""Parameters of the loop as estimators have them: their constraints, and how they go together."""

from math import expm1, log, log1p
from numbers import Integral, Real
from os import PathLike

from sklearn.utils._param_validation import Interval, StrOptions

from skpmd.engine.bandwidth import BANDWIDTH_RULES
from skpmd.engine.kde import KERNELS
from skpmd.engine.resampling import SCHEMES

LOOP_CONSTRAINTS = {
    "n_particles": [Interval(Integral, 2, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "step_schedule": [StrOptions({"power", "rows", "theorem6"})],
    "step_size": [Interval(Real, 0, None, closed="neither")],
    "step_offset": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    "step_decay": [Interval(Real, 0, 10, closed="both")],
    "step_constant": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "sampling": [StrOptions({"epoch", "replacement"})],
    "rejuvenation": [StrOptions({"ess", "always", "never"})],
    "ess_threshold": [Interval(Real, 0, 1, closed="left")],
    "max_substeps": [Interval(Integral, 0, None, closed="left")],
    "resampling": [StrOptions(set(SCHEMES))],
    "bandwidth": [StrOptions(set(BANDWIDTH_RULES)), Interval(Real, 0, None, closed="neither")],
    "bandwidth_factor": [Interval(Real, 0, None, closed="neither")],
    "smoothness": [Interval(Real, 0, None, closed="neither")],
    "kernel": [StrOptions(set(KERNELS))],
    "shrinkage": ["boolean"],
    "particle_growth": [None, StrOptions({"theorem"}), Interval(Real, 0, None, closed="neither")],
    "max_particles": [None, Interval(Integral, 2, None, closed="left")],
    "final_particles": [None, Interval(Integral, 2, None, closed="left")],
    "average": ["boolean"],
    "reweight": ["boolean"],
    "total_samples": [None, Interval(Real, 0, 1e15, closed="right")],
    "forgetting": [Interval(Real, 0, 1, closed="left")],
    "half_life": [None, Interval(Real, 0, None, closed="neither")],
    # The likelihood counts 1 / temperature times: beside more, or less, rounding loses the prior.
    "temperature": [Interval(Real, 1e-15, 1e15, closed="both")],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "checkpoint": [str, PathLike, None],
    "n_jobs": [
        Interval(Integral, None, -1, closed="right"),
        Interval(Integral, 1, None, closed="left"),
        None,
    ],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}

# What only a fit by stochastic steps takes note of.
OF_STOCHASTIC_STEPS = (
    "step_schedule", "step_size", "step_offset", "step_decay", "step_constant",
    "sampling", "warm_start",
)  # fmt: skip


# Half of the past is gone after three rows: a larger share is likelier one of a whole call, or what
# is to be kept.
_MAX_FORGETTING = 0.2


def share_forgotten(forgetting, half_life=None):
    """The share of the past that each row of a stream discounts, from either parameter.

    ValueError where both are given, or the share is one that hardly anybody means.
    """
    if half_life is not None:
        if forgetting:
            raise ValueError(
                f"half_life={half_life} and forgetting={forgetting} say the same in two ways: set "
                "forgetting=0."
            )
        return min(-expm1(-log(2.0) / half_life), 1.0 - 2.0**-53)
    if forgetting > _MAX_FORGETTING:
        rows, kept = -log(2.0) / log1p(-forgetting), -log(2.0) / log(forgetting)
        keeps = f"{kept:.3g} where each row keeps {forgetting:.15g} of the past, "
        raise ValueError(
            f"forgetting={forgetting} is the share of the past that every single row of a stream "
            f"discounts: half of it is gone after {rows:.2g} rows. Set half_life in its place, the "
            f"number of rows after which a row counts half: {keeps if forgetting > 0.5 else ''}"
            f"{rows:.3g} where this is meant, and so many times the rows of a call where each call "
            "does this."
        )
    return forgetting


def check_options(options):
    """The options as they are, or a ValueError where parameters do not go with each other.

    The error names the parameters, and what to set instead.
    """
    bandwidth, rejuvenation = options.settings.bandwidth, options.settings.rejuvenation
    if options.settings.shrinkage and not isinstance(bandwidth, str) and bandwidth > 1:
        raise ValueError(
            f"bandwidth must be at most 1 with shrinkage=True (at 1 the kernel density "
            f"estimate is one Gaussian); got {bandwidth!r}. Lower it or set "
            f"shrinkage=False."
        )
    if options.average and options.reweight and rejuvenation == "never":
        raise ValueError(
            "average=True with reweight=True needs a rejuvenation: the averaged iterate is a "
            "density to draw from. Set reweight=False or rejuvenation='ess'."
        )
    if options.final_particles is not None and not options.reweight and options.max_iter == 1:
        raise ValueError(
            "final_particles with reweight=False is the number of particles in the last pass, and "
            "max_iter=1 has no pass before it: raise max_iter or set n_particles."
        )
    if options.max_particles is not None and options.particle_growth is None:
        raise ValueError(
            f"max_particles={options.max_particles} is the bound of a growing number: set "
            "particle_growth, or leave max_particles=None."
        )
    if options.max_particles is not None and options.max_particles < options.n_particles:
        raise ValueError(
            f"max_particles={options.max_particles} is below n_particles={options.n_particles}: it "
            "is the bound of a growing number of particles; raise it or lower n_particles."
        )
    if options.final_particles is not None and rejuvenation == "never":
        raise ValueError(
            "final_particles needs a last rejuvenation, and rejuvenation='never' has none; "
            "raise n_particles instead."
        )
    if options.particle_growth is not None and rejuvenation == "never":
        raise ValueError(
            "particle_growth needs rejuvenation='ess' or 'always': particles that are never "
            "rejuvenated cannot change in number."
        )
    if options.total_samples is not None and options.forgetting:
        raise ValueError(
            "half_life and forgetting are for an endless stream, and total_samples says that there "
            "is an end: set forgetting=0 or total_samples=None, and half_life=None."
        )
    return options
