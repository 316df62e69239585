"""Estimators whose constructors name columns of X that play roles, and so have no coefficient."""

import numpy as np
from sklearn.utils.validation import _check_feature_names_in

from skpmd.linear._roles import known_part, places_of, split


class RoleColumns:
    """Mixin of estimators; ``_roles`` are the names of parameters that are None or a column."""

    _roles = ("offset",)

    def _split(self, X):
        """Columns that have coefficients, the offset of linear predictors and trials, or None."""
        X, columns = split(X, self._places())
        return (X, *known_part(columns))

    def _places(self):
        roles = {role: getattr(self, role) for role in self._roles}
        return places_of(roles, getattr(self, "feature_names_in_", None), self.n_features_in_)

    def _features(self):
        """Names of the columns that have coefficients."""
        names, places = _check_feature_names_in(self), self._places().values()
        return np.delete(names, list(places)) if places else names

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
