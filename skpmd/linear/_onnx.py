"""Averaged class probabilities as a graph of ONNX operators.

As in `skpmd.linear._averages`, logits of the mean coefficients are in double precision, and what
each particle differs by is in that of the rows: rounding is relative to the posterior's spread.
"""

import numpy as np

from skpmd.linear._averages import points_of_posterior
from skpmd.linear._posterior import GaussianPosterior


def probabilities(nodes, X, posterior, n_classes, n_features, fit_intercept):
    """Node of averages over all particles, (n, n_classes); adds up to 1 over classes.

    ``nodes`` makes operators, `skpmd.onnx.Nodes`, and X is the node of the rows.
    """
    K = 1 if n_classes == 2 else n_classes
    if posterior.frame is not None:
        centred = nodes.Sub(nodes.double(X), posterior.frame.centre[None])
        X = nodes.same(nodes.Div(centred, posterior.frame.scale[None]))
    if isinstance(posterior, GaussianPosterior):
        logits = _of_normals(nodes, X, posterior, K, n_features, fit_intercept)
        weights = posterior.weights
    else:
        points = points_of_posterior(posterior, n_classes, n_features + fit_intercept)
        alive = points.weights > 0.0
        offsets = points.offsets[alive]
        logits = _of_points(nodes, X, points.mean, offsets, fit_intercept)
        weights = points.weights[alive]
    averages = (_of_sigmoids if K == 1 else _of_softmaxes)(nodes, logits, weights)
    return nodes.Div(averages, nodes.sum(averages, axis=1))


def _of_points(nodes, X, mean, offsets, fit_intercept):
    """Logits of particles, (n, m, K)."""
    m, K, width = offsets.shape
    centre = nodes.shaped(_linear(nodes, nodes.double(X), mean, fit_intercept), 1, K)
    offsets = nodes.constant(offsets.reshape(m * K, width))
    table = _linear(nodes, X, offsets, fit_intercept)
    return nodes.Add(nodes.same(centre), nodes.shaped(table, m, K))


def _of_normals(nodes, X, posterior, K, n_features, fit_intercept):
    """Logits at the nodes of a `GaussianPosterior`, (n, m, K)."""
    width = n_features + fit_intercept
    loc, variance = (one.reshape(K, width) for one in _of_own(posterior))
    rows = nodes.double(X)
    centre = _linear(nodes, rows, loc, fit_intercept)
    spread = nodes.Sqrt(_linear(nodes, nodes.Mul(rows, rows), variance, fit_intercept))
    offsets = nodes.Mul(nodes.shaped(spread, 1, K), posterior.nodes.T[None])
    return nodes.same(nodes.Add(nodes.shaped(centre, 1, K), offsets))


def _of_own(posterior):
    loc, scale = posterior.moments_in(posterior.frame)
    return loc, scale**2


def _linear(nodes, X, coefficients, fit_intercept):
    """Products of rows with rows of coefficients, in their precision, intercepts last."""
    slopes = coefficients[:, :-1] if fit_intercept else coefficients
    found = nodes.MatMul(X, np.ascontiguousarray(slopes.T))
    return nodes.Add(found, coefficients[None, :, -1].copy()) if fit_intercept else found


def _of_sigmoids(nodes, logits, weights):
    """Averages of both classes, (n, 2): each has its own, for tiny ones are no differences.

    The operator Sigmoid has none below 1e-10 in onnxruntime.
    """
    logits = nodes.shaped(logits, len(weights))
    column, one = nodes.constant(weights[:, None]), nodes.constant([[1.0]])
    of_classes = [
        nodes.MatMul(nodes.Reciprocal(nodes.Add(nodes.Exp(z), one)), column)
        for z in (logits, nodes.Neg(logits))
    ]
    return nodes.Concat(*of_classes, axis=1)


def _of_softmaxes(nodes, logits, weights):
    averages = nodes.MatMul(nodes.constant(weights[None]), nodes.Softmax(logits, axis=2))
    return nodes.sum(averages, axis=1, keepdims=0)
