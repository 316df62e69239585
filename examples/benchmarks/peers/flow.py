"""A neural spline flow as a density, by zuko: what an expert of deep learning brings for tables.

Durkan, Bekasov, Murray and Papamakarios (2019), "Neural spline flows", NeurIPS: three
autoregressive transforms by monotone rational-quadratic splines, trained by Adam with a cosine
schedule, until the log density of the validation part has not grown for a while.
"""

from itertools import islice

import numpy as np

from .problem import Clock

try:
    import torch
    import zuko
except ImportError as error:
    raise ImportError('This needs PyTorch and zuko: pip install "skpmd[bench]"') from error

BATCH, PATIENCE, PASSES, RATE, DECAY = 256, 10, 100, 1e-3, 1e-5


def spline_flow(learn, valid, *, seed, max_cpu, transforms=3, hidden=(64, 64), bins=8):
    """Return a function from rows to log densities, and the CPU seconds of its training.

    The number of passes is the one whose log density of the validation part is best, the flow is
    then trained anew on both parts for so many.
    """
    sizes = {"transforms": transforms, "hidden_features": hidden, "bins": bins}
    clock, best, passes = Clock(), -np.inf, 1
    for number, flow in enumerate(_trained(learn, sizes, seed, clock), start=1):
        with clock:
            score = float(_log_density(flow, valid).mean())
        if score > best:
            best, passes = score, number
        if number - passes >= PATIENCE or clock.cpu > max_cpu:
            break
    again = _trained(np.concatenate([learn, valid]), sizes, seed, clock)
    *_, flow = islice(again, passes)
    return lambda X: _log_density(flow, X).numpy(), clock.cpu


def _trained(X, sizes, seed, clock):
    """Yield the flow after each pass; the rate falls like a cosine to zero."""
    torch.manual_seed(seed)
    rng, X = np.random.default_rng(seed), torch.as_tensor(X, dtype=torch.float32)
    flow = zuko.flows.NSF(X.shape[1], **sizes)
    optimizer = torch.optim.AdamW(flow.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, PASSES)
    for _ in range(PASSES):
        with clock:
            for rows in np.array_split(rng.permutation(len(X)), -(-len(X) // BATCH)):
                optimizer.zero_grad()
                loss = -flow().log_prob(X[rows]).mean()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
                optimizer.step()
            schedule.step()
        yield flow


def _log_density(flow, X):
    X = torch.as_tensor(X, dtype=torch.float32)
    with torch.no_grad():
        return torch.cat([flow().log_prob(part) for part in torch.split(X, 4096)])
