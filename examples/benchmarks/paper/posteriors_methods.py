"""The methods of the study ``posteriors``: ours and its peers on one reference posterior."""

import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..harness import datasets, worker
from ..harness.timing import cpu_clock
from ..peers import random_walk_smc, smoothed_weights
from ..peers.nuts import LAYOUTS, Nuts
from ..peers.problem import Clock
from ..peers.references import cached_reference
from ..peers.svi import svi
from ..peers.whitened import laplace_target, whitened
from . import reference_posteriors
from .reference_posteriors import N_PARTICLES

try:
    from ..peers.particles_smc import tempered
except ImportError as error:  # the one package that is not in the extra
    print(f"Without tempered SMC of particles. {error}")
    tempered = None
try:
    from ..peers.ensembles import stretch
except ImportError as error:
    print(f"Without affine-invariant ensembles. {error}")
    stretch = None

NUTS_STEPS, SVI_STEPS = 500, 4000
SMC_BUDGET = 10.0  # CPU seconds; a run that is not done by then has no answer
ENSEMBLE_TIMES = 10.0  # the ensemble runs for so many times our CPU seconds


def loaded(place):
    """The reference from where a dict says it is."""
    if place["kind"] == "generated":
        return next(reference_posteriors.generated())
    if place["kind"] == "posteriordb":
        return reference_posteriors.load(place["name"], Path(place["data"]))
    data = datasets.load(place["name"], Path(place["data"]))
    return reference_posteriors.logistic(data, cached_reference(data, Path(place["cache"])))


def answers(reference, place, seeds, few):
    """{method: answers, one a seed}: mean and sd of what is reported, CPU, k-hat, warned or not.

    Ours and NUTS have all ``seeds``, the others ``few`` of them. The CPU seconds of those that are
    given the mode have the seconds of the search for it.
    """
    with warnings.catch_warnings():  # compiles what there is to compile
        warnings.simplefilter("ignore")
        reference.estimator(0).set_params(n_particles=200).fit(reference.X, reference.y)
    found = {"pmd": [_pmd(reference, seed) for seed in seeds]}
    problem, X, y = reference.problem, reference.X, reference.y
    search = Clock()
    target = laplace_target(problem, X, y, search)
    sampler = Nuts(target, **LAYOUTS["8 at once"])
    found["nuts"] = [_nuts(reference, sampler, seed, search.cpu) for seed in seeds]
    found["laplace, psis"] = [_laplace(reference, target, seed, search.cpu) for seed in few]
    job = {"place": place, "seeds": list(few)}
    found["pathfinder, psis"] = worker.alone(pathfinders, job, PJRT_NPROC="8")
    found["smc, blackjax"] = [_blackjax(reference, seed) for seed in few]
    if tempered:
        found["smc, particles"] = [_particles(reference, seed) for seed in few]
    if stretch:
        budget = ENSEMBLE_TIMES * np.mean([answer[2] for answer in found["pmd"]])
        found["emcee"] = [_ensemble(reference, seed, budget) for seed in few]
    white = whitened(problem, target)
    found["svi"] = [_svi(reference, white, target, seed, search.cpu) for seed in few]
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


def _particles(reference, seed):
    run = tempered(
        reference.problem, reference.X, reference.y,
        n_particles=N_PARTICLES, seed=seed, max_cpu=SMC_BUDGET,
    )  # fmt: skip
    last = next(run, None)
    if last is None:
        return None
    weights = np.exp(last.log_weights - last.log_weights.max())
    mean, sd = _moments(reference.reported(last.particles), weights / weights.sum())
    return mean, sd, last.cpu, None, False


def _blackjax(reference, seed):
    found = random_walk_smc.tempered(
        reference.problem, reference.X, reference.y,
        n_particles=N_PARTICLES, seed=seed, max_cpu=SMC_BUDGET,
    )  # fmt: skip
    if found is None:
        return None
    theta, _, cpu = found
    return *_moments(reference.reported(theta)), cpu, None, False


def _ensemble(reference, seed, budget):
    theta, cpu, short = stretch(
        reference.problem, reference.X, reference.y, seed=seed, budget=budget
    )
    return *_moments(reference.reported(theta)), cpu, None, short


def _laplace(reference, target, seed, search):
    return _smoothed(
        reference, smoothed_weights.laplace(target, n_draws=N_PARTICLES, seed=seed), search
    )


def pathfinders(job):
    """Answers of Pathfinder, in a process of its own.

    It waits for itself for ever where XLA has as few threads as our machine has processors, and
    NUTS is slower where it has more.
    """
    reference, out = loaded(job["place"]), []
    for found in smoothed_weights.pathfinder(
        reference.problem, reference.X, reference.y, n_draws=N_PARTICLES, seeds=job["seeds"]
    ):
        answer = _smoothed(reference, found)
        if answer is not None:
            mean, sd, *rest = answer
            answer = [np.asarray(mean).tolist(), np.asarray(sd).tolist(), *rest]
        out.append(answer)
    return out


def _smoothed(reference, found, search=0.0):
    """What a peer with smoothed weights answers; it warns by its k-hat."""
    if found is None:
        return None
    theta, weights, k_hat, cpu = found
    mean, sd = _moments(reference.reported(theta), weights)
    return mean, sd, search + cpu, k_hat, bool(k_hat > 0.7)


def _nuts(reference, sampler, seed, search):
    with cpu_clock():
        found = sampler.run(seed + 1, NUTS_STEPS)
    mean, sd = _moments(reference.reported(found.flat))
    warned = found.n_divergent > 0 or found.r_hat().max() > 1.01
    return mean, sd, search + found.warmup_cpu + found.sampling_cpu, None, bool(warned)


def _svi(reference, white, target, seed, search):
    """The last of the answers, in the coordinates of the posterior."""
    *_, last = svi(
        white, reference.X, reference.y,
        n_particles=N_PARTICLES, seed=seed,
        batch_size=len(reference.X), passes=SVI_STEPS,
        learning_rate=0.05, n_draws=4,
    )  # fmt: skip
    theta = target.centre + last.particles @ target.scale.T
    mean, sd = _moments(reference.reported(theta))
    return mean, sd, search + last.cpu, None, False


def _moments(values, weights=None):
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
