"""Make what is kept in ``results/cache``: ``python -m MODULE --data DIR [NAME ...]``.

``NAME`` is the stem of a file there (default: all), in the folder ``linear`` for generalised linear
models. A reference that fits its data and has the effective sample size of `CATALOGUE`, or of
`glm_sets`, is left alone.
"""

import argparse
from pathlib import Path

import numpy as np

from ..harness import datasets, glm_sets
from ..harness.study import RESULTS
from .references import cached_reference, stem

# Data set, prior on the coefficients, transform of the coordinates, sampler, smallest ESS of any
# mean or squared deviation.
CATALOGUE = (
    *((name, "normal", None, "nuts", 30_000) for name in (*datasets.KEEL, "mnist86")),
    *(("keel_pima", prior, None, "nuts", 30_000) for prior in ("laplace", "student_t", "cauchy")),
    *(("keel_wdbc", prior, None, "nuts", 10_000) for prior in ("laplace", "student_t", "cauchy")),
    *((name, "horseshoe", None, "nuts", 10_000) for name in ("keel_pima", "keel_wdbc")),
    # The classes are separable: NUTS had 41 effective draws in 43 CPU seconds, far out among the
    # hard edges of a half-Cauchy tail.
    ("prostate50", "horseshoe", np.arcsinh, "gibbs", 10_000),
    ("adult", "normal", None, "nuts", 800),
    ("keel_optdigits", "normal", None, "nuts", 800),
    ("keel_splice", "normal", None, "nuts", 800),
)


def main(argv=None):
    """Make the references that are named and print a line on each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    options = parser.parse_args(argv)
    for name, prior, transform, sampler, min_ess in CATALOGUE:
        label = stem(name, prior, transform)
        if options.names and label not in options.names:
            continue
        kept = cached_reference(
            datasets.load(name, options.data),
            RESULTS / "cache",
            prior=prior,
            transform=transform,
            sampler=sampler,
            min_ess=min_ess,
        )
        _print(label, kept)
    for data in glm_sets.with_our_references(options.data):
        if not options.names or data.name in options.names:
            folder, min_ess = RESULTS / "cache" / "linear", glm_sets.MIN_ESS
            _print(data.name, cached_reference(data, folder, sampler="glm", min_ess=min_ess))


def _print(label, kept):
    print(
        f"{label}: d {len(kept.mean)}, {kept.n_draws:,} draws, {kept.n_divergent} divergent, "
        f"ESS {kept.ess.min():,.0f} and {kept.ess_second_moment.min():,.0f}, "
        f"R-hat {kept.r_hat.max():.4f}, {kept.sampling_cpu:.1f} CPU s",
        flush=True,
    )


if __name__ == "__main__":
    main()
