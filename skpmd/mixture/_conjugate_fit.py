"""Fits of a conjugate mixture: starts, stochastic passes, full-batch iterations, and a stream."""

import copy
from typing import NamedTuple

import numpy as np

from skpmd._base.retained import RetainedRows, left_of_past
from skpmd._base.steps import Records, Stream, advance, bar_of_steps
from skpmd._rows.rows import Rows, stratified_sample
from skpmd._runtime.call import counted, out_of_time, phase
from skpmd.engine import mirror
from skpmd.engine.loop import FullBatch, Method, Outcome, run
from skpmd.engine.mirror import Settings
from skpmd.engine.particles import Particles
from skpmd.mixture._conjugate import ConjugateMixture, Counts
from skpmd.mixture._kernels import kmeans_plusplus, lloyd
from skpmd.mixture._left_out import UNLIKE, Drift, stacked
from skpmd.mixture._prior import has_two_scatters, prior_of, widened
from skpmd.mixture._rows import RowView, pieces, reservoir_size, retained_of
from skpmd.mixture._scaler import Scaler, limits_of, medians

# n_particles="auto" is the first of so many columns at most.
_AUTO = {20: 16, 100: 8, np.inf: 4}
# One particle is the best of so many starts, half of which go on after so many iterations.
_STARTS, _ROUND = 8, 5
# max_full_iter="auto" is the first, and the second for one particle or so few rows.
_MAX_FULL_ITER, _MAX_FULL_ITER_FEW, _FEW_ROWS = 3, 100, 2000
# batch_size="auto" is at least so many rows, or so many for each column.
_MIN_BATCH, _BATCH_EACH = 256, 32
# A start sees at least so many rows, or so many for each component.
_START_ROWS, _ROWS_EACH = 1000, 60
INITS = ("mixed", "k-means++", "kmeans", "random_from_data", "random")
# "kmeans" sees more rows by this factor: its starts differ enough.
_MORE_ROWS = 10
_LLOYD_STEPS = {"k-means++": 2, "random_from_data": 2, "kmeans": 20}
_SECOND = "the fit under a larger prior scatter"
# A particle is a whole mixture: none is drawn anew, and no step is split.
_SETTINGS = Settings(rejuvenation="never")


class ConjugateFit(NamedTuple):
    """Fit result: conjugate particles, and what a stream needs to go on."""

    model: ConjugateMixture  # Of the components, with their prior and the scaler of the columns.
    counts: Counts  # Of the particles.
    # Rows to choose weights for predictions by, a `Batch` in the user's columns.
    retained: RetainedRows
    n_samples_seen: float  # Weighted rows so far.
    records: Records  # Of the steps; of densities in the user's columns.
    # Whether the best particle gained no more than ``tol`` in the last full-batch iteration, and
    # that was on all rows so far.
    converged: bool
    convergence_warnings: list  # What speaks against the result of the last call.
    # Whether Ctrl-C ended the fit; the counts are those of the last complete step.
    interrupted: bool
    rng: np.random.Generator  # Source of all randomness.
    is_wide: bool = False  # Whether the prior's default scatter is the larger one of two.
    merged: dict | None = None  # What there is to say of a merge of shards; None without.
    drift: Drift | None = None  # Of a stream's rows since the last fit; None before there are any.

    @property
    def scaler(self):
        """`Scaler` of the columns."""
        return self.model.scaler

    @property
    def prior(self):
        """`MixturePrior` in scaled columns."""
        return self.model.prior


def n_particles(parameters, p):
    """How many particles; one where all would be the same."""
    if parameters.n_particles != "auto":
        return parameters.n_particles
    if parameters.prior.n_components == 1:
        return 1
    return next(m for most, m in _AUTO.items() if p <= most)


def fit_conjugate(parameters, rows, weight, rng, before=None, retained=None):
    """Fit all rows: a `RowView` of distinct ones, in the user's columns.

    ``weight`` (n,) is how often each counts. The outcome is a `ConjugateFit`. Particles start from
    those of another, ``before``, or where that is None from `initial_counts`. ``retained`` are the
    rows to retain, where they have been chosen. Of two default scatters of the prior, where rows
    are few for their columns, the smaller one is taken if rows that are left out are clearly more
    probable under it.
    """
    given = parameters, rows, weight, rng, before
    fit = _fit_under(*given, retained, is_wide=False)
    if fit.interrupted or not has_two_scatters(parameters.prior, weight.sum(), rows.shape[1]):
        return fit
    if out_of_time(_SECOND):
        return fit
    with phase("larger prior scatter"):
        wide = _fit_under(*given, fit.retained, is_wide=True)
    if wide.interrupted or out_of_time(_SECOND):  # It cannot be compared with one that is whole.
        return fit._replace(interrupted=wide.interrupted)
    return fit if stacked(fit)[1] > stacked(wide)[1] + UNLIKE else wide


def _fit_under(parameters, rows, weight, rng, before, retained, is_wide):
    """`fit_conjugate` under one of the two default scatters, if there are two."""
    K, kind = parameters.prior.n_components, parameters.prior.covariance_type
    retained = retained or retained_of(rows, weight, reservoir_size(K, rows.shape[1]))
    sample, all_rows = (retained.rows.X, retained.sampled_weight()), (rows, weight)
    scaler = Scaler.of(*sample, K, kind, None if retained.complete else all_rows)
    X, sample = rows.scaled(scaler), (scaler.transform(sample[0]), sample[1])
    prior = prior_of(parameters.prior, X, weight, scaler, "conjugate", sample)
    if is_wide:
        prior = widened(prior, parameters.prior, weight.sum())
    model = ConjugateMixture(prior, scaler)
    m = n_particles(parameters, X.shape[1])
    max_full_iter = _max_full_iter(parameters, len(X), m)
    if before is not None:
        counts = _carried(before, model, m, X, weight, scaler)
    else:
        n_starts = _STARTS if m == 1 < model.K and max_full_iter >= 4 * _ROUND else m
        counts = initial_counts(model, X, weight, parameters.init_params, n_starts, rng)
    outcome = _run(parameters, model, _rows(parameters, X, weight), counts, max_full_iter, m, rng)
    # One component is exact after one iteration.
    exact = model.K == 1 and max_full_iter > 0 and not outcome.ended_early
    converged = outcome.converged or exact
    return ConjugateFit(
        model=model,
        counts=outcome.particles.block.counts,
        retained=retained._replace(n_fitted=len(X)),
        n_samples_seen=float(weight.sum()),
        records=Records().extended(outcome.infos),
        converged=converged,
        convergence_warnings=_convergence_warnings(parameters, converged),
        interrupted=outcome.interrupted,
        rng=rng,
        is_wide=is_wide,
    )


def _max_full_iter(parameters, n, m):
    if parameters.max_full_iter != "auto":
        return parameters.max_full_iter
    return _MAX_FULL_ITER_FEW if m == 1 or n <= _FEW_ROWS else _MAX_FULL_ITER


# ---------------------------------------------------------------------- starts
def initial_counts(model, X, weight, init, m, rng):
    """Counts of m particles after assigning a sample of rows each, as if they were all rows.

    A mistyped value takes a centre for itself where centres are to be far from each other. That is
    right for one, and where components share a covariance it has to be so, or all are wide. For
    more of them than there are components to spare, every other start has rare values that are far
    away count as if they were where the others end.
    X (n, p) holds distinct rows, and ``weight`` (n,) how often each counts. ``init`` is one of
    `INITS`:

    * "k-means++" and "kmeans": centres that are far from each other, with 2 or 20 steps of Lloyd's
      algorithm;
    * "random_from_data": any rows as centres, with 2 steps;
    * "random": random responsibilities;
    * "mixed": "k-means++" and "random_from_data" in turns.
    """
    size = max(_START_ROWS, _ROWS_EACH * model.K)
    if init == "kmeans":
        size *= _MORE_ROWS
    turns = ("k-means++", "random_from_data") if init == "mixed" else (init,)
    limits, parts = None, []
    for i in counted(range(m), "starts of particles", m):
        some, w = _sample(X, weight, size, rng)
        if i % 2 and not model.family.n_shared:
            limits = limits_of(some, w) if limits is None else limits
            np.clip(some, -limits, limits, out=some)
        parts.append(_start(model, some, w, turns[i % len(turns)], weight.sum(), rng))
    return Counts(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _sample(X, weight, size, rng):
    """At most ``size`` rows by stratified sampling of the total weight."""
    if len(X) <= size:
        return X[:], np.array(weight)
    places, counts = stratified_sample(weight, size, rng)
    return X[places], counts


def _start(model, X, weight, init, total, rng):
    """Counts of one particle."""
    K, n = model.K, len(X)
    weight = weight * (total / weight.sum())
    if init == "random":
        resp = rng.random((n, K))
        resp *= (weight / resp.sum(axis=1))[:, None]
        return _counts(model, X, [(slice(None), one) for one in resp.T])
    if init == "random_from_data":
        uniforms = rng.random(K) * weight.sum()
        places = np.searchsorted(np.cumsum(weight), uniforms, side="right")
        centres = X[np.minimum(places, n - 1)]
    else:
        centres = kmeans_plusplus(X, weight, rng.random(K))
    labels = lloyd(X, weight, centres, _LLOYD_STEPS[init])
    order = np.argsort(labels, kind="stable")
    own = np.split(order, np.searchsorted(labels[order], np.arange(1, K)))
    return _counts(model, X, [(rows, weight[rows]) for rows in own])


def _counts(model, X, parts):
    """Counts of the rows of each component, and how often each of them counts."""
    family, counts = model.family, model.no_counts(1)
    for k, (rows, weight) in enumerate(parts):
        part = X[rows]
        for some in pieces(part) if len(part) else ():
            added = weight[some] @ family.features(part[some])
            counts.components[0, k] += added[: family.n_features]
            counts.shared[0] += added[family.n_features :]
    return counts


def _carried(before, model, m, X, weight, scaler):
    """Counts of a fit before, as if of these rows.

    The particles are where they were, or where the scales of the columns have taken them, whichever
    says more of the rows: beside the rows they would all look the same.
    """
    forms = [(one.K, one.p, type(one.family)) for one in (before.model, model)]
    if forms[0] != forms[1] or len(before.counts.entropy) != m:
        raise ValueError(
            "warm_start=True needs n_components, n_particles, covariance_type and the number of "
            "columns of the fit before: set them back, or set warm_start=False."
        )
    along = before.counts.step(before.counts, 1.0, weight.sum() / before.counts.total)
    if all((old == new).all() for old, new in zip(before.scaler, scaler, strict=True)):
        return along
    scale = before.scaler.scale / scaler.scale
    stayed = model.rescale(along, scale, scaler.transform(before.scaler.shift))
    try:
        scores = [
            model.e_step(model.posteriors(counts), X, weight)[1].max() for counts in (stayed, along)
        ]
    except np.linalg.LinAlgError:  # So far off that rounding has left them no covariance.
        return along
    return stayed if scores[0] >= scores[1] else along


# ---------------------------------------------------------------------- steps
class _Rows(Rows):
    """Rows that the model itself takes in pieces, to suit the number of its components."""

    def whole(self):
        """All of them."""
        return [self.data]


def _rows(parameters, X, weight):
    size = parameters.batch_size
    if size == "auto":
        size = max(_MIN_BATCH, _BATCH_EACH * X.shape[1])
    return _Rows(X, None, weight, size)


def _run(parameters, model, rows, counts, max_full_iter, m, rng):
    """`Outcome` of stochastic passes and full-batch iterations from some counts on."""
    # A pass in one batch is a step on all data: the iterations after it do better without it.
    # With one component responsibilities are known, and such a step is exact.
    stochastic = rows.n_batches > 1 and model.K > 1 or not max_full_iter
    max_iter = parameters.options.max_iter if stochastic else 0
    options = parameters.options._replace(max_iter=max_iter, settings=_SETTINGS)
    full_batch = FullBatch(max_full_iter, _until(model, m, parameters.tol * rows.total))
    start = model.particles(counts)
    if not options.max_iter and not max_full_iter:
        return Outcome(start)
    every = parameters.verbose_interval
    with bar_of_steps(options, rows, full_batch, every) as report:
        return run(model, rows, start, options, rng, report, Method(full_batch=full_batch))


def _until(model, m, tol):
    """When full-batch iterations end: once the ELBO gains no more, and m particles are left."""

    def until(particles, t, last):
        elbo = particles.block.posteriors.elbo
        last = -np.inf if last is None else last
        converged, last = bool(abs(elbo.max() - last) <= tol), elbo.max()
        if t % _ROUND == 0:
            particles = _best(model, particles, max(m, -(-len(elbo) // 2)))
        return particles, converged and len(elbo) == m, last

    return until


def _best(model, particles, m):
    """The m particles of the largest ELBO, in the order they had."""
    elbo = particles.block.posteriors.elbo
    if len(elbo) <= m:
        return particles
    chosen = np.sort(np.argsort(-elbo, kind="stable")[:m])
    *values, block = particles
    return Particles(*(one[chosen] for one in values), model.select_block(block, chosen))


def _convergence_warnings(parameters, converged):
    """Reasons not to trust it, a list of str; none where the user has not asked for steps."""
    if converged or parameters.max_full_iter in ("auto", 0):
        return []
    return [
        f"the bound still grew after {parameters.max_full_iter} steps on all data: raise "
        "max_full_iter"
    ]


def history_of_conjugate(records):
    """The last steps as a dict of arrays."""
    infos = records.last
    return {
        "step": records.numbers(),
        "step_size": np.array([info.a for info in infos]),
        "elbo": np.array([info.extra["elbo"] for info in infos]),
        "log_density": np.array([info.extra["log_density"] for info in infos]),
        "n_particles": np.array([info.n_particles for info in infos]),
    }


# ---------------------------------------------------------------------- streams
def update_conjugate(parameters, before, rows, weight):
    """The particles after one call's rows of a stream, as a `ConjugateFit`.

    While all rows are retained, and the last fit saw at most half of them, all are fitted anew: a
    first part of one row says nothing of places. Later each row counts once, by the
    responsibilities under the particles at its arrival. Where rows since the last fit are unlike
    those that it saw, in units, places or groups, those retained are fitted anew. With
    ``total_samples`` rows of a second pass are mirror steps.

    ``rows`` is a `RowView` of distinct ones, sorted, in the user's columns, and ``weight`` (n,) how
    often each counts. ``before`` is left as it is.
    """
    rng, size = copy.deepcopy(before.rng), float(weight.sum())
    options = parameters.options._replace(settings=_SETTINGS)
    left = left_of_past(options, before.n_samples_seen, size)
    n_samples_seen, retained, drift = before.n_samples_seen + size, before.retained, None
    if left is not None:  # This is no second pass.
        most = reservoir_size(before.model.K, before.model.p)
        # Where not all are retained no more of these rows can be either.
        new = retained_of(rows, weight, len(rows) if retained.complete else most)
        total = retained.discounted(left).joined(new).merged()
        retained = total.sampled(most)
        if total.complete and total.n_rows >= 2 * total.n_fitted:
            whole = RowView(total.rows.X), total.rows.weight
            fit = fit_conjugate(parameters, *whole, rng, retained=retained)
            records = before.records.joined(fit.records)
            return fit._replace(n_samples_seen=n_samples_seen, records=records)
        if before.model.K > 1:  # One component is exact.
            drift = before.drift or Drift.of(before)
    stream = Stream(
        before.model.particles(before.counts), None, Records(), before.n_samples_seen, rng
    )
    scaled = _rows(parameters, rows.scaled(before.scaler), weight)
    stream = advance(stream, before.model, scaled, options, _step)
    counts = stream.particles.block.counts
    after = _with_prior_of_now(parameters, before, retained, counts)._replace(
        drift=drift and drift.after(stream.records.last[-1].extra["log_density"], size),
        n_samples_seen=n_samples_seen,
        records=before.records.extended(stream.records.last),
        converged=before.converged and before.model.K == 1,  # One component is exact.
        convergence_warnings=[],
        interrupted=False,
        rng=rng,
    )
    if after.drift and after.drift.are_unlike(counts.total):
        return _renewed(parameters, after, rng)
    return after


def _step(stream, model, rows, a, b, options, rng):
    """The engine's step of a stream, without an account of rejuvenations: there are none."""
    particles, info = mirror.step(
        stream.particles, model, rows.whole(), a, b, options.settings, rng
    )
    return stream._replace(particles=particles), info


def _renewed(parameters, fit, rng):
    """A stream's fit, or one of its retained rows anew if that predicts such rows better by far.

    Each retained row counts once in the fit, so that it can be left out of what predicts it, and
    then for as many as it stands for.
    """
    retained, rows = fit.retained, RowView(fit.retained.rows.X)
    again = fit_conjugate(parameters, rows, retained.sampled_weight(), rng)
    if not retained.complete and not stacked(again)[1] > stacked(fit)[1] + UNLIKE:
        return fit._replace(drift=None, interrupted=again.interrupted)
    retained = retained._replace(n_fitted=again.retained.n_fitted)
    factor = fit.counts.total / again.counts.total
    counts = again.counts.step(again.counts, 1.0, factor)
    return _with_prior_of_now(parameters, again, retained, counts)._replace(
        n_samples_seen=fit.n_samples_seen,
        records=fit.records.joined(again.records),
        converged=again.converged and retained.complete,
        convergence_warnings=[],
    )


def _with_prior_of_now(parameters, fit, retained, counts):
    """A fit with other counts; the prior is not in them, and its defaults follow the rows."""
    scaler = fit.scaler
    X, weight = scaler.transform(retained.rows.X), retained.sampled_weight()
    prior = prior_of(parameters.prior, X, weight, scaler, "conjugate", total=counts.total)
    if fit.is_wide:
        prior = widened(prior, parameters.prior, counts.total)
    if parameters.prior.mean_prior is None:
        prior = prior._replace(mean=medians(X, retained.rows.weight))
    model = ConjugateMixture(prior, scaler)
    return fit._replace(model=model, counts=counts, retained=retained)
