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
_LEAST = _f(1e-33)  # What nodes add to a sum, next to a centre's, that is as good as nothing.
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
def _raise(x, scratch):
    """e^x in place, of numbers that are held within +-80, in single precision."""
    bits, magic = scratch.view(np.int32), _f(12582912.0)
    for j in range(len(x)):
        x[j] = min(max(x[j], _f(-_MAX_SINGLE)), _f(_MAX_SINGLE))
        scratch[j] = x[j] * _f(1.44269504) + magic
    for j in range(len(x)):
        k = scratch[j] - magic
        r = x[j] - k * _f(0.693359375) + k * _f(2.12194440e-4)
        p = _f(1 / 720.0) + r * _f(1 / 5040.0)
        p = _f(1 / 120.0) + r * p
        p = _f(1 / 24.0) + r * p
        p = _f(1 / 6.0) + r * p
        p = _f(0.5) + r * p
        p = _f(1.0) + r * p
        x[j] = _f(1.0) + r * p
    for j in range(len(x)):
        bits[j] = (bits[j] + 127) << 23
    for j in range(len(x)):
        x[j] *= scratch[j]


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
    """Sum shares (K, m) over the nodes; they are of the sums from order 1 on. Moments at order 2."""
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
        moments[:] = 0.0
        for k in range(len(share)):
            own, at = share[k], z[k]
            for i in range(m):
                w = own[i] * at[i]
                first[i] += w
                second[i] += w * at[i]
                third[i] += w * at[i] * at[i]


# ------------------------------------------------------------------- single trials
@njit(**_INNER)
def _predict(x, base, out):
    """Write what a row x (w,) makes of coefficients (w, m), held within bounds, (m,)."""
    m, w = len(out), len(x)
    for i in range(m):
        out[i] = _f(0.0)
    for k in range(0, w - 5, 6):
        x0, x1, x2, x3, x4, x5 = x[k], x[k + 1], x[k + 2], x[k + 3], x[k + 4], x[k + 5]
        b0, b1, b2, b3, b4, b5 = base[k], base[k + 1], base[k + 2], base[k + 3], base[k + 4], base[k + 5]
        for i in range(m):
            one = x0 * b0[i] + x1 * b1[i] + x2 * b2[i]
            out[i] += one + (x3 * b3[i] + x4 * b4[i] + x5 * b5[i])
    for k in range(w - w % 6, w):
        x0, b0 = x[k], base[k]
        for i in range(m):
            out[i] += x0 * b0[i]
    for i in range(m):
        out[i] = min(max(out[i], _f(-_MAX)), _f(_MAX))


@njit(**_INNER)
def _probabilities(raised, y, factor, rest, chance, sums):
    """Write probabilities of what is observed and of its opposite, (n, m); sum derivatives up.

    ``raised`` (n, m) are odds against what is observed, of an effect of zero; ``factor`` (2, m)
    multiplies them where y is 0, and where it is 1.
    """
    n, m = raised.shape
    for i in range(2 * LANES):
        sums[i] = _f(0.0)
    for j in range(n):
        odds, q, p = raised[j], rest[j], chance[j]
        hit = int(y[j])
        f, sign = factor[hit], _f(2 * hit - 1)
        for i in range(m):
            against = odds[i] * f[i]
            inverse = _f(1.0) / (_f(1.0) + against)
            q[i], p[i] = inverse, against * inverse
        for i in range(m):
            sums[i] += sign * p[i]
            sums[LANES + i] += p[i] * q[i]


@njit(**_INNER)
def _multiply(y, rest, chance, factor, chunk, ratio, product, share, v):
    """Write products over rows: of nodes' ratios (K, m), and last of ``rest``.

    So many rows as a chunk have products that are numbers in single precision; logs of earlier
    ones of many go to ``share`` (K, m) and to those of the centre.
    """
    (n, m), K = rest.shape, len(ratio) - 1
    products, ratios = product.reshape(K * m + m), ratio.reshape(K * m + m)
    last, of_last = ratio[K], product[K]
    products[:] = 1.0
    for first in range(0, n, chunk):
        ratios[:] = _f(1.0)
        end = min(first + chunk, n)
        for j in range(first, end - 1, 2):  # By two, for half the passes over products.
            q, p, factors = rest[j], chance[j], factor[int(y[j])]
            r, o, others = rest[j + 1], chance[j + 1], factor[int(y[j + 1])]
            for k in range(K):
                own, f, g = ratio[k], factors[k], others[k]
                for i in range(m):
                    own[i] *= (q[i] + p[i] * f[i]) * (r[i] + o[i] * g[i])
            for i in range(m):
                last[i] *= q[i] * r[i]
        if (end - first) % 2 == 1:
            q, p, factors = rest[end - 1], chance[end - 1], factor[int(y[end - 1])]
            for k in range(K):
                own, f = ratio[k], factors[k]
                for i in range(m):
                    own[i] *= q[i] + p[i] * f[i]
            for i in range(m):
                last[i] *= q[i]
        for k in range(len(products)):
            products[k] *= ratios[k]
        if (first // chunk) % _CHUNKS == _CHUNKS - 1:
            for i in range(m):
                v[_LOG + i] += math.log(of_last[i])
                for k in range(K):
                    share[k, i] -= math.log(product[k, i])
            products[:] = 1.0


@njit(**_INNER)
def _differentiate(table, y, rest, chance, factor, share, by_node):
    """Write derivatives by predictors of single trials, and sums of expected ones by node."""
    n, m = rest.shape
    of_node = np.empty(m, np.float32)
    by_node[:] = 0.0
    for j in range(n):
        hit = int(y[j])
        q, p, factors, sign, row = rest[j], chance[j], factor[hit], _f(2 * hit - 1), table[j]
        row[:] = 0.0
        for k in range(len(share)):
            f, w, total = factors[k], share[k], by_node[k]
            for i in range(m):
                against = p[i] * f[i]
                of_node[i] = sign * w[i] * against / (q[i] + against)
            for i in range(m):
                row[i] += of_node[i]
                total[i] += of_node[i]


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
    of_rows, factors = np.empty((3, longest, m), np.float32), np.empty(2 * most * m, np.float32)
    of_nodes, single = np.empty((3, most + 1, m)), np.empty((2, most + 1, m), np.float32)
    factor, w32, v = np.empty((2, m), np.float32), np.empty(3 * LANES, np.float32), np.empty(_END)
    for b in range(B):
        own = base[b]
        for i in range(m):
            v[_SD + i] = sd[b, i]
        for g in range(len(rule)):
            if rule[g] < 0:
                continue
            lo, hi, head, tail = starts[g], starts[g + 1], first[rule[g]], first[rule[g] + 1]
            n, K = hi - lo, tail - head
            size = K * m
            raised, rest, chance = of_rows[0, :n], of_rows[1, :n], of_rows[2, :n]
            for i in range(m):
                w32[2 * LANES + i] = _f(0.0)
            for j in range(n):
                one = raised[j]
                _predict(design[lo + j], own, one)
                for i in range(m):
                    w32[2 * LANES + i] = max(w32[2 * LANES + i], abs(one[i]))
            _raise(raised.reshape(n * m), rest.reshape(n * m))
            for i in range(m):
                v[_MODE + i], v[_LOW + i], v[_HIGH + i] = start[g], -math.inf, math.inf
            for step in range(_PASSES):
                up, down = factor[0], factor[1]
                for i in range(m):
                    up[i] = _f(min(max(v[_SD + i] * v[_MODE + i], -_MAX), _MAX))
                _raise(up, w32[:m])
                for i in range(m):
                    down[i] = _f(1.0) / up[i]
                _probabilities(raised, y[lo:hi], factor, rest, chance, w32)
                for i in range(m):
                    v[_GAIN + i], v[_SPREAD + i] = w32[i], w32[LANES + i]
                if _advance(v, m, step) == 0:
                    break
            z, at, product = of_nodes[0, :K], of_nodes[1, :K], of_nodes[2, : K + 1]
            share, ratio = single[0, :K], single[1, : K + 1]
            both = factors[: 2 * size].reshape(2, K, m)
            far = _place(v, m, 0.0, rules[:, head:tail], z, both[0], share)
            ups, downs = both[0].reshape(size), both[1].reshape(size)
            _raise(ups, downs)
            for k in range(size):
                downs[k] = _f(1.0) / ups[k]
            for i in range(m):
                far = max(far, w32[2 * LANES + i] + abs(v[_EFFECT + i]))
                v[_LOG + i] = -0.5 * v[_CENTRE + i] * v[_CENTRE + i]
            chunk = max(1, int(_MAX_SINGLE / (far + 1.0)))
            _multiply(y[lo:hi], rest, chance, both, chunk, ratio, product, share, v)
            w, shares = share.reshape(size), at.reshape(size)
            products, of_rest = product.reshape(size + m), product[K]
            _raise(w, ratio.reshape(size + m)[:size])
            for k in range(size):
                more = w[k] / products[k]
                shares[k] = more if w[k] > _LEAST else 0.0
            _add_shares(v, m, at, z, order, moments[b, g if order == 2 else 0])
            for i in range(m):
                total = v[_SUM + i] * v[_WIDTH + i] * of_rest[i]
                values[b, g, i] = v[_LOG + i] + math.log(total)
            if order == 1:
                for k in range(size):
                    w[k] = shares[k]
                _differentiate(table[b, lo:hi], y[lo:hi], rest, chance, both, share, at)
                own_sum = by_factor[b]
                for k in range(K):
                    nodes, more_of = z[k], at[k]
                    for i in range(m):
                        own_sum[i] += nodes[i] * more_of[i]


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
    of_nodes, of_rows, v = np.empty((5, most, m)), np.empty((3, m)), np.empty(_END)
    one, rate, scratch = of_rows[0], of_rows[1], of_rows[2]
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
                v[_LOG + i], v[_TOTAL + i] = 0.0, 0.0
                v[_MODE + i], v[_LOW + i], v[_HIGH + i] = start[g], -math.inf, math.inf
            for j in range(lo, hi):
                row, often, wy = table[b, j], weight[j], weight[j] * y[j]
                hits += wy
                for i in range(m):
                    row[i] = min(max(row[i], -_MAX), _MAX)
                    v[_LOG + i] += wy * row[i]
                _exponential(row, rate, scratch)
                for i in range(m):
                    v[_TOTAL + i] += often * rate[i]
            for step in range(_PASSES):
                for i in range(m):
                    one[i] = min(max(v[_SD + i] * v[_MODE + i], -_MAX), _MAX)
                _exponential(one, rate, scratch)
                for i in range(m):
                    v[_SPREAD + i] = v[_TOTAL + i] * rate[i]
                    v[_GAIN + i] = hits - v[_SPREAD + i]
                if _advance(v, m, step) == 0:
                    break
            _place(v, m, hits, rules[:, head:tail], z, at, share)
            for i in range(m):  # The centre is where the last step of the search began.
                v[_TOTAL + i], v[_GAIN + i] = v[_SPREAD + i], rate[i]
                centre = hits * v[_EFFECT + i] - 0.5 * v[_CENTRE + i] * v[_CENTRE + i]
                v[_LOG + i] += centre - v[_TOTAL + i]
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
