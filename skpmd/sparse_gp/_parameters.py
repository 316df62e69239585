"""The parameters of an estimator, as the functions of this package receive them."""

from typing import Any, NamedTuple

from skpmd.engine.loop import Options


class GPParameters(NamedTuple):
    """Parameters of `SparseGPRegressorPMD`, which documents each of them under the same name.

    ``options``, the last, are those of the engine's loop.
    """

    kernel: Any
    alpha: Any
    optimizer: Any
    n_restarts_optimizer: int
    n_subset: int
    n_refine: int
    hyperprior: list | None
    normalize_y: bool
    n_inducing: int | str
    inducing_init: Any
    approximation: str
    n_neighbors: int | str
    reservoir_size: int
    jitter: float
    likelihood: str
    df: float
    n_particles: int
    weighting: str
    batch_size: int | str
    tol: float
    random_state: Any
    options: Options

    @property
    def student_df(self):
        """Degrees of freedom of Student noise; None for normal noise."""
        return self.df if self.likelihood == "student_t" else None
