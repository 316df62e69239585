"""skpmd's regressors with the interface of skpro, for its pipelines, metrics and searches.

Importing this needs the extra: ``pip install skpmd[skpro]``.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from skpmd._typing import Estimator
from skpmd.sparse_gp import SparseGPRegressorPMD

try:
    import pandas as pd
    from skpro.regression.base import BaseProbaRegressor
except ImportError as error:
    raise ImportError("skpmd.skpro needs skpro 2.12 or newer: pip install skpmd[skpro].") from error


class SkproRegressor(BaseProbaRegressor):
    """A regressor of skpmd as a probabilistic regressor of skpro.

    Parameters
    ----------
    estimator : estimator
        Any estimator whose ``predict_proba`` returns a `skpmd.predictive.NormalMixture`. It is
        cloned.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone.

    Examples
    --------
    >>> import pandas as pd
    >>> from skpmd import SparseGPRegressorPMD
    >>> from skpmd.skpro import SkproRegressor
    >>> X, y = pd.DataFrame({"x": [0.0, 1.0, 2.0]}), pd.DataFrame({"y": [0.0, 1.0, 0.0]})
    >>> model = SkproRegressor(SparseGPRegressorPMD(random_state=0)).fit(X, y)
    >>> model.predict_interval(X, coverage=0.9).shape
    (3, 2)
    """

    _tags = {
        "authors": "skpmd developers",
        "capability:multioutput": False,
        "capability:missing": False,
        "capability:update": True,
    }

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X, y):
        self._targets = y.columns
        self.estimator_ = clone(self.estimator).fit(X.to_numpy(), y.iloc[:, 0].to_numpy())
        return self

    def _update(self, X, y):
        self.estimator_.partial_fit(X.to_numpy(), y.iloc[:, 0].to_numpy())
        return self

    def _predict(self, X):
        mean = self.estimator_.predict(X.to_numpy())
        return pd.DataFrame(mean, index=X.index, columns=self._targets)

    def _predict_proba(self, X):
        return self.estimator_.predict_proba(X.to_numpy()).to_skpro(X.index, self._targets)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Parameters for skpro's own checks.

        Parameters
        ----------
        parameter_set : str, default="default"
            Ignored, because there is only one set.

        Returns
        -------
        list of dict
            Parameters for two estimators.
        """
        few = SparseGPRegressorPMD(n_subset=50, n_inducing=20, random_state=0)
        return [
            {"estimator": few},
            {"estimator": clone(few).set_params(n_particles=3, likelihood="student_t")},
        ]
