"""Models with data drawn at random: curves, changes, outliers, hierarchies, shrinkage, hard edges.

Each function takes a generator and gives a `Drawn`.
"""

import numpy as np
from scipy import special, stats

from .honesty_generator import (
    FEW,
    N_DRAWS,
    Drawn,
    between,
    by_importance,
    independent,
    linear,
    linear_draws,
    on_cells,
    places,
)
from .honesty_laws import LOG_TWO_PI


def _curve(rng, design, X, y, axes, laws, error, prior_sd):
    """Linear coefficients of columns that depend on one or two parameters, N(0, prior_sd^2).

    The errors have the sd ``error``, or, where it is a law, exp of one more coordinate with it.
    """
    k = sum(np.size(law.support()[0]) for law in laws.values())
    known = isinstance(error, float)
    if not known:
        laws, axes = {**laws, "log_sigma": error}, [*axes, error.ppf([1e-12, 1.0 - 1e-12])]
    width = len(axes)
    of_grid = independent(rng, laws)[0]
    prior_sd = np.asarray(prior_sd)
    every = {**laws, "coefficient": stats.norm(np.zeros(len(prior_sd)), prior_sd)}
    log_prior, sample_prior, prior = independent(rng, every)

    def log_likelihood(theta, X, y):
        sd = error if known else np.exp(theta[:, k : k + 1])
        mean = (design(theta[:, :k], X) @ theta[:, width:, None])[:, :, 0]
        return stats.norm.logpdf(y, mean, sd).sum(axis=1)

    def given(points):
        variance = error**2 if known else np.exp(2.0 * points[:, k])
        return linear(design(points[:, :k], X), y, variance, prior_sd)

    cells = on_cells(of_grid, lambda points: given(points).log_evidence, axes, rng)
    parts = np.array_split(cells.centres, max(1, len(cells.centres) // 4000))
    pieces = [given(part) for part in parts]
    found = type(pieces[0])(*(np.concatenate(one) for one in zip(*pieces, strict=True)))
    draws = np.column_stack([cells.draws, linear_draws(found, cells.which, rng)])
    return Drawn(log_likelihood, log_prior, sample_prior, X, y, draws,
                 cells.log_integral, cells.reach, prior)  # fmt: skip


def _error(rng, size, unknown=0.3):
    """The sd of errors: known, or lognormal around somewhere near."""
    if rng.random() < unknown:
        return size, stats.norm(np.log(size) + 0.5 * rng.standard_normal(), rng.uniform(0.5, 1.5))
    return size, size


def exponentials(rng):
    """Decay with or without an offset, sums of two exponentials, saturation, decay of series."""
    kind = ("decay", "two", "saturation", "series")[rng.integers(4)]
    n = int(rng.integers(8, 41))
    x = np.sort(rng.uniform(0.0, between(rng, 1.0, 10.0), n))
    offset, series = rng.random() < 0.6, int(rng.integers(2, 5))
    X = np.column_stack([x, np.arange(n) % series])

    def design(phi, X):
        x = X[:, 0]
        if kind == "saturation":
            columns = [x / (x + np.exp(phi))]
        else:
            columns = [np.exp(-np.exp(phi[:, j : j + 1]) * x) for j in range(phi.shape[1])]
        if kind == "series":
            columns = [columns[0] * (X[:, 1] == j) for j in range(series)]
        elif offset:
            columns.append(np.ones((len(phi), len(x))))
        return np.stack(columns, axis=2)

    k = 2 if kind == "two" else 1
    phi, scale = rng.standard_normal((1, k)), rng.uniform(0.7, 2.5)
    columns = design(phi, X)[0]
    size, error = _error(rng, between(rng, 0.02, 0.5), unknown=0.0 if k == 2 else 0.3)
    y = columns @ rng.uniform(0.5, 2.0, columns.shape[1]) + size * rng.standard_normal(n)
    prior_sd = np.full(columns.shape[1], between(rng, 1.0, 10.0))
    laws, axes = {"log_rate": stats.norm(np.zeros(k), scale)}, [(-7.0 * scale, 7.0 * scale)] * k
    return _curve(rng, design, X, y, axes, laws, error, prior_sd)


def slopes(rng):
    """A line whose slope changes at an unknown place."""
    n, end = int(rng.integers(15, 151)), between(rng, 1.0, 100.0)
    x = np.sort(rng.uniform(0.0, end, n))

    def design(phi, X):
        x, ones = X[:, 0], np.ones((len(phi), len(X)))
        return np.stack([ones, ones * x, np.maximum(x - phi, 0.0)], axis=2)

    truth = rng.standard_normal(3) * [1.0, 1.0 / end, 3.0 / end]
    size, error = _error(rng, between(rng, 0.05, 0.6), unknown=0.0)
    y = design(np.array([[rng.uniform(0.1, 0.9) * end]]), x[:, None])[0] @ truth
    y += size * rng.standard_normal(n)
    prior_sd = between(rng, 1.0, 10.0) * np.array([1.0, 2.0 / end, 4.0 / end])
    laws = {"place": stats.uniform(0.0, end)}
    return _curve(rng, design, x[:, None], y, [(0.0, end)], laws, error, prior_sd)


def changes(rng):
    """One or two places where a level changes, a line that breaks, or a change of a Poisson rate.

    The likelihood is constant in a place between two rows.
    """
    kind = ("level", "two levels", "line", "counts")[rng.integers(4)]
    n = int(rng.integers(12, 46 if kind == "two levels" else 121))
    x = np.sort(rng.uniform(0.0, n, n))
    edges, place = np.array([0.0, *x, n]), rng.uniform(0.1, 0.9) * n
    laws = {"place": stats.uniform(0.0, n)}
    if kind == "counts":
        return _counts(rng, x, edges, place, laws)
    k = 2 if kind == "two levels" else 1
    if k == 2:
        laws, place = {"place": stats.uniform(np.zeros(2), n)}, rng.uniform(0.0, n, 2)

    def design(phi, X):
        x = X[:, 0]
        after = [(x > phi[:, j : j + 1]).astype(float) for j in range(k)]
        columns = [np.ones((len(phi), len(x))), *after]
        if kind == "line":
            columns += [columns[0] * x / n, after[0] * x / n]
        return np.stack(columns, axis=2)

    columns = design(np.reshape(place, (1, k)), x[:, None])[0]
    size, error = _error(rng, between(rng, 0.2, 2.0), unknown=0.0)
    truth = rng.standard_normal(columns.shape[1]) * 2.0
    y = columns @ truth + size * rng.standard_normal(n)
    prior_sd = np.full(columns.shape[1], 2.0 * between(rng, 1.0, 10.0))
    return _curve(rng, design, x[:, None], y, [edges] * k, laws, error, prior_sd)


def _counts(rng, x, edges, place, laws):
    """Poisson counts, Gamma(shape, scale) rates before and after."""
    shape, scale = between(rng, 0.5, 3.0), between(rng, 1.0, 10.0)
    rates = rng.gamma(2.0, 2.0, 2)
    y = rng.poisson(np.where(x > place, rates[1], rates[0])).astype(float)
    every = {**laws, "rate": stats.gamma(np.full(2, shape), scale=scale)}
    log_prior, sample_prior, prior = independent(rng, every)

    def log_likelihood(theta, X, y):
        rate = np.where(X[:, 0] > theta[:, :1], theta[:, 2:], theta[:, 1:2])
        return (special.xlogy(y, rate) - rate - special.gammaln(y + 1.0)).sum(axis=1)

    def totals(points):
        after = x > points
        sums = np.stack([(~after) @ y, after @ y], axis=1)
        return shape + sums, 1.0 / scale + np.stack([(~after).sum(1), after.sum(1)], axis=1)

    def evidence(points):
        a, b = totals(points)
        each = special.gammaln(a) - a * np.log(b) - special.gammaln(shape) - shape * np.log(scale)
        return each.sum(axis=1) - special.gammaln(y + 1.0).sum()

    cells = on_cells(independent(rng, laws)[0], evidence, [edges], rng)
    a, b = totals(cells.centres)
    draws = np.column_stack([cells.draws, rng.gamma(a[cells.which], 1.0 / b[cells.which])])
    return Drawn(log_likelihood, log_prior, sample_prior, x[:, None], y, draws,
                 cells.log_integral, cells.reach, prior)  # fmt: skip


def _student(dof):
    """The log density of a Student law."""
    constant = special.gammaln(0.5 * (dof + 1.0)) - special.gammaln(0.5 * dof)
    constant -= 0.5 * np.log(dof * np.pi)
    return lambda z: constant - 0.5 * (dof + 1.0) * np.log1p(z**2 / dof)


_ERRORS = lambda z: -np.abs(z) - np.log(2.0), _student(4.0), _student(2.0), _student(1.0)


def robust(rng):
    """Regressions with Laplace, Student or Cauchy errors and outliers; the scale known or not."""
    log_error = _ERRORS[rng.integers(len(_ERRORS))]
    d, known = int(rng.choice([1, 1, 2, 2, 3, 4, 5, 7])), rng.random() < 0.5
    n = int(rng.integers(6, 25)) if d < 3 else int(rng.integers(6 * d, 60))
    p = d if known else max(1, d - 1)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    truth, share = rng.standard_normal(p), rng.uniform(0.0, 0.4 if d < 3 else 0.15)
    size = between(rng, 0.2, 2.0)
    y = X @ truth + size * rng.standard_normal(n)
    n_out = int(share * n)
    y[:n_out] += size * (rng.choice([-1.0, 1.0]) * rng.uniform(3.0, 25.0)
                         + rng.standard_normal(n_out))  # fmt: skip
    laws = {"beta": stats.norm(np.zeros(p), between(rng, 2.0, 20.0))}
    if not known and d > 1:
        laws["log_sigma"] = stats.norm(np.log(size) + 0.3 * rng.standard_normal(), 1.0)
    log_prior, sample_prior, prior = independent(rng, laws)

    def log_likelihood(theta, X, y):
        sd = np.exp(theta[:, p:]) if theta.shape[1] > p else size
        return (log_error((y - theta[:, :p] @ X.T) / sd) - np.log(sd)).sum(axis=1)

    if d < 3:
        reach_of_data = np.array([y.min(), y.max()]) + 6.0 * size * np.array([-1.0, 1.0])
        far = 7.0 * laws["beta"].std()[0]
        axes = [np.clip(reach_of_data, -far, far)]
        if len(laws) == 2:
            axes.append(laws["log_sigma"].ppf([1e-12, 1.0 - 1e-12]))
        elif d == 2:
            axes.append(np.clip(np.abs(y).max() * np.array([-2.0, 2.0]), -far, far))
        cells = on_cells(log_prior, lambda theta: log_likelihood(theta, X, y), axes, rng)
        draws, log_evidence, reach = cells.draws, cells.log_integral, cells.reach
    else:
        least = np.linalg.lstsq(X, y, rcond=None)[0]
        starts = [truth, least, *(truth + 3.0 * size * rng.standard_normal((6, p)))]
        if d > p:
            starts = [np.append(start, np.log(size)) for start in starts]

        def log_joint(theta):
            return log_prior(theta) + log_likelihood(theta, X, y)

        draws, log_evidence = by_importance(log_joint, starts, rng)
        reach = float(FEW)
    return Drawn(log_likelihood, log_prior, sample_prior, X, y, draws, log_evidence, reach, prior)


def _scale(rng, size):
    """A law of a scale: half-normal, half-Cauchy, gamma or lognormal."""
    return (
        stats.halfnorm(0.0, size), stats.halfcauchy(0.0, size), stats.gamma(2.0, scale=size),
        stats.lognorm(1.0, scale=size),
    )[rng.integers(4)]  # fmt: skip


def _pooled(value, variance):
    """The product over columns of N(value | m, variance) as exp(log) N(m | mean, variance)."""
    weight = 1.0 / variance
    total = 1.0 / weight.sum(axis=1)
    mean = total * (weight * value).sum(axis=1)
    log = -0.5 * (np.log(variance) + LOG_TWO_PI + weight * value**2).sum(axis=1)
    return log + 0.5 * (mean**2 / total + np.log(total) + LOG_TWO_PI), mean, total


def _joined(rng, first, first_variance, second, second_variance):
    """Draws of the product of two normal densities."""
    variance = 1.0 / (1.0 / first_variance + 1.0 / second_variance)
    mean = variance * (first / first_variance + second / second_variance)
    return mean + np.sqrt(variance) * rng.standard_normal(np.shape(mean))


def hierarchy(rng):
    """Centred means of groups, their mean and one to three scales: groups, errors, regions.

    Coordinates are the group means, with regions their means, the common mean, and the scales or
    their logarithms: between groups, of errors where not known, between regions.
    """
    n_scales = int(rng.integers(1, 4))
    n_groups = int(rng.integers(4, 19 if n_scales < 3 else 13))
    n_regions = int(rng.integers(3, 5)) if n_scales == 3 else 0
    logs, size, width = rng.random() < 0.5, between(rng, 0.3, 3.0), between(rng, 1.0, 10.0)
    counts = rng.integers(1 if n_scales == 1 else 2, 12, n_groups)
    region = np.arange(n_groups) % max(1, n_regions)
    spread = size * rng.choice([0.05, 0.5, 1.5])
    truth = size * rng.standard_normal() + spread * rng.standard_normal(n_groups)
    truth += n_regions * 0.3 * size * rng.standard_normal(max(1, n_regions))[region]
    group = np.repeat(np.arange(n_groups), counts)
    y = truth[group] + size * rng.standard_normal(len(group))
    laws = [_scale(rng, size * between(rng, 0.5, 5.0)) for _ in range(n_scales)]
    wide = size * width
    n_means = n_groups + n_regions + 1

    def split(theta):
        scales = theta[:, n_means:]
        regional = theta[:, n_groups : n_means - 1]
        return theta[:, :n_groups], regional, theta[:, n_means - 1 : n_means], scales

    def log_of_scales(log_scales):
        """The log density of logarithms of scales."""
        return sum(
            law.logpdf(np.exp(one)) + one for law, one in zip(laws, log_scales.T, strict=True)
        )

    def log_prior(theta):
        means, regional, common, scales = split(theta)
        inside = np.ones(len(theta), bool) if logs else (scales > 0.0).all(axis=1)
        log_scales = scales if logs else np.log(np.where(inside[:, None], scales, 1.0))
        found = log_of_scales(log_scales) - (0.0 if logs else log_scales.sum(axis=1))
        sds = np.exp(log_scales)
        above = regional[:, region] if n_regions else common
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = found + stats.norm.logpdf(means, above, sds[:, :1]).sum(axis=1)
            found += stats.norm.logpdf(common[:, 0], scale=wide)
            if n_regions:
                found += stats.norm.logpdf(regional, common, sds[:, 2:]).sum(axis=1)
        return np.where(inside & ~np.isnan(found), found, -np.inf)

    def sample_prior(rng, m):
        sds = np.column_stack([law.rvs(m, random_state=rng) for law in laws])
        common = wide * rng.standard_normal((m, 1))
        regional = common + sds[:, 2:] * rng.standard_normal((m, n_regions))
        above = regional[:, region] if n_regions else common
        means = above + sds[:, :1] * rng.standard_normal((m, n_groups))
        return np.column_stack([means, regional, common, np.log(sds) if logs else sds])

    def log_likelihood(theta, X, y):
        means, _, _, scales = split(theta)
        sd = size if n_scales == 1 else np.exp(scales[:, 1:2]) if logs else scales[:, 1:2]
        return stats.norm.logpdf(y, means[:, X[:, 0].astype(int)], sd).sum(axis=1)

    average = np.bincount(group, y) / counts
    within = ((y - average[group]) ** 2).sum()

    def errors_of(sds):
        return sds[:, 1:2] if n_scales > 1 else np.full((len(sds), 1), size)

    def pooled(sds):
        """The log density of the data given the scales, and what they say of the higher means."""
        sigma = errors_of(sds)
        log = -(len(y) - n_groups) * (np.log(sigma[:, 0]) + 0.5 * LOG_TWO_PI)
        log += -0.5 * within / sigma[:, 0] ** 2 - 0.5 * np.log(counts).sum()
        variance, levels = sds[:, :1] ** 2 + sigma**2 / counts, []
        if n_regions:
            for k in range(n_regions):
                own = _pooled(average[region == k], variance[:, region == k])
                log, levels = log + own[0], [*levels, own[1:]]
            means = np.column_stack([mean for mean, _ in levels])
            variance = np.column_stack([total for _, total in levels]) + sds[:, 2:] ** 2
            levels = (means, variance - sds[:, 2:] ** 2)
        else:
            means = np.broadcast_to(average, variance.shape)
        last, mean, total = _pooled(means, variance)
        log = log + last + stats.norm.logpdf(mean, scale=np.sqrt(total + wide**2))
        return log, levels, mean, total

    axes = [np.log(law.ppf([1e-7, 1.0 - 1e-7])) for law in laws]
    cells = on_cells(log_of_scales, lambda z: pooled(np.exp(z))[0], axes, rng)
    sds = np.exp(cells.draws)
    _, levels, mean, total = pooled(sds)
    common = _joined(rng, mean, total, 0.0, wide**2)[:, None]
    regional = _joined(rng, *levels, common, sds[:, 2:] ** 2) if n_regions else common[:, :0]
    above = regional[:, region] if n_regions else common
    means = _joined(rng, average, errors_of(sds) ** 2 / counts, above, sds[:, :1] ** 2)
    draws = np.column_stack([means, regional, common, cells.draws if logs else sds])
    return Drawn(log_likelihood, log_prior, sample_prior, group[:, None].astype(float), y, draws,
                 cells.log_integral, cells.reach)  # fmt: skip


def horseshoe(rng):
    """Effects of two to nine columns under the horseshoe, each seen once.

    Coordinates are effects and logarithms of local and global scales; or, with a prior by name,
    standardised effects and scales.
    """
    k, error = int(rng.integers(2, 10)), between(rng, 0.3, 3.0)
    size, named = error * between(rng, 0.1, 3.0), rng.random() < 0.4
    truth = np.where(rng.random(k) < 0.4, 5.0 * error * rng.standard_normal(k), 0.0)
    y = truth + error * rng.standard_normal(k)
    laws = {
        "z": stats.norm(np.zeros(k), 1.0), "local": stats.halfcauchy(np.zeros(k), 1.0),
        "global": stats.halfcauchy(0.0, size),
    }  # fmt: skip

    def of_log(z, scale=1.0):
        x = z - np.log(scale)
        return np.log(2.0 / np.pi) + x - np.logaddexp(0.0, 2.0 * x)

    def effects(theta):
        return theta[:, :k] * theta[:, k:-1] * theta[:, -1:] if named else theta[:, :k]

    def log_likelihood(theta, X, y):
        return stats.norm.logpdf(y, effects(theta)[:, X[:, 0].astype(int)], error).sum(axis=1)

    def log_prior(theta):
        local, overall = theta[:, k:-1], theta[:, -1]
        log_sd = local + overall[:, None]
        with np.errstate(over="ignore"):
            squares = (theta[:, :k] * np.exp(-log_sd)) ** 2
        found = -0.5 * squares - log_sd - 0.5 * LOG_TWO_PI + of_log(local)
        return found.sum(axis=1) + of_log(overall, size)

    def sample_prior(rng, m):
        local, overall = rng.standard_cauchy((m, k)), size * rng.standard_cauchy((m, 1))
        log_scales = np.log(np.abs(np.hstack([local, overall])))
        sds = np.exp(log_scales[:, :k] + log_scales[:, k:])
        return np.hstack([sds * rng.standard_normal((m, k)), log_scales])

    # On a grid of the global scale, and for each of its points one of each local scale.
    grid, half = np.linspace(-16.0, 16.0, 801), 0.02
    local = of_log(grid) + np.log(2.0 * half)
    sums, tables = of_log(grid, size) + np.log(2.0 * half), []
    spread = error**2 + np.exp(2.0 * (grid[:, None] + grid))
    for value in y:
        each = local - 0.5 * (np.log(spread) + LOG_TWO_PI + value**2 / spread)
        total = special.logsumexp(each, axis=1)
        tables.append(np.cumsum(np.exp(each - total[:, None]), axis=1))
        sums = sums + total
    log_evidence = special.logsumexp(sums)
    row = np.sort(rng.choice(len(grid), N_DRAWS, p=np.exp(sums - log_evidence)))
    log_scales = []
    for table in tables:  # Rows one after another make one increasing array.
        flat = (table / table[:, -1:] + np.arange(len(grid))[:, None]).ravel()
        place = np.searchsorted(flat, row + rng.random(N_DRAWS))
        log_scales.append(grid[np.clip(place - row * len(grid), 0, len(grid) - 1)])
    log_scales = np.column_stack([*log_scales, grid[row]])
    log_scales += rng.uniform(-half, half, log_scales.shape)
    sds = np.exp(log_scales[:, :k] + log_scales[:, k:])
    beta = _joined(rng, y, error**2, 0.0, sds**2)
    if named:
        _, _, prior = independent(rng, laws)
        log_prior, sample_prior, _ = independent(rng, laws)
        draws = np.hstack([beta / sds, np.exp(log_scales)])
    else:
        prior, draws = None, np.hstack([beta, log_scales])
    return Drawn(log_likelihood, log_prior, sample_prior, places(k), y, draws,
                 float(log_evidence), prior=prior)  # fmt: skip


def bounds(rng):
    """Bounds that rows set: of uniforms, shifted exponentials, Paretos, shifted gammas, groups."""
    kinds = _upper, _both, _shifted, _pareto, _gamma, _groups
    return kinds[rng.integers(len(kinds))](rng)


def _n_rows(rng):
    return int(between(rng, 5.0, 1000.0))


def _upper(rng):
    """Upper bounds of uniforms, one for each of one to twelve groups, under one law."""
    d, n, size = int(rng.choice([1, 1, 2, 4, 8, 12])), _n_rows(rng), between(rng, 0.1, 100.0)
    law = _scale(rng, size * between(rng, 1.0, 10.0))
    group = np.arange(max(n, 3 * d)) % d
    y = (size * rng.uniform(0.5, 2.0, d))[group] * rng.random(len(group))
    most, counts = np.array([y[group == k].max() for k in range(d)]), np.bincount(group)
    laws = {f"upper_{k}": law for k in range(d)}
    log_prior, sample_prior, prior = independent(rng, laws)

    def log_likelihood(theta, X, y):
        own = theta[:, X[:, 0].astype(int)]
        inside = (own > y).all(axis=1)
        return np.where(inside, -np.log(own).sum(axis=1), -np.inf)

    columns, log_evidence = [], 0.0
    for top, count in zip(most, counts, strict=True):

        def log_law(z, top=top):  # Of the log distance from the edge.
            return law.logpdf(top + np.exp(z[:, 0])) + z[:, 0]

        def log_rows(z, top=top, count=count):
            return -count * np.log(top + np.exp(z[:, 0]))

        cells = on_cells(log_law, log_rows, [np.log([1e-7 * top / count, 1e5 * top])], rng)
        columns.append(top + np.exp(cells.draws[:, 0]))
        log_evidence += cells.log_integral
    return Drawn(log_likelihood, log_prior, sample_prior, group[:, None].astype(float), y,
                 np.column_stack(columns), log_evidence, prior=prior)  # fmt: skip


def _both(rng):
    """Both bounds of a uniform under normal priors."""
    n, size, place = _n_rows(rng), between(rng, 0.1, 100.0), rng.standard_normal()
    y = size * (place + rng.random(n))
    low, high, wide = y.min(), y.max(), size * between(rng, 1.0, 10.0)
    law = stats.norm(np.zeros(2), wide)

    def log_prior(theta):
        # The prior is that both bounds are normal, and the upper one above the lower one.
        found = law.logpdf(theta).sum(axis=1) + np.log(2.0)
        return np.where(theta[:, 1] > theta[:, 0], found, -np.inf)

    def log_likelihood(theta, X, y):
        inside = (theta[:, 0] < y.min()) & (theta[:, 1] > y.max())
        return np.where(inside, -len(y) * np.log(theta[:, 1] - theta[:, 0]), -np.inf)

    def bounds_of(z):
        return np.column_stack([low - np.exp(z[:, 0]), high + np.exp(z[:, 1])])

    cells = on_cells(
        lambda z: log_prior(bounds_of(z)) + z.sum(axis=1),
        lambda z: -n * np.log(np.diff(bounds_of(z), axis=1)[:, 0]),
        [np.log([1e-6 * size / n, 20.0 * wide])] * 2, rng,
    )  # fmt: skip

    def sample_prior(rng, m):
        return np.sort(wide * rng.standard_normal((m, 2)), axis=1)

    return Drawn(log_likelihood, log_prior, sample_prior, np.zeros((n, 1)), y,
                 bounds_of(cells.draws), cells.log_integral, cells.reach)  # fmt: skip


def _edge(rng, law, edge, nearest, farthest, log_rows):
    """Draws of a lower bound below ``edge``; ``log_rows`` has the rest integrated out."""
    cells = on_cells(
        lambda z: law.logpdf(edge - np.exp(z[:, 0])) + z[:, 0],
        lambda z: log_rows(edge - np.exp(z)), [np.log([nearest, farthest])], rng,
    )  # fmt: skip
    return edge - np.exp(cells.draws), cells.log_integral


def _lower_law(rng, y, size):
    """A prior of a lower bound that holds the data: uniform from zero or normal."""
    wide = size * between(rng, 1.0, 10.0)
    if rng.random() < 0.5:
        return stats.uniform(0.0, y.min() + wide)
    return stats.norm(y.min() + wide * rng.uniform(-1.0, 1.0), wide)


def _shifted(rng):
    """A shifted exponential: the shift and, by a gamma prior, the rate."""
    n, size = _n_rows(rng), between(rng, 0.01, 100.0)
    y = size * (rng.uniform(0.1, 5.0) + rng.exponential(size=n))
    law, edge, a, b = _lower_law(rng, y, size), y.min(), between(rng, 0.7, 3.0), 1.0
    b = size * between(rng, 0.3, 3.0)
    laws = {"shift": law, "rate": stats.gamma(a, scale=1.0 / b)}
    log_prior, sample_prior, prior = independent(rng, laws)

    def log_likelihood(theta, X, y):
        shift, rate = theta.T
        with np.errstate(invalid="ignore", divide="ignore"):
            found = len(y) * np.log(rate) - rate * (y.sum() - len(y) * shift)
        return np.where(shift < y.min(), found, -np.inf)

    def log_rows(shift):
        rest = b + (y - shift).sum(axis=1)
        return a * np.log(b) - special.gammaln(a) + special.gammaln(a + n) - (a + n) * np.log(rest)

    shift, log_evidence = _edge(rng, law, edge, 1e-7 * size / n, 100.0 * size, log_rows)
    rate = rng.gamma(a + n, 1.0 / (b + y.sum() - n * shift))
    return Drawn(log_likelihood, log_prior, sample_prior, np.zeros((n, 1)), y,
                 np.hstack([shift, rate]), log_evidence, prior=prior)  # fmt: skip


def _pareto(rng):
    """The least value and the exponent of a Pareto law."""
    n, size = _n_rows(rng), between(rng, 0.01, 100.0)
    y = size * (1.0 + rng.pareto(between(rng, 0.5, 4.0), n))
    law, edge = _scale(rng, size * between(rng, 1.0, 10.0)), y.min()
    a, b = between(rng, 0.7, 3.0), between(rng, 0.3, 3.0)
    laws = {"least": law, "exponent": stats.gamma(a, scale=1.0 / b)}
    log_prior, sample_prior, prior = independent(rng, laws)
    logs = np.log(y).sum()

    def log_likelihood(theta, X, y):
        least, exponent = theta.T
        with np.errstate(invalid="ignore", divide="ignore"):
            found = len(y) * (np.log(exponent) + exponent * np.log(least))
            found = found - (exponent + 1.0) * np.log(y).sum()
        return np.where(least <= y.min(), found, -np.inf)

    def log_rows(least):
        with np.errstate(invalid="ignore", divide="ignore"):
            rest = b + logs - n * np.log(least[:, 0])
            found = special.gammaln(a + n) - (a + n) * np.log(rest)
        found = found + a * np.log(b) - special.gammaln(a) - logs
        return np.where(least[:, 0] > 0.0, found, -np.inf)

    least, log_evidence = _edge(rng, law, edge, 1e-7 * edge / n, edge, log_rows)
    exponent = rng.gamma(a + n, 1.0 / (b + logs - n * np.log(least)))
    return Drawn(log_likelihood, log_prior, sample_prior, np.zeros((n, 1)), y,
                 np.hstack([least, exponent]), log_evidence, prior=prior)  # fmt: skip


def _gamma(rng):
    """A shifted gamma law: its shift, the logarithm of its shape, its rate."""
    n, size = min(_n_rows(rng), 200), between(rng, 0.01, 100.0)
    y = size * (rng.uniform(0.1, 5.0) + rng.gamma(between(rng, 1.0, 4.0), size=n))
    law, edge, a = _lower_law(rng, y, size), y.min(), between(rng, 0.7, 3.0)
    b = size * between(rng, 0.3, 3.0)
    shape_law = stats.norm(0.5, 0.5)
    laws = {"shift": law, "log_shape": shape_law, "rate": stats.gamma(a, scale=1.0 / b)}
    log_prior, sample_prior, prior = independent(rng, laws)

    def log_likelihood(theta, X, y):
        shift, shape, rate = theta[:, 0], np.exp(theta[:, 1]), theta[:, 2]
        inside = shift < y.min()
        above = y - np.where(inside, shift, y.min() - 1.0)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            found = len(y) * (shape * np.log(rate) - special.gammaln(shape))
        found = found + (shape - 1.0) * np.log(above).sum(axis=1) - rate * above.sum(axis=1)
        return np.where(inside, found, -np.inf)

    def log_law(z):
        return law.logpdf(edge - np.exp(z[:, 0])) + z[:, 0] + shape_law.logpdf(z[:, 1])

    def log_rows(z):
        shape, above = np.exp(z[:, 1]), y - edge + np.exp(z[:, :1])
        found = a * np.log(b) - special.gammaln(a) + special.gammaln(a + n * shape)
        found += (shape - 1.0) * np.log(above).sum(axis=1) - n * special.gammaln(shape)
        return found - (a + n * shape) * np.log(b + above.sum(axis=1))

    axes = [np.log([1e-8 * size / n, 100.0 * size]), shape_law.ppf([1e-10, 1.0 - 1e-10])]
    cells = on_cells(log_law, log_rows, axes, rng)
    above = np.exp(cells.draws[:, 0])
    rate = rng.gamma(a + n * np.exp(cells.draws[:, 1]), 1.0 / (b + y.sum() - n * (edge - above)))
    draws = np.column_stack([edge - above, cells.draws[:, 1], rate])
    return Drawn(log_likelihood, log_prior, sample_prior, np.zeros((n, 1)), y, draws,
                 cells.log_integral, cells.reach, prior)  # fmt: skip


def _groups(rng):
    """Shifted exponentials in two to twelve groups: uniform shifts, one rate."""
    d, size = int(rng.integers(2, 13)), between(rng, 0.1, 10.0)
    counts = rng.integers(2, max(4, _n_rows(rng) // d), d)
    group = np.repeat(np.arange(d), counts)
    y = size * (rng.uniform(0.1, 5.0, d)[group] + rng.exponential(size=len(group)))
    lowest = np.array([y[group == k].min() for k in range(d)])
    end, a = lowest.max() + size * between(rng, 1.0, 10.0), between(rng, 0.7, 3.0)
    b = size * between(rng, 0.3, 3.0)
    law = stats.gamma(a, scale=1.0 / b)
    laws = {"shift": stats.uniform(np.zeros(d), end), "rate": law}
    log_prior, sample_prior, prior = independent(rng, laws)

    def log_likelihood(theta, X, y):
        above = y - theta[:, X[:, 0].astype(int)]
        with np.errstate(invalid="ignore", divide="ignore"):
            found = len(y) * np.log(theta[:, -1]) - theta[:, -1] * above.sum(axis=1)
        return np.where((above > 0.0).all(axis=1), found, -np.inf)

    def log_rows(z):
        # exp(count rate shift) has the integral (exp(count rate lowest) - 1) / (count rate).
        slope = counts * np.exp(z)
        each = slope * lowest + np.log(-np.expm1(-slope * lowest)) - np.log(slope * end)
        return len(y) * z[:, 0] - np.exp(z[:, 0]) * y.sum() + each.sum(axis=1)

    about = np.log(len(y) / (y - lowest[group]).sum())
    cells = on_cells(
        lambda z: law.logpdf(np.exp(z[:, 0])) + z[:, 0],
        log_rows,
        [(about - 12.0, about + 6.0)],
        rng,
    )
    rate = np.exp(cells.draws)
    slope = counts * rate
    below = -np.log1p(rng.random(slope.shape) * np.expm1(-slope * lowest)) / slope
    return Drawn(log_likelihood, log_prior, sample_prior, group[:, None].astype(float), y,
                 np.hstack([lowest - below, rate]), cells.log_integral, prior=prior)  # fmt: skip
