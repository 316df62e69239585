"""Columns of X that play roles: exposure, offset, trials. They go with X wherever it goes.

Constructors of estimators name them, and they have no coefficient.
"""

from functools import partial
from numbers import Integral

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.results import Results
from skpmd._base.steps import Records
from skpmd._base.utils import as_generator, check_n_draws
from skpmd._rows.table import group_size, is_in_memory, mapped
from skpmd._typing import Array, ArrayLike, MatrixLike, RandomState
from skpmd.engine.model import Batch
from skpmd.linear._crossed import AsTheyAre
from skpmd.linear._group_estimator import GroupColumns
from skpmd.linear._make_model import PRIORS, few, per_column
from skpmd.linear._task import LinearState
from skpmd.posterior import Posterior

_MAX_EXPOSURE = 1e300


class RoleColumns(GroupColumns):
    """Mixin of estimators; ``_roles`` are the names of parameters that are None or a column."""

    _roles = ("offset",)

    def _split(self, X):
        """Columns with coefficients, the offset of predictors, trials and groups, or None."""
        X, columns = split(X, self._places())
        if not X.shape[1] and not getattr(self, "fit_intercept", True):
            raise ValueError(
                "X has no columns beside those of roles, and fit_intercept=False leaves no "
                "coefficient: set True, or give a column."
            )
        codes = [one for role, one in columns.items() if role.startswith("groups")]
        codes = np.column_stack(codes) if len(codes) > 1 else codes[0] if codes else None
        return (X, *known_part(columns), codes)

    def _places(self):
        """{role: place}, of the fit where there is one: parameters may have been set since."""
        state = getattr(self, "_state", None)
        if state is not None and state.roles is not None:
            return state.roles
        return self._places_in(getattr(self, "feature_names_in_", None), self.n_features_in_)

    def _places_in(self, names, n_columns):
        roles = {role: getattr(self, role) for role in self._roles}
        return places_of(roles | self._roles_of_groups(), names, n_columns)

    def _set_state(self, state):
        super()._set_state(state._replace(roles=self._places()))

    def _features(self):
        """Names of the columns that have coefficients."""
        names, places = _check_feature_names_in(self), self._places().values()
        return np.delete(names, list(places)) if places else names

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


def places_of(roles, names, n_columns):
    """{role: place} of the roles that are given, {role: name or place}."""
    found = {}
    for role, given in roles.items():
        if given is None:
            continue
        if isinstance(given, str):
            if names is None or given not in names:
                known = (
                    'X has no names. Transformers keep them by set_output(transform="pandas"), and '
                    f"a place, such as {role}=-1 of the last column, needs none"
                )
                if names is not None:
                    known = f"its columns are {few(names)}"
                raise ValueError(f"{role}={given!r} is no column of X: {known}.")
            place = list(names).index(given)
        elif isinstance(given, Integral) and not isinstance(given, bool):
            place = int(given)
            if not -n_columns <= place < n_columns:
                raise ValueError(f"{role}={given} is no column of X, which has {n_columns}.")
            place %= n_columns
        else:
            raise ValueError(f"{role} must be the name or the place of a column, got {given!r}.")
        if place in found.values():
            other = next(name for name, one in found.items() if one == place)
            raise ValueError(f"{role} and {other} are the same column {given!r}: name another one.")
        found[role] = place
    return found


def split(X, places):
    """X without the columns of roles, and these, {role: (n,)}."""
    if not places:
        return X, {}
    left = np.setdiff1d(np.arange(X.shape[1]), list(places.values()))
    if not len(left) and not any(role.startswith("groups") for role in places):
        raise ValueError("X has no columns beside those of roles: give one that has a coefficient.")
    columns = {role: _column(X, place) for role, place in places.items()}
    return mapped(partial(_some_columns, left), X), columns


def known_part(columns):
    """The offset of linear predictors, or None, and trials, or None, of columns of roles."""
    offset, exposure, trials = (columns.get(role) for role in ("offset", "exposure", "trials"))
    if exposure is not None:
        _check("exposure", exposure, (exposure > 0.0) & (exposure <= _MAX_EXPOSURE), "above 0")
        offset = np.log(exposure) + (0.0 if offset is None else offset)
    if trials is not None:
        _check("trials", trials, (trials >= 1.0) & (trials == np.floor(trials)), "whole, from 1 on")
    return offset, trials


def _some_columns(places, X):
    some = X[:, places]
    return some if issparse(some) else np.ascontiguousarray(some)


def _column(X, place):
    """One column in double precision, (n,)."""
    step = X.shape[0] if is_in_memory(X) else group_size(X)
    parts = [X[start : start + step][:, [place]] for start in range(0, X.shape[0], max(1, step))]
    parts = [part.toarray() if issparse(part) else part for part in parts]
    return np.concatenate(parts)[:, 0].astype(np.float64)


def _check(role, values, is_right, what):
    if not is_right.all():
        i = int(np.flatnonzero(~is_right)[0])
        raise ValueError(
            f"The column of {role} must hold numbers {what}, and has {values[i]:g} in row {i}: "
            "leave such rows out."
        )
