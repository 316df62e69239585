"""The parameters of an estimator, as the functions of this package receive them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skpmd.engine.loop import Options


class GPParameters(NamedTuple):
    """Parameters of `SparseGPRegressorPMD`, which documents each of them under the same name.

    ``options`` are those of the engine's loop.
    """

    kernel: Kernel | None
    alpha: float | np.ndarray
    optimizer: str | Callable | None
    n_restarts_optimizer: int
    n_subset: int
    n_refine: int
    hyperprior: list | None
    normalize_y: bool
    n_inducing: int | str
    inducing_init: str | np.ndarray
    approximation: str
    jitter: float
    likelihood: str
    df: float
    n_particles: int
    weighting: str
    batch_size: int | str
    tol: float
    n_jobs: int | None
    random_state: object
    verbose: int
    options: Options

    @property
    def student_df(self):
        """Degrees of freedom of Student noise; None for normal noise."""
        return self.df if self.likelihood == "student_t" else None
