"""Integrals over groups' intercepts where rows need one exponential for all nodes.

e^(predictor + effect) is a product: of counts a sum over a group's rows is one number, and of
single trials the likelihood at a centre over that at a node is a product over the rows of
a + b e^+-(node - centre), where a is the probability at the centre of what was observed, and
b = 1 - a. These are in single precision, whose errors are of rows and not of their sum.

What there is once of each particle lies in one array, a quantity a stretch of it: loops over such
are compiled, and made of vectors, in a fraction of the time that arrays of their own take.
"""

import math

import numpy as np
from numba import njit

_f = np.float32
_KERNEL = {
    "cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy",
    "fastmath": {"contract"},
}  # fmt: skip
_INNER = {**_KERNEL, "no_cpython_wrapper": True}  # Of what this file alone calls.
LANES = 128  # Particles side by side, at most.
_PASSES, _NEAR = 60, 0.25  # Of searches for modes, and their last step in sds: nodes may be so far.
_MAX = 40.0  # Predictors and effects beyond are held there, where e^-z is next to nothing.
_MAX_SINGLE, _CHUNKS = 80.0, 8  # Logs of products are to be smaller, in single precision.
_FAR = 11.0  # From a centre in prior sds; nodes beyond add nothing.
# What nodes add to a sum, next to a centre's, that is as good as nothing.
_MIN_ADDED = _f(1e-33)
# Of each particle: sd of effects, mode, the centre, where the last step of the search began, the
# precision there and later the width, ends of where the mode is, derivatives, the effect at the
# centre, and sums.
_SD, _MODE, _CENTRE, _WIDTH, _LOW, _HIGH, _GAIN, _SPREAD, _EFFECT, _SUM, _LOG, _TOTAL, _END = range(
    0, 13 * LANES, LANES
)


@njit(**_INNER)
def _exponential(x, out, scratch):
    """e^x of any numbers; see the kernel of this name in `skpmd.linear._kernels`."""
    bits = scratch.view(np.int64)
    magic, most = 6755399441055744.0, 600.0
    for j in range(len(x)):
        at = min(max(x[j], -most), most)
        scratch[j] = at * 1.4426950408889634 + magic
        k = scratch[j] - magic
        r = at - k * 0.693147180369123816490
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
        p = 1.0 + r * p
        bits[j] = (bits[j] + 1023) << 52
        out[j] = p * scratch[j]


@njit(**_INNER)
def _raise(table, scratch):
    """e^x in place, of a table of numbers held within +-80, in single precision."""
    magic = _f(12582912.0)
    for k in range(len(table)):
        x, power, bits = table[k], scratch[k], scratch[k].view(np.int32)
        for j in range(len(x)):
            at = min(max(x[j], _f(-_MAX_SINGLE)), _f(_MAX_SINGLE))
            power[j] = at * _f(1.44269504) + magic
            k_of = power[j] - magic
            r = at - k_of * _f(0.693359375) + k_of * _f(2.12194440e-4)
            p = _f(1 / 720.0) + r * _f(1 / 5040.0)
            p = _f(1 / 120.0) + r * p
            p = _f(1 / 24.0) + r * p
            p = _f(1 / 6.0) + r * p
            p = _f(0.5) + r * p
            p = _f(1.0) + r * p
            p = _f(1.0) + r * p
            bits[j] = (bits[j] + 127) << 23
            x[j] = p * power[j]


@njit(**_INNER)
def _raise_both(up, down):
    """e^x in place, and e^-x."""
    _raise(up, down)
    for k in range(len(up)):
        x, inverse = up[k], down[k]
        for j in range(len(x)):
            inverse[j] = _f(1.0) / x[j]


# ------------------------------------------------------------------- of both kinds
@njit(**_INNER)
def _advance(v, m, step):
    """A step of Newton's method to the modes of m particles, and how many are not near them."""
    n_far = 0
    for i in range(m):
        sd, at = v[_SD + i], v[_MODE + i]
        slope, precision = sd * v[_GAIN + i] - at, 1.0 + sd * sd * v[_SPREAD + i]
        move = slope / precision
        v[_CENTRE + i], v[_WIDTH + i], v[_MODE + i] = at, precision, at + move
        n_far += 0 if slope * move < _NEAR * _NEAR else 1
    if n_far > 0:
        for i in range(m):
            at, z, precision = v[_CENTRE + i], v[_MODE + i], v[_WIDTH + i]
            slope = (z - at) * precision
            if slope * slope >= _NEAR * _NEAR * precision:
                v[_LOW + i if slope > 0.0 else _HIGH + i] = at
                low, high = v[_LOW + i], v[_HIGH + i]
                is_slow = step % 4 == 3 and high - low < math.inf
                if is_slow or not low < z < high:
                    v[_MODE + i] = 0.5 * (low + high)
    return n_far


@njit(**_INNER)
def _place(v, m, hits, rule, z, at, share):
    """Write nodes (K, m), how far their effects are from a centre's, and logs of their shares.

    Returns how far the effect of a node is, at most. ``rule`` (2, K) are nodes and logs of weights.
    """
    (K, _), far = z.shape, 0.0
    for i in range(m):
        v[_WIDTH + i] = 1.0 / math.sqrt(v[_WIDTH + i])
        v[_EFFECT + i] = min(max(v[_SD + i] * v[_CENTRE + i], -_MAX), _MAX)
    for k in range(K):
        t, log_weight, own, gaps, shares = rule[0, k], rule[1, k], z[k], at[k], share[k]
        for i in range(m):
            centre, one = v[_CENTRE + i], v[_MODE + i] + t * v[_WIDTH + i]
            gap = min(max(v[_SD + i] * one, -_MAX), _MAX) - v[_EFFECT + i]
            more = log_weight + hits * gap - 0.5 * (one - centre) * (one + centre)
            is_near = abs(one - centre) < _FAR
            own[i] = one
            gaps[i] = gap if is_near else 0.0
            shares[i] = more if is_near else -2.0 * _MAX_SINGLE
    for i in range(m):  # The first node is the lowest, and the last one the highest.
        most = max(abs(z[0, i] - v[_CENTRE + i]), abs(z[K - 1, i] - v[_CENTRE + i]))
        far = max(far, v[_SD + i] * min(most, _FAR))
    return far


@njit(**_INNER)
def _add_shares(v, m, share, z, order, moments):
    """Sum shares (K, m) over the nodes; from order 1 on they are parts of 1. Moments at order 2."""
    for i in range(m):
        v[_SUM + i] = 0.0
    for k in range(len(share)):
        own = share[k]
        for i in range(m):
            v[_SUM + i] += own[i]
    for k in range(len(share) if order > 0 else 0):
        own = share[k]
        for i in range(m):
            own[i] /= v[_SUM + i]
    if order == 2:
        first, second, third = moments[0], moments[1], moments[2]
        for i in range(m):
            first[i], second[i], third[i] = 0.0, 0.0, 0.0
        for k in range(len(share)):
            own, at = share[k], z[k]
            for i in range(m):
                w = own[i] * at[i]
                first[i] += w
                second[i] += w * at[i]
                third[i] += w * at[i] * at[i]


# ------------------------------------------------------------------- single trials
@njit(**_INNER)
def _predict(x, base, out, largest):
    """Write what a row x (w,) makes of coefficients (w, m), held within bounds, and the largest."""
    m, w = len(out), len(x)
    for i in range(m):
        out[i] = _f(0.0)
    for k in range(0, w - 5, 6):
        x0, x1, x2, x3, x4, x5 = x[k], x[k + 1], x[k + 2], x[k + 3], x[k + 4], x[k + 5]
        b0, b1, b2, b3, b4, b5 = (
            base[k],
            base[k + 1],
            base[k + 2],
            base[k + 3],
            base[k + 4],
            base[k + 5],
        )
        for i in range(m):
            one = x0 * b0[i] + x1 * b1[i] + x2 * b2[i]
            out[i] += one + (x3 * b3[i] + x4 * b4[i] + x5 * b5[i])
    for k in range(w - w % 6, w):
        x0, b0 = x[k], base[k]
        for i in range(m):
            out[i] += x0 * b0[i]
    for i in range(m):
        out[i] = min(max(out[i], _f(-_MAX)), _f(_MAX))
        largest[i] = max(largest[i], abs(out[i]))


@njit(**_INNER)
def _probabilities(raised, y, up, down, rest, chance, sums):
    """Write probabilities of what is observed and of its opposite, (n, m); sum derivatives up.

    ``raised`` (n, m) are odds against what is observed, of an effect of zero; ``up`` (m,)
    multiplies them where y is 0, and ``down`` where it is 1.
    """
    n, m = raised.shape
    for i in range(2 * LANES):
        sums[i] = _f(0.0)
    for j in range(n):
        odds, q, p = raised[j], rest[j], chance[j]
        f, sign = (down, _f(1.0)) if y[j] > 0.0 else (up, _f(-1.0))
        for i in range(m):
            against = odds[i] * f[i]
            inverse = _f(1.0) / (_f(1.0) + against)
            q[i], p[i] = inverse, against * inverse
        for i in range(m):
            sums[i] += sign * p[i]
            sums[LANES + i] += p[i] * q[i]


@njit(**_INNER)
def _multiply(y, rest, chance, up, down, chunk, ratio, product, share, v):
    """Write products over rows of nodes' ratios, and of probabilities at the centre, (K + 1, m).

    So many rows as a chunk have products that are numbers in single precision; logs of earlier
    ones of many go to ``share`` and that of the centre. Probabilities (n + 1, m) end with a row
    that changes nothing, for rows are taken by two, and factors (K + 1, m) with the centre's, which
    are zero.
    """
    n, (K, m) = len(y), product.shape
    for k in range(K):
        whole = product[k]
        for i in range(m):
            whole[i] = 1.0
    for first in range(0, n, chunk):
        end = min(first + chunk, n)
        for k in range(K):
            own, whole = ratio[k], product[k]
            for i in range(m):
                own[i] = _f(1.0)
        for j in range(first, end, 2):
            after = j + 1 if j + 1 < end else n
            q, p, factors = rest[j], chance[j], down if y[j] > 0.0 else up
            r, o, others = rest[after], chance[after], down if y[min(after, n - 1)] > 0.0 else up
            for k in range(K):
                own, f, g = ratio[k], factors[k], others[k]
                for i in range(m):
                    own[i] *= (q[i] + p[i] * f[i]) * (r[i] + o[i] * g[i])
        is_last = (first // chunk) % _CHUNKS == _CHUNKS - 1
        for k in range(K):
            own, whole = ratio[k], product[k]
            for i in range(m):
                whole[i] *= own[i]
            if is_last:
                for i in range(m):
                    if k < K - 1:
                        share[k, i] -= math.log(whole[i])
                    else:  # It is of so many digits as the sum.
                        v[_LOG + i] += math.log(whole[i])
                    whole[i] = 1.0


@njit(**_INNER)
def _differentiate(table, y, rest, chance, up, down, share, by_node):
    """Write derivatives by predictors of single trials, and sums of expected ones by node."""
    K, m = share.shape
    for k in range(K):
        total = by_node[k]
        for i in range(m):
            total[i] = 0.0
    for j in range(len(y)):
        q, p, row = rest[j], chance[j], table[j]
        factors, sign = (down, _f(1.0)) if y[j] > 0.0 else (up, _f(-1.0))
        for i in range(m):
            row[i] = 0.0
        for k in range(K):
            f, w, total = factors[k], share[k], by_node[k]
            for i in range(m):
                against = p[i] * f[i]
                more = sign * w[i] * against / (q[i] + against)
                row[i] += more
                total[i] += more


@njit(**_KERNEL)
def integrate_trials(
    design, y, starts, base, sd, start, rules, first, rule, order,
    values, table, by_factor, moments,
):  # fmt: skip
    """`integrate_groups` of intercepts, of single trials with a logit link and a weight of one.

    Particles are B blocks of m. Their odds' logarithms, against what is observed, are those of rows
    ``design`` (n, w) times ``base`` (B, w, m), in single precision; effects have the ``sd`` (B, m).
    Integrals ``values`` are (B, G, m), derivatives by predictors ``table`` (B, n, m), by sds
    ``by_factor`` (B, m), and ``moments`` of first, second and third order are (B, G, 3, m).
    """
    (B, _, m), most, longest = base.shape, 0, 0
    for g in range(len(rule)):
        if rule[g] >= 0:
            most = max(most, first[rule[g] + 1] - first[rule[g]])
            longest = max(longest, starts[g + 1] - starts[g])
    of_rows, single = (
        np.empty((3, longest + 1, m), np.float32),
        np.empty((4, most + 1, m), np.float32),
    )
    of_nodes, w32, v = np.empty((3, most + 1, m)), np.empty(2 * LANES, np.float32), np.empty(_END)
    factor, largest = np.empty((2, 1, m), np.float32), np.empty(m, np.float32)
    up, down = factor[0], factor[1]
    for b in range(B):
        own, of_factor = base[b], by_factor[b]
        for i in range(m):
            v[_SD + i] = sd[b, i]
        for g in range(len(rule)):
            if rule[g] < 0:
                continue
            lo, hi, head, tail = starts[g], starts[g + 1], first[rule[g]], first[rule[g] + 1]
            n, K, own_y = hi - lo, tail - head, y[lo:hi]
            raised, rest, chance = of_rows[0, :n], of_rows[1, : n + 1], of_rows[2, : n + 1]
            last, least = rest[n], chance[n]
            for i in range(m):
                v[_MODE + i], v[_LOW + i], v[_HIGH + i] = start[g], -math.inf, math.inf
                largest[i], last[i], least[i] = _f(0.0), _f(1.0), _f(0.0)
            for j in range(n):
                _predict(design[lo + j], own, raised[j], largest)
            _raise(raised, chance)
            for step in range(_PASSES):
                for i in range(m):
                    up[0, i] = _f(min(max(v[_SD + i] * v[_MODE + i], -_MAX), _MAX))
                _raise_both(up, down)
                _probabilities(raised, own_y, up[0], down[0], rest, chance, w32)
                for i in range(m):
                    v[_GAIN + i], v[_SPREAD + i] = w32[i], w32[LANES + i]
                if _advance(v, m, step) == 0:
                    break
            z, at, product = of_nodes[0, :K], of_nodes[1, :K], of_nodes[2, : K + 1]
            share, ratio = single[0, :K], single[1, : K + 1]
            ups, downs, of_centre = single[2, : K + 1], single[3, : K + 1], product[K]
            far = _place(v, m, 0.0, rules[:, head:tail], z, ups, share)
            _raise_both(ups, downs)
            last, least = ups[K], downs[K]
            for i in range(m):
                last[i], least[i] = _f(0.0), _f(0.0)
                v[_LOG + i] = -0.5 * v[_CENTRE + i] * v[_CENTRE + i]
                far = max(far, largest[i] + abs(v[_EFFECT + i]))
            chunk = max(1, int(_MAX_SINGLE / (far + 1.0)))
            _multiply(own_y, rest, chance, ups, downs, chunk, ratio, product, share, v)
            _raise(share, ratio)
            for k in range(K):
                one, whole, shares = share[k], product[k], at[k]
                for i in range(m):
                    shares[i] = one[i] / whole[i] if one[i] > _MIN_ADDED else 0.0
            _add_shares(v, m, at, z, order, moments[b, g if order == 2 else 0])
            for i in range(m):
                total = v[_SUM + i] * v[_WIDTH + i] * of_centre[i]
                values[b, g, i] = v[_LOG + i] + math.log(total)
            if order == 1:
                for k in range(K):
                    one, shares = share[k], at[k]
                    for i in range(m):
                        one[i] = shares[i]
                _differentiate(table[b, lo:hi], own_y, rest, chance, ups, downs, share, at)
                for k in range(K):
                    nodes, shares = z[k], at[k]
                    for i in range(m):
                        of_factor[i] += nodes[i] * shares[i]


# ------------------------------------------------------------------- counts
@njit(**_KERNEL)
def integrate_counts(
    table, y, weight, starts, sd, start, rules, first, rule, order, values, by_factor, moments
):
    """The same of counts with an exponential link, of predictors ``table`` (B, n, m).

    These are written over, with derivatives by them at order 1.
    """
    (B, _, m), most = table.shape, 0
    for g in range(len(rule)):
        if rule[g] >= 0:
            most = max(most, first[rule[g] + 1] - first[rule[g]])
    of_nodes, of_rows, v = np.empty((5, most, m)), np.empty((5, m)), np.empty(_END)
    one, rate, scratch, known, total = (
        of_rows[0], of_rows[1], of_rows[2], of_rows[3], of_rows[4]
    )  # fmt: skip
    for b in range(B):
        for i in range(m):
            v[_SD + i] = sd[b, i]
        for g in range(len(rule)):
            if rule[g] < 0:
                continue
            lo, hi, head, tail = starts[g], starts[g + 1], first[rule[g]], first[rule[g] + 1]
            hits, K = 0.0, tail - head
            size = K * m
            z, at, share = of_nodes[0, :K], of_nodes[1, :K], of_nodes[2, :K]
            factor, more = of_nodes[3, :K], of_nodes[4, :K].reshape(size)
            for i in range(m):
                known[i], total[i] = 0.0, 0.0
                v[_MODE + i], v[_LOW + i], v[_HIGH + i] = start[g], -math.inf, math.inf
            for j in range(lo, hi):
                row, often, wy = table[b, j], weight[j], weight[j] * y[j]
                hits += wy
                for i in range(m):
                    row[i] = min(max(row[i], -_MAX), _MAX)
                    known[i] += wy * row[i]
                _exponential(row, rate, scratch)
                for i in range(m):
                    total[i] += often * rate[i]
            for step in range(_PASSES):
                for i in range(m):
                    one[i] = min(max(v[_SD + i] * v[_MODE + i], -_MAX), _MAX)
                _exponential(one, rate, scratch)
                for i in range(m):
                    v[_SPREAD + i] = total[i] * rate[i]
                    v[_GAIN + i] = hits - v[_SPREAD + i]
                if _advance(v, m, step) == 0:
                    break
            _place(v, m, hits, rules[:, head:tail], z, at, share)
            for i in range(m):  # The centre is where the last step of the search began.
                v[_TOTAL + i], v[_GAIN + i] = v[_SPREAD + i], rate[i]
                centre = hits * v[_EFFECT + i] - 0.5 * v[_CENTRE + i] * v[_CENTRE + i]
                v[_LOG + i] = known[i] + centre - v[_TOTAL + i]
            _exponential(at.reshape(size), factor.reshape(size), more)
            for k in range(K):
                shares, f = share[k], factor[k]
                for i in range(m):
                    shares[i] -= v[_TOTAL + i] * (f[i] - 1.0)
            _exponential(share.reshape(size), at.reshape(size), more)
            _add_shares(v, m, at, z, order, moments[b, g if order == 2 else 0])
            for i in range(m):
                values[b, g, i] = v[_LOG + i] + math.log(v[_SUM + i] * v[_WIDTH + i])
            if order != 1:
                continue
            for i in range(m):
                v[_SUM + i] = 0.0
            own = by_factor[b]
            for k in range(K):
                f, w, nodes = factor[k], at[k], z[k]
                for i in range(m):
                    expected = w[i] * f[i]
                    v[_SUM + i] += expected * v[_GAIN + i]
                    own[i] += nodes[i] * (w[i] * hits - v[_TOTAL + i] * expected)
            for j in range(lo, hi):
                row = table[b, j]
                _exponential(row, rate, scratch)
                for i in range(m):
                    row[i] = weight[j] * (y[j] - rate[i] * v[_SUM + i])
