"""Values of a density at points where its model may have no number."""

import numpy as np


class NotANumberError(FloatingPointError):
    """Some values of a user's function are nan or +inf; it carries all of that call.

    They are those of the very function that was called, and nothing to whoever adds to them.
    """

    def __init__(self, message, values):
        super().__init__(message)
        self.values = values


def without_errors(function):
    """A function of points (k, d) that is -inf where it has no number."""

    def values(theta):
        try:
            return function(theta)
        except FloatingPointError:
            if len(theta) == 1:
                return np.array([-np.inf])
            middle = len(theta) // 2  # There may be few of them among many.
            return np.concatenate([values(theta[:middle]), values(theta[middle:])])

    return values
