"""Classes without an order with effects of groups: an intercept for each class but the first.

They are independent and normal, each class with a standard deviation of its own, and integrated out
as effects of one predictor are. Nodes of their integrals are Smolyak's: sums and differences of
products of Gauss-Hermite rules, so few that a dimension more does not multiply them.
"""

from functools import cache
from itertools import combinations_with_replacement, product
from math import comb
from typing import NamedTuple

import numpy as np

from skpmd.linear._design import gauss_hermite, normal_nodes
from skpmd.linear._dispersion import Dispersions, HalfStudentT
from skpmd.linear._family import Family
from skpmd.linear._group_effects import RowEffects
from skpmd.linear._group_rules import octaves
from skpmd.linear._groups import GroupedModel
from skpmd.linear._multinomial import SoftmaxModel, less_mean
from skpmd.linear._priors import MarginalPrior
from skpmd.linear._softmax_kernels import integrate_classes

# Levels of Smolyak's rules, and how many nodes the rules of one dimension that they are made of
# have; products of so many nodes in two, three and four dimensions; points of the last resort in
# more; and how many nodes a rule has at most. Of 2,000 groups of ten rows and sds of 1, integrals
# of four classes err together by 8, .4, .03 and .006 nats.
_LEVELS = (2, (1, 3, 3)), (3, (1, 3, 3, 5)), (5, (1, 3, 3, 5, 5, 7)), (4, (1, 3, 5, 7, 9))
_PRODUCTS, _POINTS, _MAX_NODES = {2: (11, 27), 3: (11,), 4: (7,)}, 2048, 2600
# A rule will do if the next one changes integrals by no more than so many nats a group, and their
# sum between particles by no more than so many, of which a few are looked at.
_MEAN_CHANGE, _VARIATION, _SEEN = 4e-4, 0.04, 4
_OF_SEARCHES, _NUMBERS = 1, 1 << 18  # The rule of searches, and numbers of a table of logits.


class Softmax(Family):
    """Classes whose log probabilities are linear predictors, each its own, less a constant."""

    name, links, kind = "softmax", ("logit",), "class"

    def __init__(self):
        super().__init__()
        self.link = "softmax"  # Which is none of one predictor.


class ClassGroups(NamedTuple):
    """A grouping factor with effects for each class but the first; methods are of `Groups`."""

    factor: str
    labels: np.ndarray
    names: tuple  # Of the classes that have effects, which are the effects' names.
    prior_scale: float

    others = ()

    @property
    def factors(self):
        """See `Groups`: there is one."""
        return [self]

    @property
    def n_effects(self):
        """Effects of each group."""
        return len(self.names)

    @property
    def dispersions(self):
        """`Dispersions` of the effects: an sd for each class."""
        names = tuple(f"sd[{self.factor}:{name}]" for name in self.names)
        return Dispersions(names, (HalfStudentT(self.prior_scale),) * len(names))

    def units(self, unit, scale):
        """What they are per, (k,): logits have no unit."""
        return np.ones(len(self.names))

    def are_within(self, phi):
        """Whether dispersions (m, k) are some that there can be, (m,)."""
        return (phi > 0.0).all(axis=-1)

    @property
    def described(self):
        """What they are of, for people."""
        return ("of the logit less that of the first class",) * len(self.names)

    def priors(self, unit, scale):
        """Priors in words, (k,)."""
        return [HalfStudentT(self.prior_scale).described(unit)] * len(self.names)


class _Rules:
    """Nodes (q + 2, N) of all rules in q dimensions, as `integrate_classes` takes them."""

    def __init__(self, q):
        rules = [_smolyak(q, *one) for one in _LEVELS]
        rules += [_smolyak(q, 0, (n,) * 2, is_product=True) for n in _PRODUCTS.get(q, ())]
        if q not in _PRODUCTS:
            points = normal_nodes(q, _POINTS, shifted=True)
            rules.append((points, np.full(points.shape[1], 1.0 / points.shape[1])))
        rules = sorted((one for one in rules if one is not None), key=lambda one: len(one[1]))
        self.first, self.n = np.cumsum([0] + [len(w) for _, w in rules]), len(rules)
        parts = [np.vstack([t, 0.5 * (t**2).sum(axis=0), w]) for t, w in rules]
        self.nodes = np.ascontiguousarray(np.hstack(parts))


rules_of = cache(_Rules)


def _smolyak(q, level, sizes, is_product=False):
    """Nodes (q, N) and weights of Smolyak's rule, or of a product; None where there are too many.

    A term has rules of one dimension of these sizes, the larger the further they are in the list.
    """
    if is_product:
        terms = [(1.0, (1,) * q)]
    else:
        terms = []
        for excess in range(max(0, level + 1 - q), level + 1):
            sign = (-1.0) ** (level - excess) * comb(q - 1, level - excess)
            for places in combinations_with_replacement(range(q), excess):
                terms.append((sign, tuple(np.bincount(places, minlength=q).tolist())))
    if sum(np.prod([sizes[i] for i in one]) for _, one in terms) > 20 * _MAX_NODES:
        return None
    found = {}
    for sign, indices in terms:
        each = [list(zip(*gauss_hermite(sizes[i]), strict=True)) for i in indices]
        for nodes in product(*each):
            place = tuple(round(t, 12) + 0.0 for t, _ in nodes)
            found[place] = found.get(place, 0.0) + sign * np.prod([w for _, w in nodes])
    found = {place: w for place, w in found.items() if abs(w) > 1e-14}
    if len(found) > _MAX_NODES:
        return None
    return np.array(list(found)).T, np.array(list(found.values()))


class GroupedSoftmax(GroupedModel):
    """The likelihood of `SoftmaxModel` in which effects of groups are integrated out.

    theta is as there, and then a standard normal coordinate for the sd of each class but the first.
    """

    least_curvature = 1e-10  # What is added to all classes alike has that of its prior alone.

    def __init__(self, prior, fit_intercept, family, n_classes, shift=None):
        super().__init__(prior, fit_intercept, family, shift=shift)
        self.n_classes = n_classes

    def monitored(self, theta):
        """As in `SoftmaxModel`."""
        if not self.prior.has_gaussian:
            return theta
        width = theta.shape[1] - self.n_classes + 1
        own = less_mean(theta[:, :width], self.n_classes)
        return np.hstack([own, theta[:, width:]])

    @staticmethod
    def factor(sds):
        """Lower triangles (m, e) of factors of covariances: effects are independent."""
        q = sds.shape[1]
        out = np.zeros((len(sds), q * (q + 1) // 2))
        out[:, np.cumsum(np.arange(1, q + 1)) - 1] = sds
        return out

    @staticmethod
    def _by_sds(sds, by_factor):
        return by_factor

    def integrals(self, known, batch, rows, starts, order):
        """Of groups, for blocks of particles; tables are (m, K, n). See `GroupedModel.integrals`.

        See `integrate_classes`. Particles with effects of about the same size have the same rule.
        """
        (slopes, phi, sds), K, G = known, self.n_classes, len(starts) - 1
        y, _, weight = self._columns(batch, rows)
        rules, start = rules_of(K - 1), np.zeros((G, K - 1))

        def call(some, rule, order):
            own = slopes[some].reshape(-1, slopes.shape[1] // K)
            table = self._predictors(own, batch, rows)
            table = table.reshape(-1, K, table.shape[1])
            m, n_moments = len(table), (K - 1) * (K + 4) // 2
            values, by_sd = np.zeros((m, G)), np.zeros((m, K - 1))
            moments = np.zeros((m, G if order == 2 else 0, n_moments))
            given = np.ascontiguousarray(sds[some]), start, rules.nodes, rules.first, rule, order
            with np.errstate(all="ignore"):
                integrate_classes(table, y, weight, starts, *given, values, by_sd, moments)
            return values, table, by_sd, phi[some], moments

        middle = np.argsort(sds.sum(axis=1))[[len(sds) // 2]]
        start = np.nan_to_num(call(middle, np.zeros(1, dtype=np.int64), 2)[-1][0, :, : K - 1])
        share = G / max(1, len(np.unique(batch.group)))
        rule = self._rules_of(sds, rules.n, share, G, call)
        block = max(8, _NUMBERS // (K * starts[-1]))
        for i in range(0, len(slopes), block):
            some = slice(i, i + block)
            yield some, *call(some, rule[some], order)

    def _rules_of(self, sds, n_rules, share, n_groups, call):
        """The rule (m,) of each particle; of all groups these are a ``share``."""
        if self._rule is not None:
            return np.full(len(sds), self._rule)
        rule, level, size = np.empty(len(sds), dtype=np.int64), octaves(sds), sds.sum(axis=1)
        for k in np.unique(level):
            place = np.flatnonzero(level == k)
            seen = (np.arange(0.5, _SEEN) / _SEEN * len(place)).astype(np.int64)
            few = place[np.argsort(size[place])[np.unique(seen)]]

            def values(r, few=few):
                return call(few, np.full(len(few), r), 0)[0]

            last = values(0)
            for r in range(1, n_rules):
                change, last = last, values(r)
                change = (last - change).sum(axis=1)
                is_small = np.abs(change).max() < _MEAN_CHANGE * n_groups
                if is_small and change.std() < _VARIATION * share:
                    r -= 1
                    break
            rule[place] = r
        if self._is_next:
            rule = np.where(rule < n_rules - 1, rule + 1, rule - 1)
        return rule

    def _searching(self):
        """The same with one rule, so that derivatives do not jump between steps."""
        own = self.with_prior(self.prior)
        own._rule = _OF_SEARCHES
        return own

    @property
    def rough_gradient(self):
        """Gradients (m, d) by few nodes; see `GroupedModel`."""
        own = self._searching()
        return lambda *given: own.log_joint_gradient(*given)[1]

    def _without_groups(self):
        """The model without effects, and how many coordinates it has less."""
        prior = MarginalPrior(self.prior, self.n_coordinates - self.n_classes + 1)
        return SoftmaxModel(
            prior, self.fit_intercept, self.n_classes, self.shift
        ), self.n_classes - 1


class ClassEffects(RowEffects):
    """Effects of rows on the logits of all classes but the first; see `RowEffects`."""

    def add(self, table, rows):
        """Add those of some rows to logits (K, m, r), or to those without the first class's."""
        own = self._tables[0][self._places[0][rows]].transpose(1, 2, 0)
        table[-len(own) :] += own
