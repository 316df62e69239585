"""Effects of groups: a factor's intercepts and slopes are integrated out of each group's rows.

Given coefficients, dispersions and the effects' covariance, groups are independent, so that the log
likelihood is a sum over groups of logs of integrals of one dimension, and of one more for each
slope. They are found by adaptive Gauss-Hermite quadrature (Liu and Pierce 1994; Pinheiro and Bates
1995), and derivatives by Fisher's identity, as averages over the effects given the rows. Standard
deviations and correlations are further coordinates like dispersions.
"""

import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from skpmd._runtime.threads import in_order
from skpmd.engine.variational import laplace
from skpmd.linear._correlations import Correlations, by_sds, factor_of, root_of_correlations
from skpmd.linear._dispersion import Dispersions, HalfStudentT, Joined
from skpmd.linear._glm import MIN_CURVATURE, GeneralisedLinearModel, definite
from skpmd.linear._group_products import integrate_products
from skpmd.linear._group_quadrature import FEWEST, TABLE, Intercepts, integrate_groups
from skpmd.linear._group_rows import FEW_ROWS, MANY_ROWS, SOME_ROWS, GroupTerms, group_pieces
from skpmd.linear._group_rules import chosen_rules, is_small, octaves, probes, rules_of, together
from skpmd.linear._priors import MarginalPrior, precision_matrix

# Rules of searches for modes, where log densities are concave, and of the inside of trajectories.
_OF_SEARCHES, _OF_TRAJECTORIES = (3, 3, 1, 1), (1, 1, 0, 0)  # By the number of effects.
_STEP, _WIDE = 1e-4, np.sqrt(3.0)  # Of differences at a point, and of Gauss's rule of three nodes.
_GRID = np.linspace(-3.5, 1.5, 11)  # What a start tries of the coordinates of sds.


class Groups(NamedTuple):
    """One grouping factor; `skpmd.linear._crossed.Factors` are several."""

    factor: str  # Its name.
    labels: np.ndarray  # (G,): Of the groups, whose codes are places here.
    slopes: tuple[str, ...]  # Names of columns on which each group has a slope of its own.
    columns: tuple[int, ...]  # Their places among those that have coefficients.
    prior_scale: float
    centre: tuple[float, ...] = ()  # Where intercepts are, of columns that are taken as they are.

    others = ()  # Further factors.

    @property
    def factors(self):
        """`Groups` of all factors, as they were given."""
        return [self]

    @property
    def n_effects(self):
        """Effects of each group."""
        return 1 + len(self.slopes)

    @property
    def names_of_effects(self):
        """What effects are of: the factor, and it with the column of each slope."""
        return [self.factor, *(f"{self.factor}:{slope}" for slope in self.slopes)]

    @property
    def names(self):
        """Names of these effects."""
        return ("intercept", *self.slopes)

    @property
    def dispersions(self):
        """`Dispersions` of the effects: sds, and correlations of two, row by row."""
        law, q = HalfStudentT(self.prior_scale), self.n_effects
        names = self.names_of_effects
        sds = Dispersions(tuple(f"sd[{name}]" for name in names), (law,) * q)
        if q == 1:
            return sds
        pairs = (f"{names[j]}:{self.slopes[i - 1]}" for i in range(q) for j in range(i))
        return Joined(sds, Correlations(tuple(f"cor[{pair}]" for pair in pairs), q))

    def units(self, unit, scale):
        """What they are per, (k,), where y is in a unit and columns are in units of ``scale``."""
        q = self.n_effects
        sds = [unit, *(unit / scale[column] for column in self.columns)]
        return np.array(sds + [1.0] * (q * (q - 1) // 2))

    def are_within(self, phi):
        """Whether dispersions (m, k) are some that there can be, (m,)."""
        sds, cors = np.split(phi, [self.n_effects], axis=1)
        length = (root_of_correlations(cors, self.n_effects) ** 2).sum(axis=2)  # One of a matrix.
        is_matrix = (np.abs(cors) < 1.0).all(axis=1) & (length < 1.0 + 1e-9).all(axis=1)
        return (sds > 0.0).all(axis=1) & is_matrix

    @property
    def described(self):
        """What they are of, for people."""
        q = self.n_effects
        of_slopes = ["of the predictor, per unit of the column"] * (q - 1)
        return ("of the predictor", *of_slopes, *[""] * (q * (q - 1) // 2))

    def priors(self, unit, scale):
        """Priors in words, (k,); for the arguments see `units`."""
        law, units = HalfStudentT(self.prior_scale), self.units(unit, scale)
        q = self.n_effects
        return [law.described(one) for one in units[:q]] + ["LKJ(1)"] * len(units[q:])


def grouped(family, groups):
    """The same `Family` with effects of `Groups`."""
    out = copy.copy(family)
    out.groups, out.dispersions = groups, Joined(family.dispersions, groups.dispersions)
    return out


def with_labels(response, labels):
    """The same `Distribution` of groups with these labels, of which there may be more."""
    family = copy.copy(response.family)
    family.groups = family.groups._replace(labels=labels)
    return response._replace(family=family)


def slope_columns(model, groups, X):
    """What slopes of a factor are multiplied by, (n, q - 1), of rows in the model's units."""
    if not groups.slopes:
        return np.empty((X.shape[0], 0))
    places, shift = list(groups.columns), model.shift_of(X)
    x = X[:, places]
    x = (x.toarray() if issparse(x) else x).astype(np.float64) - (groups.centre or 0.0)
    return x if shift is None else x - shift[places]


class GroupedModel(GeneralisedLinearModel):
    """A family's likelihood in which effects of groups are integrated out.

    Rows of a batch are sorted by their ``group``, and those of a group are in one batch.
    """

    is_log_concave, has_third_derivatives = False, False
    least_curvature = MIN_CURVATURE  # See `definite`.
    # The rule of all groups, where none is looked for, and whether the one after it is meant.
    _rule, _is_next = None, False
    # Of the effects' covariances, by their sds and correlations.
    factor, _by_sds = staticmethod(factor_of), staticmethod(by_sds)

    def log_likelihood(self, theta, batch):
        """Sum over the groups of logs of integrals; see `Model`."""
        total = np.zeros(len(theta))
        self._add_sums(self.prior.coefficients(theta), 0, [batch], total, None)
        # Nodes that are chosen where particles are see nothing of sds of 1e5: such are impossible.
        return np.where(total < np.inf, total, -np.inf)

    def split(self, coefficients):
        """Coefficients (m, w), dispersions (m, k), and sds and correlations of effects (m, e)."""
        k = len(self.family.dispersions.names)
        width = coefficients.shape[1] - k
        phi = self.family.dispersions.natural(coefficients[:, width:])
        n = self.family.dispersions.n_own
        return _Particles((coefficients[:, :width], phi[:, :n], phi[:, n:]))

    def _add_sums(self, coefficients, order, batches, total, gradient):
        slopes, phi, sds = known = self.split(coefficients)
        width, by_phi, by_factor = slopes.shape[1], np.zeros(phi.shape), np.zeros(sds.shape)
        for batch in batches:
            times = 1.0 if batch.times is None else batch.times[0]
            for value, more in self._of_pieces(known, batch, order):
                total += times * value
                if order:
                    by_slopes, of_factor, of_phi = more
                    gradient[:, :width] += times * by_slopes
                    by_factor += times * of_factor
                    by_phi += times * of_phi
            columns = self._columns(batch, slice(None))
            total += times * (self.family.rest(phi, *columns) - columns[-1].sum() * self.log_unit)
            if order:
                by_phi += times * self.family.rest_by_phi(phi, *columns)
        if order:
            by_all = np.hstack([by_phi, self._by_sds(sds, by_factor)])
            u, phi = coefficients[:, width:], np.hstack([phi, sds])
            gradient[:, width:] += self.family.dispersions.pull_back(u, phi, by_all)

    def _of_pieces(self, known, batch, order):
        """`_of_piece` of all pieces of a batch, by threads."""

        def of(piece):
            return self._of_piece(known, batch, order, piece)

        n_rows = int(np.clip(TABLE // len(known[0]), FEW_ROWS, MANY_ROWS))
        if order == 0 and self.family.name == "binomial" and self.family.link == "logit":
            n_rows = SOME_ROWS  # No table of all particles is held.
        return in_order(of, group_pieces(batch, n_rows=n_rows))

    @np.errstate(over="ignore", invalid="ignore")  # Far from all rows sums are no numbers.
    def _of_piece(self, known, batch, order, piece):
        """Sums of some groups (m,), and derivatives by coefficients, factors and dispersions."""
        rows, starts = piece
        slopes, phi, sds = known
        value, more = np.zeros(len(slopes)), None
        if order:
            more = np.zeros(slopes.shape), np.zeros(sds.shape), np.zeros(phi.shape)
        for some, values, table, *others in self.integrals(known, batch, rows, starts, order):
            value[some] = values.sum(axis=1)
            if not order:
                continue
            more[0][some] = self.by_coefficients(table, batch.X[rows])
            more[1][some], more[2][some] = others[:2]
        return value, more

    def integrals(self, known, batch, rows, starts, order):
        """Of groups, for blocks of particles: slice, values, table, by factor, by phi, moments.

        See `integrate_groups`; the rule of each group, and where searches begin, are found at the
        particles' median and where effects vary most, and apart for those of twice the size.
        """
        groups, kinds = self.family.groups, known.kinds
        q, x = groups.n_effects, np.empty((starts[-1], 0))
        columns, known = self._columns(batch, rows), known.with_factors
        slopes = known[0]
        if groups.slopes:
            x = slope_columns(self, groups, batch.X[rows])
        is_fast = self._is_fast(columns)
        are_grids = q > 1 and is_fast
        integrate = integrate_products if are_grids else integrate_groups
        is_fast = is_fast and q == 1
        is_fast = is_fast and (not issparse(batch.X) or batch.X.shape[1] < 100)
        if is_fast:
            fast = Intercepts(self, kinds, batch, rows, starts)
            is_fast = fast.are_moderate
        rules, n_groups = rules_of(q, are_grids), len(starts) - 1
        block = fast.block(order) if is_fast else max(FEWEST, TABLE // starts[-1])

        def call(own, start, rule, order):
            if is_fast:
                return fast.integrate(own, start[:, 0].copy(), rule, order)
            slopes, phi, factor = own
            table = self._predictors(slopes, batch, rows)
            of_rows, own = (*columns, starts, x), (table, phi, factor)
            return integrate(self.family, of_rows, own, start, rule, rules, order)

        def chosen(own):
            n = np.sqrt(n_groups * len(batch.group) / starts[-1])

            def evaluate(start, rule):
                values, *_, moments = call(own, start, rule, 2)
                return values, moments

            if self._rule is not None:
                rule = np.full(n_groups, self._rule)
                return np.nan_to_num(evaluate(np.zeros((n_groups, q)), rule)[1][0, :, :q]), rule
            return chosen_rules(evaluate, n_groups, n, rules, is_fast and is_small(own[-1]))

        level, few = kinds
        found = {k: chosen(own) for k, own in few.items()}
        if self._is_next:
            last = rules.n - 1
            found = {k: (at, np.where(r < last, r + 1, r - 1)) for k, (at, r) in found.items()}
        for i in range(0, len(slopes), block):
            some, parts = slice(i, i + block), []
            for k in few:
                place = np.flatnonzero(level[some] == k)
                if len(place):
                    own = tuple(one[some][place] for one in known)
                    parts.append((place, call(own, *found[k], order)))
            yield some, *together(parts)

    def terms(self, rows):
        """Groups; see `LinearModel`."""
        return GroupTerms(rows)

    def derivatives(self, mean, batches):
        """As they are, of whatever sign; see `LinearModel`."""
        gradient, precision = self.prior.expected(mean, None)
        at, ahead, back = self._along(mean, _STEP * np.eye(len(mean)), batches)
        hessian = (0.5 / _STEP) * (ahead - back)
        return gradient + at, precision_matrix(precision) - 0.5 * (hessian + hessian.T)

    def remainders(self, mean, chol, batch):
        """Sizes (G,) of what a quadratic lacks of each group; see `OneLogit.remainders`.

        They are cubes of what rows tell of a posterior sd, by slopes and second differences.
        """
        known = self.split(np.concatenate([mean[None], mean + chol.T, mean - chol.T]))
        found = []
        for piece in group_pieces(batch):
            values = np.concatenate([part[1] for part in self.integrals(known, batch, *piece, 0)])
            at, ahead, back = np.split(values, [1, 1 + len(mean)])
            squares = 0.25 * (ahead - back) ** 2 + np.abs(ahead + back - 2.0 * at)
            found.append(squares.sum(axis=0) ** 1.5)
        return np.concatenate(found)

    def changes(self, theta, batches):
        """By how much integrals of groups are other ones with the next rule, (m, G).

        That is with the last but one, where a group has the last.
        """
        known, further, out = self.split(self.prior.coefficients(theta)), copy.copy(self), []
        further._is_next = True
        for batch in batches if not self.family.is_conjugate else ():
            for piece in group_pieces(batch, n_rows=SOME_ROWS):
                both = (
                    np.concatenate([part[1] for part in one.integrals(known, batch, *piece, 0)])
                    for one in (self, further)
                )
                out.append(np.subtract(*both))
        return np.concatenate(out, axis=1) if out else np.zeros((len(theta), 1))

    def _is_fast(self, columns):
        """Whether intercepts have a kernel of their own: of counts, and of single trials."""
        _, size, weight = columns
        if self.family.name == "binomial" and self.family.link == "logit":
            return bool((size == 1.0).all() and (weight == 1.0).all())
        return self.family.name == "poisson"

    # ------------------------------------------------------------------- where searches begin
    def starts(self, batches):
        """Near the mode without effects, at the best of some sds of effects; see `LinearModel`."""
        if not self.prior.has_gaussian:
            return [np.zeros(self.n_coordinates)]
        plain, of_groups = self._without_groups()
        found = []
        for start in plain.starts(batches):
            mode = laplace(plain, batches, start).mean
            grid = np.zeros((len(_GRID), of_groups))
            grid[:, : self.family.groups.n_effects] = _GRID[:, None]
            points = np.hstack([np.tile(mode, (len(_GRID), 1)), grid])
            value = sum(self._searching().log_likelihood(points, batch) for batch in batches)
            value += self.log_prior(points)
            found.append(points[np.where(np.isfinite(value), value, -np.inf).argmax()])
        return found

    def _searching(self):
        """The same with one rule for all groups, so that derivatives do not jump between steps."""
        if self.family.is_conjugate:
            return self
        own, is_easy = copy.copy(self), self.family.is_concave
        is_easy |= self.family.groups.n_effects > 1  # Of which none has panels.
        q = self.family.groups.n_effects
        own._rule = _OF_SEARCHES[q - 1] if is_easy else rules_of(1).n_gaussian
        return own

    @property
    def rough_gradient(self):
        """Gradients (m, d) by few nodes, for the inside of trajectories; None where all are few."""
        if self.family.groups.n_effects == 1 or self.family.is_conjugate:
            return None
        own = copy.copy(self)
        own._rule = _OF_TRAJECTORIES[self.family.groups.n_effects - 1]
        return lambda *given: own.log_joint_gradient(*given)[1]

    def _without_groups(self):
        """The model without effects, and how many coordinates it has less."""
        k = len(self.family.groups.dispersions.names)
        family = copy.copy(self.family)
        family.groups, family.dispersions = None, self.family.dispersions.parts[0]
        prior = MarginalPrior(self.prior, self.n_coordinates - k)
        model = GeneralisedLinearModel(
            prior, self.fit_intercept, family, self.location, self.log_unit, self.shift
        )
        return model, k

    # ------------------------------------------------------------------- under a Gaussian
    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian of the log joint density under a Gaussian.

        Gradients of the likelihood are exact, and averages of them are by a rule of three nodes
        along each axis; second derivatives are their differences.
        """
        steps = _STEP * np.eye(len(mean)) if cov is None else _WIDE * np.linalg.cholesky(cov)
        gradient, precision = self.prior.expected(
            mean, None if cov is None else np.sqrt(np.diag(cov))
        )
        of = self._searching() if cov is None else self  # A mode is no more than a start.
        with np.errstate(over="ignore", invalid="ignore"):
            at, ahead, back = of._along(mean, steps, batches)
            is_finite = np.isfinite(at + (ahead - back).sum(axis=0)).all()
        if cov is not None:
            at = at + (ahead + back - 2.0 * at).sum(axis=0) / 6.0
        if not is_finite:  # After a step that was too long: who took it halves it.
            return np.full(len(mean), np.nan), precision_matrix(precision)
        hessian = np.linalg.solve(steps.T, 0.5 * (ahead - back))
        hessian = precision_matrix(precision) - 0.5 * b * (hessian + hessian.T)
        return gradient + b * at, definite(hessian, self.least_curvature)

    def skew_axes(self, mean, chol, batches, b=1.0):
        """The axes of the factor itself, and third derivatives along each; see `LinearModel`."""
        third = self.prior.expected_third(mean, np.linalg.norm(chol, axis=1))
        at, ahead, back = self._along(mean, chol, batches)
        of_rows = np.einsum("ji,ij->i", chol, ahead + back - 2.0 * at)
        return np.eye(len(mean)), b * of_rows + third @ chol**3

    def _along(self, mean, steps, batches):
        """Gradients of the log-likelihood at a point, and one step ahead and back on each axis."""
        points = np.concatenate([mean[None], mean + steps.T, mean - steps.T])
        gradient = np.zeros(points.shape)
        self._add_sums(points, 1, batches, np.zeros(len(points)), gradient)
        at, *rest = np.split(gradient, [1, 1 + len(mean)])
        return at[0], *rest


class _Particles(tuple):
    """Coefficients (m, w), dispersions (m, k) and sds and correlations of effects (m, e)."""

    @cached_property
    def with_factors(self):
        """The same with factors (m, e) of the effects' covariances."""
        return *self[:2], factor_of(self[2])

    @cached_property
    def kinds(self):
        """The octave (m,) of each, and some to find rules by of those of each octave, a dict."""
        known = self.with_factors
        level = octaves(known[2])
        few = {k: probes(known, np.flatnonzero(level == k)) for k in np.unique(level)}
        return level, few
