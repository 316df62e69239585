"""Some columns of a mixture: which ones a user names, and their densities given others or not.

Densities are averages over particles. With x = (a, b) a component's Student of centre m, scale
matrix S and df degrees of freedom has the marginal (m_a, S_aa, df), and given a the conditional
(Bishop 2006, 2.3.1; Ding 2016 for Students)

    centre  m_b + S_ba S_aa^-1 (a - m_a),
    scale   (df + d) / (df + k) (S_bb - S_ba S_aa^-1 S_ab),   df + k degrees of freedom,

d the squared Mahalanobis distance of a, and k its number of columns; a normal is the limit. A
product of univariate Students has the conditional of a product: its other columns as they were. The
weights of the components are multiplied by their densities of a.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import _get_feature_names

from skpmd._base.utils import place_of_column
from skpmd.mixture._particles import Students, cholesky_of_rows, root_times


class Components(NamedTuple):
    """What c components have of wanted columns, q of them, given k known ones; scaled columns."""

    log_weights: np.ndarray  # (c,): Before anything is known.
    known: Students  # Of the known columns alone.
    # (c, k, k): Inverse of the Cholesky factor of S_aa; (c, k) where scale matrices are diagonal.
    whitener: np.ndarray
    # (c, q, k): Changes of the centre by whitened known values; None where there are none.
    slope: np.ndarray | None
    location: np.ndarray  # (c, q): m_b.
    # (c, q, q), or (c, q): Cholesky factor of the conditional scale matrix, but for a factor.
    root: np.ndarray
    df: np.ndarray  # (c,): Of the conditional; inf is a normal.


class Given(NamedTuple):
    """Components of the wanted columns, given the known values of n rows; scaled columns."""

    weights: np.ndarray  # (n, c).
    location: np.ndarray  # (n, c, q).
    factor: np.ndarray  # (n, c): Of the scale matrices.


def components_of(particles, known, wanted):
    """`Components` of `MixtureParticles` for places of known and wanted columns."""
    p, k = particles.location.shape[-1], len(known)
    both = np.concatenate([known, wanted]).astype(int)
    location = particles.location.reshape(-1, p)[:, both]
    df, diagonal = particles.df.ravel(), particles.is_diagonal
    if diagonal:
        root = particles.scale_cholesky.reshape(-1, p)[:, both]
        parts = root[:, :k], root[:, k:]
    else:
        root = cholesky_of_rows(particles.scale_cholesky.reshape(-1, p, p)[:, both])
        parts = root[:, :k, :k], root[:, k:, k:]
    students = Students(location[:, :k], parts[0], df, particles.product)
    return Components(
        log_weights=particles.log_predictive.ravel(),
        known=students,
        whitener=1.0 / parts[0] if diagonal else np.linalg.inv(parts[0]),
        slope=None if diagonal else root[:, k:, :k],
        location=location[:, k:],
        root=parts[1],
        df=df if students.product else df + k,
    )


def given(components, values):
    """`Given` of components for rows of known values (n, k), in scaled columns."""
    known, c = components.known, len(components.df)
    weights = softmax(components.log_weights + known.log_density(values), axis=1)
    off = values[:, None] - known.location
    white = root_times(components.whitener[None], off)
    if components.slope is None:
        location = np.broadcast_to(components.location, (len(values), *components.location.shape))
    else:
        location = components.location + np.einsum("cqk,nck->ncq", components.slope, white)
    factor = np.ones((len(values), c))
    if not known.product:
        finite = np.where(known.normal, 1.0, known.df)
        grown = (finite + (white**2).sum(axis=2)) / (finite + values.shape[1])
        factor = np.where(known.normal, 1.0, grown)
    return Given(weights, location, factor)


# ---------------------------------------------------------------------- columns by name
def places_of(columns, n_features, names=None):
    """Places (k,) of distinct columns among ``n_features``, in the order given.

    ``columns`` is one place or name, several of them, or a mask; ``names`` (n_features,) are those
    of the fit, None where it had none.
    """
    given = np.atleast_1d(np.asarray(columns))
    if given.ndim != 1 or not given.size:
        raise ValueError(f"columns must be one column or a list of some, got {columns!r}.")
    if given.dtype.kind == "b":
        if len(given) != n_features or not given.any():
            raise ValueError(
                f"columns has a mask of {len(given)} entries, {given.sum()} of them True, for the "
                f"{n_features} columns of the fit: give one for each, and one True or more."
            )
        return np.flatnonzero(given)
    names = None if names is None else names.tolist()
    found = [place_of_column(one, names, n_features, "columns") for one in given.tolist()]
    if len(set(found)) < len(found):
        raise ValueError(f"columns must differ from each other, got {columns!r}.")
    return np.array(found)


def values_of(values, places, names=None):
    """The columns of a data frame that have the names of the places; other values as they are.

    ``names`` (n_features,) are those of the fit, None where it had none.
    """
    found = None if names is None else _get_feature_names(values)
    if found is None:
        return values
    wanted = [str(name) for name in names[places]]
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise ValueError(
            f"values has no columns {missing}, as they were called in the fit: add them, or give "
            "an array."
        )
    return values.select(wanted) if hasattr(values, "select") else values[wanted]
