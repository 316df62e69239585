"""Fits of `ParticleMirrorDescent` for the study ``honesty``."""

import numpy as np
from scipy import stats

from skpmd import ParticleMirrorDescent

from .honesty_case import Case, hearing, judged
from .honesty_laws import normal
from .honesty_shapes import NAMED, OTHERS, UNREACHABLE, rows

SEEDS, PARTS = 5, 4
QUICK = ("widths 1 and .05", "spike and slab", "Weibull")
SETTINGS = {"auto": {}, "300": {"n_particles": 300}, "prior": {"proposal": "prior"}}
# Posteriors with rows that may come in parts.
IN_PARTS = ("two means", "sinusoid", "change point", "Weibull", "phase")


def cases(quick):
    """Yield the `Case` of every fit."""
    seeds = range(1 if quick else SEEDS)
    for name, make in {**NAMED, **OTHERS, **UNREACHABLE}.items():
        if quick and name not in QUICK:
            continue
        shape = make()
        for setting, parameters in SETTINGS.items():
            # Shapes that were never silent are not repeated with fewer particles.
            if setting == "auto" or name in NAMED or (setting == "prior" and name in OTHERS):
                for seed in seeds:
                    place = ("custom", setting, name, setting != "prior", name in NAMED)
                    yield _fitted(place, shape, seed, parameters)
        for seed in seeds if name in IN_PARTS else ():
            yield _streamed(("custom", "stream", name, False, False), shape, seed)
    for name, pair in PRIORS.items():
        wrong = name in WRONG
        for seed in range(1 if quick else SEEDS):
            yield _of_prior(("custom", "prior check", name, True, wrong), pair, seed, wrong)


def _fitted(place, shape, seed, parameters):
    functions = shape.problem.log_likelihood, shape.problem.log_prior, shape.problem.sample_prior
    model = ParticleMirrorDescent(*functions, random_state=seed, **parameters)
    with hearing() as heard:
        model.fit(shape.X, shape.y)
    known = hasattr(model, "log_evidence_")
    evidence = (model.log_evidence_, model.posterior_.log_evidence_se) if known else ()
    return judged(place, seed, model.posterior_, shape.truth, heard.warned, *evidence)


def _streamed(place, shape, seed):
    """The last of four calls is judged, and the last warning counts."""
    functions = shape.problem.log_likelihood, shape.problem.log_prior, shape.problem.sample_prior
    model = ParticleMirrorDescent(*functions, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(shape.X))
    for part in np.array_split(order, PARTS):
        with hearing() as heard:
            model.partial_fit(shape.X[part], None if shape.y is None else shape.y[part])
    return judged(place, seed, model.posterior_, shape.truth, heard.warned)


def _of_prior(place, pair, seed, wrong):
    """A fit of a few observations under a prior that is given twice; it should warn if wrong."""
    log_prior, sample_prior = pair

    def log_likelihood(theta, X, y):
        return stats.norm.logpdf(y[:, None], theta[:, 0], 1.0).sum(axis=0)

    model = ParticleMirrorDescent(log_likelihood, log_prior, sample_prior, random_state=seed)
    with hearing() as heard:
        model.fit(rows(2), np.array([0.8, 1.4]))
    return Case(*place[:3], seed, *place[3:], wrong, not wrong, heard.warned, 2.0 * wrong)


def _scaled(d, sd, correlation=0.0):
    covariance = sd**2 * ((1.0 - correlation) * np.eye(d) + correlation)
    law, root = stats.multivariate_normal(np.zeros(d), covariance), np.linalg.cholesky(covariance)
    return (
        lambda theta: law.logpdf(theta).reshape(len(theta)),
        lambda rng, m: rng.standard_normal((m, d)) @ root.T,
    )


def _of(law):
    return (
        lambda theta: law.logpdf(theta[:, 0]),
        lambda rng, m: law.rvs((m, 1), random_state=rng),
    )


def _crossed(first, second):
    """The density of one and the draws of the other."""
    return first[0], second[1]


_ONE = normal(3, 1.0)
RIGHT = {
    "right: normal": (_ONE.log_density, _ONE.draw),
    "right: correlated": _scaled(4, 1.0, 0.9),
    "right: Cauchy": _of(stats.cauchy()),
    "right: gamma": _of(stats.gamma(0.7)),
    "right: many": _scaled(25, 2.0),
    "right: beta": _of(stats.beta(0.5, 2.0)),
}
WRONG = {
    "wrong: sd 1 for 1.5": _crossed(_scaled(2, 1.5), _scaled(2, 1.0)),
    "wrong: sd 1.5 for 1": _crossed(_scaled(2, 1.0), _scaled(2, 1.5)),
    "wrong: variance for sd": _crossed(_scaled(3, 4.0), _scaled(3, 2.0)),
    "wrong: rate for scale": _crossed(
        _of(stats.gamma(2.0, scale=2.0)), _of(stats.gamma(2.0, scale=0.5))
    ),
    "wrong: no correlation": _crossed(_scaled(4, 1.0, 0.8), _scaled(4, 1.0)),
    "wrong: correlation": _crossed(_scaled(4, 1.0), _scaled(4, 1.0, 0.8)),
    "wrong: shifted": (_ONE.log_density, lambda rng, m: 0.5 + _ONE.draw(rng, m)),
    "wrong: tails": _crossed(_of(stats.t(3.0)), _of(stats.norm())),
    "wrong: half": _crossed(_of(stats.halfcauchy()), _of(stats.halfnorm())),
    "wrong: no Jacobian": (
        lambda theta: stats.gamma.logpdf(np.exp(theta[:, 0]), 2.0),
        lambda rng, m: np.log(rng.gamma(2.0, size=(m, 1))),
    ),
    "wrong: constant": (lambda theta: _ONE.log_density(theta) + 1.08, _ONE.draw),
}  # fmt: skip
PRIORS = {**RIGHT, **WRONG}
