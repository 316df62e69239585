"""Integrals over groups' effects by adaptive quadrature, with the kernel of any family.

A kernel adds up rows of particles, so that each group is a call, with its nodes as particles. What
is between calls is done for all groups at once, on numbers in a row: those of a group's particles
follow each other, and those of the groups do.
"""

import numpy as np
from scipy.sparse import issparse

from skpmd.linear._group_kernels import LANES, integrate_counts, integrate_trials
from skpmd.linear._group_rules import rules_of

_PASSES = 60  # Newton's steps to groups' modes, halved ones included.
_NEAR = 0.2  # They end where one is shorter, in sds: nodes need not be at the mode itself.
_MIN_PRECISION = 0.2  # Of an effect in units of its prior, where a density is not concave.
_NUMBERS = 1 << 17  # Of a table of nodes.
TABLE = 1 << 17  # Numbers of tables of predictors.
FEWEST = 8  # Particles of a table: of one at a time no vectors are made.
_LARGEST = 20.0  # Predictors of rows, at the median, that kernels take.


def integrate_groups(family, rows, known, start, rule, rules, order):
    """Log of the integral of each group's rows over its effects.

    ``rows`` are y, sizes, weights, where groups start and what slopes are multiplied by, (n,
    q - 1); ``known`` are predictors (m, n), dispersions (m, k) and the lower triangles (m, e) of a
    factor of the effects' covariance, which are it times z ~ N(0, I). Searches for modes start at
    ``start`` (G, q). Group g has the nodes of ``rule[g]``; none, where that is negative.

    Returns integrals (m, G) and, at ``order`` 1, averages over the effects given the rows of
    derivatives by predictors (m, n), factors (m, e) and dispersions (m, k): derivatives of the
    integrals, by Fisher's identity. At ``order`` 2 averages of z, of products of two, row by row,
    and of cubes are last, (m, G, q + e + q).
    """
    (table, phi, factor), (G, q) = known, start.shape
    m = len(table)
    out = np.zeros((m, G)), np.zeros(table.shape), np.zeros(factor.shape), np.zeros(phi.shape)
    out = *out, np.zeros((m, G if order == 2 else 0, 2 * q + factor.shape[1]))
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
        self._table = np.concatenate([table[:, g].ravel() for g in places])
        self._x = [np.concatenate([np.tile(one[g], m) for g in places]) for one in x.T]
        self.places, self.shape = places, (len(some), m)
        self.q, each = 1 + len(self._x), iter(self.factor.T)
        self.lower = [[next(each) for _ in range(i + 1)] for i in range(self.q)]

    def evaluate(self, z, order, is_open=None):
        """Log densities (G, m) at z (G, m, q), derivatives, curvatures, those by dispersions."""
        table = self._table + np.repeat((self.lower[0][0] * z[..., 0]).ravel(), self._count)
        for x, lower in zip(self._x, self.lower[1:], strict=True):
            effect = sum(one * z[..., j] for j, one in enumerate(lower))
            table += np.repeat(effect.ravel(), self._count) * x
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

    def sums(self, table):
        """Sums over rows (G, m), times what each effect is multiplied by."""
        every = [table, *(table * x for x in self._x)]
        return [np.add.reduceat(one, self._first).reshape(self.shape) for one in every]

    def squares(self, table):
        """The same times the products of two, row by row."""
        every = [table]
        for i, x in enumerate(self._x):
            every += [table * x, *(table * (x * other) for other in self._x[: i + 1])]
        return [np.add.reduceat(one, self._first).reshape(self.shape) for one in every]


_NOTHING = np.empty((0, 0))


def _centred(rows, start):
    """Newton's method to the modes of z under N(0, I) and the rows of each group.

    Returns the modes (G, m, q), the lower triangular roots of their precisions, row by row (e, G,
    m), and log densities next to them, without the constant of the normal, (G, m).
    """
    z, q = np.repeat(start[:, None], rows.shape[1], axis=1), rows.q
    ahead, step = z, np.zeros(z.shape)
    root, best = np.ones((q * (q + 1) // 2, *rows.shape)), np.full(rows.shape, -np.inf)
    is_open = np.ones(len(z), dtype=bool)
    for _ in range(_PASSES):
        value, slopes, curvature, _ = rows.evaluate(ahead, 2, is_open)
        value -= 0.5 * (ahead**2).sum(axis=2)
        is_up = (value >= best - 1e-9 * (1.0 + np.abs(best))) & is_open[:, None]
        best, z = np.where(is_up, value, best), np.where(is_up[..., None], ahead, z)
        found = _root(_precision(rows.lower, rows.squares(curvature)))
        root, u, by_effect = np.where(is_up, found, root), [], rows.sums(slopes)
        for j in range(q):
            right = sum(rows.lower[i][j] * by_effect[i] for i in range(j, q)) - z[..., j]
            own = found[j * (j + 1) // 2 :]
            u.append((right - sum(own[k] * u[k] for k in range(j))) / own[j])
        full = np.stack(_solved(found, u), axis=2)
        step = np.where(is_up[..., None], full, 0.5 * step)  # Where it was past the top.
        ahead = np.where(is_open[:, None, None], z + step, ahead)
        length = sum(one * one for one in u)
        is_near = np.where(is_up, length < _NEAR**2, (step**2).sum(axis=2) < 1e-12)
        is_open &= ~is_near.all(axis=1)
        if not is_open.any():
            break
    return ahead, root, best


def _precision(lower, h):
    """I + L' H L, row by row (e, ...), of the triangles L and H, which is given row by row."""
    q, out = len(lower), []

    def of(i, j):
        return h[max(i, j) * (max(i, j) + 1) // 2 + min(i, j)]

    for a in range(q):
        for b in range(a):
            each = (sum(lower[j][b] * of(i, j) for j in range(b, q)) for i in range(a, q))
            out.append(sum(lower[i][a] * one for i, one in zip(range(a, q), each, strict=True)))
        whole = 1.0
        for i in range(a, q):
            whole = whole + lower[i][a] * lower[i][a] * of(i, i)
            for j in range(i + 1, q):
                whole = whole + 2.0 * lower[i][a] * lower[j][a] * of(i, j)
        out.append(whole)
    return out


def _root(p):
    """Lower triangular roots of precisions, row by row, or of their diagonals where not concave."""
    root, is_concave, q = [], True, int(np.sqrt(2 * len(p)))
    for is_last in (False, True):
        root = []
        for i in range(q):
            first = i * (i + 1) // 2
            for j in range(i + 1):
                one, above = p[first + j], root[j * (j + 1) // 2 :]
                one = one - sum(root[first + k] * above[k] for k in range(j))
                if j < i:
                    root.append(one / above[j])
                else:
                    is_concave = is_concave & (one > _MIN_PRECISION)
                    root.append(np.sqrt(one))
        if is_last or is_concave.all():
            return np.array(root)
        size = [np.maximum(np.abs(p[i * (i + 3) // 2]), 1.0) for i in range(q)]
        of_size = [size[i] if i == j else 0.0 for i in range(q) for j in range(i + 1)]
        p = [np.where(is_concave, *both) for both in zip(p, of_size, strict=True)]


def _solved(root, t):
    """The inverse of the transposed root times t, (q, ...)."""
    q, out = len(t), list(t)
    for i in range(q - 1, -1, -1):
        own = root[i * (i + 1) // 2 :]
        out[i] = out[i] / own[i]
        for j in range(i):
            out[j] = out[j] - own[j] * out[i]
    return out


def _add_nodes(family, rows, known, some, at, nodes, order, out):
    """Write what some groups with the same nodes, so many at a time, make of the integrals."""
    (z, root, best), (t, log_weights, step) = at, nodes
    values, slopes, by_factor, by_phi, moments = out
    (G, m), q, e = best.shape, z.shape[2], len(root)
    total, sums = np.zeros((G, m)), np.zeros((moments.shape[2], G, m))
    of_factor, of_phi = np.zeros((e, G, m)), np.zeros((G, m, by_phi.shape[1]))
    pairs = [(i, j) for i in range(q) for j in range(i + 1)]
    for first in range(0, len(t), step):
        some_t = t[first : first + step].T[..., None, None]
        K = some_t.shape[1]
        if first == 0 or K < step:
            piece = _Rows(family, rows, known, some, K)
        # z + root^-T t, with nodes (K, G, m).
        each = [z[..., j] + one for j, one in enumerate(_solved(root, some_t))]
        places = np.stack(each, axis=-1).swapaxes(0, 1).reshape(G, K * m, q)
        value, table, _, of_node = piece.evaluate(places, order % 2)

        def by_node(one):
            return one.reshape(G, K, m).swapaxes(0, 1)  # noqa: B023

        share = by_node(value) - 0.5 * sum(one * one for one in each) - best
        share = np.exp(share + log_weights[first : first + step, None, None])
        total += share.sum(axis=0)
        if order == 1:
            for g in range(G):
                own = piece.of_group(table, g).reshape(K, m, -1)
                slopes[:, piece.places[g]] += np.einsum("km,kmn->mn", share[:, g], own)
            by_effect = [by_node(one) for one in piece.sums(table)]
            for a, (i, j) in enumerate(pairs):
                of_factor[a] += (share * (each[j] * by_effect[i])).sum(axis=0)
            of_node = of_node.reshape(G, K, m, -1)
            of_phi += np.einsum("kgm,gkma->gma", share, of_node)
        elif order == 2:
            squares = [each[i] * each[j] for i, j in pairs]
            for a, one in enumerate((*each, *squares, *(one**3 for one in each))):
                sums[a] += (share * one).sum(axis=0)
    det = np.prod([root[i * (i + 3) // 2] for i in range(q)], axis=0)
    values[:, some] = (best + np.log(total) - np.log(det)).T
    if order == 1:
        for g, place in enumerate(piece.places):
            slopes[:, place] /= total[g][:, None]
        by_factor += (of_factor / total).sum(axis=1).T
        by_phi += (of_phi / total[..., None]).sum(axis=0)
    elif order == 2:
        moments[:, some] = (sums / total).T


# ------------------------------------------------------------------- intercepts
class Intercepts:
    """Rows of some groups whose integrals have compiled loops of their own."""

    def __init__(self, model, kinds, batch, rows, starts):
        X, shift = batch.X[rows], model.shift_of(batch.X)
        X = (X.toarray() if issparse(X) else X) - (0.0 if shift is None else shift)
        self.is_count, self.starts = model.family.name == "poisson", starts
        self._centre = kinds[1][0][0][0]
        at = model._predictors(self._centre[None], batch, rows)[0]
        self.are_moderate = np.abs(at).max() < _LARGEST
        ones = [np.ones(len(X))] * model.fit_intercept
        self._design = np.column_stack([X, *ones, at]).astype(np.float64, copy=False)
        (self._y, _, self._weight), self._numbers = model._columns(batch, rows), None
        if not self.is_count:
            signed = self._design * (1.0 - 2.0 * self._y)[:, None]
            self._design = signed.astype(np.float32)

    def block(self, order):
        """How many particles are worth a call."""
        n = self.starts[-1] if self.is_count or order == 1 else self.starts.size
        return max(FEWEST, TABLE // n)

    def integrate(self, known, start, rule, order):
        """See `integrate_groups`."""
        (slopes, phi, factor), G, n = known, len(rule), self.starts[-1]
        M, w = slopes.shape
        longest = n if self.is_count else np.diff(self.starts).max()
        m = min(LANES, max(FEWEST, TABLE // longest))
        B = -(-M // m)
        m = -(-M // (8 * B)) * 8  # Whole vectors.
        base, sd = np.zeros((w + 1, B * m)), np.ones(B * m)
        base[:w, :M], base[w] = (slopes - self._centre).T, 1.0
        sd[:M] = factor[:, 0]
        base, sd = base.reshape(w + 1, B, m).swapaxes(0, 1), sd.reshape(B, m)
        values, by_factor = np.zeros((B, G, m)), np.zeros((B, m))
        moments = np.empty((B, G if order == 2 else 1, 3, m))
        rules = rules_of(1)
        given = self.starts, sd, start, rules.intercepts, rules.first, rule, order
        if self.is_count:
            if self._numbers is None or len(self._numbers) < B * n * m:
                self._numbers = np.empty(B * n * m)  # New memory takes as long as what it is for.
            table = self._numbers[: B * n * m].reshape(B, n, m)
            np.matmul(self._design, base, out=table)
            integrate_counts(table, self._y, self._weight, *given, values, by_factor, moments)
        else:
            base = np.ascontiguousarray(base, np.float32)
            table = np.empty((B, n if order == 1 else 0, m))
            y, starts, sd, *more = self._y, *given
            integrate_trials(
                self._design, y, starts, base, sd, *more, values, table, by_factor, moments
            )
        values, table = (one.swapaxes(1, 2).reshape(B * m, -1)[:M] for one in (values, table))
        found = np.zeros((M, 0, 3))
        if order == 2:
            found = moments.transpose(0, 3, 1, 2).reshape(B * m, G, 3)[:M]
        return values, table, by_factor.reshape(-1, 1)[:M], np.zeros(phi.shape), found
