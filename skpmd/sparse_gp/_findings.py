"""What speaks against the kernel that a search has found, and against the inducing inputs."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from skpmd._base.utils import as_generator, warn
from skpmd._rows.rows import distinct
from skpmd._runtime.threads import each
from skpmd.sparse_gp._covariance import free_parts, kinds, parameter_names
from skpmd.sparse_gp._evidence import left_out, log_marginal_likelihood, maximise_evidence
from skpmd.sparse_gp._hyperparameters import FEW_ROWS
from skpmd.sparse_gp._starts import (
    column_scales,
    is_flat,
    is_in_units_of_X,
    is_no_better_than_noise,
    placed_starts,
)
from skpmd.sparse_gp._vecchia import VecchiaGP

_ROWS = 400  # The evidence of so many rows, evenly spaced, is looked at.
# What rows gain, in nats, where one number of the kernel goes ten times beyond its bound.
_BEYOND, _GAIN = np.log(10.0), 3.0
# A kernel without noise is warned of where with it they gain so many nats, by these fractions of
# the variance of y.
_GAIN_OF_NOISE, _FRACTIONS = 10.0, (0.003, 0.03, 0.3)
# Where rows count so often and noise is so small, copies are left out: is there so much more of it?
_COPIED, _COPIED_NOISE, _MORE_NOISE = 1.1, 1e-4, 100.0
_NO_NOISE, _FEWEST_ROWS, _SCALES = 1e-6, 10, (1.0, 10.0, 1e2, 1e4)
# Rounding of a kernel's variance is this share of the targets' where searches end anywhere: of
# ordinal days under a DotProduct it is a quarter of that, and of hours seventy times.
_MAX_ROUNDING = 1e-3
_FAR_AWAY = 100.0  # Variances are so many times those of centred columns.


def some_of(sample, most=_ROWS):
    """Some rows of a sample, in order, without randomness."""
    step = max(1, -(-len(sample.y) // most))
    return sample if step == 1 else sample.select(slice(None, None, step), sample.weight[::step])


def kernel_findings(covariance, theta, sample, is_searched=True, copies=1.0):
    """Sentences, with what to do, on a kernel and the rows that it was fitted to; mostly none.

    ``copies`` is how often a distinct row counts on average.
    """
    sample = some_of(sample)
    of_origin = _of_origin(covariance, theta, sample)
    if of_origin:
        return of_origin  # Whatever else there is may be of this.
    found = at_independence(covariance.kernel, theta) if is_searched else []
    value = log_marginal_likelihood(covariance, theta, sample, gradient=False)
    # With far too little noise a kernel that tells much has as low an evidence as a flat one.
    most = np.inf if is_no_better_than_noise(value, sample) else _NO_NOISE
    without_noise = _of_noise(covariance, theta, sample, most, is_searched)
    if not without_noise and is_searched and copies > _COPIED:
        without_noise = _of_copies(covariance, theta, sample, copies)
    if without_noise:
        return found + without_noise
    if is_flat(value, sample):
        return [*found, _of_units(covariance, sample)]
    return found + _of_bounds(covariance, theta, sample) if is_searched else found


def at_independence(kernel, theta):
    """Of a kernel that makes rows independent of each other, at the end of its bounds.

    (A long length scale belongs to a column that does not matter, and a small noise to a smooth y.)
    """
    found, named = [], zip(parameter_names(kernel), kinds(kernel), strict=True)
    categories = _of_categories(kernel)
    for (name, kind), value, (low, high) in zip(named, theta, kernel.bounds, strict=True):
        if name in categories:  # Rows of one category tell of each other.
            continue
        ends = {"length_scale": ("lower", low), "noise_level": ("upper", high)}
        which, end = ends.get(kind, ("", np.nan))
        if np.isclose(value, end):
            found.append(
                f"{name} of the kernel ended at its {which} bound, {np.exp(end):.3g}: rows tell "
                "nothing of each other there. Raise n_restarts_optimizer, widen the bounds, or "
                "start the kernel elsewhere."
            )
    return found


def _of_categories(kernel):
    """Names of the length scales of columns of categories."""
    return {
        f"{part.name}[{j}]"
        for part in free_parts(kernel)
        for j in getattr(part.leaf, "categorical", ())
    }


def _of_origin(covariance, theta, sample):
    """Of a kernel that depends on where columns are zero, so large that its rounding matters."""
    variance = float(covariance.diagonal(theta, sample.X).mean())
    times = variance / ((sample.y**2).mean() or 1.0)  # Of a constant y nothing is left.
    if covariance.kernel.is_stationary() or times * np.finfo(float).eps < _MAX_ROUNDING:
        return []
    centre, sd = sample.X.mean(axis=0), sample.X.std(axis=0)
    what = f"the kernel's variance at the rows is {times:.1g} times that of y, and its rounding "
    near = float(covariance.diagonal(theta, sample.X - centre).mean())
    if variance < _FAR_AWAY * near:  # It is the kernel that is large, wherever rows are.
        return [
            f"{what}hides how rows differ: scale X, start constants and the sigma_0 of a "
            "DotProduct nearer to the scale of y, or leave normalize_y=True."
        ]
    column = int(np.argmax(np.abs(centre) + sd))
    divide = ", and divide by the deviation" if sd[column] > 0.0 else ""
    return [
        f"{what}hides how rows differ: it measures from where columns of X are zero, and column "
        f"{column} is {centre[column]:.6g} on average, with a deviation of {sd[column]:.3g}. "
        f"Subtract that average from it{divide}."
    ]


def _of_units(covariance, sample):
    """Of a kernel under which no row tells of another."""
    if np.min(sample.noise_variance) > (sample.y**2).mean():
        return (
            "alpha, or noise_variance, is more than the variance of y as it is fitted, so that no "
            "row tells of another: lower it, or set normalize_y=True."
        )
    scales = column_scales(sample.X)
    where = f"{scales[0]:.3g}" if len(scales) == 1 else f"{scales.min():.3g} to {scales.max():.3g}"
    kernel, beyond = covariance.kernel, ""
    for part in free_parts(kernel):
        low, high = np.exp(kernel.bounds[part.place].T)
        if is_in_units_of_X(part) and ((high < scales.min()) | (low > scales.max())).any():
            beyond = (
                f" {part.name} has the bounds {low.min():.3g} and {high.max():.3g}: widen them."
            )
            break
    return (
        "no row tells of another under the kernel, although near rows have targets that agree: its "
        f"length scales or periods do not suit the columns of X, whose deviations are {where}. "
        f"Start them there, leave kernel=None, or scale X.{beyond}"
    )


def _of_bounds(covariance, theta, sample):
    """Of hyperparameters at a bound beyond which the evidence is clearly larger."""
    kernel = covariance.kernel
    own = log_marginal_likelihood(covariance, theta, sample, gradient=False)
    found, named = [], zip(parameter_names(kernel), kinds(kernel), kernel.bounds, strict=True)
    for place, (name, kind, (low, high)) in enumerate(named):
        for which, end, sign in (("lower", low, -1.0), ("upper", high, 1.0)):
            # A small noise belongs to a smooth y, or to rows that are there several times; a large
            # one, and short length scales, are named as those of independent rows.
            is_known = kind == "noise_level" or (kind == "length_scale" and sign < 0.0)
            if is_known or not np.isclose(theta[place], end, atol=1e-6):
                continue
            other = theta.copy()
            other[place] += sign * _BEYOND
            gain = log_marginal_likelihood(covariance, other, sample, gradient=False) - own
            if gain > _GAIN:
                found.append(
                    f"{name} of the kernel ended at its {which} bound, {np.exp(end):.3g}, and ten "
                    f"times beyond it the evidence is larger by {gain:.0f} nats: widen "
                    f"{name.partition('[')[0]}_bounds."
                )
    return found


def _of_copies(covariance, theta, sample, copies):
    """Of noise that there seems to be none of because rows are there again, targets and all."""
    unweighted = sample._replace(weight=np.ones(len(sample.y)))
    noise = covariance.noise(theta, unweighted.X).max()
    if len(unweighted.y) < _FEWEST_ROWS or noise > _COPIED_NOISE * (unweighted.y**2).mean():
        return []
    other = maximise_evidence(covariance, unweighted, "fmin_l_bfgs_b", 0, as_generator(0))
    mine, found = (
        log_marginal_likelihood(covariance, one, unweighted, gradient=False)
        for one in (theta, other)
    )
    its = covariance.noise(other, unweighted.X).max()
    if not (found - mine > _GAIN and its > _MORE_NOISE * noise):
        return []
    return [
        f"distinct rows count {copies:.3g} times on average, and copies of a row have its target, "
        "as if there were no noise: the kernel follows each row, and standard deviations are too "
        f"small. With each row once the noise's is {np.sqrt(its / noise):.0f} times as large. Drop "
        "the copies, or scale sample_weight down."
    ]


def _of_noise(covariance, theta, sample, most, is_searched):
    """Of a kernel without noise, or ``most`` of it in variances of y, where the rows have more."""
    variance = float((sample.y**2).mean())
    noise = covariance.noise(theta, sample.X) * sample.noise_factor + sample.noise_variance
    if len(sample.y) < _FEWEST_ROWS or noise.max() > most * variance:
        return []

    def value(one, more):
        """The largest log evidence with more noise, and f of any of some scales."""
        noise = sample.noise_variance + more * variance
        found = []
        for scale in _SCALES:  # A wrong amplitude is no noise.
            some = sample._replace(y=sample.y / np.sqrt(scale), noise_variance=noise / scale)
            density = log_marginal_likelihood(covariance, one, some, gradient=False)
            found.append(density - 0.5 * sample.weight.sum() * sample.y.shape[1] * np.log(scale))
        return max(found)

    starts = [theta]
    if is_searched and len(theta):
        starts += [covariance.kernel.theta]
        starts += placed_starts(covariance, sample, lambda one: value(one, _FRACTIONS[-1]))
    gain = max(value(one, more) for one in starts for more in _FRACTIONS)
    if gain == -np.inf:  # Rounding leaves no covariance, whatever the noise.
        return []
    gain -= max(value(one, 0.0) for one in starts)
    if not gain > _GAIN_OF_NOISE:
        return []
    by = f"larger by {gain:.3g} nats" if np.isfinite(gain) else "more than zero"
    few, more = "no noise", "some"
    if noise.max() > _NO_NOISE * variance:
        few, more = "too little noise", "more"
    return [
        f"the kernel has {few}, and with {more} the evidence of {len(sample.y)} rows would be "
        f"{by}: standard deviations mean nothing. Add a WhiteKernel to the kernel, or raise its "
        "noise_level or alpha."
    ]


# Intervals of this level for so many rows, from all others, are held against their targets; where
# they hold a smaller share a warning follows.
_CHECKED_ROWS, _MIN_CHECKED, _LEVEL, _MIN_COVERAGE = 500, 30, 0.9, 0.75
_LEFT_OUT_ROWS = 1000  # By themselves where there are no neighbours.
# A few rows far away make the noise where half of all are so near, in deviations, and some so far.
_NEAR, _FAR = 0.33, 3.0
_MAX_ROWS = 200  # At most so many rows of a sample are asked for.
# Inducing inputs are warned of where they make more than this share of the variance of f. From two
# fifths on means were more than three of their own sds off those of the exact process, and from
# three quarters on also under a kernel that was fitted. An open variance below the second fraction
# of the prior's harms nobody.
_MUCH_ADDED, _MIN_OPEN = 0.25, 1e-4
_TINY = np.finfo(np.float64).tiny


def warn_of_open_variance(state, samples):
    """Warn where much of the variance of f is there for want of inducing inputs, not of rows.

    What they leave open of f at a row, a single observation there would lower to open noise /
    (open + noise) in the exact process. Where the difference is much of the whole variance, the
    exact process differs from predictions by about their own sd, and by three of them at one place
    of many. Each of the ``samples`` is asked for by itself: few others may lie where its rows do.
    """
    model, theta = state.model, state.particles.theta[state.best]
    for X, noise_variance in samples:
        some = slice(None, None, -(-len(X) // _MAX_ROWS))
        X, noise_variance = X[some], noise_variance[some]
        prior, known = model.covariance.diagonal(theta, X), model.whitened(theta, X)
        left = np.maximum(prior - np.einsum("ij,ij->j", known, known), 0.0)
        noise = model.covariance.noise(theta, X) + noise_variance
        share = left / np.maximum(left + noise, _TINY)  # Of what is left, not of all variance.
        if left.mean() < _MIN_OPEN * prior.mean() or share.mean() <= _MUCH_ADDED:
            continue
        left[_are_inducing(X, model.inducing)] = 0.0  # That of jitter: more would not help.
        variance = model.predict(theta, state.conditional(state.best), X)[1]
        if np.mean(share * left / np.maximum(variance, _TINY)) > _MUCH_ADDED:
            warn(
                f"The {model.n_inducing} inducing inputs leave a variance of {left.mean():.2g} of "
                f"the process open, and the noise is {noise.mean():.2g}: predictions may be far "
                "from those of the exact process. Raise n_inducing."
            )
            return


def _are_inducing(X, inducing):
    """Whether each row of X is an inducing input."""
    which = distinct(np.concatenate([inducing, X]))[1]
    return np.isin(which[len(inducing) :], which[: len(inducing)])


# Of up to so many rows so many particles have their exact evidence. The first number is the largest
# difference that is let pass, in nats; the second the largest standard deviation of it, which is
# what the mean of a hyperparameter is off by at most, in standard deviations, to first order.
_EXACT_ROWS, _EXACT_PARTICLES, _MAX_OFF, _MAX_SPREAD = 2000, 16, 0.5, 0.5


def posterior_findings(state):
    """Sentences where the posterior of kernels by neighbours is not that of the exact process.

    The evidence of the exact process is that by neighbours times the mean of exp(d) over the
    posterior, of which particles are equal draws, d being the difference of the log likelihoods
    there, and the exact posterior has the weights exp(d).
    """
    model, sample, theta = state.model, state.sample, state.particles.theta
    if model.approximation != "vecchia" or len(sample.y) > _EXACT_ROWS:
        return []
    if not np.isclose(sample.weight.sum(), model.sites.weight.sum()):
        return []
    theta = theta[:: -(-len(theta) // _EXACT_PARTICLES)]
    with np.errstate(all="ignore"):
        exact = np.array(each(
            lambda one: log_marginal_likelihood(model.covariance, one, sample, gradient=False),
            theta,
        ))  # fmt: skip
        off = exact - model.log_likelihood(theta, model.all_rows())
    off = off[np.isfinite(off)]
    if not len(off):
        return []
    shift, spread = logsumexp(off) - np.log(len(off)), off.std()
    if abs(shift) < _MAX_OFF and spread < _MAX_SPREAD:
        return []
    return [
        f"the evidence of the exact process is larger by {shift:.3g} nats than that by neighbours, "
        f"and the logs of particles' weights are off by {spread:.2g}: intervals of hyperparameters "
        "and the evidence are not those of the kernel. Raise n_neighbors, or fit 500 rows, for "
        "which the likelihood is exact."
    ]


def left_out_findings(state):
    """Sentences where rows are further from what all others say of them than they should be.

    With neighbours that is said by the best particle, and of few rows by the average over all.
    """
    model = state.model
    if isinstance(model, VecchiaGP):  # Inducing inputs have no part in it.
        n = len(model.sites.weight)
        rows = np.arange(min(n, _CHECKED_ROWS))  # Rows are in random order.
        found = [model.left_out(state.particles.theta[state.best], rows)] if len(rows) else []
        y, remedy = model.sites.y[rows], "n_restarts_optimizer or n_neighbors"
    else:
        if model.df is not None:
            return []
        sample, thetas = some_of(state.sample, _LEFT_OUT_ROWS), state.particles.theta
        if not len(sample.y) == state.n_fitted <= FEW_ROWS:
            thetas = thetas[state.best][None]
        n, y, remedy = len(sample.y), sample.y, "n_restarts_optimizer"
        found = [left_out(model.covariance, one, sample) for one in thetas] if n else []
        found = [one for one in found if one is not None]
    if n < _MIN_CHECKED or not found:
        return []
    below = np.mean([norm.cdf((y - m) / np.sqrt(v)[:, None]) for m, v in found], axis=0)
    noise = model.covariance.noise(state.particles.theta[state.best], state.sample.X).mean()
    of_few = _of_few_rows(y, below) if noise > 0.5 * np.median(found[-1][1]) else []
    if of_few:
        return of_few
    # Targets have one noise in common, so that each is asked for by itself.
    coverage = (np.abs(below - 0.5) < 0.5 * _LEVEL).mean(axis=0).min()
    if coverage >= _MIN_COVERAGE:
        return []
    return [
        f"intervals of {_LEVEL:.0%} for rows, given all others, hold {coverage:.0%} of them: the "
        f"kernel does not suit the rows. Give another kernel, or raise {remedy}."
    ]


def _of_few_rows(y, below):
    """Of noise that is that of few rows far from what all others say of them.

    ``below`` (n, t) is how probable smaller targets were. Rows whose noise is one normal
    distribution's are nearer than two thirds of a deviation in half of the cases, Student ones of
    three degrees of freedom than .44, and where one in twenty is far away than a tenth.
    """
    z = norm.ppf(np.clip(below, _TINY, 1.0 - 1e-16))
    for j, (size, is_far) in enumerate(zip(np.abs(z).T, (np.abs(z) > _FAR).T, strict=True)):
        # Numbers that many of these rows share are a sentinel's, or ones among zeros.
        is_shared = 2 * len(np.unique(y[is_far, j])) <= is_far.sum()
        half, of_far = np.median(size), (size[is_far] ** 2).sum() / (size**2).sum()
        if half < _NEAR and of_far > 0.5 and not is_shared:
            return [
                f"half of the rows are within {half:.2f} standard deviations of what all others "
                f"say of them, where 0.67 are expected, and {is_far.mean():.1%} are further than "
                f"{_FAR:g}: these few make the noise of all. Correct them or leave them out, or "
                "set likelihood='student_t'."
            ]
    return []
