"""Means and standard deviations of a process with inducing inputs as a graph of ONNX operators.

All is in double precision: conditionals have large numbers of either sign.
"""

import numpy as np
from scipy.linalg import solve_triangular


def moments(nodes, X, state, noise_factor, with_std):
    """Nodes of means (n, t) and, with ``with_std``, of standard deviations (n, t); else None.

    ``nodes`` makes operators, `skpmd.onnx.Nodes`, X is the node of the rows, and ``state`` a
    `GPState` whose kernel is fast. ``noise_factor`` is the variance of noise of unit scale.
    """
    rows, weights, scaler = nodes.double(X), state.weights, state.scaler
    places = np.flatnonzero(weights > 0.0)
    parts = [_of_particle(nodes, rows, state, i, noise_factor, with_std) for i in places]
    weights = weights[places]
    mean = _average(nodes, weights, [one for one, _ in parts])
    unscaled = nodes.Add(nodes.Mul(mean, scaler.scale[None]), scaler.mean[None])
    if not with_std:
        return nodes.same(unscaled), None
    second = []
    for own, variance in parts:
        off = nodes.Sub(own, mean)
        second.append(nodes.Add(variance, nodes.Mul(off, off)))
    std = nodes.Sqrt(_average(nodes, weights, second))
    return nodes.same(unscaled), nodes.same(nodes.Mul(std, scaler.scale[None]))


def _of_particle(nodes, rows, state, i, noise_factor, with_std):
    """Mean (n, t) and variance (n, 1) with noise, of scaled targets under particle i."""
    term = state.model.covariance.term(state.particles.theta[i])
    conditional = state.conditional(i)
    cross = _covariances(nodes, rows, term, conditional.inducing)
    mean = nodes.MatMul(cross, conditional.direct)
    if not with_std:
        return mean, None
    identity = np.eye(len(conditional.factor))
    whiten = solve_triangular(conditional.prior_factor, identity, lower=True)
    known = solve_triangular(conditional.factor, whiten, lower=True)
    explained, left = (
        nodes.sum(nodes.Mul(V, V), axis=1)
        for V in (nodes.MatMul(cross, one.T) for one in (whiten, known))
    )
    unexplained = nodes.Relu(nodes.Sub(np.array([[term.amplitude]]), explained))
    noise = np.array([[noise_factor * term.noise]])
    return mean, nodes.Add(nodes.Add(unexplained, left), noise)


def _covariances(nodes, rows, term, inducing):
    """Covariances of f at the rows with those at inducing inputs, (n, M)."""
    middle = inducing.mean(axis=0)
    B = (inducing - middle) / term.length_scale
    A = nodes.Div(
        nodes.Sub(rows, middle[None]), np.broadcast_to(term.length_scale, (1, B.shape[1]))
    )
    lengths = nodes.Add(nodes.sum(nodes.Mul(A, A), axis=1), (B**2).sum(axis=1)[None])
    squared = nodes.Relu(nodes.Sub(lengths, nodes.MatMul(A, 2.0 * B.T)))
    amplitude = np.array([[term.amplitude]])
    if term.shape == 0:
        return nodes.Mul(nodes.Exp(nodes.Mul(squared, np.array([[-0.5]]))), amplitude)
    r = nodes.Sqrt(nodes.Mul(squared, np.array([[float(term.shape)]])))
    polynomial = nodes.Mul(_polynomial(nodes, r, term.shape), amplitude)
    return nodes.Mul(polynomial, nodes.Exp(nodes.Neg(r)))


def _polynomial(nodes, r, shape):
    """What the exponential of the Matern family is multiplied by; ``shape`` is twice its nu."""
    one = np.array([[1.0]])
    if shape == 1:
        return one
    factor = r if shape == 3 else nodes.Mul(r, nodes.Add(nodes.Div(r, np.array([[3.0]])), one))
    return nodes.Add(factor, one)


def _average(nodes, weights, values):
    total = None
    for weight, value in zip(weights, values, strict=True):
        part = nodes.Mul(value, np.array([[weight]]))
        total = part if total is None else nodes.Add(total, part)
    return total
