"""Fitted powers: the exponent of a curve, its standard error, and what the theory says."""

import numpy as np


def fitted(of, sizes, samples, bound, relation):
    """One row of the study: the exponent of the mean of some samples as a power of a size.

    Parameters
    ----------
    of : str
        What is fitted.
    sizes : sequence of k
        The sizes.
    samples : array-like of shape (k,) or (k, n)
        Values at each size; n repetitions, each with one seed at all sizes. The exponent's
        standard error comes from the n shares that they have in it (delta method), which takes
        care of what a seed's values have in common.
    bound : float
        The exponent of the theory.
    relation : {"equal", "at most"}
        Whether the exponent should equal it, or be as small or smaller.
    """
    samples = np.asarray(samples, dtype=float).reshape(len(sizes), -1)
    mean = samples.mean(axis=1)
    slope = error = np.nan
    if np.isfinite(mean).all():
        place = np.log(sizes) - np.log(sizes).mean()
        weight = place / (place @ place)
        slope = weight @ np.log(mean)
        error = (weight @ (samples / mean[:, None])).std() / np.sqrt(samples.shape[1])
    return {
        "part": "slope",
        "of": of,
        "slope": float(slope),
        "standard_error": float(error) if samples.shape[1] > 1 else None,
        "bound": bound,
        "relation": relation,
    }
