"""A neural spline flow as a density, by zuko: what an expert of deep learning brings for tables.

Durkan, Bekasov, Murray and Papamakarios (2019), "Neural spline flows", NeurIPS: three
autoregressive transforms by monotone rational-quadratic splines, trained by Adam with a cosine
schedule, dropout of none, until the log density of the validation part has not grown for a while.
"""

import copy

import numpy as np

from .problem import Clock

try:
    import torch
    import zuko
except ImportError as error:
    raise ImportError('This needs PyTorch and zuko: pip install "skpmd[bench]"') from error

BATCH, PATIENCE, RATE, DECAY = 256, 10, 1e-3, 1e-5


def spline_flow(learn, valid, *, seed, max_cpu, transforms=3, hidden=(64, 64), bins=8):
    """Return a function from rows to log densities, and the CPU seconds of its training."""
    torch.manual_seed(seed)
    rng, clock = np.random.default_rng(seed), Clock()
    learn, valid = (torch.as_tensor(part, dtype=torch.float32) for part in (learn, valid))
    with clock:
        flow = zuko.flows.NSF(
            learn.shape[1], transforms=transforms, hidden_features=hidden, bins=bins
        )
        optimizer = torch.optim.AdamW(flow.parameters(), RATE, weight_decay=DECAY)
    best, kept, waited = -np.inf, None, 0
    while waited < PATIENCE and clock.cpu < max_cpu:
        with clock:
            for rows in np.array_split(rng.permutation(len(learn)), -(-len(learn) // BATCH)):
                optimizer.zero_grad()
                loss = -flow().log_prob(learn[rows]).mean()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
                optimizer.step()
            score = float(_log_density(flow, valid).mean())
        waited += 1
        if score > best:
            best, kept, waited = score, copy.deepcopy(flow), 0
    return lambda X: _log_density(kept, torch.as_tensor(X, dtype=torch.float32)).numpy(), clock.cpu


def _log_density(flow, X):
    with torch.no_grad():
        return torch.cat([flow().log_prob(part) for part in torch.split(X, 4096)])
