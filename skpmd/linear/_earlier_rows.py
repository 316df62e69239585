"""Rows that a posterior retains, for a further fit whose prior it is.

A density that is fitted to particles knows too little of a posterior of many coefficients: means of
the next one were off by up to .39 standard deviations (31 coefficients, 4000 particles). With few
coefficients it knows enough for one further fit, but what it lacks far out, where few rows leave
much open, adds up over several: means were .8 standard deviations off after six parts of 30 to 200
rows. Third and fourth derivatives, which are sums over the rows, are no better a summary: these
terms rise without end where the likelihood falls. So the rows themselves are retained, as long as
they take no more room than the particles; the next fit is then one to the rows of both, and exact.
Of more rows a density is enough where there are values for it, or those are retained that are least
like a normal likelihood, and a quadratic stands for the others.

Polynomials in place of rows are those of PASS-GLM (Huggins, Adams and Broderick 2017); some rows in
place of all are a coreset (Campbell and Broderick 2019).
"""

from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from skpmd._base.options import coordinates_named, posterior_of_prior
from skpmd._rows.rows import numbers_of_rows, stacked_rows
from skpmd.engine.kde import cholesky
from skpmd.engine.mirror import log_likelihood
from skpmd.engine.model import Batch
from skpmd.engine.particles import random_draws
from skpmd.engine.polynomial import degree_for
from skpmd.linear._column_scale import Units, shift_of
from skpmd.linear._make_model import LinearParameters, linear_model
from skpmd.linear._priors import Prior, precision_matrix
from skpmd.proposals.control_variates import Expansion, of_power

_ROOM = 1.0  # Rows take so much room, in units of that of the particles.
_NO_EVIDENCE = "that of the rows of the earlier posterior, which is the prior, is not known"
_NORMAL = 0.1  # A likelihood is all but normal within so many nats: means move by .04 sds at most.
_STEP = 1e-4  # Of differences in coordinates of a posterior.
_N_CHECKED = 64  # The quadratic is compared with the likelihood at so many particles.


class PriorOfRows(NamedTuple):
    """The prior that there was before all rows."""

    parameters: LinearParameters
    scale: object  # A number, or one for each coefficient, (K, p).
    units: Units | None  # What it refers to, if not the given columns.
    response: Any  # `Classes` or `Distribution`: What y is.


class EarlierRows(NamedTuple):
    """All that a posterior was found from."""

    # In the units of the prior; weights are multiplied by the power of the likelihood.
    rows: Batch
    prior: PriorOfRows
    rest: Expansion | None  # Of rows that are not retained; None where all are.
    # Log marginal likelihood of the rows before those of the fit, and of these; None where unknown.
    log_evidence: float | None


class TiltedPrior(Prior):
    """A prior times the normal likelihood of some rows, up to a constant.

    Parameters
    ----------
    prior : Prior
        On the coefficients themselves.
    rest : Expansion
        What it is multiplied by.
    """

    def __init__(self, prior, rest):
        super().__init__(prior.scale)  # All tails are normal now.
        self.prior, self.rest = prior, rest

    def log_density(self, theta):
        """Log density, not normalised; see `Prior`."""
        return self.prior.log_density(theta) + self.rest.value(theta)

    def gradient(self, theta):
        return self.prior.gradient(theta) + self.rest.gradient(theta)

    def expected(self, mean, sd):
        """Those of the prior and of the quadratic, which are exact; see `Prior`."""
        gradient, precision = self.prior.expected(mean, sd)
        gradient = gradient + self.rest.gradient(mean)
        return gradient, precision_matrix(precision) + self.rest.precision

    def expected_third(self, mean, sd):
        """That of the prior: a quadratic has none; see `Prior`."""
        return self.prior.expected_third(mean, sd)


def earlier_rows(parameters, features, response):
    """`EarlierRows` of the posterior, or its estimator, that is the prior of the ``parameters``.

    Columns and classes come in the order of ``features`` and the ``response``. None where the
    posterior holds no rows, or is one of more coefficients.
    """
    posterior = posterior_of_prior(parameters.prior)
    names, n_rows = response.coefficient_names(features, parameters.fit_intercept), response.n_rows
    places = np.array(coordinates_named(posterior, names))
    earlier = getattr(posterior, "rows", None)
    if earlier is None or len(places) != len(posterior.names):
        return None
    width = len(places) // n_rows
    classes, columns = places[::width] // width, places[:width] % width
    if not np.array_equal(np.add.outer(classes * width, columns).ravel(), places):
        return None  # Names of columns that end like those of classes.
    columns = columns[: earlier.rows.X.shape[1]]
    rows = earlier.rows._replace(X=earlier.rows.X[:, columns])
    if n_rows > 1:
        rows = response.reordered(rows, classes)

    def ordered(value):
        return value[np.ix_(classes, columns)] if np.ndim(value) else value

    old, rest, known = earlier.prior, earlier.rest, getattr(posterior, "log_evidence", None)
    if rest is not None:
        precision = rest.precision[np.ix_(places, places)]
        rest = rest._replace(
            centre=rest.centre[places], slope=rest.slope[places], precision=precision
        )
    is_known = earlier.log_evidence is not None and known is not None
    known = earlier.log_evidence + known if is_known else None
    prior = PriorOfRows(
        old.parameters._replace(prior_mean=ordered(old.parameters.prior_mean)),
        ordered(old.scale),
        None if old.units is None else old.units.only(columns),
        old.response if response.n_rows == 1 else response,
    )
    return EarlierRows(rows, prior, rest, known)


def model_of(earlier):
    """The model of the prior before all rows, tilted by those that are not retained."""
    prior, rest, n_features = earlier.prior, earlier.rest, earlier.rows.X.shape[1]
    model = linear_model(
        prior.parameters, n_features, prior.response, prior.scale, shift_of(prior.units)
    )
    return model if rest is None else model.with_prior(TiltedPrior(model.prior, rest))


def all_rows(earlier, rows, power):
    """Those that are retained, and then the ``rows`` of a fit, in the units of the earlier prior.

    The ``power`` of either is to come.
    """
    before = earlier.rows._replace(weight=earlier.rows.weight / power)
    both = _with_columns_of(rows, before), _with_columns_of(before, rows)
    return stacked_rows(*both, shift_of(earlier.prior.units))


def _with_columns_of(other, rows):
    """Rows with offsets of zero, and trials of one, where others have some and these have none."""
    found = {}
    for name, value in (("offset", 0.0), ("exposure", 1.0)):
        if getattr(rows, name) is None and getattr(other, name) is not None:
            found[name] = np.full(len(rows.weight), value)
    return rows._replace(**found)


def given_earlier(outcome, model, earlier):
    """The `Outcome` of all rows as one of the new rows, whose prior is the earlier posterior."""
    particles, known = outcome.particles, earlier.log_evidence or 0.0
    log_prior = particles.log_prior + model.log_likelihood(particles.theta, earlier.rows) - known
    particles = particles._replace(log_ratio=particles.log_ratio - known, log_prior=log_prior)
    outcome = outcome._replace(particles=particles)
    if earlier.log_evidence is None:
        outcome = outcome.with_findings(no_evidence=_NO_EVIDENCE)
    return outcome


def joined(shards):
    """The rows of posteriors under one prior, and `EarlierRows` of what stands for their others.

    Both are in the units of the first, whose prior is that of all. The latter has no rows, and is
    None where nothing stands for any.
    """
    first, units = shards[0], shards[0].prior.units
    shards = [first, *(_in(first.prior, one) for one in shards[1:])]
    rests = [one.rest for one in shards if one.rest is not None]
    rows = reduce(partial(stacked_rows, shift=shift_of(units)), [one.rows for one in shards])
    if not rests:
        return rows, None
    none = first.rows.take(slice(0))
    return rows, first._replace(
        rows=none, rest=reduce(lambda one, other: other.plus(one), rests), log_evidence=0.0
    )


def _in(prior, earlier):
    """`EarlierRows` in the units of another `PriorOfRows`."""
    if prior.units is None:
        return earlier
    rows, rest = prior.response.since(earlier.rows, earlier.prior.response), earlier.rest
    rows = rows._replace(X=prior.units.since(earlier.prior.units).rows(rows.X))
    if rest is not None:
        new, old = (one.response.frame(one.units) for one in (prior, earlier.prior))
        centre = new.since(old).outward(rest.centre)
        # As it takes coordinates to where the rest is.
        back = partial(old.since(new).pull_back, theta=centre)
        precision = back(back(rest.precision).T)
        rest = Expansion(centre, back(rest.slope), precision, rest.constant, rest.misfit)
    return earlier._replace(rows=rows, rest=rest)


def rows_for_later(model, rows, power, posterior, prior, earlier, sample=None):
    """The `EarlierRows` of a `Posterior`; None where values of its density are enough.

    They are where the rows are many, and the coefficients few. ``rows`` is a `Batch` of all that
    it was found from at this ``power`` of the likelihood, of which ``earlier`` came with its
    prior, under the `PriorOfRows` that there was before. Where that is a density itself, or has
    coordinates beyond the coefficients, a density has to be enough. A ``sample`` may have stood for
    all rows.
    """
    m, d = posterior.particles.shape
    if not (isinstance(prior.parameters.prior, str) and model.prior.has_gaussian):
        return None
    X = rows.X
    n_numbers = numbers_of_rows(X)
    is_much = n_numbers.sum() > _ROOM * m * d
    if is_much and posterior.log_joint is not None and degree_for(m, d) is not None:
        return None
    rows = rows._replace(weight=power * rows.weight)
    rest = None if earlier is None else earlier.rest
    if is_much:
        rows, rest = _reduced(model, rows, n_numbers, posterior, rest, of_power(sample, power))
    elif earlier is None:
        rows = rows._replace(X=X[np.arange(len(rows.weight))])  # A copy: X may be the user's.
    known = 0.0 if earlier is None else earlier.log_evidence
    return EarlierRows(rows, prior, rest, known)


def _reduced(model, rows, n_numbers, posterior, before, sample):
    """As many rows as take the room of the particles, and the `Expansion` of all others.

    No rows are retained where the likelihood of all of them is all but normal.
    """
    mean, chol = posterior.mean(), cholesky(posterior.cov())
    is_retained = np.zeros(len(n_numbers), dtype=bool)
    if sample is None:
        rest = _normal(model, [rows], mean, chol, posterior)
    else:
        rest = _normal(model, sample.batches, mean, chol, posterior)
        rest = rest.plus(sample.rest.averaged(mean, chol @ chol.T))
    if rest.misfit > _NORMAL:
        order = np.argsort(-model.skewness_of_rows(mean, chol, rows), kind="stable")
        is_retained[order] = np.cumsum(n_numbers[order]) <= _ROOM * posterior.particles.size
        rest = _normal(model, [rows.take(~is_retained)], mean, chol, posterior)
    return rows.take(np.flatnonzero(is_retained)), rest if before is None else rest.plus(before)


def _normal(model, batches, mean, chol, posterior):
    """The `Expansion` of rows: their mean gradient and second derivatives under the posterior."""
    target = model.gaussian_target(mean, chol @ chol.T, batches)
    of_prior = model.prior.expected(mean, np.linalg.norm(chol, axis=1))
    slope, precision = target[0] - of_prior[0], target[1] - precision_matrix(of_prior[1])
    rest = Expansion(mean, slope, precision)
    chosen = random_draws(posterior.weights, _N_CHECKED, np.random.default_rng(0))
    some = posterior.particles[chosen]
    gap = log_likelihood(model, some, batches) - rest.value(some)
    return rest._replace(constant=float(gap.mean()), misfit=float(gap.std()))
