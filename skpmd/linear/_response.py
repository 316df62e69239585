"""What y is: classes, or a distribution of numbers, and the likelihood and the names that follow.

A response says how many rows of coefficients there are, which model and which coordinates it makes,
what y is for kernels, and in which frame, of units, a posterior is found.
"""

from typing import NamedTuple

import numpy as np

from skpmd._export import Variable
from skpmd._rows.rows import Rows, stacked_rows
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._column_scale import Units
from skpmd.linear._crossed import CrossedModel, CrossedNormal
from skpmd.linear._design import n_logits
from skpmd.linear._family import LINKS, Family
from skpmd.linear._glm import GeneralisedLinearModel
from skpmd.linear._grouped_normal import GroupedNormal
from skpmd.linear._grouped_softmax import GroupedSoftmax
from skpmd.linear._groups import GroupedModel
from skpmd.linear._multinomial import SoftmaxModel
from skpmd.linear._normal import NormalModel

_STEP = 1e-4  # Of differences between coordinates, whose prior has an sd of the order of one.
_ROUNDING = 1e-12  # y of a smaller sd, as a share of its mean, are constant.


class Classes(NamedTuple):
    """Classes without an order: two have one row of coefficients, more have one each."""

    labels: np.ndarray
    family: Family | None = None  # `Softmax`, of more than two with effects of groups.

    centre, unit, location = 0.0, 1.0, 0.0  # See `Distribution`.
    n_own = 0
    has_cutpoints = False  # Whether there are some, where columns are at their means.

    @property
    def n_rows(self):
        """Rows of coefficients."""
        return n_logits(len(self.labels))

    @property
    def groups(self):
        """`ClassGroups`, or None."""
        return None if self.family is None else self.family.groups

    @property
    def n_dispersions(self):
        """Coordinates beyond the coefficients that a likelihood has: sds of effects of groups."""
        return 0 if self.family is None else len(self.family.dispersions.names)

    def model(self, prior, fit_intercept, shift):
        """The likelihood under a prior; see `LinearModel`."""
        if self.family is not None:
            return GroupedSoftmax(prior, fit_intercept, self.family, len(self.labels), shift)
        if self.n_rows == 1:
            return LogisticModel(prior, fit_intercept, shift)
        return SoftmaxModel(prior, fit_intercept, len(self.labels), shift)

    def coefficient_names(self, features, fit_intercept):
        """Names of the coefficients, row by row, each with its intercept last."""
        beside = ("intercept",) if fit_intercept else ()
        one = [*_apart(features, beside), *beside]
        if self.n_rows == 1:
            return one
        of_groups = [] if self.family is None else self.family.dispersions.names
        return [*(f"{name}[{label}]" for label in self.labels for name in one), *of_groups]

    def variables(self, features, fit_intercept):
        """The same as arrays, {name: `Variable`}, and the labels of their axes."""
        p, K, dims = len(features), self.n_rows, ("class",)
        width = p + fit_intercept
        places = np.arange(K * width).reshape(K, width)
        coords = {"feature": [str(name) for name in features]}
        if K == 1:
            places, dims = places[0], ()
        else:
            coords["class"] = [str(label) for label in self.labels]
        found = {"coef": Variable(places[..., :p], (*dims, "feature"))}
        if fit_intercept:
            found["intercept"] = Variable(places[..., p], dims)
        if self.family is not None:
            names = enumerate(self.family.dispersions.names, K * width)
            found |= {name: Variable(np.array(j)) for j, name in names}
        return found, coords

    def units(self, scale):
        """What dispersions are per, (k,), where columns are in units of ``scale``."""
        return self.groups.units(1.0, scale)

    def described(self, scale):
        """The priors of dispersions, in words."""
        return [] if self.family is None else self.family.groups.priors(1.0, scale)

    def frame(self, units):
        """Of a posterior that is found in these `Units` of columns, or None."""
        return units if self.family is None else Frame(units, self)

    def given_units(self, n_features, fit_intercept):
        """`Units` of columns that are taken as they are: None, but that a frame has some."""
        if self.family is None:
            return None
        return Units(np.zeros(n_features), np.ones(n_features), self.n_rows, fit_intercept)

    def targets(self, codes):
        """Class codes as the models want them."""
        return 2.0 * codes - 1.0 if self.n_rows == 1 else codes

    def totals(self, rows):
        """What a stream has of each class: weights (K,)."""
        codes = self.targets(np.arange(len(self.labels)))
        return np.array([rows.weight[rows.y == code].sum() for code in codes])

    def reordered(self, rows, order):
        """Rows of earlier classes as ones of these, the k-th of which was the ``order[k]``-th."""
        return rows._replace(y=np.argsort(order)[rows.y.astype(np.int64)])

    def since(self, rows, other):
        """Rows whose y are those of another response as ones of this: classes have no units."""
        return rows

    def renewed(self, rows, retained, parameters):
        """The response that all rows tell of, and both parts of them: classes are what they are."""
        return self, rows, retained


class Distribution(NamedTuple):
    """Numbers, counts, amounts, shares or ordered classes, of a family."""

    family: Family
    centre: float = 0.0  # Of y, which is in units from there; 0 and 1 but for real families.
    unit: float = 1.0
    location: float = 0.0  # The linear predictor that an intercept is relative to.

    n_rows = 1

    @classmethod
    def of(cls, family, y, weight, known_part, fit_intercept):
        """That of y (n,) of a family, whose rows have weights or None.

        ``known_part`` are the offset of predictors and trials, or None. The intercept is about the
        link of the mean of y: of the sum of y over that of exposures or trials, and less the mean
        offset.
        """
        offset, trials = known_part
        weight = np.ones(len(y)) if weight is None else weight
        n = weight.sum()
        if family.link == "identity":
            y = y if offset is None else y - offset
            mean = weight @ y / n
            sd = np.sqrt(weight @ (y - mean) ** 2 / n)
            unit = float(sd) if sd > _ROUNDING * abs(mean) else 1.0
            return cls(family, float(mean) if fit_intercept else 0.0, unit)
        least = 0.5 if family.kind == "count" else 0.0  # Where all y are zero, or negative.
        if family.is_real:  # With another link the scale of y is that of its dispersion alone.
            unit = float(np.sqrt(max(weight @ (y - weight @ y / n) ** 2 / n, np.finfo(float).tiny)))
            family, least = type(family)(family.link, family.prior_scale * unit), 0.5 * unit
        if not fit_intercept:
            return cls(family)
        total, size = weight @ y, n
        if trials is not None:
            size = weight @ trials
        elif family.link == "log" and offset is not None:
            total, size = total * np.exp(-offset.max()), weight @ np.exp(offset - offset.max())
        if family.link == "log":
            mean = max(total, least * (1.0 if offset is None else np.exp(-offset.max()))) / size
        else:
            mean = np.clip(total / size, 0.5 / (size + 1.0), 1.0 - 0.5 / (size + 1.0))
        with np.errstate(divide="ignore"):
            location = float(LINKS[family.link].predictor(mean))
        if family.link != "log" and offset is not None:
            location -= float(weight @ offset / n)
        return cls(family, location=location)

    @property
    def has_cutpoints(self):
        """See `Classes`."""
        return self.family.has_cutpoints

    @property
    def groups(self):
        """`Groups` or `Factors`, or None."""
        return self.family.groups

    @property
    def n_dispersions(self):
        """Coordinates beyond the coefficients that the family has."""
        return len(self.family.dispersions.names)

    @property
    def n_own(self):
        """Coordinates of dispersion without those of groups."""
        return getattr(self.family.dispersions, "n_own", self.n_dispersions)

    def units(self, scale):
        """What dispersions are per, (k,), where columns are in units of ``scale``."""
        out = np.ones(self.n_own)
        if self.family.is_real:
            out[:1] = self.unit
        groups = self.family.groups
        return out if groups is None else np.append(out, groups.units(self.unit, scale))

    def described(self, scale):
        """The prior of each dispersion, in words; columns are in units of ``scale``."""
        dispersions, groups = self.family.dispersions, self.family.groups
        if groups is None:
            return dispersions.described(self.unit)
        return dispersions.parts[0].described(self.unit) + groups.priors(self.unit, scale)

    def model(self, prior, fit_intercept, shift):
        """The likelihood under a prior; see `GeneralisedLinearModel`."""
        log_unit = float(np.log(self.unit))
        kind = NormalModel if self.family.is_conjugate else GeneralisedLinearModel
        groups, is_normal = self.family.groups, self.family.is_conjugate
        if groups is not None and groups.others:
            kind = CrossedModel if groups.has_levels else CrossedNormal
        elif groups is not None:
            kind = GroupedNormal if is_normal else GroupedModel
        return kind(prior, fit_intercept, self.family, self.location, log_unit, shift)

    def coefficient_names(self, features, fit_intercept):
        """Names of coefficients, of the intercept, and of dispersions."""
        beside = ["intercept"] * fit_intercept + list(self.family.dispersions.names)
        return _apart(features, beside) + beside

    def variables(self, features, fit_intercept):
        """See `Classes.variables`."""
        p = len(features)
        found = {"coef": Variable(np.arange(p), ("feature",))}
        coords = {"feature": [str(name) for name in features]}
        names = ["intercept"] * fit_intercept + list(self.family.dispersions.names)
        if self.has_cutpoints:
            k = self.n_own
            coords["cutpoint"] = [str(one) for one in range(1, k + 1)]
            found["cut"] = Variable(np.arange(p, p + k), ("cutpoint",))
            p, names = p + k, names[k:]
        found |= {name: Variable(np.array(p + j)) for j, name in enumerate(names)}
        return found, coords

    def given_units(self, n_features, fit_intercept):
        """See `Classes.given_units`; a frame has some in any case."""
        centre, scale = np.zeros(n_features), np.ones(n_features)
        return Units(centre, scale, 1, fit_intercept, self.has_cutpoints)

    def frame(self, units):
        """See `Classes.frame`."""
        return Frame(units, self)

    def targets(self, y):
        """y as the model wants it."""
        return (y - self.centre) / self.unit

    def totals(self, rows):
        """The weight of all rows, (1,), or of each class, for a stream may have them one by one."""
        if self.has_cutpoints:
            codes = np.asarray(rows.y, dtype=np.int64)
            return np.bincount(codes, rows.weight, self.n_own + 1)
        return np.array([rows.weight.sum()])

    def since(self, rows, other):
        """Rows whose y are in the units of another response, as ones in those of this."""
        y = self.targets(other.centre + other.unit * rows.y)
        if rows.offset is not None:
            rows = rows._replace(offset=rows.offset * other.unit / self.unit)
        return rows._replace(y=y)

    def renewed(self, rows, retained, parameters):
        """See `Classes.renewed`: centre and unit of y, or the rate, of all rows up to now."""
        new, old = rows.data, retained.rows
        if parameters.scale is None or (self.family.is_real and self.family.link != "identity"):
            return self, rows, retained
        # Of all columns but X, which may be in blocks.
        both = stacked_rows(*(one._replace(X=one.weight[:, None]) for one in (old, new)))
        y, offset = self.centre + self.unit * both.y, both.offset
        known = None if offset is None else self.unit * offset, both.exposure
        found = self.of(self.family, y, both.weight, known, parameters.fit_intercept)
        rows = Rows.of(found.since(new, self), max(1, -(-len(rows) // rows.n_batches)))
        return found, rows, retained._replace(rows=found.since(old, self))


class Frame(NamedTuple):
    """What takes coordinates of a fit to given units: columns, y, and dispersions from logarithms.

    Outward is to those of the fit, as `skpmd.engine.edges` has it. There an intercept, or
    cutpoints, are at the columns' centres, and as given where all columns are zero.
    """

    columns: Units
    response: Distribution | Classes

    def inward(self, u):
        """Coordinates as given, (..., d), of those of the fit."""
        slopes, intercept, phi = self._places
        dispersions, unit = self.response.family.dispersions, self.response.unit
        if self._are_classes:
            out = self.columns.inward(u)
        else:
            out = np.array(u, dtype=np.float64)
            out[..., slopes] *= unit / self.columns.scale
            out[..., intercept] = self._location + unit * out[..., intercept]
        out[..., phi] = dispersions.natural(out[..., phi])
        out[..., phi] *= self.response.units(self.columns.scale)
        return out if self._are_classes else self._shifted(out, 1.0)

    def outward(self, theta):
        """Coordinates of the fit, of those as given."""
        slopes, intercept, phi = self._places
        dispersions, unit = self.response.family.dispersions, self.response.unit
        if self._are_classes:
            out = self.columns.outward(theta)
        else:
            out = self._shifted(np.array(theta, dtype=np.float64), -1.0)
            out[..., slopes] *= self.columns.scale / unit
            out[..., intercept] = (out[..., intercept] - self._location) / unit
        out[..., phi] /= self.response.units(self.columns.scale)
        out[..., phi] = dispersions.standard(out[..., phi])
        return out

    def log_jacobian(self, u):
        """Log determinant of the derivative of given coordinates by those of the fit, (m,)."""
        (*_, phi), family = self._places, self.response.family
        n_units = phi.start + (1 if family.is_real else 0)
        linear = n_units * np.log(self.response.unit) + self.columns.log_jacobian(u)
        if family.groups is not None:
            units = family.groups.units(self.response.unit, self.columns.scale)
            linear += np.log(units).sum()
        return linear + family.dispersions.log_jacobian(u[..., phi])

    def within(self, theta):
        """Whether points (m, d) have coordinates of a fit."""
        phi, n = theta[..., self._places[2]], self.response.n_own
        own, groups = phi[..., :n], self.response.groups
        if self.response.has_cutpoints:
            own = np.diff(own, axis=-1)
        inside = (own > 0.0).all(axis=-1)
        return inside if groups is None else inside & groups.are_within(phi[..., n:])

    def _shifted(self, theta, side):
        """Coordinates with intercepts, or cutpoints, from the centres to zero, or back for -1."""
        slopes, intercept, phi = self._places
        gap = side * (theta[..., slopes] @ self.columns.centre)[..., None]
        theta[..., intercept] -= gap
        if self.columns.has_cutpoints:
            theta[..., phi.start : phi.start + self.response.n_own] += gap
        return theta

    def since(self, other):
        """What takes coordinates of another frame's fit to those of this."""
        return Between(other, self)

    def of(self, places):
        """The frame of the coordinates at some places; None where these are not all, in order."""
        if self._are_classes:
            return None
        slopes, _, phi = self._places
        places, after = np.asarray(places).reshape(-1), np.arange(slopes.stop, phi.stop)
        n = len(places) - len(after)
        if n < 0 or not np.array_equal(places[n:], after):
            return None
        return self._replace(columns=self.columns.only(places[:n]))

    def described(self, names):
        """What each coordinate is per unit of, for people."""
        if self._are_classes:
            out = self.columns.described(names)
            out[self._places[2]] = self.response.groups.described
            return out
        out = ["per unit of the column"] * len(self.columns.scale)
        is_centred = bool(self.columns.centre.any())
        at_zero = "where columns are 0" + " (prior: at their means)" * is_centred
        out += [at_zero] * self.columns.fit_intercept
        of_dispersion = at_zero if self.columns.has_cutpoints else ""
        of_first = "that of y" if self.response.family.is_real else of_dispersion
        k = self.response.n_own
        out += [of_first] * min(k, 1) + [of_dispersion] * (k - 1)
        if self.response.family.groups is not None:
            out += self.response.family.groups.described
        return out + ["log of a scale"] * (len(names) - len(out))

    @property
    def _are_classes(self):
        return self.response.n_rows > 1

    @property
    def _location(self):
        return self.response.centre + self.response.location

    @property
    def _places(self):
        """Slices of slopes and the intercept, where there is one row, and of dispersions."""
        p = len(self.columns.scale)
        w = self.response.n_rows * (p + self.columns.fit_intercept)
        return slice(0, p), slice(p, w), slice(w, w + self.response.n_dispersions)


class Between(NamedTuple):
    """What takes coordinates of one frame's fit to those of another's."""

    one: Frame
    other: Frame

    def outward(self, theta):
        """Coordinates of the other."""
        return self.other.outward(self.one.inward(theta))

    def log_jacobian(self, u):
        """Log determinant of the derivative of coordinates of the one by those of the other."""
        theta = Between(self.other, self.one).outward(u)
        of_other, of_one = self.other.log_jacobian(u), self.one.log_jacobian(theta)
        both = np.isfinite(of_other) & np.isfinite(of_one)  # Both are flat where no mass is.
        return np.where(both, of_other, 0.0) - np.where(both, of_one, 0.0)

    def pull_back(self, gradient, theta):
        """See `Units.pull_back`; next to a point (d,), for dispersions bend the map."""
        steps = _STEP * np.eye(len(theta))
        rise = self.outward(theta + steps) - self.outward(theta - steps)
        return gradient @ (rise.T / (2.0 * _STEP))


def _apart(features, others):
    """Names of coefficients: those of the columns, but for columns named as other coordinates."""
    taken = {"coef", *others}
    return [f"coef[{name}]" if str(name) in taken else name for name in features]
