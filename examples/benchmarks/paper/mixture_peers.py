"""The methods beside ours in `paper_mixture`, and their settings.

Where the paper gives a setting it is here: batches of 10 rows, one chain each of Gibbs sampling and
SGLD with their burn-in, 1500 components of NPV. The others are further sensible ones: the best of
all is taken. Whatever has no end of its own within ten times our CPU seconds is ended by the clock.
"""

from functools import cache

from scipy.special import ndtri

from . import tied_mixture

BATCH = 10
SNAPSHOTS = 120  # of the open ones, a tenth apart: none misses the end of a budget by more
GRID = "grid"
ONCE = {"batch_size": BATCH, "n_snapshots": 30}
OPEN = {"batch_size": BATCH, "n_snapshots": SNAPSHOTS, "passes": 20_000}  # ended by the clock
WASTE_FREE = {"waste_free": True}
STANDARD = {f"standard, {n - 1} moves": {"waste_free": False, "len_chain": n} for n in (5, 10)}


def peers(quick):
    """Return {method: {setting: (peer, options)}}; one setting each in the quick variant."""
    found = {**_particles(), **_chains(), **_variational(), **_exact()}
    if quick:
        return {method: dict([*kinds.items()][:1]) for method, kinds in found.items()}
    return found


def _particles():
    from ..peers.one_pass_smc import BANDWIDTHS, one_pass_smc

    widths = (*BANDWIDTHS, 0.3)
    found = {"one-pass SMC": {f"h {h}": (one_pass_smc, {"bandwidth": h, **ONCE}) for h in widths}}
    try:
        from ..peers.particles_smc import ibis, tempered
    except ImportError as error:  # the one package that is not in the extra
        print(f"Without IBIS and tempered SMC. {error}")
        return found
    kinds = {"waste-free": WASTE_FREE, **STANDARD}
    found["IBIS"] = {kind: (ibis, {**options, **ONCE}) for kind, options in kinds.items()}
    found["tempered SMC"] = {kind: (tempered, options) for kind, options in kinds.items()}
    return found


def _chains():
    from ..peers.prior_nuts import prior_nuts
    from ..peers.sgld import sgld
    from ..peers.tied_gibbs import tied_gibbs

    scans = {"sigma": tied_mixture.SIGMA, "passes": 20_000, "n_snapshots": SNAPSHOTS}
    return {
        "SGLD": {
            f"{chains} x {step:g}": (sgld, {"n_chains": chains, "step_size": step, **OPEN})
            for chains, step in ((10, 3e-4), (10, 1e-4), (1, 3e-4))
        },
        "Gibbs": {
            f"{chains} chains": (tied_gibbs, {"n_chains": chains, **scans})
            for chains in (10, 100, 1)
        },
        "NUTS": {"4 chains": (prior_nuts, {"n_steps": 50_000, "n_snapshots": SNAPSHOTS})},
    }


def _variational():
    from ..peers.npv import npv
    from ..peers.svi import svi

    short = {**OPEN, "passes": 2000}  # their curves have long been flat
    return {
        "SVI": {
            f"{family}, {rate}": (svi, {"family": family, "learning_rate": rate, **short})
            for family, rate in (("full", 0.03), ("full", 0.1), ("diagonal", 0.03))
        },
        "SGD NPV": {
            f"{size}, {rate}": (npv, {**OPEN, "learning_rate": rate, "n_particles": size})
            for size, rate in ((1500, 0.3), (150, 0.1), (150, 0.03), (50, 0.1), (20, 0.03))
        },
    }


def _exact():
    """What is made for few parameters: nested sampling, and a grid."""
    from ..peers.nested import nested
    from ..peers.quadrature import quadrature

    return {
        "nested sampling": {
            f"{n_live} live points": (nested, {"n_live": n_live, "prior_transform": ndtri})
            for n_live in (100, 50, 500)
        },
        GRID: {"finer and finer": (quadrature, {})},
    }


@cache
def problem():
    """The mixture, as the peers take it."""
    from ..peers.jax_setup import jnp
    from ..peers.problem import Problem

    def log_likelihood(theta, X, y):
        first = -0.5 * ((X[:, 0] - theta[0]) / tied_mixture.SIGMA) ** 2
        second = -0.5 * ((X[:, 0] - theta[0] - theta[1]) / tied_mixture.SIGMA) ** 2
        return jnp.logaddexp(first, second).sum()

    return Problem(
        2,
        tied_mixture.log_likelihood,
        tied_mixture.log_prior,
        tied_mixture.sample_prior,
        log_likelihood,
        lambda theta: -0.5 * (theta @ theta),
    )
