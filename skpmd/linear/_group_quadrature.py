"""Integrals over groups' effects by adaptive quadrature, with the kernel of any family.

A kernel adds up rows of particles, so that each group is a call, with its nodes as particles. What
is between calls is done for all groups at once, on numbers in a row: those of a group's particles
follow each other, and those of the groups do.
"""

import numpy as np

_PASSES = 60  # Newton's steps to groups' modes, halved ones included.
_NEAR = 0.2  # They end where one is shorter, in sds: nodes need not be at the mode itself.
_MIN_PRECISION = 0.2  # Of an effect in units of its prior, where a density is not concave.
_NUMBERS = 1 << 17  # Of a table of nodes.


def integrate_groups(family, rows, known, start, rule, rules, order):
    """Log of the integral of each group's rows over its effects.

    ``rows`` are y, sizes, weights, where groups start and what slopes are multiplied by, or None;
    ``known`` are predictors (m, n), dispersions (m, k) and the lower triangles (m, 3) of a factor
    of the effects' covariance, which are it times z ~ N(0, I). Searches for modes start at
    ``start`` (G, 2). Group g has the nodes of ``rule[g]``; none, where that is negative.

    Returns integrals (m, G) and, at ``order`` 1, averages over the effects given the rows of
    derivatives by predictors (m, n), factors (m, 3) and dispersions (m, k): derivatives of the
    integrals, by Fisher's identity. At ``order`` 2 averages of z0, z1, their squares, product and
    cubes are last, (m, G, 7).
    """
    (table, phi, factor), G = known, len(rule)
    m = len(table)
    out = np.zeros((m, G)), np.zeros(table.shape), np.zeros(factor.shape), np.zeros(phi.shape)
    out = *out, np.zeros((m, G if order == 2 else 0, 7))
    with np.errstate(all="ignore"):
        for one in np.unique(rule[rule >= 0]):
            some, nodes = np.flatnonzero(rule == one), slice(*rules.first[one : one + 2])
            t, log_weights = rules.nodes[nodes], rules.log_weights[nodes]
            at = _centred(_Rows(family, rows, known, some, 1), start[some])
            step = max(1, min(len(t), _NUMBERS // table.size))
            _add_nodes(family, rows, known, some, at, (t, log_weights, step), order, out)
    return out


class _Rows:
    """Some groups' rows for particles, each ``copies`` times in turn."""

    def __init__(self, family, rows, known, some, copies):
        *columns, starts, x = rows
        table, self.phi, self.factor = (np.tile(one, (copies, 1)) for one in known)
        places = [slice(*starts[g : g + 2]) for g in some]
        self._family, self.columns = family, [[one[g] for one in columns] for g in places]
        sizes, m = np.array([g.stop - g.start for g in places]), len(table)
        self.ends, self._count = m * np.cumsum(sizes), np.repeat(sizes, m)
        self._first = np.concatenate([[0], np.cumsum(self._count)[:-1]])
        self._table, self.x = np.concatenate([table[:, g].ravel() for g in places]), None
        if x is not None:
            self.x = np.concatenate([np.tile(x[g], m) for g in places])
        self.places, self.shape = places, (len(some), m)

    def evaluate(self, z, order, is_open=None):
        """Log densities (G, m) at z (G, m, 2), derivatives, curvatures, those by dispersions."""
        level, both, slope = self.factor.T
        table = self._table + np.repeat((level * z[..., 0]).ravel(), self._count)
        if self.x is not None:
            of_x = both * z[..., 0] + slope * z[..., 1]
            table += np.repeat(of_x.ravel(), self._count) * self.x
        value, by_phi = np.zeros(self.shape), np.zeros((*self.shape, self.phi.shape[1]))
        curvature = np.zeros(table.shape if order > 1 else 0)
        for g, one in enumerate(self.columns):
            if is_open is None or is_open[g]:
                more = value[g], by_phi[g], self.of_group(curvature, g) if order > 1 else _NOTHING
                own = self.of_group(table, g)
                self._family.kernel(own, *one, self.phi, self._family.code, *more, order)
        return value, table, curvature, by_phi

    def of_group(self, table, g):
        """What a group has of numbers in a row, (m, n)."""
        end = self.ends[g]
        first = self.ends[g - 1] if g else 0
        return table[first:end].reshape(self.shape[1], -1)

    def sums(self, table, power=0):
        """Sums over rows (G, m), times a power of x."""
        if power and self.x is None:
            return np.zeros(self.shape)
        table = table * self.x**power if power else table
        return np.add.reduceat(table, self._first).reshape(self.shape)


_NOTHING = np.empty((0, 0))


def _centred(rows, start):
    """Newton's method to the modes of z under N(0, I) and the rows of each group.

    Returns the modes (G, m, 2), the lower triangular roots of their precisions (3, G, m), and log
    densities next to them, without the constant of the normal, (G, m).
    """
    z = np.repeat(start[:, None], rows.shape[1], axis=1)
    ahead, step = z, np.zeros(z.shape)
    root, best = np.ones((3, *rows.shape)), np.full(rows.shape, -np.inf)
    s0, s1, s2 = rows.factor.T
    is_open = np.ones(len(z), dtype=bool)
    for _ in range(_PASSES):
        value, slopes, curvature, _ = rows.evaluate(ahead, 2, is_open)
        value -= 0.5 * (ahead**2).sum(axis=2)
        is_up = (value >= best - 1e-9 * (1.0 + np.abs(best))) & is_open[:, None]
        best, z = np.where(is_up, value, best), np.where(is_up[..., None], ahead, z)
        g0, g1 = (rows.sums(slopes, power) for power in range(2))
        h0, h1, h2 = (rows.sums(curvature, power) for power in range(3))
        r0, r1 = s0 * g0 + s1 * g1 - z[..., 0], s2 * g1 - z[..., 1]
        p0 = 1.0 + s0 * s0 * h0 + 2.0 * s0 * s1 * h1 + s1 * s1 * h2
        p1, p2 = s2 * (s0 * h1 + s1 * h2), 1.0 + s2 * s2 * h2
        is_concave = (p0 > _MIN_PRECISION) & (p0 * p2 - p1 * p1 > _MIN_PRECISION * p0)
        p0, p2 = (np.where(is_concave, p, np.maximum(np.abs(p), 1.0)) for p in (p0, p2))
        c0 = np.sqrt(p0)
        c1 = np.where(is_concave, p1, 0.0) / c0
        c2 = np.sqrt(p2 - c1 * c1)
        root = np.where(is_up, [c0, c1, c2], root)
        u0 = r0 / c0
        u1 = (r1 - c1 * u0) / c2
        full = np.stack([(u0 - c1 * (u1 / c2)) / c0, u1 / c2], axis=2)
        step = np.where(is_up[..., None], full, 0.5 * step)  # Where it was past the top.
        ahead = np.where(is_open[:, None, None], z + step, ahead)
        is_near = np.where(is_up, u0 * u0 + u1 * u1 < _NEAR**2, (step**2).sum(axis=2) < 1e-12)
        is_open &= ~is_near.all(axis=1)
        if not is_open.any():
            break
    return ahead, root, best


def _add_nodes(family, rows, known, some, at, nodes, order, out):
    """Write what some groups with the same nodes, so many at a time, make of the integrals."""
    (z, root, best), (t, log_weights, step) = at, nodes
    values, slopes, by_factor, by_phi, moments = out
    (G, m), (c0, c1, c2) = best.shape, root
    total, sums = np.zeros((G, m)), np.zeros((7, G, m))
    of_factor, of_phi = np.zeros((3, G, m)), np.zeros((G, m, by_phi.shape[1]))
    for first in range(0, len(t), step):
        t0, t1 = t[first : first + step].T[..., None, None]
        K = len(t0)
        if first == 0 or K < step:
            piece = _Rows(family, rows, known, some, K)
        back = t1 / c2  # z + root^-T t, with nodes (K, G, m).
        z0, z1 = z[..., 0] + (t0 - c1 * back) / c0, z[..., 1] + back
        places = np.stack([z0, z1], axis=-1).swapaxes(0, 1).reshape(G, K * m, 2)
        value, table, _, of_node = piece.evaluate(places, order % 2)

        def by_node(one):
            return one.reshape(G, K, m).swapaxes(0, 1)  # noqa: B023

        share = by_node(value) - 0.5 * (z0 * z0 + z1 * z1) - best
        share = np.exp(share + log_weights[first : first + step, None, None])
        total += share.sum(axis=0)
        if order == 1:
            for g in range(G):
                own = piece.of_group(table, g).reshape(K, m, -1)
                slopes[:, piece.places[g]] += np.einsum("km,kmn->mn", share[:, g], own)
            g0, g1 = (by_node(piece.sums(table, power)) for power in range(2))
            for a, one in enumerate((z0 * g0, z0 * g1, z1 * g1)):
                of_factor[a] += (share * one).sum(axis=0)
            of_node = of_node.reshape(G, K, m, -1)
            of_phi += np.einsum("kgm,gkma->gma", share, of_node)
        elif order == 2:
            for a, one in enumerate((z0, z1, z0 * z0, z0 * z1, z1 * z1, z0**3, z1**3)):
                sums[a] += (share * one).sum(axis=0)
    values[:, some] = (best + np.log(total) - np.log(c0 * c2)).T
    if order == 1:
        for g, place in enumerate(piece.places):
            slopes[:, place] /= total[g][:, None]
        by_factor += (of_factor / total).sum(axis=1).T
        by_phi += (of_phi / total[..., None]).sum(axis=0)
    elif order == 2:
        moments[:, some] = (sums / total).T
