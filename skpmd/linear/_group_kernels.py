"""Integrals over groups' intercepts where rows need one exponential for all nodes.

e^(predictor + effect) is a product: of counts a sum over a group's rows is one number, and of
single trials the likelihood at a centre over that at a node is, but for e^(what hits add), a
product over the rows of a + b e^(node - centre), where b and a = 1 - b are probabilities at the
centre. These are in single
precision, whose errors are of rows and not of their sum.
"""

import math

import numpy as np
from numba import njit

_KERNEL = {
    "cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy",
    "fastmath": {"contract"},
}  # fmt: skip
_INNER = {**_KERNEL, "no_cpython_wrapper": True}  # Of what this file alone calls.
_POISSON = 1  # The kind of counts; that of single trials is 0.
_PASSES, _NEAR = 60, 0.25  # Of searches for modes, and their last step in sds: nodes may be so far.
_MAX = 40.0  # Predictors and effects beyond are held there, where e^-z is next to nothing.
_MAX_PRODUCT, _MAX_SINGLE = 640.0, 80.0  # Logs of products are to be smaller.
_FAR = 11.0  # From a centre in prior sds; nodes beyond add nothing.
_MIN_LOG = -75.0  # Logs of what nodes add to a sum, next to a centre's, that are as good as none.
_FEW = 8  # Particles of which no vectors are made.
_f = np.float32


@njit(**_INNER)
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


@njit(**_INNER)
def _single_exponential(x, out, scratch):
    """e^x of numbers that are held within +-80, in single precision."""
    bits, magic = scratch.view(np.int32), _f(12582912.0)
    for j in range(len(x)):
        scratch[j] = _f(min(max(x[j], -80.0), 80.0)) * _f(1.44269504) + magic
    for j in range(len(x)):
        k = scratch[j] - magic
        r = _f(min(max(x[j], -80.0), 80.0)) - k * _f(0.693359375)
        r += k * _f(2.12194440e-4)
        p = _f(1 / 720.0) + r * _f(1 / 5040.0)
        p = _f(1 / 120.0) + r * p
        p = _f(1 / 24.0) + r * p
        p = _f(1 / 6.0) + r * p
        p = _f(0.5) + r * p
        p = _f(1.0) + r * p
        out[j] = _f(1.0) + r * p
    for j in range(len(x)):
        bits[j] = (bits[j] + 127) << 23
    for j in range(len(x)):
        out[j] *= scratch[j]


@njit(**_INNER)
def _odds(raised, factor, rest, chance):
    """Write the probabilities of a success and its opposite, of odds raised times factor."""
    for i in range(len(raised)):
        odds = raised[i] * factor[i]
        inverse = _f(1.0) / (_f(1.0) + odds)
        rest[i], chance[i] = inverse, odds * inverse


@njit(**_INNER)
def _modes(kind, raised, total, hits, sd, z, precision, before, rest, chance):
    """Where z under N(0, 1) and a group's rows are most probable, and the precisions there.

    All are of m particles side by side. ``raised`` (n, m) are e^predictors of single trials, and
    ``total`` is the weighted sum of those of counts; searches begin at ``z``, which is written
    over. Probabilities of single trials are those at the point ``before`` the last step.
    """
    m = len(sd)
    numbers, factor = np.empty((8, m)), np.empty(m, np.float32)
    low, high, at, B = numbers[0], numbers[1], numbers[2], numbers[3]
    scratch, mean, spread, slope = numbers[4], numbers[5], numbers[6], numbers[7]
    low[:], high[:] = -math.inf, math.inf
    for step in range(_PASSES):
        for i in range(m):
            before[i] = z[i]
            at[i] = min(max(sd[i] * z[i], -_MAX), _MAX)
        _exponential(at, B, scratch)
        if kind == _POISSON:
            for i in range(m):
                mean[i] = total[i] * B[i]
                spread[i] = mean[i]
        else:
            mean[:], spread[:] = 0.0, 0.0
            for i in range(m):
                factor[i] = B[i]
            for j in range(len(raised)):
                p, q = chance[j], rest[j]
                _odds(raised[j], factor, q, p)
                for i in range(m):
                    mean[i] += p[i]
                for i in range(m):
                    spread[i] += p[i] * q[i]
        furthest = 0.0
        for i in range(m):
            slope[i] = sd[i] * (hits - mean[i]) - before[i]
            precision[i] = 1.0 + sd[i] * sd[i] * spread[i]
        for i in range(m):
            scratch[i] = slope[i] / precision[i]
            z[i] += scratch[i]
        for i in range(m):
            furthest = max(furthest, slope[i] * scratch[i])
        if not furthest >= _NEAR * _NEAR:
            break
        for i in range(m):
            if slope[i] * slope[i] >= _NEAR * _NEAR * precision[i]:
                if slope[i] > 0.0:
                    low[i] = before[i]
                else:
                    high[i] = before[i]
                is_slow = step % 4 == 3 and high[i] - low[i] < math.inf
                if is_slow or not low[i] < z[i] < high[i]:
                    z[i] = 0.5 * (low[i] + high[i])


@njit(**_INNER)
def _multiply(q, p, factor, ratio):
    """What `_products` does with a row, of so few particles that they are no vectors."""
    m = len(q)
    for i in range(m):
        q_of, p_of = q[i], p[i]
        for k in range(i, len(ratio), m):
            ratio[k] *= q_of + p_of * factor[k]


@njit(**_INNER)
def _products(rest, chance, factor, steps, share, ratio, log_centre, centre):
    """Write products over rows: ``ratio`` of all nodes, and of ``rest``, to ``centre``.

    Nodes of all particles follow each other. So many rows as ``steps`` have products that are
    numbers, of nodes and of the centre; logs of earlier ones go to ``share`` and ``log_centre``.
    """
    (n, m), (step, most) = rest.shape, steps
    ratio[:], centre[:] = _f(1.0), 1.0
    for j in range(n):
        q, p = rest[j], chance[j]
        if j % step == 0 and j > 0:
            for k in range(len(share)):
                share[k] -= math.log(ratio[k])
                ratio[k] = _f(1.0)
        if j % most == 0 and j > 0:
            for i in range(m):
                log_centre[i] += math.log(centre[i])
                centre[i] = 1.0
        for i in range(m):
            centre[i] *= q[i]
        if m < _FEW:
            _multiply(q, p, factor, ratio)
            continue
        for first in range(0, len(ratio), m):
            of_node, f = ratio[first : first + m], factor[first : first + m]
            for i in range(m):
                of_node[i] *= q[i] + p[i] * f[i]


@njit(**_INNER)
def _differentiate(table, y, rest, chance, factor, share, by_node, scratch):
    """Write derivatives by predictors of single trials, and sums of expected ones by node."""
    m = table.shape[1]
    of_row = np.empty(m, np.float32)
    by_node[:] = 0.0
    for j in range(len(table)):
        q, p = rest[j], chance[j]
        of_row[:] = _f(y[j])
        for first in range(0, len(factor), m):
            f, w = factor[first : first + m], share[first : first + m]
            for i in range(m):
                odds = p[i] * f[i]
                scratch[i] = w[i] * odds / (q[i] + odds)
            for i in range(m):
                of_row[i] -= scratch[i]
            of_node = by_node[first : first + m]
            for i in range(m):
                of_node[i] += scratch[i]
        for i in range(m):
            table[j, i] = of_row[i]


@njit(**_KERNEL)
def integrate_intercepts(
    kind, table, y, weight, starts, sd, start, rule, first, nodes, log_weights, order,
    values, by_factor, moments,
):  # fmt: skip
    """`integrate_groups` of intercepts with these ``sd`` (m,), for two kinds of rows.

    They are counts, with an exponential link, and single trials, with a logit link and a weight of
    one. Predictors ``table`` are (n, m), and derivatives by them are written over them; integrals
    ``values`` are (G, m), and ``moments`` (G, 7, m).
    """
    m, most, longest = table.shape[1], 0, 0
    for g in range(len(rule)):
        if rule[g] >= 0:
            most = max(most, first[rule[g] + 1] - first[rule[g]])
            longest = max(longest, 0 if kind == _POISSON else starts[g + 1] - starts[g])
    of_rows, of_nodes = np.empty((3, longest, m), np.float32), np.empty((5, most * m))
    single, of_counts = np.empty((4, most * m), np.float32), np.empty((2, m))
    of_mode, of_sums = np.empty((5, m)), np.empty((4, m))
    mode, centre, width, sums, peak = of_mode[0], of_mode[1], of_mode[2], of_mode[3], of_mode[4]
    known, total, log_centre, product = of_sums[0], of_sums[1], of_sums[2], of_sums[3]
    for g in range(len(starts) - 1):
        if rule[g] < 0:
            continue
        lo, n, head = starts[g], starts[g + 1] - starts[g], first[rule[g]]
        hi, K, hits, far, largest = lo + n, first[rule[g] + 1] - head, 0.0, 0.0, 0.0
        size = K * m
        raised, rest, chance = of_rows[0, :n], of_rows[1, :n], of_rows[2, :n]
        at, share, z = of_nodes[0, :size], of_nodes[1, :size], of_nodes[2, :size]
        factor, scratch = of_nodes[3, :size], of_nodes[4, :size]
        known[:], total[:], peak[:], mode[:] = 0.0, 0.0, 0.0, start[g]
        for j in range(lo, hi):
            one, w = table[j], weight[j]
            wy = w * y[j]
            hits += wy
            for i in range(m):
                one[i] = min(max(one[i], -_MAX), _MAX)
                known[i] += wy * one[i]
            if kind == _POISSON:
                _exponential(one, of_counts[0], of_counts[1])
                for i in range(m):
                    total[i] += w * of_counts[0, i]
            else:
                _single_exponential(one, raised[j - lo], single[0, :m])
                for i in range(m):
                    peak[i] = max(peak[i], abs(one[i]))
        _modes(kind, raised, total, hits, sd, mode, width, centre, rest, chance)
        for i in range(m):
            width[i] = 1.0 / math.sqrt(width[i])
            product[i] = min(max(sd[i] * centre[i], -_MAX), _MAX)
        for i in range(m):
            log_centre[i] = hits * product[i] - 0.5 * centre[i] * centre[i]
        for i in range(m):
            largest = max(largest, peak[i] + abs(product[i]))
        for k in range(K):  # Loops with few arrays each are made of vectors.
            t, log_weight = nodes[head + k], log_weights[head + k]
            a, b = k * m, k * m + m
            one, of_node, more = z[a:b], at[a:b], share[a:b]
            for i in range(m):
                one[i] = mode[i] + t * width[i]
            for i in range(m):
                of_node[i] = min(max(sd[i] * one[i], -_MAX), _MAX) - product[i]
            for i in range(m):
                value, away = of_node[i], abs(one[i] - centre[i])
                of_node[i] = value if away < _FAR else 0.0
            for i in range(m):
                more[i] = log_weight - 0.5 * (one[i] - centre[i]) * (one[i] + centre[i])
                more[i] += hits * of_node[i]
            for i in range(m):
                value, away = more[i], abs(one[i] - centre[i])
                more[i] = value if away < _FAR else -2.0 * _MAX_SINGLE
        for i in range(m):  # The first node is the lowest, and the last one the highest.
            most_far = max(abs(z[i] - centre[i]), abs(z[size - m + i] - centre[i]))
            far = max(far, sd[i] * min(most_far, _FAR))
        if kind == _POISSON:
            _exponential(at, factor, scratch)
            _exponential(product, of_counts[0], of_counts[1])
            for i in range(m):
                total[i] *= of_counts[0, i]
                log_centre[i] -= total[i]
                product[i] = 1.0
            for k in range(K):
                for i in range(m):
                    share[k * m + i] -= total[i] * (factor[k * m + i] - 1.0)
            _exponential(share, at, scratch)
        else:
            factors, ratio, weights = single[0, :size], single[1, :size], single[2, :size]
            _single_exponential(at, factors, ratio)
            step, most = int(_MAX_SINGLE / (far + 1.0)), int(_MAX_PRODUCT / (largest + 1.0))
            steps = max(step, 1), max(most, 1)
            _products(rest, chance, factors, steps, share, ratio, log_centre, product)
            _single_exponential(share, weights, single[3, :size])
            for k in range(size):
                at[k] = weights[k] / np.float64(ratio[k])
            for k in range(size):
                one_of, log_of = at[k], share[k]
                at[k] = one_of if log_of > _MIN_LOG else 0.0
        sums[:] = 0.0
        for k in range(K):
            for i in range(m):
                sums[i] += at[k * m + i]
        for i in range(m):
            values[g, i] = known[i] + log_centre[i] + math.log(sums[i] * width[i] * product[i])
        if order == 0:
            continue
        for k in range(K):
            for i in range(m):
                at[k * m + i] /= sums[i]
        if order == 2:
            moments[g] = 0.0
            moments[g, 4] = 1.0  # Of the second effect, which there is none of.
            for k in range(K):
                for i in range(m):
                    w, one = at[k * m + i], z[k * m + i]
                    moments[g, 0, i] += w * one
                    moments[g, 2, i] += w * one * one
                    moments[g, 5, i] += w * one * one * one
        elif kind == _POISSON:
            sums[:] = 0.0
            for k in range(K):
                for i in range(m):
                    expected = at[k * m + i] * factor[k * m + i]
                    sums[i] += expected * of_counts[0, i]
                    by_factor[i] += z[k * m + i] * (at[k * m + i] * hits - total[i] * expected)
            for j in range(lo, hi):
                _exponential(table[j], of_counts[0], of_counts[1])
                for i in range(m):
                    table[j, i] = weight[j] * (y[j] - of_counts[0, i] * sums[i])
        else:
            for k in range(size):
                weights[k] = at[k]
            _differentiate(
                table[lo:hi], y[lo:hi], rest, chance, factors, weights, share, single[3, :m]
            )
            for k in range(K):
                for i in range(m):
                    by_factor[i] += z[k * m + i] * (at[k * m + i] * hits - share[k * m + i])
