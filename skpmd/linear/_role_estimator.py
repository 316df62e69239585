"""Columns of X that play roles: exposure, offset, trials. They go with X wherever it goes.

Constructors of estimators name them, and they have no coefficient.
"""

from functools import partial
from numbers import Integral

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skpmd._base.results import Results
from skpmd._base.steps import Records
from skpmd._base.utils import as_generator, check_n_draws
from skpmd._rows.table import group_size, is_in_memory, mapped
from skpmd._typing import Array, ArrayLike, MatrixLike, RandomState
from skpmd.linear._group_estimator import GroupColumns
from skpmd.linear._make_model import few, per_column
from skpmd.linear._task import LinearState
from skpmd.posterior import Posterior

_MAX_EXPOSURE = 1e300
_PRIORS = {
    "normal": "Normal({:.4g}, {:.4g})", "laplace": "Laplace({:.4g}, {:.4g})",
    "student_t": "Student-t(df, {:.4g}, {:.4g})", "cauchy": "Cauchy({:.4g}, {:.4g})",
    "horseshoe": "horseshoe about {:.4g}, global scale {:.4g}",
}  # fmt: skip


class RoleColumns(GroupColumns):
    """Mixin of estimators; ``_roles`` are the names of parameters that are None or a column."""

    _roles = ("offset",)

    def _split(self, X):
        """Columns with coefficients, the offset of predictors, trials and groups, or None."""
        X, columns = split(X, self._places())
        codes = [columns[role] for role in self._roles_of_groups()]
        codes = np.column_stack(codes) if len(codes) > 1 else codes[0] if codes else None
        return (X, *known_part(columns), codes)

    def _places(self):
        roles = {role: getattr(self, role) for role in self._roles}
        roles |= self._roles_of_groups()
        return places_of(roles, getattr(self, "feature_names_in_", None), self.n_features_in_)

    def _features(self):
        """Names of the columns that have coefficients."""
        names, places = _check_feature_names_in(self), self._places().values()
        return np.delete(names, list(places)) if places else names

    def sample_prior_y(
        self, X: MatrixLike, y: ArrayLike, n_samples: int = 1, random_state: RandomState = 0
    ) -> Array:
        """Draw y from the prior predictive distribution; no fit is needed.

        Each draw takes coordinates from the prior that a fit to X and y would have, for all rows.

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
        if self._has_groups:
            raise ValueError(f"groups={self.groups!r} has no draws of the prior yet: set None.")
        n, rng = check_n_draws("n_samples", n_samples), as_generator(random_state)
        one = type(self)(**self.get_params(deep=False))
        rows, response = one._given_rows(X, y, None)
        theta, units = one._drawn_prior(rows, one._features(), response, n, rng)
        frame, has_intercept = response.frame(units), one._parameters().fit_intercept
        results = Results(Posterior(frame.inward(theta), np.zeros(n), frame=frame), Records(), {})
        one._set_state(
            LinearState(
                None, results, 0, None, has_intercept, rows.data.X.dtype, units=units,
                response=response,
            )
        )  # fmt: skip
        return one._one_each(X, n, rng)

    def _one_each(self, X, n, rng):
        """Draws (n_rows, n) of y, for so many particles."""
        return self._draw(X, n, rng)

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
        b[bmi] Normal(0, 43.62)
        b[age] Normal(0, 14.7)
        a Normal(152.1, 192.5)
        sigma half-Student-t(3, 192.5)
        """
        check_is_fitted(self)
        state, names = self._state, self.posterior_.names
        response, p = state.response, len(state.units.scale)
        if not isinstance(self.prior, str):
            return {"name": list(names), "prior": ["an earlier posterior"] * len(names)}
        text = _PRIORS[self.prior].replace("df", f"{self.prior_df:g}")
        mean = per_column("prior_mean", self.prior_mean, self._features(), 1, 0.0)
        per = response.unit / state.units.scale
        mean, scale = np.broadcast_to(mean, (1, p))[0] * per, np.ravel(state.prior_scale) * per
        priors = [text.format(*pair) for pair in zip(mean, scale, strict=True)]
        if state.fit_intercept:
            centre = response.centre + response.location
            scale = self.intercept_prior_scale * response.unit
            priors.append(_PRIORS["normal"].format(centre, scale))
        priors += response.described(state.units.scale)
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
    if not len(left):
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
