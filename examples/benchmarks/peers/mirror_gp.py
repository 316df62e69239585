"""The paper's own steps for a sparse Gaussian process with a fixed kernel.

Dai et al. (2016), appendices F.1 and H.3: q(u) is normal, and a mirror step with
gamma_t = eta / (n0 + sqrt(t)) leaves 1 - gamma_t of its natural parameters and adds gamma_t of
those of a batch that stands for all rows. (`SparseGPRegressorPMD` adds each row once in place of
that.) With the kernel fixed all particles of the paper would be one and the same.

What a batch adds is the same for all steps, and is divided by the noise's variance; so a grid of
both costs one reading of the rows. The clock of a setting counts that reading for each.
"""

import numpy as np

from skpmd._rows.rows import Rows
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._model import SparseGP

from .gp_one_pass_smc import Particle, Particles
from .problem import Clock

JITTER = 1e-8


def mirror_gp(
    X, y, kernel, *, n_inducing, steps, noises, batch_size, passes, seed, checkpoints=()
):  # fmt: skip
    """Yield (CPU seconds, rows, (eta, n0, noise), `Particles` of one particle).

    Parameters
    ----------
    X, y : arrays (n, p) and (n,)
        The training part, standardised.
    kernel : sklearn.gaussian_process.kernels.Kernel
        All fixed but the level of its `WhiteKernel`.
    n_inducing : int
        Inducing inputs, rows at random.
    steps : sequence of (eta, n0)
        Of gamma_t, which is at most 1.
    noises : sequence of float
        Variances of the noise.
    batch_size, passes, seed : int
        Batches are drawn anew in each pass.
    checkpoints : sequence of int
        Rows after which to yield; the end is one of them in any case.
    """
    rng, reading, n_read, t = np.random.default_rng(seed), Clock(), 0, 0
    moving = [Clock() for _ in steps]
    waiting = sorted({*checkpoints, passes * len(y)})
    with reading:
        inducing = X[np.sort(rng.choice(len(X), n_inducing, replace=False))]
        model = SparseGP(KernelCovariance(kernel), None, inducing, "dtc", JITTER)
        blocks = [model.prior_block(np.zeros((1, 1))) for _ in steps]
        rows = Rows(X, y[:, None], None, batch_size, noise=np.zeros(len(y)))
    for batch in (one for _ in range(passes) for one in rows.one_pass("epoch", rng)):
        with reading:  # at a noise of 1
            added = model.statistics(np.zeros((1, 1)), None, batch)
            added *= len(y) / len(batch.y)
            n_read, t = n_read + len(batch.y), t + 1
        for block, clock, (eta, n0) in zip(blocks, moving, steps, strict=True):
            with clock:
                gamma = min(1.0, eta / (n0 + np.sqrt(t)))
                block *= 1.0 - gamma
                block += gamma * added
        if n_read >= waiting[0]:
            waiting = [one for one in waiting if one > n_read]
            for block, clock, step in zip(blocks, moving, steps, strict=True):
                for noise in noises:
                    particle = Particle(model, np.log([noise]), block / noise)
                    yield (
                        reading.cpu + clock.cpu,
                        n_read,
                        (*step, noise),
                        Particles([particle], np.zeros(1)),
                    )
