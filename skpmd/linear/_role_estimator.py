"""Estimators whose constructors name columns of X that play roles, and so have no coefficient."""

import numpy as np
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skpmd.linear._group_estimator import GroupColumns
from skpmd.linear._make_model import per_column
from skpmd.linear._roles import known_part, places_of, split

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
        return (X, *known_part(columns), columns.get("groups"))

    def _places(self):
        roles = {role: getattr(self, role) for role in self._roles}
        roles["groups"] = self._factor
        return places_of(roles, getattr(self, "feature_names_in_", None), self.n_features_in_)

    def _features(self):
        """Names of the columns that have coefficients."""
        names, places = _check_feature_names_in(self), self._places().values()
        return np.delete(names, list(places)) if places else names

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
