"""GPyTorch's stochastic variational GP classification, on one thread, by the CPU clock.

An RBF kernel with a length scale for each column and a constant mean, learned; inducing points
start at rows and are learned; float64, all rows in a batch up to 1000. Two classes have the probit
likelihood, more the softmax of a process for each class, with one kernel. Columns are taken to be
standardised.
"""

import math
import time

import numpy as np
from threadpoolctl import threadpool_limits

from .svgp import libraries

SAMPLES = 256  # of the softmax, for predictions
BATCH = 1000


def train(X, codes, n_classes, *, n_inducing, learning_rate, cpu_budget, seed=0):
    """Train until the budget is spent; return ``proba(X)`` of shape (n, K) and the CPU seconds."""
    torch, gpytorch = libraries()
    with threadpool_limits(limits=1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        start = time.process_time()
        rows = torch.as_tensor(X, dtype=torch.float64)
        Z = rows[torch.randperm(len(rows))[:n_inducing]]
        model, likelihood = _model(Z, n_classes)
        labels = torch.as_tensor(codes)
        labels = labels.double() if n_classes == 2 else labels
        bound = gpytorch.mlls.VariationalELBO(likelihood, model, len(rows))
        adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=learning_rate)
        while time.process_time() - start < cpu_budget:
            share = max(0.02, 1.0 - (time.process_time() - start) / cpu_budget)
            adam.param_groups[0]["lr"] = share * learning_rate
            some = slice(None) if len(rows) <= BATCH else torch.randperm(len(rows))[:BATCH]
            adam.zero_grad()
            loss = -bound(model(rows[some]), labels[some])
            loss.backward()
            adam.step()
        cpu = time.process_time() - start
    model.eval(), likelihood.eval()

    def proba(points):
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(SAMPLES):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                found = likelihood(model(torch.as_tensor(points, dtype=torch.float64))).probs
        if n_classes == 2:
            return np.column_stack([1.0 - found.numpy(), found.numpy()])
        return found.mean(0).numpy()

    return proba, cpu


def _model(Z, n_classes):
    torch, gpytorch = libraries()
    from gpytorch import likelihoods, variational

    K, p = (1 if n_classes == 2 else n_classes), Z.shape[1]
    shape = torch.Size([]) if K == 1 else torch.Size([K])

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            family = variational.CholeskyVariationalDistribution(len(Z), batch_shape=shape)
            start = Z if K == 1 else Z.repeat(K, 1, 1)
            strategy = variational.VariationalStrategy(
                self, start, family, learn_inducing_locations=True
            )
            if K > 1:
                strategy = variational.IndependentMultitaskVariationalStrategy(
                    strategy, num_tasks=K
                )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=shape)
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.RBFKernel(ard_num_dims=p)
            )
            self.covar_module.base_kernel.lengthscale = math.sqrt(p)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    likelihood = (
        likelihoods.BernoulliLikelihood()
        if K == 1
        else likelihoods.SoftmaxLikelihood(num_features=K, num_classes=K, mixing_weights=False)
    )
    return Model().double(), likelihood.double()
