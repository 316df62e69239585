"""Integrals over groups' intercepts where rows need one exponential for all nodes.

e^(predictor + effect) is a product: of counts a sum over a group's rows is one number, and of
single trials log(1 + e^z) is the log of a product over the rows.
"""

import math

import numpy as np
from numba import njit

_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
_POISSON = 1  # The kind of counts; that of single trials is 0.
_PASSES, _NEAR = 60, 0.2  # As of its searches for modes: nodes need not be at these.
_MAX = 40.0  # Effects beyond are held there, where e^-z is next to nothing.
_MAX_PRODUCT = 640.0  # Logs of products of factors 1 + e^z are to be smaller.


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
def _modes(kind, raised, total, hits, sd, z, precision):
    """Where z under N(0, 1) and a group's rows are most probable, and the precisions there.

    All are of m particles side by side. ``raised`` (n, m) are e^predictors of the rows, of counts
    ``total`` is their weighted sum; searches begin at ``z``, which is written over.
    """
    m = len(sd)
    low, high, at = np.full(m, -math.inf), np.full(m, math.inf), np.empty(m)
    B, scratch, mean, spread = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    for step in range(_PASSES):
        for i in range(m):
            at[i] = min(max(sd[i] * z[i], -_MAX), _MAX)
        _exponential(at, B, scratch)
        for i in range(m):
            mean[i] = total[i] * B[i] if kind == _POISSON else 0.0
            spread[i] = mean[i]
        if kind != _POISSON:
            for j in range(len(raised)):
                for i in range(m):
                    odds = raised[j, i] * B[i]
                    p = odds / (1.0 + odds)
                    mean[i] += p
                    spread[i] += p - p * p
        are_near = True
        for i in range(m):
            slope = sd[i] * (hits - mean[i]) - z[i]
            precision[i] = 1.0 + sd[i] * sd[i] * spread[i]
            ahead = z[i] + slope / precision[i]
            if slope * slope >= _NEAR * _NEAR * precision[i]:
                are_near = False
                if slope > 0.0:
                    low[i] = z[i]
                else:
                    high[i] = z[i]
                is_slow = step % 4 == 3 and high[i] - low[i] < math.inf
                if is_slow or not low[i] < ahead < high[i]:
                    ahead = 0.5 * (low[i] + high[i])
            z[i] = ahead
        if are_near:
            break


@njit(**_KERNEL)
def _products(raised, factor, m, n_nodes, step, ratio, share, log_centre):
    """Multiply ``ratio`` by products over rows of (1 + e^(centre)) / (1 + e^(node)).

    Nodes of all particles follow each other, and the centre is the last of them. So many rows as
    ``step`` have products that are numbers.
    """
    product = np.empty((n_nodes + 1) * m)
    last, n = n_nodes * m, len(raised)
    for start in range(0, n, step):
        product[:] = 1.0
        for j in range(start, min(start + step, n)):
            for k in range(n_nodes + 1):
                for i in range(m):
                    product[k * m + i] *= 1.0 + raised[j, i] * factor[k * m + i]
        for i in range(m):
            log_centre[i] -= math.log(product[last + i])
        for k in range(n_nodes):
            for i in range(m):
                ratio[k * m + i] *= product[last + i] / product[k * m + i]
        if start + step < n:  # Of more rows they would be no numbers.
            for k in range(last):
                share[k] += math.log(ratio[k])
                ratio[k] = 1.0


@njit(**_KERNEL)
def integrate_intercepts(
    kind, table, largest, y, weight, starts, sd, start, rule, first, nodes, log_weights, order,
    values, by_factor, moments,
):  # fmt: skip
    """`integrate_groups` of intercepts with these ``sd`` (m,), for two kinds of rows.

    They are counts, with an exponential link, and single trials, with a logit link and a weight of
    one. Predictors ``table`` are (n, m), and at most ``largest`` in size, of which 40 is the most.
    """
    n, m = table.shape
    raised, scratch, most = np.empty((n, m)), np.empty(m), 0
    for j in range(n):
        _exponential(table[j], raised[j], scratch)
    for g in range(len(rule)):
        if rule[g] >= 0:
            most = max(most, first[rule[g] + 1] - first[rule[g]] + 1)
    all_at, all_factor, all_small = np.empty(most * m), np.empty(most * m), np.empty(most * m)
    all_share, all_ratio, z = np.empty(most * m), np.empty(most * m), np.empty(most * m)
    known, total, log_centre = np.empty(m), np.empty(m), np.empty(m)
    centre, precision, sums, mean = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    width = np.empty(m)
    for g in range(len(starts) - 1):
        if rule[g] < 0:
            continue
        lo, hi, head = starts[g], starts[g + 1], first[rule[g]]
        K, hits = first[rule[g] + 1] - head, 0.0
        size = (K + 1) * m
        at, factor, small = all_at[:size], all_factor[:size], all_small[:size]
        share, ratio, last = all_share[:size], all_ratio[:size], K * m
        known[:], total[:], log_centre[:], centre[:] = 0.0, 0.0, 0.0, start[g]
        for j in range(lo, hi):
            hits += weight[j] * y[j]
            for i in range(m):
                known[i] += weight[j] * y[j] * table[j, i]
                total[i] += weight[j] * raised[j, i]
        _modes(kind, raised[lo:hi], total, hits, sd, centre, precision)
        for i in range(m):
            width[i] = 1.0 / math.sqrt(precision[i])
        for k in range(K + 1):
            t = nodes[head + k] if k < K else 0.0  # What others are in units of comes last.
            for i in range(m):
                z[k * m + i] = centre[i] + t * width[i]
                at[k * m + i] = min(max(sd[i] * z[k * m + i], -_MAX), _MAX)
        _exponential(at, factor, small)
        far = 0.0
        for k in range(size):
            far = max(far, abs(at[k]))
            share[k] = hits * at[k] - 0.5 * z[k] * z[k]
            ratio[k] = 1.0
        if kind == _POISSON:
            for k in range(K + 1):
                for i in range(m):
                    share[k * m + i] -= total[i] * factor[k * m + i]
        else:
            step = int(_MAX_PRODUCT / (far + largest + 1.0))
            _products(raised[lo:hi], factor, m, K, step, ratio, share, log_centre)
        for k in range(K):
            for i in range(m):
                at[k * m + i] = share[k * m + i] - share[last + i] + log_weights[head + k]
        sums[:], mean[:] = 0.0, 0.0
        for i in range(m):
            log_centre[i] += share[last + i]
        _exponential(at[:last], share[:last], small[:last])
        for k in range(K):
            for i in range(m):
                share[k * m + i] *= ratio[k * m + i]
                sums[i] += share[k * m + i]
        for i in range(m):
            rest = math.log(sums[i] * width[i])
            values[i, g] = known[i] + log_centre[i] + rest
        if order == 0:
            continue
        if order == 2:
            for i in range(m):
                for a in range(7):
                    moments[i, g, a] = 0.0
                moments[i, g, 4] = 1.0  # Of the second effect, which there is none of.
        for k in range(K):
            for i in range(m):
                w, one = share[k * m + i] / sums[i], z[k * m + i]
                share[k * m + i] = w
                mean[i] += w * factor[k * m + i]
                if order == 2:
                    moments[i, g, 0] += w * one
                    moments[i, g, 2] += w * one * one
                    moments[i, g, 5] += w * one * one * one
                elif kind == _POISSON:
                    by_factor[i, 0] += w * one * (hits - total[i] * factor[k * m + i])
                else:
                    by_factor[i, 0] += w * one * hits
        if order == 2:
            continue
        for j in range(lo, hi):
            if kind == _POISSON:
                for i in range(m):
                    table[j, i] = weight[j] * (y[j] - raised[j, i] * mean[i])
                continue
            table[j] = y[j]
            for k in range(K):
                for i in range(m):
                    odds = raised[j, i] * factor[k * m + i]
                    p = share[k * m + i] * odds / (1.0 + odds)
                    table[j, i] -= p
                    by_factor[i, 0] -= p * z[k * m + i]
