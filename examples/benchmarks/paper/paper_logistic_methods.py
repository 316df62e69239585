"""The methods of `paper_logistic`, each with its settings.

A setting is a function ``(seed, max_cpu) -> iterator of Snapshot``.
"""

from functools import partial

import numpy as np

from skpmd.engine.model import Batch
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._priors import NormalPrior

from ..peers.annealed import annealed
from ..peers.fisher_scoring import fisher_scoring
from ..peers.importance import amis, laplace_psis
from ..peers.jaakkola_jordan import jaakkola_jordan
from ..peers.jax_setup import jax, jnp
from ..peers.mclmc import mclmc
from ..peers.npv import npv
from ..peers.nutpie_nuts import nutpie_nuts
from ..peers.one_pass_smc import one_pass_smc
from ..peers.pathfinder import pathfinder
from ..peers.prior_nuts import prior_nuts
from ..peers.problem import Problem
from ..peers.sgld import sgld
from ..peers.svi import svi
from . import paper_logistic_runs as runs

BATCH = 100
MEMORY = 4000  # particles: those of our defaults
DRAWS = 20_000  # kept of a chain, whose mean errs by .007 sd at best
PLENTY = {"passes": 4000, "n_snapshots": 120}  # time runs out before; an answer each tenth of it
JJ_STEPS = {  # of the natural gradient, t = 1, 2, ...; the first is the paper's
    "1 / (100 + sqrt t)": lambda t: 1.0 / (100.0 + np.sqrt(t)),
    "(10 + t)^-0.51": lambda t: (10.0 + t) ** -0.51,
}


def others(data):
    """Return {method: {setting: function}}, of each method the likeliest setting first.

    What stands before a comma is the family, of which there is one verdict.
    """
    whole = problem(data.X.shape[1] + 1)
    white = runs.Whitened(data, whole)

    def general(method, settings, **fixed):
        """Settings of a peer that takes any problem."""
        options = {"n_particles": MEMORY, "batch_size": BATCH, **fixed}
        return {
            name: partial(_started, method, whole, data, {**options, **own})
            for name, own in settings.items()
        }

    def whitened(method, settings, **fixed):
        """Settings of such a peer in the coordinates of a Laplace approximation."""
        options = {"n_particles": MEMORY, **fixed}
        return {
            name: partial(white.of, method, {**options, **own}) for name, own in settings.items()
        }

    def weighed(method, settings):
        """Settings of an importance sampler around a Laplace approximation."""
        return {
            name: partial(runs.from_laplace, method, whole, data, own)
            for name, own in settings.items()
        }

    def plain(method, settings, n_particles=MEMORY):
        """Settings of a peer of all rows, which takes no batches."""
        return {
            name: partial(_started, method, whole, data, {"n_particles": n_particles, **own})
            for name, own in settings.items()
        }

    def of_particles():
        """Settings of the two of the package ``particles``, which may be missing."""
        try:
            from ..peers.particles_smc import ibis, tempered
        except ImportError as error:
            print(f"IBIS and tempered SMC are left out. {error}", flush=True)
            return {}
        chains = {f"chains of {length}": {"len_chain": length} for length in (10, 50)}
        separate = {f"{MEMORY} chains of 5": {"len_chain": 5, "waste_free": False}}
        fewer = {
            f"{count} particles": {"len_chain": 10, "n_particles": count} for count in (1000, 2000)
        }
        from_laplace = whitened(tempered, {**chains, **separate, **fewer})
        return {
            # A batch of 100 leaves so few particles that their covariance is singular.
            "IBIS": general(ibis, chains, batch_size=10, n_snapshots=20),
            "tempered SMC": general(tempered, {**chains, **fewer}),
            "tempered SMC, from Laplace": from_laplace,
        }

    energies = {f"energy variance {size:g}": {"energy_var": size} for size in (5e-4, 5e-5)}
    long = {"n_steps": 10**6}
    chains = {f"chains: {count}": {"n_chains": count} for count in (1, 4)}
    largest = _largest_curvature(data)
    widths = {f"width {h:g}": {"bandwidth": h, "n_snapshots": 20} for h in (0.1, 0.23)}
    return {
        "Laplace": {"scikit-learn": partial(runs.laplace_of_sklearn, data, MEMORY)},
        "JJ SVI": _jj_settings(data),
        "SVI, full": general(svi, _svi_rates()),
        "SVI, diagonal": general(svi, _svi_rates(), family="diagonal"),
        "SVI, whitened": whitened(svi, _svi_rates(), batch_size=BATCH),
        "SGLD": general(sgld, _sgld_steps(len(data.y)), n_particles=DRAWS),
        "SGLD, whitened": whitened(
            sgld,
            {
                f"step {size:g}, decay {decay:g}": _constant(size, decay)
                for size, decay in ((0.01, 0.33), (0.01, 0.0), (0.003, 0.0))
            },
            batch_size=BATCH,
            burn_in=500,
            n_particles=DRAWS,
        ),
        "SGHMC": general(sgld, _momentum(len(data.y)), n_particles=DRAWS),
        "SGHMC, whitened": whitened(
            sgld,
            {"step 0.001": _constant(0.001), "step 0.0003": _constant(0.0003)},
            batch_size=BATCH,
            burn_in=500,
            friction=0.1,
            n_particles=DRAWS,
        ),
        "Fisher scoring": general(
            fisher_scoring,
            {f"step {size:g}": {"step_size": size} for size in (10.0, 1.0)},
            n_particles=DRAWS,
            **PLENTY,
        ),
        "SGD NPV": {
            f"components: {count}": general(npv, {"": _rate(0.03, 0.5)}, n_particles=count)[""]
            for count in (5, 20)
        },
        "SGD NPV, whitened": {
            f"components: {count}": whitened(
                npv, {"": _rate(0.03, 0.5)}, batch_size=BATCH, n_particles=count
            )[""]
            for count in (5, 20)
        },
        "one-pass SMC": general(one_pass_smc, widths),
        **of_particles(),
        "Gibbs": {"Polya-Gamma": partial(runs.gibbs, data, False)},
        "Gibbs, from the mode": {"Polya-Gamma": partial(runs.gibbs, data, True)},
        "NUTS": {f"chains: {count}": partial(_from_prior, whole, data, count) for count in (1, 4)},
        "NUTS, whitened": {f"chains: {count}": partial(white.nuts, count) for count in (1, 4)},
        "nutpie": plain(nutpie_nuts, chains, DRAWS),
        "nutpie, whitened": whitened(nutpie_nuts, chains, n_tune=50, n_particles=DRAWS),
        "MCLMC": plain(mclmc, {name: {**long, **own} for name, own in energies.items()}, DRAWS),
        "MCLMC, whitened": whitened(mclmc, energies, n_tune=400, n_particles=DRAWS, **long),
        "Pathfinder + PSIS": plain(
            pathfinder,
            {
                f"paths: {count}, {length}": {"n_paths": count, "max_iter": length}
                for count, length in ((1, 60), (4, 60), (1, 30))
            },
        ),
        "Laplace + PSIS": weighed(
            laplace_psis, {"normal": {}, "Student t, 20": {"df": 20.0}, "Student t, 8": {"df": 8.0}}
        ),
        "AMIS": weighed(amis, {f"df: {df:g}": {"df": df} for df in (10.0, 40.0)}),
        "AIS": plain(
            annealed,
            {
                f"temperatures: {count}": {"n_temperatures": count, "curvature": largest}
                for count in (100, 400)
            },
        ),
        "AIS, from Laplace": whitened(
            annealed,
            {
                f"temperatures: {count}": {"n_temperatures": count, "step_size": 0.5}
                for count in (5, 20)
            },
        ),
    }


def ours(data):
    """Return the settings of the particles, the defaults first."""
    stream = {"n_particles": 1000, "total_samples": len(data.y)}
    algorithm = {"proposal": "prior", "reweight": False, "batch_size": BATCH, "n_particles": 1000}
    return {
        "defaults": partial(runs.fit, data, {}),
        "1000 particles": partial(runs.fit, data, {"n_particles": 1000}),
        "16000 particles": partial(runs.fit, data, {"n_particles": 16_000}),
        "partial_fit, batches of 100": partial(runs.stream, data, stream, BATCH),
        "partial_fit, batches of 1000": partial(runs.stream, data, stream, 10 * BATCH),
        "steps from the prior": partial(runs.fit, data, algorithm),
    }


def _jj_settings(data):
    def setting(batch_size, rho):
        options = {"n_particles": MEMORY, "batch_size": batch_size, "rho": rho, **PLENTY}
        return lambda seed, max_cpu: jaakkola_jordan(
            data.X, data.y, seed=seed, max_cpu=max_cpu, **options
        )

    settings = {f"step {name}": setting(BATCH, rho) for name, rho in JJ_STEPS.items()}
    return {**settings, "all rows, step 1": setting(len(data.y), lambda t: 1.0)}


def _svi_rates():
    pairs = ((0.03, 0.5), (0.01, 0.5), (0.1, 1.0))
    return {f"rate {rate:g}, decay {decay:g}": _rate(rate, decay) for rate, decay in pairs}


def _rate(learning_rate, decay):
    return {"learning_rate": learning_rate, "decay": decay, **PLENTY}


def _constant(step_size, decay=0.0):
    return {"step_size": step_size, "decay": decay, **PLENTY}


def _momentum(n):
    """Even steps of the momentum with a tenth of it lost in each."""
    sizes = {f"step {size:g} / n": _constant(size / n) for size in (0.1, 0.03, 0.3)}
    return {name: {**own, "friction": 0.1} for name, own in sizes.items()}


def _largest_curvature(data):
    """The largest that the negative log likelihood has: that at zero."""
    design = np.column_stack([data.X, np.ones(len(data.y))])
    return float(np.linalg.eigvalsh(0.25 * design.T @ design)[-1])


def _sgld_steps(n):
    """Even steps; and the paper's 1 / (100 + sqrt t), on the mean rather than the sum over rows."""
    sizes = {f"step {size:g} / n": _constant(size / n) for size in (1.0, 0.3, 3.0)}
    return {**sizes, "the paper's steps / n": {**_constant(0.01 / n, 0.5), "offset": 1e4}}


def problem(d):
    """Return logistic regression under N(0, I), intercept last; NumPy's side is our own kernel."""
    model = LogisticModel(NormalPrior(np.ones(d)), fit_intercept=True)

    def log_likelihood(theta, X, y):
        return model.log_likelihood(theta, Batch(X, 2.0 * y - 1.0, np.ones(len(y))))

    return Problem(
        d, log_likelihood, model.log_prior, model.sample_prior, _log_likelihood, _log_prior
    )


def _log_likelihood(theta, X, y):
    return jax.nn.log_sigmoid((2.0 * y - 1.0) * (X @ theta[:-1] + theta[-1])).sum()


def _log_prior(theta):
    return -0.5 * (theta @ theta + len(theta) * jnp.log(2.0 * jnp.pi))


def _started(method, target_problem, data, options, seed, max_cpu):
    return method(target_problem, data.X, data.y, seed=seed, max_cpu=max_cpu, **options)


def _from_prior(target_problem, data, n_chains, seed, max_cpu):
    options = {"n_steps": 20_000, "n_snapshots": 120, "n_chains": n_chains, "n_particles": DRAWS}
    return prior_nuts(target_problem, data.X, data.y, seed=seed, max_cpu=max_cpu, **options)
