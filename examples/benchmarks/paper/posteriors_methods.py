"""The methods of the study ``posteriors``: ours and its peers on one reference posterior."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..harness.timing import cpu_clock
from ..peers.nuts import LAYOUTS, Nuts
from ..peers.svi import svi
from ..peers.whitened import laplace_target, whitened
from .reference_posteriors import N_PARTICLES

try:
    from ..peers.particles_smc import tempered
except ImportError as error:  # the one package that is not in the extra
    print(f"Without tempered SMC. {error}")
    tempered = None

NUTS_STEPS, SVI_STEPS = 500, 4000
SMC_BUDGET = 30.0  # CPU seconds; a run that is not done by then has no answer


def answers(reference, seeds):
    """{method: answers, one a seed}: mean and sd of what is reported, CPU, k-hat, warned or not."""
    with warnings.catch_warnings():  # compiles what there is to compile
        warnings.simplefilter("ignore")
        reference.estimator(0).set_params(n_particles=200).fit(reference.X, reference.y)
    found = {"pmd": [_pmd(reference, seed) for seed in seeds]}
    for name, times in (("smc", 1), ("smc, x10", 10)) if tempered else ():
        found[name] = [_smc(reference, seed, times) for seed in seeds]
    target = laplace_target(reference.problem, reference.X, reference.y)
    sampler = Nuts(target, **LAYOUTS["8 at once"])
    found["nuts"] = [_nuts(reference, sampler, seed) for seed in seeds]
    white = whitened(reference.problem, target)
    found["svi"] = [_svi(reference, white, target, seed) for seed in seeds]
    return found


def _pmd(reference, seed):
    """Our own: moments of what is reported, CPU seconds, k-hat, whether it warned."""
    model = reference.estimator(seed)
    with warnings.catch_warnings(record=True) as caught, cpu_clock() as clock:
        warnings.simplefilter("always")
        model.fit(reference.X, reference.y)
    warned = any(issubclass(one.category, ConvergenceWarning) for one in caught)
    posterior = model.posterior_
    mean, sd = _moments(reference.reported(posterior.particles), posterior.weights)
    return mean, sd, clock.cpu, model.diagnostics_["pareto_k"], warned


def _smc(reference, seed, times):
    run = tempered(
        reference.problem, reference.X, reference.y,
        n_particles=times * N_PARTICLES, seed=seed, max_cpu=SMC_BUDGET,
    )  # fmt: skip
    last = next(run, None)
    if last is None:
        return None
    weights = np.exp(last.log_weights - last.log_weights.max())
    mean, sd = _moments(reference.reported(last.particles), weights / weights.sum())
    return mean, sd, last.cpu, None, False


def _nuts(reference, sampler, seed):
    with cpu_clock():
        found = sampler.run(seed + 1, NUTS_STEPS)
    mean, sd = _moments(reference.reported(found.flat))
    warned = found.n_divergent > 0 or found.r_hat().max() > 1.01
    return mean, sd, found.warmup_cpu + found.sampling_cpu, None, bool(warned)


def _svi(reference, white, target, seed):
    """The last of the answers, in the coordinates of the posterior."""
    *_, last = svi(
        white, reference.X, reference.y,
        n_particles=N_PARTICLES, seed=seed,
        batch_size=len(reference.X), passes=SVI_STEPS,
        learning_rate=0.05, n_draws=4,
    )  # fmt: skip
    theta = target.centre + last.particles @ target.scale.T
    mean, sd = _moments(reference.reported(theta))
    return mean, sd, last.cpu, None, False


def _moments(values, weights=None):
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
