"""Compiled sums of kernels over all pairs of points and centres.

Centres lie in tiles, coordinate by coordinate, so that a pair is SIMD code over a tile and no table
of all pairs is ever held. Sums of Gaussian kernels are in single precision: a pair costs a squared
distance and an exponential. Differences are taken before they are squared, hence the log of a sum
errs by about 1e-5 for coordinates of up to 100, and by 1e-3 at 10,000 widths of a kernel.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from skpmd._runtime.threads import each, in_order, ranges

_LANES, _COMPACT_LANES = 256, 128  # Centres in a tile.
_POINTS = 64  # Totals for the centres are summed up over so many points, and then over all.
_NOWHERE = np.float32(-1e30)  # Log weight of no centre.
# Sums may be taken in any order, and no nan occurs. What others call is inlined, or the process
# that compiles would take sums in another order than later ones.
_FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}
# Wrappers for calls from C, and of inner kernels from Python, take time to compile.
_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
_INNER = {**_KERNEL, "no_cpython_wrapper": True}


# Squares of numbers beyond it overflow in single precision: a kernel there is nowhere else.
_FAR = 1e18


class Tiles(NamedTuple):
    """Kernel centres, the last tile filled up by centres without weight."""

    centres: np.ndarray  # (t, d, lanes), float32.
    log_weights: np.ndarray  # (t, lanes), float32.


def tiled(centres, log_weights):
    """`Tiles` of centres (m, d) with their log weights (m,)."""
    m, d = centres.shape
    n_tiles = -(-m // _LANES)
    padded = np.zeros((n_tiles * _LANES, d), dtype=np.float32)
    padded[:m] = np.clip(centres, -_FAR, _FAR)
    offset = np.full(n_tiles * _LANES, _NOWHERE)
    offset[:m] = np.maximum(log_weights, _NOWHERE)
    columns = padded.reshape(n_tiles, _LANES, d).transpose(0, 2, 1)
    return Tiles(np.ascontiguousarray(columns), offset.reshape(n_tiles, _LANES))


def _in_single(points):
    return np.clip(points, -_FAR, _FAR).astype(np.float32, order="C")


def log_sums(tiles, points, own=None):
    """Log of sum_j w_j exp(-|x_i - c_j|^2 / 2) for points x (n, d), shape (n,), float64.

    ``own`` (n,) is the number of a centre that is left out of the sum of each point.
    """
    out, points = np.empty(len(points)), _in_single(points)
    own = _numbers(own, len(points))

    def fill(some):
        rows = slice(*some)
        _log_sums(*tiles, points[rows], own[rows], out[rows])

    each(fill, ranges(len(points), _POINTS))
    return out


def responsibilities(tiles, points, w, own=None):
    """The log sums; means of the centres by responsibility; and totals for each centre.

    Responsibilities r_ij are the shares of the centres in the sum of a point. Means are those of
    c_j by r_ij for each point, shape (n, d), and totals sum_i w_i r_ij, shape (m,) with the tiles'
    filling.
    """
    n, d = points.shape
    out, means, totals = np.empty(n), np.empty((n, d)), np.zeros(tiles.log_weights.shape)
    points, own = _in_single(points), _numbers(own, n)

    def fill(start):
        rows, part = slice(start, start + _POINTS), np.zeros(totals.shape)
        _responsibilities(*tiles, points[rows], own[rows], w[rows], out[rows], means[rows], part)
        return part

    for part in in_order(fill, range(0, n, _POINTS)):
        totals += part
    return out, means, totals.ravel()


def _numbers(own, n):
    return np.full(n, -1) if own is None else own


@njit(**_INNER, fastmath=_FAST, error_model="numpy", forceinline=True)
def _log_terms(x, centres, log_weights, out):
    """Write log w_j - |x - c_j|^2 / 2 of one tile, and return the largest."""
    d, lanes = centres.shape
    half = np.float32(0.5)
    for j in range(lanes):
        out[j] = np.float32(0.0)
    for k in range(0, d - 3, 4):  # By fours: fewer passes over the sums.
        c0, c1, c2, c3 = centres[k], centres[k + 1], centres[k + 2], centres[k + 3]
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        for j in range(lanes):
            g0, g1, g2, g3 = x0 - c0[j], x1 - c1[j], x2 - c2[j], x3 - c3[j]
            out[j] += (g0 * g0 + g1 * g1) + (g2 * g2 + g3 * g3)
    for k in range(d - d % 4, d):
        column, at = centres[k], x[k]
        for j in range(lanes):
            gap = at - column[j]
            out[j] += gap * gap
    for j in range(lanes):
        out[j] = log_weights[j] - half * out[j]
    top = out[0]
    for j in range(lanes):
        top = max(top, out[j])
    return top


@njit(**_INNER, fastmath=_FAST, error_model="numpy", forceinline=True)
def _exponentials(x, top, scratch):
    """Replace x_j by exp(x_j - top), 0 where that is below 1e-34, and return the sum.

    e^x = 2^k e^r with |r| <= log(2) / 2, and e^r is a polynomial; written out over a short vector
    it becomes SIMD code, which a call to libm for each element does not.
    """
    bits, lanes = scratch.view(np.int32), len(x)
    magic = np.float32(12582912.0)  # Adding 1.5 * 2^23 rounds to an integer in the low bits.
    for j in range(lanes):
        x[j] = max(x[j] - top, np.float32(-80.0))
    for j in range(lanes):
        scratch[j] = x[j] * np.float32(1.4426950408889634) + magic
    for j in range(lanes):
        k = scratch[j] - magic
        r = x[j] - k * np.float32(0.693359375) + k * np.float32(2.12194440e-4)
        p = np.float32(1 / 720.0)
        p = np.float32(1 / 120.0) + r * p
        p = np.float32(1 / 24.0) + r * p
        p = np.float32(1 / 6.0) + r * p
        p = np.float32(0.5) + r * p
        p = np.float32(1.0) + r * p
        x[j] = np.float32(1.0) + r * p
    for j in range(lanes):
        bits[j] = (bits[j] + np.int32(127)) << np.int32(23)  # This builds 2^k.
    total = np.float32(0.0)
    for j in range(lanes):
        x[j] *= scratch[j]
        total += x[j]
    return total


@njit(**_INNER, forceinline=True)
def _point(centres, log_weights, x, own, terms, scratch):
    """Terms of one point's sum relative to the largest: (their sum, log of the largest)."""
    n_tiles, _, lanes = centres.shape
    top = _NOWHERE
    for t in range(n_tiles):
        top = max(top, _log_terms(x, centres[t], log_weights[t], terms[t]))
    if own >= 0:  # It may have been the largest.
        terms[own // lanes, own % lanes] = _NOWHERE
        top = _NOWHERE
        for t in range(n_tiles):
            for j in range(lanes):
                top = max(top, terms[t, j])
    total = 0.0
    for t in range(n_tiles):
        total += _exponentials(terms[t], top, scratch)
    return total, top


@njit(**_KERNEL)
def _log_sums(centres, log_weights, points, own, out):
    terms = np.empty(log_weights.shape, dtype=np.float32)
    scratch = np.empty(log_weights.shape[1], dtype=np.float32)
    for i in range(len(points)):
        total, top = _point(centres, log_weights, points[i], own[i], terms, scratch)
        out[i] = np.log(total) + top if top > 0.5 * _NOWHERE else -np.inf


@njit(**_INNER, fastmath=_FAST, error_model="numpy", forceinline=True)
def _dot(x, y):
    total = np.float32(0.0)
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit(**_KERNEL)
def _responsibilities(centres, log_weights, points, own, w, out, means, totals):
    n_tiles, d, lanes = centres.shape
    terms = np.empty(log_weights.shape, dtype=np.float32)
    scratch = np.empty(lanes, dtype=np.float32)
    for i in range(len(points)):
        total, top = _point(centres, log_weights, points[i], own[i], terms, scratch)
        out[i] = np.log(total) + top
        means[i] = 0.0
        for t in range(n_tiles):
            for k in range(d):
                means[i, k] += _dot(terms[t], centres[t, k])
            factor = w[i] / total
            for j in range(lanes):
                totals[t, j] += factor * terms[t, j]
        for k in range(d):
            means[i, k] /= total


def compact_log_sums(centres, log_weights, points, radius):
    """Log of sum_j w_j max(0, 1 - |x_i - c_j|^2 / radius^2) for points (n, d), shape (n,).

    It is -inf where no kernel of the centres (m, d) reaches. All is in double precision: a point
    that a single kernel of a small weight reaches keeps its density, and one that none reaches has
    none.
    """
    (m, d), top = centres.shape, log_weights.max()
    n_tiles = -(-m // _COMPACT_LANES)
    padded, shares = np.zeros((n_tiles * _COMPACT_LANES, d)), np.zeros(n_tiles * _COMPACT_LANES)
    padded[:m], shares[:m] = centres / radius, np.exp(log_weights - top)
    tiles = np.ascontiguousarray(padded.reshape(n_tiles, _COMPACT_LANES, d).transpose(0, 2, 1))
    shares, points = shares.reshape(n_tiles, _COMPACT_LANES), np.ascontiguousarray(points / radius)
    out = np.empty(len(points))

    def fill(some):
        rows = slice(*some)
        _compact_sums(tiles, shares, points[rows], out[rows])

    each(fill, ranges(len(points), _POINTS))
    with np.errstate(divide="ignore"):
        return np.log(out) + top


@njit(**_KERNEL, fastmath=_FAST, error_model="numpy")
def _compact_sums(tiles, shares, points, out):
    n_tiles, d, lanes = tiles.shape
    left = np.empty(lanes)
    for i in range(len(points)):
        total = 0.0
        for t in range(n_tiles):
            centres, own = tiles[t], shares[t]
            for j in range(lanes):
                left[j] = 1.0
            for k in range(d):
                column, at = centres[k], points[i, k]
                for j in range(lanes):
                    gap = at - column[j]
                    left[j] -= gap * gap
            for j in range(lanes):
                total += own[j] * max(left[j], 0.0)
        out[i] = total
