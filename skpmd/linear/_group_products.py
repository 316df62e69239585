"""Integrals over three or four effects of groups where rows need few exponentials for all nodes.

Nodes are all points of a grid along the axes of a group's curvature, so that e^(predictor) of a row
at a node is a product of factors, one for each axis, of which there are few. Of counts the sum of
rates is one of such products, and of single trials the likelihood at the mode over that at a node
is a product over the rows of a + b e^+-(what the node adds); see `skpmd.linear._group_kernels`.
"""

import math

import numpy as np
from numba import njit

from skpmd.linear._group_kernels import _exponential
from skpmd.linear._group_quadrature import integrate_groups

_KERNEL = {
    "cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy",
    "fastmath": {"contract"},
}  # fmt: skip
_INNER = {**_KERNEL, "no_cpython_wrapper": True}
_LANES = 16  # Particles side by side.
_PASSES, _NEAR = 60, 0.2  # As of `integrate_groups`.
_MAX = 250.0  # Exponents beyond are left to the kernels of families,
_MAX_PRODUCT = 600.0  # and logs of products over rows are taken before these are larger.


def integrate_products(family, rows, known, start, rule, rules, order):
    """`integrate_groups` of counts, and of single trials with a logit link."""
    (y, _, weight, starts, x), (table, phi, factor) = rows, known
    (G, q), (m, n) = start.shape, table.shape
    values, by_table, by_factor = np.zeros((G, m)), np.zeros((n, m)), np.zeros((factor.shape[1], m))
    moments = np.zeros((G if order == 2 else 1, 2 * q + len(by_factor), m))
    of_rows = family.name == "poisson", np.ascontiguousarray(table.T), y, weight, starts
    effects = np.column_stack([np.ones(n), x]).T.copy(), np.ascontiguousarray(factor.T), start
    nodes = rules.axis, rules.first_of_axis, rules.nodes.T.copy(), rules.log_weights, rules.first
    integrate(*of_rows, *effects, *nodes, rule, order, values, by_table, by_factor, moments)
    moments = moments.transpose(2, 0, 1) if order == 2 else np.zeros((m, 0, len(moments[0])))
    out = values.T, by_table.T, by_factor.T, np.zeros(phi.shape), moments
    is_far = np.isnan(values).any(axis=0)
    if is_far.any():
        own = table[is_far], phi[is_far], factor[is_far]
        for one, exact in zip(out, integrate_groups(family, rows, own, start, rule, rules, order),
                              strict=True):  # fmt: skip
            one[is_far] = exact
    return out


@njit(**_INNER)
def _search(is_count, eta, y, weight, x, lower, z, root, room):
    """Newton's method from z (q,) to a mode, and the root (q, q) of the precision next to it."""
    (q, n), best = x.shape, -math.inf
    ahead, step, effect, slope, h, p = (
        room[0],
        room[1],
        room[2],
        room[3],
        room[4 : 4 + q],
        room[4 + q :],
    )
    for j in range(q):
        ahead[j], step[j] = z[j], 0.0
    for _ in range(_PASSES):
        value, product = 0.0, 1.0
        for i in range(q):
            value -= 0.5 * ahead[i] * ahead[i]
            effect[i], slope[i] = 0.0, 0.0
            for j in range(q):
                h[i, j] = 0.0
            for j in range(i + 1):
                effect[i] += lower[i, j] * ahead[j]
        for r in range(n):
            at = eta[r]
            for i in range(q):
                at += effect[i] * x[i, r]
            if is_count:
                spread = weight[r] * math.exp(min(at, _MAX))
                value += weight[r] * y[r] * at - spread
                gain = weight[r] * y[r] - spread
            else:
                sign = 1.0 if y[r] > 0.0 else -1.0
                less = math.exp(-abs(at))
                chance = (1.0 if sign * at < 0.0 else less) / (1.0 + less)
                value += min(sign * at, 0.0)
                product *= 1.0 + less
                if r % 512 == 511:
                    value -= math.log(product)
                    product = 1.0
                gain, spread = sign * chance, chance * (1.0 - chance)
            for i in range(q):
                slope[i] += gain * x[i, r]
                for j in range(i + 1):
                    h[i, j] += spread * x[i, r] * x[j, r]
        value -= math.log(product)
        if value >= best - 1e-9 * (1.0 + abs(best)):
            best = value
            for i in range(q):
                z[i] = ahead[i]
                for j in range(i):
                    h[j, i] = h[i, j]
            for i in range(q):  # I + L' H L, and its root.
                for j in range(i + 1):
                    p[i, j] = 1.0 if i == j else 0.0
                    for a in range(i, q):
                        for b in range(j, q):
                            p[i, j] += lower[a, i] * h[a, b] * lower[b, j]
                    for k in range(j):
                        p[i, j] -= root[i, k] * root[j, k]
                    root[i, j] = math.sqrt(p[i, j]) if i == j else p[i, j] / root[j, j]
            length = 0.0
            for j in range(q):
                right = -z[j]
                for i in range(j, q):
                    right += lower[i, j] * slope[i]
                for k in range(j):
                    right -= root[j, k] * effect[k]
                effect[j] = right / root[j, j]
                length += effect[j] * effect[j]
            for j in range(q - 1, -1, -1):
                step[j] = effect[j]
                for k in range(j + 1, q):
                    step[j] -= root[k, j] * step[k]
                step[j] /= root[j, j]
            is_near = length < _NEAR * _NEAR
        else:  # It was past the top.
            length = 0.0
            for j in range(q):
                step[j] *= 0.5
                length += step[j] * step[j]
            is_near = length < 1e-12
        for j in range(q):
            ahead[j] = z[j] + step[j]
        if is_near:
            break
    for j in range(q):
        z[j] = ahead[j]


@njit(**_INNER)
def _place(out, centre, across, z, j, k):
    """Write effect j of particles at node k, in units of its prior."""
    for i in range(_LANES):
        out[i] = centre[i]
    for h in range(j, len(z)):
        at, own = z[h, k], across[h]
        for i in range(_LANES):
            out[i] += own[i] * at


@njit(**_INNER)
def _expand(factors, b, out):
    """Write b times the products of factors (q - 1, N, lanes) of all axes but the last."""
    size, N = 1, factors.shape[1]
    for i in range(_LANES):
        out[0, i] = b[i]
    for axis in range(len(factors) - 1):
        for k in range(size - 1, -1, -1):
            for a in range(N - 1, -1, -1):
                own, given, factor = out[k * N + a], out[k], factors[axis, a]
                for i in range(_LANES):
                    own[i] = given[i] * factor[i]
        size *= N
    return size


@njit(**_INNER)
def _reduce(table, t, size, sums):
    """Write sums (1 + q, lanes) of a table of nodes, and of it times their coordinates."""
    q, N = len(sums) - 1, len(t)
    for axis in range(q - 1, -1, -1):
        size //= N
        more = sums[1 + axis]
        for i in range(_LANES):
            more[i] = 0.0
        for k in range(size):
            whole = sums[0]
            for i in range(_LANES):
                whole[i] = 0.0
            for a in range(N):
                own, at = table[k * N + a], t[a]
                for i in range(_LANES):
                    whole[i] += own[i]
                    more[i] += own[i] * at
            own = table[k]
            for i in range(_LANES):
                own[i] = whole[i]


@njit(**_KERNEL)
def integrate(
    is_count, table, y, weight, starts, x, lower, start, axis, first_of_axis, nodes, log_weights,
    first, rule, order, values, by_table, by_factor, moments,
):  # fmt: skip
    """See `integrate_groups`: of predictors (n, m), with x (q, n) and factors ``lower`` (e, m).

    Rules have nodes ``axis`` along each axis, and all of their points are ``nodes`` (q, N). Where
    exponents are too large integrals are no numbers.
    """
    (q, _), m, longest, most, N_most = x.shape, table.shape[1], 0, 0, 0
    for g in range(len(rule)):
        longest = max(longest, starts[g + 1] - starts[g])
        if rule[g] >= 0:
            most = max(most, first[rule[g] + 1] - first[rule[g]])
            N_most = max(N_most, first_of_axis[rule[g] + 1] - first_of_axis[rule[g]])
    L = _LANES
    # Assignments to slices, and products of arrays, would each compile some functions more.
    eta, mode, root = np.zeros(longest), np.zeros((L, q)), np.zeros((L, q, q))
    tri, back, load = np.zeros((L, q, q)), np.zeros((L, q, q)), np.zeros((L, q, q))
    a, b = np.zeros((longest, L)), np.zeros((longest, L))
    of_factors, scratch = np.zeros(longest * q * N_most * L), np.zeros(longest * q * N_most * L)
    of_share, power = np.zeros(most * L), np.zeros(most * L)
    share, product = of_share.reshape((most, L)), np.zeros((most, L))
    prefix, beside = np.zeros((most, L)), np.zeros((most, L))
    sums, of_rows, gain = np.zeros((q + 1, L)), np.zeros((q, q + 1, L)), np.zeros((q, L))
    constant, total, at_node = np.zeros(L), np.zeros(L), np.zeros((q, L))
    across, centre = np.zeros((q, q, L)), np.zeros((q, L))
    none, all_, room = np.zeros(L), np.zeros(L), np.zeros((4 + 2 * q, q))
    of_moments = np.zeros((moments.shape[1], L))
    for i in range(L):
        all_[i] = 1.0
        for r in range(longest):
            a[r, i] = 1.0
    for low in range(0, m, L):
        some = min(L, m - low)
        for i in range(some):
            e = 0
            for j in range(q):
                for k in range(j + 1):
                    tri[i, j, k] = lower[e, low + i]
                    e += 1
        for g in range(len(rule)):
            if rule[g] < 0:
                continue
            lo, hi, r0 = starts[g], starts[g + 1], rule[g]
            n, t = hi - lo, axis[first_of_axis[r0] : first_of_axis[r0 + 1]]
            N, K, head = len(t), first[r0 + 1] - first[r0], first[r0]
            z, flat, far = nodes[:, head : head + K], of_factors[: n * q * N * L], 0.0
            factors = flat.reshape((n, q, N, L))
            for j in range(q):
                for i in range(L):
                    gain[j, i] = 0.0
            for i in range(some):  # Lanes beyond have what others left there, which nobody reads.
                for r in range(n):
                    eta[r] = table[lo + r, low + i]
                for j in range(q):
                    mode[i, j] = start[g, j]
                _search(
                    is_count,
                    eta,
                    y[lo:hi],
                    weight[lo:hi],
                    x[:, lo:hi],
                    tri[i],
                    mode[i],
                    root[i],
                    room,
                )
                constant[i] = 0.0
                for j in range(q - 1, -1, -1):  # The inverse of the transposed root.
                    constant[i] -= math.log(root[i, j, j]) + 0.5 * mode[i, j] * mode[i, j]
                    for k in range(j, q):
                        one = 1.0 if k == j else 0.0
                        for h in range(j + 1, k + 1):
                            one -= root[i, h, j] * back[i, h, k]
                        back[i, j, k] = one / root[i, j, j]
                        across[j, k, i] = back[i, j, k]
                    centre[j, i] = mode[i, j]
                for j in range(q):
                    for k in range(q):
                        load[i, j, k] = 0.0
                        for h in range(min(j, k) + 1):
                            load[i, j, k] += tri[i, j, h] * back[i, h, k]
                for r in range(n):
                    at, width = eta[r], 0.0
                    for j in range(q):
                        for k in range(j + 1):
                            at += tri[i, j, k] * mode[i, k] * x[j, lo + r]
                    sign = 1.0 if is_count or y[lo + r] <= 0.0 else -1.0
                    if is_count:
                        b[r, i] = weight[lo + r] * math.exp(min(at, _MAX))
                        constant[i] += weight[lo + r] * y[lo + r] * at - b[r, i]
                        a[r, i] = 0.0
                    else:
                        less = math.exp(-abs(at))
                        constant[i] -= math.log(1.0 + less) + max(sign * at, 0.0)
                        b[r, i] = (1.0 if sign * at > 0.0 else less) / (1.0 + less)
                        a[r, i] = 1.0 - b[r, i] if sign * at < 0.0 else less / (1.0 + less)
                    for k in range(q):
                        one = 0.0
                        for j in range(q):
                            one += x[j, lo + r] * load[i, j, k]
                        gain[k, i] += weight[lo + r] * y[lo + r] * one
                        width += abs(one) * t[N - 1]
                        for c in range(N):
                            factors[r, k, c, i] = sign * one * t[c]
                    far = max(far, width) if width == width else math.inf
            if not far < _MAX:
                for i in range(some):
                    values[g, low + i] = math.nan
                continue
            _exponential(flat, flat, scratch)
            chunk = max(1, int(0.5 * _MAX_PRODUCT / (far + 1.0)))
            for k in range(K):
                own, whole = share[k], product[k]
                for i in range(L):
                    own[i], whole[i] = log_weights[head + k], 0.0 if is_count else 1.0
                for j in range(q):
                    _place(at_node[j], centre[j], across[j], z, j, k)
                    for i in range(L):
                        at, of_mode = at_node[j, i], centre[j, i]
                        own[i] -= 0.5 * (at - of_mode) * (at + of_mode)
                    if is_count:
                        for i in range(L):
                            own[i] += gain[j, i] * z[j, k]
            for r in range(n if is_count else 0):
                size = _expand(factors[r], b[r], prefix)
                for k in range(size):
                    given = prefix[k]
                    for c in range(N):
                        whole, factor = product[k * N + c], factors[r, q - 1, c]
                        for i in range(L):
                            whole[i] += given[i] * factor[i]
            for r in range(0, 0 if is_count else n, 2):  # Tables are gone through once for two.
                after = min(r + 1, n - 1)
                size = _expand(factors[r], b[r], prefix)
                _expand(factors[after], b[after] if after > r else none, beside)
                one, two = a[r], a[after] if after > r else all_
                for k in range(size):
                    given, more = prefix[k], beside[k]
                    for c in range(N):
                        whole, factor, f = (
                            product[k * N + c],
                            factors[r, q - 1, c],
                            factors[after, q - 1, c],
                        )
                        for i in range(L):
                            whole[i] *= (one[i] + given[i] * factor[i]) * (two[i] + more[i] * f[i])
                if (r // 2) % chunk == chunk - 1 and r < n - 2:
                    for k in range(K):
                        own, whole = share[k], product[k]
                        for i in range(L):
                            own[i] -= math.log(whole[i])
                            whole[i] = 1.0
            if is_count:
                for i in range(L):
                    total[i] = 0.0
                    for r in range(n):
                        total[i] += b[r, i]
                for k in range(K):
                    own, whole = share[k], product[k]
                    for i in range(L):
                        own[i] -= whole[i] - total[i]
            flat = of_share[: K * L]
            _exponential(flat, flat, power)
            for i in range(L):
                total[i] = 0.0
            for k in range(K):
                own, whole = share[k], product[k]
                if not is_count:
                    for i in range(L):
                        own[i] /= whole[i]
                for i in range(L):
                    total[i] += own[i]
            for i in range(some):
                values[g, low + i] = constant[i] + math.log(total[i])
            if order == 0:
                continue
            for k in range(K):
                own = share[k]
                for i in range(L):
                    own[i] /= total[i]
            if order == 2:
                for e in range(len(of_moments)):
                    for i in range(L):
                        of_moments[e, i] = 0.0
                for k in range(K):
                    own, e = share[k], q
                    for j in range(q):
                        one, mean, cube = at_node[j], of_moments[j], of_moments[j - q]
                        _place(one, centre[j], across[j], z, j, k)
                        for i in range(L):
                            mean[i] += own[i] * one[i]
                            cube[i] += own[i] * one[i] * one[i] * one[i]
                        for h in range(j + 1):
                            square, more = of_moments[e], at_node[h]
                            for i in range(L):
                                square[i] += own[i] * one[i] * more[i]
                            e += 1
                for e in range(len(of_moments)):
                    for i in range(some):
                        moments[g, e, low + i] = of_moments[e, i]
                continue
            for j in range(q):
                for k in range(q + 1):
                    for i in range(L):
                        of_rows[j, k, i] = 0.0
            if is_count:
                for k in range(K):
                    for i in range(L):
                        beside[k, i] = share[k, i]
                _reduce(beside, t, K, sums)
                for j in range(q):
                    for i in range(L):
                        gain[j, i] = sums[1 + j, i]
            for r in range(n):
                size, of_a = _expand(factors[r], b[r], prefix), a[r]
                for k in range(size):
                    given = prefix[k]
                    for c in range(N):
                        w, out, factor = share[k * N + c], product[k * N + c], factors[r, q - 1, c]
                        if is_count:
                            for i in range(L):
                                out[i] = w[i] * given[i] * factor[i]
                        else:
                            for i in range(L):
                                against = given[i] * factor[i]
                                out[i] = w[i] * against / (of_a[i] + against)
                _reduce(product, t, K, sums)
                if is_count:
                    often = weight[lo + r] * y[lo + r]
                    for i in range(L):
                        sums[0, i] = often - sums[0, i]
                        for j in range(q):
                            sums[1 + j, i] = often * gain[j, i] - sums[1 + j, i]
                elif y[lo + r] <= 0.0:
                    for k in range(q + 1):
                        for i in range(L):
                            sums[k, i] = -sums[k, i]
                for i in range(some):
                    by_table[lo + r, low + i] = sums[0, i]
                for j in range(q):
                    for k in range(q + 1):
                        for i in range(L):
                            of_rows[j, k, i] += x[j, lo + r] * sums[k, i]
            for i in range(some):
                e = 0
                for j in range(q):
                    for k in range(j + 1):
                        one = mode[i, k] * of_rows[j, 0, i]
                        for h in range(k, q):
                            one += back[i, k, h] * of_rows[j, 1 + h, i]
                        by_factor[e, low + i] += one
                        e += 1
