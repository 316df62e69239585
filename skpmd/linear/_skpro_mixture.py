"""Predictive distributions of linear models as distributions of skpro."""

from functools import cache

import numpy as np


@cache
def _skpro_class():
    """A distribution of skpro that asks a `FamilyMixture`; made when asked for, as skpro is extra.

    Its parameter is that object: a subset of its rows, or a copy by parameters, asks a part of it.
    """
    try:
        from skpro.distributions.base import BaseDistribution
    except ImportError as error:
        raise ImportError(
            "to_skpro needs skpro 2.12 or newer: pip install skpmd[skpro]."
        ) from error

    class SkproFamilyMixture(BaseDistribution):
        _tags = {
            "capabilities:approx": ["pdfnorm"],
            "capabilities:exact": ["mean", "var", "energy", "pdf", "log_pdf", "pmf", "log_pmf",
                                   "cdf", "ppf"],
            "broadcast_init": "off",
        }  # fmt: skip

        def __init__(self, mixture, index=None, columns=None):
            self.mixture = mixture
            super().__init__(index=index, columns=columns)
            self.set_tags(**{"distr:measuretype": "discrete" if mixture.is_count else "continuous"})

        def _column(self, values):
            return values[0] if self.ndim == 0 else np.reshape(values, self.shape)

        def _mean(self):
            return self._column(self.mixture.mean())

        def _var(self):
            return self._column(self.mixture.var())

        _pdf, _log_pdf, _pmf, _log_pmf, _cdf, _energy_x = map(
            _of_targets, ("pdf", "log_pdf", "pmf", "log_pmf", "cdf", "energy")
        )

        def _energy_self(self):
            return self._column(self.mixture.energy())

        def _ppf(self, p):
            # Each row has its own probability, though mostly all have the same.
            p, found = np.ravel(p), np.empty(len(self.mixture))
            for one in np.unique(p):
                found[p == one] = self.mixture[p == one].ppf(one)
            return self._column(found)

        def _iloc(self, rowidx=None, colidx=None):
            rows = slice(None) if rowidx is None else rowidx
            columns = self.columns if colidx is None else self.columns[colidx]
            return type(self)(self.mixture[rows], self.index[rows], columns)

        def _iat(self, rowidx=None, colidx=None):
            return type(self)(self.mixture[rowidx])

        def __reduce__(self):
            return skpro_mixture, (self.mixture, self.index, self.columns)

    return SkproFamilyMixture


def _of_targets(name):
    """A method that asks the mixture's of this name."""
    return lambda self, x: self._column(getattr(self.mixture, name)(np.ravel(x)))


def skpro_mixture(*parameters):
    """A `FamilyMixture`, and the names of its rows and its column, as a distribution of skpro."""
    return _skpro_class()(*parameters)
