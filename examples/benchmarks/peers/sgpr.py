"""Sparse GP regression by the collapsed bound of Titsias (2009), in PyTorch, by the CPU clock.

As an expert would do it (Burt, Rasmussen and van der Wilk 2020): inducing inputs are rows chosen
greedily by their conditional variance and not moved by gradients, hyperparameters follow L-BFGS in
float64, and inducing inputs are chosen anew where those have moved. Few rows choose among the
kernels and give a start; then 500 inducing inputs, and then as many as are wanted, learn from all.
Columns and targets are taken to be standardised.
"""

import time
from operator import itemgetter

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from .svgp import KERNELS, libraries

NAMES = ("rbf", "matern32", "matern52")
FIRST_ROWS, FIRST_INDUCING, FIRST_EVALUATIONS = 2000, 200, 30
SOME_INDUCING, SOME_EVALUATIONS, SHARE = 500, 25, 0.4  # the latter of the budget
CANDIDATES = 10_000  # rows that inducing inputs are chosen from
JITTER, NOISE_FLOOR = 1e-6, 1e-6
CHUNK = 2048
MAX_HELD = 100_000_000  # covariances that gradients hold; those of more rows are made again


def train(X, y, *, n_inducing, cpu_budget, evaluate, seed=0):
    """Train, and evaluate after 500 inducing inputs and at the end.

    ``evaluate(predict)`` receives ``predict(X)``, which gives predictive means and variances of y.
    Returns a list of (CPU seconds, number of inducing inputs, kernel, what ``evaluate`` returned).
    """
    torch, _ = libraries()
    rng, start, records = np.random.default_rng(seed), time.process_time(), []
    with threadpool_limits(limits=1):
        some = rng.permutation(len(y))[:FIRST_ROWS]
        ends = []
        for name in NAMES:
            theta = np.log(np.append(np.full(X.shape[1], np.sqrt(X.shape[1])), [1.0, 0.1]))
            ends.append(_stage(X[some], y[some], name, theta, FIRST_INDUCING, FIRST_EVALUATIONS,
                               np.inf, rng)[:2] + (name,))  # fmt: skip
        _, theta, name = max(ends, key=itemgetter(0))
        stages = ((SOME_INDUCING, SOME_EVALUATIONS, SHARE), (n_inducing, 1000, 1.0))
        for M, evaluations, share in stages:
            end = start + share * cpu_budget
            _, theta, Z = _stage(X, y, name, theta, M, evaluations, end, rng)
            cpu = time.process_time() - start
            predict = _predictor(X, y, name, theta, Z)
            before = time.process_time()
            records.append((cpu, len(Z), name, evaluate(predict)))
            start += time.process_time() - before
            if time.process_time() - start > cpu_budget:
                break
    return records


class _Over(Exception):
    """The budget is spent."""


def _stage(X, y, name, theta, M, evaluations, end, rng):
    """The largest bound that L-BFGS has come to, where, and the inducing inputs."""
    torch, _ = libraries()
    Z = greedy(X, name, theta, M, rng)
    tensors = [torch.as_tensor(one) for one in (X, y, Z)]
    best = [(-np.inf, theta)]

    def objective(point):
        if time.process_time() > end and np.isfinite(best[0][0]):
            raise _Over
        parameter = torch.tensor(point, requires_grad=True)
        try:
            value = bound(name, parameter, *tensors) / len(y)
            value.backward()
        except torch.linalg.LinAlgError:
            return 1e10, np.zeros(len(point))
        if value.item() > best[0][0]:
            best[0] = value.item(), point.copy()
        return -value.item(), -parameter.grad.numpy()

    low = np.append(np.full(X.shape[1], np.log(1e-2)), [np.log(1e-3), np.log(NOISE_FLOOR)])
    limits = list(zip(low, np.append(np.full(X.shape[1] + 1, np.log(1e3)), 0.7), strict=True))
    try:
        minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=limits,
                 options={"maxfun": evaluations})  # fmt: skip
    except _Over:
        pass
    return best[0][0], best[0][1], Z


def kernel(name, theta, A, B):
    """Covariance of the rows of A and of B, of log length scales, log variance and log noise."""
    torch, _ = libraries()
    scale = torch.exp(theta[:-2])
    A, B = A / scale, B / scale
    squared = (A**2).sum(1)[:, None] + (B**2).sum(1)[None] - 2.0 * A @ B.T
    variance, nu = torch.exp(theta[-2]), KERNELS[name]
    if np.isinf(nu):
        return variance * torch.exp(-0.5 * squared)
    r = torch.sqrt(2.0 * nu * squared.clamp_min(1e-30))
    factor = {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r**2 / 3.0}[nu]
    return variance * factor * torch.exp(-r)


def bound(name, theta, X, y, Z):
    """The collapsed lower bound of the log marginal likelihood."""
    torch, _ = libraries()
    noise, variance, n = torch.exp(theta[-1]), torch.exp(theta[-2]), len(y)
    squares, B, _, c = _factors(name, theta, X, y, Z)
    value = -0.5 * n * torch.log(2.0 * np.pi * noise) - torch.log(torch.diagonal(B)).sum()
    value = value - 0.5 * ((y**2).sum() / noise - (c**2).sum())
    return value - 0.5 * (n * variance / noise - squares)


def _factors(name, theta, X, y, Z):
    torch, _ = libraries()
    from torch.utils.checkpoint import checkpoint

    root = torch.exp(0.5 * theta[-1])
    eye = torch.eye(len(Z), dtype=torch.float64)
    L = torch.linalg.cholesky(kernel(name, theta, Z, Z) + JITTER * torch.exp(theta[-2]) * eye)

    def part(theta, L, X, y):
        A = torch.linalg.solve_triangular(L, kernel(name, theta, Z, X), upper=False) / root
        return A @ A.T, A @ y, (A**2).sum()

    if len(X) * len(Z) <= MAX_HELD:
        products, targets, squares = part(theta, L, X, y)
    else:
        size = MAX_HELD // (4 * len(Z))
        parts = [
            checkpoint(part, theta, L, *some, use_reentrant=False)
            for some in zip(X.split(size), y.split(size), strict=True)
        ]
        products, targets, squares = (sum(some) for some in zip(*parts, strict=True))
    B = torch.linalg.cholesky(products + eye)
    c = torch.linalg.solve_triangular(B, targets[:, None] / root, upper=False)
    return squares, B, L, c


def _predictor(X, y, name, theta, Z):
    torch, _ = libraries()
    theta, X, y, Z = (torch.as_tensor(one) for one in (theta, X, y, Z))
    with torch.no_grad():
        _, B, L, c = _factors(name, theta, X, y, Z)

    def predict(rows):
        means, variances = [], []
        with torch.no_grad():
            for some in torch.as_tensor(rows).split(CHUNK):
                V = torch.linalg.solve_triangular(L, kernel(name, theta, Z, some), upper=False)
                W = torch.linalg.solve_triangular(B, V, upper=False)
                means.append((W.T @ c)[:, 0])
                left = torch.exp(theta[-2]) - (V**2).sum(0) + (W**2).sum(0)
                variances.append(left + torch.exp(theta[-1]))
        return torch.cat(means).numpy(), torch.cat(variances).numpy()

    return predict


def greedy(X, name, theta, M, rng):
    """Rows of the largest conditional variance given those before: a pivoted Cholesky factor."""
    torch, _ = libraries()
    rows = X[rng.permutation(len(X))[:CANDIDATES]]
    M = min(M, len(rows))
    points, theta = torch.as_tensor(rows), torch.as_tensor(theta)
    left, factor, chosen = np.full(len(rows), np.exp(float(theta[-2]))), [], []
    factor = np.empty((M, len(rows)))
    for i in range(M):
        pivot = int(left.argmax())
        if left[pivot] < 1e-10:
            break
        column = kernel(name, theta, points[pivot : pivot + 1], points).numpy()[0]
        column = column - factor[:i, pivot] @ factor[:i]
        factor[i] = column / np.sqrt(left[pivot])
        left = np.maximum(left - factor[i] ** 2, 0.0)
        left[pivot] = 0.0
        chosen.append(pivot)
    return rows[chosen]
