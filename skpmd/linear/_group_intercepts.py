"""Effects that are intercepts, of counts and of single trials: what their kernels take."""

import numpy as np
from scipy.sparse import issparse

from skpmd.linear._group_kernels import LANES, integrate_counts, integrate_trials
from skpmd.linear._group_rules import rules_of

TABLE = 1 << 17  # Numbers of tables of predictors.
FEWEST = 8  # Particles of a table: of one at a time no vectors are made.
_LARGEST = 20.0  # Predictors of rows, at the median, that kernels take.


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
