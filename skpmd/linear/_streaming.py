"""Streams of rows: what they retain while they know little, and how particles are rejuvenated.

Rows of one class alone say that its probability is as near to one as the prior allows, rows of one
end of a column say next to nothing of its other end, and a few rows of a class leave a posterior
that is far from normal. Further rows then move the posterior to where the density after the first
ones is smaller by many nats, and what stands for that density there, particles or a Gaussian, means
nothing: means were 37 posterior standard deviations off. So the rows are retained, as far as memory
allows, until there are enough of each class and further ones look like those before them. Until
then the posterior is found anew from all rows whenever there are a quarter more of a class, or new
ones look unlike those that it was found from.
"""

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from skpmd._base.retained import so_far
from skpmd._base.steps import (
    advance,
    cubic_account,
    kernel_step,
    n_draws,
    reweighted,
    step_in_place,
)
from skpmd._rows.rows import Rows
from skpmd._rows.samples import in_one_batch
from skpmd.engine import cubic_surrogate, rejuvenation_error
from skpmd.engine.assumed_density import AssumedDensityModel, filter_step, more_accurate, project
from skpmd.engine.rejuvenation_error import NO_ERROR
from skpmd.linear._column_scale import Units, moments_of
from skpmd.linear._fit import proposal_components
from skpmd.linear._group_rows import put_together
from skpmd.proposals.control_variates import SampledModel, error_of_weights, sampled
from skpmd.proposals.importance_rounds import importance_sample

# Weighted rows of each class for each of its coefficients (events per variable): with fewer a
# stream knows next to nothing of it.
_ENOUGH = 10.0
# Fewer rows that come sorted look like others, and tell little of the units of columns.
_ENOUGH_IN_ALL = 50.0
_MAX_Z = 4.0  # Shares and means that differ by more standard errors are not the same.
_MAX_SHIFT = 0.25  # Of a column, in sds: there may be thousands of rows, which show any shift.
_MORE = 0.25  # The posterior is found anew when there are so many more rows of a class.
_ROWS_AT_ONCE = 1 << 14
_ROUNDING = 1e-6  # Of a column that does not vary, in its own units.
# The cubic surrogate is trusted if at least this share of the first draws it weighs is effective.
_MIN_SHARE = 0.3


def with_units_of(rows, units, retained):
    """Units as rows up to now tell them, where the first ones could not, and the `RetainedRows`.

    They are new of columns that vary for the first time in ``rows``, which are as given, and of all
    that vary where there were too few rows to tell. Then the posterior is to be found anew.
    """
    rows_before = retained.rows
    n_seen = retained.given_weight.sum()
    is_few, is_one = n_seen < _ENOUGH_IN_ALL, units.scale == 1.0
    if not (is_few or is_one.any()):
        return units, retained
    old = rows_before._replace(X=units.given(rows_before.X))
    found = moments_of([old, *rows.whole()])
    new = found.varies if is_few else is_one & ~moments_of([old]).varies & found.varies
    if not new.any():
        return units, retained
    centre = np.where(new & units.is_centred, found.mean, units.centre)
    own = units._replace(centre=centre, scale=np.where(new, found.sd, units.scale))
    return own, retained._replace(rows=old._replace(X=own.rows(old.X)), n_fitted=0)


def advance_retaining(retained, stream, model, rows, options, step, response):
    """The stream after the rows of one call, and its `RetainedRows` then, if any.

    The ``response`` says what there is enough of. Where nothing is retained, and the stream has
    seen rows, it goes on as all streams do.
    """
    retained = so_far(retained, rows.data, options, stream.seen, model.shift)
    if retained is None:
        return advance(stream, model, rows, options, step), None
    retained = put_together(retained, len(rows))
    whole, n_rows = retained.rows, retained.n_rows
    if not stream.seen:
        fitted = retained.unless_much()
        if fitted is not None:  # A copy: the rows may be the user's, who reads the next into them.
            fitted = fitted.select(np.arange(n_rows))._replace(n_fitted=n_rows)
        return advance(stream, model, rows, options, step), fitted
    fitted, since = (response.totals(part) for part in retained.before_and_since())
    weights, grown = fitted + since, since >= _MORE * fitted
    appeared = (weights[fitted == 0.0] > 0.0).any()
    changed = appeared or _differ(fitted, since) or _columns_differ(retained)
    if not (changed or grown[weights > 0.0].any()):
        return advance(stream, model, rows, options, step), retained.unless_much()
    enough = weights.min() >= _ENOUGH * (whole.X.shape[1] + model.fit_intercept)
    enough &= weights.sum() >= _ENOUGH_IN_ALL and whole.group is None
    if not (changed or (step is not kernel_step and options.settings.rejuvenation != "never")):
        # Particles from the prior that stay, or have come a long way, do not start there again.
        stream = advance(stream, model, rows, options, step)
        return stream, None if enough and grown.all() else retained.unless_much()
    seen = stream.seen + rows.total
    # As if these were the first rows; the record goes on.
    first = stream._replace(
        particles=None, assumed=None, error_terms=NO_ERROR, n_left_out=0, seen=0.0
    )
    first = advance(first, model, Rows.of(whole, n_rows), options, step)._replace(seen=seen)
    if enough and grown.all() and not changed:
        return first, None
    return first, retained._replace(n_fitted=n_rows).unless_much()


def _differ(weights, others):
    """Whether the shares of classes differ between two sets of rows, by the weights of each."""
    n, m = weights.sum(), others.sum()
    pooled = (weights + others) / (n + m)
    error = np.sqrt(pooled * (1.0 - pooled) * (1.0 / n + 1.0 / max(m, 1e-300)))
    return bool((np.abs(weights / n - others / m) > _MAX_Z * error).any())


def _columns_differ(retained):
    """Whether rows since the last fit have other means or second moments of a column."""
    found, is_sparse = moments_of([retained.rows]), sparse.issparse(retained.rows.X)
    centre = np.zeros_like(found.mean) if is_sparse else found.mean
    units = Units(centre, found.sd, 1, not is_sparse)
    parts = retained.before_and_since()
    sums = np.array([_power_sums(part, units) for part in parts])
    n, m = (part.weight.sum() for part in parts)
    moments = sums.sum(axis=0) / (n + m)
    variance = np.maximum(moments[1::2] - moments[:2] ** 2, 0.0)
    gap = np.abs(sums[0, :2] / n - sums[1, :2] / max(m, 1e-300))
    least = np.maximum(_MAX_Z**2 * (1.0 / n + 1.0 / max(m, 1e-300)), _MAX_SHIFT**2)
    return bool((gap > np.sqrt(least * variance) + _ROUNDING).any())


def _power_sums(rows, units):
    """Weighted sums of the first four powers of standardised columns, (4, p)."""
    total = np.zeros((4, rows.X.shape[1]))
    for some in gen_batches(len(rows.weight), _ROWS_AT_ONCE):
        z = units.rows(rows.X[some])
        for k in range(4):
            total[k] += rows.weight[some] @ (z.power(k + 1) if sparse.issparse(z) else z ** (k + 1))
    return total


def proposal_step(stream, model, rows, a, b, options, rng, *, proposal):
    """The particles stay while enough of them are effective; else draws from proposals follow.

    Of many rows an expansion of all and a sample of them are looked at, where these do.
    """
    sample, whole = _sampled(stream, model, rows, a, b, rng), rows.whole()
    how = a, b, n_draws(options, len(rows)), proposal
    if sample is not None:
        stand_in = SampledModel(model, sample)
        after, info = _step(stream, stand_in, sample.batches, how, options, rng)
        if error_of_weights(model, sample, whole, after.particles, b) is not None:
            return after, info
    return _step(stream, model, whole, how, options, rng)


def _sampled(stream, model, rows, a, b, rng):
    """The `Sample` of rows that suffices after what is known already, or None."""
    after, assumed = None, stream.assumed
    if getattr(model, "remainders", None) is None:
        return None
    if stream.particles is not None and assumed is None:
        assumed = project(stream.particles, stream.error_terms, model.monitored)
    if assumed is not None:
        after = AssumedDensityModel(model, assumed.gaussian, a), assumed.gaussian.mean
    batches = in_one_batch(rows, rows.whole())
    return sampled(model, model.terms(rows), batches, b, rng, after)


def _step(stream, model, batches, how, options, rng):
    """A step of coefficients (a, b), in which m particles are drawn from a proposal."""
    (a, b, m, proposal), assumed = how, stream.assumed
    particles, settings = stream.particles, options.settings
    stayed = None
    if particles is not None:
        stayed, info = step_in_place(stream, model, batches, a, b, options, rng)
        enough = info.ess >= settings.ess_threshold * options.n_particles
        if settings.rejuvenation == "never" or (enough and settings.rejuvenation == "ess"):
            assumed = assumed or project(particles, stream.error_terms, model.monitored)
            assumed = filter_step(assumed, model, batches, a, b, rng)
            return stayed._replace(assumed=assumed), info
        projected = project(particles, stream.error_terms, model.monitored)
        assumed = more_accurate(assumed, projected, model.monitored)

    def drawn(cubic, min_share):
        target = model
        if assumed is not None:
            target = AssumedDensityModel(model, assumed.gaussian, a, cubic)
        mixture = proposal_components(target, batches, proposal, b)
        return importance_sample(target, batches, mixture, m, b, rng, min_share)

    if assumed is None:
        outcome, error_terms = drawn(None, 0.0), NO_ERROR
    else:
        outcome, error_terms, assumed = _rejuvenated(
            stream, stayed.particles, assumed, drawn, a, m, model
        )
    stream, info = reweighted(stream, outcome, error_terms, a, model)
    return stream._replace(assumed=filter_step(assumed, model, batches, a, b, rng)), info


def _rejuvenated(stream, stayed, assumed, drawn, a, m, model):
    """Weighted draws from proposals for the outcome of a step, and what rejuvenations have lost.

    The Gaussian of the assumed-density filter takes the place of q before the step, so that
    particles need not travel and are drawn at most once in a step. Where a cubic surrogate of log q
    can be fitted, it weighs the draws, unless few of them are effective then: beyond the particles
    it was fitted to it may rise where q falls. Without one the draws are no better than the
    Gaussian, and what speaks against them stays with its own account, which comes third.

    ``drawn(cubic, min_share)`` draws m times by the cubic, or by the Gaussian where it is None.
    """
    particles, monitored = stream.particles, model.monitored
    cubic = cubic_surrogate.fit(particles, stayed, assumed.gaussian)
    outcome = None if cubic is None else drawn(cubic, _MIN_SHARE)
    if outcome is not None and outcome.infos[0].ess >= _MIN_SHARE * m:
        error_terms = cubic_account(stream, stayed, outcome.particles, cubic, a, monitored)
        return outcome, error_terms, assumed
    outcome = drawn(None, 0.0)
    error_terms = rejuvenation_error.of_conflict(
        assumed.error_terms, particles, stayed, outcome.particles, monitored
    )
    assumed = assumed._replace(error_terms=error_terms)
    return outcome, rejuvenation_error.fade(error_terms, a), assumed
