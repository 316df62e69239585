"""Integrals over groups' intercepts where rows need one exponential for all nodes.

e^(predictor + effect) is a product: of counts a sum over a group's rows is one number, and of
single trials log(1 + e^z) is the log of a product over the rows.
"""

import math

import numpy as np
from numba import njit

_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
_POISSON = 2  # As in `skpmd.linear._family_kernels`.
_PASSES, _NEAR = 60, 0.05  # As of its searches for modes.
_MOST = 40.0  # Effects beyond are held there, where e^-z is next to nothing.
_ROWS = 8  # So many factors 1 + e^z have a product that is a number.
_MAX_NODES = 64


@njit(**_KERNEL)
def _exponential(x, out, scratch):
    """e^x of any numbers; see the kernel of this name in `skpmd.linear._kernels`."""
    bits = scratch.view(np.int64)
    magic, most = 6755399441055744.0, 600.0
    for j in range(len(x)):
        scratch[j] = min(max(x[j], -most), most) * 1.4426950408889634 + magic
    for j in range(len(x)):
        k = scratch[j] - magic
        r = min(max(x[j], -most), most) - k * 0.693147180369123816490
        r -= k * 1.90821492927058770002e-10
        p = 1 / 39916800.0 + r * (1 / 479001600.0)
        p = 1 / 3628800.0 + r * p
        p = 1 / 362880.0 + r * p
        p = 1 / 40320.0 + r * p
        p = 1 / 5040.0 + r * p
        p = 1 / 720.0 + r * p
        p = 1 / 120.0 + r * p
        p = 1 / 24.0 + r * p
        p = 1 / 6.0 + r * p
        p = 0.5 + r * p
        p = 1.0 + r * p
        out[j] = 1.0 + r * p
    for j in range(len(x)):
        bits[j] = (bits[j] + 1023) << 52
    for j in range(len(x)):
        out[j] *= scratch[j]


@njit(**_KERNEL)
def _mode(kind, raised, total, hits, sd, z):
    """Where z under N(0, 1) and a group's rows is most probable, and the precision there.

    ``raised`` are e^predictors of the rows, of counts ``total`` is their weighted sum.
    """
    low, high, precision = -math.inf, math.inf, 1.0
    for step in range(_PASSES):
        B = math.exp(min(max(sd * z, -_MOST), _MOST))
        mean, spread = total * B, total * B
        if kind != _POISSON:
            mean, spread = 0.0, 0.0
            for j in range(len(raised)):
                odds = raised[j] * B
                p = odds / (1.0 + odds)
                mean += p
                spread += p * (1.0 - p)
        slope = sd * (hits - mean) - z
        precision = 1.0 + sd * sd * spread
        if slope > 0.0:
            low = z
        else:
            high = z
        ahead = z + slope / precision
        is_near = slope * slope < _NEAR * _NEAR * precision
        if not is_near and (not low < ahead < high or (step % 4 == 3 and high - low < math.inf)):
            ahead = 0.5 * (low + high)
        z = ahead
        if is_near:
            break
    return z, precision


@njit(**_KERNEL)
def integrate_intercepts(
    kind, table, y, size, weight, starts, sds, start, rule, first, nodes, log_weights, order,
    values, by_factor, moments,
):  # fmt: skip
    """`integrate_groups` of intercepts with these ``sds`` (m,), for two kinds of rows.

    They are counts, with an exponential link, and single trials, with a logit link and a weight of
    one. Predictors are at most 40 in size.
    """
    m, n = table.shape
    raised, scratch = np.empty(n), np.empty(n)
    factor, share, at = np.empty(_MAX_NODES), np.empty(_MAX_NODES), np.empty(_MAX_NODES)
    ratio, product, z = np.empty(_MAX_NODES), np.empty(_MAX_NODES), np.empty(_MAX_NODES)
    small = np.empty(_MAX_NODES)
    for i in range(m):
        sd = sds[i]
        _exponential(table[i], raised, scratch)
        for g in range(len(starts) - 1):
            if rule[g] < 0:
                continue
            lo, hi = starts[g], starts[g + 1]
            hits, known, total = 0.0, 0.0, 0.0
            for j in range(lo, hi):
                hits += weight[j] * y[j]
                known += weight[j] * y[j] * table[i, j]
                total += weight[j] * raised[j]
            centre, precision = _mode(kind, raised[lo:hi], total, hits, sd, start[g])
            width = 1.0 / math.sqrt(precision)
            head, K = first[rule[g]], first[rule[g] + 1] - first[rule[g]]
            for k in range(K):
                z[k] = centre + width * nodes[head + k]
                at[k] = sd * z[k]
            z[K], at[K] = centre, sd * centre  # What others are in units of.
            for k in range(K + 1):
                at[k] = min(max(at[k], -_MOST), _MOST)
            _exponential(at[: K + 1], factor[: K + 1], small[: K + 1])
            for k in range(K + 1):
                share[k] = hits * at[k] - 0.5 * z[k] * z[k]
                ratio[k] = 1.0
            log_centre = 0.0
            if kind == _POISSON:
                for k in range(K + 1):
                    share[k] -= total * factor[k]
            else:
                n_rows = 0
                for begin in range(lo, hi, _ROWS):
                    for k in range(K + 1):
                        product[k] = 1.0
                    for j in range(begin, min(begin + _ROWS, hi)):
                        e = raised[j]
                        for k in range(K + 1):
                            product[k] *= 1.0 + e * factor[k]
                    log_centre -= math.log(product[K])
                    for k in range(K):
                        ratio[k] *= product[K] / product[k]
                    n_rows += _ROWS
                    if n_rows % (2 * _ROWS) == 0:
                        for k in range(K):
                            share[k] += math.log(ratio[k])
                            ratio[k] = 1.0
            best = share[K]
            for k in range(K):
                at[k] = share[k] - best + log_weights[head + k]
            _exponential(at[:K], share[:K], small[:K])
            sum_, mean = 0.0, 0.0
            for k in range(K):
                share[k] *= ratio[k]
                sum_ += share[k]
            values[i, g] = known + best + log_centre + math.log(sum_ * width)
            if order == 0:
                continue
            for k in range(K):
                share[k] /= sum_
            if order == 2:
                for a in range(7):
                    moments[i, g, a] = 0.0
                for k in range(K):
                    moments[i, g, 0] += share[k] * z[k]
                    moments[i, g, 2] += share[k] * z[k] * z[k]
                    moments[i, g, 5] += share[k] * z[k] * z[k] * z[k]
                moments[i, g, 4] = 1.0  # Of the second effect, which there is none of.
                continue
            for k in range(K):
                mean += share[k] * factor[k]
                product[k] = 0.0
            if kind == _POISSON:
                for k in range(K):
                    product[k] = hits - total * factor[k]
                for j in range(lo, hi):
                    table[i, j] = weight[j] * (y[j] - raised[j] * mean)
            else:
                for j in range(lo, hi):
                    e, average = raised[j], 0.0
                    for k in range(K):
                        odds = e * factor[k]
                        p = odds / (1.0 + odds)
                        average += share[k] * p
                        product[k] += y[j] - p
                    table[i, j] = y[j] - average
            for k in range(K):
                by_factor[i, 0] += share[k] * z[k] * product[k]
