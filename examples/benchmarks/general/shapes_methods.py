"""The methods of the study ``shapes``: ours and its peers, all by values of the density alone."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpmd import ParticleMirrorDescent

from ..harness.timing import cpu_clock

N_PARTICLES = 4000


class Answer(NamedTuple):
    """Weighted particles (m, d) with log evidence, CPU seconds and whether it warned.

    ``k_hat`` and ``ess``, a share of the particles, are ours, and so is ``method``: what the fit
    says that it did.
    """

    theta: np.ndarray
    weights: np.ndarray
    log_evidence: float
    cpu: float
    warned: bool
    k_hat: float = np.nan
    ess: float = np.nan
    method: str = ""


def pmd(shape, n_particles, seed):
    """`ParticleMirrorDescent` with its defaults but the number of particles."""
    functions = shape.problem.log_likelihood, shape.problem.log_prior, shape.problem.sample_prior
    model = ParticleMirrorDescent(*functions, n_particles=n_particles, random_state=seed)
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        model.fit(shape.X, shape.y)
    warned = any(issubclass(one.category, ConvergenceWarning) for one in caught)
    posterior, found = model.posterior_, model.diagnostics_
    return Answer(
        posterior.particles,
        posterior.weights,
        getattr(model, "log_evidence_", np.nan),
        clock.cpu,
        warned or bool(found["warnings"]),
        found["pareto_k"],
        posterior.ess / len(posterior.particles),
        found["method"],
    )


def peers():
    """{name: function of a shape, a seed and CPU seconds}: those whose packages are there.

    A function returns an `Answer`, or None where a run has not ended in ``max_cpu`` seconds. What
    has no end of its own takes ``budget``.
    """
    found = {}
    for name, make in (
        ("smc, blackjax", _blackjax),
        ("smc, particles", lambda: _particles(1)),
        ("smc, particles, x10", lambda: _particles(10)),
        ("emcee", _emcee),
    ):
        try:
            found[name] = make()
        except ImportError as error:
            print(f"Without {name}. {error}")
    return found


def _equal(theta, log_evidence, cpu, warned=False):
    return Answer(theta, np.full(len(theta), 1.0 / len(theta)), log_evidence, cpu, warned)


def _blackjax():
    """Adaptive tempered SMC, with random walks that have the particles' covariance."""
    from ..peers.random_walk_smc import tempered

    def answer(shape, seed, max_cpu, budget):
        found = tempered(
            shape.problem, shape.X, shape.y,
            n_particles=N_PARTICLES, seed=seed, max_cpu=max_cpu,
        )  # fmt: skip
        return found and _equal(*found)

    return answer


def _particles(times):
    """Waste-free tempered SMC with random walks, the package's defaults."""
    from ..peers.particles_smc import tempered

    def answer(shape, seed, max_cpu, budget):
        run = tempered(
            shape.problem, shape.X, shape.y,
            n_particles=times * N_PARTICLES, seed=seed, max_cpu=max_cpu,
        )  # fmt: skip
        with np.errstate(all="ignore"):
            last = next(run, None)
        if last is None:
            return None
        weights = np.exp(last.log_weights - last.log_weights.max())
        return Answer(last.particles, weights / weights.sum(), last.log_evidence, last.cpu, False)

    return answer


def _emcee():
    """The affine-invariant ensemble sampler, from draws of the prior, for its budget."""
    import emcee

    def answer(shape, seed, max_cpu, budget):
        problem = shape.problem

        def log_joint(theta):
            value = problem.log_prior(theta)
            inside = np.isfinite(value)
            value[inside] += problem.log_likelihood(theta[inside], shape.X, shape.y)
            return np.where(np.isnan(value), -np.inf, value)

        rng = np.random.default_rng(seed)
        n_walkers = max(64, 4 * problem.d)
        start = problem.sample_prior(rng, n_walkers)
        sampler = emcee.EnsembleSampler(n_walkers, problem.d, log_joint, vectorize=True)
        state, cpu = emcee.State(start, random_state=np.random.RandomState(seed).get_state()), 0.0
        while cpu < budget:
            with cpu_clock() as clock:
                state = sampler.run_mcmc(state, 100, skip_initial_state_check=cpu > 0.0)
            cpu += clock.cpu
        half = sampler.iteration // 2
        try:
            sampler.get_autocorr_time(discard=half, quiet=False)
            warned = False
        except emcee.autocorr.AutocorrError:
            warned = True
        return _equal(sampler.get_chain(discard=half, flat=True), np.nan, cpu, warned)

    return answer
