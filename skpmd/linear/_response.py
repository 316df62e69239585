"""What y is: classes, or a distribution of numbers, and the likelihood and the names that follow.

A response says how many rows of coefficients there are, which model and which coordinates it makes,
what y is for kernels, and in which frame, of units, a posterior is found.
"""

from typing import Any, NamedTuple

import numpy as np

from skpmd._export import Variable
from skpmd._rows.rows import Rows
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._column_scale import Units
from skpmd.linear._design import n_logits
from skpmd.linear._families import link_of
from skpmd.linear._glm import GeneralisedLinearModel
from skpmd.linear._grouped_normal import GroupedNormal
from skpmd.linear._groups import GroupedModel
from skpmd.linear._multinomial import SoftmaxModel
from skpmd.linear._normal import NormalModel

_STEP = 1e-4  # Of differences between coordinates, whose prior has an sd of the order of one.
_ROUNDING = 1e-12  # y of a smaller sd, as a share of its mean, are constant.


class Classes(NamedTuple):
    """Classes without an order: two have one row of coefficients, more have one each."""

    labels: np.ndarray

    n_dispersions = 0  # Coordinates beyond the coefficients that a likelihood has.
    has_cutpoints = False  # Whether there are some, where columns are at their means.

    @property
    def n_rows(self):
        """Rows of coefficients."""
        return n_logits(len(self.labels))

    def model(self, prior, fit_intercept, shift):
        """The likelihood under a prior; see `LinearModel`."""
        if self.n_rows == 1:
            return LogisticModel(prior, fit_intercept, shift)
        return SoftmaxModel(prior, fit_intercept, len(self.labels), shift)

    def coefficient_names(self, features, fit_intercept):
        """Names of the coefficients, row by row, each with its intercept last."""
        one = [*features, "intercept"] if fit_intercept else list(features)
        if self.n_rows == 1:
            return one
        return [f"{name}[{label}]" for label in self.labels for name in one]

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
        return found, coords

    def frame(self, units):
        """Of a posterior that is found in these `Units` of columns, or None."""
        return units

    def given_units(self, n_features, fit_intercept):
        """`Units` of columns that are taken as they are: None."""
        return None

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

    family: Any
    centre: float = 0.0  # Of y, which is in units from there; 0 and 1 but for real families.
    unit: float = 1.0
    location: float = 0.0  # The linear predictor that an intercept is relative to.

    n_rows = 1

    @property
    def has_cutpoints(self):
        """See `Classes`."""
        return self.family.has_cutpoints

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
        units, laws = groups.units(self.unit, scale), groups.dispersions.laws
        own = dispersions.parts[0].described(self.unit)
        return own + [law.described(unit) for law, unit in zip(laws, units, strict=True)]

    def model(self, prior, fit_intercept, shift):
        """The likelihood under a prior; see `GeneralisedLinearModel`."""
        log_unit = float(np.log(self.unit))
        kind = NormalModel if self.family.is_conjugate else GeneralisedLinearModel
        if self.family.groups is not None:
            kind = GroupedNormal if self.family.is_conjugate else GroupedModel
        return kind(prior, fit_intercept, self.family, self.location, log_unit, shift)

    def coefficient_names(self, features, fit_intercept):
        """Names of coefficients, of the intercept at the columns' means, and of dispersions."""
        names = [f"b[{name}]" for name in features] + ["a"] * fit_intercept
        return [*names, *self.family.dispersions.names]

    def variables(self, features, fit_intercept):
        """See `Classes.variables`."""
        p = len(features)
        found = {"b": Variable(np.arange(p), ("feature",))}
        coords = {"feature": [str(name) for name in features]}
        names = ["a"] * fit_intercept + list(self.family.dispersions.names)
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

    def reordered(self, rows, order):
        """Rows as they are; see `Classes.reordered`."""
        return rows

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
        y = self.centre + self.unit * np.concatenate([old.y, new.y])
        weight = np.concatenate([old.weight, new.weight])
        known = [
            None if getattr(new, name) is None
            else np.concatenate([getattr(old, name), getattr(new, name)])
            for name in ("offset", "exposure")
        ]  # fmt: skip
        if known[0] is not None:
            known[0] = self.unit * known[0]
        found = distribution_of(self.family, y, weight, known, parameters.fit_intercept)
        rows = Rows.of(found.since(new, self), max(1, -(-len(rows) // rows.n_batches)))
        return found, rows, retained._replace(rows=found.since(old, self))


class Frame(NamedTuple):
    """What takes coordinates of a fit to given units: columns, y, and dispersions from logarithms.

    Outward is to those of the fit, as `skpmd.engine.edges` has it. The intercept stays at the
    columns' centres.
    """

    columns: Units
    response: Distribution

    def inward(self, u):
        """Coordinates as given, (..., d), of those of the fit."""
        out, k = np.array(u, dtype=np.float64), self.response.n_dispersions
        p, w = self._widths(out)
        unit = self.response.unit
        out[..., w : w + k] = self.response.family.dispersions.natural(out[..., w : w + k])
        out[..., :p] *= unit / self.columns.scale
        out[..., p:w] = self._location + unit * out[..., p:w]
        out[..., w : w + k] *= self.response.units(self.columns.scale)
        return out

    def outward(self, theta):
        """Coordinates of the fit, of those as given."""
        out, k = np.array(theta, dtype=np.float64), self.response.n_dispersions
        p, w = self._widths(out)
        unit = self.response.unit
        out[..., w : w + k] /= self.response.units(self.columns.scale)
        out[..., w : w + k] = self.response.family.dispersions.standard(out[..., w : w + k])
        out[..., :p] *= self.columns.scale / unit
        out[..., p:w] = (out[..., p:w] - self._location) / unit
        return out

    def log_jacobian(self, u):
        """Log determinant of the derivative of given coordinates by those of the fit, (m,)."""
        p, w = self._widths(u)
        response, k = self.response, self.response.n_dispersions
        n_units = w + (1 if response.family.is_real else 0)
        linear = n_units * np.log(response.unit) - np.log(self.columns.scale).sum()
        if response.family.groups is not None:
            units = response.family.groups.units(response.unit, self.columns.scale)
            linear += np.log(units).sum()
        return linear + response.family.dispersions.log_jacobian(u[..., w : w + k])

    def within(self, theta):
        """Whether points (m, d) have coordinates of a fit."""
        w = self._widths(theta)[1]
        k = self.response.n_dispersions
        phi, n = theta[..., w : w + k], self.response.n_own
        own, sds, cosine = phi[..., :n], phi[..., n : n + 2], phi[..., n + 2 :]
        if self.response.has_cutpoints:
            own = np.diff(own, axis=-1)
        inside = (own > 0.0).all(axis=-1) & (sds > 0.0).all(axis=-1)
        return inside & (np.abs(cosine) < 1.0).all(axis=-1)

    def moved(self, theta, other):
        """Given coordinates of this frame, (..., d), as ones at centres of another's columns."""
        out, (p, w) = np.array(theta, dtype=np.float64), self._widths(theta)
        gap = out[..., :p] @ (other.columns.centre - self.columns.centre)
        out[..., p:w] += gap[..., None]
        if self.columns.has_cutpoints:
            out[..., w : w + self.response.n_own] -= gap[..., None]
        return out

    def since(self, other):
        """What takes coordinates of another frame's fit to those of this."""
        return Between(other, self)

    def of(self, places):
        """The frame of the coordinates at some places; None where these are not all, in order."""
        places = np.asarray(places).reshape(-1)
        w = len(self.columns.scale) + self.columns.fit_intercept + self.response.n_dispersions
        tail, p = places[len(places) - w + len(self.columns.scale) :], len(self.columns.scale)
        if len(places) < w - p or not np.array_equal(tail, np.arange(p, w)):
            return None
        return self._replace(columns=self.columns.only(places[: len(places) - (w - p)]))

    def described(self, names):
        """What each coordinate is per unit of, for people."""
        out = ["per unit of the column"] * len(self.columns.scale)
        out += ["where columns are at their means"] * self.columns.fit_intercept
        of_dispersion = "where columns are at their means" if self.columns.has_cutpoints else ""
        of_first = "that of y" if self.response.family.is_real else of_dispersion
        k = self.response.n_own
        out += [of_first] * min(k, 1) + [of_dispersion] * (k - 1)
        if self.response.family.groups is not None:
            of_sds = "of the predictor", "of the predictor, per unit of the column", ""
            out += of_sds[: self.response.n_dispersions - k]
        return out + ["log of a scale"] * (len(names) - len(out))

    @property
    def _location(self):
        return self.response.centre + self.response.location

    def _widths(self, theta):
        p = len(self.columns.scale)
        return p, p + self.columns.fit_intercept


class Between(NamedTuple):
    """What takes coordinates of one frame's fit to those of another's."""

    one: Frame
    other: Frame

    def outward(self, theta):
        """Coordinates of the other."""
        return self.other.outward(self.one.moved(self.one.inward(theta), self.other))

    def log_jacobian(self, u):
        """Log determinant of the derivative of coordinates of the one by those of the other."""
        theta = Between(self.other, self.one).outward(u)
        of_other, of_one = self.other.log_jacobian(u), self.one.log_jacobian(theta)
        both = np.isfinite(of_other) & np.isfinite(of_one)  # Both are flat where no mass is.
        return np.where(both, of_other, 0.0) - np.where(both, of_one, 0.0)

    def at(self, theta):
        """The linear map next to a point (d,); it is the same anywhere but for dispersions."""
        steps = _STEP * np.eye(len(theta))
        rise = self.outward(theta + steps) - self.outward(theta - steps)
        return Linear(rise.T / (2.0 * _STEP))


class Linear(NamedTuple):
    """A linear map of coordinates."""

    matrix: np.ndarray  # (d, d)

    def pull_back(self, gradient):
        """See `Units.pull_back`."""
        return gradient @ self.matrix


def distribution_of(family, y, weight, known_part, fit_intercept):
    """The `Distribution` of these y (n,), whose rows have weights or None.

    ``known_part`` are the offset of predictors and trials, or None. The intercept is about the link
    of the mean of y: of the sum of y over that of exposures or trials, and less the mean offset.
    """
    offset, trials = known_part
    weight = np.ones(len(y)) if weight is None else weight
    n = weight.sum()
    if family.link == "identity":
        y = y if offset is None else y - offset
        mean = weight @ y / n
        sd = np.sqrt(weight @ (y - mean) ** 2 / n)
        unit = float(sd) if sd > _ROUNDING * abs(mean) else 1.0
        return Distribution(family, float(mean) if fit_intercept else 0.0, unit)
    least = 0.5 if family.is_count else 0.0  # Where all y are zero, or negative.
    if family.is_real:  # With another link the scale of y is that of its dispersion alone.
        unit = float(np.sqrt(max(weight @ (y - weight @ y / n) ** 2 / n, np.finfo(float).tiny)))
        family, least = type(family)(family.link, family.prior_scale * unit), 0.5 * unit
    if not fit_intercept:
        return Distribution(family)
    total, size = weight @ y, n
    if trials is not None:
        size = weight @ trials
    elif family.link == "log" and offset is not None:
        total, size = total * np.exp(-offset.max()), weight @ np.exp(offset - offset.max())
    if family.link == "log":
        mean = max(total, least * (1.0 if offset is None else np.exp(-offset.max()))) / size
    else:
        mean = np.clip(total / size, 0.5 / (size + 1.0), 1.0 - 0.5 / (size + 1.0))
    location = float(link_of(family.link, mean))
    if family.link != "log" and offset is not None:
        location -= float(weight @ offset / n)
    return Distribution(family, location=location)


def refuse_targets(family, y, trials):
    """ValueError where the family cannot have one of these y (n,)."""
    admitted = family.admits(y, trials)
    if not admitted.all():
        i = int(np.flatnonzero(~admitted)[0])
        raise ValueError(
            f"y must hold {family.of_what} for family={family.name!r}, and has {y[i]:g} in row "
            f"{i}: give another family, or leave such rows out."
        )


def explained(family, y, mean, size, shape, weight):
    """D^2 of means (n,) of y, whose null model is one rate; R^2 where there is no deviance.

    ``size`` (n,) are trials or exposures, ``shape`` is that of a negative binomial.
    """
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    null = size * (weight @ y) / (weight @ size)
    with np.errstate(divide="ignore", invalid="ignore"):
        left, of_null = (weight @ family.deviance(y, mu, size, shape) for mu in (mean, null))
    if not of_null > 0.0:
        return 1.0 if left <= 0.0 else 0.0
    return float(1.0 - left / of_null)
