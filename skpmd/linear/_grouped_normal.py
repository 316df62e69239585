"""Normal rows with an identity link and effects of groups: integrals in closed form.

Of a group's rows, whose design of effects Z has the orthonormal basis Q and the triangle R, all
that a likelihood needs are Q'y, Q'X and R. What is left of all rows beside these is in one
triangular matrix, so that rows are looked at once.
"""

import numpy as np

from skpmd.linear._correlations import by_sds, factor_of
from skpmd.linear._group_rows import group_pieces
from skpmd.linear._groups import GroupedModel

LOG_TWO_PI = np.log(2.0 * np.pi)
_RANK = 1e-9  # A column of Z that is left by so small a share of its length is another one.
_EXACT = 1e-10  # Rows without a larger share of their length that nothing explains have no noise.
EXACT = (
    "y is an exact function of the columns and the groups, which leaves nothing to learn sigma "
    "from: its posterior is improper. Leave out a factor of groups or its slopes, or the columns "
    "that y was computed from."
)
_TABLE = 1 << 20  # Numbers of a table of particles and groups.


class _Sums:
    """Of all groups: Q'(y, X) (G, q, 1 + w), R (G, q, q), the root of the rest, and weights."""

    def __init__(self, model, batch):
        of_y, of_x, triangles, first_row, root = [], [], [], [], np.empty((0, 0))
        groups = model.family.groups
        for rows, starts in group_pieces(batch):
            X, y, weight = model.design((batch, rows))
            y = y - model.location - (0.0 if batch.offset is None else batch.offset[rows])
            scaled = np.sqrt(weight)[:, None] * np.column_stack([y, X])
            Z = np.sqrt(weight)[:, None]
            if groups.slopes:
                x = X[:, groups.columns] - (groups.centre or 0.0)
                Z = np.column_stack([Z, Z * x])
            parts = [_projected(Z[a:b], scaled[a:b]) for a, b in zip(starts, starts[1:])]  # noqa: B905
            of_y += [one[0][:, 0] for one in parts]
            of_x += [one[0][:, 1:] for one in parts]
            triangles += [one[1] for one in parts]
            first_row.append(rows.start + starts[:-1])
            left = np.concatenate([one[2] for one in parts])
            root = np.linalg.qr(np.concatenate([root.reshape(-1, left.shape[1]), left]), "r")
        self.of_y, self.of_x, self.triangle = map(np.array, (of_y, of_x, triangles))
        self.first_row, self.root, self.weight = np.concatenate(first_row), root, batch.weight.sum()


def _projected(Z, rows):
    """Q' rows, R, and the rows less their projections, of one group."""
    q, n = Z.shape[1], len(Z)
    basis, triangle = np.zeros((n, q)), np.zeros((q, q))
    for j in range(q):  # By Gram and Schmidt, twice, with nothing for a column that is another.
        left = Z[:, j]
        for _ in range(2):
            along = basis.T @ left
            triangle[:, j] += along
            left = left - basis @ along
        length = np.linalg.norm(left)
        if length > _RANK * np.linalg.norm(Z[:, j]):
            basis[:, j], triangle[j, j] = left / length, length
    along = basis.T @ rows
    return along, triangle, rows - basis @ along


class GroupedNormal(GroupedModel):
    """Normal rows with an identity link; see `GroupedModel`."""

    _known = None, None
    remainders = None  # Sums per group cost no more than samples would.

    def _sums(self, batch):
        """`_Sums` of a batch, which are taken once."""
        if self._known[0] is not batch.X:
            self._known = batch.X, _Sums(self, batch)
        return self._known[1]

    def look_for_exact_rows(self, batches):
        """ValueError where columns and effects meet more rows than they have numbers.

        See `GeneralisedLinearModel`; others than these have a bound.
        """
        (batch,) = batches
        sums = self._sums(batch)
        of_y, of_x = sums.root[:, 0], sums.root[:, 1:]
        fit, _, rank, _ = np.linalg.lstsq(of_x, of_y, rcond=_RANK)
        rank += (np.diagonal(sums.triangle, axis1=1, axis2=2) > 0.0).sum()
        length = np.hypot(np.linalg.norm(sums.of_y), np.linalg.norm(of_y))
        is_exact = np.linalg.norm(of_y - of_x @ fit) <= _EXACT * length
        if is_exact and len(batch.weight) > rank:
            raise ValueError(EXACT)
        return False

    def _add_sums(self, coefficients, order, batches, total, gradient):
        slopes, phi, sds = self.split(coefficients)
        factor, variance, w = factor_of(sds), phi[:, 0] ** 2, slopes.shape[1]
        by_factor, by_variance = np.zeros(factor.shape), np.zeros(len(phi))
        for batch in batches:
            sums = self._sums(batch)
            left = sums.root[:, 0] - slopes @ sums.root[:, 1:].T
            squares, n = np.einsum("ij,ij->i", left, left), sums.weight
            # What a group's rows have of the noise and not of its effects is a factor by itself.
            free = n - sums.of_y.size
            total -= 0.5 * (squares / variance + free * np.log(variance))
            total -= n * (0.5 * LOG_TWO_PI + self.log_unit)
            if order:
                by_variance += 0.5 * (squares / variance - free) / variance
                gradient[:, :w] += (left @ sums.root[:, 1:]) / variance[:, None]
            step = max(1, _TABLE // sums.of_y.size)
            for i in range(0, len(slopes), step):
                some = slice(i, i + step)
                self._add_between(sums, (slopes[some], variance[some], factor[some]), order,
                                  total[some], None if gradient is None else gradient[some],
                                  (by_factor[some], by_variance[some]))  # fmt: skip
        if order:
            by_phi = 2.0 * phi * by_variance[:, None]
            by_all = np.hstack([by_phi, by_sds(sds, by_factor)])
            gradient[:, w:] += self.family.dispersions.pull_back(
                coefficients[:, w:], np.hstack([phi, sds]), by_all
            )

    def integrals(self, known, batch, rows, starts, order):
        """Moments of effects in closed form, at order 2; see `GroupedModel`."""
        if order != 2:
            yield from super().integrals(known, batch, rows, starts, order)
            return
        sums = self._sums(batch)
        own = slice(*np.searchsorted(sums.first_row, [rows.start, rows.stop]))
        step, (slopes, phi, sds) = max(1, _TABLE // sums.of_y[own].size), known
        for i in range(0, len(slopes), step):
            some = slice(i, i + step)
            yield some, self._moments(sums, own, (slopes[some], phi[some], factor_of(sds[some])))

    def _moments(self, sums, own, known):
        """Averages over effects of some groups, N((s^2 I + H'H)^-1 H'c, ...), with H = R L."""
        slopes, phi, factor = known
        of_y, of_x = sums.of_y[own], sums.of_x[own]
        c, half = _between(slopes, of_y, of_x), sums.triangle[own] @ _lower(factor, of_y.shape[1])
        variance, q = phi[:, :1] ** 2, of_y.shape[1]
        A = half.swapaxes(-1, -2) @ half + variance[..., None, None] * np.eye(q)
        inverse, _ = _inverse(A, variance, half.swapaxes(-1, -2))
        mean = np.einsum("mgab,mgcb,mgc->mga", inverse, half, c)
        cov = inverse * variance[..., None, None]
        pairs = zip(*np.tril_indices(q), strict=True)
        squares = [mean[..., i] * mean[..., j] + cov[..., i, j] for i, j in pairs]
        cubes = mean * (mean * mean + 3.0 * np.diagonal(cov, axis1=-2, axis2=-1))
        return np.concatenate([mean, np.stack(squares, axis=-1), cubes], axis=-1)

    def _add_between(self, sums, known, order, total, gradient, by):
        """Add log N(c; 0, A) of all groups, with c = Q'(y - X b) and A = sigma^2 I + R L L' R'."""
        slopes, variance, factor = known
        G, q = sums.of_y.shape
        c, half = _between(slopes, sums.of_y, sums.of_x), sums.triangle @ _lower(factor, q)
        A = half @ half.swapaxes(-1, -2) + variance[:, None, None, None] * np.eye(q)
        inverse, det = _inverse(A, variance[:, None], half)
        h = np.einsum("mgab,mgb->mga", inverse, c)
        total -= 0.5 * (np.log(det).sum(axis=1) + np.einsum("mga,mga->m", h, c))
        if not order:
            return
        gradient[:, : slopes.shape[1]] += h.reshape(len(h), -1) @ sums.of_x.reshape(G * q, -1)
        of_a = 0.5 * (h[..., :, None] * h[..., None, :] - inverse)
        by[1][:] += np.einsum("mgaa->m", of_a)
        of_lower = 2.0 * (sums.triangle.swapaxes(1, 2) @ (of_a @ half)).sum(axis=1)
        by[0][:] += of_lower[:, *np.tril_indices(q)]


def _between(slopes, of_y, of_x):
    """Q'(y - X b) of groups, (m, G, q)."""
    G, q = of_y.shape
    return of_y - (slopes @ of_x.reshape(G * q, -1).T).reshape(-1, G, q)


def _lower(factor, q):
    """Lower triangles (m, 1, q, q) of the effects' covariances."""
    out = np.zeros((len(factor), 1, q, q))
    out[:, 0, *np.tril_indices(q)] = factor
    return out


def _inverse(A, variance, half):
    """Inverses and determinants of matrices A = H H' + variance I (..., q, q)."""
    q = A.shape[-1]
    if q == 1:
        return 1.0 / A, A[..., 0, 0]
    # Of a small variance nothing is left of a difference: by Gram and Schmidt of (H', sigma I).
    if q > 2:
        sigma, det = np.sqrt(variance)[..., None, None], 1.0
        of_noise = np.broadcast_to(sigma * np.eye(q), A.shape)
        root = np.concatenate([half.swapaxes(-1, -2), of_noise], axis=-2)
        root = np.ascontiguousarray(np.moveaxis(root, (-2, -1), (0, 1)))
        for j in range(q):
            for k in range(j):
                root[:, j] -= (root[:, k] * root[:, j]).sum(axis=0) * root[:, k]
            square = (root[:, j] ** 2).sum(axis=0)
            det, root[:, j] = det * square, root[:, j] / np.sqrt(square)
        lower = np.moveaxis(root[q:], (0, 1), (-2, -1)) / sigma
        return lower @ lower.swapaxes(-1, -2), det
    # A sum of what is not negative.
    det = half[..., 0, 0] * half[..., 1, 1] - half[..., 0, 1] * half[..., 1, 0]
    det = variance * (variance + (half * half).sum(axis=(-1, -2))) + det**2
    inverse = np.empty(A.shape)
    inverse[..., 0, 0], inverse[..., 1, 1] = A[..., 1, 1] / det, A[..., 0, 0] / det
    inverse[..., 0, 1] = inverse[..., 1, 0] = -A[..., 0, 1] / det
    return inverse, det
