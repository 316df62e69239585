"""GPyTorch's stochastic variational GP regression (SVGP), on one thread, by the CPU clock.

The model is that of Hensman, Fusi and Lawrence (2013) as GPyTorch's users write it: a scaled
kernel with a length scale for each column, Gaussian noise, a whitened Gaussian of full covariance
over the function at M inducing points, and the points learned with all the rest. Columns and
targets are taken to be standardised; the start is then a fair one for all data: length scales
sqrt(p), variance 1, and a noise variance that `grid` can vary.
"""

import functools
import itertools
import math
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

KERNELS = {"rbf": math.inf, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
NATURAL_RATE = 0.1  # step of the natural gradient, the value of GPyTorch's own tutorial
NOISE_FLOOR = 1e-6  # least variance of the noise
CHUNK = 2048  # rows that are predicted at once
KMEANS_ROWS = 10_000


@dataclass(frozen=True)
class Failed:
    """What a run that broke down has in place of its last result."""

    reason: str


class _NotFinite(ArithmeticError):
    """Parameters have run off."""


def grid(*, kernel=("rbf", "matern32"), learning_rate=(0.01, 0.05), **others):
    """Yield the keywords of `train` for every combination of the values given, in order.

    ``others`` are more of its keywords, each with a sequence of values.
    """
    values = {"kernel": kernel, "learning_rate": learning_rate, **others}
    for chosen in itertools.product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


def train(
    X, y, *, n_inducing, evaluate, cpu_budget, optimizer="adam", learning_rate=0.01,
    batch_size=512, kernel="rbf", max_epochs=math.inf, checkpoints=(), seed=0, mean="constant",
    inducing="kmeans", noise=0.1, dtype="float32", decay=False,
):  # fmt: skip
    """Train one SVGP and evaluate it along the way.

    Parameters
    ----------
    X, y : arrays (n, p) and (n,)
        The training part, standardised.
    n_inducing : int
        Number of inducing points, at most n.
    evaluate : callable
        ``evaluate(predict)``, where ``predict(X)`` gives the predictive means and variances of y.
    cpu_budget : float
        CPU seconds after which training stops. They count k-means and every step, but neither
        the evaluations nor what PyTorch does on its first call.
    optimizer : "adam" or "natural"
        Adam for all parameters, or natural gradients for the variational ones and Adam for the
        rest.
    learning_rate : float
        Adam's.
    batch_size : int
        Each epoch is cut into equal batches of at most so many rows.
    kernel : a name of `KERNELS`
        The Matern family, with the squared exponential as its limit.
    max_epochs : float
        Number of epochs after which training stops.
    checkpoints : sequence of float
        CPU seconds at which to evaluate.
    seed : int
        Of k-means, of the batches and of the variational mean at the start.
    mean : "constant" or "zero"
        Prior mean; the constant is learned.
    inducing : "kmeans" or "random"
        Where the inducing points start: at centres, or at rows.
    noise : float
        Noise variance at the start; it is learned.
    dtype : "float32" or "float64"
        What the model is computed in.
    decay : bool
        Whether Adam's rate falls linearly over the budget, to a fiftieth.

    Returns
    -------
    list of (cpu_seconds, epoch, result)
        One entry for each checkpoint that was reached and one for the last state; the result is
        what ``evaluate`` returned. If a matrix was not positive definite, or the loss or a
        prediction not finite, training ends and the last result is a `Failed`.
    """
    torch, _ = libraries()
    model = {
        "kernel": kernel, "optimizer": optimizer, "mean": mean, "noise": noise, "dtype": dtype
    }  # fmt: skip
    _warm(**model)
    waiting, records = sorted(checkpoints), []
    # Only the mean at the start draws from PyTorch's own generator.
    with threadpool_limits(limits=1), _numerical_warnings_off(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        clock, epoch = _Clock(), 0.0

        def record(cpu, epoch):
            with clock.stopped():
                records.append((cpu, epoch, evaluate(svgp.predict)))

        try:
            svgp = _Svgp(
                X, y, _starts(X, n_inducing, inducing, seed), learning_rate=learning_rate, **model
            )
            cpu = clock.read()
            for epoch, rows in _batches(len(y), batch_size, max_epochs, seed):
                if decay:
                    svgp.slow_down(max(1.0 - cpu / cpu_budget, 0.02))
                svgp.step(rows)
                cpu = clock.read()
                if cpu > cpu_budget:
                    break
                if waiting and cpu >= waiting[0]:
                    waiting = [checkpoint for checkpoint in waiting if checkpoint > cpu]
                    record(cpu, epoch)
            if not records or records[-1][1] < epoch:
                record(cpu, epoch)
        except _breakdowns() as error:
            records.append((clock.read(), epoch, Failed(f"{type(error).__name__}: {error}")))
    return records


class _Svgp:
    """Model, likelihood, loss and optimisers."""

    def __init__(self, X, y, starts, *, kernel, optimizer, learning_rate, mean, noise, dtype):
        torch, gpytorch = libraries()
        self._dtype = getattr(torch, dtype)
        self._X, self._y = self._tensor(X), self._tensor(y)
        natural = {"adam": False, "natural": True}[optimizer]
        self._model = _model(self._tensor(starts), kernel, mean, natural).to(self._dtype)
        floor = gpytorch.constraints.GreaterThan(NOISE_FLOOR)
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor)
        self._likelihood = likelihood.to(self._dtype)
        self._likelihood.noise = noise
        self._elbo = gpytorch.mlls.VariationalELBO(self._likelihood, self._model, len(y))
        variational = list(self._model.variational_parameters())
        others = [*self._model.hyperparameters(), *self._likelihood.parameters()]
        self._rate = learning_rate
        self._optimizers = [
            torch.optim.Adam(others if natural else others + variational, lr=learning_rate)
        ]
        if natural:
            self._optimizers.append(
                gpytorch.optim.NGD(variational, num_data=len(y), lr=NATURAL_RATE)
            )
        self._model.train()
        self._likelihood.train()

    def _tensor(self, array):
        torch, _ = libraries()
        return torch.as_tensor(np.asarray(array), dtype=self._dtype)

    def step(self, rows):
        """Move all parameters by the gradient on a batch."""
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        loss = -self._elbo(self._model(self._X[rows]), self._y[rows])
        if not math.isfinite(loss.item()):
            raise _NotFinite("the loss is not finite")
        loss.backward()
        for optimizer in self._optimizers:
            optimizer.step()

    def slow_down(self, share):
        """Let Adam's rate be a share of what it was."""
        for group in self._optimizers[0].param_groups:
            group["lr"] = share * self._rate

    def predict(self, X):
        """Predictive means and variances of y, in float64."""
        torch, _ = libraries()
        self._model.eval()
        self._likelihood.eval()
        means, variances = [], []
        with torch.no_grad():
            for rows in self._tensor(X).split(CHUNK):
                predictive = self._likelihood(self._model(rows))
                means.append(predictive.mean)
                variances.append(predictive.variance)
        self._model.train()
        self._likelihood.train()
        mean, variance = torch.cat(means).double(), torch.cat(variances).double()
        if not (mean.isfinite().all() and variance.isfinite().all()):
            raise _NotFinite("a prediction is not finite")
        return mean.numpy(), variance.numpy()


def _model(starts, kernel, mean, natural):
    """The GP: prior mean, kernel and what is learned at the inducing points."""
    _, gpytorch = libraries()
    from gpytorch import variational

    n_inducing, n_columns = starts.shape
    family = (
        variational.NaturalVariationalDistribution
        if natural
        else variational.CholeskyVariationalDistribution
    )
    means = {"constant": gpytorch.means.ConstantMean, "zero": gpytorch.means.ZeroMean}
    nu = KERNELS[kernel]
    shape = (
        gpytorch.kernels.RBFKernel(ard_num_dims=n_columns)
        if math.isinf(nu)
        else gpytorch.kernels.MaternKernel(nu=nu, ard_num_dims=n_columns)
    )

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            super().__init__(
                variational.VariationalStrategy(
                    self, starts, family(n_inducing), learn_inducing_locations=True
                )
            )
            self.mean_module = means[mean]()
            self.covar_module = gpytorch.kernels.ScaleKernel(shape)
            self.covar_module.outputscale = 1.0
            self.covar_module.base_kernel.lengthscale = math.sqrt(n_columns)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    return Model()


def _starts(X, n_inducing, inducing, seed):
    """Inducing points to start from: random rows, or the centres that k-means moves them to.

    k-means reads at most max(10,000, M) rows: it costs little beside the training.
    """
    order = np.random.default_rng(seed).permutation(len(X))
    rows = np.asarray(X)[order[:n_inducing]]
    if inducing == "random":
        return rows
    if inducing != "kmeans":
        raise ValueError(f"inducing must be 'kmeans' or 'random', got {inducing!r}.")
    some = np.asarray(X)[order[: max(KMEANS_ROWS, n_inducing)]]
    return KMeans(n_inducing, init=rows, n_init=1, max_iter=20).fit(some).cluster_centers_


def _batches(n, batch_size, max_epochs, seed):
    """Yield, for each step, the epochs gone after it and its rows."""
    torch, _ = libraries()
    generator = torch.Generator().manual_seed(seed)
    n_batches = math.ceil(n / batch_size)
    for step in itertools.count():
        if step / n_batches >= max_epochs:
            return
        if step % n_batches == 0:
            batches = torch.randperm(n, generator=generator).tensor_split(n_batches)
        yield (step + 1) / n_batches, batches[step % n_batches]


class _Clock:
    """CPU seconds of this process since it was made, less those while it was stopped."""

    def __init__(self):
        self._start = time.process_time()

    def read(self):
        return time.process_time() - self._start

    @contextmanager
    def stopped(self):
        before = time.process_time()
        try:
            yield
        finally:
            self._start += time.process_time() - before


@functools.cache
def _warm(**model):
    """Take two steps on few rows, so that what PyTorch sets up once is outside of any clock."""
    random = np.random.default_rng(0)
    X = random.standard_normal((64, 2))
    svgp = _Svgp(X, X[:, 0], X[:8], learning_rate=0.01, **model)
    for _, rows in _batches(64, 32, 1, 0):
        svgp.step(rows)
    svgp.predict(X)


def _breakdowns():
    """What the linear algebra raises where a matrix is not positive definite or not finite."""
    torch, _ = libraries()
    from linear_operator.utils.errors import NanError, NotPSDError

    return NanError, NotPSDError, torch.linalg.LinAlgError, _NotFinite


@contextmanager
def _numerical_warnings_off():
    """GPyTorch warns whenever it adds jitter to a diagonal."""
    from linear_operator.utils.warnings import NumericalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        yield


@functools.cache
def libraries():
    """PyTorch, on one thread, and GPyTorch; the studies that need neither import neither."""
    try:
        import gpytorch
        import torch
    except ImportError as error:
        raise ImportError("This needs GPyTorch and PyTorch: pip install gpytorch torch") from error
    torch.set_num_threads(1)
    return torch, gpytorch
