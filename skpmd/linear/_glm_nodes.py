"""Rules for dispersions and predictors under a Gaussian, as generalised linear models take them."""

from functools import cache
from itertools import product

import numpy as np

from skpmd.linear._design import gauss_hermite

_STEP = 1e-4  # Of differences in dispersions at a point, in prior sds.
_NODES, _WIDE_NODES, _WIDE = 7, 24, 1.0  # Of predictors; more where their sds are larger.


class Nodes:
    """Rules for dispersions under a Gaussian, and the coefficients given each of their nodes."""

    def __init__(self, mean, cov, k):
        w = len(mean) - k
        self.mean, self.mean_u = mean[:w], mean[w:]
        self.z, self.weights = _rule_of_dispersions(k, cov is None)
        if cov is None:
            root, self.slope, self.rest = _STEP * np.eye(k), np.zeros((w, k)), None
        else:
            root = np.linalg.cholesky(cov[w:, w:]) if k else np.empty((0, 0))
            self.slope = np.linalg.solve(cov[w:, w:], cov[w:, :w]).T if k else np.zeros((w, 0))
            self.rest = cov[:w, :w] - self.slope @ cov[w:, :w]
        self.u, self.inverse = self.mean_u + self.z @ root.T, np.linalg.inv(root)
        # Of a row, in all tables together.
        self.n_numbers = len(self.z) * (1 if cov is None else _NODES) + w

    def rule(self, spread):
        """Nodes and weights for N(0, 1), enough for predictors with these sds."""
        if self.rest is None:
            return np.zeros(1), np.ones(1)
        return _gauss_hermite(_NODES if spread.max(initial=0.0) < _WIDE else _WIDE_NODES)


_gauss_hermite = cache(gauss_hermite)


@cache
def _rule_of_dispersions(k, is_point):
    """Nodes (q, k) and weights (q,) for N(0, I): Gauss's for one or two, two a dimension of more.

    Of three and more dispersions, cutpoints, the rule is exact to the third degree.
    """
    if k > 2:
        unit = np.sqrt(k) * np.eye(k)
        return np.concatenate([unit, -unit]), np.full(2 * k, 0.5 / k)
    nodes, weights = _gauss_hermite(5 if k == 1 and not is_point else 3)
    places = list(product(range(len(nodes)), repeat=k))
    z = np.array([[nodes[i] for i in place] for place in places]).reshape(len(places), k)
    return z, np.array([np.prod([weights[i] for i in place]) for place in places])
