"""How well models predict unseen rows, estimated from a single fit: leave-one-out and WAIC.

Both are estimates of the expected log predictive density (Vehtari, Gelman and Gabry 2017). They use
the weights of the particles directly: nothing is resampled.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples

from skpmd._base.leave_one_out import LeftOut, without_each
from skpmd._base.utils import warn
from skpmd._base.validation import checked_weights
from skpmd._typing import ArrayLike, Estimator, MatrixLike
from skpmd.engine.particles import log_weights, stacked
from skpmd.wrappers import innermost

__all__ = ["ExpectedLogDensity", "compare", "loo", "waic"]

_MAX_ITER, _TOL = 10_000, 1e-10  # Of stacking.
_NEGLIGIBLE = 1e-6  # A particle of a smaller weight has no part in WAIC.
_LARGE_VARIANCE = 0.4  # Of a row's log likelihood: WAIC is not to be trusted (Vehtari et al. 2017).


@dataclass(frozen=True, repr=False)
class ExpectedLogDensity:
    """An estimate of the expected log predictive density of n new rows together.

    Attributes
    ----------
    method : str
        ``"loo"`` or ``"waic"``.
    elpd : float
        Sum over the rows, in nats.
    se : float
        Its standard error, taking the given rows as a sample of all rows.
    p : float
        Effective number of parameters: the log density of the rows under the fit that includes
        them, minus ``elpd``.
    pointwise : ndarray of shape (n,)
        Contribution of each row to ``elpd``.
    pareto_k : ndarray of shape (n,) or None
        k-hat of each row's importance weights; None for WAIC.
    n_bad : int
        Number of rows whose contribution is not to be trusted: those with weights that differ
        visibly and a k-hat above min(1 - 1 / log10(S), 0.7), where S is the effective number of
        particles; those with a large ``mcse``; or, for WAIC, those with a variance of the log
        likelihood above 0.4.
    mcse : ndarray of shape (n,) or None
        Monte Carlo standard error of each contribution, from the particles; infinite for a row
        without which the posterior of a model of one's own has a wider support; None for WAIC.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.model_comparison import loo
    >>> X, y = load_iris(return_X_y=True)
    >>> found = loo(BayesianLogisticRegressionPMD(random_state=0).fit(X, y), X, y)
    >>> found.method, found.pointwise.shape, found.n_bad
    ('loo', (150,), 0)
    """

    method: str
    elpd: float
    se: float
    p: float
    pointwise: np.ndarray
    pareto_k: np.ndarray | None
    n_bad: int
    mcse: np.ndarray | None = None

    def __repr__(self):
        bad = f", {self.n_bad} rows not to be trusted" if self.n_bad else ""
        return (
            f"ExpectedLogDensity({self.method} of {len(self.pointwise)} rows: "
            f"{self.elpd:.1f} ± {self.se:.1f}, p={self.p:.1f}{bad})"
        )


def loo(
    estimator: Estimator,
    X: MatrixLike,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    by: str | int | None = None,
) -> ExpectedLogDensity:
    """Leave-one-out log predictive density of the rows of a fit, without refitting.

    If rows are independent given a particle, importance weights remove each row from the posterior
    in turn. The largest of these weights are smoothed (PSIS; Vehtari, Gelman and Gabry 2017;
    Vehtari et al. 2024).

    Other estimators have a closed form. `SparseGPRegressorPMD` predicts each row from all others,
    under each set of hyperparameters (Sundararajan and Keerthi 2001; with neighbours, from the
    nearest other rows). `GaussianMixturePMD` with ``strategy="conjugate"`` removes the row from its
    components and does not change the responsibilities of other rows. Leaving a row out does not
    change the chosen hyperparameters of a kernel, nor weights of particles that are not posterior
    weights. With ``groups``, effects are integrated out: a row is predicted from the other rows of
    its group, and with ``by`` a group is predicted as a new one, all its rows together.

    Parameters
    ----------
    estimator : estimator
        A fitted `BayesianLogisticRegressionPMD`, `ParticleMirrorDescent`, `GaussianMixturePMD` or
        `SparseGPRegressorPMD`, any estimator with ``pointwise_log_likelihood``, or a `Pipeline` or
        a search around one.
    X : array-like of shape (n, n_features)
        The rows of the fit; other rows are refused where their number or weights tell.
    y : array-like of shape (n,) or (n, n_targets), default=None
        Targets of the rows.
    sample_weight : array-like of shape (n,), default=None
        Row weights of the fit, if it had any, including those of ``class_weight``. A row is left
        out with all its copies, and is counted once.
    by : str or int, default=None
        Column of the ``groups`` of the fit, by its name or place: leave out one group at a time.
        ``pointwise`` has a value for each group then, in the order of ``group_effects_.labels``,
        and last for each row without a group.

    Returns
    -------
    ExpectedLogDensity
        The estimate, with the Monte Carlo error of each row's part. ``pareto_k`` is nan if there
        are few particles, or if their weights do not change.

    Raises
    ------
    TypeError
        If the estimator has no way to leave rows out.
    ValueError
        If the rows are not those of the fit, ``by`` is no column of its groups, or the fitted model
        has no closed form (Student noise, inducing inputs with neighbours, or inducing inputs with
        separate noise for each row).

    Warns
    -----
    ConvergenceWarning
        If some rows' weights have a heavy tail, particles are too few for some rows (raise
        ``n_particles``), or their weights are not posterior weights.

    References
    ----------
    Vehtari, A., Gelman, A. and Gabry, J. (2017). Practical Bayesian model evaluation using
    leave-one-out cross-validation and WAIC. Statistics and Computing 27.

    Sundararajan, S. and Keerthi, S. S. (2001). Predictive approaches for choosing hyperparameters
    in Gaussian processes. Neural Computation 13.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.model_comparison import loo
    >>> X, y = load_iris(return_X_y=True)
    >>> found = loo(BayesianLogisticRegressionPMD(random_state=0).fit(X, y), X, y)
    >>> found.n_bad, bool(-25.0 < found.elpd < -10.0)
    (0, True)
    """
    left_out = _left_out(estimator, X, y, sample_weight, by)
    found = without_each(left_out)
    if found.reasons:
        warnings.warn(" ".join(found.reasons), ConvergenceWarning, stacklevel=2)
    return _result("loo", left_out.seen, found.pointwise, found.k, found.n_bad, found.mcse)


def waic(
    estimator: Estimator,
    X: MatrixLike,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> ExpectedLogDensity:
    """Widely applicable information criterion, on the scale of log densities (Watanabe 2010).

    Prefer `loo`, which reports the rows for which it fails.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator with ``pointwise_log_likelihood``, or a `Pipeline` or a search around
        one.
    X : array-like of shape (n, n_features)
        The rows of the fit.
    y : array-like of shape (n,) or (n, n_targets), default=None
        Targets of the rows.
    sample_weight : array-like of shape (n,), default=None
        Row weights of the fit, as for `loo`.

    Returns
    -------
    ExpectedLogDensity
        The estimate, in nats.

    Raises
    ------
    TypeError
        If the estimator has no ``pointwise_log_likelihood``, or its posterior has no particles.
    ValueError
        If there is not one weight for each row.

    Warns
    -----
    ConvergenceWarning
        If the log likelihood of some rows has a variance above 0.4, or the particles' weights are
        not posterior weights.

    References
    ----------
    Watanabe, S. (2010). Asymptotic equivalence of Bayes cross validation and widely applicable
    information criterion in singular learning theory. Journal of Machine Learning Research 11.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.model_comparison import waic
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianLogisticRegressionPMD(prior_scale=1.0, random_state=0).fit(X, y)
    >>> waic(model, X, y).method
    'waic'
    """
    log_weight, table, _ = _pointwise(estimator, X, y)
    weight = np.exp(log_weight)
    table = table[weight > _NEGLIGIBLE]  # Others may be where rows are impossible.
    log_weight = log_weights(log_weight[weight > _NEGLIGIBLE])
    weight = np.exp(log_weight)
    with np.errstate(invalid="ignore"):
        variance = weight @ (table - weight @ table) ** 2
    variance[np.isnan(variance)] = np.inf
    # Of equal weights this is the variance that divides by m - 1.
    variance /= 1.0 - weight @ weight if weight.max() < 1.0 else 1.0
    times = checked_weights(sample_weight, table.T)
    pointwise = logsumexp(log_weight[:, None] + table, axis=0) - times * variance
    n_bad = int((variance > _LARGE_VARIANCE).sum())
    if n_bad:
        warnings.warn(
            f"The log likelihood of {n_bad} of {len(variance)} rows has a variance above "
            f"{_LARGE_VARIANCE}, where WAIC is off: use loo.",
            ConvergenceWarning,
            stacklevel=2,
        )
    seen = logsumexp(log_weight[:, None] + table, axis=0)
    return _result("waic", seen, pointwise, None, n_bad)


def compare(
    models: Mapping[str, Any],
    X: MatrixLike | None = None,
    y: ArrayLike | None = None,
    by: Literal["loo", "waic", "evidence"] = "loo",
) -> dict[str, Any]:
    """Compare models by how well they predict rows, or by their evidence.

    Parameters
    ----------
    models : dict of str to estimator or ExpectedLogDensity
        Estimators fitted to the same rows and targets, without row weights, which `loo` takes, or
        results of `loo` or `waic`. With ``by="evidence"`` only fitted estimators.
    X : array-like of shape (n, n_features), default=None
        The rows of the fits, unless results are given. A pipeline transforms them.
    y : array-like of shape (n,), default=None
        Targets of the rows.
    by : {"loo", "waic", "evidence"}, default="loo"
        Criterion. With ``"evidence"`` the weights are posterior probabilities of the models, which
        have equal prior probabilities. The evidence depends on the priors, however many rows there
        are.

    Returns
    -------
    dict of str to list or ndarray of shape (n_models,)
        Columns ready for `pandas.DataFrame`, the best model first: ``name``; ``elpd`` (or
        ``log_evidence``), in nats; ``p``; ``difference`` from the best and ``difference_se``, its
        standard error (for `loo` and `waic`, from the differences row by row); ``weight``, by
        stacking (Yao et al. 2018) or from the evidence; ``se``; ``n_bad``. With ``by="evidence"``
        there is no ``p`` and no ``n_bad``.

    Raises
    ------
    ValueError
        If there are fewer than two models, or their numbers of rows differ.

    References
    ----------
    Yao, Y., Vehtari, A., Simpson, D. and Gelman, A. (2018). Using stacking to average Bayesian
    predictive distributions. Bayesian Analysis 13.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.model_comparison import compare
    >>> X, y = load_iris(return_X_y=True)
    >>> narrow = BayesianLogisticRegressionPMD(prior_scale=0.1, random_state=0).fit(X, y)
    >>> wide = BayesianLogisticRegressionPMD(prior_scale=2.5, random_state=0).fit(X, y)
    >>> compare({"narrow": narrow, "wide": wide}, X, y)["name"]
    ['wide', 'narrow']
    """
    if by not in ("loo", "waic", "evidence"):
        raise ValueError(f"by must be 'loo', 'waic' or 'evidence', got {by!r}.")
    if not hasattr(models, "items") or len(models) < 2:
        raise ValueError("models must be a dict of two fitted estimators or more, by names.")
    if by == "evidence":
        return _by_evidence(models)
    estimate = {"loo": loo, "waic": waic}[by]
    if X is None and not all(isinstance(one, ExpectedLogDensity) for one in models.values()):
        own = [name for name, one in models.items() if getattr(one, "n_features_in_", None)]
        if own:
            raise ValueError(
                f"compare needs the rows that {own[0]!r} was fitted to: give X and y, or results "
                f"of {by}."
            )
    results = {
        name: one if isinstance(one, ExpectedLogDensity) else estimate(one, X, y)
        for name, one in models.items()
    }
    lengths = {name: len(one.pointwise) for name, one in results.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"models must be compared on the same rows, got {lengths}.")
    if len({one.method for one in results.values()}) > 1:
        raise ValueError("models must be compared by one method, got results of loo and of waic.")
    names = sorted(results, key=lambda name: -results[name].elpd)
    table = np.array([results[name].pointwise for name in names])
    behind, one = table[0] - table, np.ones(table.shape[1])
    return {
        "name": names,
        "elpd": table.sum(axis=1),
        "p": np.array([results[name].p for name in names]),
        "difference": behind.sum(axis=1),
        "difference_se": _standard_error(behind),
        "weight": np.exp(stacked(table.T, one, max_iter=_MAX_ITER, tol=_TOL, dtype=np.float64)),
        "se": np.array([results[name].se for name in names]),
        "n_bad": np.array([results[name].n_bad for name in names]),
    }


def _by_evidence(models):
    posteriors = {name: innermost(one, None)[0].posterior_ for name, one in models.items()}
    evidence = {name: (one.log_evidence, one.log_evidence_se) for name, one in posteriors.items()}
    names = sorted(evidence, key=lambda name: -evidence[name][0])
    value, error = np.array([evidence[name] for name in names]).T
    return {
        "name": names,
        "log_evidence": value,
        "difference": value[0] - value,
        "difference_se": np.where(np.arange(len(names)) > 0, np.hypot(error, error[0]), 0.0),
        "weight": np.exp(value - logsumexp(value)),
        "se": error,
    }


def _pointwise(estimator, X, y):
    """Log weights of the particles (m,), log likelihoods of the rows (m, n), and ess.

    Particles without weight are left out: they may be where rows are impossible.
    """
    inner, X = innermost(estimator, X)
    if not hasattr(inner, "pointwise_log_likelihood"):
        other = "loo" if hasattr(inner, "_leave_one_out") else "cross-validation"
        raise TypeError(
            f"{type(inner).__name__} has no pointwise_log_likelihood, the log-likelihood of each "
            f"row under each particle. Compare by {other} (skpmd.metrics has scorers of "
            "distributions, for cross_val_score)."
        )
    posterior = inner.posterior_
    if not hasattr(posterior, "particles"):
        raise TypeError(
            f"{type(posterior).__name__} has no particles to weigh: use cross-validation."
        )
    table = inner.pointwise_log_likelihood(X, y)
    if posterior.weighting != "posterior":
        warn(
            f"The particles' weights are no plain posterior weights ({posterior.weighting}): "
            "leaving out a row would change them otherwise.",
        )
    is_alive = posterior.weights > 0.0
    return posterior.log_weights[is_alive], np.asarray(table)[is_alive], posterior.ess


def _left_out(estimator, X, y, sample_weight, by):
    """`LeftOut` of the rows: in closed form, or where rows are independent given particles."""
    inner, rows = innermost(estimator, X)
    how = {} if by is None else {"by": by}
    if by is not None and not hasattr(inner, "groups"):
        raise TypeError(f"by={by!r} is for groups, and {type(inner).__name__} has none: set None.")
    if hasattr(inner, "_leave_one_out"):
        times = checked_weights(sample_weight, np.zeros(_num_samples(rows)))
        left_out = inner._leave_one_out(rows, y, times, **how)
        if left_out is not None:
            return left_out
    log_weight, table, ess = _pointwise(estimator, X, y)
    times = checked_weights(sample_weight, table.T)
    if hasattr(inner, "_check_rows_of_fit") and not (X is None and y is None):
        inner._check_rows_of_fit(times)
    seen = logsumexp(log_weight[:, None] + table, axis=0)
    evidence = np.multiply(times, table, out=np.zeros(table.shape), where=times > 0.0)
    closing = inner._closing_rows(rows, y, table) if hasattr(inner, "_closing_rows") else None
    return LeftOut(log_weight, table, evidence, seen, ess, closing)


def _result(method, seen, pointwise, k, n_bad, mcse=None):
    elpd = float(pointwise.sum())
    error = float(_standard_error(pointwise[None])[0])
    return ExpectedLogDensity(
        method, elpd, error, float(seen.sum()) - elpd, pointwise, k, int(n_bad), mcse
    )


def _standard_error(values):
    """Of sums over rows, (k, n); nan where one of them is infinite."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(values.shape[1]) * values.std(axis=1)
