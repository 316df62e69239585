"""The record of a stream's steps, which does not grow for ever."""

from typing import NamedTuple

import numpy as np

_MAX_RECORDS = 10_000  # A stream may go on for millions of steps.


class Records(NamedTuple):
    """Records of the last steps, ten thousand at most, and the number of all."""

    last: list = []
    n: int = 0

    def extended(self, infos):
        """These and those of further steps."""
        return self.joined(Records(infos, len(infos)))

    def joined(self, other):
        """These and the `Records` of what came after."""
        return Records([*self.last, *other.last][-_MAX_RECORDS:], self.n + other.n)

    def numbers(self):
        """The number of each step of `last`, counted from 1."""
        return np.arange(self.n - len(self.last) + 1, self.n + 1)
