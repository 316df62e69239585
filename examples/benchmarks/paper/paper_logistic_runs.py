"""What `paper_logistic` runs beside the general peers, as generators of snapshots.

Rows count each time that a value or a gradient of them is computed, once for all particles that
share them.
"""

import warnings
from contextlib import contextmanager
from unittest import mock

import numpy as np
from sklearn.linear_model import LogisticRegression

from skpmd._base.steps import ReportedBatches
from skpmd._runtime.threads import n_rows
from skpmd.engine.model import Batch
from skpmd.linear._bernoulli import LogisticModel

from ..harness.comparison import estimator
from ..peers.laplace import laplace
from ..peers.nuts import Nuts
from ..peers.polya_gamma import normal_chains
from ..peers.problem import Clock, Snapshot, gaussian_particles, marks
from ..peers.targets import target
from ..peers.whitened import corrected, whitened

PASSES = 5  # of the stochastic methods in the paper
WARM_UP = 50  # steps of NUTS where the posterior is whitened
BLOCK = 20  # steps of a Markov chain between looks at the clock
MAX_DRAWS = 20_000  # handed out of longer chains


def fit(data, params, seed, max_cpu):
    """Yield our answer, once; a fit of its own counts the rows."""
    clock, model = Clock(), estimator(seed, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with clock:
            model.fit(data.X, data.y)
        with _counted_rows() as count:
            estimator(seed, **params).fit(data.X, data.y)
    yield _ours(clock.cpu, sum(count), model)


def stream(data, params, batch_size, seed, max_cpu):
    """Yield the posterior of `partial_fit` during its passes."""
    rng, clock, model = np.random.default_rng(seed), Clock(), estimator(seed, **params)
    n_batches = len(data.y) // batch_size
    shown, rows = marks(1, PASSES * n_batches, 12), 0
    for step in range(PASSES * n_batches):
        if step % n_batches == 0:
            parts = np.array_split(rng.permutation(len(data.y)), n_batches)
        part = parts[step % n_batches]
        X, y = data.X[part], data.y[part]
        with warnings.catch_warnings(), clock:
            warnings.simplefilter("ignore")
            model.partial_fit(X, y, classes=[0, 1])
        rows += len(part)
        if step + 1 in shown:
            yield _ours(clock.cpu, rows, model)


def _ours(cpu, rows, model):
    posterior = model.posterior_
    with np.errstate(divide="ignore"):  # weights that underflow
        log_weights = np.log(posterior.weights)
    return Snapshot(cpu, rows, posterior.particles, log_weights)


@contextmanager
def _counted_rows():
    """Collect the lengths of all batches that the model computes something of."""
    lengths = []

    def counting(method):
        def counted(self, *args, **kwargs):
            (batches,) = (part for part in args if isinstance(part, list | tuple | ReportedBatches))
            batches = [batches] if isinstance(batches, Batch) else batches
            lengths.append(n_rows(batches))
            return method(self, *args, **kwargs)

        return counted

    names = ("log_likelihood", "log_joint_gradient", "gaussian_target", "skew_axes")
    own = {name: counting(getattr(LogisticModel, name)) for name in names}
    with mock.patch.multiple(LogisticModel, **own):
        yield lengths


def laplace_of_sklearn(data, n_particles, seed, max_cpu):
    """Yield scikit-learn's mode with the inverse Hessian there."""
    mode, factor, cpu, rows = _laplace_of_sklearn(data)
    particles = gaussian_particles(mode, factor, n_particles, np.random.default_rng(seed))
    yield Snapshot(cpu, rows, particles, np.zeros(n_particles))


def from_laplace(method, problem, data, options, seed, max_cpu):
    """Yield the snapshots of a method that begins with scikit-learn's mode and Hessian there."""
    mode, factor, cpu, rows = _laplace_of_sklearn(data)
    options = {**options, "mode": mode, "factor": factor, "seed": seed, "max_cpu": max_cpu}
    for found in method(problem, data.X, data.y, **options):
        yield found._replace(cpu=found.cpu + cpu, rows=found.rows + rows)


def _laplace_of_sklearn(data):
    """Mode, root of the inverse Hessian, CPU seconds and rows read."""
    clock = Clock()
    with clock:
        design = np.column_stack([data.X, np.ones(len(data.y))])
        found = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-6, max_iter=1000)
        mode = found.fit(design, data.y).coef_[0]
        probability = found.predict_proba(design)[:, 1]
        curvature = probability * (1.0 - probability)
        hessian = np.eye(len(mode)) + (design.T * curvature) @ design
        factor = np.linalg.cholesky(np.linalg.inv(hessian))
    return mode, factor, clock.cpu, (int(found.n_iter_[0]) + 1) * len(data.y)


def gibbs(data, from_mode, seed, max_cpu):
    """Yield the later half of a chain's draws, whenever the chain has grown by a third.

    It starts from a draw of the prior, or from scikit-learn's mode, whose seconds count.
    """
    kept, cpu, read, shown, start = [], 0.0, 0, 1, None
    if from_mode:
        start, _, cpu, read = _laplace_of_sklearn(data)
    for drawn, seconds in normal_chains(data, BLOCK, seed, start=start):
        kept.append(drawn[0])
        cpu += seconds
        if len(kept) == shown:
            yield _later(cpu, read + len(kept) * BLOCK * len(data.y), kept, 0.5)
            shown = max(shown + 1, shown * 4 // 3)
        if cpu > max_cpu:
            return


def _later(cpu, rows, blocks, share):
    """A snapshot of the last ``share`` of a chain's draws, thinned where there are many."""
    draws = np.concatenate(blocks)
    draws = draws[len(draws) - int(share * len(draws)) :]
    draws = draws[:: -(-len(draws) // MAX_DRAWS)]
    return Snapshot(cpu, rows, draws, np.zeros(len(draws)))


class Whitened:
    """Samplers that move in z, theta = mode + L z: the Laplace approximation is N(0, I) there.

    What it takes to find that is in their seconds and rows.
    """

    def __init__(self, data, problem):
        self.data, self.target, clock = data, target(data), Clock()
        with clock:
            found = laplace(data.X, data.y)
        self.cpu, self.rows = clock.cpu, (found.n_iter + 1) * len(data.y)
        self.problem, self.corrected = (
            make(problem, self.target) for make in (whitened, corrected)
        )
        self._samplers = {}

    def of(self, method, options, seed, max_cpu):
        """Yield the snapshots of a peer that takes any problem, in coordinates theta."""
        is_bridge = method.__name__ in ("tempered", "annealed")  # from the approximation onwards
        problem = self.corrected if is_bridge else self.problem
        for found in method(
            problem, self.data.X, self.data.y, seed=seed, max_cpu=max_cpu, **options
        ):
            theta = self.target.centre + found.particles @ self.target.scale.T
            cpu, rows = found.cpu + self.cpu, found.rows + self.rows
            yield found._replace(cpu=cpu, rows=rows, particles=theta)

    def nuts(self, n_chains, seed, max_cpu):
        """Yield all draws after the warm-up, whose trajectories count as long as the others."""
        if n_chains not in self._samplers:
            sampler = Nuts(self.target, n_chains=n_chains, n_warmup=WARM_UP)
            sampler.run(0, BLOCK)  # compiles
            self._samplers[n_chains] = sampler
        sampler = self._samplers[n_chains]
        states, cpu = sampler.warm(seed)
        cpu, leaps, kept, shown = cpu + self.cpu, 0, [], 1
        while cpu <= max_cpu:
            states, moved = sampler.sample(states, BLOCK)
            cpu, leaps = cpu + moved.sampling_cpu, leaps + moved.n_leapfrog
            kept.append(moved.flat)
            if len(kept) == shown:
                warm_up = leaps * WARM_UP / (BLOCK * len(kept))
                rows = self.rows + round(leaps + warm_up) * len(self.data.y)
                yield _later(cpu, rows, kept, 1.0)
                shown = max(shown + 1, shown * 4 // 3)
