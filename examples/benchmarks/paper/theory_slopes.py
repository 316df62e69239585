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
    samples : array-like of shape (k,) or (k, n), or list of k arrays of several lengths
        Values at each size. With n repetitions at all sizes, each with one seed, the exponent's
        standard error comes from the n shares that they have in it (delta method), which takes
        care of what a seed's values have in common; with other numbers of repetitions at each size
        from those of their means; with a single value at each size from what the power leaves.
    bound : float
        The exponent of the theory.
    relation : {"equal", "at most"}
        Whether the exponent should equal it, or be as small or smaller.

    Returns
    -------
    dict
        ``from_half`` and ``from_double`` are how many standard errors the exponent is away from
        half and from twice that of the theory, on the side of the latter: negative beyond them.
    """
    samples = [np.atleast_1d(np.asarray(own, dtype=float)) for own in samples]
    mean = np.array([own.mean() for own in samples])
    slope = error = np.nan
    if np.isfinite(mean).all():
        place = np.log(sizes) - np.log(sizes).mean()
        weight = place / (place @ place)
        slope = float(weight @ np.log(mean))
        error = _standard_error(samples, mean, place, weight, slope)
    known = np.isfinite(error) and error > 0.0 and bound != 0.0
    return {
        "part": "slope",
        "of": of,
        "slope": float(slope),
        "standard_error": float(error) if np.isfinite(error) else None,
        "bound": bound,
        "relation": relation,
        "from_half": float((slope / bound - 0.5) * abs(bound) / error) if known else None,
        "from_double": float((2.0 - slope / bound) * abs(bound) / error) if known else None,
    }


def _standard_error(samples, mean, place, weight, slope):
    lengths = {len(own) for own in samples}
    if lengths == {1}:
        if len(mean) < 3:
            return np.nan
        left = np.log(mean) - np.log(mean).mean() - slope * place
        return np.sqrt(left @ left / (len(mean) - 2) / (place @ place))
    if len(lengths) == 1:
        shares = np.array(samples) / mean[:, None]
        return (weight @ shares).std(ddof=1) / np.sqrt(shares.shape[1])
    spread = np.array([own.std(ddof=1) / np.sqrt(len(own)) for own in samples]) / mean
    return np.sqrt((weight**2) @ spread**2)
