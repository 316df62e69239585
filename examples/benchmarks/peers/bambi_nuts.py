"""NUTS as Bambi runs it, under its own default priors: four chains in turn, by PyMC."""

import logging
import time
import warnings

import numpy as np
import pandas as pd

from .nuts import NutsRun

try:
    import bambi
except ImportError as error:
    raise ImportError("This needs Bambi: pip install bambi") from error

_FAMILIES = {
    "normal": "gaussian", "student_t": "t", "poisson": "poisson", "binomial": "binomial",
    "negative_binomial": "negativebinomial", "gamma": "gamma", "beta": "beta",
    "ordinal": "cumulative",
}  # fmt: skip


def bambi_nuts(data, seed, n_steps, n_warmup=1000, n_chains=4):
    """Return the `NutsRun` of `glm_sets.Rows` without weights; what is compiled does not count."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    names = [f"x{j}" for j in range(data.columns.shape[1])]
    frame = pd.DataFrame(data.columns, columns=names).assign(y=data.y)
    target, terms, family = "y", " + ".join(names), _FAMILIES[data.family]
    if data.family in ("poisson", "negative_binomial", "binomial", "ordinal"):
        frame["y"] = data.y.astype(int)
    if data.family == "ordinal":
        frame["y"] = pd.Categorical(frame["y"], ordered=True)
    if data.role == "exposure":
        frame["log_size"] = np.log(data.size)
        terms += " + offset(log_size)"
    if data.role == "trials":
        frame["trials"] = data.size.astype(int)
        target = "p(y, trials)"
    elif data.family == "binomial":
        family = "bernoulli"
    link = {"link": "log"} if data.family == "gamma" else {}
    model = bambi.Model(f"{target} ~ {terms}", frame, family=family, **link)
    seconds = []  # At the end of each step, and whether it was one of the warm-up.

    def mark(trace, draw):
        seconds.append((draw.tuning, time.process_time()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(
            draws=n_steps, tune=n_warmup, chains=n_chains, cores=1, random_seed=seed,
            progressbar=False, callback=mark,
        )  # fmt: skip
    is_warmup, at = np.array(seconds).T
    cost = np.diff(at)
    parts = [one.to_numpy().reshape(n_chains, n_steps, -1) for one in found.posterior.values()]
    draws = np.concatenate(parts, axis=-1)
    cpu = [float(cost[is_warmup[1:] == kind].sum()) for kind in (1.0, 0.0)]
    stats = found.sample_stats
    return NutsRun(draws, *cpu, int(stats["n_steps"].sum()), int(stats["diverging"].sum()))
