"""Integrals over groups' effects of classes, one for each class but the first.

At a group's mode row r has class k with probability p_rk, and at a node, whose effects are e_k more
there, its likelihood is that at the mode times e^e_k / sum_l p_rl e^e_l: a row needs no exponential
at a node, and rows together one logarithm. Loops over nodes are innermost, for these are many.
"""

import math

import numpy as np
from numba import njit

from skpmd.linear._group_kernels import _exponential

_KERNEL = {
    "cache": True, "nogil": True, "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
}  # fmt: skip
# Of searches for modes, and their last step but one in sds: without derivatives, and with such, for
# second ones are differences of what nodes around a mode make.
_PASSES, _NEAR, _NEARER = 60, 0.1, 1e-4
_FAR = 300.0  # Logits and effects are no further from each other.


@njit(**_KERNEL)
def integrate_classes(
    table, y, weight, starts, sd, start, rules, first, rule, order, values, by_sd, moments
):  # fmt: skip
    """Logs of integrals of groups' rows over effects sd_k z_k, z ~ N(0, I), of classes k > 0.

    ``table`` (m, K, n) are logits without effects, y (n,) codes of classes. Group g has rows from
    ``starts[g]`` on, and the search for its mode begins at ``start[g]``. Particle i has the nodes
    ``rules`` (q + 2, N) from ``first[rule[i]]`` on: places, logs of the density of N(0, I) there
    but for the sign and a constant, and weights, which need not be positive.

    Writes ``values`` (m, G); from order 1 on derivatives over the logits, and ``by_sd`` (m, q); at
    order 2 averages of z, of products of two, row by row of the lower triangle, and of cubes,
    ``moments`` (m, G, q (q + 3) / 2 + q).
    """
    (m, K, _), q, most, longest = table.shape, table.shape[1] - 1, 0, 1
    for i in range(m):
        most = max(most, first[rule[i] + 1] - first[rule[i]])
    for g in range(len(start)):
        longest = max(longest, starts[g + 1] - starts[g])
    p, hits, raised, total = np.empty((K, longest)), np.empty(K), np.ones(K), np.empty(longest)
    z, ahead, step, slope, root = np.empty(q), np.empty(q), np.empty(q), np.empty(q), np.eye(q)
    spread, back, chance = np.empty((q, q)), np.empty((q, q)), np.empty((q, longest))
    nodes, gap, by_node = np.empty((q, most)), np.ones((K, most)), np.empty((K, most))
    share, sums, product = np.empty(most), np.empty(most), np.empty(most)
    near = _NEARER if order == 1 else _NEAR
    for i in range(m):
        for g in range(len(start)):
            lo, n = starts[g], starts[g + 1] - starts[g]
            # Probabilities without effects, and what all nodes have in common.
            base = 0.0
            hits[:] = 0.0
            for r in range(n):
                largest, own, w = -math.inf, int(y[lo + r]), weight[lo + r]
                for k in range(K):
                    largest = max(largest, table[i, k, lo + r])
                for k in range(K):
                    p[k, r] = max(table[i, k, lo + r] - largest, -_FAR)
                hits[own] += w
                base += w * (table[i, own, lo + r] - largest)
            for k in range(K):
                _exponential(p[k, :n], p[k, :n], total[:n])
            for r in range(n):
                whole = 0.0
                for k in range(K):
                    whole += p[k, r]
                base -= weight[lo + r] * math.log(whole)
                whole = 1.0 / whole
                for k in range(K):
                    p[k, r] *= whole
            # Newton's method to the mode, whose steps are halved where they are past the top.
            best, is_last = -math.inf, False
            for k in range(q):
                z[k], ahead[k], step[k] = start[g, k], start[g, k], 0.0
            for _ in range(_PASSES):
                raised[0], level = 1.0, 0.0
                for k in range(q):
                    level = max(level, sd[i, k] * ahead[k])
                raised[0] = math.exp(max(-level, -_FAR))
                value = -hits[0] * level
                for k in range(q):
                    u = sd[i, k] * ahead[k] - level
                    value += hits[k + 1] * u - 0.5 * ahead[k] * ahead[k]
                    raised[k + 1] = math.exp(max(u, -_FAR))
                for r in range(n):
                    total[r] = 0.0
                for k in range(K):
                    one = raised[k]
                    for r in range(n):
                        total[r] += one * p[k, r]
                whole = 1.0
                for r in range(n):
                    w = weight[lo + r]
                    if w == 1.0:
                        whole *= total[r]
                    else:
                        value -= w * math.log(total[r])
                    if whole < 1e-150:
                        value -= math.log(whole)
                        whole = 1.0
                    total[r] = 1.0 / total[r]
                value -= math.log(whole)
                for k in range(q):
                    one, whole, own = raised[k + 1], 0.0, chance[k]
                    for r in range(n):
                        own[r] = one * p[k + 1, r] * total[r]
                        whole += weight[lo + r] * own[r]
                    slope[k] = hits[k + 1] - whole
                    for j in range(k + 1):
                        one, other = 0.0, chance[j]
                        for r in range(n):
                            one += weight[lo + r] * own[r] * other[r]
                        spread[k, j] = (whole if j == k else 0.0) - one
                if value >= best - 1e-9 * (1.0 + abs(best)):
                    best = value
                    length = 0.0
                    for k in range(q):  # The root of the precision, and the step to the mode.
                        z[k] = ahead[k]
                        one = sd[i, k] * slope[k] - z[k]
                        for j in range(k + 1):
                            more = sd[i, k] * sd[i, j] * spread[k, j] + (1.0 if j == k else 0.0)
                            for h in range(j):
                                more -= root[k, h] * root[j, h]
                            root[k, j] = more / root[j, j] if j < k else math.sqrt(max(more, 1.0))
                        for j in range(k):
                            one -= root[k, j] * step[j]
                        step[k] = one / root[k, k]
                        length += step[k] * step[k]
                    if is_last:
                        break
                    is_last = length < near * near
                    for k in range(q - 1, -1, -1):
                        for j in range(k + 1, q):
                            step[k] -= root[j, k] * step[j]
                        step[k] /= root[k, k]
                else:
                    length = 0.0
                    for k in range(q):
                        step[k] *= 0.5
                        length += step[k] * step[k]
                    if length < 1e-12:
                        break
                for k in range(q):
                    ahead[k] = z[k] + step[k]
            else:
                base = math.nan  # Of sds of 1e5 and more, which are impossible then.
            # Probabilities there, where ``raised`` is of the last point: next to the mode.
            for k in range(q):
                z[k] = ahead[k]
            log_volume = 0.0
            for r in range(n):
                for k in range(K):
                    p[k, r] *= raised[k] * total[r]
            for k in range(q):  # The inverse of the transposed root, (q, q), is upper triangular.
                log_volume -= math.log(root[k, k])
                back[k, k] = 1.0 / root[k, k]
                for j in range(k + 1, q):
                    one = 0.0
                    for h in range(k, j):
                        one -= root[j, h] * back[k, h]
                    back[k, j] = one / root[j, j]
            # Nodes: their effects over those of the mode, and what has no rows in it.
            head = first[rule[i]]
            N, far = first[rule[i] + 1] - head, 0.0
            for a in range(N):
                share[a], product[a] = rules[q, head + a], 1.0
            for k in range(q):
                s, at, own, more, hit = sd[i, k], z[k], nodes[k], gap[k + 1], hits[k + 1]
                for a in range(N):
                    own[a] = at
                for j in range(k, q):
                    c, t = back[k, j], rules[j]
                    for a in range(N):
                        own[a] += c * t[head + a]
                for a in range(N):
                    e = min(max(s * (own[a] - at), -_FAR), _FAR)
                    far = max(far, abs(e))
                    share[a] += hit * e - 0.5 * (own[a] * own[a] - at * at)
                    more[a] = e
                _exponential(more[:N], more[:N], sums[:N])
            chunk = max(1, int(600.0 / (far + 1.0)))
            for r in range(n):
                one, w = p[0, r], weight[lo + r]
                for a in range(N):
                    sums[a] = one
                for k in range(1, K):
                    one, e = p[k, r], gap[k]
                    for a in range(N):
                        sums[a] += one * e[a]
                if w == 1.0:
                    for a in range(N):
                        product[a] *= sums[a]
                    if r % chunk == chunk - 1:
                        for a in range(N):
                            share[a] -= math.log(product[a])
                            product[a] = 1.0
                else:
                    for a in range(N):
                        share[a] -= w * math.log(sums[a])
            whole = 0.0
            _exponential(share[:N], share[:N], sums[:N])
            for a in range(N):
                share[a] *= rules[q + 1, head + a] / product[a]
                whole += share[a]
            values[i, g] = base + best + log_volume + math.log(whole)
            if order == 0:
                continue
            for a in range(N):
                share[a] /= whole
            if order == 1:
                by_node[:, :N] = 0.0
                for r in range(n):
                    one, w = p[0, r], weight[lo + r]
                    for a in range(N):
                        sums[a] = one
                    for k in range(1, K):
                        one, e = p[k, r], gap[k]
                        for a in range(N):
                            sums[a] += one * e[a]
                    for a in range(N):
                        sums[a] = share[a] / sums[a]
                    for k in range(K):
                        one, e, of_class, average = w * p[k, r], gap[k], by_node[k], 0.0
                        for a in range(N):
                            part = one * sums[a] * e[a]
                            of_class[a] += part
                            average += part
                        table[i, k, lo + r] = (w if int(y[lo + r]) == k else 0.0) - average
                for k in range(q):
                    one = 0.0
                    for a in range(N):
                        one += nodes[k, a] * (hits[k + 1] * share[a] - by_node[k + 1, a])
                    by_sd[i, k] += one
            else:
                place = q
                for k in range(q):
                    one, cube = 0.0, 0.0
                    for a in range(N):
                        one += share[a] * nodes[k, a]
                        cube += share[a] * nodes[k, a] * nodes[k, a] * nodes[k, a]
                    moments[i, g, k], moments[i, g, len(moments[i, g]) - q + k] = one, cube
                    for j in range(k + 1):
                        one = 0.0
                        for a in range(N):
                            one += share[a] * nodes[k, a] * nodes[j, a]
                        moments[i, g, place] = one
                        place += 1
