"""The model of the page "Add a model" on real counts, against NumPyro's NUTS.

    python -m tests.tools.negative_binomial_nuts --data DIR [--every 10] [--seeds 3]

DIR holds uci_bike.npz. Printed are the largest error of a posterior mean, in standard deviations of
the posterior, and the largest relative error of a standard deviation, for each seed. NumPyro is in
the extra ``bench``.
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import summary
from numpyro.infer import MCMC, NUTS

from tests.api.negative_binomial import NegativeBinomialPMD

CHAINS, WARM_UP, DRAWS = 4, 1000, 8000


def rentals(folder, every):
    """Hourly rentals of bicycles; temperature, wind, year, and the hour as a point on a circle."""
    with np.load(folder / "uci_bike.npz") as archive:
        X = archive["X"].astype(float)
    counts = sum(np.rint(X[:, j] - X[:, j].min()) for j in (15, 16))
    angle = 2.0 * np.pi * np.rint(X[:, 6] - X[:, 6].min()) / 24.0
    features = np.column_stack([X[:, [11, 13, 4]], np.cos(angle), np.sin(angle)])
    some = np.random.default_rng(0).permutation(len(counts))[::every]
    features, counts = features[some], counts[some]
    return (features - features.mean(axis=0)) / features.std(axis=0), counts


def nuts(X, y):
    """Draws of intercept, coefficients and log r, shape (chains, draws, d)."""

    def model():
        intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
        coef = numpyro.sample("coef", dist.Normal(0.0, 1.0).expand([X.shape[1]]))
        r = numpyro.sample("r", dist.Gamma(2.0, 0.5))
        mean = jax.numpy.exp(intercept + X @ coef)
        numpyro.sample("y", dist.NegativeBinomial2(mean, r), obs=y)

    numpyro.enable_x64()
    chains = MCMC(
        NUTS(model), num_warmup=WARM_UP, num_samples=DRAWS, num_chains=CHAINS,
        chain_method="sequential", progress_bar=False,
    )  # fmt: skip
    chains.run(jax.random.PRNGKey(0))
    found = chains.get_samples(group_by_chain=True)
    parts = [found["intercept"][..., None], found["coef"], np.log(found["r"])[..., None]]
    return np.concatenate(parts, axis=-1)


def main():
    """Print the errors."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--every", type=int, default=10, help="one row of so many")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    X, y = rentals(options.data, options.every)
    draws = nuts(X, y)
    least = min(float(one["n_eff"].min()) for one in summary({"theta": draws}).values())
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    print(f"{len(y)} rows, {X.shape[1] + 1} coefficients and log r; NUTS: ESS {least:.0f} or more")
    for seed in range(options.seeds):
        start = time.process_time()
        posterior = NegativeBinomialPMD(random_state=seed).fit(X, y).posterior_
        seconds = time.process_time() - start
        errors = np.abs(posterior.mean() - mean) / sd
        sd_errors = np.abs(posterior.std() / sd - 1.0)
        print(
            f"seed {seed}: means {errors.max():.3f} sd, sds {100 * sd_errors.max():.1f} %, "
            f"ESS {posterior.ess:.0f}, k-hat {posterior.pareto_k:.2f}, {seconds:.1f} CPU s"
        )


if __name__ == "__main__":
    main()
