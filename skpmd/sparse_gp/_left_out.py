"""Leave-one-out densities of the rows of a fit, in closed form for each set of hyperparameters.

With inducing inputs a row adds to the natural parameters of q(u), and is taken out of them by a
change of rank one. With v_x' v the process at a row, of mean m and variance s under q(u), and h = s
times the row's precision p, it is given all others

    mean (m - h y) / (1 - h),    variance s / (1 - h).

Where all rows are inducing inputs this is the leave-one-out formula of the exact process
(Sundararajan and Keerthi 2001; Rasmussen and Williams 2006, section 5.4.2). By neighbours a row is
predicted from the nearest of all other rows, as predictions are. Copies of a row, w of them, are
left out together.
"""

import numpy as np
from scipy.special import logsumexp

from skpmd._base.leave_one_out import LeftOut, check_rows_of_fit
from skpmd._rows.rows import Rows
from skpmd._runtime.call import phase
from skpmd._runtime.threads import each
from skpmd.sparse_gp._model import blocks_of, log_normal
from skpmd.sparse_gp._student import scale_nodes
from skpmd.sparse_gp._vecchia import noise_of_copies

_LOG_TWO_PI = np.log(2.0 * np.pi)
_TRIFLE = 1e-9  # What is left of a row's weight counts for nothing below this share of it.
_MIN_LEFT = 1e-12  # 1 - h is at least this: rounding may leave nothing of a row without noise.


def leave_one_out(state, X, y, times):
    """`LeftOut` of the rows of a fit; y (n, t) in the user's units, ``times`` (n,) of each row."""
    _refuse(state)
    check_rows_of_fit(times, state.stream.seen)
    model, y, present = state.model, state.scaler.transform(y), times > 0.0
    some, noise_variance = (X[present], y[present], times[present]), np.full(len(y), state.alpha)
    if model.approximation == "vecchia":
        places = _sites_of(model.sites, some[0])
        noise_variance[present] = model.sites.noise_variance[places]
        parts = [_near(model, one, places, *some[1:]) for one in state.particles.theta]
    else:
        parts = [_inducing(state, i, *some) for i in range(len(state.particles.theta))]
    rows = Rows(X, y, np.ones(len(y)), len(y), noise=noise_variance)
    density = log_density(state, rows)
    seen = logsumexp(density, axis=0, b=state.weights[:, None])
    evidence = np.zeros(density.shape)  # A row of weight 0 has no part in the fit.
    density[:, present], evidence[:, present] = np.array(parts).swapaxes(0, 1)
    log_jacobian = -np.log(state.scaler.scale * np.ones(y.shape[1])).sum()
    is_posterior = state.results.posterior.weighting == "posterior"
    with np.errstate(divide="ignore"):
        log_weights = np.log(state.weights)
    return LeftOut(
        log_weights, density + log_jacobian, evidence if is_posterior else None, seen + log_jacobian
    )


def _refuse(state):
    """ValueError, with what to do instead, where leaving a row out has no closed form."""
    instead = (
        "compare by sklearn.model_selection.cross_val_score with "
        "scoring=skpmd.metrics.log_predictive_density_scorer."
    )
    approximation = state.model.approximation
    if approximation == "full_scale":
        raise ValueError(
            "With approximation='full_scale' a row is among the neighbours of others, and through "
            f"them in the values at the inducing inputs: it cannot be left out by itself; {instead}"
        )
    if state.model.df is not None:
        raise ValueError(
            "With likelihood='student_t' all rows' weights change when one is left out, and it has "
            f"no closed form; {instead}"
        )
    own = np.abs(state.sample.noise_variance - state.alpha)
    if approximation != "vecchia" and (own > _TRIFLE * state.alpha).any():
        raise ValueError(
            "The fit had noise_variance, or an alpha of each row, which inducing inputs do not "
            f"retain; {instead}"
        )


# ---------------------------------------------------------------------- inducing inputs
def _inducing(state, i, X, y, times):
    """Log densities of one copy and of all copies of each row, (n,), under one particle."""
    theta, conditional = state.particles.theta[i], state.conditional(i)

    def of(rows):
        return _taken_out(
            state.model, theta, conditional, X[rows], y[rows], times[rows], state.alpha
        )

    state.model.prior_factor(theta)  # Found once, not by each thread.
    parts = each(of, blocks_of(len(y)))
    return tuple(np.concatenate(one) for one in zip(*parts, strict=True))


def _taken_out(model, theta, conditional, X, y, times, alpha):
    V = model.whitened(theta, X)
    mean = V.T @ conditional.mean
    variance = (model.known(conditional, V) ** 2).sum(axis=0)
    noise = np.maximum(model.covariance.noise(theta, X) + alpha, model.floor(theta))
    left = model.left_of(theta, X, V)
    of_row = noise + left if model.approximation == "fitc" else noise
    h = times * variance / of_row
    rest = np.maximum(1.0 - h, _MIN_LEFT)
    mean, variance = (mean - h[:, None] * y) / rest[:, None], variance / rest
    density = log_normal(y, mean, variance + left + noise)
    evidence = _log_copies(y, mean, variance, of_row, times)
    if model.approximation == "vfe":
        evidence -= 0.5 * y.shape[1] * times * left / noise
    return density, evidence


# ---------------------------------------------------------------------- neighbours
def _sites_of(sites, X):
    """Places (n,) of rows among the retained ones."""
    places = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(sites.X) + 0.0)}
    if len(places) < len(sites.X):
        raise ValueError(
            "Rows of equal inputs had different noise_variance in the fit, and X does not say "
            "which is which: compare by sklearn.model_selection.cross_val_score."
        )
    found = [places.get(row.tobytes(), -1) for row in np.ascontiguousarray(X) + 0.0]
    missing = found.count(-1)
    if missing:
        raise ValueError(
            f"X has {missing} rows that the fit has not retained: give the rows of the fit, and "
            "raise reservoir_size where it had more of them."
        )
    return np.array(found)


def _near(model, theta, places, y, times):
    """As `_inducing`: given the nearest of all other rows, and what is left at the same input."""
    sites = model.sites.select(places)
    rest = sites.weight - times
    if (rest < -_TRIFLE * sites.weight).any():
        raise ValueError(
            "Rows count for more in X and sample_weight than in the fit: give its rows and their "
            "weights. (After a stream with forgetting there is cross-validation only.)"
        )
    unique, which = np.unique(places, return_inverse=True)
    mean, variance = (one[which] for one in model.process_left_out(theta, unique))
    noise = noise_of_copies(model.covariance.term(theta), sites)
    stays = rest > _TRIFLE * sites.weight
    share = np.where(stays, rest, 1.0)
    others = (sites.weight[:, None] * sites.y - times[:, None] * y) / share[:, None]
    gain = np.where(stays, variance / (variance + noise / share), 0.0)
    mean, variance = mean + gain[:, None] * (others - mean), variance * (1.0 - gain)
    density = log_normal(y, mean, variance + noise)
    return density, _log_copies(y, mean, variance, noise, times)


# ---------------------------------------------------------------------- densities
def _log_copies(y, mean, variance, noise, times):
    """Log densities of all copies of each row together, given all other rows; shape (n,)."""
    of_mean = log_normal(y, mean, variance + noise / times)
    rest = (times - 1.0) * (_LOG_TWO_PI + np.log(noise)) + np.log(times)
    return of_mean - 0.5 * y.shape[1] * rest


@phase("scores of particles")
def log_density(state, rows):
    """Log predictive densities of rows under each particle, shape (m, n)."""
    blocks, out = blocks_of(len(rows.data.weight)), []
    for i, theta in enumerate(state.particles.theta):
        conditional = state.conditional(i)

        def of(some, theta=theta, conditional=conditional):
            return _log_density(state.model, theta, conditional, rows.data.take(some))

        out.append(np.concatenate(each(of, blocks)))
    return np.array(out)


def _log_density(model, theta, conditional, batch):
    """Log predictive densities of a batch under one particle; Student noise by its nodes."""
    mean, variance = model.predict(theta, conditional, batch.X)
    noise = model.covariance.noise(theta, batch.X) + batch.noise
    squared = ((batch.y - mean) ** 2).sum(1)
    factors, weights = scale_nodes(model.df)
    total = variance + np.outer(factors, noise)
    terms = -0.5 * (mean.shape[1] * np.log(2.0 * np.pi * total) + squared / total)
    return logsumexp(terms, axis=0, b=weights[:, None])
