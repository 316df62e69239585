"""IBIS and tempered sequential Monte Carlo, by the package ``particles``.

Chopin (2002), "A sequential particle filter method for static models", Biometrika 89; tempering
with exponents found by bisection, and the variant that keeps all states of the moves, by Dau and
Chopin (2022), "Waste-free sequential Monte Carlo", JRSS B 84. Moves are random walk Metropolis
with the covariance of the particles, as they come in the package. The likelihood is the problem's
own function of all rows at once; the package's would add up one row after the other.
"""

import numpy as np

from .problem import Clock, Snapshot, batches, marks

try:
    import particles
    from particles import resampling, smc_samplers
except ImportError as error:
    raise ImportError(
        "This needs particles, which requires an older NumPy than it can use: "
        'pip install --no-deps "particles==0.4", beside skpmd[bench]'
    ) from error


def ibis(
    problem, X, y, *, n_particles, seed, batch_size, passes=1, max_cpu=np.inf, len_chain=10,
    waste_free=True, n_snapshots=6,
):  # fmt: skip
    """Yield snapshots of the posterior of the rows so far; see `problem`.

    A batch is one step: it reweights the particles, which move where their effective sample size
    falls below half, by Metropolis steps on all rows so far. ``len_chain`` less one is their
    number; ``waste_free`` keeps all states of ``n_particles / len_chain`` chains, otherwise the
    last ones of ``n_particles``. There is one pass of batches, whatever ``passes``.
    """
    model = _Model(problem, X, y, batch_size, np.random.default_rng(seed))
    sampler = smc_samplers.IBIS(model=model, wastefree=waste_free, len_chain=len_chain)
    shown = marks(1, model.T, n_snapshots)
    clock = Clock()
    for step, run in enumerate(_steps(sampler, n_particles, seed, clock), start=1):
        if step in shown:
            yield _snapshot(clock.cpu, model.rows, run)
            if clock.cpu > max_cpu:
                return


def tempered(
    problem, X, y, *, n_particles, seed, batch_size=None, passes=None, max_cpu=np.inf,
    len_chain=10, waste_free=True, ess_share=0.5,
):  # fmt: skip
    """Yield one snapshot, the posterior: what comes before are tempered ones; see `ibis`.

    Every step reads all rows, so ``batch_size`` and ``passes`` mean nothing here. Where ``max_cpu``
    ends it, there is no snapshot.
    """
    model = _Model(problem, X, y, len(X), np.random.default_rng(seed))
    sampler = smc_samplers.AdaptiveTempering(
        model=model, wastefree=waste_free, len_chain=len_chain, ESSrmin=ess_share
    )
    clock = Clock()
    for run in _steps(sampler, n_particles, seed, clock):
        if sampler.done(run):
            yield _snapshot(clock.cpu, model.rows, run)
        if clock.cpu > max_cpu:
            return


def _steps(sampler, n_particles, seed, clock):
    """Yield the run after each of its steps; the package draws from NumPy's global state.

    It cannot go on from particles that have collapsed, whose covariance is singular: they end it.
    """
    n_chains = n_particles // sampler.len_chain if sampler.wastefree else n_particles
    state = np.random.get_state()
    resampling.systematic(np.full(2, 0.5), M=2)  # compiles
    np.random.seed(seed)
    try:
        run = particles.SMC(fk=sampler, N=n_chains, collect="off")
        while not sampler.done(run):
            with clock:
                next(run)
            yield run
    except np.linalg.LinAlgError:
        return
    finally:
        np.random.set_state(state)


def _snapshot(cpu, rows, run):
    with np.errstate(divide="ignore"):  # a particle may be dead
        theta, log_weights = run.X.theta["theta"].copy(), np.log(run.W)
    return Snapshot(cpu, rows, theta, log_weights, log_evidence=float(run.logLt))


class _Prior:
    """A prior in the form of the package: records with one field."""

    def __init__(self, problem, rng):
        self.problem, self.rng = problem, rng
        self.dtype = [("theta", np.float64, (problem.d,))]

    def rvs(self, size):
        theta = np.empty(size, dtype=self.dtype)
        theta["theta"] = self.problem.sample_prior(self.rng, size)
        return theta

    def logpdf(self, theta):
        return self.problem.log_prior(theta["theta"])


class _Model(smc_samplers.StaticModel):
    """A problem whose observations are batches of rows; ``rows`` counts those read."""

    def __init__(self, problem, X, y, batch_size, rng):
        stream, count = batches(len(X), batch_size, rng), -(-len(X) // batch_size)
        chosen = [next(stream) for _ in range(count)]
        super().__init__(data=chosen, prior=_Prior(problem, rng))
        order = np.concatenate(chosen)
        self.X, self.y = X[order], None if y is None else y[order]
        self.ends = np.cumsum([len(rows) for rows in chosen])
        self.problem, self.rows = problem, 0

    def _between(self, theta, start, end):
        self.rows += int(end - start)
        y = None if self.y is None else self.y[start:end]
        return self.problem.log_likelihood(theta["theta"], self.X[start:end], y)

    def logpyt(self, theta, t):
        return self._between(theta, self.ends[t] - len(self.data[t]), self.ends[t])

    def loglik(self, theta, t=None):
        """Log-likelihood of all batches up to t; before the first (t = -1) there is none."""
        if t == -1:
            return np.zeros(len(theta))
        return self._between(theta, 0, self.ends[-1 if t is None else t])
