"""Import skpmd and fit in this very process; print times and compilations as JSON.

Started by the ``speed`` study with ``NUMBA_CACHE_DIR`` set.
"""

import json
import sys
import time
import warnings


def kernels():
    """Every Numba dispatcher in the loaded skpmd modules, once."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name == "skpmd" or name.startswith("skpmd."):
            for value in vars(module).values():
                if hasattr(value, "stats") and hasattr(value, "py_func"):
                    found[id(value)] = value
    return list(found.values())


def compilations():
    """Cache misses of all kernels so far: each one is a compilation."""
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels())


def other_fits(X, y):
    """Fits whose kernels the default fit need not touch."""
    import numpy as np

    from skpmd import BayesianLogisticRegressionPMD, ParticleMirrorDescent

    BayesianLogisticRegressionPMD(proposal="prior", random_state=0).fit(X[:, :3], y)
    ParticleMirrorDescent(
        lambda theta, X, y: -0.5 * ((X[None, :, 0] - theta) ** 2).sum(axis=1),
        lambda theta: -0.5 * theta[:, 0] ** 2 - 0.5 * np.log(2.0 * np.pi),
        lambda rng, m: rng.standard_normal((m, 1)),
        random_state=0,
    ).fit(X[:50])


def main():
    """Fit breast cancer, standardised, with defaults; then the other fits."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import scale

    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    warnings.simplefilter("ignore")
    wall, cpu = time.perf_counter(), time.process_time()
    from skpmd import BayesianLogisticRegressionPMD

    BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    in_default_fit = compilations()
    other_fits(X, y)
    answer = {
        "fit_wall_s": wall,
        "fit_cpu_s": cpu,
        "compilations_default_fit": in_default_fit,
        "compilations": compilations(),
        "kernels": len(kernels()),
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
