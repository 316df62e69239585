"""What estimators of linear predictors say of rows: draws and likelihoods, and of their priors."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.leave_one_out import check_rows_of_fit
from skpmd._base.results import Results
from skpmd._base.steps import Records
from skpmd._base.utils import as_generator, check_n_draws
from skpmd._typing import Array, ArrayLike, MatrixLike, RandomState
from skpmd.engine.model import Batch
from skpmd.linear._column_scale import own_particles
from skpmd.linear._crossed import AsTheyAre
from skpmd.linear._group_estimator import GroupColumns
from skpmd.linear._make_model import PRIORS, per_column
from skpmd.linear._task import LinearState
from skpmd.posterior import Posterior


class RowStatements(GroupColumns):
    """Mixin of estimators; they offer `_draw` and `_log_likelihoods`.

    The former are targets (n, n_samples), of which each column is that of one particle, the latter
    (m, n) of checked rows under all particles or, in given units, draws; without groups.
    """

    def sample_y(self, X: MatrixLike, n_samples: int = 1, random_state: RandomState = 0) -> Array:
        """Draw y from the posterior predictive distribution.

        Each draw takes one particle, in proportion to its weight, for all rows: y of different rows
        are dependent as they are in the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Columns as in `fit`.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            Labels, or numbers in the units of y.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        check_is_fitted(self)
        n_samples, rng = check_n_draws("n_samples", n_samples), as_generator(random_state)
        return self._draw(X, n_samples, rng)

    def pointwise_log_likelihood(
        self, X: MatrixLike, y: ArrayLike, n_draws: int | None = None, random_state: RandomState = 0
    ) -> Array:
        """Log-likelihood of each row under each particle, for leave-one-out estimates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Columns as in `fit`.
        y : array-like of shape (n_rows,)
            Targets: labels among ``classes_``, or numbers that the family can have.
        n_draws : int, optional
            Number of draws of equal weight, which are particles taken in proportion to their
            weights, as ArviZ's ``loo`` expects. By default all particles, with the weights
            ``posterior_.weights``.
        random_state : int, RandomState, Generator or None, default=0
            Source of the draws.

        Returns
        -------
        ndarray of shape (n_draws, n_rows) or (m, n_rows)
            log p(y_n | x_n, theta_i) in nats, without row weights and at temperature 1.

        Raises
        ------
        ValueError
            If y holds labels that are not among ``classes_``, or numbers that the family cannot
            have, or ``n_draws`` is not a positive integer.
        """
        check_is_fitted(self)
        (X, y), draws = self._validated(X, y), None
        if n_draws is not None:
            draws = self.posterior_.sample(check_n_draws("n_draws", n_draws), random_state)
        if self._groups_of_fit is not None:
            model, theta, batch, codes = self._likelihood_of(X, y, np.ones(len(y)), draws)
            return self._rows_given_groups(model, theta, batch, codes)[0]
        return self._log_likelihoods(X, y, draws)

    def sample_prior_y(
        self, X: MatrixLike, y: ArrayLike, n_samples: int = 1, random_state: RandomState = 0
    ) -> Array:
        """Draw y from the prior predictive distribution; no fit is needed.

        Each draw takes coordinates from the prior that a fit to X and y would have, for all rows,
        and with groups an effect for each group, which its rows share.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Columns, those of roles included.
        y : array-like of shape (n_rows,)
            Targets, of which default priors need the location and the unit, or labels, of which
            the classes are needed.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            Draws, in the units of y, or labels.

        Raises
        ------
        ValueError
            If X and y are none to fit to, ``n_samples`` is not a positive integer, or
            ``prior_scale`` is ``"evidence"``.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skpmd import BayesianGLMRegressorPMD
        >>> X, y = load_diabetes(return_X_y=True)
        >>> BayesianGLMRegressorPMD().sample_prior_y(X, y, n_samples=100).shape
        (442, 100)
        """
        self._validate_params()
        n, rng = check_n_draws("n_samples", n_samples), as_generator(random_state)
        one = type(self)(**self.get_params(deep=False))
        rows, response = one._given_rows(X, y, None)
        theta, units = one._drawn_prior(rows, one._features(), response, n, rng)
        frame, has_intercept = response.frame(units), one._parameters().fit_intercept
        results = Results(Posterior(frame.inward(theta), np.zeros(n), frame=frame), Records(), {})
        state = LinearState(
            None, results, 0, None, has_intercept, rows.data.X.dtype, units=units,
            response=response,
        )  # fmt: skip
        one._set_state(state)
        effects = one._effects_of_prior(response, results.posterior.particles, rng)
        one._set_state(state._replace(effects=effects))
        return one._one_each(X, n, rng)

    # ------------------------------------------------------------------- likelihoods of rows
    def _own(self, draws):
        """All particles, or draws in given units, in those that the posterior was found in."""
        frame = self.posterior_.frame
        if draws is None:
            return own_particles(self.posterior_)
        return draws if frame is None else frame.outward(draws)

    def _check_rows_of_fit(self, times):
        """ValueError where rows that are to be left out are not those of the fit."""
        if self._state.stream is not None:
            check_rows_of_fit(times, self._state.stream.seen)

    @result
    def _width(self):
        """How many coefficients there are, with an intercept."""
        return self._state.response.n_rows * (self._n_slopes + self._state.fit_intercept)

    def _likelihood_of(self, X, y, weight, draws=None):
        """The model of coefficients, these (m, d), checked rows in its units, and codes or None.

        Codes are of groups, and coefficients of all particles, or of ``draws`` in given units.
        """
        X, offset, trials, codes = self._split(X)
        if codes is not None:
            self._refuse_several("a likelihood of rows", self._groups_of_fit)
        y, response = self._numbers(y), self._state.response
        response.family.check(y, trials)
        model = response.model(AsTheyAre(), self._state.fit_intercept, self._state.units.shift)
        if offset is not None:
            offset = offset / response.unit
        X, y = self._state.units.rows(X), response.targets(y)
        theta = self._own(draws)[:, : self._width + response.n_dispersions]
        return model, theta, Batch(X, y, weight, offset=offset, exposure=trials), codes

    def prior_summary(self) -> dict[str, list[str]]:
        """The prior of each coordinate of the fit, in the units of the data.

        Returns
        -------
        dict of str to list of str
            Columns ready for `pandas.DataFrame`: ``name``, as in ``posterior_.names``, and
            ``prior``.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skpmd import BayesianGLMRegressorPMD
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
        >>> model = BayesianGLMRegressorPMD(random_state=0).fit(X[["bmi", "age"]], y)
        >>> for row in zip(*model.prior_summary().values()):
        ...     print(*row)
        bmi Normal(0, 43.62)
        age Normal(0, 14.7)
        intercept Normal(152.1, 192.5) at the columns' means
        sigma half-Student-t(3, 192.5)
        """
        check_is_fitted(self)
        state, names, features = self._state, self.posterior_.names, self._features()
        response, shape = state.response, (state.response.n_rows, len(features))
        if not isinstance(self.prior, str):
            return {"name": list(names), "prior": ["an earlier posterior"] * len(names)}
        text, priors = PRIORS[self.prior].replace("df", f"{self.prior_df:g}"), []
        mean = per_column("prior_mean", self.prior_mean, features, shape[0], 0.0)
        scale_of = np.ones(shape[1]) if state.units is None else state.units.scale
        mean, scale = (
            np.broadcast_to(one, shape) * (response.unit / scale_of)
            for one in (mean, state.prior_scale)
        )
        of_intercept, centre = [], response.centre + response.location
        if state.fit_intercept:
            at = self.intercept_prior_scale * response.unit
            is_centred = state.units is not None and state.units.centre.any()
            where = " at the columns' means" * bool(is_centred)
            of_intercept = [PRIORS["normal"].format(centre, at) + where]
        for of_row in zip(mean, scale, strict=True):
            priors += [text.format(*pair) for pair in zip(*of_row, strict=True)] + of_intercept
        priors += response.described(scale_of)
        return {"name": list(names[: len(priors)]), "prior": priors}

    def _scale_of_prior(self, default):
        """``prior_scale`` with a default for ``"auto"``, and for columns that a dict leaves out."""
        scale = self.prior_scale
        if isinstance(scale, str) and scale == "auto":
            return default
        if isinstance(scale, dict) and hasattr(self, "n_features_in_"):
            keys = (key if isinstance(key, tuple) else (key,) for key in scale)
            others = set(map(str, self._features())).difference(*keys)
            return {**dict.fromkeys(sorted(others), default), **scale}
        return scale
